"""`tvm.topi.nn`: layers, with the signatures and the meaning that TVM gives them where `autosched.topi.nn` differs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr
from autosched.te.tensor import Tensor
from autosched.topi import image, sparse
from autosched.topi import nn as _core
from autosched.topi.arguments import same
from autosched.topi.elementwise import UNARY
from autosched.topi.transform import reshape, transpose
from autosched.tvm._missing import missing
from autosched.tvm.te import compute, reduce_axis, sum
from autosched.tvm.topi.nn import utils as utils
from autosched.tvm.topi.nn import winograd_util as winograd_util
from autosched.tvm.topi.utils import get_const_tuple

globals().update({name: value for name, value in vars(_core).items() if name[0] != "_"})

#: arguments by which Ansor and MetaSchedule pass layouts on; nothing asks for them here
_LAYOUTS = ("auto_scheduler_rewritten_layout", "meta_schedule_original_shape", "auto_scheduler_should_rewrite_layout")


def _without_layouts(operator: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        given = {k: v for k, v in kwargs.items() if k in _LAYOUTS and v not in ("", None, False)}
        if given:
            asked = f"topi.nn.{operator.__name__}({', '.join(given)})"
            raise UsageError("weights are not rewritten in place", asked=asked, legal="weights as they are: see tune")
        return operator(*args, **{k: v for k, v in kwargs.items() if k not in _LAYOUTS})

    call.__name__, call.__doc__ = operator.__name__, operator.__doc__
    return call


for _name in ("conv2d_nhwc", "conv2d_nchw", "conv2d_hwcn", "matmul", "dense", "batch_matmul", "conv3d_ndhwc"):
    globals()[_name] = _without_layouts(getattr(_core, _name))


def conv(
    inp: Tensor,
    filt: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    data_layout: str,
    kernel_layout: str = "",
    out_dtype: Any = None,
    **layouts: Any,
) -> Tensor:
    """Convolve over any number of spatial dimensions; the kernel's layout follows from the data's unless given."""
    space = "".join(x for x in data_layout if x not in "NC")
    usual = f"OI{space}" if data_layout.index("C") < data_layout.index(space[0]) else f"{space}IO"
    of = _without_layouts(_core.convolution)
    result: Tensor = of(
        inp, filt, stride, padding, dilation, groups, data_layout, kernel_layout or usual, out_dtype, **layouts
    )
    return result


def _direct(name: str) -> Callable[..., Tensor]:
    """Winograd's way of computing a convolution; how it is computed is the schedule's business here."""

    def operator(
        data: Tensor,
        weight: Tensor,
        strides: Any,
        padding: Any,
        dilation: Any,
        out_dtype: Any,
        pre_computed: bool = False,
        **layouts: Any,
    ) -> Tensor:
        if pre_computed:
            why = "weights that are transformed already"
            raise UsageError(why, asked=f"topi.nn.conv2d_winograd_{name}", legal="pre_computed=False, with the weights")
        made: Tensor = globals()[f"conv2d_{name}"](data, weight, strides, padding, dilation, out_dtype, **layouts)
        return made

    return operator


conv2d_winograd_nhwc, conv2d_winograd_nchw = _direct("nhwc"), _direct("nchw")


def instance_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, axis: Any, epsilon: float = 1e-5, channel_axis: int = 1
) -> Tensor:
    """Normalise over `axis`; `gamma` and `beta` have the dimensions of `axis`, or one number for each channel."""
    axes = [k % data.ndim for k in (axis if isinstance(axis, (list, tuple)) else [axis])]
    if gamma.ndim == len(axes) and all(same(d, data.shape[k]) for d, k in zip(gamma.shape, axes, strict=True)):
        return _core.layer_norm(data, gamma, beta, axes, epsilon)
    return _core.instance_norm(data, gamma, beta, axis, epsilon, channel_axis)


def batch_norm(*args: Any, **kwargs: Any) -> list[Tensor]:
    """Normalise over every axis but one. What is not updated is returned as tensors of their own."""
    out, *moving = _core.batch_norm(*args, **kwargs)
    return [out, *(t if t.op.input_tensors else UNARY["identity"](t) for t in moving)]


def depth_to_space(data: Tensor, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Tensor:
    """Spread blocks of channels over squares; mode CDR is what ONNX calls CRD."""
    return _core.depth_to_space(data, block_size, layout, {"CDR": "CRD"}.get(mode, mode))


def _enlarged(data: Tensor, scales: dict[str, float], layout: str, method: str, mode: str) -> Tensor:
    size = dict(zip(layout, get_const_tuple(data.shape)))
    counts = [round(size[x] * s) for x, s in scales.items()]
    resize: Any = image.resize2d if len(counts) == 2 else image.resize3d
    made: Tensor = resize(data, None, counts, layout, method.removeprefix("bi").removeprefix("tri"), mode)
    return made


def upsampling(
    data: Tensor,
    scale_h: float,
    scale_w: float,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Any = None,
) -> Tensor:
    """Enlarge; bilinear samples start at the first element, while `autosched.topi` has them at half pixels."""
    mode = "align_corners" if align_corners else "asymmetric"
    return _enlarged(data, {"H": scale_h, "W": scale_w}, layout, method, mode)


def upsampling3d(
    data: Tensor,
    scale_d: float,
    scale_h: float,
    scale_w: float,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
    output_shape: Any = None,
) -> Tensor:
    """Enlarge D, H and W; `method` is nearest_neighbor or trilinear."""
    scales = {"D": scale_d, "H": scale_h, "W": scale_w}
    return _enlarged(data, scales, layout, method, coordinate_transformation_mode)


def scale_shift_nchwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Scale and shift each channel of [n, C, h, w, c]; the numbers are [C, c]."""
    made: Tensor = te.compute(
        Input.shape,
        lambda b, cc, i, j, c: Input[b, cc, i, j, c] * Scale[cc, c] + Shift[cc, c],
        name="ScaleShift",
        tag="broadcast",
    )
    return made


