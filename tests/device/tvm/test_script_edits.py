"""`tir.Schedule`: calls for which a function of stages becomes one of statements. They change no result, read nothing that
was not written, and loops that a program held before are loops of the new function."""

# mypy: ignore-errors

from __future__ import annotations

import random

import numpy as np
import pytest

from autosched import tvm
from autosched.errors import ScheduleError
from autosched.ir.stmt import Function
from autosched.runtime.interpreter import interpret
from autosched.tvm import tir
from autosched.tvm.script import tir as T
from autosched.tvm.script.trees import TreeSchedule
from autosched.tvm.tir.schedule.testing import verify_trace_roundtrip


@T.prim_func
def padded(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8, 12), "float32")):
    P = T.alloc_buffer((10, 15), "float32")
    C = T.alloc_buffer((8, 12), "float32")
    for i, j in T.grid(10, 15):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = T.if_then_else(vi >= 1 and vi < 9 and vj >= 2 and vj <= 13, A[vi - 1, vj - 2], T.float32(3))
    for i, j, x, y in T.grid(8, 12, 3, 4):
        with T.block("C"):
            vi, vj, vx, vy = T.axis.remap("SSRR", [i, j, x, y])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + P[vi + vx, vj + vy]
    for i, j in T.grid(8, 12):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] - A[vi, vj]


@T.prim_func
def products(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8, 12), "float32")):
    B = T.alloc_buffer((12, 8), "float32")
    C = T.alloc_buffer((8, 8), "float32")
    for i, j in T.grid(12, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] + T.float32(1)
    for i, j, k in T.grid(8, 8, 12):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(2)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(8, 12):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj % 8] * T.float32(2)


@T.prim_func
def siblings(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8, 12), "float32")):
    B = T.alloc_buffer((8, 12), "float32")
    C = T.alloc_buffer((8, 12), "float32")
    for i, j in T.grid(8, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(3)
    for i, j in T.grid(8, 12):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, 11 - vj] + T.float32(1)
    for i, j in T.grid(8, 12):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + B[vi, vj]


@T.prim_func
def of_statements(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8, 12), "float32")):
    for i in range(8):
        with T.block("row"):
            vi = T.axis.spatial(8, i)
            B = T.alloc_buffer((16,), "float32")
            for j in range(16):
                with T.block("B"):
                    vj = T.axis.spatial(16, j)
                    B[vj] = T.if_then_else(vj < 12, A[vi, vj], T.float32(-1))
            for j in range(12):
                with T.block("D"):
                    vj = T.axis.spatial(12, j)
                    D[vi, vj] = B[vj] + B[vj + 4]
                    D[vi, vj] = D[vi, vj] * T.float32(2)


def _padded(a: np.ndarray) -> np.ndarray:
    p = np.pad(a, [(1, 1), (2, 1)], constant_values=3)
    return sum(p[x : x + 8, y : y + 12] for x in range(3) for y in range(4)) - a


def _products(a: np.ndarray) -> np.ndarray:
    c = a @ (a.T + 1) + 2
    return c[:, np.arange(12) % 8] * 2


def _of_statements(a: np.ndarray) -> np.ndarray:
    b = np.pad(a, [(0, 0), (0, 4)], constant_values=-1)
    return (b[:, :12] + b[:, 4:]) * 2


PROGRAMS = {
    "padded": (padded, _padded),
    "products": (products, _products),
    "siblings": (siblings, lambda a: a[:, ::-1] * 3 + 1 + a * 3),
    "of_statements": (of_statements, _of_statements),
}
VALUES = np.random.default_rng(3).integers(-4, 5, (8, 12)).astype("float32")


def checked(sch, expected: np.ndarray) -> None:
    """Run the program in the interpreter, which stops at what was never written or is outside of a buffer."""
    found = np.full((8, 12), np.nan, "float32")
    f = sch.mod["main"] if "main" in sch.mod else sch.mod[sch.func_working_on]
    try:
        interpret(f if isinstance(f, Function) else tvm.lower(f)["main"], [VALUES, found])
    except Exception as error:
        error.add_note(f"{sch.trace.as_python()}\n{sch.mod.script()}")
        raise
    np.testing.assert_array_equal(found, expected, err_msg=f"{sch.trace.as_python()}\n{sch.mod.script()}")


def blocks_in(sch, block) -> list:
    inner = sch.get_child_blocks(block)
    return [*inner, *(x for b in inner for x in blocks_in(sch, b) if b.name != block.name)]


