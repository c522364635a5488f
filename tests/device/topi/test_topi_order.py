"""Elements in order, scattered, chosen by places, and transformed, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from topi_check import check, given

from autosched import te, topi
from autosched.errors import UsageError
from autosched.te.tensor import Tensor

DRAW = np.random.default_rng(0)
#: with equal elements, both zeros and a NaN
X = np.array([[3, 1, -2, 1, 5], [0.0, -0.0, np.nan, -np.inf, 7]], np.float32)
K = DRAW.integers(0, 4, 9).astype(np.int32)
M = DRAW.integers(-4, 5, (3, 4)).astype(np.float32)


@pytest.mark.parametrize("axis", [0, 1])
def test_order(axis: int) -> None:
    places = np.argsort(X, axis, kind="stable").astype(np.int32)
    check(lambda x: topi.argsort(x, axis=axis, dtype="int32"), (X,), places)
    check(lambda x: topi.sort(x, axis), (X,), np.take_along_axis(X, places, axis))
    falling = np.argsort(-np.nan_to_num(X, nan=np.inf), axis, kind="stable")
    values, found = np.take_along_axis(X, falling, axis), falling
    first = (slice(None),) * axis + (slice(0, 2),)
    check(lambda x: topi.topk(x, 2, axis), (X,), [values[first], found[first]])
    check(lambda x: topi.topk(x, 0, axis, "indices"), (X,), found)


@pytest.mark.parametrize("of", ["float32", "int8"])
@pytest.mark.parametrize("is_ascend", [False, True])
def test_the_first_few(of: str, is_ascend: bool) -> None:
    """They are searched one after the other: of equal ones those in front, and the last number of a type, too."""
    x = DRAW.integers(-3, 3, (5, 67)).astype(of)
    x[2] = 1
    x[3, 40:] = np.inf if of == "float32" else 127
    if of == "float32":
        x[4, ::9], x[1, 3] = np.nan, -0.0
    elif is_ascend:
        x[3] = 127
    key = np.nan_to_num(x.astype(np.float64), nan=1e300, posinf=1e200)
    places = np.argsort(key if is_ascend else -key, 1, kind="stable")[:, :6]
    check(lambda t: topi.topk(t, 6, 1, "indices", is_ascend, "int32"), (x,), places)
    check(lambda t: topi.topk(t, 6, 1, "values", is_ascend), (x,), np.take_along_axis(x, places, 1))


def test_order_of_the_valid_ones() -> None:
    check(lambda x, n: topi.argsort(x, n, 1, dtype="int32"), (X[:, ::-1].copy(), np.array([3, 0], np.int32)),
          np.array([[2, 1, 0, 3, 4], [0, 1, 2, 3, 4]]))  # fmt: skip


@pytest.mark.parametrize("right", [False, True])
def test_insertion(right: bool) -> None:
    lines = np.sort(DRAW.integers(0, 6, (2, 5)), 1).astype(np.int32)
    values = DRAW.integers(-1, 7, (2, 3)).astype(np.int32)
    side = "right" if right else "left"
    wanted = [np.searchsorted(line, row, side) for line, row in zip(lines, values)]
    check(lambda s, v: topi.searchsorted(s, v, right), (lines, values), np.array(wanted))
    check(lambda s, v: topi.searchsorted(s, v, right), (lines[0], values), np.searchsorted(lines[0], values, side))


@pytest.mark.parametrize("is_sorted", [True, False])
def test_different_elements(is_sorted: bool) -> None:
    values, first, inverse, counts = np.unique(K, return_index=True, return_inverse=True, return_counts=True)
    order = np.arange(len(values)) if is_sorted else np.argsort(first)
    tensor = given(K)
    found = te.reference([*tensor, *topi.unique(*tensor, is_sorted, True)], [K])
    n = len(values)
    for got, want in zip(found, (values[order], first[order], np.argsort(order)[inverse], [n], counts[order])):
        np.testing.assert_array_equal(got[: len(want)], want)


def test_places_of_what_is_true() -> None:
    for x in (M, M.astype(bool), np.arange(-1, 2).reshape(1, 3, 1)):
        wanted = np.argwhere(x)
        check(lambda t, shape=wanted.shape: topi.argwhere(shape, t), (x,), wanted)


@pytest.mark.parametrize("mode", ["update", "add", "mul", "min", "max"])
def test_scatter(mode: str) -> None:
    at = np.array([[1, 1, -1], [0, 3, 3]], np.int32)
    new = np.array([10, 20, 30], np.float32)
    wanted = M.copy()
    apply = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    for row, column, value in zip(*at, new):
        old = wanted[row, column]
        wanted[row, column] = value if mode == "update" else apply[mode](old, value)
    check(lambda x, i, u: topi.scatter_nd(x, i, u, mode), (M, at, new), wanted)


def test_scatter_along_an_axis() -> None:
    at, new = np.array([[0, -1], [2, 0]], np.int32), np.array([[1, 2], [3, 4]], np.float32)
    wanted = M.copy()
    np.put_along_axis(wanted[:2], at % 4, new, 1)
    check(lambda x, i, u: topi.scatter_elements(x, i, u, 1), (M, at, new), wanted)
    rows, values = np.array([[0, 1], [2, 0]], np.int32), np.array([5, 6], np.float32)
    dense = np.full((3, 2), -1, np.float32)
    dense[0, 1], dense[2, 0] = 5, 6
    check(lambda i, v: topi.sparse_to_dense(i, (3, 2), v, -1.0), (rows, values), dense)


def test_choosing() -> None:
    length = np.array([3, 9, 0], np.int32)
    wanted = M.copy()
    wanted[0, :3], wanted[1] = wanted[0, :3][::-1], wanted[1, ::-1]
    check(topi.reverse_sequence, (M, length), wanted)
    check(lambda x: topi.sliding_window(x, 0, [2, 2], [1, 2]), (M,),
          np.lib.stride_tricks.sliding_window_view(M, (2, 2))[:, ::2])  # fmt: skip
    for begin, end, stride in (([0, 1], [3, 4], [2, 2]), ([2, -1], [0, 0], [-1, -2]), ([1], [3], None)):
        cut = tuple(map(slice, begin, end, stride or [1] * len(begin)))
        wanted = M.copy()
        wanted[cut] = values = np.arange(M[cut].size, dtype=np.float32).reshape(M[cut].shape)
        check(lambda x, v, b=begin, e=end, s=stride: topi.strided_set(x, v, b, e, s), (M, values), wanted)
    check(topi.invert_permutation, (np.array([3, 0, 2, 1], np.int32),), np.array([1, 3, 2, 0]))
    row, column = np.array([[0], [2]], np.int32), np.array([1, 3], np.int32)
    check(lambda x, i, j: topi.adv_index(x, [i, j]), (M, row, column), M[row, column])
    check(lambda x, like: topi.expand_like(x, like, [0]), (M[0], M), np.broadcast_to(M[0], M.shape))
    check(lambda x: topi.shape(x), (M,), np.array([3, 4]))
    check(lambda x: topi.strided_slice(x, [None, 1], [None, 2], slice_mode="size"), (M,), M[:, 1:3])


def test_diagonals() -> None:
    new = np.array([[0, 1, 2], [3, 4, 5]], np.float32)
    wanted = M.copy()
    wanted[[0, 1, 2], [1, 2, 3]], wanted[[0, 1, 2], [0, 1, 2]] = new
    check(lambda x, d: topi.matrix_set_diag(x, d, (0, 1)), (M, new), wanted)
    wanted = M.copy()
    wanted[[1, 2], [0, 1]] = new[0, :2]
    check(lambda x, d: topi.matrix_set_diag(x, d, -1), (M, new[0, :2]), wanted)


def test_letters_of_unlike_symbols() -> None:
    n, m = te.var("n"), te.var("m")
    a, b = te.placeholder((2, n), name="a"), te.placeholder((m, 3), name="b")
    for inner in (4, 1):
        x, y = DRAW.random((2, 4), "float32"), DRAW.random((inner, 3), "float32")
        (found,) = te.reference([a, b, topi.einsum("ij,jk->ik", a, b)], [x, y])
        np.testing.assert_allclose(found, np.einsum("ij,jk->ik", x, y), rtol=1e-5)
    check(lambda s, t: topi.einsum("ij,ij->i", s, t), (M[:1], M), np.einsum("ij,ij->i", M[:1], M))


@pytest.mark.parametrize("inverse", [False, True])
def test_fourier(inverse: bool) -> None:
    re, im = DRAW.normal(size=(2, 3, 8)).astype(np.float32)
    wanted = (np.fft.ifft if inverse else np.fft.fft)(re + 1j * im)
    check(lambda a, b: topi.dft(a, b, inverse), (re, im), [wanted.real, wanted.imag])
    check(lambda a, b: topi.dft(a, b, inverse)[1], (re, im), wanted.imag)


def test_fourier_of_windows() -> None:
    x, window = DRAW.normal(size=(2, 20)).astype(np.float32), np.hanning(8).astype(np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(x, 8, 1)[:, ::3] * window
    wanted = np.fft.rfft(frames).swapaxes(1, 2) / 8**0.5
    check(lambda t, w: topi.stft(t, 8, 3, 8, w, True, True), (x, window), np.stack([wanted.real, wanted.imag], -1))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda x, k: topi.topk(x, 9), "the first 9 of 5"),
        (lambda x, k: topi.topk(x, 1, ret_type="all"), "no ret_type 'all'"),
        (lambda x, k: topi.sort(x, 2), "has no axis 2"),
        (lambda x, k: topi.argsort(x, k, 0), "for axis 0"),
        (lambda x, k: topi.searchsorted(x, k), "for Tensor"),
        (lambda x, k: topi.unique(x), "has 2 dimensions"),
        (lambda x, k: topi.scatter_nd(x, k, k, "swap"), "indices and"),
        (lambda x, k: topi.scatter_elements(x, x, x, 0, "swap"), "no mode 'swap'"),
        (lambda x, k: topi.expand_like(k, x, 0), "does not have the other axes"),
        (lambda x, k: topi.sliding_window(x, 0, [2], [1]), "windows \\[2\\]"),
        (lambda x, k: topi.matrix_set_diag(x, k, (1, 0)), "k=\\(1, 0\\)"),
        (lambda x, k: topi.adv_index(x, []), "0 indices"),
        (lambda x, k: topi.einsum("ij,ik->jk", x, topi.transpose(x)), "i is both 2 and 5"),
        (lambda x, k: topi.dft(x, k), "Tensor"),
        (lambda x, k: topi.stft(x, 0, 1, 1, k, False, True), "0 is less than 1"),
    ],
)
def test_what_does_not_fit_is_said(make: Callable[..., Tensor], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        make(*given(X, K))
