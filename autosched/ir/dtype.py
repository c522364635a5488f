"""Element types, spelled as in NumPy, with an optional lane count: `"uint8"`, `"float32x8"`.

A `DType` *is* its spelling (a `str`), so it compares, hashes, prints and serialises as one.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np

from autosched.errors import UsageError

SCALAR_DTYPES = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
)

_PATTERN = re.compile(r"(bool|int|uint|float)(\d*)(?:x([1-9]\d{0,5}))?")


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
        return np.dtype("uint64" if self.kind == "handle" else str(self.scalar))


@cache
def _parse(text: str) -> DType:
    match = _PATTERN.fullmatch(text)
    base, _, _ = text.partition("x")
    if match is None or base not in SCALAR_DTYPES or match[3] == "1":
        raise UsageError("no such element type", asked=f"dtype {text!r}", legal=f"legal: {', '.join(SCALAR_DTYPES)}")
    kind, bits, lanes = match.groups()
    result = DType(text)
    result.kind = kind
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


BOOL = dtype("bool")
INT32 = dtype("int32")
INT64 = dtype("int64")
HANDLE = DType("handle")
HANDLE.kind, HANDLE.bits, HANDLE.lanes = "handle", 64, 1


def promote(a: DType, b: DType) -> DType:
    """The type in which `a op b` is computed, which loses no float to an integer.

    Float beats integer, wider beats narrower, and signed with unsigned is signed of the wider
    width. Bool gives way to the other type.
    """
    if a == b or b.is_bool:
        return a
    if a.is_bool:
        return b
    if a.is_float or b.is_float:
        floats = [t for t in (a, b) if t.is_float]
        return max(floats, key=lambda t: t.bits)
    if a.kind == b.kind:
        return max(a, b, key=lambda t: t.bits)
    return dtype(f"int{max(a.bits, b.bits)}")
