"""Reduce loops bound to threadIdx: the work-items of a group combine what each has found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuda_emulation import with_emulated_cuda
from hypothesis import given, settings
from hypothesis import strategies as st
from roundtrip import assert_roundtrip

import autosched
from autosched import te
from autosched.errors import LowerError, ScheduleError
from autosched.ir.printer import format_function
from autosched.ir.stmt import Barrier, For, If, walk
from autosched.lowering import lower_structure
from autosched.runtime.interpreter import interpret
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

Program = tuple[list[Tensor], Schedule]


def matrix(m: int, n: int, dtype: str = "int32") -> np.ndarray:
    return np.random.default_rng(m * n).integers(-9, 9, (m, n)).astype(dtype)


def row_sums(m: Any, n: Any, across: Any = 8, rows: int = 2) -> Program:
    """`rows` rows for each group, `across` work-items for each row."""
    a = te.placeholder((m, n), "int32", name="A")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((m,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = create_schedule(b)
    _, inner = s[b].split("k", factor=across)
    block, row = s[b].split("i", factor=rows)
    s[b].bind(block, "blockIdx.x")
    s[b].bind(row, "threadIdx.y")
    s[b].bind(inner, "threadIdx.x")
    return [a, b], s


def test_golden(golden: Callable[..., None]) -> None:
    args, s = row_sums(4, 20, 6)
    golden(format_function(lower_structure(s, args, "opencl").bind()))
    assert_roundtrip(s, args, "opencl")


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 7), st.integers(1, 40), st.integers(1, 20), st.integers(1, 4))
def test_any_number_of_work_items(m: int, n: int, across: int, rows: int) -> None:
    args, s = row_sums(m, n, across, rows)
    check_against_reference(args, s, "opencl", [matrix(m, n)], "interpreter")


@pytest.mark.parametrize("across", [5, 16])
def test_on_a_device(across: int) -> None:
    args, s = row_sums(te.var("m"), te.var("n"), across)
    check_against_reference(args, s, "opencl", [matrix(5, 43)], "native")


@pytest.mark.parametrize("across", [1, 6, 16])
def test_an_open_number_of_work_items(across: int) -> None:
    a = te.placeholder((3, 29), "int32", name="A")
    k = te.reduce_axis((0, 29), name="k")
    b = te.compute((3,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = create_schedule(b)
    _, inner = s[b].split("k", factor=s.define_knob("across", [1, 6, 16]))
    s[b].bind("i", "blockIdx.x")
    s[b].bind(inner, "threadIdx.x")
    f = lower_structure(s, [a, b], "opencl").bind({"across": across})
    assert sum(isinstance(x, Barrier) for x in walk(f.body)) == {1: 1, 6: 4, 16: 5}[across]
    values, out = matrix(3, 29), np.zeros(3, np.int32)
    interpret(f, [values, out])
    assert np.array_equal(out, values.sum(1))


def test_tvm_tutorial_rfactor(monkeypatch: pytest.MonkeyPatch) -> None:
    """TVM's reduction tutorial: the factored part is computed by each work-item where the group combines."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = create_schedule(b)
    _, ki = s[b].split(b.op.reduce_axis[0], factor=16)
    bf = s.rfactor(b, ki)
    xo, xi = s[b].split(s[b].op.axis[0], factor=32)
    s[b].bind(xo, te.thread_axis("blockIdx.x"))
    s[b].bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], tx)
    s[bf].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(tx.var <= 0)
    values = matrix(40, 70, "float32")
    check_against_reference([a, b], s, "opencl", [values], "interpreter")
    check_against_reference([a, b], s, "opencl", [values], "native")
    with_emulated_cuda(monkeypatch)
    assert np.array_equal(autosched.build(s, "cuda", args=[a, b])(values), values.sum(1))


