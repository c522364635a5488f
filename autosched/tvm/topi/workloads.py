"""What TVM's CPU schedules of convolutions ask: its sizes as numbers, and the tiles of one that was not tuned.

Templates of one's own read both (`cfg["tile_ow"].size[-1]`). The schedules of this package do not: theirs are chosen by
the model of this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from autosched.errors import UsageError
from autosched.schedule.candidates import divisors
from autosched.target import Target
from autosched.te.tensor import Tensor
from autosched.tvm.autotvm.task.space import OtherOptionEntity, SplitEntity
from autosched.tvm.codegen import llvm_get_cpu_features
from autosched.tvm.topi.nn.utils import get_pad_tuple
from autosched.tvm.topi.utils import get_const_tuple

#: results that one thread keeps in registers at most while it adds up, as vectors
_ACCUMULATORS = 31


class Workload(NamedTuple):
    """A convolution in two dimensions: element types, sizes of data, kernel and borders; all but types are numbers."""

    in_dtype: str
    out_dtype: str
    height: int
    width: int
    in_filter: int
    groups: int
    out_filter: int
    kernel_h: int
    kernel_w: int
    padt: int
    padl: int
    padb: int
    padr: int
    dilation_h: int
    dilation_w: int
    stride_h: int
    stride_w: int


class DepthwiseWorkload(NamedTuple):
    """The same of a depthwise convolution, whose groups are its channels."""

    in_dtype: str
    out_dtype: str
    height: int
    width: int
    in_filter: int
    out_filter: int
    kernel_h: int
    kernel_w: int
    padt: int
    padl: int
    padb: int
    padr: int
    dilation_h: int
    dilation_w: int
    stride_h: int
    stride_w: int


def _sizes(tensor: Tensor, letters: str, asked: str) -> dict[str, int]:
    shape = get_const_tuple(tensor.shape)
    if len(shape) != len(letters):
        raise UsageError(f"{tensor.name} has {len(shape)} dimensions", asked=asked, legal=f"{letters}, one for each")
    return dict(zip(letters, shape, strict=True))


def _letters(layouts: Mapping[str, tuple[str, str]], layout: str, asked: str) -> tuple[str, str]:
    if layout not in layouts:
        raise UsageError(f"layout {layout!r}", asked=asked, legal=", ".join(layouts))
    return layouts[layout]


def _window(kernel: dict[str, int], stride: Any, padding: Any, dilation: Any) -> tuple[int, ...]:
    """The kernel's sizes, the borders, dilations and strides, in the order of a workload."""
    (dh, dw), (sh, sw) = (tuple(x) if isinstance(x, (tuple, list)) else (x, x) for x in (dilation, stride))
    reach = (kernel["H"] - 1) * dh + 1, (kernel["W"] - 1) * dw + 1
    return kernel["H"], kernel["W"], *get_pad_tuple(padding, reach), dh, dw, sh, sw


def _check_types(data: Tensor, kernel: Tensor, asked: str) -> None:
    if data.dtype != kernel.dtype and (str(data.dtype), str(kernel.dtype)) != ("uint8", "int8"):
        why = f"data of {data.dtype}, a kernel of {kernel.dtype}"
        raise UsageError(why, asked=asked, legal="one type for both, or uint8 and int8")


def conv2d_workload(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any, out_dtype: Any, data_layout: str = "NCHW"
) -> Workload:
    """The sizes of a convolution; kernels are OIHW beside NCHW and HWIO beside NHWC and HWCN.

    >>> from autosched import te
    >>> A, W = te.placeholder((1, 8, 14, 14), name="A"), te.placeholder((16, 8, 3, 3), name="W")
    >>> w = conv2d_workload(A, W, 2, 1, 1, "float32")
    >>> w.in_filter, w.groups, w.out_filter, w.padt, w.stride_w
    (8, 1, 16, 1, 2)
    """
    asked = "topi.nn.conv2d._get_workload"
    layouts = {"NCHW": ("NCHW", "OIHW"), "NHWC": ("NHWC", "HWIO"), "HWCN": ("HWCN", "HWIO")}
    of_data, of_kernel = _letters(layouts, data_layout, asked)
    size, filters = _sizes(data, of_data, asked), _sizes(kernel, of_kernel, asked)
    _check_types(data, kernel, asked)
    channels = size["C"], size["C"] // filters["I"], filters["O"]
    window = _window(filters, stride, padding, dilation)
    return Workload(str(data.dtype), str(out_dtype), size["H"], size["W"], *channels, *window)


def depthwise_workload(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any, out_dtype: Any, data_layout: str = "NCHW"
) -> DepthwiseWorkload:
    """The sizes of a depthwise convolution; kernels are [channel, multiplier, h, w] beside NCHW, [h, w, channel,
    multiplier] beside NHWC, [channel, multiplier, h, w, m, c] beside NCHWc.

    >>> from autosched import te
    >>> A, W = te.placeholder((1, 8, 14, 14), name="A"), te.placeholder((8, 2, 3, 3), name="W")
    >>> depthwise_workload(A, W, 1, "SAME", 2, "float32").out_filter
    16
    """
    asked = "topi.nn.depthwise_conv2d._get_workload"
    layouts = {"NCHW": ("NCHW", "CMHW"), "NHWC": ("NHWC", "HWCM"), "NCHWc": ("NCHWc", "CMHWmc")}
    of_data, of_kernel = _letters(layouts, data_layout, asked)
    size, filters = _sizes(data, of_data, asked), _sizes(kernel, of_kernel, asked)
    _check_types(data, kernel, asked)
    channels, taken = size["C"] * size.get("c", 1), filters["C"] * filters.get("c", 1)
    if (channels, size.get("c")) != (taken, filters.get("c")):
        why = f"data has {channels} channels, the kernel {taken}, in blocks of {size.get('c')} and {filters.get('c')}"
        raise UsageError(why, asked=asked, legal="the same channels, in the same blocks")
    made = taken * filters["M"] * filters.get("m", 1)
    window = _window(filters, stride, padding, dilation)
    return DepthwiseWorkload(str(data.dtype), str(out_dtype), size["H"], size["W"], channels, made, *window)


