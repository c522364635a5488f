"""Truths that a function keeps for itself are bytes; what it is given and gives back are truths."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.building import build
from autosched.ir.calls import call_packed, view_of
from autosched.ir.expr import Expr
from autosched.ir.functions import register_func
from autosched.ir.stmt import Allocate, Buffer, Store, expressions, walk
from autosched.ir.visit import post_order
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

TARGETS = ["llvm", "c", "opencl"]


def product(dtype: str = "bool") -> list[Tensor]:
    """C[i, j] = any over k of A[i, k] and B[k, j]."""
    a, b = te.placeholder((6, 9), dtype, "A"), te.placeholder((9, 16), dtype, "B")
    k = te.reduce_axis((0, 9), "k")
    return [a, b, te.compute((6, 16), lambda i, j: te.any(te.all(a[i, k] > 0, b[k, j] > 0), axis=k), "C")]


def in_registers(args: list[Tensor]) -> Schedule:
    s = create_schedule(args[-1])
    local = s.cache_write(args[-1], "local")
    s[args[-1]].vectorize("j")
    s[local].compute_at(s[args[-1]], "i")
    s[local].reorder("k.c", "j.c")
    s[local].vectorize("j.c")
    return s


def test_what_it_becomes() -> None:
    args = product()
    f = lower_structure(in_registers(args), args, "llvm").bind()
    (local,) = (s.buffer for s in walk(f.body) if isinstance(s, Allocate))
    assert local.dtype == "uint8"
    (total,) = (s.value for s in walk(f.body) if isinstance(s, Store) and s.buffer is local and s.value.op == "bitor")
    assert {e.op for e in post_order(total)} >= {"bitand", "cast", "load"}
    assert [str(b.dtype) for b in f.params] == ["bool"] * 3
    assert not [e for s in walk(f.body) for x in expressions(s) for e in post_order(x) if e.op in ("and", "or")]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["bool", "int8", "float32"])
def test_a_product(dtype: str, target: str) -> None:
    args = product(dtype)
    draw = np.random.default_rng(0)
    inputs = [draw.integers(0, 2, [int(d.value) for d in t.shape]).astype(dtype) for t in args[:2]]
    check_against_reference(args, in_registers(args), target, inputs)


@pytest.mark.parametrize("target", TARGETS)
def test_any_byte_but_zero_is_true(target: str) -> None:
    args = product()
    draw = np.random.default_rng(0)
    given = [draw.choice([0, 0, 0, 1, 2, 128], shape).astype("uint8") for shape in ((6, 9), (9, 16))]
    module = build(in_registers(args), target, args=args)
    found = module(*(a.view(bool) for a in given))
    assert np.array_equal(found.view("uint8"), (((given[0] != 0) @ (given[1] != 0).astype(int)) > 0).astype("uint8"))


@pytest.mark.parametrize("target", TARGETS)
def test_conditions_that_all_lanes_share(target: str) -> None:
    """Several beside each other, which compilers compare in one vector: a lane of that is broadcast."""
    a, b = te.placeholder((16, 4), "bool", "a"), te.placeholder((4,), "uint8", "b")
    k = te.reduce_axis((0, 4), "k")
    c = te.compute((16,), lambda i: te.all(a[i, k] | (b[k] > 2), axis=k), "c")
    s = create_schedule(c)
    s[c].inline_reduction()
    s[c].vectorize("i")
    draw = np.random.default_rng(1)
    check_against_reference([a, b, c], s, target, [draw.random((16, 4)) < 0.7, draw.integers(0, 6, 4).astype("uint8")])


def test_a_guard_stays_one() -> None:
    """The right side of `and` may not exist where the left side is false."""
    n = 8
    x = te.placeholder((n,), "bool", "x")
    y = te.compute((n,), lambda i: te.all(i > 0, x[i - 1]), "y")
    z = te.compute((n,), lambda i: te.any(y[i], x[i]), "z")
    s = create_schedule(z)
    s[y].compute_at(s[z], "i")
    f = lower_structure(s, [x, z], "llvm").bind()
    assert [s.value.args[0].op for s in walk(f.body) if isinstance(s, Store) and s.buffer.name == "y"] == ["and"]


def test_what_others_see_stays_what_it_is(own_registries: None) -> None:
    """A function that is handed the memory of truths takes it for truths."""
    x = te.placeholder((8,), "float32", "x")
    positive = te.compute((8,), lambda i: x[i] > 0, "positive")
    seen: list[np.ndarray] = []

    def inverted(a: np.ndarray, b: np.ndarray) -> None:
        seen.append(a.copy())
        b[...] = ~a

    register_func("test.truths", inverted)
    negative = te.extern((8,), [positive], lambda ins, outs: _handed(ins[0], outs[0]), dtype="bool", name="negative")
    z = te.compute((8,), lambda i: te.any(negative[i], positive[7 - i]), "z")
    values = np.array([1, -2, 3, 0, -5, 6, 7, -8], "float32")
    assert np.array_equal(build(create_schedule(z), args=[x, z])(values), ~(values > 0) | (values > 0)[::-1])
    assert [a.dtype for a in seen] == [bool]
    assert np.array_equal(seen[0], values > 0)


def test_bytes_are_asked_for_ahead() -> None:
    x = te.placeholder((64, 16), "float32", "x")
    y = te.compute((64, 16), lambda i, j: x[i, j] > 0, "y")
    z = te.compute((64, 16), lambda i, j: te.any(y[i, j], x[i, j] < -1), "z")
    s = create_schedule(z)
    s[z].prefetch(y, "i", 2)
    values = np.random.default_rng(2).integers(-3, 3, (64, 16)).astype("float32")
    check_against_reference([x, z], s, "llvm", [values])


def _handed(*buffers: Buffer) -> Expr:
    return call_packed("test.truths", *map(view_of, buffers))
