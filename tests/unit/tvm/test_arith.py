"""`autosched.tvm.arith` by TVM's names: what it says of expressions that people write."""

from __future__ import annotations

import pytest

from autosched.errors import UsageError
from autosched.ir.expr import (
    Expr,
    broadcast,
    call,
    cast,
    compare,
    const,
    floordiv,
    floormod,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    ramp,
    select,
    truncdiv,
    truncmod,
    var,
)
from autosched.ir.stmt import Buffer, load
from autosched.tvm.arith import (
    NEG_INF,
    POS_INF,
    Analyzer,
    ConstIntBound,
    IntervalSet,
    IntSet,
    ModularSet,
    Range,
    deduce_bound,
    detect_clip_bound,
    detect_linear_equation,
)

x, y, z = (var(name) for name in "xyz")
fld, flm, div, mod = floordiv, floormod, truncdiv, truncmod


def known(**ranges: tuple[int, int]) -> Analyzer:
    """Ranges, both ends inclusive."""
    an = Analyzer()
    for name, (low, high) in ranges.items():
        an.bind({"x": x, "y": y, "z": z}[name], Range(low, high + 1))
    return an


def simplified(e: object, **ranges: tuple[int, int]) -> str:
    return repr(known(**ranges).simplify(e))


# -- simplification -----------------------------------------------------------------------------------

SELECT = select(x < 0, y, 0)


@pytest.mark.parametrize(
    ("e", "wanted"),
    [
        # divisions
        (flm(flm(x, 8), 4), "x%4"),
        (flm(flm(x, 4), 8), "x%4"),
        (fld(fld(x, 2), 3), "x//6"),
        (flm(x * 6, 4), "x%2*2"),
        (flm(x + y * 7, 7), "x%7"),
        (flm(-x, 2), "x%2"),
        (fld(x, 2) * 2 + flm(x, 2), "x"),
        (flm(fld(x, 4), 2) * 4 + flm(x, 4), "x%8"),
        (flm(x * 12 + y * 4 + 3, 4), "3"),
        (div(div(x, 2), 3), "x/6"),
        (div(div(x, -2), 3), "0 - x/6"),
        (div(x * 4, 2), "x*2"),
        (div(x * 4, 6), "x*2/3"),
        (mod(x * 10, 2), "0"),
        (mod(x * 6, 4), "truncmod(x*3, 2)*2"),
        (mod(mod(x, 8), 4), "truncmod(x, 4)"),
        (mod(x, -5), "truncmod(x, 5)"),
        (div(x, 5) * 5 + mod(x, 5), "x"),
        # extrema
        (minimum(maximum(x, y), x), "x"),
        (minimum(minimum(x, y), minimum(y, x)), "min(x, y)"),
        (maximum(maximum(x, 11), maximum(y, 12)), "max(max(x, y), 12)"),
        (minimum(x + y, x + z), "x + min(y, z)"),
        (minimum(x - y, x - z), "x - max(y, z)"),
        (minimum(x * 8, y * 8), "min(x, y)*8"),
        (maximum(fld(x, 4), fld(y, 4)), "max(x, y)//4"),
        (minimum(x, y) + maximum(y, x), "x + y"),
        (maximum(x, y) - x, "max(y - x, 0)"),
        (x - minimum(x, y), "max(x - y, 0)"),
        (minimum(x, 11) - minimum(x + 1, 12), "-1"),
        (minimum(fld(x + 3, 4) * 4, x), "x"),
        # choices
        (SELECT + select(x < 0, 1, z), "select(x < 0, y + 1, z)"),
        (minimum(SELECT, select(x < 0, 1, z)), "select(x < 0, min(y, 1), min(z, 0))"),
        (select(x < 0, y, y + 0), "y"),
        (select(x < 0, 1, 0) + 1, "select(x < 0, 2, 1)"),
        (select(x < 5, select(x < 7, y, z), z), "select(x < 5, y, z)"),
        # comparisons
        (x - (x - y) > 0, "y >= 1"),
        (compare("eq", x - 10, 0), "x == 10"),
        (compare("eq", x * 2, 1), "false"),
        (compare("ne", x * 6 + y * 4, 3), "true"),
        (compare("eq", flm(x * 4 + 1, 4), 0), "false"),
        (x * 2 <= 5, "x < 3"),
        (x * -2 <= 0, "x >= 0"),
        (fld(x, 2) < 3, "x < 6"),
        (fld(x, 2) >= 3, "x >= 6"),
        (minimum(x, 11) < 10, "x < 10"),
        (maximum(x, 8) > 10, "x >= 11"),
        (x + 1 < maximum(8, x), "x < 7"),
        (x * 4 + 3 < y * 4, "x < y"),
        (compare("eq", minimum(x, y), minimum(y, x)), "true"),
        # conditions
        (logical_and(x < 3, x < 5), "x < 3"),
        (logical_and(x < 3, x > 5), "false"),
        (logical_or(x < 3, x >= 3), "true"),
        (logical_or(x < 3, x < 5), "x < 5"),
        (logical_and(compare("eq", x, 1), compare("ne", x, 1)), "false"),
    ],
)
def test_simplified_without_ranges(e: Expr, wanted: str) -> None:
    assert simplified(e) == wanted


