"""Numbers as arguments."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
from autosched import te
from autosched.codegen.artifact import Artifact
from autosched.errors import BuildError, LowerError
from autosched.runtime.interpreter import interpret
from autosched.runtime.module import Module


def program(of: str = "float32"):
    n, alpha, shift = te.var("n"), te.var("alpha", of), te.var("shift")
    a = te.placeholder((n,), of, name="a")
    b = te.compute((n,), lambda i: te.if_then_else(i > shift, a[i] * alpha, a[i] + alpha), name="b")
    return n, alpha, shift, a, b, autosched.create_schedule(b)


@pytest.mark.parametrize("of", ["float32", "float64", "int32"])
@pytest.mark.parametrize("scheduled", [False, True])
def test_numbers_are_read_at_each_call(of: str, scheduled: bool) -> None:
    _, alpha, shift, a, b, s = program(of)
    if scheduled:
        outer, inner = s[b].split("i", 8)
        s[b].vectorize(inner)
        s[b].parallel(outer)
    module = autosched.build(s, args=[alpha, a, shift, b])
    x = np.arange(21).astype(of)
    for factor, at in ((3, 5), (7, 30), (2, -1)):
        expected = np.where(np.arange(21) > at, x * factor, x + factor)
        assert np.array_equal(module(factor, x, at), expected)
        assert np.array_equal(module(np.array(factor, of), x, np.int32(at)), expected)


def test_on_opencl() -> None:
    _, alpha, shift, a, b, s = program()
    group, item = s[b].split("i", 16)
    s[b].bind(group, "blockIdx.x")
    s[b].bind(item, "threadIdx.x")
    module = autosched.build(s, "opencl", args=[alpha, shift, a, b])
    x = np.arange(21, dtype="float32")
    assert np.array_equal(module(0.5, 3, x), np.where(np.arange(21) > 3, x * 0.5, x + 0.5))


def test_numbers_that_do_not_fit() -> None:
    _, alpha, shift, a, b, s = program()
    module = autosched.build(s, args=[alpha, shift, a, b])
    x = np.zeros(3, "float32")
    for wrong in (2**40, 1.5, 2.0, np.float32(2), np.inf, np.float32("nan"), "one", np.str_("1")):
        with pytest.raises(BuildError, match="argument 'shift'"):
            module(1.0, wrong, x)
    with pytest.raises(BuildError, match="argument 'alpha'"):
        module(np.str_("1"), 0, x)
    with pytest.raises(BuildError, match="argument 'alpha'"):
        module(np.float64(1.0).reshape(1, 1), 0, x)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_size_may_be_an_argument_too(target: str) -> None:
    """It is checked at each call, where the arrays are the same ones as well."""
    n, alpha, shift, a, b, s = program()
    module = autosched.build(s, target, args=[n, alpha, shift, a, b])
    for m in (module, Module.of(Artifact.from_bytes(module.artifact.to_bytes(), "a test"))):
        for length in (3, 5):
            x, y = np.arange(length, dtype="float32"), np.zeros(length, "float32")
            expected = np.where(np.arange(length) > 1, x * 2, x + 2)
            assert np.array_equal(m(length, 2.0, 1, x), expected)
            m(np.array(length, "int32"), np.array(2, "float32"), np.array(1, "int32"), x, y)
            assert np.array_equal(y, expected)
            with pytest.raises(BuildError, match=f"is 4, and the shapes of the arrays say {length}"):
                m(4, 2.0, 1, x, y)
            with pytest.raises(BuildError, match="argument 'n'"), m.bound([4, 2.0, 1, x]):
                pass


def test_a_size_of_a_formula() -> None:
    n = te.var("n")
    a = te.placeholder((2 * n,), name="a")
    b = te.compute((n,), lambda i: a[2 * i] * te.const(1.0) + n, name="b")
    module = autosched.build(autosched.create_schedule(b), "llvm", args=[a, n, b])
    assert module(np.ones(8, "float32"), 4).tolist() == [5] * 4
    with pytest.raises(BuildError, match="the shapes of the arrays say 4"):
        module(np.ones(8, "float32"), 8)


def test_arguments_that_are_no_numbers() -> None:
    _, alpha, shift, a, b, s = program()
    k = te.reduce_axis((0, shift), name="k")
    twice = te.compute((shift,), lambda i: a[i] * 2, name="twice")
    c = te.compute((4,), lambda i: te.sum(twice[k], axis=k), name="c")
    with pytest.raises(LowerError, match="depends on shift, which the shape of no argument tells"):
        autosched.lower(autosched.create_schedule(c), [shift, a, c])
    with pytest.raises(LowerError, match="it is given twice"):
        autosched.lower(s, [alpha, alpha, shift, a, b])
    with pytest.raises(LowerError, match="it is not a variable"):
        autosched.lower(s, [alpha + 1, shift, a, b])


@pytest.mark.parametrize("value", [-9, -5, -1, 0, 3, 9])
@pytest.mark.parametrize("scheduled", [False, True])
def test_a_number_that_no_shape_tells_may_be_negative(value: int, scheduled: bool) -> None:
    shift = te.var("shift")
    a = te.placeholder((8,), "int32", name="a")
    twice = te.compute((8,), lambda i: a[i] * 2, name="twice")
    inside = lambda i: te.all(i + shift >= 0, i + shift < 8)  # noqa: E731
    b = te.compute((8,), lambda i: te.if_then_else(inside(i), twice[i + shift], te.max(shift, 0)), name="b")
    c = te.compute((8,), lambda i: b[i] * 100 + te.if_then_else(shift >= 0, 1, 2) + shift // 2, name="c")
    s = autosched.create_schedule(c)
    if scheduled:
        outer, inner = s[c].split("i", 4)
        s[c].vectorize(inner)
        s[twice].compute_at(s[b], s[b].axis[0])
        s[b].compute_at(s[c], outer)
    x = np.arange(8, dtype="int32")
    read = [2 * (i + value) if 0 <= i + value < 8 else max(value, 0) for i in range(8)]
    expected = np.array(read) * 100 + (1 if value >= 0 else 2) + value // 2
    assert np.array_equal(autosched.build(s, args=[shift, a, c])(value, x), expected)


def rows(scheduled: int):
    """Sums of the first elements of rows, and their number among the arguments."""
    n, m, count = te.var("n"), te.var("m"), te.var("count")
    a = te.placeholder((n, m), "int32", name="a")
    k = te.reduce_axis((0, count), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k] * count, axis=k), name="b")
    s = autosched.create_schedule(b)
    if scheduled == 1:
        s[b].parallel("i")
        outer, inner = s[b].split("k", 4)
        s[b].unroll(inner)
    elif scheduled == 2:
        outer, inner = s[b].split("i", 4)
        s[b].reorder(outer, "k", inner)
        s[b].vectorize(inner)
    elif scheduled == 3:
        outer, inner = s[b].split("k", 4)
        s.rfactor(b, inner)
    return s, [count, a, b]


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("scheduled", [0, 1, 2, 3])
def test_a_number_may_end_a_loop(scheduled: int, target: str) -> None:
    s, args = rows(scheduled)
    module = autosched.build(s, target, args=args)
    x = np.arange(35, dtype="int32").reshape(5, 7)
    for count in (0, 1, 3, 4, 7, -2):
        assert np.array_equal(module(count, x), x[:, : max(count, 0)].sum(1) * count), count


@pytest.mark.parametrize("scheduled", [0, 1, 3])
def test_the_interpreter_sees_a_number_beyond_the_tensor(scheduled: int) -> None:
    s, args = rows(scheduled)
    f = autosched.lower(s, args).structure.function
    x = np.arange(35, dtype="int32").reshape(5, 7)
    for count in (0, 3, 7, -1):
        interpret(f, [np.array(count, "int32"), x, out := np.zeros(5, "int32")])
        assert np.array_equal(out, x[:, : max(count, 0)].sum(1) * count), count
    with pytest.raises(BuildError, match=r"a\[0, 7\] is outside \[5, 7\]"):
        interpret(f, [np.array(8, "int32"), x, np.zeros(5, "int32")])


def test_a_number_may_end_a_loop_of_a_kernel() -> None:
    s, args = rows(0)
    s["b"].bind("i", "blockIdx.x")
    module = autosched.build(s, "opencl", args=args)
    x = np.arange(35, dtype="int32").reshape(5, 7)
    for count in (0, 3, 7):
        assert np.array_equal(module(count, x), x[:, :count].sum(1) * count)


def test_a_number_does_not_say_how_many_work_items_there_are() -> None:
    s, args = rows(0)
    s["b"].bind("i", "blockIdx.x")
    s["b"].bind("k", "threadIdx.x")
    with pytest.raises(LowerError, match="depends on count, which the shape of no argument tells"):
        autosched.build(s, "opencl", args=args)
