"""Element types, spelled as in NumPy, with an optional lane count: `"uint8"`, `"float32x8"`. NumPy has bfloat16, the
upper half of a float32, by the package `ml_dtypes`.

A `DType` *is* its spelling (a `str`), so it compares, hashes, prints and serialises as one.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from autosched.errors import UsageError, UsageTypeError

SCALAR_DTYPES = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
    "bfloat16",
)

#: The type's name. NumPy knows it once `dtype` or `numpy_dtype` was asked for it, which imports `ml_dtypes`.
BFLOAT16 = "bfloat16"

_PATTERN = re.compile(r"(bool|int|uint|b?float)(\d*)(?:x([1-9]\d{0,5}))?")


class DType(str):
    """One element type. `kind` is `"bool"`, `"int"`, `"uint"` or `"float"`; `bits` per lane.

    `HANDLE` is the type of an address that is passed to a call: no tensor holds any.
    """

    __slots__ = ("bits", "kind", "lanes")
    kind: str
    bits: int
    lanes: int

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer, bool not included."""
        return self.kind in ("int", "uint")

    @property
    def scalar(self) -> DType:
        return self if self.lanes == 1 else self.with_lanes(1)

    def with_lanes(self, lanes: int) -> DType:
        base = self.partition("x")[0]
        return dtype(base if lanes == 1 else f"{base}x{lanes}")

    @property
    def bytes(self) -> int:
        """Bytes of all lanes in memory; a bool takes one byte."""
        return max(self.bits, 8) // 8 * self.lanes

    @property
    def min(self) -> int | float:
        """Smallest value: an int for integers and bool, `-inf` for floats."""
        if self.is_float:
            return float("-inf")
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def max(self) -> int | float:
        if self.is_float:
            return float("inf")
        return (1 << (self.bits - (self.kind == "int"))) - 1

    @property
    def numpy(self) -> np.dtype:
        return numpy_dtype("uint64" if self.kind == "handle" else self.scalar)


@cache
def _parse(text: str) -> DType:
    match = _PATTERN.fullmatch(text)
    base, _, _ = text.partition("x")
    if match is None or base not in SCALAR_DTYPES or match[3] == "1":
        raise UsageError("no such element type", asked=f"dtype {text!r}", legal=f"legal: {', '.join(SCALAR_DTYPES)}")
    kind, bits, lanes = match.groups()
    if base == BFLOAT16:
        numpy_dtype(base)
    result = DType(text)
    result.kind = kind.removeprefix("b") if kind == "bfloat" else kind
    result.bits = int(bits) if bits else 1
    result.lanes = int(lanes) if lanes else 1
    return result


def dtype(spec: object) -> DType:
    """The `DType` that `spec` names: a string, a NumPy dtype or scalar type, or a Python type.

    >>> dtype("uint16").max, dtype(float), dtype("float32x8").lanes
    (65535, 'float64', 8)
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str):
        return _parse(spec)
    try:
        # np.dtype(None) is float64: a forgotten type must not become one
        return _parse("None" if spec is None else np.dtype(spec).name)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise UsageError(
            "no such element type", asked=f"dtype {spec!r}", legal=f"legal: {', '.join(SCALAR_DTYPES)}"
        ) from None


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's type of the name that a scalar type has here."""
    if name == BFLOAT16:
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(str(name))


def from_file(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What `np.load` gave, of the type it was saved with: NumPy's files know bfloat16 as two bytes of no type."""
    return array.view(numpy_dtype(BFLOAT16)) if array.dtype.kind == "V" and array.itemsize == 2 else array


def unmasked(value: Any, asked: str) -> Any:
    """A value that may be an array. Raises UsageTypeError for a masked one, whose mask NumPy would drop in silence."""
    if isinstance(value, np.ma.MaskedArray):
        why = "it is a masked array, and compiled code knows no masks"
        raise UsageTypeError(why, asked=asked, legal=".filled(value) of it, and its mask as an argument of its own")
    return value


def is_float(of: np.dtype[Any]) -> bool:
    """Whether a type of NumPy is one of floats: to NumPy itself, bfloat16 is none."""
    return of.kind == "f" or of.name == BFLOAT16


BOOL = dtype("bool")
FLOAT32 = dtype("float32")
INT32 = dtype("int32")
INT64 = dtype("int64")
HANDLE = DType("handle")
HANDLE.kind, HANDLE.bits, HANDLE.lanes = "handle", 64, 1


def promote(a: DType, b: DType) -> DType:
    """The type in which `a op b` is computed, which loses no float to an integer.

    Float beats integer, wider beats narrower, and signed with unsigned is signed of the wider
    width. bfloat16 and float16, of which neither holds the other, meet in float32. Bool gives way to the other type.
    """
    if a == b or b.is_bool:
        return a
    if a.is_bool:
        return b
    if a.is_float or b.is_float:
        floats = [t for t in (a, b) if t.is_float]
        if len(floats) == 2 and a.bits == b.bits:
            return FLOAT32.with_lanes(a.lanes)
        return max(floats, key=lambda t: t.bits)
    if a.kind == b.kind:
        return max(a, b, key=lambda t: t.bits)
    return dtype(f"int{max(a.bits, b.bits)}")
