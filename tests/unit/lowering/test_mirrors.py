"""Mirrored indices: distances in place of remainders where indices stay near, and regions that are no wider for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.ir.expr import is_const
from autosched.ir.stmt import Allocate, walk
from autosched.ir.visit import post_order
from autosched.lowering import lower_structure
from autosched.lowering.inline import inline_stages
from autosched.schedule import create_schedule
from autosched.testing.oracle import check_against_reference

MIRRORS = [(te.mirror_image, "symmetric"), (te.mirror_interior, "reflect")]


@pytest.mark.parametrize(("condition", "mode"), MIRRORS)
@pytest.mark.parametrize(("n", "width", "is_near"), [(7, 2, True), (5, 3, True), (4, 9, False), (1, 2, False)])
def test_like_numpy_pad(condition: Callable[..., Any], mode: str, n: int, width: int, is_near: bool) -> None:
    """Of lengths that are known: the symbolic ones keep their remainders."""
    a = te.placeholder((n,), "int32", name="a")
    b = te.compute((n + 2 * width,), lambda i: condition(a)[i - width], name="b")
    s = create_schedule(b)
    remainders = [e for e in post_order(inline_stages(s)[s.stage(b)]) if e.op == "floormod"]
    assert bool(remainders) <= (not is_near)
    _, lanes = s[b].split("i", factor=4)
    s[b].vectorize(lanes)
    x = np.arange(1, n + 1, dtype=np.int32)
    assert np.array_equal(te.reference([a, b], [x])[0], np.pad(x, width, mode=mode))  # type: ignore[call-overload]
    for backend in ("native", "interpreter"):
        check_against_reference([a, b], s, "llvm", [x], backend)  # type: ignore[arg-type]


@pytest.mark.parametrize("condition", [te.mirror_image, te.mirror_interior])
@pytest.mark.parametrize("rows", [1, 2, 5, 10])
def test_a_strip_of_rows_needs_its_own_rows(condition: Callable[..., Any], rows: int) -> None:
    """And those of the window; the whole dimension would be computed for each strip else."""
    a = te.placeholder((40, 12), "int32", name="a")
    b = te.compute((40, 12), lambda y, x: a[y, x] * 2, name="b")
    edge = condition(b)
    c = te.compute(
        (40, 12), lambda y, x: edge[y - 2, x] + edge[y, x - 1] * 3 + edge[y, x + 1] * 5 + edge[y + 2, x] * 7, name="c"
    )
    s = create_schedule(c)
    outer, _ = s[c].split("y", factor=rows)
    s[b].compute_at(s[c], outer)
    (kept,) = [x.buffer for x in walk(lower_structure(s, [a, c], "llvm").function.body) if isinstance(x, Allocate)]
    assert is_const(kept.shape[0]) and int(kept.shape[0].value) <= rows + 8
    x = np.random.default_rng(0).integers(-9, 9, (40, 12)).astype("int32")
    for backend in ("native", "interpreter"):
        check_against_reference([a, c], s, "llvm", [x], backend)  # type: ignore[arg-type]


CLAMPS = {
    "clamped": lambda a, i, n: a[te.max(te.min(i, n - 1), 0)],
    "chosen": lambda a, i, n: te.select((i >= 0) & (i < n), a[te.max(te.min(i, n - 1), 0)], 0),
}


@pytest.mark.parametrize("spelling", list(CLAMPS))
@pytest.mark.parametrize("window", [(-1, 1), (-1, 0, 1), (0, -1, 1, -1, 1), (-2, -1, 0, 1, 2)])
def test_rows_at_clamped_places_are_computed_once(spelling: str, window: tuple[int, ...]) -> None:
    """However many reads there are: the distances of several from the first were added up."""
    a = te.placeholder((40,), "int32", name="a")
    b = te.compute((40,), lambda i: a[i] * 2, name="b")
    weighted = [(w, 2 * at + 1) for at, w in enumerate(window)]
    c = te.compute((40,), lambda i: sum(CLAMPS[spelling](b, i + w, 40) * at for w, at in weighted), name="c")
    s = create_schedule(c)
    outer, _ = s[c].split("i", factor=4)
    s[b].compute_at(s[c], outer)
    (kept,) = [x.buffer for x in walk(lower_structure(s, [a, c], "llvm").function.body) if isinstance(x, Allocate)]
    assert is_const(kept.shape[0]) and int(kept.shape[0].value) == 4 + max(window) - min(window)
    for backend in ("native", "interpreter"):
        check_against_reference([a, c], s, "llvm", [np.arange(40, dtype="int32") % 7], backend)  # type: ignore[arg-type]


def test_a_remainder_that_is_no_mirror_stays() -> None:
    a = te.placeholder((9,), "int32", name="a")
    b = te.compute((9,), lambda i: a[te.min(i % 4, 5 - i % 4)] + a[te.min((i + 1) % 4, i)], name="b")
    s = create_schedule(b)
    assert sum(e.op == "floormod" for e in post_order(inline_stages(s)[s.stage(b)])) == 2
    check_against_reference([a, b], s, "llvm", [np.arange(9, dtype=np.int32)], "native")
