"""What a template leaves open: knobs, constraints and choices."""

from __future__ import annotations

import pytest

from autosched import te
from autosched.errors import ScheduleError, UsageError
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
        ("x", [], "the values are not positive integers"),
        ("x", [0], "the values are not positive integers"),
        ("x", [True], "the values are not positive integers"),
        ("x", [2.0], "the values are not positive integers"),
        ("x", [2**31], "the values are not positive integers"),
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
    assert raised.value.asked.startswith(f"define_knob({name!r}, {values!r})  at {__file__}:")
    assert raised.value.legal


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
