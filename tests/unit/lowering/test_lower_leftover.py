"""What is left of a vector loop where its factor does not divide: narrower vectors, then single elements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import te
from autosched.ir.dtype import dtype
from autosched.ir.expr import const, minimum, var
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer, For, Function, Store, load, walk
from autosched.ir.visit import post_order
from autosched.lowering import lower_structure
from autosched.lowering.vectorize import vectorize_loops
from autosched.runtime.interpreter import interpret
from autosched.schedule import create_schedule
from autosched.testing.oracle import check_against_reference

LENGTHS = (0, 1, 3, 4, 15, 16, 17, 31, 32, 33, 47, 52, 63, 64, 71, 128)


def lanes_stored(f: Function) -> set[int]:
    return {s.indices[0].dtype.lanes for s in walk(f.body) if isinstance(s, Store)}


@pytest.mark.parametrize("parallel", [False, True])
def test_sums_that_are_read_back(parallel: bool) -> None:
    """No element may be added to twice, so vectors do not overlap: 32, then 16, then 4 lanes, then 1."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), "int32", name="A")
    k = te.reduce_axis((0, n), "k")
    r = te.compute((m,), lambda j: te.sum(a[k, j], axis=k), name="R")
    s = create_schedule(r)
    outer, inner = s[r].split("j", factor=32)
    s[r].reorder(outer, "k", inner)
    s[r].vectorize(inner)
    if parallel:
        s[r].parallel(outer)
    assert lanes_stored(lower_structure(s, [a, r], "llvm").bind()) == {32, 16, 4, 1}
    inputs = [[np.arange(3 * length, dtype=np.int32).reshape(3, length)] for length in LENGTHS]
    for backend in ("native", "interpreter"):
        check_against_reference([a, r], s, "llvm", inputs[0], backend, more=inputs[1:])  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(), (1,)])
def test_lanes_of_a_sum(shape: tuple[int, ...]) -> None:
    """A vectorized reduce loop: what is left over is combined four lanes at a time."""
    n = te.var("n")
    a = te.placeholder((n,), "int32", name="A")
    k = te.reduce_axis((0, n), "k")
    r = te.compute(shape, lambda *_: te.sum(a[k], axis=k), name="R")
    s = create_schedule(r)
    s[r].split("k", factor=32)
    s[r].vectorize("k.inner")
    inputs = [[np.arange(length, dtype=np.int32)] for length in LENGTHS]
    for backend in ("native", "interpreter"):
        check_against_reference([a, r], s, "llvm", inputs[0], backend, more=inputs[1:])  # type: ignore[arg-type]


@pytest.mark.parametrize("stride", [1, 2, 4, 5])
def test_loads_at_a_distance(stride: int) -> None:
    """Near ones are worth a vector, which stays inside the tensor; others are not."""
    n = te.var("n")
    a = te.placeholder((n,), "int32", name="A")
    b = te.compute((te.floordiv(n + stride - 1, stride),), lambda i: a[i * stride], name="B")
    s = create_schedule(b)
    s[b].split("i", factor=16)
    s[b].vectorize("i.inner")
    assert (8 in lanes_stored(lower_structure(s, [a, b], "llvm").bind())) == (stride <= 4)
    inputs = [[np.arange(length, dtype=np.int32)] for length in LENGTHS]
    for backend in ("native", "interpreter"):
        check_against_reference([a, b], s, "llvm", inputs[0], backend, more=inputs[1:])  # type: ignore[arg-type]


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_times_of_a_scan_take_turns(in_place: bool, sized: bool) -> None:
    """What a step reads lies in another plane than what it stores, unless it stores in place: vectors may overlap."""
    n = te.var("n") if sized else te.const(147, "int32")
    x, state = te.placeholder((n,), "int32", name="X"), te.placeholder((5, n), "int32", name="state")
    first = te.compute((1, n), lambda _, i: x[i], name="first")

    def move(t: te.Expr, i: te.Expr) -> te.Expr:
        left = state[t - 1, i if in_place else te.max(i - 1, 0)]
        return te.if_then_else(i > 0, left + state[t - 1, i] * 2, 3)

    step = te.compute((5, n), move, name="step")
    last = te.compute((n,), lambda i: te.scan(first, step, state, name="S")[4, i], name="last")
    s = create_schedule(last)
    s[step].vectorize(s[step].split("i", factor=64)[1])
    lanes = lanes_stored(lower_structure(s, [x, last], "llvm").bind())
    assert lanes == ({64, 32, 8, 1} if in_place else {64, 32, 1})
    inputs = [[np.arange(length, dtype=np.int32)] for length in (LENGTHS if sized else [147])]
    for backend in ("native", "interpreter"):
        check_against_reference([x, last], s, "llvm", inputs[0], backend, more=inputs[1:])  # type: ignore[arg-type]


@pytest.mark.parametrize("below", [False, True])
def test_the_other_side_of_a_choice_is_in_vectors(below: bool) -> None:
    """The zeros of a triangle are as many as its elements: no row stores them one by one where a vector has room."""
    a = te.placeholder((70, 70), "int32", name="A")
    b = te.compute((70, 70), lambda i, j: te.if_then_else(j < i if below else j > i, a[i, j], 0), name="B")
    s = create_schedule(b)
    s[b].vectorize(s[b].split("j", factor=32)[1])
    f = lower_structure(s, [a, b], "llvm").bind()
    zeros = {x.indices[0].dtype.lanes for x in walk(f.body) if isinstance(x, Store) and not _reads(x)}
    assert zeros == {16, 1}
    x = np.arange(1, 4901, dtype=np.int32).reshape(70, 70)
    for backend in ("native", "interpreter"):
        check_against_reference([a, b], s, "llvm", [x], backend)  # type: ignore[arg-type]


def _reads(s: Store) -> bool:
    return any(e.op == "load" for e in post_order(s.value))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_leftovers_that_do_not_run_in_every_tile(data: st.DataObject) -> None:
    """A piece of a loop may be empty in all tiles but one: that it runs tells which tile, but not outside the piece."""
    lanes, unit = data.draw(st.sampled_from([(4, 1), (4, 4), (16, 16)]), "lanes, unit")
    tile, i = var("tile", role="loop"), var("i", role="loop")
    extent = (tile * data.draw(st.integers(-2, 2), "step") + data.draw(st.integers(-2, 4), "length")) * unit
    extent = minimum(extent, lanes) if data.draw(st.booleans(), "cut") else extent
    start = const(0) if data.draw(st.booleans(), "from the first") else 200 - extent
    out = Buffer("T", (const(4000),), dtype("int32"))
    value = i + 1 + (load(out, tile * 1000 + i) * 2 if data.draw(st.booleans(), "reads back") else 0)
    loop = For(i, start, extent, "serial", Store(out, (tile * 1000 + i,), value), ragged=True, lanes=lanes)
    first = data.draw(st.integers(0, 2), "first")
    nest = For(tile, const(first), const(data.draw(st.integers(1, 4 - first), "tiles")), "serial", loop)
    results = []
    for body in (nest, vectorize_loops(nest, Analyzer())):
        results.append(np.zeros(4000, np.int32))
        interpret(Function("f", (out,), (), body, ()), results[-1:])
    np.testing.assert_array_equal(*results)
