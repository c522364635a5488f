"""Functions as loops around blocks: one program of each kind as text, and that any such text is Python."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from test_lower_script import assert_is_python

from autosched import te, tir
from autosched.ir.calls import call_packed
from autosched.testing.programs import random_program
from autosched.testing.schedules import random_schedule
from autosched.tir.module import PrimFunc

n = te.var("n")


def stencil_at_a_tile() -> PrimFunc:
    a = te.placeholder((n, n), name="A")
    b = te.compute((n, n), lambda i, j: a[i, j] + a[i, te.max(j - 1, 0)], name="B")
    c = te.compute((n - 2, n), lambda i, j: b[i, j] + b[i + 1, j] + b[i + 2, j], name="C")
    f = tir.create_prim_func([a, c])
    outer, _ = f.schedule["C"].split("i", factor=4)
    f.schedule["B"].compute_at(f.schedule["C"], outer)
    return f


def decomposed_sum() -> PrimFunc:
    a = te.placeholder((n, 8), name="A")
    k = te.reduce_axis((1, 8), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k, where=k % 2 == 0), name="B")
    f = tir.create_prim_func([a, b])
    f.schedule["B"].reorder("k", "i")
    f.schedule["B"].decompose_reduction("k")
    f.schedule["B"].parallel("i.init")
    return f


def largest() -> PrimFunc:
    """Two results of one reduction."""
    a = te.placeholder((6, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    larger = te.comm_reducer(
        lambda x, y: (te.if_then_else(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
        lambda t, u: (te.const(-1, t), te.min_value(u)),
        name="largest",
    )
    at, value = te.compute((6,), lambda i: larger((k.var, a[i, k]), axis=k), name="M")
    return tir.create_prim_func([a, at, value])


def running_sum() -> PrimFunc:
    a = te.placeholder((n, 4), name="A")
    state = te.placeholder((n, 4), name="S")
    init = te.compute((1, 4), lambda _, i: a[0, i], name="init")
    update = te.compute((n, 4), lambda t, i: state[t - 1, i] + a[t, i], name="update")
    return tir.create_prim_func([a, te.scan(init, update, state, name="sums")])


def histogram() -> PrimFunc:
    a = te.placeholder((n,), "uint8", name="A")
    p = te.reduce_axis((0, n), name="p")
    h = te.scatter_reduce((256,), lambda: (a[p], te.const(1, "int32")), axis=p, name="H")
    return tir.create_prim_func([a, h])


KINDS = (stencil_at_a_tile, decomposed_sum, largest, running_sum, histogram)


@pytest.mark.parametrize("make", KINDS, ids=lambda f: f.__name__)
def test_blocks(make: Callable[[], PrimFunc], golden: Callable[..., None]) -> None:
    f = make()
    golden(f.script(), make.__name__)
    assert_is_python(f.script())


def test_an_opaque_operation() -> None:
    a = te.placeholder((n,), name="A")
    b = te.extern((n,), [a], lambda ins, outs: call_packed("twice", ins[0], outs[0]), name="B")
    text = tir.create_prim_func([a, b]).script()
    assert 'with T.block("B"):' in text
    assert "T.reads(A_1[0:n])" in text
    assert "T.writes(B_1[0:n])" in text


@pytest.mark.parametrize("seed", range(20))
def test_any_function_is_python(seed: int) -> None:
    rng = random.Random(seed)
    program = random_program(rng)
    s = random_schedule(program.args, rng)
    assert_is_python(PrimFunc(tuple(program.args), s).script())
