"""Integer polynomials over atoms: arithmetic, division with remainder, and the way back to expressions."""

from __future__ import annotations

import numpy as np
import pytest
from index_fuzz import Env, Seeded, values

from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr, cast, const, is_const, is_index, minimum, var
from autosched.ir.node import order
from autosched.ir.poly import Poly, common_type, has, join, without
from autosched.ir.simplify import to_poly
from autosched.ir.stmt import Buffer, load
from autosched.ir.visit import post_order

x, y, z = (var(name, role="loop") for name in "xyz")
W, H = var("W", role="size"), var("H", role="size")
VARIABLES = (x, y, z, W)
GRID = np.meshgrid(*[np.arange(-2, 4)] * 3, np.arange(1, 4), indexing="ij")
ENV: Env = {v: g.ravel().astype(np.int64) for v, g in zip(VARIABLES, GRID, strict=True)}


def random_poly(c: Seeded, terms: int = 4, degree: int = 3) -> Poly:
    total = Poly.of(c.integer(-9, 9))
    for _ in range(c.integer(0, terms)):
        term = Poly.of(c.integer(-9, 9))
        for _ in range(c.integer(0, degree)):
            term = term * Poly.of(VARIABLES[c.integer(0, 3)])
        total = total + term
    return total


def value(p: Poly) -> np.ndarray:
    """Straight from the terms."""
    total = np.zeros_like(ENV[x])
    for monomial, coefficient in p.terms.items():
        product = np.full_like(total, coefficient)
        for atom in monomial:
            product = product * values(atom, ENV)
        total = total + product
    return total


@pytest.mark.parametrize("seed", range(100))
def test_a_ring(seed: int) -> None:
    c = Seeded(seed)
    p, q, r = (random_poly(c) for _ in range(3))
    assert np.array_equal(value(p + q), value(p) + value(q))
    assert np.array_equal(value(p - q), value(p) - value(q))
    assert np.array_equal(value(p * q), value(p) * value(q))
    assert np.array_equal(value(p * 7 + 3 - q), value(p) * 7 + 3 - value(q))
    assert p + q == q + p
    assert p * q == q * p
    assert p * (q + r) == p * q + p * r
    assert (p - p).terms == {}
    assert hash(p + q) == hash(q + p)
    assert -(-p) == p
    assert p * 0 == Poly({})
    assert all(c for poly in (p, q, p + q, p * q, p - q) for c in poly.terms.values()), "a zero term is kept"


@pytest.mark.parametrize("seed", range(200))
def test_division_with_remainder(seed: int) -> None:
    c = Seeded(seed)
    p = random_poly(c)
    divisor = random_poly(c, 2, 2) if c.integer(0, 1) else Poly.of(c.integer(1, 6))
    if not divisor.terms:
        return
    quotient, rest = p.divide(divisor)
    assert quotient * divisor + rest == p
    exact, nothing = (p * divisor).divide(divisor)
    assert nothing.terms == {}
    assert exact == p
    if divisor.constant is not None and p.constant is not None:
        assert (quotient.constant, rest.constant) == divmod(p.constant, divisor.constant)


@pytest.mark.parametrize("seed", range(200))
def test_the_expression_of_a_polynomial_is_worth_as_much(seed: int) -> None:
    p = random_poly(Seeded(seed))
    e = p.expr()
    assert np.array_equal(*np.broadcast_arrays(values(e, ENV), value(p)))
    assert to_poly(e) == p
    assert well_typed(e)


def well_typed(e: Expr) -> bool:
    return all(
        len({a.dtype for a in n.args}) == 1 and n.dtype is n.args[0].dtype
        for n in post_order(e)
        if n.op in ("add", "sub", "mul", "min", "max", "floordiv", "floormod")
    )