def normalised(rows: int, columns: int, across: int = 8) -> Program:
    """A softmax in integers: two reductions for each row, whose results all work-items of its group read."""
    a = te.placeholder((rows, columns), "int32", name="A")
    k, j = te.reduce_axis((0, columns), name="k"), te.reduce_axis((0, columns), name="j")
    top = te.compute((rows,), lambda y: te.max(a[y, k], axis=k), name="top")
    total = te.compute((rows,), lambda y: te.sum(top[y] - a[y, j], axis=j), name="total")
    out = te.compute((rows, columns), lambda y, x: (a[y, x] - top[y]) * total[y], name="out")
    s = create_schedule(out)
    s[out].bind("y", "blockIdx.x")
    _, x = s[out].split("x", factor=across)
    s[out].bind(x, "threadIdx.x")
    for stage, loop in ((top, "k"), (total, "j")):
        _, inner = s[stage].split(loop, factor=across)
        s[stage].bind(inner, "threadIdx.x")
        s[stage].compute_at(s[out], "y")
    return [a, out], s


@pytest.mark.parametrize("scope", ["local", "shared"])
@pytest.mark.parametrize("backend", ["interpreter", "native"])
def test_several_reductions_in_one_kernel(backend: str, scope: str) -> None:
    args, s = normalised(3, 21)
    s["top"].set_scope(scope)
    s["total"].set_scope(scope)
    check_against_reference(args, s, "opencl", [matrix(3, 21)], backend)


def test_several_reductions_on_emulated_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    with_emulated_cuda(monkeypatch)
    args, s = normalised(3, 21, 5)
    check_against_reference(args, s, "cuda", [matrix(3, 21)], "native")