@pytest.mark.parametrize(
    ("e", "wanted"),
    [
        (fld(x * 8 + y, 8), "x"),
        (flm(x * 8 + y, 8), "y"),
        (div(x * 8 + y, 8), "x"),
        (mod(x * 8 + y, 8), "y"),
        (fld(y, 8) + flm(y, 16), "y"),
        (minimum(y, 7), "y"),
        (maximum(y, z), "z"),
        (select(y < 8, x, z), "x"),
        (div(y - 9, 3), "0 - (0 - y)//3 - 3"),
    ],
)
def test_simplified_under_ranges(e: Expr, wanted: str) -> None:
    assert simplified(e, x=(0, 100), y=(0, 7), z=(8, 20)) == wanted


def test_the_three_names_are_one_simplifier() -> None:
    an = Analyzer()
    e = flm(x * 6, 4) + minimum(x, x + 1)
    assert an.simplify(e) is an.rewrite_simplify(e) is an.canonical_simplify(e) is an.simplify(e, steps=3)


def test_values_are_left_alone() -> None:
    """Arithmetic on what was read wraps around, and nothing of integers holds for it."""
    a = load(Buffer("A", (const(4),), x.dtype), x)
    assert Analyzer().simplify(a + 1 > a).op == "gt"
    assert Analyzer().simplify(a * 2 - a - a) is a * 2 - a - a


# -- constant bounds ----------------------------------------------------------------------------------

INF, LOW = ConstIntBound.POS_INF, ConstIntBound.NEG_INF


@pytest.mark.parametrize(
    ("e", "low", "high"),
    [
        (x, 0, 9),
        (var("u", "uint8"), 0, 255),
        (var("s", "int8"), -128, 127),
        (var("n", "int64"), LOW, INF),
        (x + y, -4, 9),
        (x - y, 0, 13),
        (x * y, -36, 0),
        (x * -2, -18, 0),
        (-x, -9, 0),
        (fld(x, 2), 0, 4),
        (fld(y, 3), -2, 0),
        (div(y, 3), -1, 0),
        (fld(z, 4), LOW, INF),
        (flm(z, 4), 0, 3),
        (mod(z, 4), -3, 3),
        (mod(x, 4), 0, 3),
        (flm(x, 100), 0, 9),
        (flm(x + 10, 20), 10, 19),
        (fld(x, y), -9, 0),
        (flm(z, -4), -3, 0),
        (minimum(x, z), LOW, 9),
        (maximum(x, z), 0, INF),
        (select(z > 0, x, y), -4, 9),
        (cast("int8", x), 0, 9),
        (cast("uint8", y), 0, 255),
        (x >> 1, 0, 4),
        (x << 2, 0, 36),
        (z & 7, 0, 7),
        (x | 4, 0, 15),
        (x - fld(x, 3) * 3, 0, 2),
        (cast("int32", z > 0), 0, 1),
        (load(Buffer("B", (const(4),), var("b", "int16").dtype), x), -(2**15), 2**15 - 1),
        (call("popcount", x), -(2**31), 2**31 - 1),
    ],
)
def test_const_int_bound(e: Expr, low: int, high: int) -> None:
    found = known(x=(0, 9), y=(-4, 0)).const_int_bound(e)
    assert (found.min_value, found.max_value) == (low, high)


def test_bounds_print() -> None:
    assert repr(Analyzer().const_int_bound(z)) == "ConstIntBound[-inf, inf]"
    assert repr(known(x=(0, 9)).const_int_bound(x)) == "ConstIntBound[0, 9]"


def test_bounds_under_constraints() -> None:
    an = Analyzer()
    with an.constraint_scope(logical_and(x > 3, x * 2 + 1 < 20)):
        assert an.const_int_bound(x) == ConstIntBound(4, 9)
        assert an.can_prove(x >= 4) and not an.can_prove(x >= 5)
    assert an.const_int_bound(x) == ConstIntBound(LOW, INF)
    with an.constraint_scope(x + y <= 10):
        assert an.const_int_bound(x + y).max_value == 10
        assert an.const_int_bound(x + y + 1).max_value == 11


