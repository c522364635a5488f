"""NumPy's functions of single expressions, and numbers of NumPy's beside them."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import UsageError, UsageTypeError
from autosched.ir.expr import Expr
from autosched.te.numpy_calls import _UFUNCS, NAMES

A = te.placeholder((4,), "float32", name="A")
I = te.placeholder((4,), "int32", name="I")  # noqa: E741
ARRAY = np.arange(4, dtype="float32")


@pytest.mark.parametrize("name", sorted(NAMES))
def test_functions_are_those_of_te(name: str) -> None:
    f = getattr(np, name)
    operands = (A[0], A[1])[: f.nin] if name != "ldexp" else (A[0], I[0])
    assert f(*operands) is getattr(te, NAMES[name])(*operands)


@pytest.mark.parametrize("name", sorted(set(_UFUNCS) - set(NAMES)))
def test_operators_give_what_numpy_gives(name: str) -> None:
    f = getattr(np, name)
    is_bitwise = name in ("invert", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
    of = I if is_bitwise else A
    given = np.array([3, 1, 2, 5], of.dtype)
    out = te.compute((3,), lambda i: f(*(of[i], of[i + 1])[: f.nin]))
    (found,) = te.reference([of, out], [given])
    np.testing.assert_allclose(found, f(*(given[:-1], given[1:])[: f.nin]), rtol=1e-6)


@pytest.mark.parametrize(
    ("numpy_first", "te_first"),
    [
        (lambda: np.float32(2) * A[0], lambda: te.const(2, "float32") * A[0]),
        (lambda: np.float64(2) * A[0], lambda: te.const(2, "float64") * A[0]),
        (lambda: np.int64(2) + I[0], lambda: te.const(2, "int64") + I[0]),
        (lambda: np.array(2, "float32") * A[0], lambda: te.const(2, "float32") * A[0]),
        (lambda: np.float32(2) ** A[0], lambda: te.pow(te.const(2, "float32"), A[0])),
        (lambda: 2 ** A[0], lambda: te.pow(te.const(2, "float32"), A[0])),
        (lambda: np.maximum(A[0], 0), lambda: te.max(A[0], te.const(0, "float32"))),
        (lambda: np.where(A[0] > 0, A[0], 0), lambda: te.select(A[0] > 0, A[0], 0)),
        (lambda: np.clip(A[0], 0, 1), lambda: te.min(te.max(A[0], 0.0), 1.0)),
        (lambda: np.int32(7) // I[0], lambda: te.const(7) // I[0]),
        (lambda: np.int32(1) << I[0], lambda: te.const(1) << I[0]),
    ],
)  # fmt: skip
def test_numbers_keep_their_types(numpy_first: Callable[[], Expr], te_first: Callable[[], Expr]) -> None:
    assert numpy_first() is te_first()


def test_axes_and_rows_are_operands_too() -> None:
    k = te.reduce_axis((0, 4), "k")
    assert np.sqrt(k) is te.sqrt(k.var)
    assert np.int32(2) * k is te.const(2) * k.var  # type: ignore[operator]
    number = te.placeholder((), name="number")
    out = te.compute((2,), lambda i: np.exp(number) + A[i], name="out")
    (found,) = te.reference([A, number, out], [ARRAY, np.zeros((), "float32")])
    assert found.tolist() == [1, 2]


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "an array beside an element": (lambda: ARRAY * A[0], "te.placeholder"),
    "a function that te has not": (lambda: np.cbrt(A[0]), "te.sqrt"),
    "a sum of one element": (lambda: np.sum(A[0]), "te.reduce_axis"),
    "a stack of elements": (lambda: np.stack([A[0], A[1]]), "te.sqrt"),
    "a function with dtype": (lambda: np.add(A[0], 1, dtype="int8"), "astype"),  # type: ignore[call-overload]
    "a reduction": (lambda: np.add.reduce(A[0]), "te.sum"),
    "math.sqrt": (lambda: math.sqrt(A[0]), "te.sqrt"),  # type: ignore[arg-type]
    "float": (lambda: float(A[0]), "astype"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_says_what_can(case: str) -> None:
    use, legal = REFUSED[case]
    with pytest.raises(UsageTypeError) as caught:
        use()
    assert legal in caught.value.legal
    assert case in ("math.sqrt", "float") or __file__ in caught.value.asked


def test_statistics_of_a_list_of_elements() -> None:
    """NumPy makes them of an array of objects: sums, a quotient, and the type of the sum."""
    given = np.array([0.5, -2, 3, 8], "float32")
    B = te.placeholder((4,), name="B")
    for of in (np.mean, np.var, np.std, np.average):
        found = te.compute((4,), lambda i: of([B[i], 1.0, B[3]]), name="found")  # type: ignore[operator]  # noqa: B023
        wanted = [of(np.array([x, 1, given[3]], "float32")) for x in given]  # type: ignore[operator]
        np.testing.assert_allclose(te.reference([B, found], [given])[0], wanted, rtol=1e-5)


def test_a_mean_of_integers_is_refused() -> None:
    C = te.placeholder((4,), "int32", name="C")
    with pytest.raises(UsageTypeError, match="quotient of integers") as caught:
        te.compute((4,), lambda i: np.mean([C[i], 1]))
    assert "astype" in caught.value.legal and __file__ in caught.value.asked


WHOLE = """
import numpy as np
from autosched import te
from autosched.errors import UsageError
A = te.placeholder((4,), name="A")
for use in (lambda: A + 1, lambda: np.float32(2) * A, lambda: np.sqrt(A)):
    try:
        use()
    except UsageError as error:
        assert "A[i]" in error.legal and "topi" in error.legal, error
    else:
        raise AssertionError("no error")
from autosched import topi
assert (np.float32(2) * A).shape == A.shape and (2**A).shape == A.shape
"""


def test_whole_tensors_say_where_their_arithmetic_is() -> None:
    """In a process of its own: `topi` gives tensors their operators when it is imported."""
    subprocess.run([sys.executable, "-c", WHOLE], check=True)


def test_a_number_of_a_constant() -> None:
    assert float(te.const(2.5)) == 2.5
    with pytest.raises(UsageError, match="has no value"):
        float(te.var("n"))  # type: ignore[arg-type]
