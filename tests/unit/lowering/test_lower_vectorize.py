"""Vector and unrolled loops: what they become, and that they compute the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr, const, floordiv, var
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer, For, Function, If, Seq, Store, load, walk
from autosched.ir.visit import post_order
from autosched.lowering import lower_structure
from autosched.lowering.vectorize import vectorize_loops
from autosched.schedule import Schedule, create_schedule
from autosched.target import Target
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference


def store(f: Function) -> Store:
    """The store to the output with the most lanes."""
    out = f.params[f.outputs[0]]
    return max((s for s in walk(f.body) if isinstance(s, Store) and s.buffer is out), key=lambda s: s.value.dtype.lanes)


def loads(s: Store) -> list[str]:
    return [repr(e.args[0]) for e in post_order(s.value) if e.op == "load"]


def vectorized(read: Callable[[Tensor, Expr, Expr], Expr]) -> tuple[list[Tensor], Schedule]:
    """B[i, j] = read(A, i, j) for an 8x8 A, j in vectors of 8."""
    a = te.placeholder((8, 8), "int32", name="A")
    b = te.compute((8, 8), lambda i, j: read(a, i, j), name="B")
    s = create_schedule(b)
    s[b].vectorize("j")
    return [a, b], s


ACCESSES: dict[str, tuple[Callable[[Tensor, Expr, Expr], Expr], list[str]]] = {
    "contiguous": (lambda a, i, j: a[i, j], ["ramp(i*8, 8)"]),
    "reversed": (lambda a, i, j: a[i, 7 - j], ["ramp(i*8 + 7:-1, 8)"]),
    "down a column": (lambda a, i, j: a[j, i], ["ramp(i:8, 8)"]),
    "along the diagonal": (lambda a, i, j: a[j, j], ["ramp(0:9, 8)"]),
    "one for all lanes": (lambda a, i, j: a[i, 3], ["i*8 + 3"]),
    "every second": (lambda a, i, j: a[i, (j * 2) % 8], ["x8(i*8) + ramp(0, 8)%x8(4)*x8(2)"]),
    "the same one twice": (lambda a, i, j: a[i, j // 2], ["x8(i*8) + ramp(0, 8)//x8(2)"]),
}


@pytest.mark.parametrize("name", ACCESSES)
def test_an_access_of_all_lanes(name: str) -> None:
    read, expected = ACCESSES[name]
    args, s = vectorized(read)
    found = store(lower_structure(s, args, "llvm").bind())
    assert repr(found.indices[0]) == "ramp(i*8, 8)"
    assert loads(found) == expected
    values = np.random.default_rng(0).integers(-9, 9, (8, 8)).astype(np.int32)
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", [values], backend)


def test_an_index_read_from_memory_is_a_gather() -> None:
    a = te.placeholder((8,), "int32", name="A")
    b = te.compute((8,), lambda i: a[te.max(te.min(a[i], 7), 0)], name="B")
    s = create_schedule(b)
    s[b].vectorize("i")
    found = store(lower_structure(s, [a, b], "llvm").bind())
    assert found.value.args[0].dtype.lanes == 8
    for backend in ("native", "interpreter"):
        check_against_reference([a, b], s, "llvm", [np.arange(8, dtype=np.int32)[::-1].copy()], backend)


def test_the_value_of_a_lane_can_be_its_number() -> None:
    a = te.placeholder((8,), "int32", name="A")
    b = te.compute((8,), lambda i: a[i] * 10 + i, name="B")
    s = create_schedule(b)
    s[b].vectorize("i")
    for backend in ("native", "interpreter"):
        check_against_reference([a, b], s, "llvm", [np.arange(8, dtype=np.int32)], backend)


def test_a_reduction_inside_a_vector_loop() -> None:
    """Each lane adds up its own column: one vector accumulator."""
    a = te.placeholder((16, 8), "int32", name="A")
    k = te.reduce_axis((0, 16), name="k")
    b = te.compute((8,), lambda j: te.sum(a[k, j], axis=k), name="B")
    s = create_schedule(b)
    s[b].vectorize("j")
    f = lower_structure(s, [a, b], "llvm").bind()
    stores = [x for x in walk(f.body) if isinstance(x, Store)]
    assert [x.value.dtype.lanes for x in stores] == [8, 8]
    assert len([x for x in walk(f.body) if isinstance(x, For)]) == 1
    values = np.random.default_rng(0).integers(-9, 9, (16, 8)).astype(np.int32)
    check_against_reference([a, b], s, "llvm", [values])


def test_a_vector_loop_inside_another_stays_the_inner_one() -> None:
    a = te.placeholder((4, 8), "int32", name="A")
    b = te.compute((4, 8), lambda i, j: a[i, j] + 1, name="B")
    s = create_schedule(b)
    s[b].vectorize("i")
    s[b].vectorize("j")
    f = lower_structure(s, [a, b], "llvm").bind()
    assert store(f).value.dtype.lanes == 8
    assert [x.kind for x in walk(f.body) if isinstance(x, For)] == ["serial"]
    check_against_reference([a, b], s, "llvm", [np.arange(32, dtype=np.int32).reshape(4, 8)])


def test_a_vector_loop_outside_a_serial_one() -> None:
    """The lanes go through the inner loop together."""
    a = te.placeholder((4, 6), "int32", name="A")
    b = te.compute((4, 6), lambda i, j: a[i, j] + 1, name="B")
    s = create_schedule(b)
    s[b].vectorize("i")
    f = lower_structure(s, [a, b], "llvm").bind()
    assert store(f).indices[0].dtype.lanes == 4
    assert [x.var.name for x in walk(f.body) if isinstance(x, For)] == ["j"]
    check_against_reference([a, b], s, "llvm", [np.arange(24, dtype=np.int32).reshape(4, 6)])


def test_lanes_that_ask_different_questions_run_one_by_one() -> None:
    """A ragged end that partitioning cannot cut off: the guard stays a branch for each lane."""
    n = te.var("n")
    a = te.placeholder((n, n), "int32", name="A")
    b = te.compute((n, n), lambda i, j: a[i, j] + 1, name="B")
    s = create_schedule(b)
    fused = s[b].fuse("i", "j")
    _, inner = s[b].split(fused, factor=8)
    s[b].vectorize(inner)
    for size in (1, 3, 5):
        values = np.arange(size * size, dtype=np.int32).reshape(size, size)
        for backend in ("native", "interpreter"):
            check_against_reference([a, b], s, "llvm", [values], backend)


def test_a_vector_of_one_lane_is_a_scalar() -> None:
    a = te.placeholder((3,), "int32", name="A")
    b = te.compute((3,), lambda i: a[i] + 1, name="B")
    s = create_schedule(b)
    _, inner = s[b].split("i", factor=1)
    s[b].vectorize(inner)
    assert store(lower_structure(s, [a, b], "llvm").bind()).value.dtype.lanes == 1
    check_against_reference([a, b], s, "llvm", [np.arange(3, dtype=np.int32)])


def test_types_of_different_width_share_their_lanes() -> None:
    a = te.placeholder((16,), "uint8", name="A")
    b = te.compute((16,), lambda i: (a[i].astype("uint16") * 257).astype("float32"), name="B")
    s = create_schedule(b)
    s[b].vectorize("i")
    found = store(lower_structure(s, [a, b], "llvm").bind())
    assert {e.dtype.lanes for e in post_order(found.value) if not e.op.startswith(("const", "var"))} <= {1, 16}
    check_against_reference([a, b], s, "llvm", [np.arange(240, 256, dtype=np.uint8)])


def test_unrolled_iterations_are_written_out() -> None:
    a = te.placeholder((5, 3), "int32", name="A")
    b = te.compute((5, 3), lambda i, j: a[i, j] + j, name="B")
    s = create_schedule(b)
    s[b].unroll("j")
    f = lower_structure(s, [a, b], "llvm").bind()
    stores = [x for x in walk(f.body) if isinstance(x, Store)]
    assert [repr(x.indices[0]) for x in stores] == ["i*3", "i*3 + 1", "i*3 + 2"]
    check_against_reference([a, b], s, "llvm", [np.arange(15, dtype=np.int32).reshape(5, 3)])


def test_an_unrolled_loop_with_a_producer_in_it() -> None:
    """Each copy has the storage to itself."""
    a = te.placeholder((4, 6), "int32", name="A")
    b = te.compute((4, 6), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((4, 6), lambda i, j: b[i, j] + b[i, 5 - j], name="C")
    s = create_schedule(c)
    s[b].compute_at(s[c], "i")
    s[c].unroll("i")
    for backend in ("native", "interpreter"):
        check_against_reference([a, c], s, "llvm", [np.arange(24, dtype=np.int32).reshape(4, 6)], backend)


def test_an_unrolled_ragged_loop_is_a_plain_one_at_the_border() -> None:
    n = te.var("n")
    a = te.placeholder((n,), "int32", name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    s = create_schedule(b)
    _, inner = s[b].split("i", factor=4)
    s[b].unroll(inner)
    f = lower_structure(s, [a, b], "llvm").bind()
    assert not any(isinstance(x, If) for x in walk(f.body))
    assert sum(isinstance(x, Store) for x in walk(f.body)) == 5
    for length in (0, 1, 3, 4, 5, 9):
        check_against_reference([a, b], s, "llvm", [np.arange(length, dtype=np.int32)], "interpreter")


def test_the_last_copy_has_the_lanes_that_are_left() -> None:
    a = te.placeholder((21,), "int32", name="A")
    b = te.compute((21,), lambda i: a[i] + 1, name="B")
    s = create_schedule(b)
    outer, lane = s[b].split("i", factor=8)
    s[b].unroll(outer)
    s[b].vectorize(lane)
    f = lower_structure(s, [a, b], "llvm").bind()
    assert [x.value.dtype.lanes for x in walk(f.body) if isinstance(x, Store)] == [8, 8, 5]


@pytest.mark.parametrize(("n", "offset", "items"), [(56, 0, 3), (57, 0, 8), (60, 4, 3), (40, 0, 3)])
def test_a_guard_on_which_all_lanes_agree_is_asked_once(n: int, offset: int, items: int) -> None:
    """The guard of whole vectors is one for all lanes, also where the last vector is not whole."""
    a = te.placeholder((n,), "int32", name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    c = te.compute((n - offset,), lambda i: b[i + offset] * 2, name="C")
    s = create_schedule(c)
    vectors, lane = s[c].split("i", factor=8)
    group, item = s[c].split(vectors, factor=items)
    s[c].bind(group, "blockIdx.x")
    s[c].bind(item, "threadIdx.x")
    s[c].vectorize(lane)
    s[b].compute_inline()
    function = lower_structure(s, [a, c], Target("opencl"), "f").bind({})
    assert 8 in {x.value.dtype.lanes for x in walk(function.body) if isinstance(x, Store)}
    guards = [x.condition for x in walk(function.body) if isinstance(x, If)]
    assert {repr(g).count("inner") for g in guards} == {0}
    check_against_reference([a, c], s, "opencl", [np.arange(n, dtype=np.int32)])


def test_pieces_of_one_loop_are_told_apart() -> None:
    """Loops that were one share their variable, and in each of them it has another range."""
    a, out = (Buffer(name, (const(64),), dtype("int32")) for name in ("a", "out"))
    i, j = var("i", role="loop"), var("j", role="loop")
    body = Store(out, (i + j * 4,), load(a, i + floordiv(j, 8) * 4) + 1)
    pieces = [For(j, const(start), const(8), "serial", body) for start in (0, 8)]
    result = vectorize_loops(For(i, const(0), const(4), "vectorize", Seq(tuple(pieces))), Analyzer())
    assert [loads(s) for s in walk(result) if isinstance(s, Store)] == [["ramp(0, 4)"], ["ramp(j//8*4, 4)"]]


@pytest.mark.parametrize("length", [2048, 1100])
@pytest.mark.parametrize("kind", ["elements", "sums", "greatest"])
def test_more_lanes_than_a_vector_has(length: int, kind: str) -> None:
    """They are vectors in a loop, and one of what is left."""
    a = te.placeholder((2, length), "int32", name="A")
    k = te.reduce_axis((0, length), "k")
    if kind == "elements":
        b = te.compute((2, length), lambda i, j: a[i, length - 1 - j] * 3 + j, name="B")
    elif kind == "sums":
        b = te.compute((2,), lambda i: te.sum(a[i, k], axis=k), name="B")
    else:
        b = te.compute((2,), lambda i: te.max(a[i, k] * (k + 1), axis=k), name="B")
    s = create_schedule(b)
    s[b].vectorize(s[b].loops[-1])
    f = lower_structure(s, [a, b], "llvm").bind()
    assert max(e.dtype.lanes for x in walk(f.body) if isinstance(x, Store) for e in post_order(x.value)) == 64
    values = np.random.default_rng(5).integers(-99, 100, (2, length)).astype("int32")
    for backend in ("native", "interpreter"):
        check_against_reference([a, b], s, "llvm", [values], backend)
