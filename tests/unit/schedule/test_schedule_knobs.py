"""What a template leaves open: knobs, constraints and choices."""

from __future__ import annotations

import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.errors import LowerError, ScheduleError, UsageError
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule


def schedule() -> Schedule:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    return create_schedule(te.compute((n,), lambda i: a[i] + 1, name="B"))


def test_the_same_knob_twice_is_one_knob() -> None:
    s = schedule()
    assert s.define_knob("x", [1, 2]) is s.define_knob("x", (1, 2))
    assert len(s.trace) == 1


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("x", [], "there are no values"),
        ("x", [2**31], "a value does not fit 32 bits"),
        ("x", [(1, 2)], "an option is not plain data"),
        ("x", [1, 1], "a value is given twice"),
        ("old", [3], "knob old has the values [1, 2] already"),
        ("a b", [1], "'a b' cannot name a variable of the printed schedule"),
        ("lambda", [1], "'lambda' cannot name a variable of the printed schedule"),
        ("s", [1], "'s' cannot name a variable of the printed schedule"),
        ("te", [1], "'te' cannot name a variable of the printed schedule"),
    ],
)
def test_knobs_that_cannot_be(name: str, values: list[int], why: str) -> None:
    s = schedule()
    s.define_knob("old", [1, 2])
    with pytest.raises(ScheduleError) as raised:
        s.define_knob(name, values)
    assert raised.value.why == why
    call = "choose" if "plain data" in why else "define_knob"
    assert raised.value.asked.startswith(f"{call}({name!r}, {values!r})  at {__file__}:")
    assert raised.value.legal


@pytest.mark.parametrize("values", [[True, False], ["a", "b"], [0, "auto"], [0.5, 1]])
def test_values_that_are_no_integers_make_a_choice(values: list[object]) -> None:
    s = schedule()
    assert s.define_knob("x", values) == values[0]
    assert s.choices_seen == {"x": tuple(values)} and not s.knobs
    assert schedule().with_choices({"x": values[1]}).define_knob("x", values) == values[1]


def test_a_knob_may_be_zero_and_then_it_is_no_factor() -> None:
    s = schedule()
    step = s.define_knob("step", [-1, 0, 16])
    s["B"].split("i", factor=step)
    args = [s["A"].tensor, s["B"].tensor]
    structure = lower_structure(s, args, "llvm")
    for value in (-1, 0):
        with pytest.raises(LowerError, match="is not positive"):
            structure.bind({"step": value})
    assert structure.bind({"step": 16})
    assert_roundtrip(s, args)


def test_a_knob_has_no_truth_value() -> None:
    x = schedule().define_knob("x", [1, 2])
    with pytest.raises(UsageError, match="x is a knob: it has no value while the sketch is traced") as raised:
        bool(x > 1)
    assert "choose" in raised.value.legal


def test_a_choice_is_plain_python() -> None:
    s = schedule()
    assert s.choose("wide", [True, False]) is True
    s = schedule().with_choices({"wide": False})
    assert s.choose("wide", [True, False]) is False
    assert s.choices_seen == {"wide": (True, False)}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "nothing to choose from"),
        ([(0, 1)], "an option is not plain data"),
        ([1, 2], "again has the options [True, False] already"),
    ],
)
def test_choices_that_cannot_be(options: list[object], why: str) -> None:
    s = schedule()
    s.choose("again", [True, False])
    with pytest.raises(ScheduleError) as raised:
        s.choose("again", options)
    assert raised.value.why == why
    assert raised.value.legal


def test_a_constraint_is_one_comparison() -> None:
    s = schedule()
    x = s.define_knob("x", [1, 2])
    for condition in (te.all(x > 1, x < 2), x + 1, te.const(1) < 2):
        with pytest.raises(ScheduleError) as raised:
            s.constrain(condition)
        assert "is not a comparison" in raised.value.why
        assert raised.value.asked.startswith("constrain(")
    s.constrain(x > 1)
    assert s.constraints[0].reason == "x > 1"


def test_another_schedules_knob_or_size_is_no_factor() -> None:
    s, other = schedule(), schedule()
    x = other.define_knob("x", [2])
    for stranger in (x, te.var("n"), other.size("n") * 2):
        with pytest.raises(ScheduleError, match="which is no knob or size of this schedule"):
            s["B"].split("i", factor=stranger)