def test_questions() -> None:
    p = Poly.of(x) * Poly.of(W) * 3 + Poly.of(y) - 2
    assert Poly.of(0).constant == 0
    assert Poly.of(5).constant == 5
    assert p.constant is None
    assert Poly.of(x).constant is None
    assert list(p.atoms()) == sorted((x, y, W), key=order)
    slope, rest = p.linear_in(x)  # type: ignore[misc]
    assert slope == Poly.of(W) * 3
    assert rest == Poly.of(y) - 2
    assert (p * Poly.of(x)).linear_in(x) is None
    assert Poly.of(y).linear_in(x) == (Poly({}), Poly.of(y))
    assert p.replace(x, Poly.of(H) + 1) == Poly.of(H) * Poly.of(W) * 3 + Poly.of(W) * 3 + Poly.of(y) - 2
    assert (Poly.of(x) * Poly.of(x)).replace(x, Poly.of(y) + 1) == Poly.of(y) * Poly.of(y) + Poly.of(y) * 2 + 1
    assert p.size == 2 + 1 + 0 + 3
    assert has((x, y), x)
    assert not has((x,), y)
    assert without((x, x, y), x) == (x, y)


def test_sums_are_factored_and_readable() -> None:
    index = Poly.of(y) * Poly.of(W) * 3 + Poly.of(x) * 3 + Poly.of(z)
    assert repr(index.expr()) == "y*W*3 + x*3 + z"
    assert repr((Poly.of(y) * Poly.of(W) + Poly.of(x) * Poly.of(W)).expr()) == "(y + x)*W"
    assert repr((Poly.of(3) - Poly.of(x)).expr()) == "3 - x"
    assert repr((Poly.of(-3) - Poly.of(x)).expr()) == "0 - x - 3"
    assert repr((Poly.of(x) - 1).expr()) == "x - 1"


def test_remainders_are_restored() -> None:
    for e in (x % 3, (x + y) % W, (y * 2 + x + 5) % 7, (x % 3) * 5 + y, minimum(x, y) % 4):
        assert repr(to_poly(e).expr()) == repr(e)
    assert repr(to_poly(x - x // 3 * 3).expr()) == "x%3"
    assert repr(to_poly(x // 3 * 3).expr()) in ("x//3*3", "x - x%3")


# -- types ----------------------------------------------------------------------------------------


def test_a_coefficient_that_needs_64_bits_gets_them() -> None:
    e = (Poly.of(x) * 3_000_000_000 + 5_000_000_000).expr()
    assert e.dtype == "int64"
    assert well_typed(e)
    assert is_index(e)
    assert int(values(e, {x: np.int64(2)})) == 11_000_000_000
    assert is_const((Poly.of(50000) * 50000).expr(), 2_500_000_000)
    assert (Poly.of(x) - 2**31).expr().dtype == "int64"
    assert (Poly.of(x) + (2**31 - 1)).expr().dtype == "int32"
    e = (Poly.of(2**33) - Poly.of(x)).expr()
    assert int(values(e, {x: np.int64(1)})) == 2**33 - 1
    assert well_typed(e)


@pytest.mark.parametrize("other", ["int64", "uint8", "uint32", "int16"])
def test_atoms_of_several_types_meet_in_one_that_stays_index_arithmetic(other: str) -> None:
    v = var("v", other)
    for e in ((Poly.of(v) * 300 + Poly.of(x)).expr(), (Poly.of(v) * Poly.of(x) - 7).expr(), join("floordiv", v, x)):
        assert well_typed(e)
        assert is_index(e)
        assert int(values(e, {v: np.int64(3), x: np.int64(2)})) in (902, -1, 1)
    a, b = common_type(var("a", "uint8"), var("b", "int16"))
    assert a.dtype is b.dtype is dtype("int32")
    assert is_index(a)


def test_conditions_count_as_0_or_1() -> None:
    """An atom of type bool would turn its coefficient into `true`."""
    e = cast("int32", x < y) * 3 + cast("int64", y < z) * 2 + 4
    again = to_poly(e).expr()
    assert np.array_equal(values(again, ENV), values(e, ENV))
    assert well_typed(again)
    assert to_poly(cast("int32", x < y) - cast("int64", x < y)) == Poly({})


def test_value_arithmetic_is_opaque() -> None:
    """uint8 + uint8 wraps around, so nothing may be carried out of it."""
    a = Buffer("a", (W,), dtype("uint8"))
    wrapped = load(a, x) + load(a, y)
    assert to_poly(wrapped) == Poly.of(wrapped)
    assert to_poly(load(a, x + 1 - 1)) == Poly.of(load(a, x))
    assert to_poly(const(200, "uint64")) == Poly.of(200)
