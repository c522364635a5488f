"""Fourier transforms by their definition: a sum over all elements for each frequency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr
from autosched.te.tensor import Tensor
from autosched.topi.arguments import Dim, accumulator, at_least, number, same


def _turn(k: Expr, n: Expr, length: Dim, sign: int, of: Any) -> tuple[Expr, Expr]:
    """Cosine and sine of k * n of `length` parts of a turn, with the whole turns taken off before."""
    part = te.floormod(k * n, length).astype(of) * te.const(sign * 2 * math.pi, of) / te.const(1, of)
    angle = part / (te.const(length, of) if isinstance(length, int) else length.astype(of))
    return te.cos(angle), te.sin(angle)


def dft(re_data: Tensor, im_data: Tensor, inverse: bool = False) -> list[Tensor]:
    """Return the real and the imaginary part of the discrete Fourier transform along the last axis, or its inverse.

    >>> from autosched import te, topi
    >>> re, im = te.placeholder((4, 16), name="re"), te.placeholder((4, 16), name="im")
    >>> topi.dft(re, im)[0].shape
    (4, 16)
    """
    if re_data.ndim < 1 or re_data.ndim != im_data.ndim or not all(map(same, re_data.shape, im_data.shape)):
        raise UsageError(f"{re_data!r} and {im_data!r}", asked="topi.dft", legal="one shape")
    n, of = re_data.shape[-1], accumulator(re_data.dtype)
    scale = te.const(1, of) / n.astype(of) if inverse else te.const(1, of)
    cosine = te.compute((n, n), lambda k, j: _turn(k, j, n, 1 if inverse else -1, of)[0], name="T_dft_cos")
    sine = te.compute((n, n), lambda k, j: _turn(k, j, n, 1 if inverse else -1, of)[1], name="T_dft_sin")

    def part(a: Tensor, b: Tensor, sign: int, name: str) -> Tensor:
        def total(*i: Expr) -> object:
            j = te.reduce_axis((0, n), "j")
            left, right = (t(*i[:-1], j.var).astype(of) for t in (a, b))
            return te.sum(left * cosine(i[-1], j.var) + right * sine(i[-1], j.var) * te.const(sign, of), axis=j)

        made = te.compute(re_data.shape, total, name=f"{name}_sum")
        return te.compute(made.shape, lambda *i: (made(*i) * scale).astype(re_data.dtype), name=name, tag="elemwise")

    return [part(re_data, im_data, -1, "T_dft_re"), part(im_data, re_data, 1, "T_dft_im")]


def stft(
    data: Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
    window: Tensor,
    normalized: bool,
    onesided: bool,
    output_shape: Sequence[Dim] | None = None,
) -> Tensor:
    """Return Fourier transforms of windows of [batch, time]: [batch, frequency, window, (real, imaginary)].

    hop_length:   elements between the beginnings of neighbouring windows
    normalized:   divide by the root of `n_fft`
    onesided:     only the first n_fft / 2 + 1 frequencies
    output_shape: follows from the others, and is taken as it is where given
    """
    asked = "topi.stft"
    at_least(1, [n_fft, hop_length, win_length], asked)
    if data.ndim != 2 or window.ndim != 1:
        raise UsageError(f"{data!r}, {window!r}", asked=asked, legal="[batch, time], and a vector")
    rows = n_fft // 2 + 1 if onesided else n_fft
    frames = te.floordiv(data.shape[1] - n_fft, hop_length) + 1
    shape = (data.shape[0], rows, frames, 2) if output_shape is None else tuple(output_shape)
    of = accumulator(data.dtype)
    scale = te.const(1 / math.sqrt(n_fft) if normalized else 1.0, of)
    width = number(win_length, asked)

    def term(b: Expr, row: Expr, frame: Expr, part: Expr) -> object:
        w = te.reduce_axis((0, width), "w")
        cosine, sine = _turn(row, w.var, width, 1, of)
        value = window(w.var).astype(of) * data(b, frame * hop_length + w.var).astype(of)
        return te.sum(value * te.select(part == 0, cosine, -sine), axis=w)

    made = te.compute(shape, term, name="T_stft_sum")
    return te.compute(shape, lambda *i: (made(*i) * scale).astype(data.dtype), name="T_stft", tag="elemwise")
