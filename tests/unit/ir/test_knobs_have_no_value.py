"""What a program may not do with a knob says so, and names it."""

from __future__ import annotations

import pytest

from autosched import te
from autosched.errors import NoValueYet
from autosched.schedule import create_schedule

A = te.placeholder((8,), name="A")
s = create_schedule(te.compute((8,), lambda i: A[i], name="B"))
tile, wide = s.define_knob("tile", [1, 2]), s.define_knob("wide", [4, 8])


@pytest.mark.parametrize(
    "use",
    [
        lambda: bool(tile),
        lambda: tile == 2,
        lambda: tile != 2,
        lambda: tile == wide,
        lambda: tile * 2 != wide,
        lambda: tile * 1 == 2,
        lambda: tile in (0, 2),
        lambda: tile > 1,
        lambda: min(tile, 2),
        lambda: int(tile),
        lambda: range(tile),
        lambda: [1, 2, 3][tile],
        lambda: tile if tile == 1 else 2,
    ],
)
def test_a_script_that_needs_the_value(use) -> None:
    with pytest.raises(NoValueYet, match="tile is a knob: it has no value") as error:
        assert use()
    assert error.value.names[0] == "tile" and isinstance(error.value, TypeError)


def test_the_same_formula_is_the_same() -> None:
    assert tile == tile and not (tile != tile) and tile * 2 == tile * 2 and tile in (tile, wide)
    assert (tile * 2).same_as(tile * 2) and not tile.same_as(wide)


def test_it_does_not_matter_who_asks() -> None:
    """The rule holds for code of the package too: there is one for everybody."""
    asked = eval("lambda a, b: a == b or 1", {"__name__": "autosched.lowering.nest"})
    with pytest.raises(NoValueYet, match="tile is a knob"):
        asked(tile, 2)


def test_formulas_without_knobs_are_told_apart() -> None:
    n, m = te.var("n"), te.var("m")
    assert n != m and n + 1 == n + 1 and n in [m, n]


def test_numbers_count() -> None:
    three = te.const(3, "int32")
    assert list(range(three)) == [0, 1, 2] and "abcd"[three] == "d"
    with pytest.raises(TypeError, match="not an integer"):
        range(te.const(3.0, "float32"))
    with pytest.raises(TypeError, match="no value before it runs"):
        range(te.var("n"))
