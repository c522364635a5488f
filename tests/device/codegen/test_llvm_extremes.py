"""Choices that drop a NaN, of choices that keep it: LLVM takes the larger of the larger for the same larger."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched import build, te
from autosched.ir.expr import Expr
from autosched.schedule import create_schedule
from autosched.space.workload import Workload
from autosched.testing.oracle import check_against_reference

ZERO, FOUR = te.const(0.0, "float32"), te.const(4.0, "float32")


def _larger(m: Expr, c: Expr) -> Expr:
    return te.select(m > c, m, c)


def _whole(x: Expr) -> Expr:
    return te.floor(x).astype("int32").astype("float32")


CASES: dict[str, Callable[[Expr, Expr], Expr]] = {
    "clamped to a byte": lambda x, y: te.max(te.min(x, 255.0), 0.0).astype("uint8"),
    "clamped from above last": lambda x, y: te.min(te.max(x, 0.0), 255.0).astype("uint8"),
    "clamped twice": lambda x, y: te.max(te.min(te.max(te.min(x, 255.0), 0.0), 255.0), 0.0).astype("uint8"),
    "clamped of a double": lambda x, y: te.max(te.min(x.astype("float64"), 255.0), 0.0).astype("uint8"),
    "clamped of a half": lambda x, y: te.max(te.min(x.astype("float16"), 255.0), 0.0).astype("uint8"),
    "clamped to 16 bits": lambda x, y: te.max(te.min(x * 2.0, 65535.0), 0.0).astype("uint16"),
    "clamped to a signed byte": lambda x, y: te.max(te.min(x, 127.0), -128.0).astype("int8"),
    "not negative": lambda x, y: te.max(x, 0.0).astype("uint32"),
    "not negative, long": lambda x, y: te.max(x, 0.0).astype("uint64"),
    "chosen": lambda x, y: te.select(x < 0, ZERO, x).astype("uint8"),
    "negative zero": lambda x, y: te.max(x, -0.0).astype("uint8"),
    "larger": lambda x, y: _larger(te.max(x, 0.0), ZERO),
    "larger or equal": lambda x, y: te.select(te.max(x, 0.0) >= 0, te.max(x, 0.0), ZERO),
    "not larger": lambda x, y: te.select(~(te.max(x, 0.0) > 0), ZERO, te.max(x, 0.0)),
    "smaller": lambda x, y: te.select(te.min(x, 4.0) < 4, te.min(x, 4.0), FOUR),
    "of a choice": lambda x, y: _larger(te.select(x < 0, ZERO, x), ZERO),
    "of two values": lambda x, y: _larger(te.max(x, y), y),
    "of a whole number": lambda x, y: _larger(te.max(x, _whole(y)), _whole(y)),
    "on demand": lambda x, y: te.if_then_else(te.max(x, 0.0) > 0, te.max(x, 0.0), ZERO),
    "kept": lambda x, y: te.select(te.max(x, 0.0) < 0, ZERO, te.max(x, 0.0)),
}


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", CASES)
def test_a_nan_is_dropped_where_the_choice_says_so(name: str, lanes: int) -> None:
    x, y = te.placeholder((35,), name="x"), te.placeholder((35,), name="y")
    z = te.compute((35,), lambda i: CASES[name](x[i], y[i]), name="z")
    s = create_schedule(z)
    if lanes > 1:
        s[z].split("i", factor=lanes)
        s[z].vectorize("i.inner")
    values = np.array([np.nan, 1, 2.5, 300, -5, np.inf, -np.inf, np.nan, 7], "float32")
    given = [np.resize(values, 35), np.resize(values[1:], 35)]
    with np.errstate(all="ignore"):
        check_against_reference([x, y, z], s, "llvm", given)


NEXT: dict[str, Callable[[Expr], Expr]] = {
    "clamped to a byte": lambda m: m.astype("uint8"),
    "larger": lambda m: te.select(m > 0, m, ZERO),
    "smaller": lambda m: te.select(m < 255, m, te.const(255.0)),
    "smaller or equal": lambda m: te.select(m <= 255, m, te.const(255.0)),
}


@pytest.mark.parametrize("place", ["root", "inside"])
@pytest.mark.parametrize("name", NEXT)
def test_a_nan_is_dropped_by_the_next_stage(name: str, place: str) -> None:
    """LLVM sees through memory that is no array of a caller's."""
    x = te.placeholder((35,), name="x")
    kept = te.compute((35,), lambda i: te.max(te.min(x[i], 255.0), 0.0), name="kept")
    z = te.compute((35,), lambda i: NEXT[name](kept[i]), name="z")
    s = create_schedule(z)
    if place == "inside":
        s[kept].compute_at(s[z], "i")
    given = np.resize(np.array([np.nan, 1, 2.5, 300, -5, np.inf, -np.inf], "float32"), 35)
    with np.errstate(all="ignore"):
        check_against_reference([x, z], s, "llvm", [given])


def test_a_zero_keeps_its_sign() -> None:
    x = te.placeholder((4,), name="x")
    chosen = te.compute((4,), lambda i: te.select(x[i] >= 0, x[i], ZERO), name="chosen")
    found = build(Workload("zeros", (x, chosen)), "llvm", effort="none")(np.array([-0.0, 0.0, 1.0, -1.0], "float32"))
    assert list(np.signbit(found)) == [True, False, False, False]