# -- sparse weights -----------------------------------------------------------------------------------

sparse_dense_sp_lhs = sparse.dense_sparse_data
sparse_transpose, sparse_add = sparse.transpose, sparse.csradd


def sparse_dense(
    dense_data: Tensor, sparse_data: Tensor, sparse_indices: Tensor, sparse_indptr: Tensor, sparse_lhs: bool = False
) -> Tensor:
    """Multiply by the transpose of a sparse matrix, or with `sparse_lhs` a sparse matrix by a transpose."""
    if sparse_lhs:
        return sparse.dense_sparse_data(sparse_data, sparse_indices, sparse_indptr, dense_data)
    return sparse_dense_sp_rhs(dense_data, sparse_data, sparse_indices, sparse_indptr)


def sparse_dense_sp_rhs(data: Tensor, weight_data: Tensor, weight_indices: Tensor, weight_indptr: Tensor) -> Tensor:
    """Multiply data [m, k] by the transpose of a sparse matrix [n, k].

    Of blocks [number, rows, columns] it is made of operations that schedules and rules take, with TVM's tags: sums for
    each row of blocks, and their elements in order.
    """
    if weight_data.ndim != 3:
        return sparse.dense(data, weight_data, weight_indices, weight_indptr)
    (m, k), (_, height, width) = data.shape, get_const_tuple(weight_data.shape)
    rows = weight_indptr.shape[0] - 1

    def sums(i: Expr, nb_j: Expr, j: Expr) -> Expr:
        first = weight_indptr[nb_j]
        elem_idx = reduce_axis((0, weight_indptr[nb_j + 1] - first), name="elem_idx")
        c = reduce_axis((0, width), name="c")
        at = first + elem_idx
        product = weight_data[at, j, c] * data[i, weight_indices[at] * width + c]
        return sum(product, axis=[elem_idx, c])

    kind = "sparse_dense_sp_rhs_bsrmm"
    flop = {"FLOP": 2 * m * rows * height * k}
    blocks = compute((m, rows, height), sums, name="sparse_dense_block", tag=f"{kind}_block", attrs=flop)
    made: Tensor = compute(
        (m, rows * height), lambda i, j: blocks[i, j // height, j % height], name="sparse_dense", tag=kind
    )
    return made


def sparse_conv2d(
    dense_data: Tensor,
    sparse_data: Tensor,
    sparse_indices: Tensor,
    sparse_indptr: Tensor,
    layout: str = "NHWC",
    kernel_size: int = 1,
) -> Tensor:
    """Convolve by a 1x1 kernel whose weights [out, in] are sparse."""
    if kernel_size != 1 or layout not in ("NHWC", "NCHW"):
        why = f"kernel_size {kernel_size}, layout {layout!r}"
        raise UsageError(why, asked="topi.nn.sparse_conv2d", legal="kernel_size 1, NHWC or NCHW")
    last = dense_data if layout == "NHWC" else transpose(dense_data, [0, 2, 3, 1])
    n, h, w, c = last.shape
    blocks = reshape(sparse_data, (*sparse_data.shape, 1)) if sparse_data.ndim == 2 else sparse_data
    made = sparse.dense(reshape(last, (n * h * w, c)), blocks, sparse_indices, sparse_indptr)
    out = reshape(made, (n, h, w, made.shape[1]))
    return out if layout == "NHWC" else transpose(out, [0, 3, 1, 2])


__getattr__ = missing(
    "topi.nn",
    globals(),
    {
        "depthwise_conv2d_backward_input_nhwc": "te.gradient of depthwise_conv2d_nhwc",
        "depthwise_conv2d_backward_weight_nhwc": "te.gradient of depthwise_conv2d_nhwc",
        **dict.fromkeys(
            ("conv2d_legalize", "conv2d_alter_layout", "dense_alter_layout", "conv2d_infer_layout"),
            "relay.build chooses layouts of a model's kernels itself",
        ),
        **dict.fromkeys(
            ("conv2d_winograd_weight_transform", "conv3d_winograd_weight_transform"),
            "conv2d_nchw and conv3d_ncdhw: how a convolution is computed is the schedule's business",
        ),
    },
)