@pytest.mark.parametrize("backend", ["interpreter", "native"])
def test_one_element_after_the_other(backend: str) -> None:
    """A work-item that comes by again must not overwrite what others still read."""
    a = te.placeholder((6, 20), "int32", name="A")
    k = te.reduce_axis((0, 20), name="k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = create_schedule(b)
    block, _ = s[b].split("i", factor=3)
    _, inner = s[b].split("k", factor=6)
    s[b].bind(block, "blockIdx.x")
    s[b].bind(inner, "threadIdx.x")
    check_against_reference([a, b], s, "opencl", [matrix(6, 20)], backend)


@pytest.mark.parametrize("backend", ["interpreter", "native"])
def test_two_axes_and_a_result_in_each_work_item(backend: str) -> None:
    """The group is 4 x 3 work-items; a stage around has them divided otherwise."""
    a = te.placeholder((5, 7, 6), "int32", name="A")
    p, q = te.reduce_axis((0, 7), name="p"), te.reduce_axis((0, 6), name="q")
    b = te.compute((5,), lambda i: te.sum(a[i, p, q], axis=[p, q]), name="B")
    c = te.compute((5, 8), lambda i, j: b[i] * j, name="C")
    s = create_schedule(c)
    s[c].bind("i", "blockIdx.x")
    _, j = s[c].split("j", factor=4)
    s[c].bind(j, "threadIdx.x")
    s[b].compute_at(s[c], "i")
    for axis, factor, tag in (("p", 4, "threadIdx.x"), ("q", 3, "threadIdx.y")):
        _, inner = s[b].split(axis, factor=factor)
        s[b].bind(inner, tag)
    s[b].set_scope("local")
    values = np.random.default_rng(0).integers(-9, 9, (5, 7, 6)).astype(np.int32)
    check_against_reference([a, c], s, "opencl", [values], backend)


@pytest.mark.parametrize("backend", ["interpreter", "native"])
def test_argmax(backend: str) -> None:
    a = te.placeholder((4, 37), "int32", name="A")
    k = te.reduce_axis((0, 37), name="k")

    def later(x: Any, y: Any) -> Any:
        first = te.any(x[1] > y[1], te.all(x[1] == y[1], x[0] < y[0]))
        return te.select(first, x[0], y[0]), te.select(first, x[1], y[1])

    argmax = te.comm_reducer(later, lambda i, v: (te.const(1000, i), te.const(-1000, v)), name="argmax")
    where, top = te.compute((4,), lambda i: argmax((k.var, a[i, k]), axis=k), name="best")
    s = create_schedule(where)
    _, inner = s[where].split("k", factor=6)
    s[where].bind("i", "blockIdx.x")
    s[where].bind(inner, "threadIdx.x")
    check_against_reference([a, where, top], s, "opencl", [matrix(4, 37)], backend)


@pytest.mark.parametrize("backend", ["interpreter", "native"])
def test_first_values_count_once(backend: str) -> None:
    a, c = te.placeholder((4, 9), "int32", name="A"), te.placeholder((4,), "int32", name="C")
    k = te.reduce_axis((0, 9), name="k")
    b = te.compute((4,), lambda i: te.sum(a[i, k], axis=k, where=k > 1, init=c[i]), name="B")
    s = create_schedule(b)
    s[b].bind("i", "blockIdx.x")
    s[b].bind("k", "threadIdx.x")
    check_against_reference([a, c, b], s, "opencl", [matrix(4, 9), np.arange(4, dtype=np.int32)], backend)


def test_virtual_threads_around() -> None:
    a = te.placeholder((8, 20), "int32", name="A")
    k = te.reduce_axis((0, 20), name="k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = create_schedule(b)
    block, v = s[b].split("i", factor=2)
    s[b].bind(block, "blockIdx.x")
    s[b].bind(v, "vthread")
    _, inner = s[b].split("k", factor=6)
    s[b].bind(inner, "threadIdx.x")
    check_against_reference([a, b], s, "opencl", [matrix(8, 20)], "interpreter")


# -- what cannot be -------------------------------------------------------------------------------


def test_a_condition_on_storing_that_a_split_asks_as_well() -> None:
    """It says what is stored; what is read outside of A is not up to it."""
    args, s = row_sums(10, 24, 8, rows=4)
    s["B"].set_store_predicate(s["B"].op.axis[0] < 10)
    check_against_reference(args, s, "opencl", [matrix(10, 24)], "interpreter")


def test_errors() -> None:
    args, s = row_sums(4, 20)
    with pytest.raises(ScheduleError, match=r"(?s)B.k.outer is a reduce loop.*or this one to threadIdx"):
        s["B"].bind("k.outer", "blockIdx.y")
    s["B"].reorder("k.inner", "i.inner")
    with pytest.raises(LowerError, match=r"(?s)B.bind.k.inner, threadIdx.x.*: B.i.inner is inside B.k.*reorder"):
        lower_structure(s, args, "opencl")
    a, s = row_sums(4, 20)
    with pytest.raises(LowerError, match="opencl"):
        lower_structure(s, a, "llvm").bind()


@pytest.mark.parametrize(("n", "m"), [(2, 2), (11, 7), (24, 9)])
def test_barriers_stand_outside_the_conditions_of_a_loop(n: int, m: int) -> None:
    """Two buffers in turn: the last round has no next one to fill. PoCL 3.0 computed twice the sum here."""
    rows, columns = te.var("n"), te.var("m")
    a = te.placeholder((rows, 2, columns), "float64", name="A")
    r = [te.reduce_axis((0, d), f"r{k}") for k, d in enumerate(a.shape)]
    total = te.compute((), lambda: te.sum(a[r[0], r[1], r[2]], axis=r), name="T")
    s = create_schedule(total)
    outer, _, _, _ = s["T"].tile("r0", "r2", 2, 4)
    s["T"].split_into(outer.name, 2, None)
    s["T"].tile("r0.outer.1", "r1", 5, 5)
    s.rfactor("T", "r0.outer.1.inner", factor_axis=-1)
    s["T.rf"].compute_at(s["T"], "r0.outer.1.inner.v")
    s["T.rf"].double_buffer()
    s["T.rf"].bind("r2.inner", "threadIdx.y")
    x = np.random.default_rng(0).integers(-4, 5, (n, 2, m)).astype("float64")
    check_against_reference([a, total], s, "opencl", [x], "interpreter")
    check_against_reference([a, total], s, "opencl", [x], "native")
    body = lower_structure(s, [a, total], "opencl").bind({}).body
    loops = [x for x in walk(body) if isinstance(x, For)]
    asked = [c for loop in loops for c in walk(loop.body) if isinstance(c, If)]
    assert any(isinstance(b, Barrier) for loop in loops for b in walk(loop.body))
    assert not any(isinstance(b, Barrier) for c in asked for b in walk(c))
