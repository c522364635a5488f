"""Undoing one instruction of a schedule: what is left still computes the reference, or there is a reason."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import BuildError, LowerError, ScheduleError
from autosched.lower.bounds import inferred_ranges
from autosched.schedule import Schedule, Trace, create_schedule
from autosched.schedule.schedule import replay
from autosched.schedule.undo import Undone, knobs_of, undo_knob, undoable, ways_to_undo
from autosched.te.tensor import Tensor
from autosched.testing.case import BACKENDS, Case
from autosched.testing.oracle import check_against_reference


def matmul(n: int = 32) -> tuple[Schedule, list[Tensor]]:
    a, b = (te.placeholder((n, n), name=name) for name in "ab")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    return create_schedule(c), [a, b, c]


def stencil() -> tuple[Schedule, list[Tensor]]:
    a = te.placeholder((64, 48), name="a")
    b = te.compute((64, 48), lambda y, x: a[y, x] * 2, name="b")
    c = te.compute((62, 48), lambda y, x: b[y, x] + b[y + 2, x], name="c")
    return create_schedule(c), [a, c]


def lines(u: Undone, knobs: dict[str, int] | None = None) -> list[str]:
    assert u.trace is not None, u.refused
    return [line.strip() for line in u.trace.as_python(knobs=knobs).splitlines()[1:]]


def undo(s: Schedule, args: list[Tensor], kind: str, way: str = "", option: str = "", last: bool = False) -> Undone:
    at = [p for p, i in enumerate(s.trace) if i.kind == kind][-1 if last else 0]
    found = {u.way: u for u in ways_to_undo(s.trace, at, args, option=option)}
    return found[way]


def lost(s: Schedule, u: Undone) -> list[str]:
    return [s.trace[p].as_python() for p in u.lost]


# -- one primitive after the other -----------------------------------------------------------------
def tiled() -> tuple[Schedule, list[Tensor]]:
    s, args = stencil()
    s["c"].split("y", factor=8)
    s["c"].reorder("y.outer", "x", "y.inner")
    s["c"].parallel("y.outer")
    s["c"].unroll("y.inner")
    return s, args


def test_of_a_split_the_outer_loop_is_the_whole() -> None:
    s, args = tiled()
    u = undo(s, args, "split", "outer")
    assert lines(u) == ['s["c"].reorder("y", "x")', 's["c"].parallel("y")']
    assert lost(s, u) == ['s["c"].unroll("y.inner")']
    assert u.origin == (1, 2)


def test_or_the_inner_one() -> None:
    """Then parallel goes, which y.outer was."""
    s, args = tiled()
    u = undo(s, args, "split", "inner")
    assert lines(u) == ['s["c"].reorder("x", "y")', 's["c"].unroll("y")']
    assert lost(s, u) == ['s["c"].parallel("y.outer")']


def test_marks_stay_on_loops_that_are_short_all_the_same() -> None:
    s, args = stencil()
    s["c"].split("x", factor=16)
    s["c"].split("x.inner", factor=8)
    s["c"].vectorize("x.inner.inner")
    assert lines(undo(s, args, "split", "inner", last=True)) == [
        's["c"].split("x", factor=16)',
        's["c"].vectorize("x.inner")',
    ]


def test_a_longer_loop_is_not_vectorized() -> None:
    a = te.placeholder((4096,), name="a")
    b = te.compute((4096,), lambda x: a[x] + 1, name="b")
    s = create_schedule(b)
    s[b].split("x", factor=16)
    s[b].vectorize("x.inner")
    u = undo(s, [a, b], "split", "inner")
    assert lines(u) == ["pass"]
    assert lost(s, u) == ['s["b"].vectorize("x.inner")']


def test_names_made_later_follow() -> None:
    """y.outer.outer is y.outer where y.outer is y."""
    s, args = stencil()
    s["c"].split("y", factor=4)
    s["c"].split("y.outer", factor=2)
    s["c"].fuse("y.inner", "x")
    s["c"].parallel("y.outer.outer")
    u = undo(s, args, "split", "outer")
    assert lines(u) == ['s["c"].split("y", factor=2)', 's["c"].parallel("y.outer")']
    assert lost(s, u) == ['s["c"].fuse("y.inner", "x")']


def test_a_tile_that_lost_one_loop_is_a_split() -> None:
    s, args = stencil()
    s["c"].split("y", factor=8)
    s["c"].tile("y.inner", "x", 2, 16)
    s["c"].vectorize("x.inner")
    assert lines(undo(s, args, "split", "outer")) == [
        's["c"].split("x", factor=16)',
        's["c"].reorder("x.outer", "x.inner")',
        's["c"].vectorize("x.inner")',
    ]
    assert lines(undo(s, args, "tile", "outer")) == ['s["c"].split("y", factor=8)']


@pytest.mark.parametrize(
    ("way", "rest"), [("outer", 's["c"].split("y", factor=4)'), ("inner", 's["c"].split("x", factor=4)')]
)
def test_of_a_fusion_one_loop_is_split_in_its_place(way: str, rest: str) -> None:
    s, args = stencil()
    s["c"].fuse("y", "x")
    s["c"].split("y.x.fused", factor=4)
    u = undo(s, args, "fuse", way)
    assert lines(u) == [rest]
    assert u.lost == ()


def test_of_a_fusion_all_loops_are_reordered_in_its_place() -> None:
    a = te.placeholder((4, 5, 6), name="a")
    b = te.compute((4, 5, 6), lambda i, j, k: a[i, j, k] + 1, name="b")
    s = create_schedule(b)
    s[b].fuse("i", "j")
    s[b].reorder("k", "i.j.fused")
    s[b].parallel("i.j.fused")
    assert lines(undo(s, [a, b], "fuse", "outer")) == ['s["b"].reorder("k", "i", "j")', 's["b"].parallel("i")']


def test_another_fusion_keeps_what_it_can() -> None:
    a = te.placeholder((4, 5, 6), name="a")
    b = te.compute((4, 5, 6), lambda i, j, k: a[i, j, k] + 1, name="b")
    s = create_schedule(b)
    s[b].fuse("i", "j")
    s[b].fuse("i.j.fused", "k")
    assert lines(undo(s, [a, b], "fuse", "outer")) == ['s["b"].fuse("j", "k")']


def test_a_cache_goes_with_all_that_was_said_of_it() -> None:
    s, args = matmul()
    s.cache_write("c", "local")
    s["c"].split("j", factor=8)
    s["c.local"].compute_at(s["c"], "j.outer")
    s["c.local"].vectorize("j.c")
    s["c"].vectorize("j.inner")
    u = undo(s, args, "cache_write")
    assert lines(u) == ['s["c"].split("j", factor=8)', 's["c"].vectorize("j.inner")']
    assert len(u.lost) == 2


def test_and_with_the_layout_it_had() -> None:
    """split and reorder before a cache_write say how the cache lies in memory, and nothing else."""
    s, args = matmul()
    s["c"].split("j", factor=8)
    s["c"].reorder("j.outer", "i", "j.inner")
    s.cache_write("c", "global")
    s["c"].parallel("i")
    assert lines(undo(s, args, "cache_write")) == ['s["c"].parallel("i")']


def test_a_cache_of_a_cache_reads_the_first_one_s_source() -> None:
    s, args = matmul()
    s.cache_read("a", "global", ["c"])
    s.cache_read("a.global", "local", ["c"])
    s["a.global.local"].compute_at(s["c"], "i")
    assert lines(undo(s, args, "cache_read")) == [
        's.cache_read("a", "local", ["c"])',
        's["a.local"].compute_at(s["c"], "i")',
    ]


def test_a_cache_that_took_the_loops_gives_them_back() -> None:
    s, args = matmul()
    s["c"].split("i", factor=4)
    s.cache_write("c", "local", keep_loops=True)
    s["c.local"].parallel("i.outer")
    s["c"].vectorize("j")
    u = undo(s, args, "cache_write")
    assert lines(u) == ['s["c"].split("i", factor=4)', 's["c"].parallel("i.outer")']
    assert lost(s, u) == ['s["c"].vectorize("j")']


def test_what_was_computed_at_a_loop_that_is_gone_is_computed_around_it() -> None:
    s, args = stencil()
    s["c"].split("y", factor=8)
    s["c"].reorder("y.outer", "x", "y.inner")
    s["b"].compute_at(s["c"], "y.inner")
    assert lines(undo(s, args, "split", "outer")) == ['s["c"].reorder("y", "x")', 's["b"].compute_at(s["c"], "x")']
    assert lines(undo(s, args, "compute_at"))[-1] == 's["c"].reorder("y.outer", "x", "y.inner")'


def test_what_moves_to_the_root_is_not_unrolled_there() -> None:
    s, args = matmul(128)
    s.cache_write("c", "local")
    s["c"].split("i", factor=4)
    s["c.local"].compute_at(s["c"], "i.outer")
    s["c.local"].unroll("i.c")
    at = next(p for p, i in enumerate(s.trace) if i.kind == "compute_at")
    (u,) = ways_to_undo(s.trace, at, args, extents=extents)
    assert lost(s, u) == ['s["c.local"].unroll("i.c")']


def test_of_an_rfactor_the_partial_results_go() -> None:
    s, args = matmul()
    s["c"].split("k", factor=8)
    s.rfactor("c", "k.inner")
    s["c.rf"].reorder("k.outer", "k.inner")
    s["c.rf"].vectorize("k.inner")
    s["c"].unroll("k.inner.v")
    u = undo(s, args, "rfactor")
    assert lines(u) == ['s["c"].split("k", factor=8)', 's["c"].unroll("k.inner")']
    assert len(u.lost) == 2
    assert lines(undo(s, args, "split", "outer")) == ["pass"]


def test_an_option_is_undone_alone() -> None:
    s, args = stencil()
    s["c"].split("x", factor=16, tail="shift_inwards")
    s["c"].vectorize("x.inner")
    assert (0, "tail") in undoable(s.trace)
    assert lines(undo(s, args, "split", option="tail")) == [
        's["c"].split("x", factor=16)',
        's["c"].vectorize("x.inner")',
    ]


def test_inits_of_a_decomposed_reduction_follow() -> None:
    s, args = matmul()
    s["c"].split("j", factor=8)
    s["c"].reorder("j.outer", "k", "j.inner")
    s["c"].decompose_reduction("k")
    s["c"].vectorize("j.inner.init")
    u = undo(s, args, "split", "inner")
    assert lines(u) == ['s["c"].reorder("k", "j")', 's["c"].decompose_reduction("k")', 's["c"].vectorize("j.init")']


# -- what cannot be undone -------------------------------------------------------------------------
def test_what_needs_it_is_named() -> None:
    s, args = stencil()
    s["c"].split("y", factor=8)
    s["c"].reorder("y.outer", "x", "y.inner")
    s["c"].fuse("y.outer", "x")
    u = undo(s, args, "reorder")
    assert u.trace is None
    assert u.refused == 's["c"].fuse("y.outer", "x") needs it: c.x is not directly inside c.y.outer'


def test_a_stage_takes_its_producers_to_the_root() -> None:
    """c would be computed before d, and b, which it needs, inside d."""
    a = te.placeholder((8, 8), name="a")
    b = te.compute((8, 8), lambda y, x: a[y, x] + 1, name="b")
    c = te.compute((8, 8), lambda y, x: b[y, x] * 2, name="c")
    d = te.compute((8, 8), lambda y, x: c[y, x] + 3, name="d")
    s = create_schedule(d)
    s[b].compute_at(s[d], "y")
    s[c].compute_at(s[d], "y")
    u = undo(s, [a, d], "compute_at", last=True)
    assert lines(u) == ["pass"]
    assert lost(s, u) == ['s["b"].compute_at(s["d"], "y")']


def test_what_does_not_hold_together_is_refused() -> None:
    s, args = stencil()
    s["c"].split("y", factor=8)
    s["b"].compute_at(s["c"], "y.outer")
    s["b"].rolling_buffer()
    u = undo(s, args, "compute_at")
    assert u.trace is None
    assert u.refused == "b is computed at the root: there is no loop for it to roll along"


def test_a_stage_that_is_gone_is_no_reader() -> None:
    """What it read is read by those that read it."""
    s, args = matmul()
    s.cache_read("a", "global", ["c"])
    s.cache_read("a", "local", ["a.global"])
    assert lines(undo(s, args, "cache_read")) == ['s.cache_read("a", "local", ["c"])']


# -- knobs -------------------------------------------------------------------------------------------
def test_knobs_that_nothing_uses_any_more_are_left_out() -> None:
    s, args = stencil()
    rows = s.define_knob("rows", [2, 4])
    s.constrain(rows <= 4, "rows fit")
    s.choose("way", ["a", "b"])
    s["c"].split("y", factor=rows)
    s["c"].vectorize("x")
    assert knobs_of(s.trace) == {"rows": [3]}
    assert lines(undo(s, args, "split", "outer")) == ['s["c"].vectorize("x")']
    kept = undo(s, args, "vectorize")
    assert lines(kept, {"rows": 4}) == ["rows = 4", 's["c"].split("y", factor=rows)']


def test_a_knob_becomes_a_number() -> None:
    s, args = stencil()
    rows = s.define_knob("rows", [2, 4])
    s.constrain(rows <= 4, "rows fit")
    s["c"].split("y", factor=rows * 2)
    s["b"].split("y", factor=rows)
    u = undo_knob(s.trace, "rows", args)
    assert lines(u) == ['s["c"].split("y", factor=(1 * 2))', 's["b"].split("y", factor=1)']
    assert u.origin == (2, 3)


def test_a_number_that_a_primitive_does_not_take_is_refused() -> None:
    s, args = stencil()
    ahead = s.define_knob("ahead", [2, 4])
    s["c"].prefetch("a", "y", ahead)
    u = undo_knob(s.trace, "ahead", args, value=-1)
    assert u.trace is None
    assert u.refused


# -- of random schedules -----------------------------------------------------------------------------
def extents(s: Schedule) -> dict[Any, Any]:
    return {loop: found.extent for loop, found in inferred_ranges(s).items()}


def check_undone(case: Case, count: int, ended: Counter[str]) -> None:
    """Undo some instructions of a random schedule, and run what is left."""
    program = case.program
    trace = Trace.from_json(case.trace)
    todo = undoable(trace)
    random.Random(case.seed).shuffle(todo)
    target, how = BACKENDS[case.backend]
    for at, option in todo[:count]:
        for u in ways_to_undo(trace, at, program.args, case.knobs, option, extents):
            if u.trace is None:
                assert u.refused
                ended["refused"] += 1
                continue
            assert at not in u.origin or option
            assert len(u.origin) == len(u.trace)
            s = replay(Trace.from_json(u.trace.to_json()), program.args)
            assert s.trace.to_json() == u.trace.to_json()
            knobs = {name: value for name, value in case.knobs.items() if name in s.knobs}
            try:
                with np.errstate(all="ignore"):
                    check_against_reference(program.args, s, target, program.inputs(case.seed), how, knobs)
                ended["right"] += 1
            except (LowerError, ScheduleError, BuildError) as error:  # as measuring would find out
                assert error.why
                ended["not lowered"] += 1


@pytest.mark.parametrize(
    ("backend", "seeds"), [("interpreter", range(25)), ("llvm", range(100, 112)), ("kernels", range(200, 215))]
)
def test_what_is_left_computes_the_reference(backend: str, seeds: range) -> None:
    ended: Counter[str] = Counter()
    for seed in seeds:
        check_undone(Case.draw(seed, backend, 0.5), 3, ended)
    assert ended["right"] > 4 * (ended["refused"] + ended["not lowered"])