def random_call(sch, rng: random.Random, held: list) -> str | None:
    """Make a random call, with loops of now or of before; its name, where it was not refused."""
    names = list(dict.fromkeys(b.name for b in blocks_in(sch, sch.get_block("root"))))
    block = sch.get_block(rng.choice(names))
    edits = ["decompose_padding", "loop_partition", "merge", "pad_einsum", "unsafe_set_dtype"]
    others = [
        "split",
        "fuse",
        "reorder",
        "compute_at",
        "reverse_compute_at",
        "cache_read",
        "compute_inline",
        "parallel",
    ]
    call = rng.choice([*edits, *edits, *others])
    if call in ("compute_at", "reverse_compute_at", "cache_read") and not isinstance(sch, TreeSchedule):
        return None  # what later calls could repair is told when a schedule of stages is lowered
    try:
        loops = sch.get_loops(block)
        held += loops
        one = rng.choice(rng.choice([loops, held]))
        match call:
            case "decompose_padding":
                sch.decompose_padding(block, one)
            case "loop_partition":
                sch.loop_partition(one, rng.choice([[None, 3], [2, 1], [1, None, 2], [4]]))
            case "merge":
                sch.merge(one, rng.choice(sch.get_loops(sch.get_block(rng.choice(names)))))
            case "pad_einsum":
                sch.pad_einsum(block, [rng.choice([1, 4, 5, 8]) for _ in loops])
            case "unsafe_set_dtype":
                sch.unsafe_set_dtype(block, 0, rng.choice(["float64", "int32"]))
            case "split":
                sch.split(one, rng.choice([[2, None], [None, 3], [None, 2, 2]]))
            case "fuse":
                sch.fuse(*loops[:2])
            case "reorder":
                sch.reorder(*rng.sample(loops, min(2, len(loops))))
            case "compute_at" | "reverse_compute_at":
                getattr(sch, call)(block, rng.choice(held))
            case "cache_read":
                sch.cache_read(block, 0, "local")
            case "parallel":
                sch.parallel(one)
            case _:
                getattr(sch, call)(block)
    except (ScheduleError, IndexError):
        return None
    return call


MOVED = {"padded": [("P", "C"), ("C", "D")], "products": [("B", "C"), ("C", "D")], "siblings": [("C", "D")]}
SEEDS = 12


def begin(sch, moved, rng: random.Random) -> None:
    """Compute a block, of which iterations may share parts, at a loop that is marked before or after."""
    producer, consumer = rng.choice(moved)
    i = sch.get_loops(sch.get_block(consumer))[0]
    if rng.random() < 0.5:
        i, _ = sch.split(i, [None, rng.choice([2, 3])])
    steps = [lambda: sch.parallel(i), lambda: sch.compute_at(sch.get_block(producer), i)]
    for step in rng.sample(steps, rng.randrange(3)):
        step()


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_call_changes_a_result(name: str) -> None:
    f, reference = PROGRAMS[name]
    made: set[str] = set()
    for seed in range(SEEDS):
        sch, rng, held = tir.Schedule(f), random.Random(seed), []
        if name in MOVED:
            begin(sch, MOVED[name], rng)
        for _ in range(8):
            call = random_call(sch, rng, held)
            if call is not None:
                made.add(call)
                checked(sch, reference(VALUES))
        verify_trace_roundtrip(sch, f)
    assert len(made) > 6, made


def loop(sch, block: str, at: int = 0):
    return sch.get_loops(sch.get_block(block))[at]


