"""`tir.Schedule` of functions whose blocks are no stages: what is done to their loops changes no result."""

# mypy: ignore-errors

from __future__ import annotations

import random

import numpy as np
import pytest

from autosched import tvm
from autosched.errors import ScheduleError
from autosched.tvm import tir
from autosched.tvm.script import from_source
from autosched.tvm.script import tir as T
from autosched.tvm.tir.schedule.testing import verify_trace_roundtrip


@T.prim_func
def two_stores(A: T.Buffer((8, 12), "float32"), B: T.Buffer((8, 12), "float32")):
    for i, j in T.grid(8, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
            B[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def running_sum(A: T.Buffer((8, 12), "float32"), B: T.Buffer((8, 12), "float32")):
    for i, j in T.grid(8, 11):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj + 1] = B[vi, vj] + A[vi, vj]


@T.prim_func
def the_last_counts(A: T.Buffer((8, 12), "float32"), B: T.Buffer((8, 12), "float32")):
    for k, i in T.grid(12, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            B[vi, 0] = 0.0
            B[vi, 0] = B[vi, 0] + A[vi, vk]


@T.prim_func
def sums_backwards(A: T.Buffer((8, 12), "float32"), B: T.Buffer((8, 12), "float32")):
    for i, k in T.grid(8, 12):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[7 - vi, 0] = 3.0
            B[7 - vi, 0] = B[7 - vi, 0] + A[vi, vk]


@T.prim_func
def overlapping(A: T.Buffer((8, 12), "float32"), B: T.Buffer((8, 12), "float32")):
    for i, j in T.grid(4, 6):
        with T.block("B"):
            v = T.axis.spatial(12, i * 2 + j)
            B[0, v] = A[i, j]


@T.prim_func
def inside(A: T.Buffer((8, 12), "float32"), B: T.Buffer((8, 12), "float32")):
    for i, j in T.grid(4, 3):
        with T.block("tile"):
            vi, vj = T.axis.remap("SS", [i, j])
            C = T.alloc_buffer((2, 4), "float32")
            for x, y in T.grid(2, 4):
                with T.block("C"):
                    vx, vy = T.axis.remap("SS", [x, y])
                    C[vx, vy] = A[vi * 2 + vx, vj * 4 + vy] * 2.0
            for x, y in T.grid(2, 4):
                with T.block("B"):
                    vx, vy = T.axis.remap("SS", [x, y])
                    B[vi * 2 + vx, vj * 4 + vy] = C[1 - vx, vy]


PROGRAMS = {
    f.attrs["global_symbol"]: f for f in (two_stores, running_sum, the_last_counts, sums_backwards, overlapping, inside)
}


def result(f) -> np.ndarray:
    a = np.random.default_rng(3).integers(-4, 5, (8, 12)).astype("float32")
    b = np.ones((8, 12), "float32")
    tvm.build(f, target="llvm")(a, b)
    return b


def random_call(sch, rng: random.Random) -> None:
    blocks = ["tile", "B", "C"] if sch.func_working_on == "main" and "tile" in sch.mod.script() else ["B"]
    try:
        loops = sch.get_loops(sch.get_block(rng.choice(blocks)))
        loop = rng.choice(loops)
        match rng.randrange(5):
            case 0:
                sch.split(loop, rng.choice([[2, None], [None, 3], [None, 2, 2], [5, None]]))
            case 1:
                at = rng.randrange(len(loops))
                sch.fuse(*loops[at : at + 2])
            case 2:
                sch.reorder(*rng.sample(loops, min(2, len(loops))))
            case 3:
                rng.choice([sch.parallel, sch.vectorize, sch.unroll])(loop)
            case 4:
                sch.add_unit_loop(loop)
    except ScheduleError:
        pass


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_call_changes_a_result(name: str) -> None:
    f = PROGRAMS[name]
    expected = result(f)
    for seed in range(3):
        sch = tir.Schedule(f)
        rng = random.Random(seed)
        for _ in range(8):
            random_call(sch, rng)
        np.testing.assert_array_equal(result(sch.mod), expected, err_msg=sch.trace.as_python())
        verify_trace_roundtrip(sch, f)


@pytest.mark.parametrize(
    ("f", "call", "why"),
    [
        (running_sum, lambda s, i, j: s.parallel(j), "iterations of j may meet in B"),
        (running_sum, lambda s, i, j: s.reorder(j, i), "written and read at different places"),
        (the_last_counts, lambda s, k, i: s.reorder(i, k), "several iterations of k store to the same element"),
        (the_last_counts, lambda s, k, i: s.vectorize(k), "iterations of k may meet in B"),
        (overlapping, lambda s, i, j: s.reorder(j, i), "store to the same element"),
        (overlapping, lambda s, i, j: s.bind(i, "blockIdx.x"), "iterations of i may meet in B"),
        (two_stores, lambda s, i, j: s.fuse(j, i), "i is not alone directly inside j"),
        (two_stores, lambda s, i, j: s.split(i, [2, 3]), "they cover 6 of 8 iterations"),
        (two_stores, lambda s, i, j: s.split(i, [None, 0]), "one iteration at least"),
        (two_stores, lambda s, i, j: (s.split(i, [2, 4]), s.unroll(i)), "the loop was split or fused"),
        (two_stores, lambda s, i, j: s.rfactor(i, 0), "it stores to B twice"),
        (two_stores, lambda s, i, j: s.merge(i, j), "i and the others are not beside one another"),
        (two_stores, lambda s, i, j: s.get_block("C"), "no blocks of that name"),
    ],
)
def test_what_is_not_proved_is_refused(f, call, why: str) -> None:
    sch = tir.Schedule(f, debug_mask="all")
    with pytest.raises(ScheduleError, match=why):
        call(sch, *sch.get_loops(sch.get_block("B")))


def test_loops_are_as_they_were_asked_for() -> None:
    sch = tir.Schedule(sums_backwards)
    i, k = sch.get_loops("B")
    k0, k1 = sch.split(k, [None, 5])
    sch.reorder(k0, i, k1)
    sch.parallel(i)
    assert [x.name for x in sch.get_loops("B")] == ["k_0", "i", "k_1"]
    assert [sch.get(x).kind for x in sch.get_loops("B")] == ["serial", "parallel", "serial"]
    text = sch.mod.script()
    assert "T.parallel(8)" in text
    np.testing.assert_array_equal(result(from_source(text)), result(sums_backwards))
    assert "l2, l3 = sch.split(l1, [None, 5])" in sch.trace.as_python()
