"""`prefetch` asks for what later iterations read, wherever it is asked for, and changes no result."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import build, te
from autosched.errors import ScheduleError
from autosched.ir.stmt import Prefetch, Stmt, walk
from autosched.lowering.pipeline import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference


def centred() -> list[Tensor]:
    """A[n, m] less the sum of each row."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    total = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="S")
    return [a, te.compute((n, m), lambda i, j: a[i, j] - total[i], name="C")]


def scheduled(args: list[Tensor], lanes: int, kind: str = "serial") -> Schedule:
    s = create_schedule(args)
    result = s["C"]
    task, _ = result.split("i", factor=2)
    s["S"].compute_at(result, "i.inner")
    _, lane = result.split("j", factor=lanes)
    result.vectorize(lane)
    if kind == "parallel":
        result.parallel(task)
    return s


def prefetches(body: Stmt) -> list[Prefetch]:
    return [x for x in walk(body) if isinstance(x, Prefetch)]


@pytest.mark.parametrize("lanes", [1, 3, 8, 32])
def test_results_stay(lanes: int) -> None:
    """Any loop, any distance, any size: also far beyond the end of the tensor."""
    args = centred()
    inputs = [
        [np.random.default_rng(n).integers(-9, 9, (n, m)).astype("float32")] for n, m in ((7, 40), (1, 1), (2, 9))
    ]
    for loop, ahead, kind in itertools.product(("i.outer", "i.inner", "j.outer"), (1, 1000), ("serial", "parallel")):
        s = scheduled(args, lanes, kind)
        s["C"].prefetch("A", loop, s.define_knob("ahead", [ahead, 2]))
        assert_roundtrip(s, args)
        for backend in ("native", "interpreter"):
            check_against_reference(args, s, "llvm", inputs[0], backend, {"ahead": ahead}, inputs[1:])  # type: ignore[arg-type]


def test_the_last_reader_asks_once_for_each_cache_line() -> None:
    """32 numbers of 4 bytes are two lines; the sum, which reads the row first, asks for none."""
    args = centred()
    s = scheduled(args, 32)
    s["C"].prefetch("A", "i.inner", 1)
    function = lower_structure(s, args, "llvm").bind()
    places = {(p.buffer.name, p.indices[0].dtype.lanes) for p in prefetches(function.body)}
    assert ("A", 32) in places
    assert not any("B" in name for name, _ in places)
    source = build(s, "llvm", args=args).source
    calls = [line for line in source.splitlines() if "call void @llvm.prefetch" in line]
    assert calls
    body = source[source.index(calls[0]) :]
    assert body.index("getelementptr float, ptr %A") < body.index("fsub")


def test_every_line_of_a_long_stride() -> None:
    """A column of a row-major matrix: each element is a line of its own."""
    a = te.placeholder((8, 100), name="A")
    c = te.compute((100, 8), lambda j, i: a[i, j] * 2, name="C")
    s = create_schedule(c)
    s["C"].vectorize("i")
    s["C"].prefetch("A", "j", 16)
    assert build(s, "llvm", args=[a, c]).source.count("call void @llvm.prefetch") == 8
    check_against_reference([a, c], s, "llvm", [np.ones((8, 100), "float32")])


def test_clamped_and_gathered_reads_are_left_alone() -> None:
    n = te.var("n")
    a, at = te.placeholder((n,), name="A"), te.placeholder((n,), "int32", name="at")
    c = te.compute((n,), lambda i: a[te.min(i + 1, n - 1)] + a[te.max(te.min(at[i], n - 1), 0)] + a[i], name="C")
    s = create_schedule(c)
    s["C"].prefetch("A", "i", 2)
    found = prefetches(lower_structure(s, [a, at, c], "llvm").function.body)
    assert [repr(p.indices[0]) for p in found] == ["i + 2"]


def chain() -> Schedule:
    """A -> B = A + 1 -> C = B * 2"""
    a = te.placeholder((te.var("n"), 8), name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j] + 1, name="B")
    return create_schedule(te.compute(a.shape, lambda i, j: b[i, j] * 2, name="C"))


def a_loop_that_goes(s: Schedule) -> None:
    s["C"].prefetch("B", "j", 1)
    s["C"].split("j", 4)


