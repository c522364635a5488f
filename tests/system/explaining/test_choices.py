"""The choices of a space one by one: what each value comes to is the best of all points that have it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from autosched import search_space, te, template, workload
from autosched.choosing import machine_model
from autosched.errors import UsageError
from autosched.explaining.choices import Choices
from autosched.records import Record


@workload
def scaled(n=96, m=128):
    x = te.placeholder((n, m), name="x")
    return x, te.compute((n, m), lambda i, j: x[i, j] * 3.0, name="y")


@template(scaled)
def tiles(s):
    y = s["y"]
    rows, lanes = s.define_knob("rows", [1, 2, 4, 8]), s.define_knob("lanes", [4, 8, 16])
    s.constrain(rows * lanes <= 32, "tiles are small")
    (i0, i1), (j0, j1) = y.split("i", factor=rows), y.split("j", factor=lanes)
    y.reorder(i0, j0, i1, j1)
    if s.choose("parallel", [True, False]):
        y.parallel(i0)
    y.vectorize(j1)


@pytest.fixture(scope="module")
def choices() -> Choices:
    space = search_space(scaled(), "llvm")
    model = machine_model(space.feature_names, space.target)
    assert model is not None
    return Choices(space, model)


def exhaustive(choices: Choices, number: int, fixed: dict[str, int]) -> float:
    """The least predicted time of all points with these values, by looking at every one."""
    sketch = choices.space.sketches[number]
    rows = np.array(list(itertools.product(*(range(len(k.values)) for k in sketch.knobs))))
    rows = rows[sketch.mask(rows)]
    rows = np.array([r for r in rows if fixed.items() <= sketch.values(r).items()]).reshape(-1, 2)
    assert choices._model is not None
    return float(choices._model.seconds(sketch.features(rows)).min()) if len(rows) else math.inf


def test_each_value_comes_to_the_best_of_its_points(choices) -> None:
    for number, fixed in ((0, {}), (1, {}), (0, {"rows": 8}), (1, {"lanes": 16})):
        for knob in ("rows", "lanes"):
            for option in choices.values(number, knob, fixed):
                wanted = {**fixed, knob: int(option.name)}
                assert option.seconds == pytest.approx(exhaustive(choices, number, wanted))
                assert not option.is_possible or wanted.items() <= option.knobs.items()


def test_a_value_without_points_says_which_constraint_it_breaks(choices) -> None:
    (option,) = [o for o in choices.values(0, "rows", {"lanes": 16}) if o.name == "8"]
    assert (option.seconds, option.why_not) == (math.inf, "tiles are small")


def test_sketches_come_the_best_first_and_have_the_knobs_that_are_settled(choices) -> None:
    found = choices.sketches({})
    assert sorted(number for number, _ in found) == [0, 1]
    assert [o.seconds for _, o in found] == sorted(o.seconds for _, o in found)
    assert {number for number, _ in choices.sketches({"rows": 2})} == {0, 1}


def test_the_nest_has_the_numbers_of_the_point(choices) -> None:
    nest = choices.nest(0, {"rows": 4, "lanes": 8})
    assert nest[:5] == [
        "produce y",
        "  parallel i.outer 24",
        "    for j.outer 16",
        "      for i.inner 4",
        "        vectorize j.inner 8",
    ]
    assert choices.calls(0, "rows") == ['s["y"].split("i", factor=rows)']
    assert {o.name: o.effect for o in choices.values(0, "lanes", {"rows": 1})}["16"] == (
        "for j.outer 8, vectorize j.inner 16"
    )


def test_the_fastest_record_of_a_value_stands_beside_what_is_predicted(choices) -> None:
    trace = choices.space.sketches[0].trace
    records = [
        Record(workload={}, target="llvm", sketch="", trace=trace, knobs={"rows": r, "lanes": 8}, status=status,
               samples=(t,) if status == "ok" else ())
        for r, t, status in ((2, 3e-6, "ok"), (2, 2e-6, "ok"), (4, 1e-6, "timeout"))
    ]  # fmt: skip
    known = Choices(choices.space, choices._model, [*records, replace(records[0], trace=[])])
    assert [o.measured for o in known.values(0, "rows", {})] == [math.inf, 2e-6, math.inf, math.inf]
    assert known.best(0, {"lanes": 4}).measured == math.inf


def test_without_a_model_nothing_can_be_predicted(choices) -> None:
    with pytest.raises(UsageError, match="no model of this device"):
        Choices(choices.space, None)
