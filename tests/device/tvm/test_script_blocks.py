"""`tir.Schedule` of functions whose blocks are no stages: blocks that are moved, copied for and inlined.

Random calls change no result, read nothing that was not written, and leave no buffer: the interpreter looks. (Copies of
what is stored under conditions may take along what was never written; these calls make none.)
"""

# mypy: ignore-errors

from __future__ import annotations

import random

import numpy as np
import pytest

from autosched import tvm
from autosched.errors import ScheduleError, UsageError
from autosched.runtime.interpreter import interpret
from autosched.tvm import tir
from autosched.tvm.script import from_source
from autosched.tvm.script import tir as T
from autosched.tvm.tir.schedule.testing import verify_trace_roundtrip


@T.prim_func
def tiles(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8, 12), "float32")):
    B = T.alloc_buffer((8, 12), "float32")
    C = T.alloc_buffer((8, 12), "float32")
    for i, j in T.grid(8, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(4, 3):
        with T.block("tile"):
            vi, vj = T.axis.remap("SS", [i, j])
            for x, y in T.grid(2, 4):
                with T.block("C"):
                    vx, vy = T.axis.remap("SS", [x, y])
                    C[vi * 2 + vx, vj * 4 + vy] = B[vi * 2 + vx, vj * 4 + vy] + 1.0
    for i, j in T.grid(8, 12):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * B[vi, vj]


@T.prim_func
def two_readers(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8, 12), "float32")):
    B = T.alloc_buffer((8, 12), "float32")
    C = T.alloc_buffer((8, 12), "float32")
    for i in range(8):
        for j in range(12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 3.0
        for j in range(12):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, 11 - vj] * 2.0
    for i, j in T.grid(8, 12):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + B[7 - vi, vj]


@T.prim_func
def sums_of_tiles(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8, 12), "float32")):
    B = T.alloc_buffer((8, 12), "float32")
    for i in range(4):
        with T.block("tile"):
            vi = T.axis.spatial(4, i)
            for x, y, k in T.grid(2, 12, 12):
                with T.block("B"):
                    vx, vy, vk = T.axis.remap("SSR", [x, y, k])
                    with T.init():
                        B[vi * 2 + vx, vy] = 0.0
                    B[vi * 2 + vx, vy] = B[vi * 2 + vx, vy] + A[vi * 2 + vx, vk]
    for i, j in T.grid(8, 12):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] - A[vi, vj]


@T.prim_func
def neighbours(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8, 12), "float32")):
    B = T.alloc_buffer((9, 12), "float32")
    C = T.alloc_buffer((8, 12), "float32")
    for i, j in T.grid(9, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[T.min(vi, 7), vj] + 1.0
    for i, j in T.grid(8, 12):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[7 - vi, vj] = B[vi, vj] + B[vi + 1, vj]
    for i, j in T.grid(4, 12):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi * 2, vj] = C[vi * 2, vj]
            D[vi * 2 + 1, vj] = C[vi * 2 + 1, vj] * 2.0


