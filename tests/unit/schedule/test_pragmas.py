"""Pragmas change how the code is written, never what it computes; what means nothing here says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.ir.stmt import For, Stmt, Store, walk
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference


def product() -> tuple[list[Tensor], Schedule]:
    """C[n, 4] = A[n, 3] * B[3, 4], with edges: a row is added that is clamped."""
    n = te.size_var("n")
    a, b = te.placeholder((n, 3), dtype="int32", name="A"), te.placeholder((3, 4), dtype="int32", name="B")
    k = te.reduce_axis((0, 3), name="k")
    c = te.compute((n, 4), lambda i, j: te.sum(a[te.max(i - 1, 0), k] * b[k, j], axis=k), name="C")
    return [a, b, c], create_schedule(c)


def check(args: list[Tensor], s: Schedule) -> None:
    assert_roundtrip(s, args)
    given = [
        [np.random.default_rng(n).integers(-9, 9, shape).astype("int32") for shape in ((n, 3), (3, 4))]
        for n in (5, 1, 0)
    ]
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", given[0], backend, more=given[1:])  # type: ignore[arg-type]


def body(s: Schedule, args: list[Tensor], after: str = "unroll") -> Stmt:
    return lower_structure(s, args, "llvm").after(after).body


def unrolled(s: Schedule, args: list[Tensor]) -> set[str]:
    """The loops that are going to be written out."""
    found = walk(body(s, args, "apply_pragmas"))
    return {x.var.value.name for x in found if isinstance(x, For) and x.kind == "unroll"}


@pytest.mark.parametrize(("steps", "inner"), [(0, ""), (2, ""), (3, "k"), (11, "k"), (64, "jk")])
def test_loops_are_unrolled_from_the_inside(steps: int, inner: str) -> None:
    args, s = product()
    s["C"].pragma("i", "auto_unroll_max_step", steps)
    assert unrolled(s, args) - {"j.init"} == set(inner)
    check(args, s)


def test_unrolled_loops_stay_loops() -> None:
    args, s = product()
    s["C"].unroll("k")
    s["C"].unroll("j")
    assert unrolled(s, args) == {"j", "k"}
    s["C"].pragma("j", "unroll_explicit", 0)
    assert unrolled(s, args) == set()
    s["C"].pragma("j", "unroll_explicit", True)
    assert unrolled(s, args) == {"j", "k"}
    check(args, s)


def test_a_loop_is_not_cut() -> None:
    a = te.placeholder((100,), dtype="int32", name="A")
    b = te.compute((100,), lambda i: a[te.max(i - 1, 0)] + 1, name="B")
    for hint, pieces in ((None, 2), (1, 2), (0, 1)):
        s = create_schedule(b)
        if hint is not None:
            s[b].pragma("i", "loop_partition_hint", hint)
        assert sum(isinstance(x, Store) for x in walk(body(s, [a, b], "partition"))) == pieces
        check_against_reference([a, b], s, "llvm", [np.arange(100, dtype="int32")])


def test_a_region_is_left_out() -> None:
    args, s = product()
    s["C"].pragma("k", "debug_skip_region")
    assert_roundtrip(s, args)
    stores = [x for x in walk(body(s, args)) if isinstance(x, Store)]
    assert {repr(x.value) for x in stores} == {"0"}


def test_a_region_around_a_reduction_of_a_group_is_left_out() -> None:
    args, s = product()
    s["C"].bind("k", "threadIdx.x")
    s["C"].pragma("i", "debug_skip_region")
    assert not [x for x in walk(lower_structure(s, args, "opencl").function.body) if isinstance(x, Store)]


@pytest.mark.parametrize("value", [None, 1])
def test_threads_meet_anyway(value: Any) -> None:
    args, s = product()
    s["C"].parallel("i")
    s["C"].pragma("i", "parallel_barrier_when_finish", value)
    check(args, s)


def test_the_last_value_counts() -> None:
    _, s = product()
    s["C"].pragma("i", "auto_unroll_max_step", 4)
    s["C"].pragma("i", "auto_unroll_max_step", 16)
    assert s["C"].loops[0].pragmas == ("auto_unroll_max_step=16",)
