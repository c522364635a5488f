"""Layers against NumPy, written out over windows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from topi_check import check, given

from autosched import te, topi
from autosched.errors import UsageError
from autosched.te.tensor import Tensor

DRAW = np.random.default_rng(1)
nn = topi.nn


def numbers(*shape: int) -> np.ndarray:
    return DRAW.integers(-3, 4, shape).astype(np.float32)


X = numbers(2, 4, 7, 6)
W = numbers(6, 4, 3, 2)


def conv(x: np.ndarray, w: np.ndarray, stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1) -> np.ndarray:
    """Any number of spatial dimensions, in NC... and OI... ."""
    space = x.ndim - 2
    x = np.pad(x, [(0, 0)] * 2 + [(pad, pad)] * space)
    reach = [(k - 1) * dilation + 1 for k in w.shape[2:]]
    windows = sliding_window_view(x, reach, axis=tuple(range(2, x.ndim)))  # type: ignore[call-overload]
    windows = windows[(..., *[slice(None, None, dilation)] * space)]
    windows = windows[(slice(None), slice(None), *[slice(None, None, stride)] * space)]
    letters = "xyz"[:space]
    parts = zip(np.split(windows, groups, 1), np.split(w, groups, 0), strict=True)
    rule = f"nc{letters}{letters.upper()},oc{letters.upper()}->no{letters}"
    return np.concatenate([np.einsum(rule, a, b) for a, b in parts], 1)


@pytest.mark.parametrize(("stride", "pad", "dilation"), itertools.product((1, 2), (0, 1), (1, 2)))
def test_convolutions(stride: int, pad: int, dilation: int) -> None:
    wanted = conv(X, W, stride, pad, dilation)
    how = (stride, pad, dilation)
    check(lambda x, w: nn.conv2d_nchw(x, w, *how), (X, W), wanted, compiled=stride == 2)
    nhwc = (X.transpose(0, 2, 3, 1).copy(), W.transpose(2, 3, 1, 0).copy())
    check(lambda x, w: nn.conv2d_nhwc(x, w, *how), nhwc, wanted.transpose(0, 2, 3, 1), compiled=False)
    hwcn = (X.transpose(2, 3, 1, 0).copy(), nhwc[1])
    check(lambda x, w: nn.conv2d_hwcn(x, w, *how), hwcn, wanted.transpose(2, 3, 1, 0), compiled=False)
    grouped = numbers(6, 2, 3, 2)
    wanted = conv(X, grouped, stride, pad, dilation, 2)
    check(lambda x, w: nn.group_conv2d_nchw(x, w, *how, 2), (X, grouped), wanted, compiled=False)
    each = numbers(4, 2, 3, 2)
    wanted = conv(X, each.reshape(8, 1, 3, 2), stride, pad, dilation, 4)
    check(lambda x, w: nn.depthwise_conv2d_nchw(x, w, *how), (X, each), wanted, compiled=stride == 2)
    last = (nhwc[0], each.transpose(2, 3, 0, 1).copy())
    check(lambda x, w: nn.depthwise_conv2d_nhwc(x, w, *how), last, wanted.transpose(0, 2, 3, 1), compiled=False)


def test_convolutions_of_other_ranks() -> None:
    x, w = numbers(2, 3, 9), numbers(4, 3, 3)
    check(lambda a, b: nn.conv1d_ncw(a, b, 2, 1), (x, w), conv(x, w, 2, 1))
    check(lambda a, b: nn.conv1d_ncw(a, b, 1, "SAME"), (x, w), conv(x, w, 1, 1), compiled=False)
    turned = (x.transpose(0, 2, 1).copy(), w.transpose(2, 1, 0).copy())
    check(lambda a, b: nn.conv1d_nwc(a, b), turned, conv(x, w).transpose(0, 2, 1), compiled=False)
    x, w = numbers(1, 2, 4, 5, 3), numbers(3, 2, 2, 3, 2)
    check(lambda a, b: nn.conv3d_ncdhw(a, b, 1, 1, 1), (x, w), conv(x, w, 1, 1), compiled=False)
    turned = (x.transpose(0, 2, 3, 4, 1).copy(), w.transpose(2, 3, 4, 1, 0).copy())
    wanted = conv(x, w, 2).transpose(0, 2, 3, 4, 1)
    check(lambda a, b: nn.conv3d_ndhwc(a, b, 2, 0, 1), turned, wanted, compiled=False)


def test_convolution_with_any_layout_and_wide_sums() -> None:
    x, w = X.astype(np.int8), W.astype(np.int8)
    made = conv(X, W, 1, 1).astype(np.int32)
    check(lambda a, b: nn.conv2d(a, b, 1, 1, 1, out_dtype="int32"), (x, w), made)
    odd = (X.transpose(1, 3, 0, 2).copy(), W.transpose(1, 3, 2, 0).copy())
    wanted = conv(X, W).transpose(1, 3, 0, 2)
    check(lambda a, b: nn.conv2d(a, b, 1, 0, 1, "CWNH", "IWHO"), odd, wanted, compiled=False)


def test_blocks_of_channels() -> None:
    x = X.reshape(2, 2, 2, 7, 6).transpose(0, 1, 3, 4, 2).copy()
    w = W.reshape(2, 3, 2, 2, 3, 2).transpose(0, 2, 4, 5, 3, 1).copy()
    wanted = conv(X, W, 2, 1).reshape(2, 2, 3, 4, 4).transpose(0, 1, 3, 4, 2)
    check(lambda a, b: nn.conv2d_NCHWc(a, b, 2, 1, 1), (x, w), wanted)


@pytest.mark.parametrize(("stride", "pad", "extra"), [(1, 0, 0), (2, 1, 1), (3, 0, 2)])
def test_transposed_convolution_is_the_adjoint(stride: int, pad: int, extra: int) -> None:
    """`<conv(y), x> == <y, transposed(x)>` for all x and y."""
    x, w = numbers(1, 4, 3, 3), numbers(4, 2, 3, 3)
    tensors = given(x, w)
    made = nn.conv2d_transpose_nchw(*tensors, stride, pad, None, extra)
    found = te.reference([*tensors, made], [x, w])[0]
    y = numbers(*found.shape)
    assert np.sum(conv(y, w, stride, pad) * x) == np.sum(y * found)


def test_transposed_convolution_in_one_dimension() -> None:
    x, w = numbers(1, 1, 3), numbers(1, 1, 2)
    wanted = np.zeros((1, 1, 6), np.float32)
    for k in range(3):
        wanted[0, 0, 2 * k : 2 * k + 2] += x[0, 0, k] * w[0, 0]
    check(lambda a, b: nn.conv1d_transpose_ncw(a, b, 2, 0), (x, w), wanted)


@pytest.mark.parametrize(("stride", "pad", "ceil"), itertools.product((1, 2), (0, 1), (False, True)))
def test_pooling(stride: int, pad: int, ceil: bool) -> None:
    count = [(-(-(d + 2 * pad - 3) // stride) if ceil else (d + 2 * pad - 3) // stride) + 1 for d in (7, 6)]
    biggest, total, kept, padded = (np.zeros((2, 4, *count), np.float32) for _ in range(4))
    for i, j in np.ndindex(*count):
        rows, columns = (range(k * stride - pad, k * stride - pad + 3) for k in (i, j))
        r, c = [y for y in rows if 0 <= y < 7], [x for x in columns if 0 <= x < 6]
        window = X[:, :, r][:, :, :, c]
        biggest[:, :, i, j] = window.max((2, 3))
        total[:, :, i, j] = window.sum((2, 3))
        kept[:, :, i, j] = len(r) * len(c)
        padded[:, :, i, j] = len([y for y in rows if y < 7 + pad]) * len([x for x in columns if x < 6 + pad])
    how = (3, stride, 1, pad)
    check(lambda x: nn.pool2d(x, *how, "max", ceil), (X,), biggest, compiled=ceil)
    check(lambda x: nn.pool2d(x, *how, "avg", ceil), (X,), total / padded, compiled=ceil)
    check(lambda x: nn.pool2d(x, *how, "avg", ceil, count_include_pad=False), (X,), total / kept, compiled=False)


def test_pooling_of_other_ranks_and_sizes() -> None:
    x = numbers(1, 2, 6)
    check(lambda a: nn.pool1d(a, 2, 2, 1, 0, "max"), (x,), x.reshape(1, 2, 3, 2).max(3), compiled=False)
    x = numbers(1, 1, 4, 4, 4)
    wanted = x.reshape(1, 1, 2, 2, 2, 2, 2, 2).mean((3, 5, 7))
    check(lambda a: nn.pool3d(a, 2, 2, 1, 0, "avg"), (x,), wanted, compiled=False)
    check(lambda a: nn.global_pool(a, "avg"), (X,), X.mean((2, 3), keepdims=True))
    wanted = np.stack([np.stack([X[:, :, a:b, c:d].mean((2, 3)) for c, d in ((0, 3), (3, 6))], 2)
                       for a, b in ((0, 3), (2, 5), (4, 7))], 2)  # fmt: skip
    check(lambda a: nn.adaptive_pool(a, (3, 2), "avg"), (X,), wanted)
    check(lambda a: nn.adaptive_pool(a, 1, "max"), (X,), X.max((2, 3), keepdims=True), compiled=False)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("axis", [-1, 1])
def test_softmax(axis: int) -> None:
    check(lambda x: nn.softmax(x, axis), (X,), softmax(X, axis))
    check(lambda x: nn.log_softmax(x, axis), (X,), np.log(softmax(X, axis)))


def test_activations() -> None:
    slope = np.array([0.5, 1, 2, 4], np.float32)
    check(nn.relu, (X,), np.maximum(X, 0))
    check(lambda x: nn.leaky_relu(x, 0.25), (X,), np.where(X > 0, X, X / 4))
    check(lambda x, s: nn.prelu(x, s), (X, slope), np.where(X > 0, X, X * slope[:, None, None]))


def normal(x: np.ndarray, axes: Any) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def test_normalizations() -> None:
    g, b = numbers(4), numbers(4)
    wide = (g[:, None, None], b[:, None, None])
    plane = (numbers(7, 6), numbers(7, 6))
    check(lambda x, g, b: nn.layer_norm(x, g, b, [2, 3]), (X, *plane), normal(X, (2, 3)) * plane[0] + plane[1])
    check(lambda x, g, b: nn.instance_norm(x, g, b, [2, 3]), (X, g, b), normal(X, (2, 3)) * wide[0] + wide[1])
    groups = normal(X.reshape(2, 2, 2, 7, 6), (2, 3, 4)).reshape(X.shape) * wide[0] + wide[1]
    check(lambda x, g, b: nn.group_norm(x, g, b, 2, 1, [2, 3]), (X, g, b), groups)
    rms = X / np.sqrt((X**2).mean((2, 3), keepdims=True) + 1e-5) * plane[0]
    check(lambda x, g: nn.rms_norm(x, g, [2, 3]), (X, plane[0]), rms)
    check(lambda x, g, b: nn.scale_shift_nchw(x, g, b), (X, g, b), X * wide[0] + wide[1])
    total = sum(np.pad(X**2, ((0, 0), (1, 1), (0, 0), (0, 0)))[:, k : k + 4] for k in range(3))
    check(lambda x: nn.lrn(x, 3), (X,), X / (2 + 1e-4 / 3 * total) ** 0.75)


def test_batch_normalization() -> None:
    g, b, m, v = numbers(4), numbers(4), numbers(4), np.abs(numbers(4)) + 1
    shaped = [a[:, None, None] for a in (g, b, m, v)]
    wanted = (X - shaped[2]) / np.sqrt(shaped[3] + 1e-5) * shaped[0] + shaped[1]
    check(lambda x, *p: nn.batch_norm(x, *p)[0], (X, g, b, m, v), wanted)
    trained = normal(X, (0, 2, 3)) * shaped[0] + shaped[1]
    moved = [m + 0.1 * (X.mean((0, 2, 3)) - m), v + 0.1 * (X.var((0, 2, 3)) - v)]
    check(lambda x, *p: nn.batch_norm(x, *p, training=True), (X, g, b, m, v), [trained, *moved])


def test_dense_layers() -> None:
    x, w, b = numbers(3, 5), numbers(4, 5), numbers(4)
    check(lambda x, w, b: nn.dense(x, w, b), (x, w, b), x @ w.T + b)
    check(lambda x, w: nn.matmul(x, w, transpose_a=True), (x, numbers(3, 2) * 0 + 1), x.T @ np.ones((3, 2)))
    p, q = numbers(2, 3, 5), numbers(1, 4, 5)
    check(lambda p, q: nn.batch_matmul(p, q), (p, q), p @ q.transpose(0, 2, 1))


def test_pictures() -> None:
    check(lambda x: nn.upsampling(x, 2, 3), (X,), X.repeat(2, 2).repeat(3, 3))
    line = np.array([[[[0, 4, 8]]]], np.float32)
    wanted = np.array([[[[0, 1, 3, 5, 7, 8]] * 2]], np.float32)
    check(lambda x: nn.upsampling(x, 2, 2, method="bilinear"), (line,), wanted)
    corners = np.array([[[[0, 1.6, 3.2, 4.8, 6.4, 8]]]], np.float32)
    check(lambda x: nn.upsampling(x, 1, 2, "NCHW", "bilinear", True), (line,), corners)
    deep = numbers(1, 8, 2, 3)
    wanted = deep.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6)
    check(lambda x: nn.depth_to_space(x, 2), (deep,), wanted)
    check(lambda x: nn.space_to_depth(nn.depth_to_space(x, 2), 2), (deep,), deep)


def test_borders_and_gaps() -> None:
    check(lambda x: nn.pad(x, (0, 0, 1, 2), (0, 0, 0, 1), 5.0), (X,),
          np.pad(X, ((0, 0), (0, 0), (1, 0), (2, 1)), constant_values=5))  # fmt: skip
    for mode, name in (("SYMMETRIC", "symmetric"), ("REFLECT", "reflect")):
        wanted = np.pad(X, ((0, 0), (0, 0), (2, 2), (1, 1)), mode=name)  # type: ignore[call-overload]
        check(lambda x, m=mode: nn.mirror_pad(x, (0, 0, 2, 1), mode=m), (X,), wanted)
    wide = np.full((2, 4, 13, 6), 9, np.float32)
    wide[:, :, ::2] = X
    check(lambda x: nn.dilate(x, (1, 1, 2, 1), 9), (X,), wide)
    assert nn.get_pad_tuple("SAME", (3, 4)) == (1, 2, 1, 1)


def test_lstm() -> None:
    xs, wi, wh, bias = (DRAW.normal(size=s).astype(np.float32) for s in ((5, 2, 3), (16, 3), (16, 4), (16,)))

    def sigmoid(a: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-a))

    h, c = np.zeros((2, 4)), np.zeros((2, 4))
    hidden, cells = [], []
    for x in xs[::-1]:
        i, f, g, o = np.split(x @ wi.T + h @ wh.T + bias, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        hidden.append(h)
        cells.append(c)
    check(lambda *t: nn.lstm(*t, reverse=True), (xs, wi, wh, bias), [np.stack(hidden), np.stack(cells)], compiled=False)
    check(lambda *t: nn.lstm(*t, reverse=True)[0], (xs, wi, wh, bias), np.stack(hidden))


def test_lstm_with_peepholes_and_a_projection() -> None:
    shapes = ((3, 2, 3), (16, 3), (16, 5), (16,), (16,), (2, 5), (2, 4), (5, 4), (2, 4), (2, 4), (2, 4))
    given = tuple(DRAW.normal(size=s).astype(np.float32) for s in shapes)

    def by_hand(peephole: float) -> tuple[np.ndarray, np.ndarray]:
        xs, wi, wh, bi, bh, h, c, proj, *of = given
        pi, pf, po = (peephole * p for p in of)
        hidden, cells = [], []
        for x in xs:
            i, f, g, o = np.split(x @ wi.T + h @ wh.T + bi + bh, 4, 1)
            i, f = (1 / (1 + np.exp(-(e + p * c))) for e, p in ((i, pi), (f, pf)))
            c = f * c + i * np.tanh(g)
            h = (np.tanh(c) / (1 + np.exp(-(o + po * c)))) @ proj.T
            hidden.append(h)
            cells.append(c)
        return np.stack(hidden), np.stack(cells)

    check(lambda *t: nn.lstm(*t)[0], given, by_hand(1)[0])
    check(lambda *t: nn.lstm(*t)[1], given, by_hand(1)[1])
    check(lambda *t: nn.lstm(*t)[0], given[:8], by_hand(0)[0])


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda x, w: nn.group_conv2d_nchw(x, w, 1, 0, 1, 2), "4 channels in 2 groups meet weights for 4"),
        (lambda x, w: nn.conv2d_nhwc(x, w, 1, 0, 1), "6 channels in 1 groups meet weights for 3"),
        (lambda x, w: nn.conv2d(x, w, 1, 0, 1, "NCXY"), "no usual kernel layout"),
        (lambda x, w: nn.conv2d(x, w, 1, 0, 1, "NCHW", "OIXY"), "layouts 'NCHW' and 'OIXY'"),
        (lambda x, w: nn.conv2d_nchw(x, w, 1, (1, 2, 3), 1), "3 numbers"),
        (lambda x, w: nn.pool2d(x, 3, 1, 1, 0, "median"), "no pool_type 'median'"),
        (lambda x, w: nn.dense(x, w), "not matrices"),
        (lambda x, w: nn.lrn(x, 0), "0 is less than 1"),
        (lambda x, w: nn.group_norm(x, x, x, 3, 1, [2]), "4 channels do not make 3 groups"),
        (lambda x, w: nn.mirror_pad(x, (0, 0, 0, 0), mode="WRAP"), "no mode 'WRAP'"),
        (lambda x, w: nn.upsampling(x, 2, 2, method="cubic"), "method 'cubic'"),
    ],
)
def test_what_does_not_fit_is_said(make: Callable[..., Tensor], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        make(*given(X, W))