@T.prim_func
def weights_of_rows(A: T.Buffer((8, 12), "float32"), W: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 12):
        with T.block("D"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                D[vi] = T.float32(0)
            D[vi] = D[vi] + A[vi, vk] * W[vi]


@T.prim_func
def running(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8, 12), "float32")):
    B = T.alloc_buffer((8, 12), "float32")
    for i, j in T.grid(8, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(vj < i, A[vi, vj], T.float32(0))
    for i, j in T.grid(8, 12):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[7 - vi, vj]


@T.prim_func
def read_before(A: T.Buffer((8, 12), "float32"), D: T.Buffer((8, 12), "float32"), P: T.Buffer((8, 12), "float32")):
    for i in range(8):
        for j in range(12):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = P[vi, vj] * T.float32(2)
        for j in range(12):
            with T.block("P"):
                vi, vj = T.axis.remap("SS", [i, j])
                P[vi, vj] = T.if_then_else(vj < 7, A[vi, vj], T.float32(0))


@pytest.mark.parametrize(
    ("f", "call", "why"),
    [
        (read_before, lambda s: s.decompose_padding("P", loop(s, "P")), "P is read in i before P writes it"),
        (padded, lambda s: s.decompose_padding("C", loop(s, "C")), "C does more than store one value"),
        (padded, lambda s: s.decompose_padding("D", loop(s, "D")), "D stores no choice"),
        (padded, lambda s: s.decompose_padding("P", loop(s, "C")), "i is no loop around P"),
        (running, lambda s: s.decompose_padding("B", loop(s, "B")), "is about more than one axis of B"),
        (padded, lambda s: (s.parallel(loop(s, "P")), s.decompose_padding("P", loop(s, "P"))), "loops of P are marked"),
        (padded, lambda s: s.loop_partition(loop(s, "P"), [None, 2, None]), "more than one length"),
        (padded, lambda s: s.loop_partition(loop(s, "P"), [4, 8]), "more than 10 leave room for"),
        (padded, lambda s: s.loop_partition(loop(s, "P"), [None, 0]), "one iteration at least"),
        (padded, lambda s: (s.parallel(loop(s, "P")), s.loop_partition(loop(s, "P"), [4])), "marked or annotated"),
        (siblings, lambda s: s.merge(loop(s, "B", 1), loop(s, "C", 1)), "iterations of j_m may meet in B"),
        (siblings, lambda s: s.merge(loop(s, "C"), loop(s, "B")), "not given in the order in which they run"),
        (siblings, lambda s: s.merge(loop(s, "B"), loop(s, "D")), "C is used between|B is used between"),
        (siblings, lambda s: s.merge(loop(s, "B"), loop(s, "C", 1)), "not equally deep"),
        (siblings, lambda s: s.merge(loop(s, "B"), loop(s, "B", 1)), "not beside one another"),
        (padded, lambda s: s.merge(loop(s, "P"), loop(s, "C")), "C has 8 iterations|i has 8 iterations, i has 10"),
        (products, lambda s: s.pad_einsum("C", [4, 4]), "are no factors for 3 axes"),
        (products, lambda s: s.pad_einsum("D", [1, 5]), "C is read at j.*%8, which is no axis"),
        (padded, lambda s: s.pad_einsum("C", [1, 1, 2, 1]), r"P is read at .*, which is no axis"),
        (weights_of_rows, lambda s: s.pad_einsum("D", [1, 5]), "would add 0.0f . W.i_1. for each k_1 more"),
        (products, lambda s: s.unsafe_set_dtype("D", 0, "float16"), "D is the caller's"),
    ],
)
def test_what_is_not_proved_is_refused(f, call, why: str) -> None:
    sch = tir.Schedule(f)
    with pytest.raises(ScheduleError, match=why):
        call(sch)


def test_a_refused_call_leaves_the_schedule_as_it_was() -> None:
    sch = tir.Schedule(products)
    i, _, k = sch.get_loops("C")
    sch.split(i, [None, 4])
    before = sch.mod.script()
    with pytest.raises(ScheduleError):
        sch.merge(loop(sch, "B"), k)
    assert sch.mod.script() == before and sch.schedule["C"].loops
    sch.rfactor(k)


def test_padding_is_stored_where_it_was_asked_for() -> None:
    sch = tir.Schedule(padded)
    assert sch.can_decompose_padding("P", loop(sch, "P")) and not sch.can_decompose_padding("D", loop(sch, "D"))
    i, j, _, _ = sch.get_loops("C")
    i0, _ = sch.split(i, [None, 4])
    sch.reorder(i0, j)
    sch.compute_at("P", i0)
    inner = sch.get_loops("P")[1]
    first = sch.decompose_padding("P", inner)
    assert first.name == "P_pad_const"
    assert [sch.get(x).extent.value for x in sch.get_loops(first)] == [2, 6, 15]
    assert [sch.get(x).extent.value for x in sch.get_loops("P")] == [2, 6, 12]  # columns are cut to what is no padding
    checked(sch, _padded(VALUES))
    found = np.zeros((8, 12), "float32")
    sch.parallel(i0)
    tvm.build(sch.mod, target="llvm")(VALUES, found)
    np.testing.assert_array_equal(found, _padded(VALUES))
    with pytest.raises(ScheduleError, match="P pads nothing|P stores no choice"):
        sch.decompose_padding("P", inner)


def test_a_function_that_has_stages_again_is_scheduled_as_such() -> None:
    sch = tir.Schedule(products)
    i, j, k = sch.get_loops("C")
    sch.pad_einsum("C", [16, 1, 16])
    assert [sch.get(x).extent.value for x in sch.get_loops("C")] == [16, 8, 16]
    _, inner = sch.split(k, [None, 4])  # k is the loop of the function as it was
    partial = sch.rfactor(inner)
    sch.parallel(i)
    sch.vectorize(j)
    names = [b.name for b in sch.get_child_blocks(sch.get_block("root"))]
    assert sorted(names) == sorted(["B", "A_pad", "B_pad", partial.name, "C", "C_pad", "D"])
    found = np.zeros((8, 12), "float32")
    tvm.build(sch.mod, target="llvm")(VALUES, found)
    np.testing.assert_array_equal(found, _products(VALUES))
    verify_trace_roundtrip(sch, products)
    sch.unsafe_set_dtype("B", 0, "int32")
    sch.loop_partition(loop(sch, "D"), [2])
    assert [b.name for b in sch.get_child_blocks(sch.get_block("D_i_common"))] == ["D_i0_partition", "D_i1_partition"]
    checked(sch, _products(VALUES))
    verify_trace_roundtrip(sch, products)


@T.prim_func
def any_rows(a: T.handle, b: T.Buffer((12, 20), "float32"), c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 12), "float32")
    C = T.match_buffer(c, (n, 20), "float32")
    for i, j, k in T.grid(n, 20, 12):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * b[vk, vj]


