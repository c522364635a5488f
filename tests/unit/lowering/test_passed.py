"""Intermediates that are arguments: the caller's array is where they are stored."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
from autosched import te


def program():
    m = te.var("m")
    a = te.placeholder((m, 6), name="a")
    b = te.compute((m, 6), lambda i, j: a[i, j] + 1, name="b")
    c = te.compute((m - 2, 6), lambda i, j: b[i, j] * 2 + b[i + 2, j], name="c")
    return a, b, c


def by_tiles(s, b, c):
    outer, _ = s[c].split("i", 4)
    s[c].parallel(outer)
    s[b].compute_at(s[c], outer)
    s[b].vectorize("j")


def stored_outside(s, b, c):
    s[b].compute_at(s[c], "j")
    s[b].store_at(s[c], "i")


def padded(s, b, c):
    s[b].storage_align("i", 32, 1)


SCHEDULES = {
    "at the root": lambda s, b, c: None,
    "row by row": lambda s, b, c: s[b].compute_at(s[c], "i"),
    "by tiles": by_tiles,
    "stored outside": stored_outside,
    "padded": padded,
}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("target", ["llvm", "interpreter"])
def test_every_element_that_is_needed_is_there(name: str, target: str) -> None:
    a, b, c = program()
    s = autosched.create_schedule(c)
    SCHEDULES[name](s, b, c)
    for rows in (3, 9):
        x = np.random.default_rng(rows).random((rows, 6), dtype="float32")
        seen, out = np.zeros_like(x), np.zeros((rows - 2, 6), "float32")
        if target == "llvm":
            autosched.build(s, args=[a, b, c])(x, seen, out)
        else:
            from autosched.runtime.interpreter import interpret

            interpret(autosched.lower(s, [a, b, c]).structure.bind(), [x, seen, out])
        for got, expected in zip((seen, out), te.reference([a, b, c], [x]), strict=True):
            assert np.array_equal(got, expected)


def test_an_inlined_one_is_written_nowhere() -> None:
    a, b, c = program()
    s = autosched.create_schedule(c)
    s[b].compute_inline()
    module = autosched.build(s, args=[a, b, c])
    x, seen, out = np.ones((5, 6), "float32"), np.full((5, 6), 7, "float32"), np.zeros((3, 6), "float32")
    module(x, seen, out)
    assert (seen == 7).all() and (out == 6).all()


def test_kernels_that_compute_one_at_the_root() -> None:
    a, b, c = program()
    s = autosched.create_schedule(c)
    for t in (b, c):
        group, item = s[t].split("i", 4)
        s[t].bind(group, "blockIdx.x")
        s[t].bind(item, "threadIdx.x")
    x = np.random.default_rng(1).random((7, 6), dtype="float32")
    seen, out = np.zeros_like(x), np.zeros((5, 6), "float32")
    autosched.build(s, "opencl", args=[a, b, c])(x, seen, out)
    assert np.array_equal(seen, x + 1)
