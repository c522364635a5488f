"""Loops whose steps wait for each other, and ask for their place in a row, go on row by row."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import build, te
from autosched.codegen.llvm_choices import MARK, chooses_between_states
from autosched.ir.stmt import For, Function, all_expressions, walk
from autosched.ir.visit import post_order
from autosched.lowering import lower_structure
from autosched.schedule import create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

TARGETS = [("llvm", "native"), ("llvm", "interpreter"), ("c", "native"), ("opencl", "interpreter")]


def cells(n=20, m=16, begin=0, shift=0, w=None, combine=te.min) -> list[Tensor]:
    """Distances of two texts, cell after cell: a table of rows in one array, which begins in the middle of a row."""
    w = m + 1 if w is None else w
    times = (n + 1) * w
    a, b = te.placeholder((n,), "uint8", name="a"), te.placeholder((m,), "uint8", name="b")
    st = te.placeholder((times,), "int32", name="st")
    first = te.compute((w + 1 + begin,), lambda t: (t + shift).astype("int32"), name="first")

    def step(t):
        i, j = (t + shift) // w, (t + shift) % w
        differs = te.select(a[te.min(te.max(i - 1, 0), n - 1)] == b[te.min(te.max(j - 1, 0), m - 1)], 0, 1)
        near = combine(combine(st[t - 1], st[t - w]) + 1, st[t - w - 1] + differs)
        return te.if_then_else(j == 0, i.astype("int32"), near)

    made = te.scan(first, te.compute((times,), step, name="step"), st, inputs=[a, b], name="cells")
    return [a, b, te.compute((times,), lambda t: made[t] * 2, name="out")]


def lowered(args: list[Tensor], target: str = "llvm", after: str = "simplify_last") -> Function:
    return lower_structure(create_schedule(args[-1]), args, target).after(after)  # type: ignore[return-value]


@pytest.mark.parametrize(("target", "backend"), TARGETS)
@pytest.mark.parametrize(
    "how",
    [{}, {"begin": 5}, {"begin": 20}, {"shift": 3}, {"shift": -2}, {"m": 7, "w": 8}, {"m": 9, "w": 31, "shift": 1}],
    ids=str,
)
def test_rows_of_steps_compute_what_the_definition_says(target: str, backend: str, how: dict[str, int]) -> None:
    args = cells(**how)
    rng = np.random.default_rng(0)
    given = [rng.integers(0, 3, int(x.shape[0].value)).astype("uint8") for x in args[:2]]
    check_against_reference(args, create_schedule(args[-1]), target, given, backend)  # type: ignore[arg-type]


@pytest.mark.parametrize(("target", "backend"), TARGETS)
def test_rows_may_be_as_long_as_the_call_says(target: str, backend: str) -> None:
    args, rng = cells(te.var("n"), te.var("m")), np.random.default_rng(0)
    first, *more = [[rng.integers(0, 3, n).astype("uint8") for n in sizes] for sizes in ((5, 30), (1, 1), (9, 2))]
    s = create_schedule(args[-1])
    check_against_reference(args, s, target, first, backend, more=more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("target", "backend"), TARGETS)
def test_rows_of_a_negative_length_are_none(target: str, backend: str) -> None:
    """There were no rows to go over, and no step was computed."""
    n, times = te.var("n"), te.var("times")
    a, x = te.placeholder((n,), "int32", name="a"), te.placeholder((times,), "int32", name="x")
    st = te.placeholder((times,), "int32", name="st")

    def step(t):
        place = te.max(te.min(t % (n - 3), n - 1), 0)
        return st[t - 1] + a[place] * te.select(t // (n - 3) > 0, x[t], 7)

    first = te.compute((1,), lambda t: x[t], name="first")
    made = te.scan(first, te.compute((times,), step, name="step"), st, inputs=[a, x], name="made")
    s, rng = create_schedule(made), np.random.default_rng(0)
    few, *more = [[rng.integers(-4, 5, k).astype("int32") for k in (n, 30)] for n in (1, 2, 4, 12)]
    check_against_reference([a, x, made], s, target, few, backend, more=more)  # type: ignore[arg-type]


def test_along_a_row_nothing_is_divided_or_asked() -> None:
    loops = [s for s in walk(lowered(cells()).body) if isinstance(s, For) and "step" in s.var.name]
    (steady,) = [s for s in loops if not s.ragged]
    assert not {"if_then_else", "floordiv", "floormod"} & {e.op for e in post_order(all_expressions(steady.body))}


def test_loops_that_wait_for_nothing_stay_whole() -> None:
    x = te.placeholder((20, 16), name="x")
    y = te.compute((320,), lambda t: x[t // 16, t % 16] * 2.0, name="y")
    assert not [s for s in walk(lowered([x, y]).body) if isinstance(s, For) and "row" in s.var.name]


def peaks(dtype="int32") -> list[Tensor]:
    x, st = te.placeholder((64,), dtype, name="x"), te.placeholder((64,), dtype, name="st")
    first = te.compute((1,), lambda t: x[t], name="first")
    step = te.compute((64,), lambda t: te.max(st[t - 1] + x[t], x[t]), name="step")
    return [x, te.scan(first, step, st, inputs=[x], name="peak")]


@pytest.mark.parametrize(
    ("args", "chooses"),
    [(cells(), True), (cells(combine=te.max), True), (cells(combine=lambda a, b: a + b), False), (peaks(), False)],
)
def test_which_choices_nothing_foretells(args: list[Tensor], chooses: bool) -> None:
    assert chooses_between_states(lowered(args).body) == chooses
    assert build(create_schedule(args[-1]), "llvm", args=args).source.startswith(MARK) == chooses
