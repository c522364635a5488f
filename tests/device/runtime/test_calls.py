"""Functions from outside: C symbols, Python call-backs, LLVM's intrinsics, and users' intrinsics with rules."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from messages import without_line

from autosched import te
from autosched.building import build
from autosched.errors import BuildError, LowerError, UsageError
from autosched.ir.calls import (
    CallEffectKind,
    call_extern,
    call_intrin,
    call_llvm_pure_intrin,
    call_packed,
    call_pure_extern,
    register_intrin_lowering,
    register_op_attr,
    view_of,
)
from autosched.ir.expr import Expr, const
from autosched.ir.functions import get_global_func, load_library, register_func, register_numpy, register_symbol
from autosched.ir.stmt import Buffer, Evaluate, Function, Store, While, load, seq
from autosched.lowering.pipeline import lower_structure
from autosched.runtime.interpreter import interpret
from autosched.runtime.registry import import_c
from autosched.schedule.schedule import Schedule, create_schedule
from autosched.te.graph_json import graph_from_json, graph_to_json, workload_key

pytestmark = pytest.mark.usefixtures("own_registries")

X = np.linspace(0.1, 3, 37, dtype="float32")


def element_wise(body: Callable[[Any], Any], vector: bool = False) -> tuple[list[te.Tensor], Schedule]:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: body(a[i]), name="B")
    s = create_schedule(b)
    if vector:
        outer, inner = s[b].split("i", factor=8)
        s[b].vectorize(inner)
        s[b].parallel(outer)
    return [a, b], s


def everywhere(body: Callable[[Any], Any], vector: bool = False) -> np.ndarray:
    """The result on llvm, which is that of the interpreter and of the reference."""
    args, s = element_wise(body, vector)
    slow = np.zeros_like(X)
    interpret(lower_structure(s, args, "llvm").bind({}), [X, slow])
    fast = build(s, args=args)(X)
    np.testing.assert_allclose(fast, slow, rtol=2e-6)
    np.testing.assert_allclose(te.reference(args, [X])[0], fast, rtol=2e-6)
    return fast


@pytest.mark.parametrize("vector", [False, True])
def test_a_function_of_the_c_library(vector: bool) -> None:
    np.testing.assert_allclose(
        everywhere(lambda x: call_pure_extern("float32", "cosf", x) * 2, vector), 2 * np.cos(X), rtol=2e-6
    )


def test_arguments_keep_their_types() -> None:
    def body(x: Expr) -> Expr:
        return call_pure_extern("float64", "hypot", x.astype("float64"), te.const(2.0, "float64")).astype("float32")

    np.testing.assert_allclose(everywhere(body), np.hypot(X, 2), rtol=2e-6)


def test_narrow_integers_are_extended_as_c_wants_them() -> None:
    double = ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.c_int8, ctypes.c_bool)(lambda x, flip: -x if flip else x)
    register_symbol("flip_if", double)
    a = te.placeholder((4,), "int8", name="A")
    b = te.compute((4,), lambda i: call_extern("int8", "flip_if", a[i], a[i] < 0), name="B")
    values = np.array([-3, 5, -127, 0], "int8")
    np.testing.assert_array_equal(build(create_schedule(b), args=[a, b])(values), np.abs(values))


def test_intrinsics_of_llvm_are_whole_vectors() -> None:
    args, s = element_wise(lambda x: call_llvm_pure_intrin("float32", "llvm.fma", x, x, const(1.0)), vector=True)
    module = build(s, args=args)
    assert "call <8 x float> @llvm.fma(" in module.source
    np.testing.assert_allclose(module(X), X * X + 1, rtol=1e-6)
    np.testing.assert_allclose(
        everywhere(lambda x: call_llvm_pure_intrin("float32", "llvm.sqrt", te.const(1, "uint32"), x)), np.sqrt(X)
    )


@pytest.mark.parametrize("vector", [False, True])
def test_a_python_function(vector: bool) -> None:
    register_func("test.square", lambda x: x * x)
    np.testing.assert_allclose(
        everywhere(lambda x: call_packed("test.square", x, dtype="float32"), vector), X * X, rtol=1e-6
    )


@pytest.mark.parametrize("vector", [False, True])
def test_an_exception_arrives_as_itself(vector: bool) -> None:
    trouble = KeyError("not today")
    calls = []

    def fails(x: float) -> float:
        calls.append(x)
        if len(calls) > 4:
            raise trouble
        return x

    register_func("test.fails", fails)
    args, s = element_wise(lambda x: call_packed("test.fails", x, dtype="float32"), vector)
    module = build(s, args=args)
    for _ in range(2):
        with pytest.raises(KeyError) as caught:
            module(X)
        assert caught.value is trouble
    with pytest.raises(KeyError):
        module.time(X, number=2)
    register_func("test.fails", lambda x: x + 1, override=True)  # the name is looked up at each call
    np.testing.assert_allclose(module(X), X + 1)


def test_a_call_back_may_call_modules() -> None:
    """Their workspace is not the one of the module around the call."""
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    squares = te.compute((n,), lambda i: a[i] * a[i], name="squares")
    once = te.compute((n,), lambda i: squares[i] + squares[n - 1 - i], name="B")
    inner = build(create_schedule(once), args=[a, once])
    register_func("test.inner", lambda x: float(inner(np.full(50, x, "float32"))[3]))
    twice = te.compute(
        (n,), lambda i: squares[i] + call_packed("test.inner", squares[n - 1 - i], dtype="float32"), name="C"
    )
    outer = build(create_schedule(twice), args=[a, twice])
    squared = X * X
    np.testing.assert_allclose(outer(X), squared + 2 * squared[::-1] ** 2, rtol=1e-5)


def _program(*stmts: Any, params: tuple[Buffer, ...]) -> Function:
    return Function("f", params, (), seq(*stmts), tuple(range(len(params))))


def _run(function: Function, *arrays: np.ndarray) -> list[list[np.ndarray]]:
    """The arrays after the function, by llvm and by the interpreter."""
    from autosched.codegen import compile_function
    from autosched.runtime.module import Module
    from autosched.target import Target

    found = []
    for run in (
        lambda given: Module(compile_function(function, Target.parse("llvm")), Target.parse("llvm"))(*given),
        lambda given: interpret(replace(function, outputs=()), given),  # its arrays have values already
    ):
        given = [a.copy() for a in arrays]
        run(given)
        found.append(given)
    return found


def test_arrays_are_views_of_the_memory() -> None:
    data = Buffer("data", (const(4), const(6)), te.const(0, "int16").dtype)

    @register_func("test.columns")
    def columns(whole: np.ndarray, middle: np.ndarray, number: int, flag: bool) -> None:
        assert whole.shape == (4, 6) and middle.shape == (2, 3) and number == -7 and flag is True
        middle[...] = whole[1:3, 1:4] * 10

    call = call_packed("test.columns", data, view_of(data, 7, (2, 3), (6, 1)), const(-7), const(True))
    start = np.arange(24, dtype="int16").reshape(4, 6)
    expected = start.copy()
    expected[1:3, 1:4] *= 10
    for (after,) in _run(_program(Evaluate(call), params=(data,)), start):
        np.testing.assert_array_equal(after, expected)


def test_a_c_function_gets_addresses() -> None:
    data = Buffer("data", (const(8),), te.const(0, "int32").dtype)
    other = Buffer("other", (const(8),), te.const(0, "int32").dtype)
    size = te.const(3 * 4, "uint64")
    from autosched.ir.calls import address_of

    copy = call_extern("void", "memcpy", address_of(other, 2), address_of(data, 5), size)
    start = [np.arange(8, dtype="int32"), np.zeros(8, "int32")]
    for _, after in _run(_program(Evaluate(copy), params=(data, other)), *start):
        np.testing.assert_array_equal(after, [0, 0, 5, 6, 7, 0, 0, 0])


def test_while_runs_until_memory_says_so() -> None:
    data = Buffer("data", (const(2),), te.const(0, "int32").dtype)
    b = load(data, const(1))
    euclid = While(b > 0, _swap_step(data))
    for (after,) in _run(_program(euclid, params=(data,)), np.array([84, 36], "int32")):
        np.testing.assert_array_equal(after, [12, 0])


def _swap_step(data: Buffer) -> Any:
    """(a, b) = (b, a % b)"""
    from autosched.ir.expr import var
    from autosched.ir.stmt import Let

    old, rest = var("old", "int32", "let"), var("rest", "int32", "let")
    a, b = load(data, const(0)), load(data, const(1))
    return Let(old, b, Let(rest, a % b, seq(Store(data, (const(0),), old), Store(data, (const(1),), rest))))


# -- intrinsics with rules ------------------------------------------------------------------------


def _my_log(x: Expr) -> Expr:
    return call_intrin(x.dtype, "tir.test_log", x)


def test_an_intrinsic_of_the_users_on_opencl() -> None:
    register_op_attr("tir.test_log", "TCallEffectKind", CallEffectKind.Pure)
    register_intrin_lowering(
        "tir.test_log",
        "opencl",
        f=lambda e: call_pure_extern("float32", "log", e.args[0]) if e.dtype == "float32" else e,
        level=99,
    )
    args, s = element_wise(_my_log)
    outer, inner = s[args[1]].split("i", factor=16)
    s[args[1]].bind(outer, "blockIdx.x")
    s[args[1]].bind(inner, "threadIdx.x")
    module = build(s, "opencl", args=args)
    assert "= log(A[" in module.source
    np.testing.assert_allclose(module(X), np.log(X), rtol=1e-5, atol=1e-6)
    with pytest.raises(LowerError) as caught:
        build(create_schedule(args[1]), "llvm", args=args)
    assert without_line(caught.value) == (
        "intrinsic tir.test_log of type float32: no rule lowers it for llvm (rules: opencl)\n"
        "  register_intrin_lowering('tir.test_log', 'llvm', f=...)"
    )


def test_the_highest_level_that_does_not_decline_wins() -> None:
    register_intrin_lowering("tir.test_log", "default", f=lambda e: te.log(e.args[0]))
    register_intrin_lowering("tir.test_log", "llvm", f=lambda e: e.args[0] * 2, level=5)
    register_intrin_lowering("tir.test_log", "llvm", f=lambda e: e.args[0] * 3, level=20)
    register_numpy("tir.test_log", lambda x: 3 * x)
    np.testing.assert_allclose(everywhere(_my_log), 3 * X, rtol=1e-6)
    register_intrin_lowering("tir.test_log", "llvm", f=lambda e: None, level=30)
    register_intrin_lowering("tir.test_log", "llvm", f=lambda e: e, level=31)
    np.testing.assert_allclose(everywhere(_my_log), 3 * X, rtol=1e-6)


def test_operators_of_ours_take_rules_too() -> None:
    register_intrin_lowering("tir.exp", "llvm", f=lambda e: e.args[0] * 2 if e.dtype == "float32" else None)
    args, s = element_wise(te.exp)
    np.testing.assert_allclose(build(s, args=args)(X), X * 2)
    args, s = element_wise(lambda x: te.exp(x.astype("float64")).astype("float32"))
    np.testing.assert_allclose(build(s, args=args)(X), np.exp(X), rtol=1e-6)


def test_rules_that_go_round_in_circles() -> None:
    register_intrin_lowering("tir.test_log", "llvm", f=lambda e: call_intrin("float32", "tir.test_log", e.args[0] + 1))
    args, s = element_wise(_my_log)
    with pytest.raises(LowerError, match="its rules go round in circles"):
        build(s, args=args)


def test_a_rule_returns_what_it_replaces() -> None:
    register_intrin_lowering("tir.test_log", "llvm", f=lambda e: e.args[0].astype("float64"))
    args, s = element_wise(_my_log)
    with pytest.raises(UsageError, match="its rule for llvm returned float64"):
        build(s, args=args)


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            lambda x: call_extern("float32", "no_such_function", x),
            "call_extern(..., 'no_such_function'): no library of this process has such a symbol\n"
            "  load_library(path) or register_symbol(name, function) before the module is built; libraries named: ",
        ),
        (
            lambda x: call_packed("test.nobody", x, dtype="float32"),
            "call_packed('test.nobody'): no Python function is registered under that name in this process\n"
            "  @register_func('test.nobody') in a file that this process imports; registered: ",
        ),
        (
            lambda x: call_llvm_pure_intrin("float32", "llvm.nothing", x),
            "call_llvm_intrin('float32', 'llvm.nothing', ...): LLVM has no such intrinsic with arguments (float) and "
            "result float\n",
        ),
    ],
)
def test_what_is_missing_is_said_when_the_module_is_built(body: Any, message: str) -> None:
    args, s = element_wise(body)
    with pytest.raises(BuildError) as caught:
        build(s, args=args)
    assert str(caught.value).startswith(message)


def test_a_missing_function_is_not_looked_for_in_files_that_are_gone() -> None:
    import_c("float tripled(float x) { return 3 * x; }", name="of_nobody")
    with pytest.raises(BuildError) as caught:
        build(element_wise(lambda x: call_extern("float32", "no_such_function", x))[1])
    assert "of_nobody" not in str(caught.value)


def test_python_functions_do_not_run_on_devices() -> None:
    register_func("test.square", lambda x: x * x)
    args, s = element_wise(lambda x: call_packed("test.square", x, dtype="float32"))
    s[args[1]].bind("i", "blockIdx.x")
    with pytest.raises(BuildError, match="it is a Python function, which opencl cannot call"):
        build(s, "opencl", args=args)


def test_the_reference_says_what_it_needs() -> None:
    args, _ = element_wise(lambda x: call_pure_extern("float32", "my_filter", x))
    with pytest.raises(BuildError, match="nothing says how NumPy evaluates it"):
        te.reference(args, [X])
    register_numpy("my_filter", lambda x: x + 1)
    np.testing.assert_allclose(te.reference(args, [X])[0], X + 1)


def test_registries() -> None:
    register_func("test.once", print)
    with pytest.raises(UsageError, match="the name is in use"):
        register_func("test.once", len)
    assert get_global_func("test.nobody", allow_missing=True) is None
    with pytest.raises(BuildError, match="it cannot be loaded"):
        load_library("/no/such/library.so")
    with pytest.raises(UsageError, match="has no address"):
        register_symbol("f", 1.5)


def test_a_graph_with_calls_is_data() -> None:
    args, _ = element_wise(lambda x: call_pure_extern("float32", "cosf", x) + call_packed("test.f", x, dtype="float32"))
    again = graph_from_json(graph_to_json(args))
    assert workload_key(again) == workload_key(args)
    other, _ = element_wise(
        lambda x: call_pure_extern("float32", "sinf", x) + call_packed("test.f", x, dtype="float32")
    )
    assert workload_key(other) != workload_key(args)
