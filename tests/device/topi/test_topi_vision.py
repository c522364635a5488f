"""Boxes, sparse matrices and layers of few bits, against programs written out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from topi_check import check, given

import autosched
from autosched import te
from autosched.errors import UsageError
from autosched.te.tensor import Tensor
from autosched.topi import image, nn, sparse, vision

DRAW = np.random.default_rng(0)
#: class, score, left, top, right, bottom
BOXES = np.array(
    [[[0, 0.8, 1, 20, 25, 45], [1, 0.7, 30, 60, 50, 80], [0, 0.4, 4, 21, 19, 40],
      [2, 0.9, 35, 61, 52, 79], [1, 0.5, 100, 60, 70, 110], [-1, 0.9, 0, 0, 1, 1]]], np.float32
)  # fmt: skip
VALID = np.array([5], np.int32)
NAMES = np.arange(6, dtype=np.int32).reshape(1, 6)


def suppressed(order: list[int], dropped: list[int]) -> np.ndarray:
    rows = np.full_like(BOXES, -1)
    for place, box in enumerate(order):
        if box not in dropped:
            rows[0, place] = BOXES[0, box]
    return rows


def test_boxes_that_overlap() -> None:
    order = [3, 0, 1, 4, 2]
    arrays = (BOXES, VALID, NAMES)
    how = {"return_indices": False}
    check(lambda *t: vision.non_max_suppression(*t, -1, 0.45, True, **how), arrays, suppressed(order, [1, 2]))
    # box 1 is of another class than box 3; box 2 of the class of box 0
    check(lambda *t: vision.non_max_suppression(*t, -1, 0.45, False, **how), arrays, suppressed(order, [2]))
    check(lambda *t: vision.non_max_suppression(*t, 2, 0.45, True, **how), arrays, suppressed(order, [1, 4, 2]))
    check(lambda *t: vision.non_max_suppression(*t, -1, 0.45, True, 3, **how), arrays, suppressed(order[:3], [1]))
    wanted = [np.array([[3, 0, 4, -1, -1, -1]]), np.array([[3]])]
    check(lambda *t: vision.non_max_suppression(*t, -1, 0.45, True), arrays, wanted)
    front = suppressed([3, 0, 4], [])
    check(lambda *t: vision.non_max_suppression(*t, -1, 0.45, True, -1, 2, 1, 0, False, True), arrays, front)


def test_boxes_with_a_score() -> None:
    wanted = suppressed([0, 1, 3], [])
    check(
        lambda t: vision.get_valid_counts(t, 0.6, 0, 1),
        (BOXES,),
        [np.array([3]), wanted, np.array([[0, 1, 3, -1, -1, -1]])],
    )


def test_boxes_of_each_class() -> None:
    boxes = BOXES[:, :5, 2:]
    scores = np.stack([BOXES[0, :5, 1], BOXES[0, :5, 1][::-1]])[None]
    found = te.reference(
        [*(tensors := given(boxes, scores)), *vision.all_class_non_max_suppression(*tensors, 2, 0.5, 0.45)],
        [boxes, scores],
    )
    assert found[1] == [4]
    # class 0: box 3 (0.9), 0 (0.8); class 1: box 1 (0.9), 4 (0.8)
    np.testing.assert_array_equal(found[0][:4], [[0, 0, 3], [0, 0, 0], [0, 1, 1], [0, 1, 4]])


def test_regions() -> None:
    x = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
    rois = np.array([[0, 1, 2, 5, 4]], np.float32)
    # one sample in the middle of each part: rows 2.5 and 3.5, columns 2 and 4
    wanted = np.array([[[[22, 24], [30, 32]]]], np.float32)
    check(lambda t, r: vision.roi_align_nchw(t, r, 2, 1.0, "avg", 1), (x, rois), wanted)
    check(lambda t, r: vision.roi_align_nhwc(t, r, 2, 1.0, "max", 1), (x.reshape(1, 8, 8, 1), rois),
          wanted.reshape(1, 2, 2, 1))  # fmt: skip
    check(lambda t, r: vision.roi_align_nchw(t, r, 2, 1.0, "avg"), (x, rois), wanted)
    check(lambda t, r: vision.roi_pool_nchw(t, r, 2, 1.0), (x, rois), np.array([[[[27, 29], [35, 37]]]]))


def test_sizes_of_images() -> None:
    line = np.array([[[0, 4, 8]]], np.float32)
    for mode, method, wanted in (
        ("asymmetric", "nearest_neighbor", [0, 0, 4, 4, 8, 8]),
        ("align_corners", "linear", [0, 1.6, 3.2, 4.8, 6.4, 8]),
        ("half_pixel", "linear", [0, 1, 3, 5, 7, 8]),
        ("half_pixel", "cubic", [-0.28125, 0.71875, 2.90625, 5.09375, 7.28125, 8.28125]),
    ):
        check(lambda t, m=mode, h=method: image.resize1d(t, None, (6,), "NCW", h, m), (line,), np.array([[wanted]]))
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    box, of = np.array([[0, 0, 1 / 3, 1 / 3]], np.float32), np.array([0], np.int32)
    crop = np.array([[[[0, 0.5, 1], [2, 2.5, 3], [4, 4.5, 5]]]])
    check(lambda t, b, n: image.crop_and_resize(t, b, n, (3, 3)), (x, box, of), crop)
    weights = np.zeros((1, 2, 2), np.float32)
    check(
        lambda t, w: image.dilation2d_nchw(t, w, 2, 0, 1),
        (x, weights),
        np.array([[[[5, 7], [13, 15]]]]),
    )


def csr(dense: np.ndarray) -> tuple[np.ndarray, ...]:
    rows, columns = np.nonzero(dense)
    begins = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(dense)))])
    return dense[rows, columns], columns.astype(np.int32), begins.astype(np.int32)


def test_sparse_matrices() -> None:
    a = DRAW.integers(-2, 3, (4, 4)).astype(np.float32)
    a[1] = 0
    b, parts = DRAW.integers(-3, 4, (4, 3)).astype(np.float32), csr(a)
    check(lambda *t: sparse.csrmm(*t), (*parts, b), a @ b)
    check(lambda x, *t: sparse.dense(x, *t), (b.T.copy(), *parts), b.T @ a.T)
    check(lambda *t: sparse.dense_sparse_data(*t), (*parts, b.T.copy()), a @ b)
    check(lambda *t: sparse.transpose(*t), parts, csr(a.T.copy()))
    check(lambda x, *t: sparse.csradd(x, *t), (a, *parts), a + a)
    blocks = a.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(4, 2, 2).copy()
    places = (np.array([0, 1, 0, 1], np.int32), np.array([0, 2, 4], np.int32))
    check(lambda x, *t: sparse.dense(x, *t), (b.T.copy(), blocks, *places), b.T @ a.T)


def test_few_bits() -> None:
    x, w = DRAW.integers(0, 4, (2, 3, 5, 5)).astype(np.uint32), DRAW.integers(0, 2, (4, 3, 3, 3)).astype(np.uint32)
    signs = w.astype(np.int32) * 2 - 1
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int32), (3, 3), (2, 3))
    wanted = np.einsum("nchwij,ocij->nohw", windows, signs)
    check(lambda t, u: nn.bitserial_conv2d_nchw(t, u, 1, 0, 2, 1), (x, w), wanted)
    a, b = (np.sign(DRAW.random((n, 64)) - 0.5).astype(np.float32) for n in (2, 3))
    check(lambda s, t: nn.binary_dense(nn.binarize_pack(s), nn.binarize_pack(t)), (a, b), a @ b.T)
    v, scale = np.array([[-40, 0.26, 90]], np.float32), np.array([0.5], np.float32)
    code = np.array(nn.SQNN_DTYPE_TO_CODE["int8"], np.int32)
    check(lambda t, c, s: nn.simulated_quantize(t, c, s), (v, code, scale), np.array([[-80, 1, 127]]))
    check(lambda t, c, s: nn.simulated_dequantize(t, c, s), (v, code, scale), v * 0.5)


def test_layers_that_move_windows() -> None:
    x, w = DRAW.normal(size=(1, 4, 6, 6)).astype(np.float32), DRAW.normal(size=(2, 4, 3, 3)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    still = np.zeros((1, 18, 4, 4), np.float32)
    wanted = np.einsum("nchwij,ocij->nohw", windows, w)
    check(lambda t, o, u: nn.deformable_conv2d_nchw(t, o, u, 1, 0, 1, 1, 1), (x, still, w), wanted)
    # one element down
    down = still.copy()
    down[:, ::2] = 1
    ones, eights = np.ones_like(x), np.ones_like(w)
    wanted = np.concatenate([np.full((1, 2, 3, 4), 36.0), np.full((1, 2, 1, 4), 24.0)], 2)  # the last row is outside
    check(lambda t, o, u: nn.deformable_conv2d_nchw(t, o, u, 1, 0, 1, 1, 1), (ones, down, eights), wanted)
    check(lambda s, t: nn.correlation_nchw(s, t, 1, 0, 1, 1, 0, True), (x, x), (x * x).mean(1, keepdims=True))


def test_blocks_and_streams() -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4)
    wanted = np.stack([x[0, i::2, j::2] for i in range(2) for j in range(2)])
    check(lambda t: nn.space_to_batch_nd(t, [2, 2], [0, 0], [0, 0]), (x,), wanted)
    check(lambda t: nn.batch_to_space_nd(t, [2, 2], [1, 0], [0, 1]), (wanted,), x[:, 1:, :3])
    check(lambda t: nn.space_to_batch_nd(t, [3], [0], [2], 9.0), (x,),
          np.pad(x, ((0, 0), (0, 2), (0, 0)), constant_values=9).reshape(1, 2, 3, 4).swapaxes(0, 2)[:, :, 0])  # fmt: skip
    check(lambda d, b: nn.fifo_buffer(d, b, 1), (x[:, :1], x), np.concatenate([x[:, 1:], x[:, :1]], 1))


def test_losses_and_gradients() -> None:
    p, w = DRAW.random((2, 3, 4), "float32"), np.array([1, 2, 3], np.float32)
    t = np.array([[0, 1, 2, -100], [1, 1, 0, 2]], np.int32)
    share = w[np.maximum(t, 0)] * (t >= 0)
    each = -np.take_along_axis(p, np.maximum(t, 0)[:, None], 1)[:, 0] * share
    check(lambda a, b, c: nn.nll_loss(a, b, c, "none"), (p, t, w), each)
    check(lambda a, b, c: nn.nll_loss(a, b, c), (p, t, w), each.sum() / share.sum())
    x, g = DRAW.random((1, 1, 4, 4), "float32"), np.arange(1, 5, dtype=np.float32).reshape(1, 1, 2, 2)
    spread = g.repeat(2, 2).repeat(2, 3)
    check(lambda a, b: nn.pool_grad(a, b, 2, 2, 0, "avg"), (g, x), spread / 4)
    blocks = x.reshape(2, 2, 2, 2).max((1, 3)).repeat(2, 0).repeat(2, 1)
    check(lambda a, b: nn.pool_grad(a, b, 2, 2, 0, "max"), (g, x), spread * (x == blocks))


def test_channels_in_blocks() -> None:
    x, w = DRAW.random((1, 4, 5, 5), "float32"), DRAW.random((4, 2, 3, 3), "float32")
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    grouped = np.concatenate([np.einsum("nchwij,ocij->nohw", windows[:, k : k + 2], w[k : k + 2]) for k in (0, 2)], 1)
    data = x.reshape(1, 2, 2, 5, 5).transpose(0, 1, 3, 4, 2).copy()
    weights = w.reshape(2, 2, 1, 2, 3, 3).transpose(0, 2, 4, 5, 3, 1).copy()
    wanted = grouped.reshape(1, 2, 2, 3, 3).transpose(0, 1, 3, 4, 2)
    check(lambda t, u: nn.conv2d_NCHWc(t, u, 1, 0, 1), (data, weights), wanted)
    pairs = weights.reshape(2, 1, 3, 3, 1, 2, 2).swapaxes(5, 6).copy()
    check(lambda t, u: nn.conv2d_NCHWc(t, u, 1, 0, 1), (data, pairs), wanted)
    each = DRAW.random((4, 1, 3, 3), "float32")
    own = np.einsum("nchwij,cij->nchw", windows, each[:, 0]).reshape(1, 2, 2, 3, 3).transpose(0, 1, 3, 4, 2)
    blocked = each.reshape(2, 2, 1, 3, 3, 1).transpose(0, 2, 3, 4, 5, 1).copy()
    check(lambda t, u: nn.depthwise_conv2d_NCHWc(t, u, 1, 0, 1), (data, blocked), own)


def test_batches_of_matrices() -> None:
    a, b = DRAW.random((2, 1, 3, 4), "float32"), DRAW.random((5, 4, 2), "float32")
    check(lambda s, t: nn.matmul(s, t), (a, b), a @ b)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda x, v: image.resize1d(x, None, 4, "NHWC"), "is not NHWC"),
        (lambda x, v: image.resize1d(x, None, 4, "NCW", "spline"), "no method 'spline'"),
        (lambda x, v: image.resize1d(x, None, 4, "NCW", "linear", "corner"), "no coordinate_transformation_mode"),
        (
            lambda x, v: image.resize1d(x, None, 4, "NCW", "nearest_neighbor", rounding_method="up"),
            "no rounding_method",
        ),
        (lambda x, v: image.grid_sample(x, x), "in layout 'NCHW'"),
        (lambda x, v: image.crop_and_resize(x, x, v, 2), "NCHW"),
        (lambda x, v: image.dilation2d_nchw(x, x, 1, 0, 1), "and weights"),
        (lambda x, v: vision.roi_align_nchw(x, x, 2, 1.0, "avg"), "regions"),
        (lambda x, v: vision.all_class_non_max_suppression(x, x, 1, 0.5, 0.1, "coco"), "no output_format 'coco'"),
        (lambda x, v: sparse.csrmm(x, v, v, x), "vectors: values"),
        (lambda x, v: nn.bitserial_conv2d_nchw(x, x, 1, 0, 1, 1), "is packed"),
        (lambda x, v: nn.binarize_pack(x), "a multiple of 32"),
        (lambda x, v: nn.fifo_buffer(v, x, 0), "shapes equal but for axis 0"),
        (lambda x, v: nn.space_to_batch_nd(x, [4], [0], [0]), "do not make blocks of 4"),
        (lambda x, v: nn.batch_to_space_nd(x, [2], [0], [0]), "do not fill blocks"),
        (lambda x, v: nn.deformable_conv2d_nchw(x, x, x, 1, 0, 1, 1, 1), "4 dimensions each"),
        (lambda x, v: nn.correlation_nchw(x, x, 1, 1, 1, 1, 0, True), "of one shape"),
        (lambda x, v: nn.nll_loss(x, v, v, "median"), "no reduction 'median'"),
        (lambda x, v: nn.pool_grad(x, x, 2, 2, 0, "avg"), "NCHW or NHWC"),
        (lambda x, v: nn.depthwise_conv2d_NCHWc(x, x, 1, 0, 1), "5 and 6 dimensions"),
        (lambda x, v: nn.group_conv2d_transpose_nchw(x, x, 1, 0), "has 3 dimensions"),
    ],
)
def test_what_does_not_fit_is_said(make: Callable[..., Tensor], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        make(*given(BOXES, VALID.astype(np.float32)))


@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
def test_sizes_of_images_that_a_call_knows(mode: str, method: str) -> None:
    """The same as of numbers: one program for all sizes, of the image and of the result."""
    h, w, oh, ow = (te.var(name) for name in ("h", "w", "oh", "ow"))
    size, wide = te.placeholder((oh, ow), name="size"), te.placeholder((1, 2, h, w), name="wide")
    options = {"method": method, "coordinate_transformation_mode": mode, "rounding_method": "round"}
    made = image.resize2d(wide, None, (oh, ow), **options)
    assert (list(made.op.input_tensors) == [wide]) == (method == "nearest_neighbor")  # one step, not one for each axis
    of_call = te.compute(made.shape, lambda *i: made(*i) + 0 * size(i[2], i[3]), name="of_call")
    program = autosched.build(autosched.create_schedule(of_call), args=[wide, size, of_call])
    for shape, to in (((3, 5), (7, 4)), ((4, 4), (1, 1)), ((6, 2), (3, 9))):
        x = np.random.default_rng(1).random((1, 2, *shape), "float32")
        fixed = te.placeholder(x.shape, name="fixed")
        want = image.resize2d(fixed, None, to, **options)
        expected = te.reference([fixed, want], [x])[0]
        np.testing.assert_allclose(program(x, np.zeros(to, "float32")), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(UsageError, match="tf_crop_and_resize of 3 elements to oh"):
        image.resize1d(te.placeholder((1, 1, 3)), (0, 1), (oh,), "NCW", method, "tf_crop_and_resize")