@T.prim_func
def goes_on(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8, 12), "float32")):
    B = T.alloc_buffer((8, 12), "float32")
    for i, j in T.grid(8, 12):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj]
    for i, j in T.grid(8, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = D[vi, vj] + 1.0
    for i, j in T.grid(8, 12):
        with T.block("D1"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = D[vi, vj] + B[vi, 11 - vj]


def _neighbours(a: np.ndarray) -> np.ndarray:
    b = np.concatenate([a, a[-1:]]) + 1
    c = (b[:-1] + b[1:])[::-1].copy()
    c[1::2] *= 2
    return c


PROGRAMS = {
    "tiles": (tiles, lambda a: (a * 2 + 1) * (a * 2)),
    "two_readers": (two_readers, lambda a: (a[:, ::-1] + 3) * 2 + (a[::-1] + 3)),
    "sums_of_tiles": (sums_of_tiles, lambda a: a.sum(1, keepdims=True) - a),
    "neighbours": (neighbours, _neighbours),
    "goes_on": (goes_on, lambda a: a + (a[:, ::-1] + 1)),
}
VALUES = np.random.default_rng(3).integers(-4, 5, (8, 12)).astype("float32")


def checked(sch, expected: np.ndarray) -> None:
    """Run the program in the interpreter, which stops at what was never written or is outside of a buffer."""
    found = np.full((8, 12), np.nan, "float32")
    interpret(sch.mod["main"] if "main" in sch.mod else sch.mod[sch.func_working_on], [VALUES, found])
    np.testing.assert_array_equal(found, expected, err_msg=f"{sch.trace.as_python()}\n{sch.mod.script()}")


def blocks_in(sch, block) -> list:
    inner = sch.get_child_blocks(block)
    return [*inner, *(x for b in inner for x in blocks_in(sch, b))]


def random_call(sch, rng: random.Random) -> str | None:
    """Make a random call; its name, where it was not refused."""
    names = [b.name for b in blocks_in(sch, sch.get_block("root"))]
    block = sch.get_block(rng.choice(names))
    other = sch.get_loops(sch.get_block(rng.choice(names)))
    moves = [
        "compute_at",
        "reverse_compute_at",
        "cache_read",
        "cache_write",
        "compute_inline",
        "reverse_compute_inline",
    ]
    call = rng.choice(
        [*moves, *moves, "split", "split", "fuse", "parallel", "blockize", "decompose_reduction", "transform_layout"]
    )
    some = [b for b in map(sch.get_block, names) if rng.random() < 0.2] if rng.random() < 0.3 else None
    try:
        match call:
            case "split":
                sch.split(rng.choice(sch.get_loops(block)), rng.choice([[2, None], [None, 3], [None, 5], [None, 2, 2]]))
            case "parallel":
                sch.parallel(sch.get_loops(block)[0])
            case "fuse":
                sch.fuse(*sch.get_loops(block)[:2])
            case "compute_at" | "reverse_compute_at":
                getattr(sch, call)(block, rng.choice(other), rng.random() < 0.5, rng.choice([-1, -2]))
            case "cache_read":
                sch.cache_read(block, rng.choice([0, 0, 1]), rng.choice(["global", "local"]), some)
            case "cache_write":
                sch.cache_write(block, 0, "local", some)
            case "transform_layout":
                layouts = [lambda i, j: [j, i], lambda i, j: [j // 4, i, j % 4], lambda i, j: [i // 3, j, i % 3]]
                sch.transform_layout(block, rng.choice([("read", 0), ("write", 0)]), rng.choice(layouts))
            case "blockize":
                sch.blockize(rng.choice(sch.get_loops(block)))
            case "decompose_reduction":
                sch.decompose_reduction(block, rng.choice(sch.get_loops(block)))
            case _:
                getattr(sch, call)(block)
    except (ScheduleError, IndexError):
        return None
    return call


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_call_changes_a_result(name: str) -> None:
    f, reference = PROGRAMS[name]
    made: set[str] = set()
    for seed in range(8):
        sch, rng = tir.Schedule(f), random.Random(seed)
        for _ in range(6):
            call = random_call(sch, rng)
            if call is not None:
                made.add(call)
                checked(sch, reference(VALUES))
        verify_trace_roundtrip(sch, f)
    assert len(made) > 4


@T.prim_func
def kept_and_lost(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8, 12), "float32")):
    B = T.alloc_buffer((12,), "float32")
    C = T.alloc_buffer((8, 12), "float32")
    for i in range(8):
        for j in range(12):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vj] = A[vi, vj] + 1.0
        for j in range(12):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vj] * 2.0
    for i, j in T.grid(8, 12):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, 11 - vj]


@T.prim_func
def reads_ahead(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8, 12), "float32")):
    C = T.alloc_buffer((8, 12), "float32")
    for i in range(7):
        for j in range(12):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = A[vi, vj]
        for j in range(12):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = D[vi + 1, vj]


@T.prim_func
def halves(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8, 12), "float32")):
    B = T.alloc_buffer((8, 12), "float32")
    for i in range(8):
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for j in range(6):
            with T.block("B1"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj + 6] = A[vi, vj] + 1.0
    for i, j in T.grid(8, 12):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj]


def loop(sch, block: str, at: int = 0):
    return sch.get_loops(sch.get_block(block))[at]