def get_simd_32bit_lanes() -> int:
    """How many numbers of 32 bits a vector register of the current target has: 16 with AVX-512, 8 with AVX, else 4."""
    target = Target.current(allow_none=True)
    cpu = target if target is not None and not target.is_gpu_style else Target("llvm")
    have = llvm_get_cpu_features(cpu)
    return 16 if "avx512f" in have else 8 if "avx" in have else 4


def _largest(number: int, most: int, of: Callable[[int], bool] = lambda d: True) -> int:
    """The largest divisor up to `most` for which a condition holds, or 1."""
    return max((d for d in divisors(number) if d <= most and of(d)), default=1)


def _out_sizes(wkl: Workload | DepthwiseWorkload) -> tuple[int, int]:
    """Height and width of the result."""
    tall, wide = (wkl.kernel_h - 1) * wkl.dilation_h + 1, (wkl.kernel_w - 1) * wkl.dilation_w + 1
    high = (wkl.height + wkl.padt + wkl.padb - tall) // wkl.stride_h + 1
    return high, (wkl.width + wkl.padl + wkl.padr - wide) // wkl.stride_w + 1


def _set_channels(cfg: Any, wkl: Workload | DepthwiseWorkload, ins: int, outs: int) -> None:
    cfg["tile_ic"] = SplitEntity([wkl.in_filter // ins, ins])
    cfg["tile_oc"] = SplitEntity([wkl.out_filter // outs, outs])


def _set_rows(cfg: Any, wkl: Workload | DepthwiseWorkload) -> None:
    width = _out_sizes(wkl)[1]
    columns = _largest(width, _ACCUMULATORS)
    cfg["tile_ow"] = SplitEntity([width // columns, columns])
    cfg["unroll_kw"] = OtherOptionEntity(False)


def _set_areas(cfg: Any, wkl: Workload | DepthwiseWorkload) -> None:
    high, width = _out_sizes(wkl)
    columns = _largest(width, _ACCUMULATORS)
    cfg["tile_ow"] = SplitEntity([width // columns, columns])
    cfg["tile_oh"] = OtherOptionEntity(_largest(high, _ACCUMULATORS // columns))


def fallback(cfg: Any, wkl: Workload | DepthwiseWorkload) -> None:
    """Set `tile_ic`, `tile_oc`, `tile_ow` and `unroll_kw`: channels fill a vector, columns of a row the registers."""
    outs = _largest(wkl.out_filter, get_simd_32bit_lanes())
    _set_channels(cfg, wkl, _largest(wkl.in_filter, outs), outs)
    _set_rows(cfg, wkl)


def fallback_1x1(cfg: Any, wkl: Workload) -> None:
    """Set `tile_ic`, `tile_oc`, `tile_ow` and the number `tile_oh`: columns and rows together fill the registers."""
    outs = _largest(wkl.out_filter, get_simd_32bit_lanes())
    _set_channels(cfg, wkl, _largest(wkl.in_filter, outs), outs)
    _set_areas(cfg, wkl)


def _set_bytes(cfg: Any, wkl: Workload, lanes: int, elements: int) -> None:
    """Channels of products of bytes: `elements` of them make a number of 32 bits, `lanes` of which make a vector."""
    if wkl.out_filter % lanes or wkl.in_filter % elements:
        why = f"{wkl.in_filter} channels to {wkl.out_filter}"
        legal = f"multiples of {elements} to multiples of {lanes}"
        raise UsageError(why, asked="the tiles of a convolution of bytes", legal=legal)
    outs = max(lanes, elements)
    _set_channels(cfg, wkl, _largest(wkl.in_filter, outs, lambda d: (outs - d) % 4 == 0), outs)


def fallback_int8(cfg: Any, wkl: Workload, int32_lanes: int = 16, num_int8_elements: int = 4) -> None:
    """Set `tile_ic`, `tile_oc`, `tile_ow`, `unroll_kw` for products of bytes."""
    _set_bytes(cfg, wkl, int32_lanes, num_int8_elements)
    _set_rows(cfg, wkl)


def fallback_1x1_int8(cfg: Any, wkl: Workload, int32_lanes: int = 16, num_int8_elements: int = 4) -> None:
    """Set `tile_ic`, `tile_oc`, `tile_ow` and the number `tile_oh` for products of bytes."""
    _set_bytes(cfg, wkl, int32_lanes, num_int8_elements)
    _set_areas(cfg, wkl)


#: file of `topi.nn` and of each machine -> name of TVM's in it -> what it is here
NAMES: dict[str, dict[str, Any]] = {
    "conv2d": {
        "_get_workload": conv2d_workload,
        "Workload": Workload,
        "fallback_schedule_cpu_common_int8": fallback_int8,
        "fallback_schedule_cpu_1x1_int8": fallback_1x1_int8,
    },
    "depthwise_conv2d": {
        "_get_workload": depthwise_workload,
        "Workload": DepthwiseWorkload,
        "_fallback_schedule": fallback,
    },
    "conv2d_avx_common": {"_fallback_schedule": fallback, "_fallback_schedule_int8": fallback_int8},
    "conv2d_avx_1x1": {"_fallback_schedule": fallback_1x1},
}
