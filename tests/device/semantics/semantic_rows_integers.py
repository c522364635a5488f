"""Rows about types, integers, indices and conversions."""

from __future__ import annotations

from typing import Any

import numpy as np
from semantic_backends import Row, each, whole

from autosched import te

Array = np.ndarray[Any, Any]
INF, NAN = float("inf"), float("nan")


def of(dtype: str, *values: Any) -> Array:
    return np.array(values).astype(dtype) if dtype.startswith("f") else np.array(values, dtype)


# -- types ------------------------------------------------------------------------------------------

TYPES = [
    each("type.wider", [of("int8", 100), of("int32", 100)], lambda a, b: a * b, of("int32", 10000)),
    each("type.wider", [of("uint8", 255), of("uint16", 255)], lambda a, b: a + b, of("uint16", 510)),
    each("type.wider", [of("float32", 1.5), of("float64", 1e300)], lambda a, b: a * b, of("float64", 1.5e300)),
    each("type.signed", [of("int8", -1), of("uint8", 255)], lambda a, b: a + b, of("int8", -2)),
    each("type.signed", [of("int32", -1), of("uint32", 7)], lambda a, b: a + b, of("int32", 6)),
    each("type.signed", [of("int16", -1), of("uint32", 7)], lambda a, b: a + b, of("int32", 6)),
    each("type.signed", [of("int8", -1), of("uint8", 255)], lambda a, b: te.select(a == b, 1, 0), of("int32", 1)),
    each("type.float", [of("int32", 16777217), of("float32", 0)], lambda a, b: a + b, of("float32", 16777216)),
    each("type.float", [of("int64", 3), of("float16", 0.5)], lambda a, b: a * b, of("float16", 1.5)),
    each("type.literal", [of("uint8", 200, 255)], lambda a: a * 2, of("uint8", 144, 254)),
    each("type.literal", [of("int16", 32767)], lambda a: a + 1, of("int16", -32768)),
    each("type.literal", [of("float16", 1)], lambda a: a / 3, of("float16", 1 / 3)),
    each("type.literal", [of("float32", 1)], lambda a: a * 0.1, of("float32", 0.1)),
    each("type.literal-float", [of("uint8", 3)], lambda a: a * 0.5, of("float32", 1.5)),
    each("type.literal-float", [of("int64", 3)], lambda a: a * 0.5, of("float32", 1.5)),
    each("type.bool", [of("bool", True, False), of("bool", True, True)], lambda a, b: a + b, of("int32", 2, 1)),
    each("type.bool", [of("bool", True, False), of("uint8", 7, 7)], lambda a, b: a * b, of("uint8", 7, 0)),
    each("type.slash", [of("int32", 7, -7), of("int32", 2, 2)], lambda a, b: a / b, of("int32", 3, -3)),
    each("type.slash", [of("float32", 7, -7), of("int32", 2, 2)], lambda a, b: a / b, of("float32", 3.5, -3.5)),
    each("type.function", [of("int32", 4)], lambda a: te.sqrt(a), of("float32", 2)),
    each("type.function", [of("int64", 4)], lambda a: te.sqrt(a), of("float64", 2)),
    each("type.function", [of("int16", -4)], lambda a: te.floor(a), of("int16", -4)),
]

# -- integers ---------------------------------------------------------------------------------------


def _wraps() -> list[Row]:
    rows = []
    for bits in (8, 16, 32, 64):
        low, high, top = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 2**bits - 1
        i, u = f"int{bits}", f"uint{bits}"
        rows += [
            each("int.wrap", [of(i, high, low), of(i, 1, -1)], lambda a, b: a + b, of(i, low, high)),
            each("int.wrap", [of(i, low, high), of(i, 1, -1)], lambda a, b: a - b, of(i, high, low)),
            each("int.wrap", [of(i, low, high, low), of(i, -1, 2, 2)], lambda a, b: a * b, of(i, low, -2, 0)),
            each("int.wrap", [of(i, low, high)], lambda a: -a, of(i, low, -high)),
            each("int.wrap", [of(i, low, -5)], lambda a: te.abs(a), of(i, low, 5)),
            each("int.wrap", [of(u, top, 0), of(u, 1, 1)], lambda a, b: a + b, of(u, 0, 1)),
            each("int.wrap", [of(u, 0, 3), of(u, 1, 5)], lambda a, b: a - b, of(u, top, top - 1)),
            each("int.wrap", [of(u, top, 2 ** (bits - 1)), of(u, top, 2)], lambda a, b: a * b, of(u, 1, 0)),
            each("int.wrap", [of(u, 1, 0)], lambda a: -a, of(u, top, 0)),
        ]
    return rows


