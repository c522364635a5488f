"""What `tir.Schedule` brought to the schedule: several-way splits, consumers that move to their
producers, initial values in loops of their own, caches that take the loops over."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from roundtrip import assert_roundtrip

import autosched.tir  # noqa: F401 - what is lowered has a script
from autosched import te
from autosched.errors import LowerError, ScheduleError
from autosched.lowering import lower, lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

Golden = Callable[..., None]


def product(n: object = 30, m: object = 20) -> tuple[list[Tensor], Schedule]:
    """C = A B, D = 2 C + 1."""
    a, b = te.placeholder((n, 18), name="A"), te.placeholder((18, m), name="B")
    k = te.reduce_axis((0, 18), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((n, m), lambda y, x: c[y, x] * 2 + 1, name="D")
    return [a, b, d], create_schedule(d)


def check(args: list[Tensor], s: Schedule, n: int = 30, m: int = 20) -> None:
    values = np.random.default_rng(n + m)
    inputs = [values.integers(-3, 4, shape).astype("float32") for shape in ((n, 18), (18, m))]
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", inputs, backend)
    assert_roundtrip(s, args)


def three_ways(s: Schedule) -> None:
    s["D"].split_into("y", None, 4, 2)
    s["D"].split_into("x", 3, None)


def consumer_at_a_tile(s: Schedule) -> None:
    i0, i1, i2 = s["C"].split_into("i", None, 4, 2)
    j0, j1 = s["C"].split("j", factor=8)
    s["C"].reorder(i0, j0, "k", i1, i2, j1)
    s["C"].parallel(i0)
    s["D"].reverse_compute_at(s["C"], j0)
    s["D"].vectorize("x.inner")


def consumer_of_fused_loops(s: Schedule) -> None:
    outer, _ = s["C"].split(s["C"].fuse("i", "j"), factor=32)
    s["D"].reverse_compute_at(s["C"], outer)


def init_outside_a_tile(s: Schedule) -> None:
    i0, i1 = s["C"].split("i", factor=4)
    s["C"].reorder(i0, "k", i1, "j")
    loops = s["C"].decompose_reduction("k")
    s["C"].unroll(loops[0])
    s["C"].vectorize(loops[1])


def init_outside_everything(s: Schedule) -> None:
    s["C"].reorder("k", "i", "j")
    s["C"].parallel("i")
    s["C"].decompose_reduction("k")


def cache_with_the_loops(s: Schedule) -> None:
    i0, i1 = s["C"].split("i", factor=4)
    s["C"].parallel(i0)
    s["C"].reorder(i0, "k", i1, "j")
    s["C"].vectorize("j")
    s.cache_write("C", "local", keep_loops=True)
    s["C"].reverse_compute_at(s["C.local"], i0)


CHANGES = (
    three_ways,
    consumer_at_a_tile,
    consumer_of_fused_loops,
    init_outside_a_tile,
    init_outside_everything,
    cache_with_the_loops,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_loops_and_results(change: Callable[[Schedule], None], golden: Golden) -> None:
    args, s = product()
    change(s)
    golden(str(lower(s, args)), change.__name__)
    check(args, s)


@pytest.mark.parametrize("change", CHANGES[:3], ids=lambda f: f.__name__)
def test_sizes_of_the_call(change: Callable[[Schedule], None]) -> None:
    args, s = product(te.var("n"), te.var("m"))
    change(s)
    for n, m in ((1, 1), (7, 33), (32, 16)):
        check(args, s, n, m)


def elementwise() -> tuple[list[Tensor], Schedule]:
    n = te.var("n")
    a = te.placeholder((n, 6), "int32", name="A")
    b = te.compute((n, 6), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((6, n), lambda x, y: b[y, x] * 2, name="C")
    return [a, c], create_schedule(c)


def test_reverse_compute_inline_takes_the_loops_over(golden: Golden) -> None:
    args, s = elementwise()
    i0, i1 = s["B"].split("i", factor=8)
    s["B"].reorder(i0, "j", i1)
    s["B"].parallel(i0)
    s["B"].vectorize(i1)
    staged = s.cache_read(args[0], "local", s["B"])
    s[staged].compute_at(s["B"], i0)
    s["C"].reverse_compute_inline()
    golden(str(lower(s, args)))
    for n in (1, 8, 19):
        inputs = [np.arange(n * 6, dtype=np.int32).reshape(n, 6)]
        check_against_reference(args, s, "llvm", inputs)
    assert_roundtrip(s, args)


def test_split_into_covers_what_it_says() -> None:
    for parts, extents in (((2, 2, 2), "2, 2, 2"), ((None, 3), "3, 3"), ((3, None), "3, 3"), ((5, 2), "4, 2")):
        a = te.placeholder((8,), name="A")
        b = te.compute((8,), lambda i: a[i] + 1, name="B")  # noqa: B023
        s = create_schedule(b)
        loops = s[b].split_into("i", *parts)
        assert [x.name for x in loops] == [f"i.{k}" for k in range(len(parts))]
        text = lower(s, [a, b]).script()
        assert f"in T.grid({extents}):" in text
        check_against_reference([a, b], s, "llvm", [np.arange(8, dtype=np.float32)])


def test_open_factors_must_cover_the_loop() -> None:
    a = te.placeholder((24,), name="A")
    b = te.compute((24,), lambda i: a[i] + 1, name="B")
    s = create_schedule(b)
    s[b].split_into("i", 4, s.define_knob("inner", [2, 6, 8]))
    structure = lower_structure(s, [a, b], "llvm")
    with pytest.raises(LowerError, match="24 iterations, more than 4 \\* inner"):
        structure.bind({"inner": 2})
    structure.bind({"inner": 6})
    assert_roundtrip(s, [a, b])


def test_init_loops_are_bound_like_those_they_stand_for() -> None:
    args, s = product()
    i0, i1 = s["C"].split("i", factor=4)
    s["C"].reorder(i0, "k", i1, "j")
    s["C"].bind(i0, "blockIdx.x")
    (init, _) = s["C"].decompose_reduction("k")
    s["C"].bind(i1, "threadIdx.x")
    s["C"].vectorize(init)
    with pytest.raises(ScheduleError, match=r"i\.inner \(threadIdx\.x\) and .*init \(vectorize\) are not bound alike"):
        lower(s, args, target="opencl")
    s["C"].bind(init, "threadIdx.x")
    s["D"].bind("y", "blockIdx.x")
    values = np.random.default_rng(3)
    inputs = [values.integers(-3, 4, shape).astype("float32") for shape in ((30, 18), (18, 20))]
    check_against_reference(args, s, "opencl", inputs, "interpreter")


def test_loops_stay_put_after_decomposing() -> None:
    for change, why in (
        (lambda c: c.split("j", factor=4), "j was split or fused away afterwards"),
        (lambda c: c.reorder("j", "i", "k"), "j was moved across k afterwards"),
    ):
        args, s = product()
        s["C"].reorder("i", "k", "j")
        s["C"].decompose_reduction("k")
        change(s["C"])
        with pytest.raises(ScheduleError, match=why):
            lower(s, args)
