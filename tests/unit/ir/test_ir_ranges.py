"""Intervals hold whatever an operator makes of numbers in them, and are as narrow as one look at each operand allows."""

from __future__ import annotations

import itertools
import operator
import random
from collections.abc import Callable
from math import inf

import pytest

from autosched.ir.expr import Expr, as_expr, cast, const, floordiv, ramp, var
from autosched.ir.ops import OPS
from autosched.ir.ranges import EVERYTHING, RULES, Interval, Ranges, bounds_of, of_type

_BITS: dict[str, Callable[[int, int], int]] = {
    "shl": operator.lshift,
    "shr": operator.rshift,
    "bitand": operator.and_,
    "bitor": operator.or_,
    "bitxor": operator.xor,
}
#: those whose rule names the ends exactly
_SHARP = ("add", "sub", "mul", "neg", "floordiv", "truncdiv", "min", "max")


def _intervals(seed: int) -> list[Interval]:
    rng = random.Random(seed)
    ends = [sorted((rng.randint(-9, 9), rng.randint(-9, 9))) for _ in range(12)]
    return [Interval(*e) for e in (*ends, (0, 0), (-1, 0), (0, 5), (3, 3))]


def _all(interval: Interval) -> range:
    return range(int(interval.low), int(interval.high) + 1)


@pytest.mark.parametrize("op", sorted(RULES))
def test_a_rule_holds_all_results(op: str) -> None:
    exact = OPS[op].exact or _BITS[op]
    shifts = op in ("shl", "shr")
    for operands in itertools.product(_intervals(1), _intervals(2)):
        used = operands[: OPS[op].arity]
        if shifts and used[1].low < 0:
            continue
        found = RULES[op](*used)
        results = [exact(*numbers) for numbers in itertools.product(*map(_all, used))]
        assert found.low <= min(results), (op, used)
        assert max(results) <= found.high, (op, used)
        if op in _SHARP:
            assert found == Interval(min(results), max(results)), (op, used)


def test_ends_may_be_infinite() -> None:
    assert RULES["mul"](Interval(0, inf), Interval(-2, 3)) == EVERYTHING
    assert RULES["mul"](Interval(1, inf), Interval(2, 3)) == Interval(2, inf)
    assert RULES["floordiv"](Interval(0, inf), Interval(4, 4)) == Interval(0, inf)
    assert RULES["floormod"](EVERYTHING, Interval(4, 4)) == Interval(0, 3)


def test_vectors_and_loops() -> None:
    x = var("x", role="loop")
    assert bounds_of(ramp(x, 2, 8), {x: Interval(0, 3)}.__getitem__) == Interval(0, 17)
    ranges, a, n = Ranges(), var("a", role="let"), var("m", role="let")
    ranges.bind(a, Interval(2, 5))
    ranges.bind(n, Interval(0, 8))
    assert ranges.of_loop(a, n) == Interval(2, 12)
    assert ranges.of_loop(a, const(7) - a) == Interval(2, 6)  # it ends at 7 wherever it begins


def test_a_binding_replaces_the_one_before_unless_it_widens_it() -> None:
    ranges, x = Ranges(), var("x", role="loop")
    half = floordiv(x, 2)
    ranges.bind(x, Interval(0, 7))
    assert ranges.of(half) == Interval(0, 3)
    ranges.bind(x, Interval(-4, -2))
    assert ranges.of(half) == Interval(-2, -1)
    ranges.widen(x, Interval(0, 1))
    assert ranges.of(half) == Interval(-2, 0)


def test_what_is_known_of_a_variable_and_of_values() -> None:
    ranges = Ranges()
    size, byte, wide = var("n", role="size"), var("b", "uint8", role="let"), var("w", role="let")
    assert ranges.of(size) == Interval(0, inf)
    ranges.bind(byte, Interval(-inf, 10))
    assert ranges.of(byte) == Interval(0, 10)
    assert ranges.of(wide) == EVERYTHING
    value: Expr = as_expr(cast("int8", wide)) + const(1, "int8")
    assert not value.index
    assert ranges.of(value) == of_type(value.dtype)
    assert ranges.fits(value)
    assert not ranges.fits(wide)
