"""Tail strategies: the same results whatever becomes of the last block, and promises that are kept."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import build, te
from autosched.errors import BuildError, LowerError, ScheduleError
from autosched.ir.printer import format_function
from autosched.ir.stmt import Allocate, For, If, walk
from autosched.lowering import lower_structure
from autosched.runtime.module import Module
from autosched.schedule import TAILS, create_schedule
from autosched.schedule.stage import Stage
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference


def row_sums(n: Any, m: Any) -> list[Tensor]:
    a = te.placeholder((n, m), dtype="int32", name="A")
    k = te.reduce_axis((0, m), name="k")
    return [a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="R")]


def pipeline(n: Any, m: Any) -> list[Tensor]:
    """A[n, m] -> B, its neighbours' sums -> C, rows of B added up -> D, what C and A make."""
    a = te.placeholder((n, m), dtype="int32", name="A")
    b = te.compute((n, m), lambda i, j: a[i, te.max(j - 1, 0)] + a[i, j], name="B")
    k = te.reduce_axis((0, m), name="k")
    c = te.compute((n,), lambda i: te.sum(b[i, k], axis=k), name="C")
    return [a, te.compute((n, m), lambda i, j: a[n - 1 - i, j] - c[i] * (i + j), name="D")]


def matrices(*sizes: tuple[int, int]) -> list[list[np.ndarray]]:
    return [[np.random.default_rng(n).integers(-9, 9, (n, m)).astype("int32")] for n, m in sizes]


@pytest.mark.parametrize("backend", ["native", "interpreter"])
@pytest.mark.parametrize(("tail", "at"), itertools.product(TAILS, ("root", "i.outer", "i.inner")))
def test_results_stay(tail: str, at: str, backend: Any) -> None:
    """Intermediates at every place, split twice, in sizes that no factor divides; also none at all."""
    args = pipeline(te.var("n"), te.var("m"))
    s = create_schedule(args)
    s["D"].split("i", factor=2)
    s["C"].split("i", nparts=2, tail=tail if tail != "shift_inwards" else "guard")
    if at != "root":
        s["B"].compute_at(s["C"], at)
        s["C"].compute_at(s["D"], at)
    outer, inner = s["B"].split("j", factor=4, tail=tail)
    s["B"].vectorize(inner)
    s["B"].split(outer, factor=3, tail="round_up" if tail == "round_up" else "guard")
    assert_roundtrip(s, args)
    given = matrices((7, 13), (1, 1), (3, 24), (0, 3), (2, 0))
    check_against_reference(args, s, "llvm", given[0], backend, more=given[1:])


def test_whole_tiles_ask_nothing() -> None:
    """The padded intermediate is stored and read without a condition, in whole vectors throughout."""
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    c = te.compute((n,), lambda i: b[i] * 2, name="C")
    d = te.compute((n,), lambda i: c[i] * 2, name="D")
    s = create_schedule(d)
    for stage in (b, c):
        s[stage].split("i", factor=8, tail="round_up")
        s[stage].vectorize("i.inner")
    body = lower_structure(s, [a, d], "llvm").function.body
    assert not [x for x in walk(body) if isinstance(x, If)]
    rooms = [repr(x.buffer.shape[0]) for x in walk(body) if isinstance(x, Allocate)]
    assert rooms == ["(n + 7)//8*8"] * 2
    flat = lower_structure(s, [a, d], "llvm").bind()
    pieces = [x for x in walk(flat.body) if isinstance(x, For) and "C" in repr(x.body) and "B" in repr(x.body)]
    assert len(pieces) == 1  # B and C are padded alike, so the loop of C has no border


@pytest.mark.parametrize("tail", ["auto", "shift_inwards"])
@pytest.mark.parametrize("fused", [False, True])
def test_a_shifted_block_is_set_before_it_is_added_to(tail: str, fused: bool) -> None:
    """Elements of two blocks are added to once for each block, so both blocks must begin at the identity."""
    for place in ("outer", "inner"):
        args = row_sums(te.var("n"), te.var("m"))
        s = create_schedule(args)
        loops = s["R"].split("i", factor=4, tail=tail)
        if fused:
            loops = s["R"].split(s["R"].fuse(*loops), factor=6)
        s["R"].decompose_reduction(loops[place == "inner"])
        if fused or place == "outer":
            with pytest.raises(LowerError, match="added to twice: elements are set once, outside R.i"):
                lower_structure(s, args, "llvm")
            continue
        assert_roundtrip(s, args)
        given = matrices((5, 8), (3, 2), (8, 0), (0, 1))
        check_against_reference(args, s, "llvm", given[0], "interpreter", more=given[1:])


def rows_of_three(n: Any, m: Any) -> list[Tensor]:
    """Gathers, a reduction inside the vector, a condition of its own, and no identity to hide behind."""
    a = te.placeholder((n, m), dtype="int32", name="A")
    p = te.placeholder((m,), dtype="int32", name="P")
    k = te.reduce_axis((0, 3), name="k")
    b = te.compute((n, m), lambda i, j: te.sum(a[i, te.max(j - k, 0)] * (k + 1), axis=k), name="B")
    return [
        a,
        p,
        te.compute((n, m), lambda i, j: te.if_then_else(j > 2, a[i, m - 1 - j], b[i, p[j]]) + b[i, j], name="C"),
    ]