def an_inlined_stage(s: Schedule) -> None:
    s["B"].prefetch("A", "j", 1)
    s["B"].compute_inline()


def an_inlined_tensor(s: Schedule) -> None:
    s["C"].prefetch("B", "j", 1)
    s["B"].compute_inline()


def what_the_loop_computes(s: Schedule) -> None:
    s["C"].prefetch("B", "i", 1)
    s["B"].compute_at(s["C"], "i")


def what_another_stage_reads(s: Schedule) -> None:
    s["C"].prefetch("A", "i", 1)


ILLEGAL = {
    a_loop_that_goes: "C.j was split or fused away afterwards",
    an_inlined_stage: "B is inlined: it has no loops",
    an_inlined_tensor: "B is inlined: it is nowhere in memory",
    what_the_loop_computes: "B is computed inside C.i",
    what_another_stage_reads: "nothing inside C.i reads A",
}


@pytest.mark.parametrize("ask", ILLEGAL, ids=lambda f: f.__name__)
def test_what_later_calls_may_repair_is_checked_at_the_end(ask: Callable[[Schedule], None]) -> None:
    s = chain()
    ask(s)
    with pytest.raises(ScheduleError, match=f"prefetch.*{ILLEGAL[ask]}") as caught:
        s.verify()
    assert caught.value.legal


def test_kernels_take_no_notice() -> None:
    args = centred()
    s = create_schedule(args)
    s["C"].prefetch("A", "i", 1)
    for stage in ("S", "C"):
        s[stage].bind("i", "blockIdx.x")
    assert not prefetches(lower_structure(s, args, "opencl").bind().body)


def bags(each: Callable[[te.Expr, te.Expr, Tensor], te.Expr] | None = None, made: bool = False) -> list[Tensor]:
    """table[30, 8], word[7, 5] -> the sum of the rows of the table that are named, those that are `each` alone."""
    table, word = te.placeholder((30, 8), name="table"), te.placeholder((7, 5), "int32", name="word")
    named = te.compute((7, 5), lambda b, k: word[b, k] // 2, name="half") if made else word
    k = te.reduce_axis((0, 5), "k")
    where = (lambda b: each(b, k.var, word)) if each else (lambda b: None)
    bag = te.compute((7, 8), lambda b, j: te.sum(table[named[b, k], j], axis=k, where=where(b)), name="bag")
    return [table, word, bag]


def looked_up(args: list[Tensor], ahead: int, factor: int = 0, loop: str = "b") -> Schedule:
    s = create_schedule(args[2:])
    bag = s["bag"]
    bag.reorder("b", "k", "j")
    bag.vectorize("j")
    if factor:
        bag.split("b", factor=factor)
    bag.prefetch("table", loop, ahead)
    return s


def found_in(args: list[Tensor], s: Schedule) -> list[Prefetch]:
    words = np.random.default_rng(1).integers(0, 30, (7, 5)).astype("int32")
    given = [np.arange(240, dtype="float32").reshape(30, 8), words]
    for target, backend in (("llvm", "native"), ("c", "native"), ("llvm", "interpreter")):
        check_against_reference(args, s, target, given, backend)  # type: ignore[arg-type]
    return prefetches(lower_structure(s, args, "llvm").after("simplify").body)


@pytest.mark.parametrize("ahead", [1, 3, 1000])
def test_what_is_looked_up_is_asked_for_no_later_than_the_last_iteration(ahead: int) -> None:
    args = bags()
    (asked,) = found_in(args, looked_up(args, ahead))
    assert repr(asked.indices[0]) == ("word[6, k]" if ahead == 1000 else f"word[min(b + {ahead}, 6), k]")


@pytest.mark.parametrize(
    ("args", "factor", "loop"),
    [
        (bags(), 4, "b.inner"),
        (bags(), 4, "b.outer"),
        (bags(lambda b, k, word: k < b), 0, "b"),
        (bags(lambda b, k, word: word[b, k] > 3), 0, "b"),
        (bags(made=True), 0, "b"),
    ],
    ids=["part of a ragged split", "its outer loop", "for some", "by data", "by what is computed"],
)
def test_what_may_not_be_read_ahead_is_left_alone(args: list[Tensor], factor: int, loop: str) -> None:
    assert not found_in(args, looked_up(args, 1, factor, loop))
