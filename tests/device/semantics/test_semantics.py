"""docs/semantics.md: every rule is shown on every backend."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from semantic_backends import BACKENDS, Expected, Row, each, run
from semantic_rows import SECTIONS
from semantic_rows_integers import of

import autosched
from autosched import build, te
from autosched.errors import UsageError
from autosched.measure.verify import allowed_error, compare
from autosched.schedule import create_schedule
from autosched.space.workload import Workload, workload
from autosched.target import KINDS, Target
from autosched.te.rounding import EXACT, Rounding, roundings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "semantics.md"
#: rules that tests below show
SHOWN: set[str] = set()
COMPILED = BACKENDS[2:]


def shows(*rules: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    SHOWN.update(rules)
    return lambda test: test


def check(rows: list[Row], backend: str, strict: bool = False) -> None:
    wrong = []
    for row, found in zip(rows, run(rows, backend, strict), strict=True):
        for got, expected in zip(found, row.expected, strict=True):
            if told := expected.complaint(got):
                wrong.append(f"{row.rule}, inputs {[a.tolist()[:8] for a in row.inputs]}: {told}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("section", SECTIONS)
def test_rules(section: str, backend: str) -> None:
    check(SECTIONS[section], backend)


def test_every_rule_is_shown_and_every_row_has_a_rule() -> None:
    rules = re.findall(r"^- `([a-z-]+\.[a-z-]+)`", PAGE.read_text(), re.MULTILINE)
    assert len(rules) == len(set(rules)) > 50
    shown = {row.rule for rows in SECTIONS.values() for row in rows} | SHOWN
    assert sorted(set(rules) - shown) == [] and sorted(shown - set(rules)) == []


def test_a_row_notices() -> None:
    """Values, types, signs of zeros, units in the last place."""
    wanted = Expected(of("float32", 1, 0.0, np.nan))
    assert wanted.complaint(of("float32", 1, 0.0, -np.nan)) == ""
    assert "element [1]" in wanted.complaint(of("float32", 1, -0.0, np.nan))
    assert "element [2]" in wanted.complaint(of("float32", 1, 0, 2))
    assert "its type is float64" in wanted.complaint(of("float64", 1, 0, np.nan))
    near = Expected(of("float32", 1), ulps=2)
    assert near.complaint(of("float32", 1 + 2.0**-22)) == "" != near.complaint(of("float32", 1 + 2.0**-21))
    with pytest.raises(AssertionError, match=r"int\.wrap.*element \[0\] is np\.int8\(-128\), not np\.int8\(127\)"):
        check([each("int.wrap", [of("int8", 127)], lambda a: a + 1, of("int8", 127))], "llvm")


@shows("type.literal-range")
def test_a_literal_outside_the_type_is_refused() -> None:
    a = te.placeholder((4,), "uint8", name="a")
    for wrong in (300, -1):
        with pytest.raises(UsageError, match=f"{wrong} is not a value of uint8"):
            te.compute((4,), lambda i, wrong=wrong: a[i] + wrong)


@shows("reduce.flush")
def test_pairs_of_bfloat16_below_the_normal_numbers() -> None:
    """A strict target keeps them; elsewhere they may be zeros where the schedule makes pairs."""
    a, b = (te.placeholder((16, 2), "bfloat16", name=x) for x in "ab")
    k = te.reduce_axis((0, 2), "k")
    c = te.compute((16,), lambda i: te.sum(a[i, k].astype("float32") * b[i, k].astype("float32"), axis=k), name="c")
    s = create_schedule(c)
    s[c].vectorize("i")
    s[c].vectorize("k")
    x, y = np.full((16, 2), 2.0**-130, "bfloat16"), np.full((16, 2), 2.0**127, "bfloat16")
    assert set(autosched.build(s, "llvm -strict", args=[a, b, c])(x, y).tolist()) == {0.25}
    assert set(autosched.build(s, "llvm", args=[a, b, c])(x, y).tolist()) <= {0.0, 0.25}


@shows("float.strict")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_strict_target_rounds_products_and_sums_apart(backend: str) -> None:
    rng = np.random.default_rng(5)
    rows = []
    for t in ("float16", "float32", "float64"):
        a, b = rng.normal(size=(2, 64)).astype(t)
        c = -(a * b)  # what is left is the error of the product, which a multiply-add would show
        rows.append(each("float.strict", [a, b, c], lambda a, b, c: a * b + c, np.zeros(64, t)))
        rows.append(each("float.strict", [a, b, c], lambda a, b, c: c + a * b, np.zeros(64, t)))
        rows.append(each("float.strict", [a, b], lambda a, b: a * b - b * a, np.zeros(64, t)))
        rows.append(each("float.strict", [a, b], lambda a, b: 0.0 - a * b + a * b, np.zeros(64, t)))
    check(rows, backend, strict=True)


def test_other_targets_do_contract() -> None:
    """Or the test above would show nothing."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, 64)).astype("f4")
    row = each("float.contract", [a, b, -(a * b)], lambda a, b, c: a * b + c, np.zeros(64, "f4"))
    for backend in COMPILED:
        ((found,),) = run([row], backend)
        assert (np.count_nonzero(found) > 32) == ("nehalem" not in backend), backend  # which has no instruction for it


