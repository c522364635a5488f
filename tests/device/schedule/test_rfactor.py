"""`rfactor`: partial results along a reduce loop, and their reduction, give what the definition says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.ir.stmt import Store, walk
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

LANES = (1, 3, 8)


def over_two_axes(combine: object, dtype: str, where: bool = False) -> list[Tensor]:
    """R[i] = combine of A[i, 1 + k, l] over k and l, perhaps of every second k only."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m, 5), dtype, name="A")
    k, l = te.reduce_axis((1, m), "k"), te.reduce_axis((0, 5), "l")  # noqa: E741
    taken = k % 2 == 0 if where else None
    r = te.compute((n,), lambda i: combine(a[i, k, l], axis=[k, l], where=taken), name="R")
    return [a, r]


def given(n: int, m: int, dtype: str) -> list[np.ndarray]:
    values = np.random.default_rng(n * m).integers(0 if dtype == "uint8" else -3, 4, (n, m, 5))
    return [values.astype(dtype)]


def whole_axis(s: Schedule) -> str:
    return "k"


def part(s: Schedule) -> str:
    return s["R"].split("k", factor=s.define_knob("lanes", LANES))[1].name


def blocks(s: Schedule) -> str:
    return s["R"].split("k", nparts=s.define_knob("lanes", LANES))[0].name


def part_of_both(s: Schedule) -> str:
    """Seven divides no extent: the guard of the split goes into the partial results."""
    return s["R"].split(s["R"].fuse("k", "l"), factor=7)[1].name


def part_of_a_part(s: Schedule) -> str:
    outer, _ = s["R"].split("k", factor=s.define_knob("lanes", LANES))
    return s["R"].split(outer, factor=2)[1].name


FACTORED = (whole_axis, part, blocks, part_of_both, part_of_a_part)


@pytest.mark.parametrize("choose", FACTORED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("at", [0, 1, -1])
def test_every_loop_and_place(choose: object, at: int) -> None:
    args = over_two_axes(te.sum, "int32", where=True)
    s = create_schedule(args)
    s.rfactor("R", choose(s), at)  # type: ignore[operator]
    assert_roundtrip(s, args)
    for lanes in LANES if s.knobs else (0,):
        inputs = [given(n, m, "int32") for n, m in ((4, 9), (1, 2), (2, 17))]
        knobs = {"lanes": lanes} if lanes else {}
        check_against_reference(args, s, "llvm", inputs[0], "interpreter", knobs, inputs[1:])


@pytest.mark.parametrize("combine", [te.sum, te.prod, te.min, te.max], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8"])
def test_lanes_of_partial_results(combine: object, dtype: str) -> None:
    """Vectorized, unrolled into several accumulators, and ragged: what is left over is the identity."""
    args = over_two_axes(combine, dtype)
    s = create_schedule(args)
    outer, _ = s["R"].split("k", factor=8)
    s["R"].split(outer, factor=2)
    partial = s.rfactor("R", "k.inner", factor_axis=1)
    fewer = s.rfactor(partial, "k.outer.inner", factor_axis=1)
    i, copy, lane = s[fewer].op.axis
    s[fewer].reorder(i, "k.outer.outer", "l", copy, lane)
    s[fewer].vectorize(lane)
    s[fewer].unroll(copy)
    s[fewer].compute_at(s["R"], "i")
    s[partial].compute_at(s["R"], "i")
    s[partial].vectorize("k.inner")
    s["R"].parallel("i")
    exact = [np.abs(x) % 3 // 2 + 1 if combine is te.prod else x for x in given(3, 6, dtype)]
    inputs = [exact, *(given(n, m, dtype) for n, m in ((2, 40), (1, 2)) if combine is not te.prod)]
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", inputs[0], backend, more=inputs[1:])  # type: ignore[arg-type]


def test_an_empty_reduction_is_the_identity() -> None:
    for choose, combine in itertools.product(FACTORED, (te.sum, te.max)):
        args = over_two_axes(combine, "int32")
        s = create_schedule(args)
        s.rfactor("R", choose(s))
        check_against_reference(args, s, "llvm", given(3, 1, "int32"), knobs={"lanes": 3} if s.knobs else {})


def test_a_reduction_in_blocks_over_threads() -> None:
    """Spatial loops keep their splits and marks; a sum over everything runs in parallel."""
    n = te.var("n")
    a = te.placeholder((n,), "int64", name="A")
    k = te.reduce_axis((0, n), "k")
    total = te.compute((), lambda: te.sum(a[k], axis=k), name="T")
    s = create_schedule(total)
    s["T"].split("k", nparts=4)
    partial = s.rfactor(total, "k.outer")
    s[partial].parallel("k.outer")
    for length in (0, 3, 1001):
        check_against_reference([a, total], s, "llvm", [np.arange(length)])


def test_a_part_of_a_part_keeps_its_vectors() -> None:
    """Guards of both factorings stay questions that loops are partitioned on: the inner loop is clean."""
    m = te.var("m")
    a = te.placeholder((m,), "int32", name="A")
    k = te.reduce_axis((0, m), "k")
    r = te.compute((1,), lambda i: te.sum(a[k], axis=k), name="R")
    s = create_schedule(r)
    s[r].split("k", nparts=4)
    pieces = s.rfactor(r, "k.outer")
    s[pieces].split("k.inner", factor=16)
    lanes = s.rfactor(pieces, "k.inner.inner", -1)
    s[lanes].reorder("k.inner.outer", "k.inner.inner")
    s[lanes].vectorize("k.inner.inner")
    s[lanes].compute_at(s[pieces], "i")
    s[pieces].parallel("k.outer")
    stores = [x for x in walk(lower_structure(s, [a, r], "llvm").bind().body) if isinstance(x, Store)]
    assert any(x.value.op == "add" and x.value.dtype.lanes == 16 for x in stores)
    inputs = [[np.arange(length, dtype=np.int32)] for length in (0, 1, 63, 64, 65, 1000)]
    for backend in ("native", "interpreter-backwards"):
        check_against_reference([a, r], s, "llvm", inputs[0], backend, more=inputs[1:])  # type: ignore[arg-type]


def test_spatial_loops_stay_as_they_are() -> None:
    args = over_two_axes(te.sum, "float32")
    s = create_schedule(args)
    s["R"].split("i", factor=4)
    s["R"].reorder("i.outer", "k", "i.inner", "l")
    s["R"].parallel("i.outer")
    partial = s.rfactor("R", "l")
    assert s["R"].describe() == "i.outer (parallel) / l.v / i.inner"
    assert s[partial].describe() == "l / i / k"
    assert s[partial].name == "R.rf"
    check_against_reference(args, s, "llvm", given(6, 4, "float32"))
