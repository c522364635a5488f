"""Types that no kernel stores: integers of 2 and 4 bits, floats of 4 to 8. Their values are carried as those of a wider
type, which has them all: integers as int8 or uint8, floats as float32. What is cast to a small type is rounded to one
of its values; inputs and outputs of a model are NumPy arrays of the type itself, which the package `ml_dtypes` has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autosched import te
from autosched.ir.dtype import DType
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr

Array = np.ndarray[Any, Any]

#: how a number that lies between two powers of two becomes one of them
ROUND_MODES = ("up", "down", "nearest")

#: ONNX's number of a small type -> its name
NAMES = {
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2", 27: "float6_e2m3fn", 28: "float6_e3m2fn",
}  # fmt: skip


def of_number(number: int | None) -> np.dtype[Any] | None:
    """The small type that ONNX has that number for; None for any other type."""
    return named(NAMES[number]) if number in NAMES else None


def named(name: str) -> np.dtype[Any]:
    """The small type of that name."""
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def is_small(of: np.dtype[Any]) -> bool:
    return of.name in NAMES.values()


def carrier(of: np.dtype[Any]) -> DType:
    """The type that carries the values of a small one; any other type itself."""
    if not is_small(of):
        return to_dtype(of)
    return to_dtype("float32" if of.name.startswith("float") else "uint8" if of.name.startswith("u") else "int8")


def carried(array: Array) -> Array:
    """The values of an array in the type that carries them."""
    return array.astype(carrier(array.dtype).numpy) if is_small(array.dtype) else array


def returned(value: Any, of: np.dtype[Any] | None) -> Any:
    """The arrays of a value, where kernels carry them, in their own type."""
    if of is None or value is None:
        return value
    return [x.astype(of) for x in value] if isinstance(value, list) else value.astype(of)


def limits(of: np.dtype[Any]) -> tuple[int, int]:
    """The least and the greatest of a small type of integers."""
    import ml_dtypes

    info = ml_dtypes.iinfo(of)
    return int(info.min), int(info.max)


def rounded(x: Expr, of: np.dtype[Any], saturate: bool = True, mode: str = "up") -> Expr:
    """The value of a small type that a number becomes. Integers keep their low bits."""
    import ml_dtypes

    if not of.name.startswith("float"):
        bits = int(ml_dtypes.iinfo(of).bits)
        low = x.astype("int32") << (32 - bits)
        return ((low if of.name.startswith("i") else low.astype("uint32")) >> (32 - bits)).astype(carrier(of))
    x = x if x.dtype == "float64" else x.astype("float32")
    if of.name == "float8_e8m0fnu":
        return _power_of_two(x.astype("float32"), saturate, mode)
    info = ml_dtypes.finfo(of)
    found = _to_grid(x, int(info.nmant), int(info.minexp))
    most = te.const(float(info.max), found.dtype)
    has_infinity, has_nan = (
        bool(np.isfinite(np.array(v, "float32").astype(of).astype("float32")) == 0) for v in (np.inf, np.nan)
    )
    if not has_nan:
        found = te.select(te.isnan(x), te.const(0, found.dtype), te.max(te.min(found, most), -most))
    elif saturate:
        found = te.max(te.min(found, most), -most)
    else:
        is_infinite = np.isinf(np.array(np.inf, "float32").astype(of).astype("float32"))
        beyond = te.const(float("inf") if has_infinity and is_infinite else float("nan"), found.dtype)
        found = te.select(te.abs(found) > most, te.copysign(beyond, found), found)
    if of.name.endswith("uz"):
        found = te.select(found == 0, te.const(0, found.dtype), found)  # there is no negative zero
    return found.astype("float32")


def _to_grid(x: Expr, digits: int, least: int) -> Expr:
    """The nearest number of so many binary digits after the first, in steps that stay the same below 2**least."""
    of, mantissa, bias = ("int64", 52, 1023) if x.dtype == "float64" else ("int32", 23, 127)
    bits = te.reinterpret(of, x)
    exponent = (bits >> mantissa) & te.const(2 * bias + 1, of)
    exponent = te.max(te.min(exponent, te.const(2 * bias, of)), te.const(least + bias, of))
    step = te.reinterpret(x.dtype, (exponent - digits) << mantissa)
    inverse = te.reinterpret(x.dtype, (2 * bias + digits - exponent) << mantissa)
    return te.nearbyint(x * inverse) * step


def _power_of_two(x: Expr, saturate: bool, mode: str) -> Expr:
    """The power of two, from 2**-127 to 2**127, that a number becomes."""
    bits = te.reinterpret("int32", te.abs(x))
    exponent, rest = bits >> 23, bits & 0x7FFFFF
    half = te.const(0x400000, "int32")
    # below 2**-126, one half is the least power itself
    whole = te.select(exponent == 0, half, te.const(0, "int32"))
    if mode == "up":
        more = rest > whole
    elif mode == "nearest":
        more = rest >= te.select(exponent == 0, te.const(0x600000, "int32"), half)
    else:
        more = rest < 0
    code = exponent + te.select(more, te.const(1, "int32"), te.const(0, "int32"))
    value = te.reinterpret("float32", te.select(code == 0, half, te.min(code, te.const(254, "int32")) << 23))
    beyond = te.isnan(x) if saturate else (te.isnan(x) | (code > 254) | (bits < half))
    return te.select(beyond, te.const(float("nan"), "float32"), value)
