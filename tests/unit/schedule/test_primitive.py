"""A primitive is one function: what is declared here is recorded, printed, replayed, spelled, drawn and undone."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te, tir
from autosched.errors import Illegal, RecordError, ScheduleError
from autosched.schedule import Loop, Schedule, Stage, Trace, create_schedule, replay
from autosched.schedule import kinds as K
from autosched.schedule.primitive import PRIMITIVES, keeps_meaning, primitive
from autosched.schedule.primitives.loops import reorder, split
from autosched.schedule.primitives.marks import unroll
from autosched.schedule.primitives.new_stages import cache_read
from autosched.schedule.undo import Undone, undoable, ways_to_undo
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference
from autosched.testing.programs import random_program
from autosched.testing.schedules import random_knobs, random_schedule
from autosched.testing.steps import legal_steps


def program() -> list[Tensor]:
    n = te.var("n")
    a = te.placeholder((n, 24), name="A")
    b = te.compute((n, 24), lambda i, j: a[i, j] + 1, name="B")
    return [a, te.compute((n, 24), lambda i, j: b[i, j] * 2, name="C")]


@pytest.fixture(autouse=True)
def strip(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """A primitive of this file: strips of a loop, innermost."""
    monkeypatch.setitem(PRIMITIVES, "strip", PRIMITIVES["split"])  # which is taken out at the end

    @primitive(K.LOOP, K.FACTOR, unrolled=K.FLAG)
    @keeps_meaning
    def strip(s: Schedule, stage: Stage, loop: Any, width: Any, unrolled: bool = False) -> tuple[Loop, Loop]:
        """Bring strips of a loop inside all others.

        for i: for j: f   --strip(i, 4)->   for i.outer: for j: for i.inner in 4: f
        """
        if stage.reduce_axis:
            raise Illegal(f"{stage.name} is a reduction", "stages without a reduce axis")
        outer, inner = split(stage, loop, factor=width)
        if inner is not stage.loops[-1]:
            reorder(stage, *stage.loops[stage.loops.index(inner) + 1 :], inner)
        if unrolled:
            unroll(stage, inner)
        return outer, inner

    return strip


def stripped() -> tuple[Schedule, list[Tensor]]:
    args = program()
    s = create_schedule(args)
    s["C"].strip("i", s.define_knob("k", [2, 4]), unrolled=True)
    s["C"].parallel("i.outer")
    s["B"].compute_at(s["C"], "j")
    return s, args


def test_it_is_recorded_printed_and_replayed() -> None:
    s, args = stripped()
    assert s.trace.to_json()[1] == ["strip", "C", "i", ["knob", "k"], {"unrolled": True}]
    assert 's["C"].strip("i", k, unrolled=True)' in s.trace.as_python()
    assert repr(s["C"]) == "Stage(C: i.outer (parallel) / j / i.inner (unroll))"
    assert_roundtrip(s, args)
    assert s.trace.at({"k": 4}).to_json()[0] == ["strip", "C", "i", 4, {"unrolled": True}]


def test_what_says_what_is_so_anyway_is_left_out() -> None:
    s = create_schedule(program())
    assert [x.name for x in s["C"].strip(s["C"].op.axis[0], width=8, unrolled=False)] == ["i.outer", "i.inner"]
    assert s.trace.to_json() == [["strip", "C", "i", 8]]


def test_it_can_be_called_as_a_function_that_has_a_signature(strip: Callable[..., Any]) -> None:
    s = create_schedule(program())
    strip(s["C"], "j", 4)
    assert s.trace.to_json() == [["strip", "C", "j", 4]]
    assert list(inspect.signature(strip).parameters) == ["stage", "loop", "width", "unrolled"]
    with pytest.raises(TypeError, match="strip: missing a required argument: 'width'"):
        s["C"].strip("i")


def test_what_it_calls_is_part_of_it() -> None:
    s, _ = stripped()
    assert [instruction.kind for instruction in s.trace] == ["define_knob", "strip", "parallel", "compute_at"]


def test_its_errors_name_the_call_and_the_line() -> None:
    s = create_schedule(program())
    with pytest.raises(ScheduleError, match="C has no loop 'x'") as raised:
        s["C"].strip("x", 4)
    assert raised.value.asked.startswith("C.strip('x', 4)  at ")
    assert "test_primitive.py" in raised.value.asked
    assert len(s.trace) == 0


@pytest.mark.parametrize(
    "entry", [["strip", "C", "i"], ["strip", "C", 3, 4], ["strip", "C", "i", 4, {"tail": "guard"}]]
)
def test_a_stored_call_that_does_not_fit_is_refused(entry: list[Any]) -> None:
    with pytest.raises(RecordError) as raised:
        replay([entry], program())
    assert raised.value.legal == "['strip', stage, loop, factor], options unrolled"


def test_nobody_else_has_a_method_of_that_name() -> None:
    with pytest.raises(AttributeError, match="'peel'"):
        create_schedule(program())["C"].peel("i")


def test_blocks_spell_it() -> None:
    a, c = program()
    sch = tir.Schedule(tir.create_prim_func([a, c]))
    block = sch.get_block("C")
    outer, inner = sch.strip(sch.get_loops(block)[0], 4)
    assert sch.get_loops(block)[-1] is inner
    sch.parallel(outer)
    assert sch.trace.to_json()[0] == ["strip", "C", "i", 4]
    with pytest.raises(AttributeError, match="'peel'"):
        sch.peel(inner)


def undone(s: Schedule, args: list[Tensor], at: int) -> list[Undone]:
    return list(ways_to_undo(s.trace, at, args, {"k": 4}))


def test_it_is_undone_in_both_ways() -> None:
    """Nothing says how: the loops it made came of one, by a split."""
    s, args = stripped()
    outer, inner = undone(s, args, 1)
    assert (outer.way, inner.way) == ("outer", "inner")
    assert outer.trace is not None and inner.trace is not None
    assert outer.trace.to_json() == [["parallel", "C", "i"], ["compute_at", "B", "C", "j"]]
    assert inner.trace.to_json() == [["compute_at", "B", "C", "j"]]
    assert [inner.lost, outer.lost] == [(2,), ()]


def test_it_follows_what_else_is_undone() -> None:
    args = program()
    s = create_schedule(args)
    s["C"].split("i", factor=8)
    s["C"].strip("i.outer", 4)
    s["C"].vectorize("i.outer.inner")
    assert [name for _, name in undoable(s.trace)] == [""] * 3
    (outer, inner) = undone(s, args, 0)
    assert outer.trace is not None and inner.trace is not None
    assert outer.trace.to_json() == [["strip", "C", "i", 4], ["vectorize", "C", "i.inner"]]
    assert (inner.trace.to_json(), inner.lost) == ([["reorder", "C", "i", "j"]], (2,))  # what is left of the strip


def test_of_what_lost_a_loop_the_rest_is_done() -> None:
    """`tile` is two splits and a reorder, which are seen when it is replayed."""
    args = program()
    s = create_schedule(args)
    s["C"].split("i", factor=8)
    s["C"].tile("i.inner", "j", 2, 4)
    outer, _ = undone(s, args, 0)
    assert outer.trace is not None and (outer.origin, outer.lost) == ((1, 1), ())
    assert outer.trace.to_json() == [["split", "C", "j", {"factor": 4}], ["reorder", "C", "j.outer", "j.inner"]]


def test_one_that_makes_a_stage_is_a_method_of_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRIMITIVES, "staged", PRIMITIVES["split"])

    @primitive(K.READERS, of_schedule=True)
    @keeps_meaning
    def staged(s: Schedule, stage: Stage, readers: Any) -> Any:
        """Copy a tensor row by row for some readers."""
        copy = cache_read(stage, "local", readers)
        s.stage(copy).compute_at(s.stage(readers[0]), s.stage(readers[0]).loops[0])
        return copy

    args = program()
    s = create_schedule(args)
    s.staged("A", ["B"])
    s["A.local"].unroll("ax0")
    s.cache_read("A.local", "global", ["B"])
    s["A.local.global"].compute_at(s["B"], "i")
    assert s.trace.to_json()[0] == ["staged", "A", ["B"]]
    assert_roundtrip(s, args)
    (u,) = undone(s, args, 0)
    assert u.trace is not None and u.lost == (1,)
    assert u.trace.to_json() == [["cache_read", "A", "global", ["B"]], ["compute_at", "A.global", "B", "i"]]
    with pytest.raises(AttributeError, match="'unstaged'"):
        s.unstaged("A", ["B"])


def test_it_is_drawn_at_random() -> None:
    rng = random.Random(3)
    drawn = [step for _ in range(3) for step in legal_steps(create_schedule(program()), rng) if step.kind == "strip"]
    assert drawn
    assert {len(step.args) for step in drawn} == {2}
    right = 0
    for seed in range(60):
        rng = random.Random(seed)
        p = random_program(rng)
        s = random_schedule(p.args, rng, steps=5)
        if any(i.kind == "strip" for i in s.trace):
            right += 1
            with np.errstate(all="ignore"):
                check_against_reference(p.args, s, "llvm", p.inputs(seed), "interpreter", random_knobs(s, rng))
            assert Trace.from_json(s.trace.to_json()).to_json() == s.trace.to_json()
    assert right
