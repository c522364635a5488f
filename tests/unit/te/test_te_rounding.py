"""What an op graph leaves open in its outputs: where floats become integers, are compared, or show a zero's sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autosched import te
from autosched.ir.calls import call_packed
from autosched.te.rounding import CHOICE, EXACT, NOT_A_NUMBER, ZERO, Rounding, roundings

N = 8
Element = Callable[[Any], Any]


def floats() -> list[te.Tensor]:
    return [te.placeholder((N,), "float32", name=name) for name in "abc"]


A, B, C = floats()
U = te.placeholder((N,), "uint8", name="u")
V = te.placeholder((N,), "int32", name="v")


def of(element: Element, **options: bool) -> Rounding:
    (found,) = roundings([A, B, C, U, V, te.compute((N,), element, name="o")], **options)
    return found


def fused(i: Any) -> Any:
    return A[i] * B[i] + C[i]


STEPS: list[tuple[str, Element, float]] = [
    ("a product in a sum", lambda i: fused(i).astype("uint8"), 1),
    ("grey", lambda i: (0.299 * A[i] + 0.587 * B[i] + 0.114 * C[i] + 0.5).astype("uint8"), 1),
    ("exp", lambda i: te.exp(A[i]).astype("int32"), 1),
    ("rounded, then converted", lambda i: te.round(fused(i)).astype("int32"), 1),
    ("a float that was rounded", lambda i: te.floor(fused(i)), 1),
    ("clamped", lambda i: te.min(te.max(te.round(fused(i)), 0.0), 255.0).astype("uint8"), 1),
    ("clamped by choice", lambda i: te.select(fused(i) > 255.0, 255.0, fused(i)).astype("uint8"), 1),
    ("narrowed and widened", lambda i: fused(i).astype("int32").astype("uint8").astype("int64"), 1),
    ("plus an integer", lambda i: fused(i).astype("int32") + V[i], 1),
    ("negated", lambda i: -te.abs(fused(i).astype("int32")), 1),
    ("chosen", lambda i: te.select(V[i] > 0, fused(i).astype("int32"), V[i]), 1),
    ("twice", lambda i: fused(i).astype("int32") + te.exp(B[i]).astype("int32"), 2),
    ("scaled", lambda i: te.round(fused(i)) * 0.25, 0.25),
    ("scaled integer", lambda i: fused(i).astype("int32") * -3, 3),
    ("divided", lambda i: fused(i).astype("int32") // 10, 1),
    ("shifted", lambda i: (fused(i).astype("int32") << 3) >> 1, 4),
    ("a step and a float beside it", lambda i: (te.round(fused(i)) + te.exp(A[i])).astype("int32"), 2),
    ("a float quotient rounded down", lambda i: te.floordiv(fused(i), 2.0), 1),
]


@pytest.mark.parametrize(("element", "step"), [case[1:] for case in STEPS], ids=[case[0] for case in STEPS])
def test_a_step_reaches_the_output_as_what_it_is_worth_there(element: Element, step: float) -> None:
    assert of(element) == Rounding(step=step)


EXACTLY: list[tuple[str, Element]] = [
    ("integers", lambda i: (U[i].astype("int32") * 3 + V[i]) // 7 % 5),
    ("a product alone", lambda i: (A[i] * 0.3).astype("uint8")),
    ("a sum alone", lambda i: (A[i] + B[i] + 0.5).astype("int32")),
    ("a product with a power of two", lambda i: (A[i] * 0.5 + C[i]).astype("int32")),
    ("a product after the sum", lambda i: ((A[i] + B[i]) * C[i]).astype("int32")),
    ("a division", lambda i: (A[i] / 3 + B[i]).astype("int32")),
    ("a square root", lambda i: te.sqrt(A[i]).astype("int32")),
    ("integers as floats", lambda i: te.floor(U[i].astype("float32") / 2).astype("uint8")),
    ("a comparison", lambda i: te.select(A[i] > B[i], 1, 7)),
    ("a remainder", lambda i: te.floormod(A[i], 3.0).astype("int32")),
    ("scaled by a power of two", lambda i: te.ldexp(A[i], V[i]).astype("int32")),
]


@pytest.mark.parametrize("element", [case[1] for case in EXACTLY], ids=[case[0] for case in EXACTLY])
def test_nothing_else_is_allowed_a_step(element: Element) -> None:
    assert of(element) == EXACT


OPEN: list[tuple[str, Element]] = [
    ("compared", lambda i: te.select(fused(i) > 0, 1, 7)),
    ("a bool", lambda i: fused(i) > 0),
    ("an index", lambda i: U[te.min(te.max(fused(i).astype("int32"), 0), N - 1)]),
    ("a remainder", lambda i: fused(i).astype("int32") % 7),
    ("times something", lambda i: fused(i).astype("int32") * V[i]),
    ("bits", lambda i: fused(i).astype("int32") & 12),
    ("a function of a step", lambda i: te.exp(te.round(fused(i)))),
    ("most of the type", lambda i: fused(i).astype("uint8") * 100),
    ("a sign", lambda i: te.copysign(B[i], fused(i))),
]


@pytest.mark.parametrize("element", [case[1] for case in OPEN], ids=[case[0] for case in OPEN])
def test_leaps_are_allowed_nothing_and_said(element: Element) -> None:
    found = of(element)
    assert (found.undecided, found.either_sign) == (CHOICE, False)
    assert found.step == 0 or te.compute((N,), element).dtype.is_float


@pytest.mark.parametrize(
    "element", [lambda i: fused(i).astype("uint8"), lambda i: te.select(fused(i) > 0, 1, 7)], ids=["step", "leap"]
)
def test_a_strict_target_leaves_multiply_adds_no_choice(element: Element) -> None:
    assert of(element, contract=False) == EXACT
    assert of(lambda i: te.exp(A[i]).astype("int32"), contract=False) == Rounding(step=1.0)


def test_where_division_is_not_exact_a_quotient_may_round_to_its_neighbour() -> None:
    assert of(lambda i: (A[i] / 3).astype("int32"), exact_division=False) == Rounding(step=1.0)
    assert of(lambda i: (A[i] / 4).astype("int32"), exact_division=False) == EXACT
    assert of(lambda i: V[i] // 3, exact_division=False) == EXACT


def test_the_sign_of_a_zero_is_open_after_min_and_max() -> None:
    assert of(lambda i: 1 / te.max(A[i], 0.0)) == Rounding(either_sign=True)
    assert of(lambda i: -3 / te.max(A[i], 0.0) * B[i]).either_sign
    assert of(lambda i: te.rsqrt(te.min(A[i], B[i]))).either_sign
    assert of(lambda i: te.copysign(B[i], te.min(A[i], 0.0))) == Rounding(undecided=ZERO)
    assert of(lambda i: te.max(1 / te.max(A[i], 0.0), B[i])).undecided == CHOICE
    assert of(lambda i: 1 / te.max(A[i], 1.0)) == of(lambda i: 1 / A[i]) == EXACT
    assert of(lambda i: te.copysign(B[i], A[i])) == EXACT
    assert of(lambda i: te.copysign(te.max(A[i], B[i]), C[i])) == EXACT  # only the second operand's sign shows


def test_the_sign_of_a_nan_is_open_after_arithmetic() -> None:
    for made in (lambda i: A[i] - B[i], lambda i: te.floormod(A[i], 2.0), lambda i: te.sqrt(A[i])):
        assert of(lambda i, made=made: te.copysign(C[i], made(i))) == Rounding(undecided=NOT_A_NUMBER)
        assert of(lambda i, made=made: te.reinterpret("int32", made(i))) == Rounding(undecided=NOT_A_NUMBER)
        assert of(made) == EXACT
    assert of(lambda i: te.reinterpret("int32", te.abs(-A[i]))) == EXACT


def test_a_step_goes_from_stage_to_stage() -> None:
    k = te.reduce_axis((0, N), "k")
    product = te.compute((N,), lambda i: A[i] * B[i], name="product")
    whole = te.compute((N,), lambda i: (product[i] + C[i]).astype("int32"), name="whole")
    largest = te.compute((1,), lambda i: te.max(whole[k], axis=k), name="largest")
    total = te.compute((1,), lambda i: te.sum(whole[k], axis=k), name="total")
    found = roundings([A, B, C, product, whole, largest, total])
    assert found == [EXACT, Rounding(1.0), Rounding(1.0), Rounding(1.0, undecided=CHOICE)]


def test_sums_are_open_and_what_is_picked_is_not() -> None:
    k = te.reduce_axis((0, N), "k")
    total = te.compute((1,), lambda i: te.sum(A[k], axis=k), name="total")
    assert roundings([A, te.compute((1,), lambda i: total[i].astype("int32"))], contract=False) == [Rounding(1.0)]
    count = te.compute((1,), lambda i: te.sum(V[k], axis=k), name="count")
    assert roundings([V, count]) == [EXACT]
    where, value = te.compute((1,), lambda i: te.argmax(A[k], axis=k), name="best")
    assert roundings([A, where, value]) == [EXACT, EXACT]
    where, value = te.compute((1,), lambda i: te.argmax(fused(k), axis=k), name="best")
    assert [r.undecided for r in roundings([A, B, C, where, value])] == [CHOICE, CHOICE]


def test_scatters_follow_their_values_and_places() -> None:
    p = te.reduce_axis((0, N), "p")
    counts = te.scatter_reduce((256,), lambda: (U[p], te.const(1, "int32")), axis=p, name="counts")
    assert roundings([U, counts]) == [EXACT]
    grey = te.compute((N,), lambda i: fused(i).astype("uint8"), name="grey")
    counts = te.scatter_reduce((256,), lambda: (grey[p], te.const(1, "int32")), axis=p, name="counts")
    assert roundings([A, B, C, counts]) == [Rounding(undecided=CHOICE)]


def test_recurrences_end() -> None:
    X = te.placeholder((N, 3), name="X")

    def scan(of: str, step: Callable[[Any, Any], Any]) -> Rounding:
        state = te.placeholder((N, 3), of, name="state")
        first = te.compute((1, 3), lambda _, i: X[0, i].astype(of), name="first")
        update = te.compute((N, 3), lambda t, i: step(state[t - 1, i], X[t, i]).astype(of), name="step")
        return roundings([X, te.scan(first, update, state, inputs=[X], name="s")])[0]

    assert scan("float32", lambda s, x: s * 0.9 + x) == EXACT  # a float: its type's own tolerance
    assert scan("int32", lambda s, x: te.max(s, (x * 3 + 0.5).astype("int32"))) == Rounding(1.0)
    assert scan("int32", lambda s, x: s + (x * 3 + 0.5).astype("int32")).undecided == CHOICE
    assert scan("int32", lambda s, x: s + x.astype("int32")) == EXACT


def test_functions_from_outside_keep_their_secrets() -> None:
    out = te.extern((N,), [A], lambda ins, outs: call_packed("f", ins[0], outs[0]), dtype="int32", name="out")
    assert roundings([A, out]) == [EXACT]
    open_input = te.compute((N,), lambda i: fused(i), name="open")
    out = te.extern((N,), [open_input], lambda ins, outs: call_packed("f", ins[0], outs[0]), dtype="int32", name="out")
    assert roundings([A, B, C, out]) == [Rounding(undecided=CHOICE)]