@pytest.mark.parametrize(
    ("f", "call", "why"),
    [
        (kept_and_lost, lambda s: s.compute_at("C", loop(s, "D")), "B, which C reads, may be written again"),
        (kept_and_lost, lambda s: s.compute_inline("B"), "B stores to one element for several vi|stores at"),
        (kept_and_lost, lambda s: s.compute_inline("C"), "B, which C reads, may be written again"),
        (kept_and_lost, lambda s: s.reverse_compute_at("D", loop(s, "C", 1)), "reads C at 11 - vj"),
        (kept_and_lost, lambda s: s.compute_at("C", loop(s, "C")), "ancestor of block"),
        (kept_and_lost, lambda s: s.compute_at("D", loop(s, "C")), "output block"),
        (reads_ahead, lambda s: s.cache_read("C", 0, "local"), "not all that C reads of D is what D has written"),
        (reads_ahead, lambda s: s.cache_write("D", 0, "local", ["C"]), "not all that C reads of D"),
        (halves, lambda s: s.compute_at("B", loop(s, "D")), "no complete block: B1 writes B, too"),
        (halves, lambda s: s.compute_inline("B"), "B is written by two blocks"),
        (halves, lambda s: s.cache_write("B", 0, "local"), "B is written by B and B1"),
        (halves, lambda s: s.reverse_compute_inline("D"), "D has 2 producers"),
        (halves, lambda s: s.reverse_compute_at("D", loop(s, "B", 1)), "computes a part of what D reads"),
        (tiles, lambda s: s.compute_at("B", loop(s, "C")), "same block scope"),
        (tiles, lambda s: s.compute_at("B", loop(s, "tile")), "requires all the consumer blocks under i; D is not"),
        (tiles, lambda s: s.compute_at("tile", loop(s, "D"), index=3), "cannot be at position 3"),
        (tiles, lambda s: s.cache_read("D", "Q", "local"), "D has no such buffer as 'Q'"),
        (tiles, lambda s: s.cache_read("D", 0, "lokal"), "no scope 'lokal'"),
        (tiles, lambda s: s.set_scope("D", 0, "local"), "D is an output"),
        (tiles, lambda s: s.decompose_reduction("C", loop(s, "C")), "C has no T.init"),
        (two_readers, lambda s: s.reverse_compute_at("D", loop(s, "C")), "reads B at 7 - vi, which is no axis"),
        (neighbours, lambda s: s.reverse_compute_at("C", loop(s, "B")), "overlap, or leave gaps"),
        (neighbours, lambda s: s.reverse_compute_inline("C"), "several elements of B"),
        (goes_on, lambda s: s.compute_at("B", loop(s, "D1")), "D, which B reads, is written in between"),
        (goes_on, lambda s: s.cache_write("D1", 0, "local"), "D is written by D and D1"),
    ],
)
def test_what_is_not_proved_is_refused(f, call, why: str) -> None:
    sch = tir.Schedule(f)
    before = sch.mod.script()
    with pytest.raises(ScheduleError, match=why):
        call(sch)
    assert sch.mod.script() == before


def test_blocks_are_where_they_were_asked_for() -> None:
    sch = tir.Schedule(tiles)
    _, j = sch.get_loops("tile")
    inner = sch.cache_read("C", 0, "local")
    copy = sch.cache_write("C", 0, "global")
    assert [b.name for b in sch.get_child_blocks(sch.get_block("tile"))] == [inner.name, "C", copy.name]
    assert [sch.get(x).extent.value for x in sch.get_loops(inner)] == [2, 4]
    sch.reverse_compute_at("D", j)
    sch.compute_at("B", j)
    assert [b.name for b in sch.get_child_blocks(j)] == ["B", "tile", "D"]
    assert [sch.get(x).extent.value for x in sch.get_loops("D")[2:]] == [2, 4]
    assert [b.name for b in sch.get_producers("D")] == ["B", "tile"]
    assert [b.name for b in sch.get_consumers("B")] == ["tile", "D"]
    checked(sch, PROGRAMS["tiles"][1](VALUES))
    found = np.zeros((8, 12), "float32")
    tvm.build(sch.mod, target="llvm")(VALUES, found)
    np.testing.assert_array_equal(found, PROGRAMS["tiles"][1](VALUES))
    again = from_source(sch.mod.script())
    tvm.build(again, target="llvm")(VALUES, found)
    np.testing.assert_array_equal(found, PROGRAMS["tiles"][1](VALUES))


def calls_in_order(*calls):
    def made():
        sch = tir.Schedule(neighbours)
        i = loop(sch, "C")
        for call in calls:
            call(sch, i)
        return sch

    return made


@pytest.mark.parametrize(
    "made",
    [
        calls_in_order(lambda s, i: s.parallel(i), lambda s, i: s.compute_at("B", i)),
        calls_in_order(lambda s, i: s.compute_at("B", i), lambda s, i: s.parallel(i)),
    ],
)
def test_memory_of_parallel_iterations_is_their_own(made) -> None:
    sch = made()
    assert 'B = T.allocate([2, 12], "float32"' in sch.mod.script()
    assert "[9, 12]" not in sch.mod.script()
    checked(sch, PROGRAMS["neighbours"][1](VALUES))
    found = np.zeros((8, 12), "float32")
    tvm.build(sch.mod, target="llvm")(VALUES, found)
    np.testing.assert_array_equal(found, PROGRAMS["neighbours"][1](VALUES))


