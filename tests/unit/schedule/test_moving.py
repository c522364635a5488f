"""Stages that move together, roll along, or store under a condition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.errors import ScheduleError
from autosched.ir.stmt import Allocate, walk
from autosched.lowering import lower_structure
from autosched.schedule import create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference


def stencils() -> list[Tensor]:
    """A[n, m] -> B, element by element -> C, over three rows -> D, transposed -> E, plus a row of A."""
    n, m = te.size_var("n"), te.size_var("m")
    a = te.placeholder((n, m), dtype="int32", name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2, name="B")
    c = te.compute((n, m), lambda i, j: b[te.max(i - 1, 0), j] + b[i, j] + b[te.min(i + 1, n - 1), j], name="C")
    d = te.compute((m, n), lambda j, i: c[i, j] + 1, name="D")
    row = te.compute((m,), lambda j: a[0, j] + 1, name="R")
    wide = te.compute((m, n), lambda j, i: row[j], name="W")
    return [a, te.compute((m, n), lambda j, i: d[j, i] + wide[j, i], name="E")]


def inputs() -> list[list[np.ndarray]]:
    return [[np.random.default_rng(n).integers(-9, 9, (n, m)).astype("int32")] for n, m in ((6, 5), (1, 3), (9, 1))]


def check(args: list[Tensor], s: Any, target: str = "llvm") -> None:
    assert_roundtrip(s, args, target)
    given = inputs()
    for backend in ("native", "interpreter") if target == "llvm" else ("native",):
        check_against_reference(args, s, target, given[0], backend, more=given[1:])  # type: ignore[arg-type]


# -- groups --------------------------------------------------------------------------------------------


def test_a_group_moves_together() -> None:
    args = stencils()
    s = create_schedule(args)
    group = s.create_group(outputs="D", inputs="A")
    assert [x.name for x in group.stages] == ["B", "C", "D"]
    assert s.groups == [group]
    group.compute_at(s["E"], "j")
    assert {x.attach.loop for x in group.stages} == {s["E"].loops[0]}
    check(args, s)
    group.compute_at(s["E"], "i")
    assert {x.attach.loop for x in group.stages} == {s["E"].loops[1]}
    check(args, s)
    group.compute_root()
    assert {x.attach.kind for x in group.stages} == {"root"}
    check(args, s)


def test_a_members_own_place_stays() -> None:
    args = stencils()
    s = create_schedule(args)
    s["C"].compute_inline()
    group = s.create_group(outputs=[s["D"]], inputs=[s["B"]], include_inputs=True)
    s.cache_read("B", "local", ["C"])
    assert [x.name for x in group.stages] == ["B", "B.local", "C", "D"]
    group.compute_at("E", "j")
    assert [x.attach.kind for x in group.stages] == ["at", "at", "inline", "at"]
    check(args, s)


def test_an_empty_group() -> None:
    s = create_schedule(stencils())
    with pytest.raises(ScheduleError) as error:
        s.create_group(outputs="B", inputs="B")
    assert "create_group(['B'], ['B'])" in error.value.asked
    assert error.value.legal


def test_a_group_around_its_own_consumer() -> None:
    s = create_schedule(stencils())
    with pytest.raises(ScheduleError, match="does not come after"):
        s.create_group(outputs="D", inputs="A").compute_at("C", "i")


# -- rolling buffers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["serial", "parallel"])
def test_rows_roll(kind: str) -> None:
    """Columns may run in parallel: each then has a buffer of its own."""
    args = stencils()
    s = create_schedule(args)
    s["D"].compute_inline()
    s["B"].rolling_buffer()
    s["C"].split("j", factor=2)
    s["C"].reorder("j.outer", "i", "j.inner")
    s["B"].compute_at(s["C"], "i")
    if kind == "parallel":
        s["C"].parallel("j.outer")
    assert s["B"].store.loop is s["C"].loops[0]
    body = lower_structure(s, args, "llvm").function.body
    [rows] = [x.buffer.shape[0] for x in walk(body) if isinstance(x, Allocate) and x.buffer.name == "B"]
    assert repr(rows) in ("3", "4")  # a window of three rows, or one more for its clamps
    check(args, s)


def test_nothing_is_shared_across_threads() -> None:
    s = create_schedule(stencils())
    s["B"].compute_at(s["C"], "j").rolling_buffer()
    assert s["B"].store.loop is s["C"].loops[0]
    s["C"].parallel("j")
    assert s["B"].store.loop is s["C"].loops[1]


def test_a_buffer_that_rolls_nowhere() -> None:
    args = stencils()
    s = create_schedule(args)
    s["B"].rolling_buffer()
    with pytest.raises(ScheduleError) as error:
        lower_structure(s, args, "llvm")
    assert "no loop for it to roll along" in error.value.why
    assert error.value.legal


# -- conditions on storing -----------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_one_of_several_stores(target: str) -> None:
    """Each element is computed twice, by neighbours; the second of them stores it."""
    n = te.size_var("n")
    a = te.placeholder((n,), dtype="int32", name="A")
    b = te.compute((n, 2), lambda i, t: a[i] * 3, name="B")
    s = create_schedule(b)
    tx = te.thread_axis("threadIdx.x", name="tx")
    if target == "opencl":
        s[b].bind("i", "blockIdx.x")
        s[b].bind("t", tx)
    condition = te.any((tx.var if target == "opencl" else s[b].loops[1].var) >= 1, s[b].op.axis[1] < 1)
    s[b].set_store_predicate(condition)
    assert_roundtrip(s, [a, b], target)
    check_against_reference([a, b], s, target, [np.arange(7, dtype="int32")])


def test_what_is_not_stored_stays() -> None:
    n = te.size_var("n")
    a = te.placeholder((n,), dtype="int32", name="A")
    k = te.reduce_axis((0, 3), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i] * k, axis=k), name="B")
    s = create_schedule(b)
    _, inner = s[b].split("i", factor=4)
    s[b].set_store_predicate(inner.var % 2 == 0)
    assert_roundtrip(s, [a, b])
    from autosched import build

    result = np.full(7, -1, "int32")
    build(s, args=[a, b])(np.arange(7, dtype="int32"), result)
    np.testing.assert_array_equal(result, [0, -1, 6, -1, 12, -1, 18])


def test_what_would_change_a_number_is_no_condition() -> None:
    """A trace keeps integers: a comparison of others would be another one."""
    a = te.placeholder((300,), dtype="int32", name="A")
    b = te.compute((300,), lambda i: a[i], name="B")
    s = create_schedule(b)
    i = s[b].op.axis[0]
    for condition in (i.astype("float32") < 2.5, i.astype("uint8") < 5, i.astype("int8") < 5):
        with pytest.raises(ScheduleError, match="is no condition on loops"):
            s[b].set_store_predicate(condition)
    s[b].set_store_predicate(i.astype("int64") < 5)
    assert_roundtrip(s, [a, b])


def test_a_condition_on_a_loop_that_is_gone() -> None:
    args = stencils()
    s = create_schedule(args)
    s["E"].set_store_predicate(s["E"].loops[1].var < 1)
    s["E"].split("i", factor=2)
    with pytest.raises(ScheduleError, match="split or fused away"):
        lower_structure(s, args, "llvm")
