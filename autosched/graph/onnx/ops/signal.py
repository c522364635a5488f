"""Operators on signals: Fourier transforms as products with tables, windows, weights of mel spectrograms."""

from __future__ import annotations

import math

import numpy as np

from autosched import te
from autosched.graph.onnx.node import Array, Node, operator
from autosched.graph.onnx.ops.quantization import dtype_of
from autosched.ir.expr import Expr
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator, axis_of, narrowed, number

#: numbers in a table of a transform, at most
MOST_TABLE = 1 << 26


def fourier(node: Node, length: int, inverse: bool, onesided: bool, components: int) -> Array:
    """The table of a transform, [inputs, outputs, components of inputs, components of outputs], in float64.

    Angles are reduced as integers: entries that are 0 or 1 by the definition are so.
    """
    half = length // 2 + 1
    points, bins = (half if inverse and onesided else length), (half if onesided and not inverse else length)
    results = 1 if inverse and onesided else 2
    if points * bins * components * results > MOST_TABLE:
        raise node.refused(f"a transform of {length} points takes too large a table", "thousands of points")
    quarters = 4 * (np.outer(np.arange(points), np.arange(bins)) % max(length, 1))
    angle = quarters * (math.pi / 2 / max(length, 1))
    exact = (quarters % max(length, 1)) == 0
    turn = quarters // max(length, 1)
    cos = np.where(exact, np.array([1, 0, -1, 0])[turn], np.cos(angle))
    sin = np.where(exact, np.array([0, 1, 0, -1])[turn], np.sin(angle)) * (1 if inverse else -1)
    table = np.empty((points, bins, 2, 2))
    table[:, :, 0, 0], table[:, :, 0, 1], table[:, :, 1, 0], table[:, :, 1, 1] = cos, sin, -sin, cos
    if inverse:
        table /= max(length, 1)
        if onesided:  # the half that is not given mirrors the other
            table[1 : (length + 1) // 2] *= 2
    return table[:, :, :components, :results]


@operator("DFT")
def dft(node: Node, x: Tensor, length: Tensor | None = None, axis: Tensor | None = None) -> Tensor:
    inverse, onesided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    wanted = node.attr("axis", 1) if node.opset < 20 else -2 if axis is None else int(node.number(axis))
    at = axis_of(x, wanted, f"DFT {node.name}")
    components = number(x.shape[-1], f"DFT {node.name}")
    if at == x.ndim - 1 or components not in (1, 2):
        raise node.refused(f"{x!r} along axis {wanted}", "real or complex numbers, along an axis before the last")
    given = number(x.shape[at], f"DFT {node.name}")
    points = 2 * (given - 1) if inverse and onesided else given
    points = points if length is None else int(node.number(length))
    table = node.constant(fourier(node, points, inverse, onesided, components), accumulator(x.dtype))
    n = te.reduce_axis((0, min(given, number(table.shape[0], node.kind))), "n")
    d = te.reduce_axis((0, components), "d")

    def body(*i: Expr) -> object:
        element = x(*i[:at], n, *i[at + 1 : -1], d).astype(table.dtype)
        return te.sum(element * table(n, i[at], d, i[-1]), axis=[n, d])

    shape = [*x.shape[:at], table.shape[1], *x.shape[at + 1 : -1], table.shape[3]]
    return narrowed(te.compute(tuple(shape), body, name="dft"), x.dtype)


@operator("STFT")
def stft(node: Node, x: Tensor, step: Tensor, window: Tensor | None = None, length: Tensor | None = None) -> Tensor:
    stride = int(node.number(step))
    size = x.shape[1] if window is None else window.shape[0]
    points = int(node.number(length)) if length is not None else number(size, f"STFT {node.name}")
    components = number(x.shape[2], f"STFT {node.name}") if x.ndim == 3 else 1
    if stride < 1 or points < 1:
        raise node.refused(f"frames of {points} points, {stride} apart", "positive numbers")
    of = accumulator(x.dtype)
    table = node.constant(fourier(node, points, False, bool(node.attr("onesided", 1)), components), of)
    if window is not None:
        w, plain = window, table
        table = te.compute(plain.shape, lambda n, *i: w(n).astype(of) * plain(n, *i), name="windowed")
    n, d = te.reduce_axis((0, points), "n"), te.reduce_axis((0, components), "d")

    def body(b: Expr, f: Expr, k: Expr, c: Expr) -> object:
        place = (b, f * stride + n, d)[: x.ndim]
        return te.sum(x(*place).astype(of) * table(n, k, d, c), axis=[n, d])

    frames = te.floordiv(x.shape[1] - points, stride) + 1
    return narrowed(te.compute((x.shape[0], frames, table.shape[1], 2), body, name="stft"), x.dtype)


#: the cosines that a window is a sum of
_WINDOWS = {
    "HannWindow": (0.5, -0.5, 0.0),
    "HammingWindow": (25 / 46, -21 / 46, 0.0),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}


@operator(*_WINDOWS)
def window(node: Node, size: Tensor) -> Tensor:
    count = int(node.number(size))
    if not 0 <= count <= MOST_TABLE:
        raise node.refused(f"a window of {count} points", f"0 to {MOST_TABLE}")
    turn = 2 * math.pi * np.arange(count) / max(count if node.attr("periodic", 1) else count - 1, 1)
    values = sum(a * np.cos(k * turn) for k, a in enumerate(_WINDOWS[node.kind]))
    return node.constant(values, dtype_of(node, node.attr("output_datatype"), "float32"))


@operator("MelWeightMatrix")
def mel_weights(node: Node, bins: Tensor, length: Tensor, rate: Tensor, low: Tensor, high: Tensor) -> Tensor:
    count, points, sampled = (int(node.number(t)) for t in (bins, length, rate))
    lines = points // 2 + 1
    if not 0 < count * lines <= MOST_TABLE or sampled <= 0:
        raise node.refused(f"{count} bands of {points} points at {sampled} Hz", "positive numbers")
    bottom, top = (2595 * math.log10(1 + node.number(t) / 700) for t in (low, high))
    mel = bottom + np.arange(count + 2) * ((top - bottom) / (count + 2))
    edge = ((points + 1) * 700 * (10 ** (mel / 2595) - 1) // sampled).astype(np.int64)
    j, (left, centre, right) = np.arange(lines)[:, None], (edge[:-2], edge[1:-1], edge[2:])
    rising = np.where(centre == left, j == centre, (j - left) / np.maximum(centre - left, 1))
    falling = (right - j) / np.maximum(right - centre, 1)
    is_rising = (j >= left) & ((j < centre) | ((j == centre) & (right <= centre)))
    values = np.where(is_rising, rising, np.where((j >= centre) & (j < right), falling, 0.0))
    values = np.where((left == centre) & (right <= centre) & (j == centre), 1.0, values)
    return node.constant(values, dtype_of(node, node.attr("output_datatype"), "float32"))