def test_copies_live_where_their_buffer_does() -> None:
    sch = tir.Schedule(neighbours)
    i = loop(sch, "C")
    sch.compute_at("B", i)
    sch.parallel(i)
    sch.cache_read("C", "B", "local")
    sch.cache_write("B", 0, "local")
    before, inside = sch.mod.script().split("T.parallel")
    assert "B_local" not in before
    assert 'B_local = T.allocate([2, 12], "float32", "local")' in inside
    assert 'B_local_1 = T.allocate([2, 12], "float32", "local")' in inside
    checked(sch, PROGRAMS["neighbours"][1](VALUES))


def test_vectors_share_memory() -> None:
    sch = tir.Schedule(kept_and_lost)
    with pytest.raises(ScheduleError, match="iterations of i may meet in B"):
        sch.vectorize(loop(sch, "C"))
    with pytest.raises(ScheduleError, match="iterations of i may meet in B"):
        sch.bind(loop(sch, "C"), "threadIdx.x")  # for global memory is no work-item's own
    sch.set_scope("B", 0, "local")
    sch.bind(loop(sch, "C"), "threadIdx.x")
    assert 'B = T.allocate([12], "float32", "local")' in sch.mod.script()


def test_a_consumer_finishes_in_its_producer() -> None:
    sch = tir.Schedule(halves)
    sch.cache_write("D", 0, "global")
    sch.reverse_compute_inline("D_global")
    assert [b.name for b in sch.get_child_blocks(sch.get_block("root"))] == ["B", "B1", "D"]
    checked(sch, np.concatenate([VALUES[:, :6], VALUES[:, :6] + 1], 1))


def test_first_values_have_loops_of_their_own() -> None:
    sch = tir.Schedule(sums_of_tiles)
    _, y, k = sch.get_loops("B")
    init = sch.decompose_reduction("B", y)
    assert [a.name for a in sch.get_loops(init)] == ["x", "y_init"]
    sch.reorder(k, y)
    checked(sch, PROGRAMS["sums_of_tiles"][1](VALUES))
    sch = tir.Schedule(sums_of_tiles)
    _, y, k = sch.get_loops("B")
    sch.reorder(k, y)
    with pytest.raises(ScheduleError, match="k, outside of y, is a reduce loop"):
        sch.decompose_reduction("B", y)


def test_functions_are_alike_whose_scripts_are() -> None:
    sch = tir.Schedule(two_readers)
    text = sch.mod.script()
    assert tvm.ir.structural_hash(from_source(text)) == tvm.ir.structural_hash(sch.mod)


def test_annotations_are_read_back() -> None:
    sch = tir.Schedule(tiles)
    i = loop(sch, "tile")
    sch.annotate(i, "stage", [0, 1])
    with pytest.raises(ScheduleError, match="it is annotated: stage"):
        sch.split(i, [2, 2])
    sch.annotate("tile", "kind", "of its own")
    assert sch.get(sch.get_block("tile")).annotations == {"kind": "of its own"}
    sch.unannotate("tile", "kind")
    sch.unannotate(i, "stage")
    with pytest.raises(ScheduleError, match="there is no 'stage'"):
        sch.unannotate(i, "stage")
    sch.split(i, [2, 2])
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.serial(8, annotations={"stage": [0, {"by": 1.5}], "pragma_auto_unroll_max_step": 4}):
        with T.block("B"):
            T.block_attr({"kind": "copy"})
            v = T.axis.spatial(8, i)
            B[v] = A[v]