def test_a_strict_workload_is_strict_on_every_target() -> None:
    @workload(strict=True)
    def product() -> Any:
        a, b, c = (te.placeholder((64,), "float32", name=name) for name in "abc")
        return a, b, c, te.compute((64,), lambda i: a[i] * b[i] + c[i], name="o")

    a, b = np.random.default_rng(5).normal(size=(2, 64)).astype("f4")
    for kind in ("llvm", "c", "opencl"):
        assert not autosched.build(product, kind)(a, b, -(a * b)).any()
    assert "--fmad=false" in autosched.build(product, "cuda").get_source()


@shows("nan.sign")
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_sign_of_a_nan_is_open(backend: str) -> None:
    either = Expected(of("float32", 1, 1), (of("float32", -1, -1),))
    inputs = [of("float32", np.inf, 0), of("float32", np.inf, 0)]
    check([each("nan.sign", inputs, lambda a, b: te.copysign(1.0, a * 2 - b * 2 + a / b), either)], backend)


@shows("reduce.reassociate")
@pytest.mark.parametrize("kind", ["llvm", "c", "opencl"])
def test_only_the_schedule_changes_the_order_of_a_sum(kind: str) -> None:
    a = te.placeholder((1, 4), "float32", name="a")
    k = te.reduce_axis((0, 4), "k")
    total = te.compute((1,), lambda i: te.sum(a[i, k], axis=k), name="total")
    values = of("float32", 2.0**24, 1, -(2.0**24), 1).reshape(1, 4)  # in order 1: the first 1 is lost

    def result(change: Callable[[Any], None]) -> float:
        s = create_schedule(total)
        change(s)
        return float(autosched.build(s, kind, args=[a, total])(values)[0])

    def in_two(s: Any) -> None:
        _, inner = s[total].split(s[total].op.reduce_axis[0], factor=2)
        s.rfactor(total, inner)  # (2**24 - 2**24) + (1 + 1)

    assert result(lambda s: None) == 1
    if kind != "opencl":  # where the stages need a kernel's loops bound
        assert result(in_two) == 2


# -- what verification allows -------------------------------------------------------------------------

A, B = (te.placeholder((8,), "float32", name=name) for name in "ab")
V = te.placeholder((8,), "int32", name="v")


def left_open(element: Callable[[Any], Any], kind: str, strict: bool = False) -> Rounding:
    w = Workload("w", (A, B, V, te.compute((8,), element, name="o")))
    (found,) = w.roundings(Target(kind, strict=strict))
    return found


def is_right(got: Any, expected: Any, rounding: Rounding = EXACT, rtol: Any = None, atol: Any = None) -> bool:
    g, e = np.asarray(got), np.asarray(expected)
    return compare(g, e, *allowed_error(e, rtol, atol, rounding), rounding=rounding) == ""


@shows("verify.integer", "verify.step", "verify.leap", "verify.strict")
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_allowed_where_an_open_float_becomes_an_integer_and_only_there(kind: str) -> None:
    byte = np.array([7, 9], np.uint8)
    one = left_open(lambda i: (A[i] * 0.3 + B[i] * 0.6 + 0.5).astype("uint8"), kind)
    assert is_right(byte + np.uint8(1), byte, one) and not is_right(byte + np.uint8(2), byte, one)
    four = left_open(lambda i: te.round(A[i] * 0.3 + B[i]).astype("int32") * 4, kind)
    assert is_right([4], [8], four) and not is_right([3], [8], four)
    for exact in (
        lambda i: V[i] * 3 // 2,
        lambda i: (A[i] + B[i]).astype("int32"),
        lambda i: (A[i] * B[i]).astype("int32"),
    ):
        assert not is_right([7], [8], left_open(exact, kind))
    assert not is_right(np.array([True]), np.array([False]), one)
    for leap in (lambda i: te.select(A[i] * B[i] + 1.0 > 0.0, 1, 2), lambda i: (A[i] * B[i] + 1.0).astype("int32") % 7):
        found = left_open(leap, kind)
        assert not is_right([1], [2], found)
        assert "-strict" in compare(np.array([1]), np.array([2]), 0.0, 0.0, rounding=found)
        assert left_open(leap, kind, strict=True) == Rounding()
    assert left_open(lambda i: (A[i] * 0.3 + B[i]).astype("uint8"), kind, strict=True) == Rounding()
    assert left_open(lambda i: te.exp(A[i]).astype("uint8"), kind, strict=True) == Rounding(step=1.0)


