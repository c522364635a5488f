"""Schedules of which each call was legal, and which are not consistent when they are lowered.

The line that a message names is the one of the call that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable

from schedule_errors import scanned, schedule

from autosched import te
from autosched.lower import lower
from autosched.schedule import Schedule, create_schedule


def finish(s: Schedule) -> None:
    lower(s, s.arguments)


# -- compute_at ----------------------------------------------------------------------------------------------


def computed_at_a_loop_that_is_split() -> None:
    s = schedule()
    s["B"].compute_at(s["C"], "i")
    s["C"].split("i", factor=4)
    finish(s)


def computed_at_a_stage_that_is_inlined() -> None:
    s = schedule()
    s["B"].compute_at(s["C"], "i")
    s["C"].compute_inline()
    finish(s)


def computed_inside_a_loop_that_is_vectorized() -> None:
    s = schedule()
    s["B"].compute_at(s["C"], "i")
    s["C"].vectorize("j")
    s["C"].reorder("j", "i")
    finish(s)


def computed_inside_the_reduction_that_begins_with_it() -> None:
    n = te.var("n")
    a = te.placeholder((n, n), name="A")
    b = te.compute((n,), lambda i: a[i, 0] + 1, name="B")
    k = te.reduce_axis((0, n), name="k")
    s = create_schedule(te.compute((n,), lambda i: te.sum(a[i, k], axis=k, init=b[i]), name="C"))
    s[b].compute_at(s["C"], "k")
    finish(s)


def computed_where_not_all_that_use_it_are() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    c, d = (te.compute((n,), lambda i: b[i] * 2, name=name) for name in "CD")
    s = create_schedule([c, d])
    s["B"].compute_at(s["C"], "i")
    finish(s)


def whole_tiles_where_storage_outlives_them() -> None:
    s = schedule()
    s["B"].compute_at(s["C"], "i")
    s["B"].split("j", factor=8, tail="round_up")
    outer, _ = s["C"].split("i", factor=4)
    s["B"].compute_at(s["C"], "i.inner")
    s["B"].store_at(s["C"], outer)
    finish(s)


# -- store_at --------------------------------------------------------------------------------------------------


def stored_at_a_loop_of_another_stage_than_computed() -> None:
    s = schedule()
    s["B"].store_at(s["C"], "i")
    finish(s)


def stored_at_a_loop_that_is_split() -> None:
    s = schedule()
    s["B"].compute_at(s["C"], "j")
    s["B"].store_at(s["C"], "i")
    s["C"].split("i", factor=4)
    finish(s)


def stored_inside_of_where_it_is_computed() -> None:
    s = schedule()
    s["B"].compute_at(s["C"], "i")
    s["B"].store_at(s["C"], "j")
    finish(s)


def stored_outside_a_parallel_loop() -> None:
    s = schedule()
    s["B"].compute_at(s["C"], "j")
    s["B"].store_at(s["C"], "i")
    s["C"].parallel("j")
    finish(s)


def rolled_along_no_loop() -> None:
    s = schedule()
    s["B"].rolling_buffer()
    finish(s)


def rolled_and_inlined() -> None:
    s = schedule()
    s["B"].rolling_buffer()
    s["B"].compute_inline()
    finish(s)


# -- prefetch --------------------------------------------------------------------------------------------------


def prefetched_at_a_loop_that_is_split() -> None:
    s = schedule()
    s["C"].prefetch("B", "i", 2)
    s["C"].split("i", factor=4)
    finish(s)


def prefetched_in_a_stage_that_is_inlined() -> None:
    s = schedule()
    s["C"].prefetch("B", "i", 2)
    s["C"].compute_inline()
    finish(s)


def prefetched_and_computed_there() -> None:
    s = schedule()
    s["C"].prefetch("B", "i", 2)
    s["B"].compute_at(s["C"], "i")
    finish(s)


def prefetched_and_inlined() -> None:
    s = schedule()
    s["C"].prefetch("B", "i", 2)
    s["B"].compute_inline()
    finish(s)


# -- decompose_reduction, set_store_predicate, exact splits ---------------------------------------------------------


def decomposed_at_a_loop_that_is_split() -> None:
    s = schedule()
    s["S"].decompose_reduction("k")
    s["S"].split("k", factor=4)
    finish(s)


def decomposed_before_reordering() -> None:
    s = schedule()
    s["S"].reorder("k", "i")
    s["S"].decompose_reduction("k")
    s["S"].reorder("i", "k")
    finish(s)


def decomposed_and_bound_on_one_side() -> None:
    s = schedule()
    s["S"].reorder("k", "i")
    s["S"].decompose_reduction("k")
    s["S"].bind("i", "threadIdx.x")
    s["S"].vectorize("i.init")
    finish(s)


def stored_by_a_loop_that_is_split() -> None:
    s = schedule()
    s["C"].set_store_predicate(s["C"].loops[0].var < 1)
    s["C"].split("i", factor=4)
    finish(s)


def split_of_a_copy_without_a_condition() -> None:
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] * 2, name="B")
    s = create_schedule(te.compute((5,), lambda i: b[i * 2] + 1, name="C"))
    s[b].compute_at(s["C"], s["C"].split("i", factor=1)[0])
    s[b].split("i", factor=4, disable_predication=True)
    finish(s)


# -- scans -------------------------------------------------------------------------------------------------------


def a_loop_outside_time_along_which_a_step_looks_aside() -> None:
    s = scanned()
    s["S"].reorder("S.i1", "S.idx")
    finish(s)


def a_parallel_loop_inside_time() -> None:
    s = scanned()
    s["T"].parallel("T.i1")
    finish(s)


def a_stage_computed_inside_time() -> None:
    s = scanned()
    s.cache_read("X", "local", ["S1"])
    s["X.local"].compute_at(s["S"], "S.i1")
    finish(s)


CASES: dict[str, list[Callable[[], None]]] = {
    "compute_at": [
        computed_at_a_loop_that_is_split, computed_at_a_stage_that_is_inlined, computed_inside_a_loop_that_is_vectorized,
        computed_inside_the_reduction_that_begins_with_it, computed_where_not_all_that_use_it_are,
    ],
    "store_at": [
        stored_at_a_loop_of_another_stage_than_computed, stored_at_a_loop_that_is_split,
        stored_inside_of_where_it_is_computed, stored_outside_a_parallel_loop, whole_tiles_where_storage_outlives_them,
        rolled_along_no_loop, rolled_and_inlined,
    ],
    "prefetch": [
        prefetched_at_a_loop_that_is_split, prefetched_in_a_stage_that_is_inlined, prefetched_and_computed_there,
        prefetched_and_inlined,
    ],
    "conditions": [
        decomposed_at_a_loop_that_is_split, decomposed_before_reordering, decomposed_and_bound_on_one_side,
        stored_by_a_loop_that_is_split, split_of_a_copy_without_a_condition,
    ],
    "scans": [
        a_loop_outside_time_along_which_a_step_looks_aside, a_parallel_loop_inside_time, a_stage_computed_inside_time,
    ],
}  # fmt: skip
