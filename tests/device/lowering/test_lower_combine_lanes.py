"""A vectorized reduce loop: its lanes are combined half on half, in an order that does not depend on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.ir.stmt import Function, Store, walk
from autosched.ir.visit import post_order
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

COMBINERS = {"sum": te.sum, "prod": te.prod, "min": te.min, "max": te.max}


def reduced(
    lanes: int, combine: Callable[..., object] = te.sum, dtype: str = "float32"
) -> tuple[list[Tensor], Schedule]:
    """R[i] = combine of A[i, k] over k, `lanes` of them at once."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), dtype, name="A")
    k = te.reduce_axis((0, m), "k")
    r = te.compute((n,), lambda i: combine(a[i, k], axis=k), name="R")
    s = create_schedule(r)
    s[r].split("k", factor=lanes)
    s[r].vectorize("k.inner")
    return [a, r], s


def combined(f: Function) -> list[str]:
    values = [s.value for s in walk(f.body) if isinstance(s, Store)]
    return [repr(e) for value in values for e in post_order(value) if e.op == "combine_lanes"]


def test_what_it_becomes() -> None:
    args, s = reduced(8)
    assert combined(lower_structure(s, args, "llvm").bind())[0] == "add_lanes(A[ramp(k.outer*8 + m*i, 8)])"


@pytest.mark.parametrize("lanes", [2, 3, 5, 8, 12, 16])
@pytest.mark.parametrize("combiner", COMBINERS)
def test_any_number_of_lanes(lanes: int, combiner: str) -> None:
    """Those of whole vectors, and those left over."""
    for dtype in ("int32", "float32", "float64", "uint8"):
        args, s = reduced(lanes, COMBINERS[combiner], dtype)
        draw = np.random.default_rng(lanes)
        inputs = [[draw.integers(0 if dtype == "uint8" else -2, 3, (3, m)).astype(dtype)] for m in (lanes, 19, 1)]
        for backend in ("native", "interpreter"):
            check_against_reference(args, s, "llvm", inputs[0], backend, more=inputs[1:])  # type: ignore[arg-type]


OF_ONES_OWN = {
    "bitand": te.comm_reducer(lambda x, y: x & y, lambda t: te.const(-1, t), "both"),
    "bitor": te.comm_reducer(lambda x, y: y | x, lambda t: te.const(0, t), "either"),
    "bitxor": te.comm_reducer(lambda x, y: x ^ y, lambda t: te.const(0, t), "parity"),
    "add": te.comm_reducer(lambda x, y: x + y, lambda t: te.const(0, t), "added"),
}


@pytest.mark.parametrize("op", OF_ONES_OWN)
def test_reductions_of_ones_own(op: str) -> None:
    """Where the combiner is one operator; what is not runs one by one, and gives the same."""
    args, s = reduced(8, OF_ONES_OWN[op], "int32")
    assert combined(lower_structure(s, args, "llvm").bind())[0].startswith(f"{op}_lanes(")
    inputs = [[np.random.default_rng(m).integers(-50, 50, (3, m)).astype("int32")] for m in (8, 19, 1)]
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", inputs[0], backend, more=inputs[1:])  # type: ignore[arg-type]


@pytest.mark.parametrize("lanes", [4, 7, 16])
def test_any_and_all(lanes: int) -> None:
    for reduce, op in ((te.any, "bitor"), (te.all, "bitand")):
        args, s = reduced(lanes, lambda x, axis, reduce=reduce: reduce(x > 1, axis=axis), "int32")
        assert combined(lower_structure(s, args, "llvm").bind())[0].startswith(f"{op}_lanes(")
        inputs = [[np.random.default_rng(m).integers(0, 5, (9, m)).astype("int32")] for m in (lanes, 3, 33)]
        for backend in ("native", "interpreter"):
            check_against_reference(args, s, "llvm", inputs[0], backend, more=inputs[1:])  # type: ignore[arg-type]


def tree(values: np.ndarray) -> np.ndarray:
    if len(values) == 1:
        return values[0]
    if len(values) % 2:
        return tree(values[:-1]) + values[-1]
    half = len(values) // 2
    return tree(values[:half] + values[half:])


@pytest.mark.parametrize("lanes", [2, 6, 7, 16, 64])
def test_the_order_of_a_sum_is_fixed(lanes: int) -> None:
    """Bit for bit, on numbers whose sum depends on the order; compiled and interpreted alike."""
    from autosched.codegen import compile_function
    from autosched.runtime.interpreter import interpret
    from autosched.runtime.module import Module
    from autosched.target import Target

    args, s = reduced(lanes)
    f = lower_structure(s, args, "llvm").bind()
    values = np.random.default_rng(1).standard_normal((50, lanes)).astype(np.float32)
    expected = np.array([tree(row) for row in values])
    assert (expected != values.sum(axis=1, dtype=np.float64)).any()
    assert np.array_equal(Module(compile_function(f, Target.parse("llvm")), Target.parse("llvm"))(values), expected)
    slow = np.empty(50, np.float32)
    interpret(f, [values, slow])
    assert np.array_equal(slow, expected)


def test_lanes_that_are_skipped_make_a_plain_loop() -> None:
    a = te.placeholder((4, 16), "int32", name="A")
    k = te.reduce_axis((0, 16), "k")
    r = te.compute((4,), lambda i: te.sum(a[i, k], axis=k, where=a[i, k] > 0), name="R")
    s = create_schedule(r)
    s[r].vectorize("k")
    assert combined(lower_structure(s, [a, r], "llvm").bind()) == []
    values = np.random.default_rng(2).integers(-9, 9, (4, 16)).astype(np.int32)
    check_against_reference([a, r], s, "llvm", [values])


def test_kernels_combine_one_by_one() -> None:
    args, s = reduced(4)
    s["R"].bind("i", "blockIdx.x")
    assert combined(lower_structure(s, args, "opencl").bind()) == []
    check_against_reference(args, s, "opencl", [np.ones((3, 9), np.float32)], "interpreter")


def test_a_spatial_vector_inside_stays_one() -> None:
    """Both a spatial and a reduce loop vectorized: the inner one is."""
    a = te.placeholder((16, 8), "int32", name="A")
    k = te.reduce_axis((0, 16), "k")
    r = te.compute((8,), lambda j: te.sum(a[k, j], axis=k), name="R")
    for order in (("k", "j"), ("j", "k")):
        s = create_schedule(r)
        s[r].reorder(*order)
        s[r].vectorize("k")
        s[r].vectorize("j")
        check_against_reference([a, r], s, "llvm", [np.arange(128, dtype=np.int32).reshape(16, 8)])
