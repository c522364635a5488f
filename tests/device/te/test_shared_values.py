"""Expressions that use one value in many places: their size is that of what is written once."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from autosched import build, create_schedule, te, workload
from autosched.building import plan
from autosched.codegen import compile_function
from autosched.ir.expr import Expr, logical_and, logical_not, logical_or
from autosched.ir.visit import post_order
from autosched.target import Target

LEVELS = 40
X = np.random.default_rng(0).integers(0, 9, 64)


@pytest.fixture(autouse=True)
def half_a_minute() -> Iterator[None]:
    """Whoever follows each use of a value takes 2**40 steps."""

    def too_long(*_: object) -> None:
        raise TimeoutError("as many steps as there are ways through the expression")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def chain(step: Callable[[Expr, int], Expr], of: str = "float32") -> tuple[te.Tensor, te.Tensor]:
    a = te.placeholder((64,), of, name="a")

    def element(i: Expr) -> Expr:
        e = a[i]
        for k in range(LEVELS):
            e = step(e, k)
        return e

    return a, te.compute((64,), element, name="b")


def test_the_default_schedule() -> None:
    @workload
    def logistic() -> tuple[te.Tensor, te.Tensor]:
        return chain(lambda e, k: e * 0.5 + e * e * 0.01)

    x = (X / 9).astype("float32")
    np.testing.assert_allclose(
        build(logistic, "llvm", effort="none")(x), te.reference(logistic().args, [x])[0], rtol=1e-4
    )


def test_guarded_values_in_the_reference_and_in_checks_of_bounds() -> None:
    a = te.placeholder((64,), name="a")

    def element(i: Expr) -> Expr:
        e = a[i]
        for k in range(LEVELS):  # conditions about what is chosen, and about something else
            e = te.if_then_else((e if k % 2 else a[63 - i]) > k % 7, e * 0.5, e + 1)
        return e

    b = te.compute((64,), element, name="b")
    expected = x = X.astype("float32")
    for k in range(LEVELS):
        expected = np.where((expected if k % 2 else x[::-1]) > k % 7, expected * np.float32(0.5), expected + 1)
    np.testing.assert_array_equal(te.reference([a, b], [x])[0], expected)
    checked = build(create_schedule(b), "llvm", args=[a, b], bounds_check=True)
    np.testing.assert_array_equal(checked(x), expected)


def test_negations_of_conditions() -> None:
    a, flags = te.placeholder((64,), "bool", name="a"), te.placeholder((64,), "bool", name="flags")
    e = a[0]
    for k in range(1, LEVELS):
        e = logical_or(logical_and(e, logical_not(flags[k])), logical_and(logical_not(e), flags[k]))
    assert len(post_order(e)) < 10 * LEVELS


def test_lanes_that_opencl_computes_one_by_one() -> None:
    a, b = chain(lambda e, k: (e * e + e) % (1000 + k), "int32")
    s = create_schedule(b)
    s[b].vectorize(s[b].split("i", factor=8)[1])
    lowered = plan(s, "opencl", args=[a, b]).lowered()
    assert len(compile_function(lowered, Target.parse("opencl")).texts["source"]) < 100_000
