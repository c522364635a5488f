"""The sanitizing interpreter: each kind of defect is found, with who did what where, and nothing else is."""

from __future__ import annotations

import random

import numpy as np
import pytest

import autosched
from autosched import te
from autosched.errors import BuildError
from autosched.ir.calls import call_packed, view_of
from autosched.ir.dtype import INT32, dtype
from autosched.ir.expr import Expr, const, if_then_else, likely, maximum, var
from autosched.ir.functions import register_func
from autosched.ir.stmt import (
    Allocate,
    Barrier,
    Buffer,
    Evaluate,
    For,
    Function,
    If,
    Launch,
    Seq,
    Stmt,
    Store,
    load,
    map_stmt,
    seq,
    walk,
)
from autosched.lowering import lower_structure
from autosched.runtime.interpreter import interpret, sanitize
from autosched.runtime.shadow import Finding
from autosched.sanitizing import index_bits
from autosched.schedule import create_schedule
from autosched.space.default import default_schedule
from autosched.space.loading import find_workload, list_workloads
from autosched.target import Target
from autosched.testing.oracle import check_against_reference
from autosched.testing.programs import random_program
from autosched.testing.schedules import random_schedule

N = 6
A = Buffer("A", (const(N),), INT32)
B = Buffer("B", (const(N),), INT32)
i, j = var("i", role="loop"), var("j", role="loop")


def program(body: Stmt) -> Function:
    return Function("f", (A, B), (), body, (1,))


def loop(v: Expr, extent: object, body: Stmt, kind: str = "serial", start: object = 0) -> For:
    return For(v, const(start), const(extent), kind, body)


def defects(body: Stmt, index_bits: int = 64) -> tuple[Finding, ...]:
    """What the sanitizer finds; `interpret` must raise the first of it, or nothing."""

    def arrays() -> list[np.ndarray]:
        return [np.arange(10, 10 + N, dtype=np.int32), np.zeros(N, np.int32)]

    found = sanitize(program(body), arrays(), index_bits)
    if found:
        with pytest.raises(BuildError) as raised:
            interpret(program(body), arrays(), index_bits)
        assert raised.value.why == found[0].why
    else:
        interpret(program(body), arrays(), index_bits)
    return found


def only(body: Stmt, index_bits: int = 64) -> Finding:
    (found,) = defects(body, index_bits)
    assert found.kind in Finding.KINDS
    return found


FILL = loop(i, N, Store(B, (i,), const(0)))


# -- memory -------------------------------------------------------------------------------------------


def test_a_clean_program() -> None:
    assert defects(loop(i, N, Store(B, (i,), load(A, i) * 2), "parallel")) == ()


@pytest.mark.parametrize(("shift", "at"), [(1, N - 1), (-1, 0)])
def test_a_read_out_of_bounds(shift: int, at: int) -> None:
    found = only(loop(i, N, Store(B, (i,), load(A, i + shift))))
    assert (found.kind, found.buffer, found.element) == ("out-of-bounds", "A", (at + shift,))
    assert found.party is not None and found.party.at == {"i": at}
    assert "reads A[i" in found.party.does and found.why == f"read of A[{at + shift}] is outside [6]"


def test_a_write_out_of_bounds_is_left_out_and_counted() -> None:
    found = only(loop(i, N + 3, Store(B, (i,), const(1))))
    assert (found.kind, found.element, found.count) == ("out-of-bounds", (N,), 3)
    assert str(found) == "out-of-bounds: write to B[6] is outside [6]\n  writes B[i] at i=6\n  3 times"


def test_a_read_of_what_was_never_written() -> None:
    t = Buffer("t", (const(N),), INT32, "local")
    body = Allocate(t, seq(loop(i, N - 1, Store(t, (i,), const(3))), loop(j, N, Store(B, (j,), load(t, j)))))
    found = only(body)
    assert (found.kind, found.buffer, found.element) == ("uninitialised-read", "t", (5,))
    assert found.party is not None and found.party.at == {"j": 5}


def test_memory_is_new_in_every_iteration() -> None:
    t = Buffer("t", (const(1),), INT32, "local")
    write = If(i < 1, Store(t, (const(0),), const(3)))
    found = only(loop(i, N, Allocate(t, seq(write, Store(B, (i,), load(t, const(0)))))))
    assert (found.kind, found.count) == ("uninitialised-read", N - 1)


