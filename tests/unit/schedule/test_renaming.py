"""Traces under other names: what is replayed under them does the same."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from autosched import te
from autosched.errors import RecordError
from autosched.schedule.renaming import names_of, numbered, renamed, under_own_names
from autosched.schedule.schedule import create_schedule, replay
from autosched.target import Target
from autosched.te.graph_json import graph_from_json, graph_to_json, workload_key
from autosched.te.tensor import Tensor
from autosched.testing.programs import random_program
from autosched.testing.schedules import random_schedule


def under_other_names(args: Sequence[Tensor]) -> list[Tensor]:
    """The same computation, with other names for operations and axes."""
    data = graph_to_json(args)
    for number, entry in enumerate(data["ops"]):
        entry["name"] = f"stage{number}"
    axes = {variable for variable, *_ in data["axes"]}
    data["vars"] = [[f"{name[::-1]}_" if n in axes else name, *rest] for n, (name, *rest) in enumerate(data["vars"])]
    return graph_from_json(data)


@pytest.mark.parametrize("seed", [*range(60), 212, 590])  # the last two pad what two stages are called after
def test_random_schedules(seed: int) -> None:
    rng = random.Random(seed)
    program, target = random_program(rng), Target.parse("llvm")
    s = random_schedule(program.args, rng, target, knobs=seed % 2 == 0, sizes=program.sizes)
    other = under_other_names(program.args)
    assert workload_key(other) == workload_key(program.args)
    trace = s.trace.to_json()
    moved = renamed(trace, names_of(program.args), names_of(other))
    again = replay(moved, other)
    assert again.trace.to_json() == moved
    assert [[x.kind for x in stage.loops] for stage in again.stages] == [[x.kind for x in y.loops] for y in s.stages]
    assert renamed(moved, names_of(other), names_of(program.args)) == trace


def test_names_that_hold_each_other() -> None:
    """A whole name is replaced, or what stands between dots; knobs, scopes and reasons are none."""
    before, after = [["a"], ["a.b", "i", "i2"]], [["x"], ["y", "p", "q"]]
    trace = [
        ["define_knob", "a", [1, 2]],
        ["cache_read", "a", "local", ["a.b"]],
        ["split", "a.b", "i", {"factor": ["knob", "a"]}],
        ["fuse", "a.b", "i.inner", "i2"],
        ["vectorize", "a.b", "i.inner.i2.fused"],
        ["compute_at", "a.local", "a.b", "i.outer"],
        ["constrain", ["le", ["knob", "a"], 8], "a"],
    ]
    found = renamed(trace, before, after)
    assert found == [
        ["define_knob", "a", [1, 2]],
        ["cache_read", "x", "local", ["y"]],
        ["split", "y", "p", {"factor": ["knob", "a"]}],
        ["fuse", "y", "p.inner", "q"],
        ["vectorize", "y", "p.inner.q.fused"],
        ["compute_at", "x.local", "y", "p.outer"],
        ["constrain", ["le", ["knob", "a"], 8], "a"],
    ]


def test_loops_go_by_the_names_of_their_own_stage() -> None:
    """Axes of two stages may have had one name: a loop of the host of `compute_at` is one of the host."""
    before, after = [["x"], ["b", "i"], ["c", "i"]], [["x"], ["b", "p"], ["c", "q"]]
    trace = [["split", "c", "i", {"factor": 4}], ["compute_at", "b", "c", "i.outer"], ["vectorize", "b", "i"]]
    expected = [["split", "c", "q", {"factor": 4}], ["compute_at", "b", "c", "q.outer"], ["vectorize", "b", "p"]]
    assert renamed(trace, before, after) == expected


def test_what_is_not_renamed() -> None:
    trace = [["parallel", "b", "i"]]
    assert renamed(trace, [["b", "i"]], [["b", "i"]]) is trace
    assert renamed(trace, [["b", "i"]], [["c"]]) is trace, "no program of that key"
    a = te.placeholder((4,), name="a")
    assert under_own_names(trace, None, [a, te.compute((4,), lambda j: a[j], name="c")]) is trace
    with pytest.raises(RecordError):
        renamed([["no primitive", "b"]], [["b", "i"]], [["c", "i"]])


def test_scans_have_names_for_time() -> None:
    def sums(name: str) -> list[Tensor]:
        a, state = te.placeholder((9, 8), name="a"), te.placeholder((9, 8), name="state")
        first = te.compute((1, 8), lambda _, j: a[0, j], name="first")
        step = te.compute((9, 8), lambda t, j: state[t - 1, j] + a[t, j], name="step")
        return [a, te.scan(first, step, state, inputs=[a], name=name)]

    s = create_schedule(sums("total"))
    s["total"].reorder("total.i1", "total.idx")
    s["total"].parallel("total.i1")
    moved = renamed(s.trace.to_json(), names_of(sums("total")), names_of(sums("running")))
    assert [loop.name for loop in replay(moved, sums("running"))["running"].loops] == ["running.i1", "running.idx"]


def test_an_input_that_nothing_reads_keeps_its_name() -> None:
    """It has no stage: `build`, `show` and `tune` of such a workload ended with an internal error."""
    a, unread = te.placeholder((4,), name="a"), te.placeholder((te.var("m"),), name="unread")
    assert sorted(names_of([a, unread, te.compute((4,), lambda i: a[i], name="b")])) == [["a"], ["b", "i"], ["unread"]]


def test_traces_are_alike_but_for_the_names_of_knobs() -> None:
    def of(knob: str, choice: str, reason: str, most: int = 8) -> list[object]:
        return [
            ["define_knob", knob, [1, 2]],
            ["choose", choice, "rows"],
            ["constrain", ["le", ["knob", knob], most], reason],
            ["among", [knob], [[1], [2]], reason],
            ["split", "y", "p", {"factor": ["mul", ["knob", knob], 4]}],
        ]

    (text, knobs), (other, others) = numbered(of("a_n", "a_by", "a fits")), numbered(of("b_n", "b_by", "b fits"))
    assert text == other and (knobs, others) == (["a_n"], ["b_n"])
    assert numbered(of("a_n", "a_by", "a fits", 9))[0] != text
