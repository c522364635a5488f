"""Formulas over parameters: what they compute, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.errors import UsageError
from autosched.ir.evaluate import evaluate
from autosched.raw.formula import formula
from autosched.raw.parameters import Parameters
from autosched.space.tunable import knob_columns

PARAMETERS = Parameters.of({"x": [1, 2, 8, 32], "y": [0, 3, 4], "T": ["float", "double"], "w": [0.5, 2.0]})


def values(text: str) -> list[float]:
    """The formula at every point, in the order of `POINTS`."""
    rows = np.array([(i, j, k, m) for i in range(4) for j in range(3) for k in range(2) for m in range(2)])
    columns = knob_columns(PARAMETERS.knobs, rows)
    result = evaluate([formula(text, PARAMETERS.symbols, "test")], PARAMETERS.environment(columns))[0]
    return np.broadcast_to(result, len(rows)).tolist()


POINTS = [
    dict(zip(("x", "y", "T", "w"), p, strict=True))
    for p in [(x, y, t, w) for x in (1, 2, 8, 32) for y in (0, 3, 4) for t in ("float", "double") for w in (0.5, 2.0)]
]


@pytest.mark.parametrize(
    "text",
    [
        "x * y <= 32",
        "x == 8 or y == 3 and x < 4",
        "not x % 4",
        "1 < x <= 8 != y",
        "x in (1, 32)",
        "y not in [0, 4]",
        "T == 'float' or x >= 8",
        "T != 'double'",
        "T in ('half', 'double')",
        "w > 1",
        "x / 16 == w",
        "w == 0.5",
        "max(x, y, 4) - min(x, 2)",
        "x**2 + (y << 1) - (x ^ y) + (x & 3 | 1)",
        "x // 3 if y else -x",
        "abs(y - x)",
        "(x + y) / 4",
        "x > 4 and y",
    ],
)
def test_a_formula_computes_what_python_does(text):
    expected = [eval(text, {}, dict(p)) for p in POINTS]
    got = values(text)
    if formula(text, PARAMETERS.symbols, "test").dtype.is_bool:
        expected = [bool(e) for e in expected]
    assert got == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x <", "no formula"),
        ("z * 2 == x", "no parameter 'z'"),
        ("__import__('os').system('true')", "not allowed"),
        ("x.__class__", "not allowed"),
        ("[i for i in (1, 2)]", "not allowed"),
        ("open('f')", "not allowed"),
        ("(lambda: 1)()", "not allowed"),
        ("T + 1", "no numbers"),
        ("x == 'float'", "a word is compared with a number"),
        ("2**x", "exponent"),
        ("x**999999999", "exponent"),
        ("x in y", "no list"),
        ("-" * 500 + "x", "nested deeper"),
        ("x" * 5000, "longer than"),
        ("x +\x00", "no formula"),
    ],
)
def test_what_is_no_formula_is_refused(text, why):
    with pytest.raises(UsageError, match=why):
        formula(text, PARAMETERS.symbols, "restriction")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"x": []}, "no values"),
        ({"x": [1, 1]}, "twice"),
        ({"x": [1, True]}, "twice"),
        ({"a b": [1]}, "no name that C knows"),
        ({"x": "abc"}, "no list"),
        ({"x": [1, "a"]}, "words and numbers"),
        ({"x": [2**40]}, "cannot be the value"),
        ({"x": [object()]}, "cannot be the value"),
        ([1, 2], "no dictionary"),
    ],
)
def test_parameters_that_cannot_be_meant(given, why):
    with pytest.raises(UsageError, match=why):
        Parameters.of(given)


def test_values_and_knobs_stand_for_each_other():
    point = {"x": 8, "y": 0, "T": "double", "w": 0.5}
    knobs = PARAMETERS.encode(point)
    assert knobs == {"x": 8, "y": 0, "T": 1, "w": 0}
    assert PARAMETERS.decode(knobs) == point
    with pytest.raises(UsageError, match="cannot be 3"):
        PARAMETERS.encode({**point, "x": 3})
    with pytest.raises(UsageError, match="'T' is missing"):
        PARAMETERS.encode({"x": 8, "y": 0, "w": 0.5})
