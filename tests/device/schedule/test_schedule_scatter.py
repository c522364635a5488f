"""Schedules of histograms: the loops they make, and that they compute what the definition says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.ir.stmt import If, walk
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.space.default import default_schedule
from autosched.target import Target
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

Args = list[Tensor]


def counts(dtype: str = "uint8", bins: int = 256) -> Args:
    n = te.var("n")
    data = te.placeholder((n,), dtype, name="X")
    k = te.reduce_axis((0, n), "k")
    return [data, te.scatter_reduce((bins,), lambda: (data[k], te.const(1, "int32")), k, name="H")]


def by_row() -> Args:
    """H[i, b] = sum of j over the j where (X + 1)[i, j] is b: some places are outside."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), "int16", name="X")
    y = te.compute((n, m), lambda i, j: x[i, j] + 1, name="Y")
    j = te.reduce_axis((0, m), "j")
    return [x, te.scatter_reduce((n, 9), lambda i: (y[i, j], j.var), j, name="H")]


def given(args: Args, n: int = 23, m: int = 14) -> list[np.ndarray]:
    shape = [n, m][: args[0].ndim]
    low, high = (0, 256) if args[0].dtype.kind == "uint" else (-5, 12)
    return [np.random.default_rng(n * 31 + m).integers(low, high, shape).astype(args[0].dtype.numpy)]


def plain() -> tuple[Args, Schedule]:
    args = counts()
    return args, create_schedule(args)


def places_that_may_be_outside() -> tuple[Args, Schedule]:
    args = counts("int32", 7)
    return args, create_schedule(args)


def rows_in_parallel() -> tuple[Args, Schedule]:
    args = by_row()
    s = create_schedule(args)
    block, row = s["H"].split("i", factor=s.define_knob("rows", [2, 8]))
    s["H"].parallel(block)
    s["Y"].compute_at(s["H"], row)
    s["H"].vectorize(s["H"].split("place0", factor=4)[1])
    return args, s


def rows_inside_the_points() -> tuple[Args, Schedule]:
    """Several rows count side by side."""
    args = by_row()
    s = create_schedule(args)
    s["Y"].compute_inline()
    block, row = s["H"].split("i", factor=4)
    s["H"].reorder(block, "j", row)
    s["H"].unroll(row)
    return args, s


def private_counts() -> tuple[Args, Schedule]:
    """A histogram for each part of the data and each of four neighbours, and their sums."""
    args = counts()
    s = create_schedule(args)
    part = s[s.rfactor("H", s["H"].split("k", nparts=s.define_knob("parts", [2, 3]))[0])]
    single = s[s.rfactor(part, part.split(part.op.reduce_axis[0], factor=4)[1])]
    part.parallel(part.op.axis[0])
    single.compute_at(part, part.op.axis[0])
    single.reorder(*single.op.reduce_axis, single.op.axis[0])
    single.unroll(single.op.axis[0])
    return args, s


def a_histogram_of_each_point() -> tuple[Args, Schedule]:
    """Nothing left to reduce inside: each point's partial result is all identity but for one place."""
    args = counts("int32", 5)
    s = create_schedule(args)
    s.rfactor("H", s["H"].split("k", factor=4)[0])
    inner = s["H.rf"]
    s.rfactor(inner, inner.op.reduce_axis[0])
    return args, s


def in_a_step_of_its_reader() -> tuple[Args, Schedule]:
    """Computed for one row at a time: whole along its places."""
    x, h = by_row()
    most = te.compute((h.shape[0], 3), lambda i, b: h[i, b * 2], name="Z")
    s = create_schedule(most)
    s["H"].compute_at(s["Z"], "i")
    return [x, most], s


MADE = (
    plain, places_that_may_be_outside, rows_in_parallel, rows_inside_the_points, private_counts,
    a_histogram_of_each_point, in_a_step_of_its_reader,
)  # fmt: skip


@pytest.mark.parametrize("make", MADE)
def test_loops(make: Callable[[], tuple[Args, Schedule]], golden: Callable[..., None]) -> None:
    args, s = make()
    golden(str(lower_structure(s, args, "llvm")), make.__name__)


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize("backend", ["interpreter", "interpreter-backwards", "native"])
def test_results(make: Callable[[], tuple[Args, Schedule]], backend: str) -> None:
    args, s = make()
    knobs = {k.name: k.values[-1] for k in s.knobs.values()}
    more = [given(args, n, m) for n, m in ((0, 2), (1, 1), (2, 9), (17, 0))]
    check_against_reference(args, s, "llvm", given(args), backend, knobs, more)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", MADE)
def test_traces(make: Callable[[], tuple[Args, Schedule]]) -> None:
    args, s = make()
    assert_roundtrip(s, args)


@pytest.mark.parametrize("program", [counts, by_row])
@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_default_schedules(program: Callable[[], Args], target: str) -> None:
    args = program()
    s = default_schedule(args, Target.parse(target))
    check_against_reference(args, s, target, given(args), "interpreter")
    check_against_reference(args, s, target, given(args), more=[given(args, 70, 3)])


@pytest.mark.parametrize(("target", "backend"), [("llvm", "native"), ("c", "native"), ("opencl", "interpreter")])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint64", "uint16"])
def test_places_in_what_is_as_long_as_the_call_says_are_asked_for_once(target: str, backend: str, dtype: str) -> None:
    """Both ends by one comparison: LLVM does not know that a length is not negative."""
    n, m = te.var("n"), te.var("m")
    x, k = te.placeholder((n,), dtype, name="X"), te.reduce_axis((0, n), "k")
    args = [
        x,
        te.placeholder((m,), name="Y"),
        te.scatter_reduce((m,), lambda: (x[k], te.const(1, "int32")), k, name="H"),
    ]
    s = create_schedule(args[2])
    asked = [e.condition for e in walk(lower_structure(s, args, target).function.body) if isinstance(e, If)]
    assert dtype == "uint16" or [c.op for c in asked] == ["lt"]
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    first = [np.array([0, 1, 2, 3, 6, 7, 8, low, high, high - 1], dtype), np.zeros(7, "float32")]
    check_against_reference(args, s, target, first, backend, more=[[first[0], np.zeros(1, "float32")]])  # type: ignore[arg-type]