@pytest.mark.parametrize(
    ("target", "backend", "at"),
    [
        *itertools.product(["llvm"], ["native", "interpreter"], ["root", "i", "j.outer.inner"]),
        ("opencl", "interpreter", "root"),
        ("c", "native", "i"),
    ],
)
def test_masked_vectors(target: str, backend: Any, at: str) -> None:
    """A mask where the target has one; the interpreter sees that no lane touches what is not there."""
    args = rows_of_three(te.var("n"), te.var("m"))
    s = create_schedule(args)
    for name in ("B", "C"):
        outer, inner = s[name].split("j", factor=8, tail="predicate")
        s[name].vectorize(inner)
        s[name].split(outer, factor=2, tail="predicate")
    if at != "root":
        s["B"].compute_at(s["C"], at)
    assert_roundtrip(s, args, target)
    rng = np.random.default_rng(3)
    given = [[a[0], rng.integers(0, m, m).astype("int32")] for m in (5, 8, 35, 1) for a in matrices((2, m))]
    given = [x for x in given if len(x[1])]
    check_against_reference(args, s, target, given[0], backend, more=given[1:])


def rows(tail: str) -> tuple[list[Tensor], Any]:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    args = [a, te.compute((n,), lambda i: a[i] * 2 + 1, name="B")]
    s = create_schedule(args)
    _, inner = s["B"].split("i", factor=8, tail=tail)
    s["B"].vectorize(inner)
    return args, s


def test_a_masked_block_is_one_vector(golden: Any) -> None:
    args, s = rows("predicate")
    structure = lower_structure(s, args, "llvm")
    golden("\n\n".join(format_function(structure.after(x)) for x in ("structure", "verify")), "predicate")
    assert "llvm.masked.store" in build(s, "llvm", args=args).get_source()
    args, s = rows("guard")
    assert "llvm.masked.store" not in build(s, "llvm", args=args).get_source()


def test_no_mask_for_lanes_that_are_combined() -> None:
    args = sums(te.var("n"))
    s = create_schedule(args)
    with pytest.raises(ScheduleError) as error:
        s["S"].split("k", factor=8, tail="predicate")
    assert "lanes of a reduction are combined" in error.value.why
    assert error.value.legal == "tail='guard' for reduce loops"


def test_a_masked_loop_keeps_its_tail_where_it_is_copied() -> None:
    args, s = rows("predicate")
    s.cache_write(args[-1], "local", keep_loops=True)
    check_against_reference(args, s, "llvm", [np.arange(13, dtype="float32")], "interpreter")


def sums(n: Any) -> list[Tensor]:
    a = te.placeholder((n,), dtype="int32", name="A")
    k = te.reduce_axis((0, n), name="k")
    return [a, te.compute((), lambda: te.sum(a[k], axis=k), name="S")]


def promised() -> tuple[list[Tensor], Module]:
    args = sums(te.var("n"))
    s = create_schedule(args)
    s["S"].split("k", factor=4, disable_predication=True)
    assert_roundtrip(s, args)
    return args, build(s, "llvm", args=args)


def test_a_promise_is_checked_at_every_call() -> None:
    _, module = promised()
    assert module(np.arange(8, dtype="int32")) == 28
    for _ in range(2):
        with pytest.raises(BuildError) as error:
            module(np.arange(9, dtype="int32"))
        assert "4 has to divide" in error.value.why
        assert error.value.legal == "needed: n % 4 == 0"
    assert module(np.arange(4, dtype="int32")) == 6


def test_a_promise_is_kept_in_a_file(tmp_path: Any) -> None:
    _, module = promised()
    module.save(tmp_path / "sum.module")
    loaded = Module.load(tmp_path / "sum.module")
    assert loaded(np.arange(12, dtype="int32")) == 66
    with pytest.raises(BuildError, match="has to divide"):
        loaded(np.arange(6, dtype="int32"))


def test_a_promise_about_knobs_is_a_constraint() -> None:
    args = sums(12)
    s = create_schedule(args)
    s["S"].split("k", factor=s.define_knob("f", [3, 4, 5]), tail="round_up")
    structure = lower_structure(s, args, "llvm")
    assert len(structure.constraints) == 1
    for f in (3, 4):
        check_against_reference(args, s, "llvm", [np.arange(12, dtype="int32")], "interpreter", {"f": f})
    with pytest.raises(LowerError, match="has to divide"):
        structure.bind({"f": 5})


