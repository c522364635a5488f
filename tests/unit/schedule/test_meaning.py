"""Which primitives a stored trace may use: each says so itself, and what says nothing is refused."""

from __future__ import annotations

import pytest

from autosched import create_schedule, te
from autosched.errors import ScheduleError
from autosched.schedule import replay
from autosched.schedule.kinds import NAME
from autosched.schedule.primitive import PRIMITIVES, doubt, primitive
from autosched.schedule.primitives.marks import KEEP_MEANING, PRAGMAS
from autosched.schedule.trace import Instruction


def program():
    a = te.placeholder((8, 8), name="a")
    return a, te.compute((8, 8), lambda i, j: a[i, j] + 1, name="b")


#: those whose arguments decide, or that rest on their author's word
DOUBTFUL = {"pragma", "set_store_predicate"}


def test_every_primitive_says_whether_it_keeps_the_meaning():
    for name in set(PRIMITIVES) - DOUBTFUL:
        assert doubt(Instruction(name, "b")) == "", f"{name} is not declared"
    for name in DOUBTFUL:
        assert "not declared" not in doubt(Instruction(name, "b", ("i",)))


def test_a_primitive_that_says_nothing_is_refused(monkeypatch):
    monkeypatch.setitem(PRIMITIVES, "new_one", PRIMITIVES["split"])  # which is taken out at the end

    @primitive(NAME)
    def new_one(s, stage, how):
        pass

    assert "not declared" in doubt(Instruction("new_one", "b", ("fast",)))


def test_every_pragma_is_classified():
    assert set(PRAGMAS) - set(KEEP_MEANING) == {"debug_skip_region"}
    assert set(KEEP_MEANING) <= set(PRAGMAS)


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        (["pragma", "b", "i", "debug_skip_region"], "has no value"),
        (["set_store_predicate", "b", ["lt", ["loop", "i"], 3]], "never stored"),
    ],
)
def test_what_may_change_results_is_for_hand_written_schedules(instruction, why):
    args = program()
    assert replay([instruction], args).trace.to_json() == [instruction]
    with pytest.raises(ScheduleError, match=why) as refused:
        replay([["parallel", "b", "i"], instruction], args, trusted=False)
    assert instruction[0] in str(refused.value)


def test_everything_else_is_replayed():
    args = program()
    s = create_schedule(args[1])
    outer, inner = s["b"].split("j", factor=4)
    s["b"].parallel("i")
    s["b"].vectorize(inner)
    s["b"].pragma(outer, "auto_unroll_max_step", 4)
    assert replay(s.trace.to_json(), args, trusted=False).trace.to_json() == s.trace.to_json()