def _divisions() -> list[Row]:
    rows = []
    for t in ("int8", "int16", "int32", "int64"):
        low = int(np.iinfo(t).min)
        a, b = of(t, 7, -7, 7, -7, 6, -6), of(t, 2, 2, -2, -2, 3, 3)
        rows += [
            each("int.divide", [a, b], te.truncdiv, of(t, 3, -3, -3, 3, 2, -2)),
            each("int.divide", [a, b], te.truncmod, of(t, 1, -1, 1, -1, 0, 0)),
            each("int.divide", [a, b], te.floordiv, of(t, 3, -4, -4, 3, 2, -2)),
            each("int.divide", [a, b], te.floormod, of(t, 1, 1, -1, -1, 0, 0)),
            each("int.divide", [a, b], lambda a, b: a // b, of(t, 3, -4, -4, 3, 2, -2)),
            each("int.divide", [a, b], lambda a, b: a % b, of(t, 1, 1, -1, -1, 0, 0)),
        ]
        for divide in (te.truncdiv, te.floordiv, te.truncmod, te.floormod):
            remainder = divide in (te.truncmod, te.floormod)
            zero = of(t, 0, 0, 0, 0)
            rows.append(each("int.divide-zero", [of(t, 5, -5, 0, low), zero], divide, zero))
            overflow = of(t, 0 if remainder else low)
            rows.append(each("int.divide-overflow", [of(t, low), of(t, -1)], divide, overflow))
            rows.append(each("int.divide-overflow", [of(t, low)], lambda a, d=divide: d(a, -1), overflow))
    for t in ("uint8", "uint16", "uint32", "uint64"):
        top = int(np.iinfo(t).max)
        rows.append(each("int.divide", [of(t, top, 7), of(t, 2, 3)], te.floordiv, of(t, top // 2, 2)))
        rows.append(each("int.divide", [of(t, top, 7), of(t, 2, 3)], te.floormod, of(t, 1, 1)))
        for divide in (te.truncdiv, te.floordiv, te.truncmod, te.floormod):
            rows.append(each("int.divide-zero", [of(t, 5, top, 0), of(t, 0, 0, 0)], divide, of(t, 0, 0, 0)))
    return rows


def _shifts() -> list[Row]:
    rows = []
    for bits in (8, 16, 32, 64):
        i, u, low, top = f"int{bits}", f"uint{bits}", -(2 ** (bits - 1)), 2**bits - 1
        far = (bits, bits + 1, 127)
        rows += [
            each(
                "int.shift", [of(i, 1, 3, -1), of(i, bits - 1, bits - 1, 1)], lambda a, b: a << b, of(i, low, low, -2)
            ),
            each("int.shift", [of(i, low, -1, 5), of(i, bits - 1, 3, 1)], lambda a, b: a >> b, of(i, -1, -1, 2)),
            each("int.shift", [of(u, top, 5), of(u, bits - 1, 1)], lambda a, b: a >> b, of(u, 1, 2)),
            each("int.shift-far", [of(i, 1, -1, 5), of(i, *far)], lambda a, b: a << b, of(i, 0, 0, 0)),
            each("int.shift-far", [of(i, 1, -1, low), of(i, *far)], lambda a, b: a >> b, of(i, 0, -1, -1)),
            each("int.shift-far", [of(u, 1, top, 5), of(u, *far)], lambda a, b: a << b, of(u, 0, 0, 0)),
            each("int.shift-far", [of(u, 1, top, 5), of(u, *far)], lambda a, b: a >> b, of(u, 0, 0, 0)),
            each("int.shift-far", [of(i, 1, -1), of(i, -1, -1)], lambda a, b: a << b, of(i, 0, 0)),
            each("int.shift-far", [of(i, 1, -1), of(i, -1, -1)], lambda a, b: a >> b, of(i, 0, -1)),
            each("int.bits", [of(i, -1, 0, low, 6)], te.popcount, of(i, bits, 0, 1, 2)),
            each("int.bits", [of(i, -1, 0, 1)], te.clz, of("int32", 0, bits, bits - 1)),
            each("int.bits", [of(u, top, 0, 1)], te.clz, of("int32", 0, bits, bits - 1)),
            each("int.bits", [of(i, 12, -1), of(i, 10, 5)], lambda a, b: (a & b) | (a ^ ~b), of(i, -7, 5)),
        ]
    return rows


INTEGERS = [*_wraps(), *_divisions(), *_shifts()]

# -- indices ----------------------------------------------------------------------------------------


def _wide_product(a: Any) -> Any:
    return te.compute((8,), lambda i: a[i] + i * 65536 * 65536 // 65536, name="o")


def _as_value(a: Any) -> Any:
    return te.compute((4,), lambda i: a[i] * (i * 65536) * 65536, name="o")


def _outside(a: Any) -> Any:
    return te.compute(
        (4,), lambda i: te.if_then_else(i > 0, a[te.max(i - 1, 0)], 9) + te.if_then_else(i < 3, a[i + 1], 0), name="o"
    )


INDICES = [
    whole("index.exact", [np.zeros(8, "int32")], _wide_product, np.arange(8, dtype="int32") * 65536),
    whole("index.value", [np.ones(4, "int32")], _as_value, np.zeros(4, "int32")),
    whole("index.guard", [of("int32", 1, 2, 3, 4)], _outside, of("int32", 11, 4, 6, 3)),
]

# -- conversions ------------------------------------------------------------------------------------


def _saturating() -> list[Row]:
    rows = []
    for source in ("float16", "float32", "float64"):
        for bits in (8, 16, 32, 64):
            for t in (f"int{bits}", f"uint{bits}"):
                low, high = int(np.iinfo(t).min), int(np.iinfo(t).max)
                given = of(source, 2.75, -2.75, 0.99, INF, -INF, NAN)
                wanted = of(t, 2, -2 if low else 0, 0, high, low, 0)
                rows.append(each("cast.float-int", [given], lambda a, t=t: a.astype(t), wanted))
                if source != "float16":
                    far = of(source, float(high) * 4, -1e30)
                    rows.append(each("cast.float-int", [far], lambda a, t=t: a.astype(t), of(t, high, low)))
    near = of("float64", 255.999, 256, -0.999, -1, -128.999, -129)
    rows.append(each("cast.float-int", [near], lambda a: a.astype("uint8"), of("uint8", 255, 255, 0, 0, 0, 0)))
    rows.append(each("cast.float-int", [near], lambda a: a.astype("int8"), of("int8", 127, 127, 0, -1, -128, -128)))
    edge = of("float32", 2147483520, 2147483648, -2147483648, 4294967040)
    wanted = of("int32", 2147483520, 2147483647, -2147483648, 2147483647)
    rows.append(each("cast.float-int", [edge], lambda a: a.astype("int32"), wanted))
    return rows


BITS_OF_ONE_AND_A_HALF = 0x3FC00000

CASTS = [
    *_saturating(),
    each("cast.int-int", [of("int32", 300, -1, 128)], lambda a: a.astype("uint8"), of("uint8", 44, 255, 128)),
    each("cast.int-int", [of("int32", 300, -1, 128)], lambda a: a.astype("int8"), of("int8", 44, -1, -128)),
    each("cast.int-int", [of("int8", -1, 5)], lambda a: a.astype("uint64"), of("uint64", 2**64 - 1, 5)),
    each("cast.int-int", [of("uint8", 255, 5)], lambda a: a.astype("int64"), of("int64", 255, 5)),
    each("cast.int-int", [of("uint64", 2**64 - 1)], lambda a: a.astype("int64"), of("int64", -1)),
    each(
        "cast.int-float",
        [of("int32", 16777217, 16777219)],
        lambda a: a.astype("float32"),
        of("float32", 16777216, 16777220),
    ),
    each(
        "cast.int-float",
        [of("uint64", 2**64 - 1, 2**53 + 1)],
        lambda a: a.astype("float64"),
        of("float64", 2.0**64, 2.0**53),
    ),
    each(
        "cast.int-float",
        [of("int64", -(2**63), 2**62 + 1)],
        lambda a: a.astype("float32"),
        of("float32", -(2.0**63), 2.0**62),
    ),
    each(
        "cast.int-float",
        [of("int32", 2049, 65519, 65520)],
        lambda a: a.astype("float16"),
        of("float16", 2048, 65504, INF),
    ),
    each(
        "cast.float-float", [of("float64", 0.1, 1e39, NAN)], lambda a: a.astype("float32"), of("float32", 0.1, INF, NAN)
    ),
    each(
        "cast.float-float",
        [of("float32", 65519, 65520, 2.0**-25)],
        lambda a: a.astype("float16"),
        of("float16", 65504, INF, 0),
    ),
    each(
        "cast.float-float",
        [of("float64", 1 + 2.0**-11 + 2.0**-40)],
        lambda a: a.astype("float16"),
        of("float16", 1 + 2.0**-10),
    ),
    each("cast.float-float", [of("float16", 6e-8, -0.0)], lambda a: a.astype("float64"), of("float64", 2.0**-24, -0.0)),
    each(
        "cast.bool",
        [of("float32", 0, -0.0, 0.1, NAN)],
        lambda a: a.astype("bool"),
        of("bool", False, False, True, True),
    ),
    each("cast.bool", [of("uint8", 0, 2, 255)], lambda a: a.astype("bool"), of("bool", False, True, True)),
    each("cast.bool", [of("bool", False, True)], lambda a: a.astype("float32") * 3, of("float32", 0, 3)),
    each(
        "cast.bits",
        [of("float32", 1.5, -0.0)],
        lambda a: te.reinterpret("int32", a),
        of("int32", BITS_OF_ONE_AND_A_HALF, -(2**31)),
    ),
    each(
        "cast.bits", [of("int32", BITS_OF_ONE_AND_A_HALF)], lambda a: te.reinterpret("float32", a), of("float32", 1.5)
    ),
]
