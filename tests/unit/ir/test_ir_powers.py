"""Powers of a known exponent are products and roots once a program is lowered."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.ir.powers import HIGHEST, LOWEST
from autosched.ir.stmt import Function, all_expressions
from autosched.ir.visit import post_order
from autosched.lowering import lower_structure
from autosched.runtime.interpreter import interpret
from autosched.schedule import create_schedule


def lowered(of: str, exponent: float, n: int = 8) -> Function:
    a = te.placeholder((n,), of, name="a")
    b = te.compute((n,), lambda i: te.power(a[i], exponent), name="b")
    return lower_structure(create_schedule(b), [a, b], "llvm").bind()


def has_power(f: Function) -> bool:
    return any(e.op == "pow" for e in post_order(all_expressions(f.body)))


@pytest.mark.parametrize("of", ["float16", "float32", "float64"])
@pytest.mark.parametrize("exponent", [*range(LOWEST, HIGHEST + 1), 0.5, -0.5])
def test_a_known_power_is_that_of_numpy(of: str, exponent: float) -> None:
    values = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.7, -1.3, 3, 1e-4, 200], of)
    f, found = lowered(of, exponent, len(values)), np.empty_like(values)
    assert not has_power(f)
    with np.errstate(all="ignore"):
        interpret(f, [values, found])
        expected = np.power(values, np.full(len(values), exponent, of))
    np.testing.assert_allclose(found, expected, rtol=HIGHEST * np.finfo(of).eps, atol=np.finfo(of).smallest_subnormal)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


@pytest.mark.parametrize("exponent", [1.5, -5, 17, np.nan, np.inf])
def test_other_powers_stay(exponent: float) -> None:
    assert has_power(lowered("float32", exponent))


def test_what_predicts_times_sees_products() -> None:
    a = te.placeholder((8,), "float32", name="a")
    b = te.compute((8,), lambda i: te.power(a[i] - 1.0, 2.0), name="b")
    assert not has_power(lower_structure(create_schedule(b), [a, b], "llvm").function)
