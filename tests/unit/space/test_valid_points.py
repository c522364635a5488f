"""Valid points: as brute force counts them, numbered both ways, uniform, and quick where they are rare."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, compare, const, logical_and, logical_not, logical_or, maximum, minimum, select, var
from autosched.space import points as module
from autosched.space.points import ValidPoints, valid_points

Knobs = list[tuple[Expr, Sequence[int]]]


def knobs_of(*values: Sequence[int]) -> Knobs:
    return [(var(f"k{i}", role="knob"), v) for i, v in enumerate(values)]


def brute_force(knobs: Knobs, conditions: Sequence[Expr], fixed: dict[Expr, int] | None = None) -> list[list[int]]:
    """The rows of indices at which all conditions hold, one by one."""
    rows = np.array(list(itertools.product(*(range(len(v)) for _, v in knobs))), dtype=np.int64)
    rows = rows.reshape(len(rows), len(knobs))
    env: dict[Expr, Any] = {k: np.array(v, dtype=np.int64)[rows[:, i]] for i, (k, v) in enumerate(knobs)}
    good = np.ones(len(rows), dtype=bool)
    for result in evaluate(list(conditions), {**env, **(fixed or {})}):
        good &= result.astype(bool)
    return rows[good].tolist()


def check(points: ValidPoints, expected: list[list[int]]) -> None:
    assert points.exact
    assert points.count == len(expected)
    rows = points.rows(range(points.count))
    assert sorted(rows.tolist()) == sorted(expected)
    assert points.numbers(rows) == list(range(points.count))


# -- against brute force ------------------------------------------------------------------------------------


@st.composite
def terms(draw: st.DrawFn, leaves: list[Expr], depth: int = 3) -> Expr:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.one_of(st.sampled_from(leaves), st.integers(-3, 12).map(const)))
    below = terms(leaves, depth - 1)
    op = draw(st.sampled_from(["+", "-", "*", "*", "//", "%", "min", "max", "select", "neg", "/"]))
    a, b = draw(below), draw(below)
    if op == "select":
        return select(draw(comparisons(leaves, depth - 1)), a, b)
    if op == "neg":
        return -a
    return {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": operator.truediv,
        "//": operator.floordiv,
        "%": operator.mod,
        "min": minimum,
        "max": maximum,
    }[op](a, b)


@st.composite
def comparisons(draw: st.DrawFn, leaves: list[Expr], depth: int) -> Expr:
    op = draw(st.sampled_from(["le", "lt", "ge", "gt", "eq", "ne"]))
    return compare(op, draw(terms(leaves, depth)), draw(terms(leaves, depth)))


@st.composite
def conditions_on(draw: st.DrawFn, leaves: list[Expr]) -> Expr:
    kind = draw(st.sampled_from(["one", "one", "and", "or", "not"]))
    a = draw(comparisons(leaves, 3))
    if kind == "one":
        return a
    if kind == "not":
        return logical_not(a)
    return (logical_and if kind == "and" else logical_or)(a, draw(comparisons(leaves, 2)))


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_all_points_and_no_others_are_found(data: st.DataObject) -> None:
    values = st.lists(st.integers(-2, 16), min_size=1, max_size=5, unique=True)
    knobs = knobs_of(*data.draw(st.lists(values, min_size=1, max_size=4)))
    size = var("n", role="size")
    leaves = [k for k, _ in knobs] + [size]
    conditions = data.draw(st.lists(conditions_on(leaves), max_size=4))
    fixed = {size: data.draw(st.integers(0, 64))}
    check(valid_points(knobs, conditions, fixed), brute_force(knobs, conditions, fixed))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_diagram_with_conditions_left_out_holds_all_points_and_more(data: st.DataObject) -> None:
    knobs = knobs_of(*data.draw(st.lists(st.just((1, 2, 3, 4, 6)), min_size=3, max_size=4)))
    conditions = data.draw(st.lists(conditions_on([k for k, _ in knobs]), min_size=1, max_size=3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_EDGES", 12)
        patch.setattr(module, "MOST_TRIED", 30)
        points = valid_points(knobs, conditions)
    kept = [c for i, c in enumerate(conditions) if i not in points.dropped]
    all_rows = {tuple(r) for r in points.rows(range(points.count)).tolist()}
    assert len(all_rows) == points.count
    assert (
        {tuple(r) for r in brute_force(knobs, conditions)} <= all_rows <= {tuple(r) for r in brute_force(knobs, kept)}
    )
    assert points.exact == (not points.dropped)


def test_a_condition_that_needs_everything_is_left_out_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_EDGES", 1 << 10)
    knobs = knobs_of(*[range(1, 33)] * 6)
    ks = [k for k, _ in knobs]
    mixed = functools.reduce(
        operator.add, (k * p for k, p in zip(ks, (7919, 104729, 1299709, 53, 4001, 17), strict=True))
    )
    points = valid_points(knobs, [ks[0] * ks[1] == 12, mixed % 1000003 == 7])
    assert points.dropped == (1,)
    assert points.count == 6 * 32**4


# -- numbers --------------------------------------------------------------------------------------------------


def test_without_conditions_there_are_as_many_as_combinations() -> None:
    knobs = knobs_of((1, 2), (5,), (1, 2, 3))
    check(valid_points(knobs, []), brute_force(knobs, []))


def test_without_knobs_there_is_one_point_or_none() -> None:
    n = var("n", role="size")
    assert valid_points([], []).rows([0]).tolist() == [[]]
    assert valid_points([], []).numbers(np.empty((1, 0), dtype=np.int64)) == [0]
    assert valid_points([], [n <= 4], {n: 4}).count == 1
    assert valid_points([], [n <= 4], {n: 5}).count == 0


def test_a_knob_without_values_has_no_points() -> None:
    assert valid_points(knobs_of((1, 2), ()), []).count == 0


def test_an_empty_space_has_neither_rows_nor_numbers() -> None:
    knobs = knobs_of((1, 2, 3), (4, 5))
    for condition in (knobs[0][0] > 3, knobs[0][0] + knobs[1][0] > 8, const(1) > knobs[1][0] * 0 + 1):
        points = valid_points(knobs, [condition])
        assert points.count == 0
        assert points.rows([]).shape == (0, 2)
        assert points.numbers([[0, 0]]) == [-1]
        with pytest.raises(IndexError):
            points.rows([0])


def test_rows_that_are_no_points_have_no_number() -> None:
    knobs = knobs_of((1, 2, 3), (1, 2, 3))
    points = valid_points(knobs, [knobs[0][0] < knobs[1][0]])
    assert points.numbers([[0, 0], [0, 3], [-1, 2], [1, 2], [9, 9]]) == [-1, -1, -1, points.count - 1, -1]
    for number in (-1, points.count):
        with pytest.raises(IndexError):
            points.rows([number])


def test_more_points_than_an_int64_can_number() -> None:
    knobs = knobs_of(*[range(1, 11)] * 24)
    ks = [k for k, _ in knobs]
    points = valid_points(knobs, [(functools.reduce(operator.add, ks) + ks[0]) % 5 == 0])
    assert points.count == 2 * 10**23
    wanted = [0, 1, 12345678901234567890123, points.count - 1]
    rows = points.rows(wanted)
    assert points.numbers(rows) == wanted
    values = rows + 1
    assert ((values.sum(axis=1) + values[:, 0]) % 5 == 0).all()
    assert points.numbers([[0] * 23 + [i] for i in range(10)]).count(-1) == 8


def test_products_that_leave_int64_wrap_around_as_in_a_mask() -> None:
    knobs = knobs_of(*[(3, 2**31, 2**33)] * 4)
    a, b, c, d = (k for k, _ in knobs)
    conditions = [a * b * c * d <= 81, a * b * (c - d) >= 0]
    check(valid_points(knobs, conditions), brute_force(knobs, conditions))


def test_every_point_is_equally_likely() -> None:
    knobs = knobs_of(*[(1, 2, 3, 4, 6, 8)] * 3)
    a, b, c = (k for k, _ in knobs)
    points = valid_points(knobs, [a * b <= 16, b * c >= 4])
    drawn = points.rows(np.random.default_rng(0).integers(0, points.count, 200 * points.count))
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == points.count
    chi_square = float(((counts - 200) ** 2 / 200).sum())
    assert abs(chi_square - (points.count - 1)) < 5 * (2 * points.count) ** 0.5  # its mean, and 5 deviations


# -- rare points ------------------------------------------------------------------------------------------------

TILES = range(1, 33)


@pytest.mark.parametrize(
    ("name", "most"), [("product", 5e-6), ("product and sum", 5e-6), ("equal sums", 5e-9), ("quotients", 5e-9)]
)
def test_rare_points_of_eight_knobs_with_32_values_are_found(name: str, most: float) -> None:
    knobs = knobs_of(*[TILES] * 8)
    a, b, c, d, e, f, g, h = ks = [k for k, _ in knobs]
    product, total = functools.reduce(operator.mul, ks), functools.reduce(operator.add, ks)
    conditions = {
        "product": [product == 2**16 * 27],
        "product and sum": [product <= 4096, total >= 40],
        "equal sums": [product == 2**16, total == 52],
        "quotients": [a * b == c * d, e * f == g * h, a + e == b + f, c * 2 == g * 3],
    }[name]
    points = valid_points(knobs, conditions)
    assert points.exact
    assert 0 < points.count <= most * 32**8
    numbers = np.random.default_rng(1).integers(0, points.count, 500)
    rows = points.rows(numbers)
    env: dict[Expr, Any] = {k: rows[:, i] + 1 for i, k in enumerate(ks)}
    assert all(r.all() for r in evaluate(conditions, env))
    assert points.numbers(rows) == numbers.tolist()


def test_divisibility_is_used_before_all_factors_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four factors out of 1..1024 whose product is, or divides, 1024: tried node by node, not 1024**3."""
    monkeypatch.setattr(module, "MOST_TRIED", 1 << 17)
    knobs = knobs_of(*[range(1, 1025)] * 4)
    a, b, c, d = (k for k, _ in knobs)
    n = var("n", role="size")
    assert valid_points(knobs, [n % (a * b * c * d) == 0], {n: 1024}).count == 1001
    points = valid_points(knobs, [a * b * c * d == n], {n: 1024})
    assert points.exact
    assert points.count == 286
