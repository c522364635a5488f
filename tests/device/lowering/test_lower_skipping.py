"""Vectorized reductions that choose: vectors in which no lane would change the result are left out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched import build, te
from autosched.ir.expr import Expr
from autosched.ir.printer import format_function
from autosched.lowering import lower
from autosched.lowering.skipping import MOST_FOUND
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.te.reducers import Reducer
from autosched.testing.oracle import check_against_reference

ROWS, COLUMNS = 7, 75
Pair = tuple[Expr, Expr]


def _made(combine: Callable[[Pair, Pair], Pair]) -> Reducer:
    return te.comm_reducer(combine, lambda i, v: (te.const(-1, i), te.const(v.min, v)), "chosen")


#: of equal values the last one; of two orders at once, which is neither associative nor commutative; by an operator
LAST = _made(lambda a, b: (te.select(b[1] >= a[1], b[0], a[0]), te.select(b[1] >= a[1], b[1], a[1])))
ODD = _made(lambda a, b: (te.select(b[1] > a[1], b[0], a[0]), te.select(b[1] * b[1] > a[1], b[1] + 1, a[1])))
LARGEST = _made(lambda a, b: (te.select(b[1] > a[1], b[0], a[0]), te.max(a[1], b[1])))


def found(how: object, dtype: str = "float32", n: object = COLUMNS, where: bool = False) -> list[Tensor]:
    """x[rows, n], out[rows] -> where, and what, a reduction finds in each row; without the point `out`, if asked."""
    x = te.placeholder((ROWS, n), dtype, name="x")
    out = te.placeholder((ROWS,), "int32", name="out")
    k = te.reduce_axis((0, n), "k")

    def of(i: Expr) -> tuple[Expr, ...]:
        return how((k.var, x[i, k]), axis=k, where=(k.var != out[i]) if where else None)  # type: ignore[operator]

    return [x, *([out] if where else []), *te.compute((ROWS,), of, name="best")]


def in_vectors(args: list[Tensor], lanes: int) -> Schedule:
    s = create_schedule(args[-2:])
    s["best"].vectorize(s["best"].split("k", factor=lanes)[1])
    return s


def lowered(s: Schedule, args: list[Tensor]) -> str:
    return format_function(lower(s, args).structure.bind())


def rows(dtype: str, n: int = COLUMNS) -> np.ndarray:
    """Rows that rise, fall, are random with ties; and of floats those of NaN, with NaN, of infinities, of zeros."""
    x = np.random.default_rng(3).integers(0, 9, (ROWS, n)).astype("float64")
    x[0].sort()
    x[1] = -np.sort(-x[1])
    if np.issubdtype(np.dtype(dtype), np.floating):
        x[2], x[3, ::5], x[4] = np.nan, np.nan, -np.inf
        x[5] = np.where(np.arange(n) % 3, 0.0, -0.0)
    return x.astype(dtype)


@pytest.mark.parametrize("how", [te.argmax, te.argmin, LAST, ODD, LARGEST], ids=["max", "min", "last", "odd", "op"])
def test_steps_keep_their_order(how: Reducer) -> None:
    for dtype, lanes, backend in [("float32", 16, "native"), ("int8", 48, "native"), ("float16", 8, "interpreter")]:
        for where in (False, True):
            args = found(how, dtype, where=where)
            s = in_vectors(args, lanes)
            s["best"].parallel("i")
            assert "bitor_lanes(" in lowered(s, args), (dtype, where)
            given = [rows(dtype), np.arange(ROWS, dtype="int32") * 9]
            check_against_reference(args, s, "llvm", given[: 1 + where], backend)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["llvm", "c", "opencl"])
def test_any_length(target: str) -> None:
    args = found(te.argmax, n=te.var("n"), where=True)
    s = in_vectors(args, 16)
    for n in (1, 16, 37):
        given = [rows("float32", n), np.zeros(ROWS, "int32")]
        check_against_reference(args, s, target, given, "interpreter" if target == "opencl" else "native")


def test_a_rest_is_asked_in_fewer_lanes() -> None:
    text = lowered(in_vectors(args := found(te.argmax, n=te.var("n")), 64), args)
    asked = [x for x in text.splitlines() if "bitor_lanes(" in x]
    assert [lanes for lanes in (64, 32, 8) for x in asked if f"n*i, {lanes})]" in x] == [64, 32, 8]
    assert len(asked) == text.count(f"[1] < {MOST_FOUND})") == 3


def test_one_comparison_asks_for_what_is_larger_or_no_number() -> None:
    args = found(te.argmax, where=True)
    asked = next(x for x in lowered(in_vectors(args, 16), args).splitlines() if "bitor_lanes" in x)
    assert "isnan" not in asked and "out[" not in asked and "!(x[" in asked and "<= x16(best.v1[i])" in asked


def test_the_first_lane_is_a_count_of_bits() -> None:
    args = found(te.argmax)
    code = build(in_vectors(args, 32), "llvm", args=args).llvm_ir
    assert "llvm.cttz.i32" in code or "llvm.ctlz.i32" in code
    assert "vector.reduce.smin" not in code


def test_what_every_step_changes_is_computed_step_by_step() -> None:
    args = found(_made(lambda a, b: (te.select(b[1] > a[1], b[0], a[0]), a[1] + b[1])), "int32")
    s = in_vectors(args, 16)
    assert "bitor_lanes(" not in lowered(s, args)
    check_against_reference(args, s, "llvm", [rows("int32")])


def test_what_a_condition_guards_is_not_read_before() -> None:
    """Numbers below 0 would be read outside of the table."""
    at, table = te.placeholder((ROWS, COLUMNS), "int32", name="at"), te.placeholder((9,), name="table")
    k = te.reduce_axis((0, COLUMNS), "k")
    best = te.compute((ROWS,), lambda i: te.argmax((k.var, table[at[i, k]]), axis=k, where=at[i, k] >= 0), name="best")
    args = [at, table, *best]
    s = in_vectors(args, 16)
    assert "bitor_lanes(" not in lowered(s, args)
    numbers = np.random.default_rng(0).integers(0, 9, (ROWS, COLUMNS)).astype("int32")
    numbers[:, ::4] = -(1 << 30)
    check_against_reference(args, s, "llvm", [numbers, np.arange(9, dtype="float32")])


def test_inside_vectors_of_results_steps_are_vectors() -> None:
    args = found(te.argmax)
    s = create_schedule(args[1:])
    best = s["best"]
    k, lane = best.split("k", factor=25)
    best.reorder(k, lane, "i")
    best.vectorize(lane)
    best.vectorize("i")
    text = lowered(s, args)
    assert "bitor_lanes(" not in text and "best.v1[ramp(0, 7)]" in text
    check_against_reference(args, s, "llvm", [rows("float32")])