EXACT: dict[str, Callable[[Stage], tuple[Any, ...]]] = {
    "round_up": lambda x: x.split(x.loops[-1], factor=4, tail="round_up"),
    "disable_predication": lambda x: x.split(x.loops[-1], factor=4, disable_predication=True),
    "nparts": lambda x: x.split(x.loops[-1], nparts=4, tail="round_up"),
    "split_into": lambda x: x.split_into(x.loops[-1], None, 4, disable_predication=True),
    "twice": lambda x: x.split(x.split(x.loops[-1], factor=2, tail="round_up")[0], factor=2, tail="round_up"),
}


@pytest.mark.parametrize("cached", ["before", "after", ""])
@pytest.mark.parametrize("factored", [0, 1])
@pytest.mark.parametrize("exact", EXACT)
def test_a_promise_outlives_the_loops_that_rfactor_replaces(exact: str, factored: int, cached: str) -> None:
    """The partial results take values beyond the end of a sum that does not divide."""
    args = sums(te.var("n"))
    s = create_schedule(args)
    name = s[s.cache_write(args[-1], "local")].name if cached == "before" else "S"
    s.rfactor(name, EXACT[exact](s[name])[factored])
    if cached == "after":
        s.cache_write("S", "local", keep_loops=True)
    assert_roundtrip(s, args)
    check_against_reference(args, s, "llvm", [np.arange(8, dtype="int32")], "interpreter")
    module = build(s, "llvm", args=args)
    assert module(np.arange(16, dtype="int32")) == 120
    with pytest.raises(BuildError, match="has to divide"):
        module(np.arange(9, dtype="int32"))


def test_a_promise_of_factored_loops_is_a_constraint_of_the_sketch() -> None:
    args = sums(12)
    s = create_schedule(args)
    _, inner = s["S"].split("k", factor=s.define_knob("f", [3, 4, 5]), tail="round_up")
    s.rfactor("S", inner)
    structure = lower_structure(s, args, "llvm")
    assert [c.reason for c in structure.constraints] == ["S.k has 12 iterations, which f has to divide"]
    with pytest.raises(LowerError, match="has to divide"):
        structure.bind({"f": 5})


def test_the_region_of_an_intermediate_decides() -> None:
    """Five columns are read at a time, and that is known when all attach points are."""
    a = te.placeholder((20,), name="A")
    b = te.compute((20,), lambda i: a[i] + 1, name="B")
    c = te.compute((16,), lambda i: b[i] + b[i + 4], name="C")
    s = create_schedule(c)
    s[b].split("i", factor=4, disable_predication=True)
    lower_structure(s, [a, c], "llvm")
    s[b].compute_at(s[c], "i")
    with pytest.raises(ScheduleError, match="which 4 has to divide"):
        lower_structure(s, [a, c], "llvm")


def test_whole_tiles_and_storage_of_their_own() -> None:
    a = te.placeholder((20,), name="A")
    b = te.compute((20,), lambda i: a[i] + 1, name="B")
    c = te.compute((4, 16), lambda t, i: b[i] + b[i + t], name="C")
    s = create_schedule(c)
    s[b].split("i", factor=4, tail="round_up")
    s[b].compute_at(s[c], "i").store_at(s[c], "t")
    with pytest.raises(ScheduleError) as error:
        s.verify()
    assert "overwrite" in error.value.why
    assert "leave store_at out" in error.value.legal


@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_a_tensor_without_dimensions_has_a_loop(target: str) -> None:
    args = sums(te.var("n"))
    s = create_schedule(args)
    alone = s["S"].fuse()
    assert [x.name for x in s["S"].loops] == ["singleton", "k"]
    if target == "opencl":
        s["S"].bind(alone, "blockIdx.x")
    assert_roundtrip(s, args, target)
    check_against_reference(args, s, target, [np.arange(9, dtype="int32")])


@pytest.mark.parametrize(("first", "second"), [("guard", "round_up"), ("round_up", "guard"), ("round_up", "round_up")])
def test_a_part_rounds_up_within_the_condition_of_the_whole(first: str, second: str) -> None:
    """Found by random schedules: a factor that divides leaves a condition behind where its outer loop
    has more iterations than it needs."""
    a = te.placeholder((8,), dtype="int32", name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    c = te.compute((8,), lambda i: b[7 - i], name="C")
    s = create_schedule(c)
    s[b].split("i", nparts=8, tail=first)
    s[b].split("i.outer", factor=4, tail=second)
    s[b].split("i.outer.outer", factor=8, tail="round_up")
    check_against_reference([a, c], s, "llvm", [np.arange(8, dtype="int32")], "interpreter")


def test_a_masked_vector_under_two_conditions() -> None:
    """Found by random schedules: conditions on lanes are compared as objects, not element by element."""
    a = te.placeholder((1,), dtype="int32", name="A")
    b = te.compute((3,), lambda i: a[te.max(te.min(i - 1, 0), 0)], name="B")
    s = create_schedule(b)
    s[b].split_into("i", 2, 1, None)
    s[b].fuse("i.1", "i.2")
    s[b].vectorize(s[b].split("i.1.i.2.fused", factor=4, tail="predicate")[1])
    check_against_reference([a, b], s, "llvm", [np.array([7], dtype="int32")])
