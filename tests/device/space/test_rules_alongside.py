"""Rules for what reads a scan time after time: the scan goes on there."""

from __future__ import annotations

import numpy as np
import pytest
from generated_spaces import LLVM, check

from autosched import build, te, topi
from autosched.codegen import compile_function
from autosched.ir.stmt import Allocate, walk
from autosched.space.workload import Workload
from autosched.target import Target

LIMITS = {"max_threads_per_block": 256, "shared_memory_bytes": 32 << 10, "vector_bytes": 64, "is_cpu": 1}
TARGETS = {
    "llvm": LLVM,
    "c": Target.parse("c"),
    "opencl": Target.parse("opencl").with_limits(**LIMITS, compute_units=LLVM.num_threads),
}


def peaks(n=70, m=37, start=0, lag=0, dtype="float32"):
    """The running maximum of each column."""
    x, st = te.placeholder((n, m), dtype, name="x"), te.placeholder((n, m), dtype, name="st")
    first = te.compute((1, m), lambda _, i: x[0, i], name="first")
    step = te.compute((n, m), lambda t, i: te.max(st[t - 1, i], x[t, i]), name="step")
    peak = te.scan(first, step, st, inputs=[x], name="peak")
    k = te.reduce_axis((start, n - lag), name="k")
    return x, peak, k


def falls(**how):
    """The greatest fall below what was the maximum until then."""
    x, peak, k = peaks(**how)
    return x, te.compute((x.shape[1],), lambda i: te.max(peak[k, i] - x[k, i] * 0.5, axis=k), name="fall")


def later_falls():
    """The first time is left out: blocks of times would not begin where the scan does."""
    x, peak, k = peaks(start=1)
    return x, te.compute((x.shape[1],), lambda i: te.max(peak[k, i] - x[k, i] * 0.5, axis=k), name="fall")


def falls_by_stages():
    """Terms that have a stage of their own."""
    x, peak, k = peaks()
    term = te.compute(x.shape, lambda t, i: peak[t, i] * 2.0 - x[t, i], name="term")
    return x, te.compute((x.shape[1],), lambda i: te.sum(term[k, i], axis=k), name="fall")


def spikes(n=60, m=70):
    """Two states of different types, of which one is wanted."""
    x = te.placeholder((n, m), name="x")
    v, left = te.placeholder((n, m), name="v"), te.placeholder((n, m), "int32", name="left")
    before = te.compute(
        (n, m), lambda t, i: te.select(left[t - 1, i] > 0, v[t - 1, i], v[t - 1, i] * 0.5 + x[t, i]), name="before"
    )
    fires = te.compute((n, m), lambda t, i: before[t, i] > 4.0, name="fires")
    updates = [
        te.compute((n, m), lambda t, i: te.select(fires[t, i], 0.0, before[t, i]), name="next_v"),
        te.compute((n, m), lambda t, i: te.select(fires[t, i], 3, te.max(left[t - 1, i] - 1, 0)), name="next_left"),
    ]
    inits = [
        te.compute((1, m), lambda _, i: te.const(0.0, "float32"), name="v0"),
        te.compute((1, m), lambda _, i: te.const(0, "int32"), name="left0"),
    ]
    _, rest = te.scan(inits, updates, [v, left], inputs=[x], name="neurons")
    k = te.reduce_axis((0, n), name="k")
    return x, te.compute((m,), lambda i: te.sum((rest[k, i] == 3).astype("int32"), axis=k), name="spikes")


def maps(n=33, m=41):
    """Each time is wanted, as something is made of it."""
    x, peak, _ = peaks(n, m)
    return x, te.compute((n, m), lambda t, i: peak[t, i] * 2.0 + x[t, i], name="out")


def cubes(n=61, m=5, w=19):
    x, st = te.placeholder((n, m, w), name="x"), te.placeholder((n, m, w), name="st")
    first = te.compute((1, m, w), lambda _, j, i: x[0, j, i], name="first")
    step = te.compute((n, m, w), lambda t, j, i: st[t - 1, j, i] * 0.5 + x[t, j, i], name="step")
    k = te.reduce_axis((0, n), name="k")
    made = te.scan(first, step, st, inputs=[x], name="filtered")
    return x, te.compute((m, w), lambda j, i: te.sum(made[k, j, i], axis=k), name="out")


def across(n=64, m=20):
    """Places of results are those of states the other way round: vectors would lie across."""
    x, st = te.placeholder((n, m, m), name="x"), te.placeholder((n, m, m), name="st")
    first = te.compute((1, m, m), lambda _, j, i: x[0, j, i], name="first")
    step = te.compute((n, m, m), lambda t, j, i: st[t - 1, j, i] + x[t, j, i], name="step")
    k = te.reduce_axis((0, n), name="k")
    made = te.scan(first, step, st, inputs=[x], name="summed")
    return x, te.compute((m, m), lambda j, i: te.max(made[k, i, j], axis=k), name="out")


