"""Data from outside: what fits is returned, and of what does not the part is named."""

from __future__ import annotations

import pytest

from autosched.errors import Fields, Form, Malformed, parse_json

RECORD = Fields(
    {
        "name": Form.text(8, 1),
        "kind": Form.one_of("a", "b"),
        "times": Form.array(Form.number(above=0), "an array of times", shortest=1),
        "knobs": Form.object(Form.integer(0), "an object of counts"),
        "inner": Fields({"flag": Form.flag()}),
        "note": Form.text(),
    },
    optional=("note",),
)
GOOD = {"name": "x", "kind": "a", "times": [1, 0.5], "knobs": {"n": 0}, "inner": {"flag": True}, "more": None}


def test_data_that_fit_are_returned() -> None:
    assert RECORD.check(GOOD) is GOOD and RECORD.fits({**GOOD, "note": ""})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": ""}, "name is not a string of 1 to 8 characters"),
        ({"name": 1}, "name is not a string of 1 to 8 characters"),
        ({"kind": "c"}, "kind is not one of a, b"),
        ({"kind": ["a"]}, "kind is not one of a, b"),
        ({"times": []}, "times is not an array of times"),
        ({"times": [0]}, "times is not an array of times"),
        ({"times": [True]}, "times is not an array of times"),
        ({"times": [float("nan")]}, "times is not an array of times"),
        ({"times": [10**400]}, "times is not an array of times"),
        ({"knobs": {"n": -1}}, "knobs is not an object of counts"),
        ({"knobs": {"n": False}}, "knobs is not an object of counts"),
        ({"inner": {}}, "inner.flag is missing"),
        ({"inner": {"flag": 1}}, "inner.flag is not true or false"),
        ({"inner": []}, "inner is not an object"),
        ({"note": None}, "note is not a string"),
    ],
)
def test_the_part_that_does_not_fit_is_named(change: dict[str, object], why: str) -> None:
    with pytest.raises(Malformed) as caught:
        RECORD.check({**GOOD, **change})
    assert str(caught.value) == why and not RECORD.fits({**GOOD, **change})


@pytest.mark.parametrize("text", ["", "{", "NaN", "[Infinity]", b"\xff", "[" * 100_000, b"1 2"])
def test_text_that_is_no_json_is_malformed(text: str | bytes) -> None:
    with pytest.raises(Malformed, match="not JSON"):
        parse_json(text)
