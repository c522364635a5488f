"""Boundary conditions against `numpy.pad`, near the border and far outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import UsageError
from autosched.ir.stmt import If, expressions, walk
from autosched.ir.visit import post_order
from autosched.lowering import lower_structure
from autosched.schedule import create_schedule
from autosched.testing.oracle import check_against_reference

CONDITIONS = [
    (te.repeat_edge, "edge"),
    (te.constant_exterior, "constant"),
    (te.repeat_image, "wrap"),
    (te.mirror_image, "symmetric"),
    (te.mirror_interior, "reflect"),
]


@pytest.mark.parametrize(("condition", "mode"), CONDITIONS)
@pytest.mark.parametrize(("n", "width"), [(4, 3), (4, 9), (1, 2), (2, 5), (13, 4)])
def test_like_numpy_pad(condition: Callable[..., Any], mode: str, n: int, width: int) -> None:
    size = te.var("n")
    a = te.placeholder((size,), "int32", name="a")
    b = te.compute((size + 2 * width,), lambda i: condition(a)[i - width], name="b")
    x = np.arange(1, n + 1, dtype=np.int32)
    assert np.array_equal(te.reference([a, b], [x])[0], np.pad(x, width, mode=mode))  # type: ignore[call-overload]
    s = create_schedule(b)
    _, lanes = s[b].split("i", factor=4)
    s[b].vectorize(lanes)
    for backend in ("native", "interpreter"):
        check_against_reference([a, b], s, "llvm", [x], backend)  # type: ignore[arg-type]


@pytest.mark.parametrize("condition", [c for c, _ in CONDITIONS])
def test_the_interior_asks_no_questions(condition: Callable[..., Any]) -> None:
    h, w = te.var("h"), te.var("w")
    a = te.placeholder((h, w), name="a")
    e = condition(a, axes=[1])
    b = te.compute((h, w), lambda y, x: e[y, x - 1] + e[y, x + 1], name="b")
    s = create_schedule(b)
    _, lanes = s[b].split("x", factor=16)
    s[b].vectorize(lanes)
    f = lower_structure(s, [a, b], "llvm").bind()
    stores = [x for x in walk(f.body) if not isinstance(x, If)]
    wide = [e for x in stores for e in expressions(x) if e.dtype.lanes == 16]
    assert wide
    assert not [e for e in post_order(wide) if e.op in ("select", "if_then_else")]


def test_a_value_and_some_axes() -> None:
    a = te.placeholder((2, 3), "float32", name="a")
    edge = te.constant_exterior(a, 7.5, axes=[-1])
    b = te.compute((2, 5), lambda i, j: edge(i, j - 1), name="b")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(te.reference([a, b], [x])[0], np.pad(x, ((0, 0), (1, 1)), constant_values=7.5))
    assert (edge.ndim, edge.dtype, edge.shape) == (2, a.dtype, a.shape)
    assert repr(edge) == "BoundaryView(Tensor(a: float32[2, 3]))"


def test_misuse() -> None:
    a = te.placeholder((4,), name="a")
    with pytest.raises(UsageError, match="a has no axis 1"):
        te.repeat_edge(a, axes=[1])
    with pytest.raises(UsageError, match="is not a tensor"):
        te.repeat_edge(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a has 1 dimensions, not 2"):
        te.mirror_image(a)[0, 1]
