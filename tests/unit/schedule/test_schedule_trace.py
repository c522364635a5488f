"""Traces as data: what is stored can be read again, and whatever else is in a file is refused."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.errors import AutoschedError, RecordError, ScheduleError
from autosched.schedule import Trace, create_schedule, replay
from autosched.te import Tensor


def program() -> list[Tensor]:
    n = te.var("n")
    a = te.placeholder((n, n), name="A")
    b = te.compute((n, n), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((n, n), lambda i, j: b[j, i] * 2, name="C")
    return [a, c]


GOOD: list[Any] = [
    ["define_knob", "x", [2, 4]],
    ["choose", "deep", True],
    ["tile", "C", "i", "j", ["knob", "x"], ["mul", ["knob", "x"], 2], {"tail": "shift_inwards"}],
    ["compute_at", "B", "C", "j.outer"],
    ["split", "B", "i", {"factor": 3}],
    ["fuse", "B", "i.outer", "i.inner"],
    ["vectorize", "C", "j.inner"],
    ["constrain", ["le", ["knob", "x"], ["size", "n"]], "a tile fits"],
    ["cache_read", "A", "local", ["B"]],
    ["set_scope", "B", "local"],
]


def test_a_trace_is_json_and_back() -> None:
    assert Trace.from_json(json.loads(json.dumps(GOOD))).to_json() == GOOD
    args = program()
    s = replay(GOOD, args)
    assert s.trace.to_json() == GOOD
    assert_roundtrip(s, args)


def test_printed_with_numbers_in_place_of_knobs() -> None:
    text = Trace.from_json(GOOD).as_python("fast", {"x": 4})
    assert text.startswith('def fast(s):\n    x = 4\n    # choose "deep": True\n')
    assert "define_knob" not in text
    assert "constrain" not in text
    s = create_schedule(program())
    names: dict[str, Any] = {"te": te}
    exec(text, names)
    names["fast"](s)
    assert not s.knobs


def test_an_empty_trace_prints_a_function() -> None:
    assert Trace().as_python() == "def schedule(s):\n    pass\n"


HOSTILE: dict[str, Any] = {
    "not a list": {"split": 1},
    "an entry that is text": ["split"],
    "an empty entry": [[]],
    "no name": [[1, "C"]],
    "an unknown primitive": [["__import__", "os"]],
    "an attribute": [["_add", "C"]],
    "a method of the schedule": [["check", "C"]],
    "no stage": [["split"]],
    "a stage that is a number": [["split", 3, "i", {"factor": 2}]],
    "no loop": [["split", "C", {"factor": 2}]],
    "too many loops": [["parallel", "C", "i", "j"]],
    "a loop that is a list": [["parallel", "C", ["i"]]],
    "an unknown option": [["split", "C", "i", {"factor": 2, "s": 1}]],
    "an unhashable tail": [["split", "C", "i", {"factor": 2, "tail": ["guard"]}]],
    "a factor that is text": [["split", "C", "i", {"factor": "2"}]],
    "a factor that is a float": [["split", "C", "i", {"factor": 2.0}]],
    "a factor that is true": [["split", "C", "i", {"factor": True}]],
    "a factor that is null": [["split", "C", "i", {"factor": None}]],
    "a factor with an unknown operator": [["split", "C", "i", {"factor": ["pow", 10, 10]}]],
    "a factor with an unhashable operator": [["split", "C", "i", {"factor": [[], 10, 10]}]],
    "a factor with an unhashable name": [["split", "C", "i", {"factor": ["knob", []]}]],
    "an unknown knob": [["split", "C", "i", {"factor": ["knob", "zz"]}]],
    "an unknown size": [["split", "C", "i", {"factor": ["size", "zz"]}]],
    "a knob that is code": [["define_knob", "x = 1; import os #", [1]]],
    "a knob that is a keyword": [["define_knob", "class", [1]]],
    "a knob that hides the schedule": [["define_knob", "s", [1]]],
    "a knob without values": [["define_knob", "x"]],
    "a knob whose values are text": [["define_knob", "x", "12"]],
    "a knob with a value that is text": [["define_knob", "x", [1, "2"]]],
    "a knob named by a list": [["define_knob", ["x"], [1]]],
    "a constraint that is text": [["constrain", "x < 1"]],
    "a constraint with an unknown operator": [["constrain", ["is", 1, 2]]],
    "a constraint whose reason is a list": [["constrain", ["lt", 1, 2], [1]]],
    "a choice that is a list": [["choose", "x", [1, 2]]],
    "a choice without a value": [["choose", "x"]],
    "an unhashable scope": [["set_scope", "B", {}]],
    "a scope that is a list": [["cache_write", "B", ["local"]]],
    "readers that are text": [["cache_read", "A", "local", "B"]],
    "a thread that is null": [["bind", "C", "i", None]],
}


def test_a_trace_with_numbers_in_place_of_knobs() -> None:
    n = te.placeholder((64, 64), name="A")
    args = [n, te.compute((64, 64), lambda i, j: n[i, j] + 1, name="knob")]
    s = create_schedule(args)
    x = s.define_knob("x", [2, 4])
    s.constrain(x < 4, "small")
    s.cache_read("A", "local", ["knob"])
    s["A.local"].transform_layout(lambda i, j: [j // x, i, j % x])
    s["knob"].split("i", factor=x * 2)
    s["knob"].split_into("j", None, x)
    at = s.trace.at({"x": 2})
    assert at.to_json() == [
        ["cache_read", "A", "local", ["knob"]],
        [
            "transform_layout",
            "A.local",
            [["floordiv", ["axis", "1"], 2], ["axis", "0"], ["floormod", ["axis", "1"], 2]],
        ],
        ["split", "knob", "i", {"factor": ["mul", 2, 2]}],
        ["split_into", "knob", "j", None, 2],
    ]
    assert replay(at, args).trace.to_json()[2] == ["split", "knob", "i", {"factor": 4}]
    with pytest.raises(RecordError, match="knob x has no value"):
        s.trace.at({"y": 1})


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_trace_is_refused_as_a_record(name: str) -> None:
    with pytest.raises(RecordError) as raised:
        replay(HOSTILE[name], program())
    assert raised.value.why
    assert len(str(raised.value)) < 800, "however long the input is; the primitives there are take 400"


def test_a_factor_nested_without_end() -> None:
    factor: Any = 1
    for _ in range(50_000):
        factor = ["add", factor, 1]
    with pytest.raises(RecordError):
        replay([["split", "C", "i", {"factor": factor}]], program())


@pytest.mark.parametrize(
    "trace",
    [
        [["split", "X", "i", {"factor": 2}]],
        [["split", "C", "x", {"factor": 2}]],
        [["split", "C", "i", {"factor": 0}]],
        [["split", "C", "i", {"factor": 10**30}]],
        [["split", "C", "i"]],
        [["bind", "C", "i", "warpIdx.x"]],
        [["fuse", "C"]],
        [["define_knob", "x", []]],
        [["define_knob", "x", [2147483648]]],
        [["constrain", ["lt", 1, 2], "folded"]],
        [["cache_read", "A", "local", []]],
        [["set_scope", "B", "registers"]],
    ],
    ids=lambda t: json.dumps(t[0])[:60],
)
def test_a_trace_that_does_not_fit_the_graph(trace: Any) -> None:
    with pytest.raises(ScheduleError) as raised:
        replay(trace, program())
    assert raised.value.asked
    assert raised.value.legal


def test_mutated_traces_raise_nothing_but_our_errors() -> None:
    """Entries dropped, swapped and replaced at random: a trace is refused or replayed, never more."""
    rng = random.Random(0)
    junk = [None, True, 0, -1, 2.5, "", "i", "C", [], {}, ["knob", "x"], [[]], {"factor": []}, 10**20, "x\n"]

    def mutate(data: Any) -> Any:
        if isinstance(data, list) and data:
            at = rng.randrange(len(data))
            action = rng.random()
            if action < 0.2:
                return data[:at] + data[at + 1 :]
            if action < 0.4:
                return [*data[:at], rng.choice(junk), *data[at:]]
            return [*data[:at], mutate(data[at]), *data[at + 1 :]]
        if isinstance(data, dict) and data and rng.random() < 0.7:
            key = rng.choice(list(data))
            return {**data, key: mutate(data[key])}
        return rng.choice(junk)

    refused = 0
    for _ in range(1500):
        trace = GOOD
        for _ in range(rng.randint(1, 3)):
            trace = mutate(trace)
        try:
            s = replay(trace, program())
            s.trace.as_python()
        except AutoschedError:
            refused += 1
    assert refused > 300


def test_a_trace_from_a_file_prints_no_foreign_code() -> None:
    """Printing needs no replay, so whatever stands in a file must stay inside string literals."""
    trace = Trace.from_json(
        [["parallel", 'C"]; import os; s["C', "i\n    import os"], ["choose", "a\nimport os", "\n"]]
    )
    lines = trace.as_python().splitlines()
    assert len(lines) == 3
    assert not any(line.strip().startswith("import") for line in lines)


def test_a_trace_prints_as_python() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    s = create_schedule(b)
    s[b].unroll("i")
    assert str(s.trace) == s.trace.as_python() == 'def schedule(s):\n    s["B"].unroll("i")\n'
