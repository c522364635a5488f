"""Schedules of which each call was legal, and which are not consistent when they are lowered.

The line that a message names is the one of the call that does not fit.
"""

from __future__ import annotations

from error_cases import Cases
from schedule_errors import scanned

from autosched import te
from autosched.lowering import lower
from autosched.schedule import Schedule, create_schedule


def finish(s: Schedule) -> None:
    lower(s, s.arguments)


def sums_from_another_stage() -> Schedule:
    """A[n, n] -> B, its first column + 1 -> C, B and the sums of A's rows."""
    n = te.var("n")
    a = te.placeholder((n, n), name="A")
    b = te.compute((n,), lambda i: a[i, 0] + 1, name="B")
    k = te.reduce_axis((0, n), name="k")
    return create_schedule(te.compute((n,), lambda i: te.sum(a[i, k], axis=k, init=b[i]), name="C"))


def two_readers() -> Schedule:
    """A[n] -> B = A + 1 -> C and D, each B * 2."""
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    return create_schedule([te.compute((n,), lambda i: b[i] * 2, name=name) for name in "CD"])


def every_other() -> Schedule:
    """A[10] -> B = A * 2 -> C, every other element of B + 1."""
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] * 2, name="B")
    return create_schedule(te.compute((5,), lambda i: b[i * 2] + 1, name="C"))


def every_other_of_an_output() -> Schedule:
    """A[10] -> B = A * 2, an output -> C, every other element of B + 1."""
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] * 2, name="B")
    return create_schedule([b, te.compute((5,), lambda i: b[i * 2] + 1, name="C")])


def two_chains() -> Schedule:
    """A[10] -> B = A + 1 -> C = B * 2; and A[10] -> E = A - 1."""
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] + 1, name="B")
    c, e = te.compute((10,), lambda i: b[i] * 2, name="C"), te.compute((10,), lambda i: a[i] - 1, name="E")
    return create_schedule([c, e])


CASES: Cases = {
    "compute_at": {
        "computed at a loop that is split": lambda s: (s["B"].compute_at(s["C"], "i"), s["C"].split("i", factor=4)),
        "computed at a stage that is inlined": lambda s: (s["B"].compute_at(s["C"], "i"), s["C"].compute_inline()),
        "computed inside a loop that is vectorized": lambda s: (
            s["B"].compute_at(s["C"], "i"),
            s["C"].vectorize("j"),
            s["C"].reorder("j", "i"),
        ),
        "computed inside the reduction that begins with it": (
            sums_from_another_stage,
            lambda s: s["B"].compute_at(s["C"], "k"),
        ),
        "computed where not all that use it are": (two_readers, lambda s: s["B"].compute_at(s["C"], "i")),
        "an output of which some is not needed": (every_other_of_an_output, lambda s: s["B"].compute_at(s["C"], "i")),
    },
    "store_at": {
        "stored at a loop of another stage than computed": lambda s: s["B"].store_at(s["C"], "i"),
        "stored at a loop that is split": lambda s: (
            s["B"].compute_at(s["C"], "j"),
            s["B"].store_at(s["C"], "i"),
            s["C"].split("i", factor=4),
        ),
        "stored inside of where it is computed": lambda s: (
            s["B"].compute_at(s["C"], "i"),
            s["B"].store_at(s["C"], "j"),
        ),
        "stored outside a parallel loop": lambda s: (
            s["B"].compute_at(s["C"], "j"),
            s["B"].store_at(s["C"], "i"),
            s["C"].parallel("j"),
        ),
        "whole tiles where storage outlives them": lambda s: (
            s["B"].compute_at(s["C"], "i"),
            s["B"].split("j", factor=8, tail="round_up"),
            s["C"].split("i", factor=4),
            s["B"].compute_at(s["C"], "i.inner"),
            s["B"].store_at(s["C"], "i.outer"),
        ),
        "rolled along no loop": lambda s: s["B"].rolling_buffer(),
        "rolled and inlined": lambda s: (s["B"].rolling_buffer(), s["B"].compute_inline()),
    },
    "compute_with": {
        "in loops of which one is split": lambda s: (s["T"].compute_with("S", "i"), s["S"].split("i", factor=4)),
        "in loops of what is inlined": (
            two_chains,
            lambda s: (s["E"].compute_with("B", "i"), s["B"].compute_inline()),
        ),
        "in more loops than there are": (
            two_chains,
            lambda s: (s["B"].split("i", factor=2), s["E"].compute_with("B", "i.inner")),
        ),
        "in parallel with what is not": lambda s: (s["T"].compute_with("S", "i"), s["S"].parallel("i")),
    },
    "prefetch": {
        "prefetched at a loop that is split": lambda s: (s["C"].prefetch("B", "i", 2), s["C"].split("i", factor=4)),
        "prefetched in a stage that is inlined": lambda s: (s["C"].prefetch("B", "i", 2), s["C"].compute_inline()),
        "prefetched and computed there": lambda s: (s["C"].prefetch("B", "i", 2), s["B"].compute_at(s["C"], "i")),
        "prefetched and inlined": lambda s: (s["C"].prefetch("B", "i", 2), s["B"].compute_inline()),
    },
    "conditions": {
        "decomposed at a loop that is split": lambda s: (s["S"].decompose_reduction("k"), s["S"].split("k", factor=4)),
        "decomposed before reordering": lambda s: (
            s["S"].reorder("k", "i"),
            s["S"].decompose_reduction("k"),
            s["S"].reorder("i", "k"),
        ),
        "decomposed and bound on one side": lambda s: (
            s["S"].reorder("k", "i"),
            s["S"].decompose_reduction("k"),
            s["S"].bind("i", "threadIdx.x"),
            s["S"].vectorize("i.init"),
        ),
        "stored by a loop that is split": lambda s: (
            s["C"].set_store_predicate(s["C"].loops[0].var < 1),
            s["C"].split("i", factor=4),
        ),
        "split of a copy without a condition": (
            every_other,
            lambda s: (
                s["B"].compute_at(s["C"], s["C"].split("i", factor=1)[0]),
                s["B"].split("i", factor=4, disable_predication=True),
            ),
        ),
    },
    "scans": {
        "a loop outside time along which a step looks aside": (scanned, lambda s: s["S"].reorder("S.i1", "S.idx")),
        "a parallel loop inside time": (scanned, lambda s: s["T"].parallel("T.i1")),
        "a stage computed inside time": (
            scanned,
            lambda s: (s.cache_read("X", "local", ["S1"]), s["X.local"].compute_at(s["S"], "S.i1")),
        ),
    },
}
