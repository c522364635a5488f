"""Conditions on elements that are certainly there, which are asked together; others guard what comes after them."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.codegen import compile_function
from autosched.lowering.pipeline import lower_structure
from autosched.lowering.unguarded import MOST_ASKED, ask_together
from autosched.schedule.schedule import create_schedule
from autosched.target import Target
from autosched.testing.oracle import check_against_reference

N = te.var("n")
X, Y = te.placeholder((N,), name="x"), te.placeholder((N,), name="y")
AT = te.placeholder((N,), "int32", name="at")


def asked(body, length=N):
    t = te.compute((length,), body, name="t")
    return repr(ask_together(t.op.body, t.op.axis)[0])


def long_condition(i):
    total = Y[i]
    for k in range(MOST_ASKED):
        total = total * (Y[i] + float(k))
    return total > 0


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (lambda i: (X[i] > 1) & (Y[i] < 2), "min(x[i] > 1.0f, y[i] < 2.0f)"),
        (lambda i: (X[i] > 1) | (Y[N - 1 - i] < 2), "max(x[i] > 1.0f, y[n - 1 - i] < 2.0f)"),
        (lambda i: te.all(i > 2, X[i] > 1, Y[i] < 2), "i > 2 && min(x[i] > 1.0f, y[i] < 2.0f)"),
        (lambda i: te.any(i > 2, X[i] > 1, Y[i] < 2), "i > 2 || max(x[i] > 1.0f, y[i] < 2.0f)"),
        (lambda i: te.all(X[i] > 1, i > 2, Y[i] < 2), "x[i] > 1.0f && i > 2 && y[i] < 2.0f"),
    ],
)
def test_both_sides_are_asked(body, wanted) -> None:
    assert asked(body) == wanted


@pytest.mark.parametrize(
    "body",
    [
        lambda i: (AT[i] < N) & (Y[AT[i]] > 2),  # guards a read
        lambda i: (X[i] > 1) & (Y[i + 1] > 2),  # may be outside
        lambda i: te.all(i > 2, X[i] > 1),  # of an index: loops are cut there
        lambda i: (X[i] > 1) & long_condition(i),
    ],
)
def test_one_side_is_asked_first(body) -> None:
    assert "min" not in asked(body)


def test_conditions_guard_reads_that_they_keep_inside() -> None:
    """Of `i < n - 1`, nothing is left out by the condition on data beside it."""
    text = asked(lambda i: te.if_then_else(i < N - 1, (X[i] > 1) & (Y[i + 1] > 2), False))
    assert "min(x[i] > 1.0f, y[i + 1] > 2.0f)" in text


@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_a_product_of_bools_is_made_of_vectors(target) -> None:
    """`a & b` of 16 lanes is one operation, and no list of lanes."""
    k = te.reduce_axis((0, 16), "k")
    a, b = te.placeholder((16, 16), "bool", name="a"), te.placeholder((16, 32), "bool", name="b")
    c = te.compute((16, 32), lambda i, j: te.any(a[i, k] & b[k, j], axis=k), name="c")
    s = create_schedule(c)
    outer, inner = s[c].split("j", factor=16)
    s[c].reorder("i", outer, "k", inner)
    s[c].vectorize(inner)
    if target == "opencl":
        s[c].bind("i", "blockIdx.x")
        text = compile_function(lower_structure(s, [a, b, c], target).bind(), Target.parse(target)).code.decode()
        assert "uchar16" in text
        assert max(map(len, text.splitlines())) < 400
    rng = np.random.default_rng(0)
    inputs = [rng.random((16, 16)) < 0.2, rng.random((16, 32)) < 0.2]
    check_against_reference([a, b, c], s, target, inputs, "interpreter")
    if target == "llvm":
        check_against_reference([a, b, c], s, target, inputs, "native")