def test_an_output_that_is_not_computed() -> None:
    found = only(loop(i, N - 2, Store(B, (i,), const(1))))
    assert (found.kind, found.buffer, found.element) == ("unwritten-output", "B", (4,))


# -- parallel loops -----------------------------------------------------------------------------------


def test_two_iterations_write_one_element() -> None:
    found = only(seq(FILL, loop(j, N, Store(B, (j // 2,), load(A, j)), "parallel")))
    assert (found.kind, found.buffer, found.element, found.count) == ("race", "B", (0,), 3)
    assert found.party is not None and found.other is not None
    assert (found.other.at, found.party.at) == ({"j": 0}, {"j": 1})
    assert found.party.does == "writes B[j//2]"
    assert "B[0] is written by two iterations of the parallel loop j, in no order" in str(found)


def test_one_iteration_reads_what_another_writes() -> None:
    later = seq(FILL, loop(j, N - 1, Store(B, (j,), load(B, j + 1) + 1), "parallel"))
    earlier = seq(FILL, loop(j, N - 1, Store(B, (j + 1,), load(B, j) + 1), "parallel"))
    for body, reader, writer in ((later, 0, 1), (earlier, 1, 0)):
        found = only(body)
        assert (found.kind, found.why[:26]) == ("race", "B[1] is written and read b")
        sides = {p.does.split()[0]: p.at for p in (found.party, found.other) if p is not None}
        assert sides == {"reads": {"j": reader}, "writes": {"j": writer}}


def test_a_parallel_sum() -> None:
    """The classic: every iteration adds to one element."""
    total = Store(B, (const(0),), load(B, const(0)) + load(A, j))
    kinds = [f.kind for f in defects(seq(FILL, loop(j, N, total, "parallel")))]
    assert kinds == ["race"] * len(kinds) and kinds


def test_a_far_reader_is_not_forgotten() -> None:
    """Between the two, the writer's own iteration reads the element as well."""
    reads = Store(B, (const(1),), load(B, const(0)) * load(A, j))
    writes = seq(reads, Store(B, (const(0),), const(7)))
    body = loop(j, 3, If(j < 2, reads, writes), "parallel")
    found = only(seq(FILL, body))
    assert (found.kind, found.element, found.why.split(" by ")[0]) == ("race", (0,), "B[0] is written and read")


def test_what_comes_one_after_the_other_is_no_race() -> None:
    """Serial iterations around parallel ones, and two parallel loops in a row, are in order."""
    k = var("k", role="loop")
    shift = loop(j, N, Store(B, (j,), load(B, N - 1 - j)), "parallel")
    assert [f.kind for f in defects(seq(FILL, loop(k, 2, Store(B, (k,), const(5))), shift))] == ["race"]
    one = loop(j, N, Store(B, (j,), load(A, j)), "parallel")
    other = loop(j, N, Store(B, (N - 1 - j,), load(A, j)), "parallel")
    assert defects(loop(k, 2, seq(one, other))) == ()


def test_nested_parallel_loops() -> None:
    """Iterations of the inner loop race only with their cousins of the outer one."""
    own = loop(i, 3, loop(j, 2, Store(B, (i * 2 + j,), i + j), "parallel"), "parallel")
    assert defects(own) == ()
    found = only(seq(FILL, loop(i, 3, loop(j, 2, Store(B, (i + j,), i * 5 + 1), "parallel"), "parallel")))
    assert "the parallel loop i" in found.why
    assert found.party is not None and found.party.at == {"i": 1, "j": 0}


def test_elements_computed_twice_and_alike_are_no_race() -> None:
    """As the tails of split(tail="shift_inwards") are."""
    assert defects(loop(i, 2, loop(j, 4, Store(B, (i * 2 + j,), load(A, i * 2 + j))), "parallel")) == ()


def test_memory_of_an_iteration_is_its_own() -> None:
    t = Buffer("t", (const(2),), INT32, "local")
    one = seq(Store(t, (const(0),), i), Store(B, (i,), load(t, const(0))))
    assert defects(loop(i, N, Allocate(t, one), "parallel")) == ()
    shared_by_all = Allocate(t, loop(i, N, one, "parallel"))
    assert {f.buffer for f in defects(shared_by_all)} == {"t"}


def test_functions_from_outside_race_as_well() -> None:
    """What a call changed, it wrote."""

    def fill(row: np.ndarray, value: int) -> None:
        row[:] = value

    register_func("test.sanitizer.fill", fill, override=True)

    def call(step: int) -> Stmt:
        place = view_of(B, j * step, (2,), (1,))
        return loop(j, 3, Evaluate(call_packed("test.sanitizer.fill", place, j + 1)), "parallel")

    assert defects(call(2)) == ()
    found = defects(seq(FILL, call(1)))
    assert [(x.kind, x.element) for x in found] == [("race", (1,))] and found[0].count == 2
    assert found[0].party is not None and found[0].party.does.startswith("calls test.sanitizer.fill(")


# -- kernels ------------------------------------------------------------------------------------------

BLOCK, THREAD = var("blockIdx.x", role="thread"), var("threadIdx.x", role="thread")
TILE = Buffer("tile", (const(3),), INT32, "shared")


def kernel(body: Stmt) -> Launch:
    """Two groups of three work-items."""
    return Launch("k", (const(2), const(1), const(1)), (const(3), const(1), const(1)), body)


AT = BLOCK * 3 + THREAD
PUT = Store(TILE, (THREAD,), load(A, AT))
TAKE = Store(B, (AT,), load(TILE, 2 - THREAD))


def test_a_tile_and_its_barrier() -> None:
    assert defects(kernel(Allocate(TILE, seq(PUT, Barrier(), TAKE)))) == ()


def test_a_missing_barrier() -> None:
    """The work-items run one after the other here, so the first of them finds nothing there."""
    found = defects(kernel(Allocate(TILE, seq(PUT, TAKE))))
    assert {f.kind for f in found} == {"uninitialised-read", "race"}
    race = next(f for f in found if f.kind == "race")
    assert race.buffer == "tile" and "two work-items of a group with no barrier between" in race.why
    assert race.party is not None and race.other is not None
    assert race.party.at["threadIdx.x"] != race.other.at["threadIdx.x"]
    assert race.party.at["blockIdx.x"] == race.other.at["blockIdx.x"]


def test_work_groups_have_no_order() -> None:
    """A barrier is for the work-items of one group."""
    body = seq(Store(B, (THREAD,), AT + 1), Barrier("global"), Store(B, (THREAD + 3,), AT))
    found = defects(kernel(body))
    assert [f.why for f in found] == [
        "B[0] is written by two work-groups of k, in no order",
        "B[3] is written by two work-groups of k, in no order",
    ]


@pytest.mark.parametrize(("scope", "kinds"), [("global", []), ("shared", ["race"])])
def test_a_barrier_orders_the_memory_that_it_names(scope: str, kinds: list[str]) -> None:
    """OpenCL's fence of local memory says nothing of global memory."""
    first = Store(B, (AT,), AT)
    take = If(THREAD < 1, Store(TILE, (THREAD,), load(B, BLOCK * 3 + 2)))
    assert [f.kind for f in defects(kernel(Allocate(TILE, seq(first, Barrier(scope), take))))] == kinds


def test_a_barrier_that_some_do_not_reach() -> None:
    found = only(kernel(seq(If(THREAD < 2, Barrier()), Store(B, (AT,), const(1)))))
    assert (found.kind, found.why) == ("divergent-barrier", "2 of 3 work-items reach a barrier of k")
    assert found.party is not None and found.other is not None
    assert found.party.at["threadIdx.x"] == 0 and found.other.at["threadIdx.x"] == 2
    assert found.count == 2  # in each group


def test_two_barriers_for_one() -> None:
    """All wait, but not at the same barrier."""
    found = only(kernel(seq(If(THREAD < 1, Barrier(), Barrier()), Store(B, (AT,), const(1)))))
    assert found.kind == "divergent-barrier"


def test_one_barrier_in_different_rounds() -> None:
    wait = loop(i, 3, If((THREAD < 1).astype("int32") <= i, Barrier()))
    assert "divergent-barrier" in {f.kind for f in defects(kernel(seq(wait, Store(B, (AT,), const(1)))))}
    assert defects(kernel(seq(loop(i, 3, Barrier()), Store(B, (AT,), const(1))))) == ()


# -- indices ------------------------------------------------------------------------------------------


def test_an_index_that_overflows() -> None:
    far = (i + 1) * 2_000_000_000
    body = loop(i, N, Store(B, (far // 2_000_000_000 - 1,), const(1)))
    assert defects(body) == ()
    found = only(body, index_bits=32)
    assert (found.kind, found.count) == ("index-overflow", N - 1)
    assert found.why == "the index (i + 1)*2000000000 is 4000000000, too large for 32 bits"
    assert found.party is not None and found.party.at == {"i": 1}
    very_far = (i.astype("int64") + 1) * (2**62)
    assert only(loop(i, N, Store(B, (very_far // 2**62 - 1,), const(1)))).kind == "index-overflow"


def test_a_division_by_zero_in_an_index() -> None:
    for body in (
        If(likely(3 // (i - 2) < 9), Store(B, (i,), const(1))),
        Store(B, (maximum(3 // (i - 2), 0),), const(1)),
        Store(B, (i,), load(A, maximum(3 // (i - 2), 0))),
    ):
        found = next(f for f in defects(loop(i, N, body)) if f.kind == "division-by-zero")
        assert found.party is not None
        assert found.party.at == {"i": 2}
    guarded = if_then_else(i < 3, 0, 3 // (i - 2))
    assert defects(loop(i, N, If(likely(guarded < 9), Store(B, (i,), const(1))))) == ()


def test_a_value_that_is_divided_by_zero() -> None:
    """The language says that it is 0, whether or not variables alone decide it."""
    n = te.var("n")
    a, k = te.placeholder((n,), "int32", name="A"), te.reduce_axis((0, n), name="k")
    for body in (
        lambda j: te.floordiv(5, j),
        lambda j: a[j] + te.floormod(7, j - 2),
        lambda j: te.truncdiv(j + 1, j - 1).astype("float32"),
        lambda j: te.select(te.floordiv(5, j) > 1, a[j], 0),
        lambda j: te.sum(a[k], axis=k, where=te.floordiv(3, k) > 0),
        lambda j: te.max(te.truncmod(3, k), axis=k),
    ):
        b = te.compute((n,), body, name="B")
        for backend in ("interpreter", "native"):
            check_against_reference([a, b], create_schedule(b), "llvm", [np.arange(5, dtype="int32")], backend)


# -- whole programs -----------------------------------------------------------------------------------


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, shape).astype(np.uint8)


def test_a_racy_schedule_is_found_in_the_lowered_program() -> None:
    """The same statements with the loop over time made parallel."""
    a = te.placeholder((8,), "float32", name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    c = te.compute((8,), lambda i: b[i] * b[7 - i], name="C")
    s = create_schedule(c)
    f = lower_structure(s, [a, c], "llvm").bind()
    values = [np.arange(8, dtype=np.float32), np.zeros(8, np.float32)]
    assert sanitize(f, values) == ()
    together = loop(i, 2, f.body, "parallel")
    assert sanitize(f.with_body(together), values) == ()  # twice the same
    t = Buffer("t", (const(1),), dtype("float32"))
    racy = Allocate(t, loop(i, 2, seq(Store(t, (const(0),), i.astype("float32")), f.body), "parallel"))
    assert [x.buffer for x in sanitize(f.with_body(racy), values)] == ["t"]


def test_a_barrier_left_out_of_a_lowered_kernel() -> None:
    a = te.placeholder((16,), "int32", name="A")
    b = te.compute((16,), lambda i: a[15 - i] * 3, name="B")
    s = create_schedule(b)
    fetch = s[s.cache_read(a, "shared", b)]
    block, thread = s[b].split("i", factor=8)
    s[b].bind(block, "blockIdx.x")
    s[b].bind(thread, "threadIdx.x")
    fetch.compute_at(s[b], block)
    fetch.bind(fetch.loops[-1], "threadIdx.x")
    f = lower_structure(s, [a, b], "opencl").bind()
    values = [np.arange(16, dtype=np.int32), np.zeros(16, np.int32)]
    assert sanitize(f, values) == ()
    bare = f.with_body(map_stmt(f.body, on_stmt=lambda x: Seq(()) if isinstance(x, Barrier) else x))
    assert any(isinstance(x, Barrier) for x in walk(f.body))
    assert "race" in {x.kind for x in sanitize(bare, values)}


@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_the_public_entry(target: str) -> None:
    a = te.placeholder((te.var("n"), 3), "uint8", name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j] / 2, name="B")
    s = default_schedule([a, b], Target.parse(target))
    assert autosched.sanitize(s, image(5, 3), target=target) == ()
    assert autosched.sanitize(autosched.lower(s, [a, b], target=target), image(5, 3)) == ()
    with pytest.raises(BuildError) as raised:
        autosched.sanitize(s, target=target)
    assert str(raised.value) == "sanitize(B): takes 1 arrays, got 0\n  one for each input: A: uint8[n, 3]"


def test_indices_are_as_wide_as_the_kernel_computes_them() -> None:
    """OpenCL counts in 32 bits where no index can leave them, of those work-items either that have no element."""
    n = te.var("n")
    a = te.placeholder((n,), "int32", name="A")
    b = te.compute((n,), lambda i: a[i * 10_000_000 % 7 % n], name="B")
    s = default_schedule([a, b], Target.parse("opencl"))
    f = lower_structure(s, [a, b], "opencl").bind()
    for length, bits in ((2, 32), (500, 64)):
        assert index_bits(f, Target.parse("opencl"), {"n": length}) == bits
        values = np.arange(length, dtype=np.int32)
        assert autosched.sanitize(s, values, target="opencl") == ()
        narrow = sanitize(f, [values, np.zeros_like(values)], 32)
        assert {x.kind for x in narrow} == ({"index-overflow"} if bits == 64 else set())


SMALL = {"height": 3, "width": 5, "out_height": 4, "out_width": 6, "channels": 3, "cin": 2, "cout": 3, "size": 9}
SMALL |= {"m": 5, "n": 6, "k": 3, "rows": 5, "columns": 7, "batch": 2}


@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_random_schedules_are_clean(target: str) -> None:
    for seed in range(700_000, 700_006):
        rng = random.Random(seed)
        p = random_program(rng, symbolic=True, gpu=target == "opencl")
        s = random_schedule(p.args, rng, target)
        assert autosched.sanitize(s, *p.inputs(seed), target=target, args=p.args) == (), (seed, p.describe())


@pytest.mark.parametrize("name", sorted(list_workloads()))
def test_default_schedules_of_the_search_spaces_are_clean(name: str) -> None:
    function = find_workload(name)
    arguments = {k: SMALL[k] for k in function.parameters if k in SMALL}
    w = function(**arguments)
    sizes = {k: SMALL.get(k, 4) for k in w.size_names()}
    for target in ("llvm", "opencl"):
        s = default_schedule(w.args, Target.parse(target))
        assert autosched.sanitize(s, *w.sample_inputs(sizes), target=target, args=w.args) == ()


def test_a_run_may_be_watched() -> None:
    a = te.placeholder((3,), name="a")
    b = te.compute((2,), lambda i: a[i] + a[i + 1], name="b")
    s = create_schedule(b)
    s[b].prefetch(a, "i", 2)
    seen: list[str] = []
    interpret(
        lower_structure(s, [a, b], "llvm").after("simplify"),
        [np.arange(3, dtype="float32"), np.zeros(2, "float32")],
        watch=lambda buffer, at, by, loops: seen.append(f"{type(by).__name__} {buffer.name}{at} {list(loops or ())}"),
    )
    first = seen[: len(seen) // 2]
    assert [x for x in first if "Prefetch" not in x] == [
        "Expr a[(0,)] [('i', 0)]",
        "Expr a[(1,)] [('i', 0)]",
        "Store b[(0,)] [('i', 0)]",
    ]
    assert {"Prefetch a[(2,)] [('i', 0)]", "Prefetch a[(3,)] [('i', 0)]"} <= set(first)
