"""Long sums of products are computed by einsum: the same numbers as point by point."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.te.contraction import contraction
from autosched.te.tensor import Tensor

#: `te.reference` is the function; its module is asked for by name
module = importlib.import_module("autosched.te.reference")


def _matmul(dtype: str, sums: str) -> list[Tensor]:
    a, b = te.placeholder((9, 40), dtype, name="a"), te.placeholder((40, 7), dtype, name="b")
    k = te.reduce_axis((0, 40), name="k")
    return [a, b, te.compute((9, 7), lambda i, j: te.sum(a[i, k].astype(sums) * b[k, j].astype(sums), axis=k))]


def _strided_conv() -> list[Tensor]:
    image, weights = te.placeholder((3, 17, 19), name="image"), te.placeholder((4, 3, 3, 5), name="weights")
    c, y, x = (te.reduce_axis((0, n), name=v) for n, v in ((3, "c"), (3, "dy"), (5, "dx")))
    taps = lambda o, i, j: image[c, 2 * i + y, 16 - (3 * j + x)] * weights[o, c, y, x]  # noqa: E731
    return [image, weights, te.compute((4, 8, 5), lambda o, i, j: te.sum(taps(o, i, j), axis=[c, y, x]))]


def _partial_axes() -> list[Tensor]:
    """One reduce axis is mentioned nowhere, and an output axis neither."""
    a = te.placeholder((6, 50), name="a")
    k, more = te.reduce_axis((0, 50), name="k"), te.reduce_axis((0, 3), name="more")
    return [a, te.compute((6, 4), lambda i, j: te.sum(a[i, k], axis=[k, more]))]


def _from_two() -> list[Tensor]:
    """Axes that do not start at 0, and a size variable in the index."""
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    k = te.reduce_axis((2, 50), name="k")
    return [a, te.compute((5,), lambda i: te.sum(a[n - 1 - (i + k)] * a[k], axis=k))]


def _grouped() -> list[Tensor]:
    """Groups of channels: a quotient, a remainder, and an axis of which nothing but the remainder counts."""
    image, weights, scale = (te.placeholder(n, name=v) for n, v in (((6, 9), "image"), ((4, 3, 11), "w"), ((2,), "s")))
    c, x = (te.reduce_axis((0, n), name=v) for n, v in ((3, "c"), (11, "x")))
    taps = lambda o, i, j: image[o // 2 * 3 + c, j] * weights[o, c, x] * scale[i % 2]  # noqa: E731
    return [image, weights, scale, te.compute((4, 6, 9), lambda o, i, j: te.sum(taps(o, i, j), axis=[c, x]))]


def _divided_sum() -> list[Tensor]:
    """A reduce axis in two digits, of which one is read."""
    a, b = te.placeholder((5, 12), name="a"), te.placeholder((8, 3), name="b")
    k = te.reduce_axis((4, 44), name="k")
    return [a, b, te.compute((5, 3), lambda i, j: te.sum(a[i, k // 4] * b[k // 4 * 0 + 1, j], axis=k))]


def _padded(dtype: str) -> list[Tensor]:
    """Zeros around an image, which no read of a tensor has; groups of channels, as well."""
    image, weights = te.placeholder((8, 8, 9), dtype, name="image"), te.placeholder((6, 4, 3, 3), dtype, name="w")
    around = te.constant_exterior(image, 0, axes=(1, 2))
    c, y, x = (te.reduce_axis((0, n), name=v) for n, v in ((4, "c"), (3, "dy"), (3, "dx")))
    taps = lambda o, i, j: around[o // 3 * 4 + c, 2 * i + y - 1, j + x - 1] * weights[o, c, y, x]  # noqa: E731
    return [image, weights, te.compute((6, 4, 9), lambda o, i, j: te.sum(taps(o, i, j), axis=[c, y, x]))]


def _triangle(dtype: str, sums: str) -> list[Tensor]:
    a, b = te.placeholder((40, 40), dtype, name="a"), te.placeholder((40, 60), dtype, name="b")
    k = te.reduce_axis((0, 40), name="k")
    terms = lambda i, j: a[i, k].astype(sums) * b[k, j].astype(sums)  # noqa: E731
    return [a, b, te.compute((40, 60), lambda i, j: te.sum(terms(i, j), axis=k, where=k <= i))]


CASES = {
    "float32": lambda: _matmul("float32", "float32"),
    "int8 in int32": lambda: _matmul("int8", "int32"),
    "uint8 in int32": lambda: _matmul("uint8", "int32"),
    "int16 wraps": lambda: _matmul("int16", "int16"),
    "conv": _strided_conv,
    "partial axes": _partial_axes,
    "from two": _from_two,
    "grouped": _grouped,
    "a divided sum": _divided_sum,
    "padded": lambda: _padded("float32"),
    "padded int8": lambda: _padded("int8"),
    "masked": lambda: _triangle("float32", "float32"),
    "masked int8": lambda: _triangle("int8", "int32"),
}


def _inputs(args: list[Tensor]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [[60 if d.op == "var" else int(d.value) for d in t.shape] for t in args[:-1]]
    limits = {"int16": (-30000, 30000), "uint8": (0, 256)}
    return [
        rng.integers(*limits.get(str(t.dtype), (-9, 10)), shape).astype(t.dtype.numpy)
        for t, shape in zip(args[:-1], shapes, strict=True)
    ]


@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_both_ways_agree(make: Callable[[], list[Tensor]], monkeypatch: pytest.MonkeyPatch) -> None:
    args = make()
    inputs = _inputs(args)
    found: list[np.ndarray | None] = []
    fast = module.contraction
    monkeypatch.setattr(module, "contraction", lambda *given: found.append(fast(*given)) or found[-1])
    (quick,) = te.reference(args, inputs)
    assert [x is not None for x in found] == [True]
    monkeypatch.setattr(module, "LONG", 10**9)
    (slow,) = te.reference(args, inputs)
    assert quick.dtype == slow.dtype
    np.testing.assert_array_equal(quick, slow)


def test_what_is_masked_does_not_count() -> None:
    args = _triangle("float32", "float32")
    a, b = _inputs(args)
    b[20:] = np.inf
    (found,) = te.reference(args, [np.abs(a) + 1, b])
    np.testing.assert_array_equal(found[:20], np.tril(np.abs(a) + 1)[:20, :20] @ b[:20])
    assert np.isinf(found[20:]).all()


@pytest.mark.parametrize(
    "body",
    [
        lambda a, k, i: te.max(a[i, k], axis=k),
        lambda a, k, i: te.sum(a[i, k] + 1, axis=k),
        lambda a, k, i: te.sum(a[i, k * k % 50], axis=k),
        lambda a, k, i: te.sum(a[i, k // 7], axis=k),
        lambda a, k, i: te.sum(a[i, k // 5 + k % 2], axis=k),
        lambda a, k, i: te.sum(a[i, k].astype("int8").astype("float32"), axis=k),
    ],
    ids=["max", "not a product", "not affine", "parts of groups", "two divisors", "a narrowing cast"],
)
def test_what_is_no_contraction(body: Callable[..., object]) -> None:
    a = te.placeholder((6, 50), name="a")
    k = te.reduce_axis((0, 50), name="k")
    out = te.compute((6,), lambda i: body(a, k, i))
    op = out.op
    spans = {op.axis[0].var: range(6), op.reduce_axis[0].var: range(50)}
    values = {a: np.ones((6, 50), np.float32)}
    assert contraction(op.body[0], op.axis, spans, {}, values, module._evaluate) is None


def test_what_is_tabulated_may_lie_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an index is safe only beside another one, a table over both has places that no point asks for."""
    a, b = te.placeholder((40,), name="a"), te.placeholder((40, 1600), name="b")
    k = te.reduce_axis((0, 40), name="k")
    early = lambda i: te.if_then_else(i >= k, a[i - k], 0.0)  # noqa: E731
    out = te.compute((40, 1600), lambda i, j: te.sum(early(i) * b[k, j], axis=k))
    inputs = _inputs([a, b, out])
    spans = {x.var: range(int(x.extent.value)) for x in (*out.op.axis, *out.op.reduce_axis)}
    values = dict(zip((a, b), inputs, strict=True))
    assert contraction(out.op.body[0], out.op.axis, spans, {}, values, module._evaluate) is None
    toeplitz = np.array([[inputs[0][i - k] if i >= k else 0 for k in range(40)] for i in range(40)])
    np.testing.assert_array_equal(te.reference([a, b, out], inputs)[0], toeplitz @ inputs[1])
