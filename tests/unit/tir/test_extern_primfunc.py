"""`extern_primfunc`: functions of loops as operations."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
from autosched import te, tir
from autosched.errors import UsageError
from autosched.tvm import lower

n, m = te.var("n"), te.var("m")
DATA = np.arange(24, dtype="float32")


def row_sums(length: object) -> tir.PrimFunc:
    """Twice the sums of rows, by way of an intermediate."""
    a = te.placeholder((length, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    b = te.compute((length, 4), lambda i, j: a[i, j] * 2, name="B")
    return tir.create_prim_func([a, te.compute((length,), lambda i: te.sum(b[i, k], axis=k), name="C")])


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_its_sizes_are_those_of_the_tensors(target: str) -> None:
    x = te.placeholder((m, 4), name="X")
    first = te.compute((m, 4), lambda i, j: x[i, j] + 1, name="first")
    sums = tir.extern_primfunc([first], row_sums(n), name="sums")
    last = te.compute((m,), lambda i: sums[i] * sums[0], name="last")
    s = autosched.create_schedule(last.op)
    data = DATA.reshape(6, 4)
    expected = ((data + 1) * 2).sum(axis=1)
    expected *= expected[0]
    np.testing.assert_array_equal(te.reference([x, last], [data])[0], expected)
    np.testing.assert_array_equal(autosched.build(s, target, args=[x, last])(data), expected)


def test_a_function_keeps_its_schedule() -> None:
    f = row_sums(8)
    schedule = tir.Schedule(f)
    schedule.vectorize(schedule.split(schedule.get_loops(schedule.get_block("B"))[0], factors=[None, 4])[1])
    x = te.placeholder((8, 4), name="X")
    y = tir.extern_primfunc([x], schedule.mod["main"])
    s = autosched.create_schedule(y.op)
    assert "T.vectorized(4)" in lower(s, [x, y], simple_mode=True).script()
    data = np.arange(32, dtype="float32").reshape(8, 4)
    np.testing.assert_array_equal(autosched.build(s, "llvm", args=[x, y])(data), 2 * data.sum(axis=1))


def test_several_outputs_and_lowered_functions() -> None:
    a = te.placeholder((5,), name="A")
    b, c = te.compute((5,), lambda i: (a[i] + 1, a[i] * 3), name="B")
    f = tir.create_prim_func([a, b, c])
    x = te.placeholder((5,), name="X")
    for function in (f, lower(autosched.create_schedule(b.op), [a, b, c], simple_mode=True)["main"]):
        u, v = tir.extern_primfunc([x], function)
        out = te.compute((5,), lambda i, u=u, v=v: u[i] - v[i], name="out")
        module = autosched.build(autosched.create_schedule(out.op), "llvm", args=[x, out])
        np.testing.assert_array_equal(module(DATA[:5]), DATA[:5] + 1 - DATA[:5] * 3)


def test_errors() -> None:
    f = row_sums(8)
    with pytest.raises(UsageError, match="0 tensors for 1 inputs"):
        tir.extern_primfunc([], f)
    with pytest.raises(UsageError, match="is not like A"):
        tir.extern_primfunc([te.placeholder((8, 4), "int32")], f)
    with pytest.raises(UsageError, match="X has the shape"):
        tir.extern_primfunc([te.placeholder((9, 4), name="X")], f)
    with pytest.raises(UsageError, match="is no function"):
        tir.extern_primfunc([], 3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="it takes no shape"):
        tir.extern_primfunc([te.placeholder((8, 4))], f, shape=3)
