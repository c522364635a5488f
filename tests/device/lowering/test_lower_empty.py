"""Reductions over no values write the combiner's identity, however their loops are scheduled."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import InvalidValueError
from autosched.ir.dims import Range
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.te.tensor import IterVar
from autosched.testing.oracle import check_against_reference


def row_minima(columns: Any, first: Any = 0, end: Any = None) -> list[Tensor]:
    """R[i] = min of A[i, k], whose identity is not what memory happens to hold."""
    a = te.placeholder((5, columns), dtype="int32", name="A")
    k = te.reduce_axis((first, columns if end is None else end), name="k")
    return [a, te.compute((5,), lambda i: te.min(a[i, k], axis=k), name="R")]


def _vector(s: Schedule, inner: str = "i") -> None:
    outer, lane = s["R"].split("i", factor=4)
    s["R"].reorder(outer, "k", lane)
    s["R"].vectorize(lane)


def _lanes(s: Schedule) -> None:
    s["R"].vectorize(s["R"].split("k", factor=4)[1])


def _partial(s: Schedule, which: int, **amount: int) -> None:
    partial = s[s.rfactor("R", s["R"].split("k", **amount)[which])]
    if which or "nparts" in amount:  # so many that memory of a fixed size has room for them
        partial.compute_at(s["R"], "i")
    if which and "factor" in amount:
        partial.vectorize(partial.loops[0])


def _twice(s: Schedule) -> None:
    partial = s[s.rfactor("R", s["R"].split("k", factor=4)[1])]
    s.rfactor(partial.tensor, partial.split(partial.loops[-1], factor=2)[0])


def _cached(s: Schedule) -> None:
    cache = s[s.cache_write(s.outputs[0], "local")]
    cache.compute_at(s["R"], "i")
    cache.split(cache.loops[-1], nparts=3)


def _set_apart(s: Schedule) -> None:
    outer, _ = s["R"].split("i", factor=4, tail="predicate")
    s["R"].split("k", factor=3)
    s["R"].vectorize(s["R"].decompose_reduction(outer)[-1])


SCHEDULES: dict[str, Callable[[Schedule], Any]] = {
    "default": lambda s: None,
    "split": lambda s: s["R"].split("k", factor=4),
    "nparts": lambda s: s["R"].split("k", nparts=2),
    "round_up": lambda s: s["R"].split("k", factor=4, tail="round_up"),
    "nested": lambda s: s["R"].split(s["R"].split("k", factor=4)[0], nparts=2),
    "split_into": lambda s: s["R"].split_into("k", 2, None, 2),
    "fused": lambda s: s["R"].split(s["R"].fuse(*s["R"].split("k", factor=2)), factor=4),
    "outside": lambda s: s["R"].reorder("k", "i"),
    "shifted": lambda s: s["R"].split("i", factor=4, tail="shift_inwards"),
    "unrolled": lambda s: s["R"].unroll(s["R"].split("k", factor=4)[1]),
    "vector": _vector,
    "lanes": _lanes,
    "whole": lambda s: s.rfactor("R", "k"),
    "part": lambda s: _partial(s, 1, factor=4),
    "parts": lambda s: _partial(s, 0, factor=4),
    "blocks": lambda s: _partial(s, 0, nparts=4),
    "twice": _twice,
    "cached": _cached,
    "set_apart": _set_apart,
}


@pytest.mark.parametrize(
    ("target", "backend"), [("llvm", "interpreter"), ("llvm", "native"), ("c", "native"), ("opencl", "interpreter")]
)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_reduction_over_nothing(schedule: str, target: str, backend: Any) -> None:
    n = te.var("n")
    for args, columns in ((row_minima(0), (0,)), (row_minima(n), (0, 4)), (row_minima(n, 0, n - 4), (0, 1, 4, 8))):
        s = create_schedule(args)
        SCHEDULES[schedule](s)
        given = [[np.ones((5, m), "int32")] for m in columns if schedule != "round_up" or m % 4 == 0]
        check_against_reference(args, s, target, given[0], backend, more=given[1:])


@pytest.mark.parametrize(("which", "amount"), [(1, {"factor": 4}), (0, {"nparts": 4})])
def test_by_a_group(which: int, amount: dict[str, int]) -> None:
    """Of a work-group that has nothing to do, one work-item stores the result."""
    for args, columns in ((row_minima(te.var("n")), (0, 3, 9)), (row_minima(0), (0,))):
        s = create_schedule(args)
        s["R"].bind(s["R"].split("k", **amount)[which], "threadIdx.x")
        s["R"].bind("i", "blockIdx.x")
        given = [[np.ones((5, m), "int32")] for m in columns]
        check_against_reference(args, s, "opencl", given[0], "interpreter", more=given[1:])


@pytest.mark.parametrize("dom", [(5, 2), (0, -1), Range(3, 1), Range.from_min_extent(2, -1)])
def test_fewer_values_than_none(dom: Any) -> None:
    with pytest.raises(InvalidValueError, match="reduce_axis k: it ends before it begins") as error:
        te.reduce_axis(dom, name="k")
    assert isinstance(error.value, ValueError)
    assert "one past the last" in error.value.legal


def test_a_condition_that_never_holds_is_about_the_update() -> None:
    """Such an axis as `te.reduce_axis` refuses: that no value takes part must not keep the identity out."""
    a = te.placeholder((4,), dtype="int32", name="A")
    for amount, n in itertools.product(({"factor": 4}, {"nparts": 2}), (-1, -5)):
        k = IterVar("k", n, "reduce", 2)
        args = [a, te.compute((3,), lambda i, k=k: te.max(a[k] + i, axis=k), name="R")]
        s = create_schedule(args)
        s["R"].split("k", **amount)
        check_against_reference(args, s, "llvm", [np.ones(4, "int32")], "interpreter")
