"""`separate_reduction`: windows in two passes give what the definition says."""

from __future__ import annotations

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.errors import ScheduleError
from autosched.schedule import create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

TARGETS = [("llvm", "native"), ("llvm", "interpreter"), ("c", "native"), ("opencl", "interpreter")]


def windows(dtype: str, combine: str, step: int, clamped: bool = False, where: bool = False) -> list[Tensor]:
    """X -> windows of 3 rows and 4 columns, `step` columns apart; sizes are symbolic."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n + 2, m * step + 4), dtype, name="X")
    p, q = te.reduce_axis((0, 3), name="p"), te.reduce_axis((1, 5), name="q")

    def term(i, j):
        column = j * step + q - 1
        return x[i + p, te.max(te.min(column - 1, m), 0) if clamped else column]

    mask = lambda i, j: te.all(j * step + q != i, p != 1) if where else None  # noqa: E731
    return [
        x,
        te.compute((n, m), lambda i, j: getattr(te, combine)(term(i, j), axis=[p, q], where=mask(i, j)), name="W"),
    ]


@pytest.mark.parametrize(("target", "backend"), TARGETS)
@pytest.mark.parametrize(
    ("dtype", "combine", "step", "options"),
    [
        ("uint8", "sum", 1, {}),
        ("float32", "max", 2, {"clamped": True}),
        ("int32", "sum", 3, {"where": True}),
        ("int64", "min", 4, {"clamped": True, "where": True}),
    ],
)
def test_two_passes(target: str, backend: str, dtype: str, combine: str, step: int, options: dict[str, bool]) -> None:
    args = windows(dtype, combine, step, **options)
    s = create_schedule(args[1])
    first = s[s.separate_reduction(args[1], "q")]
    assert [len(x.reduce_axis) for x in (first, s["W"])] == [1, 1]
    assert_roundtrip(s, args, target)
    given = np.random.default_rng(0).integers(0, 99, (7, 5 * step + 4)).astype(dtype)
    check_against_reference(args, s, target, [given], backend)  # type: ignore[arg-type]


@pytest.mark.parametrize(("target", "backend"), TARGETS)
@pytest.mark.parametrize(("points", "factor", "step"), [(7, 3, 1), (8, 4, 2), (5, 2, 3)])
def test_pieces_of_one_axis(target: str, backend: str, points: int, factor: int, step: int) -> None:
    """What is left over comes at the end, under its own condition; sizes may be 0."""
    n = te.var("n")
    x, q = te.placeholder((n * step + points,), "int32", name="X"), te.reduce_axis((0, points), name="q")
    total = lambda i: te.sum(x[i * step + q], axis=q, where=(i * step + q) % 5 != 2)  # noqa: E731
    args = [x, te.compute((n,), total, name="W")]
    s = create_schedule(args[1])
    s.separate_reduction(args[1], "q", factor=factor)
    s["W.first"].compute_at(s["W"], "i")
    assert_roundtrip(s, args, target)
    for size in (0, 1, 6):
        given = np.random.default_rng(size).integers(0, 99, (size * step + points,)).astype("int32")
        check_against_reference(args, s, target, [given], backend)  # type: ignore[arg-type]


def test_of_nothing_nothing_is_read() -> None:
    """Without a result there is no first pass, for the elements that it would read may not exist."""
    n = te.var("n")
    x, p, q = te.placeholder((n, n), name="X"), te.reduce_axis((0, 2), name="p"), te.reduce_axis((0, 3), name="q")
    w = te.compute((3, n), lambda i, j: te.sum(x[te.min(i + p, n - 1), te.min(j + q, n - 1)], axis=[p, q]), name="W")
    s = create_schedule(w)
    s.separate_reduction(w, "q")
    for size in (0, 1, 2, 5):
        given = np.arange(size * size, dtype="float32").reshape(size, size)
        for backend in ("native", "interpreter"):
            check_against_reference([x, w], s, "llvm", [given], backend)


def test_tuples_and_scheduled_passes() -> None:
    """The place of the largest, which terms know by the same sum."""
    x, p, q = te.placeholder((12, 40), name="X"), te.reduce_axis((0, 3), name="p"), te.reduce_axis((0, 5), name="q")
    both = te.compute((10, 36), lambda i, j: te.argmax((j + q, x[i + p, j + q]), axis=[p, q]), name="W")
    s = create_schedule(both)
    first = s[s.separate_reduction(both[0], "q")[0]]
    first.compute_at(s["W"], "i")
    first.vectorize(first.split("j", factor=8)[1])
    s["W"].parallel("i")
    given = np.random.default_rng(1).permutation(480).reshape(12, 40).astype("float32")
    check_against_reference([x, *both], s, "llvm", [given], "native")


@pytest.mark.parametrize(
    "term",
    [
        lambda x, i, j, p, q: x[i + p, j + q] * q,
        lambda x, i, j, p, q: x[i + p, j + q] + j,
        lambda x, i, j, p, q: x[i + p, j - q + 4],
    ],
)
def test_weights_and_windows_that_run_backwards_are_refused(term) -> None:
    x, p, q = te.placeholder((12, 12), name="X"), te.reduce_axis((0, 3), name="p"), te.reduce_axis((0, 5), name="q")
    w = te.compute((8, 8), lambda i, j: te.sum(term(x, i, j, p, q), axis=[p, q]), name="W")
    with pytest.raises(ScheduleError, match="do not depend on q and a spatial axis as their sum alone"):
        create_schedule(w).separate_reduction(w, "q")
