"""`te.argmax` and `te.argmin` along loops on which the index rises: the same results by fewer comparisons."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.lowering import lower
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

ROWS, COLUMNS = 8, 40


def best(
    dtype: str, name: str = "argmax", index: Callable[..., object] = lambda k: k, **options: object
) -> list[Tensor]:
    x = te.placeholder((ROWS, COLUMNS), dtype, name="x")
    k = te.reduce_axis((0, COLUMNS), "k")
    some = {"where": options["where"](k)} if "where" in options else {}
    some |= {"init": options["init"]} if "init" in options else {}
    found = te.compute((ROWS,), lambda i: getattr(te, name)((index(k), x[i, k]), axis=k, **some), name="best")
    return [x, *found]


def rows(dtype: str) -> np.ndarray:
    """Ties everywhere; rows of the worst value alone, of NaN alone, of NaN between numbers, of zeros of both signs."""
    found = np.random.default_rng(5).integers(-2, 3, (ROWS, COLUMNS)).astype(dtype)
    if not np.issubdtype(found.dtype, np.floating):
        found[0], found[1] = np.iinfo(found.dtype).min, np.iinfo(found.dtype).max
        return found
    found[0], found[1], found[2] = -np.inf, np.inf, np.nan
    found[3, 7::9] = np.nan
    found[4] = np.where(np.arange(COLUMNS) % 3, 0.0, -0.0)
    found[5, :30] = -np.inf
    return found


def plain(s: Schedule) -> None:
    pass


def tiled(s: Schedule) -> None:
    s["best"].unroll(s["best"].split("k", factor=5)[1])


def ragged(s: Schedule) -> None:
    s["best"].split("k", factor=7)


def rows_inside(s: Schedule) -> None:
    outer, inner = s["best"].split("k", factor=8)
    s["best"].reorder(outer, inner, "i")
    s["best"].vectorize("i")


def in_lanes(s: Schedule) -> None:
    _, lane = s["best"].split("k", factor=8)
    index, _ = s.rfactor(s["best"].op.output(0), lane)
    partial = s[index]
    lanes, steps, i = partial.loops
    partial.reorder(i, steps, lanes)
    partial.vectorize(lanes)


def backwards(s: Schedule) -> None:
    outer, inner = s["best"].split("k", factor=8)
    s["best"].reorder(inner, outer)


RISES = (plain, tiled, ragged, rows_inside, in_lanes)


@pytest.mark.parametrize("target", ["llvm", "c", "opencl"])
@pytest.mark.parametrize("schedule", [*RISES, backwards])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_every_order_gives_the_same(name: str, schedule: Callable[[Schedule], None], target: str) -> None:
    for dtype in ("float32", "int8"):
        for options in ({}, {"where": lambda k: (k > 4) & (k != 17)}):
            args = best(dtype, name, **options)
            s = create_schedule(args[1:])
            schedule(s)
            check_against_reference(args, s, target, [rows(dtype)], "interpreter" if target == "opencl" else "native")


@pytest.mark.parametrize("schedule", RISES)
def test_an_index_that_rises_is_compared_with_nothing_only(schedule: Callable[[Schedule], None]) -> None:
    args = best("float32")
    s = create_schedule(args[1:])
    schedule(s)
    assert "!= -1" in str(lower(s, args))


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": backwards},
        {"index": lambda k: COLUMNS - k},
        {"index": lambda k: k // 2},
        {"index": lambda k: k - 3},
        {"index": lambda k: (k * 3) % COLUMNS},
        {"init": (te.const(3, "int32"), te.const(1, "float32"))},
    ],
    ids=["backwards", "falls", "stays", "negative", "jumps", "begun"],
)
def test_other_orders_compare_indices(options: dict[str, object]) -> None:
    schedule = options.pop("schedule", plain)
    args = best("float32", **options)
    s = create_schedule(args[1:])
    schedule(s)
    assert "!= -1" not in str(lower(s, args))
    check_against_reference(args, s, "llvm", [rows("float32")])