def two_scans(n=64, m=20):
    x, peak, k = peaks(n, m)
    total = topi.cumsum(x, axis=0)
    return x, te.compute((m,), lambda i: te.sum(peak[k, i] * total[k, i], axis=k), name="out")


def compacted(n=100):
    """The positive ones, one behind the other."""
    x, k = te.placeholder((n,), name="x"), te.reduce_axis((0, n), name="k")
    flag = te.compute((n,), lambda i: (x[i] > 0).astype("int32"), name="flag")
    place = topi.cumsum(flag, axis=0)
    at = lambda: (te.if_then_else(flag[k] == 1, place[k] - 1, -1), x[k])  # noqa: E731
    return x, te.scatter_reduce((n,), at, axis=k, name="out")


def one_stream(n=300, kind="map", lag=1):
    """A filter of one signal, and what is made of it."""
    x, st = te.placeholder((n,), name="x"), te.placeholder((n,), name="st")
    first = te.compute((lag,), lambda t: x[t], name="first")
    made = te.scan(
        first, te.compute((n,), lambda t: st[t - lag] * 0.5 + x[t], name="step"), st, inputs=[x], name="filtered"
    )
    if kind == "map":
        return x, te.compute((n,), lambda i: te.sqrt(te.abs(made[i])) + x[i], name="out")
    k = te.reduce_axis((0, n), name="k")
    reducer = {"sum": te.sum, "max": te.max, "argmax": te.argmax}[kind]
    return x, te.compute((1,), lambda _: reducer(made[k] - x[k], axis=k), name="out")


PROGRAMS = {
    "falls": (falls(), "places_along_a_scan"),
    "a column": (falls(m=1), None),
    "in doubles": (falls(dtype="float64"), "places_along_a_scan"),
    "later falls": (later_falls(), None),
    "all but the last time": (falls(lag=3), "places_along_a_scan"),
    "terms by themselves": (falls_by_stages(), "places_along_a_scan"),
    "two states": (spikes(), "places_along_a_scan"),
    "maps": (maps(), "places_along_a_scan"),
    "cubes": (cubes(), "places_along_a_scan"),
    "across": (across(), None),
    "two scans": (two_scans(), "places_along_a_scan"),
    "compacted": (compacted(), "stream_along_a_scan"),
    "a stream": (one_stream(), "stream_along_a_scan"),
    "two steps back": (one_stream(lag=2), None),
    "the sum of a stream": (one_stream(kind="sum"), "stream_along_a_scan"),
    "the greatest of a stream": (one_stream(kind="max"), "stream_along_a_scan"),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_scans_go_on_where_they_are_read(name: str, target: str) -> None:
    args, by = PROGRAMS[name]
    space = check(args, target=TARGETS[target])
    ways = {rule for sketch in space.sketches for _, rule, _ in sketch.remarks}
    assert {"places_along_a_scan", "stream_along_a_scan"} & ways == ({by} if by else set())


@pytest.mark.parametrize(
    ("program", "n"), [(falls, (1, 2, 18, 67)), (one_stream, (1, 2, 63, 200)), (compacted, (5, 80))]
)
def test_times_may_be_as_many_as_the_call_says(program, n) -> None:
    args = program(n=te.var("n"))
    for length in n:
        check(args, sizes={"n": length})


@pytest.mark.parametrize("effort", ["none", "quick"])
def test_results_have_the_same_bits_as_in_order(effort: str) -> None:
    """Terms are added in the order of times."""
    args = cubes(n=70)
    x = np.random.default_rng(0).standard_normal((70, 5, 19))
    x = x.astype("float32")
    state, total = x[0], x[0].copy()
    for t in range(1, len(x)):
        state = (state.astype("float64") * 0.5 + x[t]).astype("float32")  # as one operation
        total = total + state
    found = build(Workload("w", args), "llvm -num-cores=1", effort=effort)(x)
    assert np.abs(found - total).max() <= 1e-4


def test_states_that_one_reduction_wants_need_no_plane() -> None:
    """Nor a plane for each time."""
    space = Workload("w", falls(n=1000, m=512)).search_space(LLVM, {}, "auto")
    sketch = next(s for s in space.sketches if ("fall", "places_along_a_scan") in {r[:2] for r in s.remarks})
    kept = [a.buffer.shape for a in walk(sketch.structure.function.body) if isinstance(a, Allocate)]
    assert [int(shape[0].value) for shape in kept] == [2]


def test_a_state_in_a_window_is_read_without_a_choice_of_its_own() -> None:
    """Of an update that data choose, only what data place may not be there."""
    space = Workload("w", compacted()).search_space(LLVM, {}, "auto")
    sketch = next(s for s in space.sketches if ("out", "stream_along_a_scan") in {r[:2] for r in s.remarks})
    source = compile_function(sketch.structure.bind({}), LLVM).texts["source"]
    chosen = [line for line in source.splitlines() if "!unpredictable" in line]
    assert len(chosen) == 4  # where the sum is read and stored, in the first step and in the others