def of_work_items(sch) -> None:
    """A product of tiles in shared memory, over rows that are padded to whole tiles."""
    block = sch.get_block("C")
    sch.pad_einsum(block, [16, 16, 8])
    i, j, k = sch.get_loops(block)
    by, ty, yi = sch.split(i, [None, 4, 4])
    bx, tx, xi = sch.split(j, [None, 8, 2])
    ko, ki = sch.split(k, [None, 8])
    sch.reorder(by, bx, ty, tx, ko, ki, yi, xi)
    for x, thread in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y"), (tx, "threadIdx.x")):
        sch.bind(x, thread)
    sch.reverse_compute_at(sch.cache_write(block, 0, "local"), tx)
    for k in range(2):
        copy = sch.cache_read(block, k, "shared")
        sch.compute_at(copy, ko)
        y, x, _ = sch.split(sch.fuse(*sch.get_loops(copy)[-2:]), [4, 8, None])
        sch.bind(y, "threadIdx.y")
        sch.bind(x, "threadIdx.x")
        sch.compute_inline(sch.get_block("A_pad" if k == 0 else "b_pad"))
    sch.reverse_compute_inline(sch.get_block("C_pad"))
    sch.decompose_reduction(block, ko)


def test_rows_are_padded_to_tiles_of_work_items() -> None:
    sch = tir.Schedule(any_rows)
    of_work_items(sch)
    run, rng = tvm.build(sch.mod, target="opencl"), np.random.default_rng(5)
    for n in (1, 16, 37):
        a, b = (rng.integers(-4, 5, shape).astype("float32") for shape in ((n, 12), (12, 20)))
        c = np.zeros((n, 20), "float32")
        run(a, b, c)
        np.testing.assert_array_equal(c, a @ b)


def test_copies_at_a_loop() -> None:
    for program, reference in ((products, _products), (of_statements, _of_statements)):
        sch = tir.Schedule(program)
        i, j = (loop(sch, "C"), loop(sch, "D", 1)) if program is products else (loop(sch, "row"), loop(sch, "D"))
        read = sch.read_at(i if program is products else j, "C" if program is products else "D", 0, "local")
        assert read.name.endswith("local")
        sch.unsafe_hide_buffer_access("D", "read", [0])
        with pytest.raises(ScheduleError, match="no such buffer"):
            sch.unsafe_hide_buffer_access("D", "write", [1])
        checked(sch, reference(VALUES))
    sch = tir.Schedule(siblings)
    copy = sch.write_at(loop(sch, "C"), "C", 0, "local")
    assert [x.name for x in sch.get_loops(copy)][:1] == ["i"]
    checked(sch, PROGRAMS["siblings"][1](VALUES))


@T.prim_func
def rows_by_weights(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (4, 1, 24), "float32")
    B = T.match_buffer(b, (4, n, 24), "float32")
    C = T.match_buffer(c, (4, 1, n), "float32")
    for i, j, m, k in T.grid(4, 1, n, 24):
        with T.block("C"):
            vi, vj, vm, vk = T.axis.remap("SSSR", [i, j, m, k])
            with T.init():
                C[vi, vj, vm] = T.float32(0)
            C[vi, vj, vm] = C[vi, vj, vm] + A[vi, vj, vk] * B[vi, vm, vk]