"""
    sch = tir.Schedule(from_source(text))
    assert [x.pragmas for x in sch.get_loops("B")] == [("auto_unroll_max_step=4",)]
    assert "\"stage\": [0, {'by': 1.5}]" in sch.mod.script() and "\"kind\": 'copy'" in sch.mod.script()
    assert from_source(sch.mod["main"].script()).remarks == sch.mod["main"].remarks != {}


def test_a_block_around_loops() -> None:
    sch = tir.Schedule(sums_of_tiles)
    x, y, k = sch.get_loops("B")
    k0, k1 = sch.split(k, [None, 5])
    y0, y1 = sch.split(y, [None, 4])
    sch.reorder(x, y0, k0, k1, y1)
    outer = sch.blockize(k1)
    assert [a.name for a in sch.get_loops(outer)] == ["x", "y_0", "k_0"]
    assert [b.name for b in sch.get_child_blocks(outer)] == ["B_init", "B"]
    axes = {a.var.name: (a.kind, a.stop.value) for a in sch.get(outer).axes}
    assert axes == {"vx_o": ("spatial", 2), "vy_o": ("spatial", 3), "vk_o": ("reduce", 3)}
    checked(sch, PROGRAMS["sums_of_tiles"][1](VALUES))
    sch.decompose_reduction(outer, k0)
    sch.reverse_compute_at("D", sch.get_loops("tile")[0])
    checked(sch, PROGRAMS["sums_of_tiles"][1](VALUES))
    with pytest.raises(ScheduleError, match="there are 2 blocks in i"):
        sch.blockize(sch.get_loops("D")[0])


def test_first_values_keep_their_name() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("begin"):
            vi = T.axis.spatial(8, i)
            D[vi] = T.float32(0)
        for k in range(12):
            with T.block("go_on"):
                vi, vk = T.axis.remap("SR", [i, k])
                D[vi] = D[vi] + A[vi, vk]
"""
    sch = tir.Schedule(from_source(text))
    (i,) = sch.get_loops(sch.get_block("begin"))
    assert [b.name for b in sch.get_child_blocks(i)] == ["begin", "go_on"] == [b.name for b in sch.get_output_blocks()]
    again = tir.Schedule(from_source(sch.mod.script()))
    assert [b.name for b in again.get_child_blocks(again.get_block("root"))] == ["begin", "go_on"]
    sch.parallel(i)
    found = np.zeros(8, "float32")
    tvm.build(sch.mod, target="llvm")(VALUES, found)
    np.testing.assert_array_equal(found, VALUES.sum(1))


def test_elements_lie_elsewhere() -> None:
    sch = tir.Schedule(tiles)
    sch.transform_layout("B", ("write", 0), lambda i, j: [j // 4, i // 3, j % 4, i % 3])
    sch.transform_layout("D", "C", lambda *at: [at[1], at[0]])
    text = sch.mod.script()
    assert 'B = T.allocate([3, 3, 4, 3], "float32"' in text and 'C = T.allocate([12, 8], "float32"' in text
    assert [x.name for x in sch.get_loops("B")] == ["i", "j"]
    verify_trace_roundtrip(sch, tiles)
    said = "sch.transform_layout('B', ('write', 0), lambda i, j: [j//4, i//3, j%4, i%3])"
    assert said in sch.trace.as_python()
    checked(sch, PROGRAMS["tiles"][1](VALUES))
    found = np.zeros((8, 12), "float32")
    tvm.build(sch.mod, target="llvm")(VALUES, found)
    np.testing.assert_array_equal(found, PROGRAMS["tiles"][1](VALUES))
    with pytest.raises(ScheduleError, match="the layout of A is the caller's"):
        sch.transform_layout("B", "A", lambda i, j: [j, i])
    for mapping in (lambda i, j: [i], lambda i, j: [i * 2 + j], lambda i: [i]):
        with pytest.raises(ScheduleError, match="transform_layout"):
            sch.transform_layout("D", "C", mapping)
    with pytest.raises(ScheduleError, match="padding of C has no value of its own"):
        sch.transform_layout("D", "C", lambda i, j: [i // 5, i % 5, j], pad_value=0.0)


@T.prim_func
def weighted(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8, 12), "float32")):
    weights = T.allocate_const([[1.0, 2.0, 3.0], [0.5, 0.25, -1.0]], "float32", [2, 3])
    W = T.decl_buffer((2, 3), "float32", data=weights)
    B = T.alloc_buffer((8, 12), "float32")
    for i, j in T.grid(8, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * W[vi % 2, vj // 4]
    for i, j in T.grid(8, 12):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] + 1.0


def test_memory_that_holds_numbers() -> None:
    w = np.array([[1.0, 2.0, 3.0], [0.5, 0.25, -1.0]], "float32")
    expected = VALUES * np.tile(np.repeat(w, 4, 1), (4, 1)) + 1
    sch = tir.Schedule(weighted)
    checked(sch, expected)
    sch.compute_at("B", loop(sch, "D"))
    sch.compute_at(sch.cache_read("B", "weights", "local"), loop(sch, "D"))
    checked(sch, expected)
    sch = tir.Schedule(weighted)
    sch.compute_inline("B")
    checked(sch, expected)
    found = np.zeros((8, 12), "float32")
    tvm.build(sch.mod, target="llvm")(VALUES, found)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("data", "extents", "why"),
    [("[1, 2]", "[3]", "there are 2 numbers"), ("[0] * 4097", "[4097]", "it has 4097 elements")],
)
def test_numbers_that_are_not_held(data: str, extents: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        from_source(f"def f(A: T.Buffer((2,), 'int32')):\n    c = T.allocate_const({data}, 'int32', {extents})")