def test_update() -> None:
    an = Analyzer()
    an.update(x, ConstIntBound(0, 100))
    an.update(x, ConstIntBound(-5, 10))
    assert an.const_int_bound(x) == ConstIntBound(0, 10)
    an.update(x, ConstIntBound(-5, 200), override=True)
    assert an.const_int_bound(x) == ConstIntBound(-5, 200)
    an.update(y, IntervalSet(0, x))
    assert an.can_prove(y <= 200)
    an.update(z, ModularSet(6, 2))
    an.update(z, ModularSet(4, 0))
    assert an.modular_set(z) == ModularSet(12, 8)


# -- congruences --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("e", "coeff", "base"),
    [
        (x, 1, 0),
        (const(5), 0, 5),
        (x * 6 + y * 4, 2, 0),
        (1 - x * 4, 4, 1),
        (-(x * 4 + 1), 4, 3),
        ((x * 4 + 2) * (y * 6 + 1), 4, 2),
        (fld(x * 4 + 2, 2), 2, 1),
        (div(x * 4 + 2, 2), 2, 1),
        (div(x * 4 + 1, 2), 1, 0),
        ((x * 4 + 2) >> 1, 2, 1),
        (flm(x * 4 + 1, 4), 0, 1),
        (flm(x * 4 + 1, 8), 4, 1),
        (mod(x * 4 + 1, 4), 4, 1),
        (flm(x * 128 + y * 4, 256), 4, 0),
        (maximum(x * 3 + 1, y * 9 + 4), 3, 1),
        (select(x > 0, x * 3 + 1, y * 9 + 2), 1, 0),
        ((x * 16 + y * 4) & 31, 4, 0),
        (cast("uint8", x * 12), 4, 0),
        (cast("int64", x * 12 + 1), 12, 1),
        ((x * 4 + 1) << 2, 16, 4),
    ],
)
def test_modular_set(e: Expr, coeff: int, base: int) -> None:
    assert Analyzer().modular_set(e) == ModularSet(coeff, base)


def test_congruences_of_variables() -> None:
    an = Analyzer()
    an.bind(y, x * 4 + 1)
    assert an.modular_set(1 - y) == ModularSet(4, 0)
    assert not an.can_prove(compare("ne", z, 0))
    with an.constraint_scope(logical_and(compare("eq", flm(z, 8), 4), x > 0)):
        assert an.modular_set(z) == ModularSet(8, 4)
        assert repr(an.simplify(flm(z, 4))) == "0"
        assert repr(an.simplify(flm(z, 8))) == "4"
        assert an.can_prove(compare("ne", z, 0))
        assert repr(an.simplify(fld(z, 3))) == "z//3"
    assert repr(an.simplify(flm(z, 4))) == "z%4"


def test_sets_of_congruences() -> None:
    assert ModularSet(6, 2) | ModularSet(0, 5) == ModularSet(3, 2)
    assert ModularSet(6, 2) & ModularSet(4, 0) == ModularSet(12, 8)
    assert 14 in ModularSet(6, 2) and -4 in ModularSet(6, 2) and 3 not in ModularSet(6, 2)
    assert 5 in ModularSet(0, 5) and 6 not in ModularSet(0, 5)


# -- proofs and bindings ------------------------------------------------------------------------------


def test_can_prove() -> None:
    an = known(x=(0, 7))
    assert an.can_prove(compare("eq", fld(x, 8), 0))
    assert an.can_prove(logical_or(x < 8, y > 3)) and not an.can_prove(x < 7)
    assert an.can_prove_equal(fld(x + y * 8, 8), y)
    assert an.can_prove_greater_equal(x * 2, 0) and an.can_prove_less(x, 8)
    assert an.can_prove(logical_not(x > 7)) and an.can_prove(x * x >= 0, 1)
    assert not an.can_prove(compare("eq", x, y))


def test_bind() -> None:
    an = Analyzer()
    an.bind(x, Range.from_min_extent(2, 5))
    assert an.const_int_bound(x) == ConstIntBound(2, 6)
    with pytest.raises(UsageError, match="x is bound already"):
        an.bind(x, Range(0, 9))
    an.bind(x, Range(9), allow_override=True)
    assert an.const_int_bound(x) == ConstIntBound(0, 8)
    an.bind(y, x + 1)
    assert repr(an.simplify(y * 2 - x)) == "x + 2"


# -- sets ---------------------------------------------------------------------------------------------


def ends(s: IntervalSet) -> tuple[str, str]:
    return repr(s.min_value), repr(s.max_value)


@pytest.mark.parametrize(
    ("e", "low", "high"),
    [
        (x + y, "y", "y + 10"),
        (y - x * 2, "y - 20", "y"),
        (x * y - x * y + x, "0", "10"),
        (flm(x, 3), "0", "2"),
        (flm(x, 20), "0", "10"),
        (fld(x, 4), "0", "2"),
        (minimum(x, y), "min(y, 0)", "min(y, 10)"),
        (select(z > 0, x, y), "min(y, 0)", "max(y, 10)"),
        (cast("int32", x > y), "0", "1"),
        (y, "y", "y"),
        (x * z, "neg_inf", "pos_inf"),
        (mod(x, 4), "0", "3"),
        (mod(x - 20, 4), "-3", "3"),
    ],
)
def test_int_set(e: Expr, low: str, high: str) -> None:
    assert ends(Analyzer().int_set(e, {x: IntervalSet(0, 10)})) == (low, high)