def parts_in_a_loop(sch, rng: random.Random) -> bool:
    """Sum parts of a row, and the parts in a loop that computes them; whether that was possible."""
    i, j, m, k = sch.get_loops("C")
    if rng.random() < 0.6:
        sch.fuse(*rng.choice([(i, j, m), (i, j), (j, m)]))
    _, inner = sch.split(k, [None, rng.choice([2, 4, 5])])
    parts = sch.rfactor(inner, rng.choice([0, 1, 3]))
    at = rng.choice(sch.get_loops(parts)[:3])
    try:
        sch.reverse_compute_at("C", at, rng.random() < 0.5)
    except ScheduleError:
        return False
    if rng.random() < 0.5:
        sch.parallel(sch.get_loops("C")[0])
    return True


def test_parts_of_sums_are_summed_in_the_loop_that_computes_them() -> None:
    numbers = np.random.default_rng(7)
    a, b = (numbers.integers(-4, 5, shape).astype("float32") for shape in ((4, 1, 24), (4, 7, 24)))
    made = 0
    for seed in range(30):
        sch = tir.Schedule(rows_by_weights)
        made += parts_in_a_loop(sch, random.Random(seed))
        found = np.full((4, 1, 7), np.nan, "float32")
        f = sch.mod["main"]
        interpret(f if isinstance(f, Function) else tvm.lower(f)["main"], [a, b, found])
        np.testing.assert_array_equal(found, np.einsum("ijk,ilk->ijl", a, b), err_msg=sch.mod.script())
    assert made > 10


def test_parts_of_sums_are_summed_by_work_items() -> None:
    sch = tir.Schedule(rows_by_weights)
    i, j, m, k = sch.get_loops("C")
    sch.fuse(i, j, m)
    parts = sch.rfactor(sch.split(k, [None, 8])[1], 0)
    row, r, item = sch.get_loops(parts)
    sch.reorder(row, item, r)
    sch.bind(row, "blockIdx.x")
    sch.bind(item, "threadIdx.x")
    sch.reverse_compute_at("C", row)
    sch.bind(sch.get_loops("C")[1], "threadIdx.x")
    sch.set_scope(parts, 0, "local")
    sch.decompose_reduction(parts, sch.get_loops(parts)[2])
    numbers = np.random.default_rng(7)
    a, b = (numbers.integers(-4, 5, shape).astype("float32") for shape in ((4, 1, 24), (4, 7, 24)))
    found = np.zeros((4, 1, 7), "float32")
    tvm.build(sch.mod, target="opencl")(a, b, found)
    np.testing.assert_array_equal(found, np.einsum("ijk,ilk->ijl", a, b))


def test_loops_of_another_schedule() -> None:
    one, other = tir.Schedule(products), tir.Schedule(products)
    calls = (
        lambda x: one.split(x, [None, 2]),
        lambda x: one.compute_at("B", x),
        lambda x: one.annotate(x, "key", 1),
        lambda x: one.add_unit_loop(x),
        lambda x: one.reverse_compute_at("D", x),
    )
    for call in calls:
        with pytest.raises(ScheduleError, match="is no loop of this schedule"):
            call(loop(other, "C"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_copies_take_loops_of_what_they_are_copies_of(name: str) -> None:
    f, reference = PROGRAMS[name]
    for seed in range(6):
        sch, rng, held = tir.Schedule(f), random.Random(seed), []
        for _ in range(3):
            random_call(sch, rng, held)
        copy = sch.copy()
        before = sch.mod.script()
        assert copy.mod.script() == before
        made = [random_call(copy, rng, held) for _ in range(5)]
        assert sch.mod.script() == before
        checked(copy, reference(VALUES))
        if not any(made):
            verify_trace_roundtrip(copy, f)


def test_a_loop_is_split_in_a_schedule_and_in_its_copy() -> None:
    sch = tir.Schedule(products)
    i, j, k = sch.get_loops("C")
    sch.pad_einsum("C", [16, 1, 1])
    i0, _ = sch.split(i, [None, 4])
    copy = sch.copy()
    again = copy.copy()
    for s, factor in ((sch, 2), (copy, 3), (again, 6)):
        s.split(k, [None, factor])
        s.parallel(i0)
        assert [s.get(x).extent.value for x in s.get_loops("C")] == [4, 4, 8, 12 // factor, factor]
        checked(s, _products(VALUES))
    assert [b.name for b in copy.get_child_blocks(i0)] == ["C"]
    copy.split(j, [None, 2])
    with pytest.raises(ScheduleError, match="C.j was already split"):
        copy.split(j, [None, 2])
    sch.split(j, [None, 2])