@shows("verify.spread")
def test_a_smooth_use_of_an_open_float_may_move_and_a_leap_may_not() -> None:
    image = te.placeholder((4000,), "float32", name="image")

    def workload(smooth: bool) -> Workload:
        def element(i: Any) -> Any:
            at = A[0] * i.astype("float32") + 0.1
            left = te.floor(at)
            near = te.max(te.min(left.astype("int32"), 3998), 0)
            return image[near] * (1 - (at - left)) + image[near + 1] * (at - left) if smooth else image[near]

        return Workload("w", (A, image, te.compute((3000,), element, name="o")))

    pixels = np.random.default_rng(0).uniform(0, 255, 4000).astype("float32")
    inputs = [np.full(8, 1.2987, "float32"), pixels]
    for smooth in (True, False):
        w = workload(smooth)
        (expected,) = w.reference(inputs)
        (closed,) = w.roundings(Target("llvm"))
        (found,) = w.roundings(Target("llvm"), inputs, [expected])
        module = build(w, "llvm", effort="none")
        got = module(*inputs)
        assert found == replace(closed, spread=found.spread) and (found.spread > 0) == smooth
        assert is_right(got, expected, found) if smooth else True
        wrong = got.copy()
        wrong[7] += 1  # a hundred times what rounding explains
        assert not is_right(wrong, expected, found)
        assert not is_right(expected * np.float32(0), expected, replace(found, spread=1e3))  # too much to allow


@shows("verify.float")
@pytest.mark.parametrize(("of_type", "rtol", "share"), [("f2", 1e-2, 1e-3), ("f4", 1e-4, 1e-5), ("f8", 1e-9, 1e-12)])
def test_floats_are_right_within_the_tolerance_of_their_type(of_type: str, rtol: float, share: float) -> None:
    expected = np.array([1.0, 0.0, np.nan, np.inf], of_type)
    assert is_right(np.array([1 + rtol / 2, share / 2, np.nan, np.inf], of_type), expected)
    assert not is_right(np.array([1 + 2 * rtol, 0, np.nan, np.inf], of_type), expected)
    assert not is_right(np.array([1, 2 * share, np.nan, np.inf], of_type), expected)
    assert not is_right(np.array([1, 0, 1, np.inf], of_type), expected)
    assert not is_right(np.array([1, 0, np.nan, -np.inf], of_type), expected)


@shows("verify.given")
def test_a_tolerance_that_is_given_holds_for_every_type() -> None:
    step = Rounding(step=1.0)
    assert not is_right([7], [8], step, atol=0.0)
    assert is_right([7], [8], atol=1.0) and not is_right([6], [8], atol=1.0)
    assert is_right([110], [100], rtol=0.1) and not is_right([111], [100], rtol=0.1)
    assert is_right([1.5], [1.0], atol=0.5) and not is_right([1.6], [1.0], atol=0.5)


@shows("verify.sign")
def test_signs_are_open_where_min_and_max_leave_them() -> None:
    assert is_right([-0.0], [0.0])
    free = left_open(lambda i: 1.0 / te.max(A[i], 0.0), "llvm")
    assert is_right([-np.inf], [np.inf], free) and not is_right([1.0], [np.inf], free)
    assert not is_right([-np.inf], [np.inf], left_open(lambda i: 1.0 / A[i], "llvm"))
    shown = left_open(lambda i: te.copysign(B[i], te.min(A[i], 0.0)), "llvm")
    assert not is_right([-1.0], [1.0], shown) and "the sign of a zero" in shown.undecided
    o = te.compute((8,), lambda i: te.copysign(B[i], A[i] - B[i]), name="o")
    assert "the sign of a NaN" in roundings([A, B, o])[0].undecided
