"""Rows about floats: arithmetic, zeros, NaN, functions, reductions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from semantic_backends import Expected, Row, each, whole
from semantic_rows_integers import INF, NAN, of

from autosched import te

Array = np.ndarray[Any, Any]
FLOATS = ("float16", "float32", "float64")

# -- arithmetic ---------------------------------------------------------------------------------------


def _subnormals() -> list[Row]:
    rows = []
    for t in FLOATS:
        info = np.finfo(t)
        tiny, least = float(info.tiny), float(info.smallest_subnormal)
        rows += [
            each(
                "float.subnormal",
                [of(t, tiny, tiny * 3), of(t, 0.5, 0.25)],
                lambda a, b: a * b,
                of(t, tiny / 2, tiny * 0.75),
            ),
            each(
                "float.subnormal",
                [of(t, least, tiny), of(t, least, -tiny * 0.5)],
                lambda a, b: a + b,
                of(t, 2 * least, tiny / 2),
            ),
            each("float.subnormal", [of(t, least)], lambda a: te.select(a > 0, 1, 0), of("int32", 1)),
        ]
    return rows


ARITHMETIC = [
    each(
        "float.round",
        [of("float32", 1, 16777216), of("float32", 2.0**-24, 1)],
        lambda a, b: a + b,
        of("float32", 1, 16777216),
    ),
    each("float.round", [of("float32", 1, 10), of("float32", 3, 3)], lambda a, b: a / b, of("float32", 1 / 3, 10 / 3)),
    each("float.round", [of("float64", 1, 2), of("float64", 49, 3)], lambda a, b: a / b, of("float64", 1 / 49, 2 / 3)),
    each("float.round", [of("float32", 2, 1e-40, 3)], te.sqrt, np.sqrt(of("float32", 2, 1e-40, 3))),
    each(
        "float.half", [of("float16", 2048, 0.1), of("float16", 1, 0.2)], lambda a, b: a + b, of("float16", 2048, 0.2998)
    ),
    each("float.half", [of("float16", 2048), of("float16", 1)], lambda a, b: a + b - a, of("float16", 0)),
    each("float.half", [of("float16", 300), of("float16", 300)], lambda a, b: a * b / b, of("float16", INF)),
    each("float.bfloat", [of("bfloat16", 256, 1)], lambda a: a + 1, of("bfloat16", 256, 2)),
    each("float.bfloat", [of("bfloat16", 3e38, 2.0**-133)], lambda a: a * 1.5, of("bfloat16", INF, 2.0**-132)),
    each(
        "float.bfloat",
        [of("float32", 1.005859375, 1.01171875)],
        lambda a: a.astype("bfloat16"),
        of("bfloat16", 1.0078125, 1.015625),
    ),
    each("type.float", [of("bfloat16", 1.5), of("float16", 0.5)], lambda a, b: a + b, of("float32", 2)),
    *_subnormals(),
    each(
        "float.divide",
        [of("float32", 1, -1, 0, 1), of("float32", 0, 0, 0, -0.0)],
        lambda a, b: a / b,
        of("float32", INF, -INF, NAN, -INF),
    ),
    each("float.overflow", [of("float32", 3e38, -3e38)], lambda a: a * 10, of("float32", INF, -INF)),
    each(
        "float.compare",
        [of("float32", NAN, 0.0, 1), of("float32", NAN, -0.0, 2)],
        lambda a, b: te.select(a == b, 1, 0),
        of("int32", 0, 1, 0),
    ),
    each(
        "float.compare",
        [of("float32", NAN, 0.0), of("float32", 1, -0.0)],
        lambda a, b: te.select(a != b, 1, 0),
        of("int32", 1, 0),
    ),
    each(
        "float.compare",
        [of("float32", NAN, -0.0), of("float32", 1, 0.0)],
        lambda a, b: te.select(a < b, 1, 0) + te.select(a >= b, 2, 0),
        of("int32", 0, 2),
    ),
    each(
        "float.classify",
        [of("float32", NAN, INF, 3)],
        lambda a: te.select(te.isnan(a), 1, 0) + te.select(te.isinf(a), 2, 0),
        of("int32", 1, 2, 0),
    ),
    each(
        "float.classify", [of("float64", NAN, -INF, 3)], lambda a: te.select(te.isfinite(a), 1, 0), of("int32", 0, 0, 1)
    ),
    each(
        "float.contract",
        [of("float32", 1 + 2.0**-12), of("float32", 1 + 2.0**-12), of("float32", -1)],
        lambda a, b, c: a * b + c,
        Expected(of("float32", 2.0**-11), (of("float32", 2.0**-11 + 2.0**-24),)),
    ),
]

# -- zeros, remainders --------------------------------------------------------------------------------


def _zeros(t: str) -> list[Row]:
    z, n = 0.0, -0.0
    return [
        each("zero.sign", [of(t, z, n, n, z), of(t, n, n, z, z)], lambda a, b: a + b, of(t, z, n, z, z)),
        each("zero.sign", [of(t, 1, 3), of(t, 1, 3)], lambda a, b: a - b, of(t, z, z)),
        each("zero.sign", [of(t, z, z, n), of(t, -1, 1, -1)], lambda a, b: a * b, of(t, n, z, z)),
        each("zero.sign", [of(t, z, 1, -1), of(t, -2, -INF, INF)], lambda a, b: a / b, of(t, n, n, n)),
        each("zero.sign", [of(t, z, n)], lambda a: -a, of(t, n, z)),
        each("zero.sign", [of(t, n)], te.abs, of(t, z)),
        each("zero.sign", [of(t, n, -0.25, 0.25)], te.trunc, of(t, n, n, z)),
        each("zero.sign", [of(t, n, -0.25)], te.ceil, of(t, n, n)),
        each("zero.sign", [of(t, n, -0.25, -0.5)], te.nearbyint, of(t, n, n, n)),
        each("zero.sign", [of(t, n, -0.25)], te.round, of(t, n, n)),
        each("zero.sign", [of(t, n)], te.floor, of(t, n)),
        each("zero.sign", [of(t, n)], te.sqrt, of(t, n)),
        each("zero.sign", [of(t, 3, 3), of(t, z, n)], te.copysign, of(t, 3, -3)),
        each("zero.sign", [of(t, 1, 1), of(t, z, n)], lambda a, b: a / (b * 1), of(t, INF, -INF)),
        each("zero.remainder", [of(t, 4, -4, 4, -4, n), of(t, 2, 2, -2, -2, 2)], te.floormod, of(t, z, z, n, n, z)),
        each("zero.remainder", [of(t, 4, -4, n), of(t, 2, 2, 2)], te.fmod, of(t, z, n, n)),
        each(
            "zero.remainder",
            [of(t, 4, -4), of(t, 2, 2)],
            lambda a, b: te.copysign(1.0, te.fmod(a, b)).astype(t),
            of(t, 1, -1),
        ),
        each(
            "zero.remainder",
            [of(t, 4, -4, 4, -4), of(t, 2, 2, -2, -2)],
            lambda a, b: te.copysign(1.0, te.floormod(a, b)).astype(t),
            of(t, 1, 1, -1, -1),
        ),
        each("zero.remainder", [of(t, 4, 4), of(t, 2, -2)], lambda a, b: 1 / te.floormod(a, b), of(t, INF, -INF)),
        each("zero.quotient", [of(t, z, n, 0.5, z), of(t, 2, 2, 3, -2)], te.floordiv, of(t, z, n, z, n)),
        each("zero.extreme", [of(t, z, n), of(t, n, z)], te.min, Expected(of(t, n, n), (of(t, z, z),))),
        each("zero.extreme", [of(t, z, n), of(t, n, z)], te.max, Expected(of(t, z, z), (of(t, n, n),))),
        each("zero.extreme", [of(t, z, n)], lambda a: te.max(a, 0.0), Expected(of(t, z, z), (of(t, n, n),))),
        each("zero.extreme", [of(t, n)], lambda a: 1 / te.max(a, 0.0), Expected(of(t, INF), (of(t, -INF),))),
    ]


def _remainders(t: str) -> list[Row]:
    return [
        each(
            "float.remainder",
            [of(t, 5.5, -5.5, 5.5, -5.5), of(t, 2, 2, -2, -2)],
            te.floormod,
            of(t, 1.5, 0.5, -0.5, -1.5),
        ),
        each(
            "float.remainder", [of(t, 5.5, -5.5, 5.5, -5.5), of(t, 2, 2, -2, -2)], te.fmod, of(t, 1.5, -1.5, 1.5, -1.5)
        ),
        each("float.remainder", [of(t, 5.5, -5.5, 5.5, -5.5), of(t, 2, 2, -2, -2)], te.floordiv, of(t, 2, -3, -3, 2)),
        each(
            "float.remainder",
            [of(t, 1, -1, INF, 1, NAN), of(t, INF, INF, 2, 0, 2)],
            te.floormod,
            of(t, 1, INF, NAN, NAN, NAN),
        ),
        each(
            "float.remainder",
            [of(t, 1, -1, 1, -1, 0), of(t, INF, INF, 0, 0, 0)],
            te.floordiv,
            of(t, 0, -1, INF, -INF, NAN),
        ),
        each("float.remainder", [of(t, 1, INF, 1), of(t, INF, 2, 0)], te.fmod, of(t, 1, NAN, NAN)),
        each("float.remainder", [*_far_apart(t)], te.fmod, np.fmod(*_far_apart(t))),
    ]


def _far_apart(t: str) -> tuple[Array, Array]:
    """Dividends and divisors whose quotients are as large as can be; remainders are exact all the same."""
    if t == "bfloat16":
        return of(t, 1, 3, -7, 3e38), of(t, 2.0**-9, 1e-3, 0.3, 0.7)
    limits = np.finfo(t)
    large = [limits.max, -limits.max, limits.max / 3, 1, -3, 1]
    return of(t, *large), of(t, 3, 0.7, limits.tiny, limits.smallest_subnormal * 3, limits.tiny * 1.5, 1e-3)


ZEROS = [row for t in FLOATS for row in (*_zeros(t), *_remainders(t))]

# -- rounding to integers -------------------------------------------------------------------------------


def _rounding(t: str) -> list[Row]:
    given = (0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.25, -2.75)
    rows = [
        each("round.even", [of(t, *given)], te.nearbyint, of(t, 0, 2, 2, -0.0, -2, -2, 2, -3)),
        each("round.away", [of(t, *given)], te.round, of(t, 1, 2, 3, -1, -2, -3, 2, -3)),
        each("round.directed", [of(t, *given)], te.floor, of(t, 0, 1, 2, -1, -2, -3, 2, -3)),
        each("round.directed", [of(t, *given)], te.ceil, of(t, 1, 2, 3, -0.0, -1, -2, 3, -2)),
        each("round.directed", [of(t, *given)], te.trunc, of(t, 0, 1, 2, -0.0, -1, -2, 2, -2)),
    ]
    for f in (te.nearbyint, te.round, te.floor, te.ceil, te.trunc):
        rows.append(each("round.special", [of(t, INF, -INF, NAN)], f, of(t, INF, -INF, NAN)))
    return rows


ROUNDING = [
    *(row for t in FLOATS for row in _rounding(t)),
    each(
        "round.away",
        [of("float32", np.nextafter(np.float32(0.5), np.float32(0)), 8388609.0)],
        te.round,
        of("float32", 0, 8388609),
    ),
    each("round.away", [of("float64", np.nextafter(0.5, 0), 2.0**52 + 1)], te.round, of("float64", 0, 2.0**52 + 1)),
    each(
        "round.scale", [of("float32", 0.75, 1, NAN), of("int32", -1, 200, 3)], te.ldexp, of("float32", 0.375, INF, NAN)
    ),
    each("round.scale", [of("float32", 3), of("int32", -150)], te.ldexp, of("float32", 3 * 2.0**-150)),
    each("round.next", [of("float16", -0.0, 0.0), of("float16", 0.0, -0.0)], te.nextafter, of("float16", 0.0, -0.0)),
    each(
        "round.next",
        [of("float32", 1, 0, 2), of("float32", 2, -1, 2)],
        te.nextafter,
        of("float32", 1 + 2.0**-23, -(2.0**-149), 2),
    ),
]

# -- the smaller and the larger ---------------------------------------------------------------------------

EXTREMES = [
    *(
        each("extreme.nan", [of(t, NAN, 1, NAN, -INF), of(t, 1, NAN, NAN, 2)], f, of(t, NAN, NAN, NAN, last))
        for t in FLOATS
        for f, last in ((te.min, -INF), (te.max, 2))
    ),
    each("extreme.nan", [of("float32", NAN, 3, -3)], lambda a: te.max(a, 0.5), of("float32", NAN, 3, 0.5)),
    each("extreme.nan", [of("float32", NAN, 3, -3)], lambda a: te.min(0.5, a), of("float32", NAN, 0.5, -3)),
    each(
        "extreme.choice",
        [of("float32", NAN, 1), of("float32", 2, 2)],
        lambda a, b: te.select(a < b, a, b),
        of("float32", 2, 1),
    ),
    each("extreme.integer", [of("uint8", 200), of("uint8", 100)], te.max, of("uint8", 200)),
    each("extreme.integer", [of("int8", -56), of("int8", 100)], te.max, of("int8", 100)),
    each("extreme.integer", [of("uint64", 2**63), of("uint64", 1)], te.max, of("uint64", 2**63)),
]

# -- functions --------------------------------------------------------------------------------------------

#: function -> (NumPy's in float64, arguments, the most ulp of float32 that docs/semantics.md allows)
ACCURACY: dict[str, tuple[Any, Array, float]] = {
    "exp": (np.exp, np.linspace(-80, 80, 61), 4),
    "exp2": (np.exp2, np.linspace(-120, 120, 61), 4),
    "exp10": (lambda x: 10.0**x, np.linspace(-30, 30, 61), 4),
    "log": (np.log, np.geomspace(1e-30, 1e30, 61), 4),
    "log2": (np.log2, np.geomspace(1e-30, 1e30, 61), 4),
    "log10": (np.log10, np.geomspace(1e-30, 1e30, 61), 4),
    "log1p": (np.log1p, np.linspace(-0.9, 50, 61), 4),
    "sin": (np.sin, np.linspace(-30, 30, 61), 4),
    "cos": (np.cos, np.linspace(-30, 30, 61), 4),
    "tan": (np.tan, np.linspace(-30, 30, 61), 6),
    "asin": (np.arcsin, np.linspace(-1, 1, 61), 6),
    "acos": (np.arccos, np.linspace(-1, 1, 61), 6),
    "atan": (np.arctan, np.linspace(-50, 50, 61), 6),
    "sinh": (np.sinh, np.linspace(-80, 80, 61), 6),
    "cosh": (np.cosh, np.linspace(-80, 80, 61), 6),
    "tanh": (np.tanh, np.linspace(-9, 9, 61), 6),
    "asinh": (np.arcsinh, np.linspace(-50, 50, 61), 6),
    "acosh": (np.arccosh, np.linspace(1.01, 50, 61), 6),
    "atanh": (np.arctanh, np.linspace(-0.99, 0.99, 61), 6),
    "erf": (np.vectorize(math.erf), np.linspace(-4, 4, 61), 16),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), np.linspace(-80, 80, 61), 6),
    "rsqrt": (lambda x: 1 / np.sqrt(x), np.geomspace(1e-30, 1e30, 61), 2),
}
ACCURACY_2: dict[str, tuple[Any, tuple[Array, Array], float]] = {
    "pow": (np.power, (np.linspace(0.1, 9, 61), np.linspace(-30, 30, 61)), 16),
    "atan2": (np.arctan2, (np.linspace(-3, 3, 61), np.linspace(5, -5, 61)), 6),
    "hypot": (np.hypot, (np.geomspace(1e-30, 1e30, 61), np.geomspace(1e-20, 1e30, 61)), 4),
}


def _accuracy() -> list[Row]:
    rows = []
    cases = {**{name: (f, (at,), ulps) for name, (f, at, ulps) in ACCURACY.items()}, **ACCURACY_2}
    for name, (f, at, ulps) in cases.items():
        for t, exact, most in (("f2", "f8", 1), ("f4", "f8", ulps), ("f8", "g", ulps)):
            given = [np.clip(a, -9, 9).astype(t) if t == "f2" else a.astype(t) for a in at]
            with np.errstate(all="ignore"):
                right = np.asarray(f(*(a.astype(exact) for a in given))).astype(t)
            kept = np.isfinite(right) & (np.abs(right) >= np.finfo(t).tiny)
            inputs = [a[kept] for a in given]
            rows.append(each("math.accuracy", inputs, getattr(te, name), Expected(right[kept], ulps=most)))
    return rows


FUNCTIONS = [
    *_accuracy(),
    each("math.special", [of("float32", INF, -INF, NAN, 0, 100)], te.exp, of("float32", INF, 0, NAN, 1, INF)),
    each("math.special", [of("float32", 0, -1, INF, NAN, 1)], te.log, of("float32", -INF, NAN, INF, NAN, 0)),
    each("math.special", [of("float32", -1, INF, NAN)], te.sqrt, of("float32", NAN, INF, NAN)),
    each("math.special", [of("float32", INF, -INF, NAN)], te.tanh, Expected(of("float32", 1, -1, NAN), ulps=1)),
    each("math.special", [of("float32", INF, -INF, NAN)], te.erf, of("float32", 1, -1, NAN)),
    each("math.special", [of("float32", INF, -INF, NAN)], te.sigmoid, of("float32", 1, 0, NAN)),
    each("math.special", [of("float32", INF, NAN)], te.sin, of("float32", NAN, NAN)),
    each(
        "math.special", [of("float32", 2, NAN, 1, 0), of("float32", 0, 0, NAN, -1)], te.pow, of("float32", 1, 1, 1, INF)
    ),
    each("math.special", [of("float32", -INF, -0.0, 4)], lambda a: te.pow(a, 0.5), of("float32", INF, 0, 2)),
    each("math.special", [of("float32", -INF, -0.0, 4)], lambda a: te.pow(a, -0.5), of("float32", 0, INF, 0.5)),
    each(
        "math.special", [of("float32", -INF, -0.0, NAN, 3)], lambda a: te.pow(a, 3), of("float32", -INF, -0.0, NAN, 27)
    ),
    each(
        "math.special", [of("float32", -INF, 0, 2**-70, 2)], lambda a: te.pow(a, -2), of("float32", 0, INF, INF, 0.25)
    ),
    each("math.special", [of("float16", 6, 300)], lambda a: te.pow(a, 2), of("float16", 36, INF)),
    each("math.special", [of("float32", NAN, 2)], lambda a: te.pow(a, 0), of("float32", 1, 1)),
    each("math.special", [of("float32", 0, 4, -1)], te.rsqrt, of("float32", INF, 0.5, NAN)),
]

# -- reductions -------------------------------------------------------------------------------------------


def _total(f: Any) -> Any:
    def compute(a: Any) -> Any:
        k = te.reduce_axis((0, a.shape[1]), "k")
        return te.compute((a.shape[0],), lambda i: f(a[i, k], axis=k), name="o")

    return compute


def _filtered(f: Any) -> Any:
    """No point takes part."""

    def compute(a: Any) -> Any:
        k = te.reduce_axis((0, a.shape[1]), "k")
        return te.compute((a.shape[0],), lambda i: f(a[i, k], axis=k, where=k < 0), name="o")

    return compute


def _row(t: str, *values: Any) -> list[Array]:
    return [of(t, *values).reshape(1, -1)]


LARGE = 2.0**24

REDUCTIONS = [
    whole("reduce.type", _row("int8", 100, 100), _total(te.sum), of("int8", -56)),
    whole("reduce.type", _row("uint8", 16, 17), _total(te.prod), of("uint8", 16)),
    whole("reduce.type", _row("uint8", 200, 100), _total(te.max), of("uint8", 200)),
    whole(
        "reduce.order",
        _row("float32", LARGE, 1, -LARGE, 1),
        _total(te.sum),
        Expected(of("float32", 1), (of("float32", 2),)),
    ),
    whole("reduce.empty", _row("int32", 1, 2), _filtered(te.sum), of("int32", 0)),
    whole("reduce.empty", _row("float32", 1, 2), _filtered(te.prod), of("float32", 1)),
    whole("reduce.empty", _row("int8", 1, 2), _filtered(te.max), of("int8", -128)),
    whole("reduce.empty", _row("float32", 1, 2), _filtered(te.min), of("float32", INF)),
    whole("reduce.empty", _row("int32", 1, 2), _filtered(te.argmax), of("int32", -1), of("int32", -(2**31))),
    whole("reduce.nan", _row("float32", 1, NAN, 0), _total(te.max), of("float32", NAN)),
    whole("reduce.nan", _row("float64", 1, NAN, 0), _total(te.min), of("float64", NAN)),
    whole("reduce.arg-tie", _row("int32", 1, 5, 5, 1), _total(te.argmax), of("int32", 1), of("int32", 5)),
    whole("reduce.arg-tie", _row("float32", 1, 0.0, -0.0, 1), lambda a: _total(te.argmin)(a)[0:1], of("int32", 1)),
    whole("reduce.arg-nan", _row("float32", 1, NAN, 9, NAN), _total(te.argmax), of("int32", 1), of("float32", NAN)),
    whole("reduce.arg-nan", _row("float32", 1, NAN, -9, NAN), _total(te.argmin), of("int32", 1), of("float32", NAN)),
]