def test_int_set_of_ranges_and_bound_variables() -> None:
    an = known(x=(0, 7))
    assert ends(an.int_set(x + y)) == ("y", "y + 7")
    assert ends(an.int_set(x + y, {y: Range(2, 5)})) == ("x + 2", "x + 4")
    assert ends(an.int_set(x, {x: IntervalSet(y, POS_INF)})) == ("y", "pos_inf")
    half = Analyzer().int_set(maximum(x, 3), {x: IntervalSet.everything()})
    assert ends(half) == ("3", "pos_inf")


def test_kinds_of_sets() -> None:
    assert ends(IntSet.single_point(x)) == ("x", "x") and ends(IntSet.interval(1, x)) == ("1", "x")
    assert ends(IntSet.vector(ramp(x, 2, 4))) == ("min(x, x + 6)", "max(x, x + 6)")
    assert ends(IntSet.vector(broadcast(x, 4))) == ("x", "x")
    assert IntervalSet.everything().is_everything() and IntervalSet.nothing().is_nothing()
    assert not IntervalSet(0, 1).is_everything() and not IntervalSet(0, 1).is_nothing()
    assert IntervalSet(NEG_INF, 3).max_value.value == 3
    with pytest.raises(UsageError, match="not a vector whose lanes are known"):
        IntSet.vector(x)


# -- linear forms -------------------------------------------------------------------------------------


def texts(found: list[Expr | None]) -> list[str | None]:
    return [None if e is None else repr(e) for e in found]


def test_detect_linear_equation() -> None:
    assert texts(detect_linear_equation(x * 4 + y * 6 + 7, [x])) == ["4", "y*6 + 7"]
    assert texts(detect_linear_equation(x * 4 + y * 6 + 7, [x, y])) == ["4", "6", "7"]
    assert texts(detect_linear_equation(x * y + 1, [x])) == ["y", "1"]
    assert detect_linear_equation(x * x + 1, [x]) == []
    assert detect_linear_equation(fld(x, 2), [x]) == []
    assert detect_linear_equation(x * y, [x, y]) == []
    assert texts(detect_linear_equation(x * 7, [])) == ["x*7"]


def test_detect_clip_bound() -> None:
    assert texts(detect_clip_bound(logical_and(x * 1 < y * 6, x - 1 > 0), [x])) == ["2", "y*6 - 1"]
    assert texts(detect_clip_bound(logical_and(x + 10 * z <= 20, y - 1 > 0), [x, y])) == [None, "20 - z*10", "2", None]
    assert texts(detect_clip_bound(logical_not(x * 1 > y * 6), [x])) == [None, "y*6"]
    assert texts(detect_clip_bound(logical_and(minimum(x, y) > 3, x - 10 < 0), [x, y])) == ["4", "9", "4", None]
    assert texts(detect_clip_bound(x * 3 < y, [x])) == [None, "(y + 2)//3 - 1"]
    assert texts(detect_clip_bound(logical_and(x < 9, x < 7, x > 2, x > 1), [x])) == ["3", "6"]
    assert detect_clip_bound(x + y < 9, [x, y]) == [] and detect_clip_bound(z > 3, [x]) == []
    assert detect_clip_bound(compare("ne", x, 3), [x]) == []


def test_deduce_bound() -> None:
    a, b, c = x, y, z
    some = IntervalSet(0, 3)
    assert ends(deduce_bound(a, a * 4 + b < 63, {}, {b: some})) == ("neg_inf", "14")
    assert ends(deduce_bound(a, a + 2 * b + c >= 10, {b: some, c: some}, {})) == ("10 - y*2 - z", "pos_inf")
    assert ends(deduce_bound(a, a * b > 10, {b: IntervalSet(1, 9)}, {})) == ("0 - (-11)//y", "pos_inf")
    assert ends(deduce_bound(a, compare("eq", a * 2, b * 6), {}, {})) == ("y*3", "y*3")
    assert deduce_bound(a, a * b > 10, {}, {}).is_nothing()
    assert deduce_bound(a, a * a > 10, {}, {}).is_nothing()
    assert deduce_bound(a, compare("ne", a, 3), {}, {}).is_nothing()
    assert ends(deduce_bound(a, logical_and(a > 3, b < 9), {}, {b: some})) == ("4", "pos_inf")
    assert deduce_bound(a, logical_and(a > 3, b < 2), {}, {b: some}).is_nothing()
