"""Layers of numbers of few bits, and rounding to such numbers.

Convolutions of few-bit numbers are those of whole numbers here: packing bits into words is a way to compute them, not a
different result.
"""

from __future__ import annotations

from typing import Any

from autosched import te
from autosched.errors import UsageError
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr
from autosched.ir.simplify import simplify
from autosched.te.tensor import Tensor
from autosched.topi.arguments import Dims, Pads, axis_of, number
from autosched.topi.elementwise import elementwise
from autosched.topi.nn.convolution import convolution
from autosched.topi.nn.dense import dense


def _low_bits(x: Tensor, bits: int, of: object, is_unipolar: bool = False) -> Tensor:
    """The value of the lowest bits; of unipolar ones, a bit that is not set stands for -1."""
    most = (1 << bits) - 1

    def value(e: Expr) -> Expr:
        low = (e.astype("int32") & most).astype(of)
        return low * te.const(2, of) - te.const(most, of) if is_unipolar else low

    return elementwise(x, value, "low_bits")


def _bitserial(
    data: Tensor,
    kernel: Tensor,
    stride: Dims,
    padding: Pads,
    bits: tuple[int, int],
    of: object,
    unipolar: bool,
    layouts: tuple[str, str],
) -> Tensor:
    asked = "topi.nn.bitserial_conv2d"
    if kernel.ndim != 4:
        raise UsageError(
            f"{kernel!r} is packed", asked=asked, legal="weights of 4 dimensions: a number in each element"
        )
    x, w = _low_bits(data, bits[0], of), _low_bits(kernel, bits[1], of, unipolar)
    return convolution(x, w, stride, padding, 1, 1, *layouts, of, "bitserial_conv2d")


def bitserial_conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: Dims,
    padding: Pads,
    activation_bits: int,
    weight_bits: int,
    pack_dtype: object = "uint32",
    out_dtype: object = "int16",
    unipolar: bool = True,
) -> Tensor:
    """Convolve numbers of few bits: data [n, c, h, w], weights [out, in, h, w].

    unipolar:   a bit of the weights that is not set stands for -1
    pack_dtype: changes nothing
    """
    bits = (activation_bits, weight_bits)
    return _bitserial(data, kernel, stride, padding, bits, out_dtype, unipolar, ("NCHW", "OIHW"))


def bitserial_conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    stride: Dims,
    padding: Pads,
    activation_bits: int,
    weight_bits: int,
    pack_dtype: object = "uint32",
    out_dtype: object = "int16",
    unipolar: bool = True,
) -> Tensor:
    """Convolve numbers of few bits: data [n, h, w, c], weights [h, w, in, out]."""
    bits = (activation_bits, weight_bits)
    return _bitserial(data, kernel, stride, padding, bits, out_dtype, unipolar, ("NHWC", "HWIO"))


def bitserial_dense(
    data: Tensor,
    weight: Tensor,
    data_bits: int,
    weight_bits: int,
    pack_dtype: object = "uint32",
    out_dtype: object = "int16",
    unipolar: bool = True,
) -> Tensor:
    """Compute a fully connected layer of numbers of few bits: data [batch, in], weights [out, in]."""
    left = _low_bits(data, data_bits, out_dtype)
    return dense(left, _low_bits(weight, weight_bits, out_dtype, unipolar), None, out_dtype)


def binarize_pack(data: Tensor, axis: int | None = None, name: str = "PackedInput") -> Tensor:
    """Pack the signs of 32 neighbours along an axis (the last one) into a uint32: a bit is set for 0 and more."""
    asked = "topi.nn.binarize_pack"
    at = data.ndim - 1 if axis is None else axis_of(data, axis, asked)
    if number(data.shape[at], asked) % 32:
        raise UsageError(f"{data.shape[at]!r} elements", asked=asked, legal="a multiple of 32")
    shape = [simplify(te.floordiv(d, 32)) if k == at else d for k, d in enumerate(data.shape)]

    def body(*i: Expr) -> object:
        word: Any = te.const(0, "uint32")
        for bit in range(32):
            e = data(*(x * 32 + bit if k == at else x for k, x in enumerate(i)))
            word = (word << te.const(1, "uint32")) | (e >= te.const(0, e.dtype)).astype("uint32")
        return word

    return te.compute(tuple(shape), body, name=name, tag="binarize_pack")


def binary_dense(data: Tensor, weight: Tensor) -> Tensor:
    """Compute a fully connected layer of packed signs: [batch, words] and [out, words] of uint32."""
    k = te.reduce_axis((0, data.shape[1]), "k")
    counts = te.compute(
        (data.shape[0], weight.shape[0]),
        lambda i, j: te.sum(te.popcount(data(i, k) ^ weight(j, k)).astype("int32"), axis=k),
        name="binary_dense_counts",
    )
    total = data.shape[1] * 32
    return te.compute(
        counts.shape, lambda i, j: (total - 2 * counts(i, j)).astype("float32"), name="binary_dense", tag="binary_dense"
    )


#: type -> its number in `simulated_quantize`
SQNN_DTYPE_TO_CODE = {"disable": 0, "int8": 1, "uint8": 2, "int32": 3}


def _per_channel(t: Tensor | None, i: tuple[Expr, ...], at: int, otherwise: float) -> Expr:
    if t is None:
        return te.const(otherwise, "float32")
    place = te.min(i[at], t.shape[0] - 1) if t.ndim else None
    return (t(place) if place is not None else t()).astype("float32")


def simulated_quantize(
    data: Tensor,
    out_dtype: Tensor,
    output_scale: Tensor | None = None,
    output_zero_point: Tensor | None = None,
    axis: int = -1,
) -> Tensor:
    """Round floats as a quantization to a type would, and keep them floats.

    out_dtype:    a tensor without dimensions, with the type's number in SQNN_DTYPE_TO_CODE; 0 changes nothing
    output_scale: one number, or one for each place along the axis; so is `output_zero_point`
    """
    at = axis_of(data, axis, "topi.nn.simulated_quantize")

    def body(*i: Expr) -> object:
        code, x = out_dtype(), data(*i).astype("float32")
        whole = te.round(x / _per_channel(output_scale, i, at, 1)) + _per_channel(output_zero_point, i, at, 0)
        found = x
        for name in ("int8", "uint8", "int32"):
            of = to_dtype(name)
            low, high = (te.const(float(f(of).value), "float32") for f in (te.min_value, te.max_value))
            found = te.select(code == SQNN_DTYPE_TO_CODE[name], te.max(te.min(whole, high), low), found)
        return found.astype(data.dtype)

    return te.compute(data.shape, body, name="simulated_quantize", tag="injective")


def simulated_dequantize(
    data: Tensor,
    in_dtype: Tensor,
    input_scale: Tensor | None = None,
    input_zero_point: Tensor | None = None,
    axis: int = -1,
) -> Tensor:
    """Give floats that stand for quantized numbers their values; type 0 changes nothing."""
    at = axis_of(data, axis, "topi.nn.simulated_dequantize")

    def body(*i: Expr) -> object:
        x = data(*i).astype("float32")
        value = (x - _per_channel(input_zero_point, i, at, 0)) * _per_channel(input_scale, i, at, 1)
        return te.select(in_dtype() == 0, x, value).astype(data.dtype)

    return te.compute(data.shape, body, name="simulated_dequantize", tag="injective")
