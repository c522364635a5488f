"""The numbers at which each type goes wrong, and what every operator gives there by exact arithmetic.

Nothing here asks `autosched.ir.ops` or its users: integers are Python's own, float arithmetic is mpmath's with
precision to spare, rounded once to the type. What is not a number of the reals (infinities, NaN, the sign of
zero) is C99's Annex F, written out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
from mpmath import mpf

from autosched.ir.dtype import SCALAR_DTYPES, DType, dtype, is_float
from autosched.ir.expr import Expr
from autosched.ir.visit import post_order

INTEGERS = [t for t in SCALAR_DTYPES if "int" in t]
FLOATS = [t for t in SCALAR_DTYPES if "float" in t]

#: more bits than the largest float64 has before its point and the smallest behind it
EXACT_BITS = 2400


def finfo(of: Any) -> Any:
    """`np.finfo` of a type's name or of NumPy's type, and of bfloat16."""
    return ml_dtypes.finfo(of) if str(of) == "bfloat16" else np.finfo(of)


# -- numbers --------------------------------------------------------------------------------------


@cache
def edges(of: str) -> np.ndarray:
    """Every number of the type at which some operator changes its course."""
    t = dtype(of)
    if t.is_bool:
        return np.array([False, True])
    if t.is_integer:
        powers = [s * 2**p + d for p in range(t.bits + 1) for d in (-1, 0, 1) for s in (1, -1)]
        picks = {int(t.min), int(t.max), -100, -17, -7, -3, 3, 5, 7, 10, 100, *powers}
        return np.array(sorted(v for v in picks if t.min <= v <= t.max), of)
    return _float_edges(finfo(of))


def _float_edges(info: Any) -> np.ndarray:
    of, bits = info.dtype.type, int(info.nmant)
    base = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 7.25, 10.0, 100.5, math.pi, math.pi / 2, math.e]
    base += [2.0**p for p in range(max(int(info.minexp), -40), min(int(info.maxexp), 70))]
    base += [2.0**p for p in range(int(info.minexp), int(info.maxexp), 37)]
    base += [2.0 ** (bits - 1) + 0.5, 2.0 ** (bits - 1) + 1.5, 2.0**bits + 1, 2.0 ** (bits + 1) - 1]  # the last halves
    base += [float(v) for t in map(dtype, INTEGERS) for v in (t.max, int(t.max) + 1, int(t.max) + 0.5)]
    with np.errstate(over="ignore"):
        found = np.array(base, np.float64).astype(of)
        found = found[np.isfinite(found)]
        found = np.concatenate([found, np.nextafter(found, of(0)), np.nextafter(found, of(np.inf))])
    tiny = info.smallest_subnormal
    extra = [tiny, tiny * 3, info.tiny, np.nextafter(info.tiny, of(0)), info.max, np.nextafter(info.max, of(0))]
    few = 5 if info.nmant < 10 else 1  # bfloat16 has the exponents of float32 and, of its digits, the first
    found = np.unique(np.concatenate([found[np.isfinite(found)][::few], np.array(extra, of)]))
    return np.concatenate([found, -found, np.array([-0.0, np.inf, -np.inf, np.nan], of)])


@cache
def pairs(of: str, most: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of edges: all of them, or an even choice of `most` for each side that keeps the special ones."""
    found = edges(of)
    if len(found) > most:
        info = finfo(of) if dtype(of).is_float else None
        if info is None:
            t = dtype(of)
            picks = (t.min, int(t.min) + 1, -3, -1, 0, 1, 2, 3, int(t.max) - 1, t.max)
            special = np.array([v for v in picks if t.min <= v <= t.max], of)
        else:
            positive = [0.0, 0.5, 1, 2, 3, 0.1, info.tiny, info.smallest_subnormal, info.max, np.inf]
            special = np.array([*positive, *(-v for v in positive), np.nan], of)
        found = np.concatenate([special, found[:: -(-len(found) // (most - len(special)))]])
    a, b = np.meshgrid(found, found, indexing="ij")
    return a.ravel(), b.ravel()


def wrap(value: int, of: DType | str) -> int:
    """The integer of that type that is equal modulo two to the power of its width."""
    t = dtype(of)
    if t.is_bool:
        return int(value != 0)
    wrapped = value % (1 << t.bits)
    return wrapped - (1 << t.bits) if wrapped > t.max else wrapped


def rounded(value: mpf, of: str, zero: float = 0.0) -> float:
    """The float of type `of` nearest to a real, ties to even; `zero` gives the sign of what rounds to nothing."""
    info = finfo(of)
    if value == 0:
        return zero
    with mpmath.workprec(EXACT_BITS):
        _, exponent = mpmath.frexp(value)
        quantum = max(int(exponent) - 1, int(info.minexp)) - int(info.nmant)
        steps = mpmath.nint(mpmath.ldexp(value, -quantum))
        found = mpmath.ldexp(steps, quantum)
        if abs(found) > mpf(float(info.max)):
            return math.copysign(math.inf, -1 if value < 0 else 1)
        return float(found) if found else math.copysign(0.0, -1 if value < 0 else 1)


def real(x: Any) -> mpf:
    with mpmath.workprec(EXACT_BITS):
        return mpf(float(x))


# -- arithmetic on integers -----------------------------------------------------------------------


def floored(a: int, b: int) -> int:
    return a // b if b else 0


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0


def _shift_left(a: int, b: int, bits: int) -> int:
    return a << b if 0 <= b < bits else 0


def _shift_right(a: int, b: int, bits: int) -> int:
    return a >> b if 0 <= b < bits else -(a < 0)


#: operator -> its value before it wraps around, of two integers and the width of their type
ON_INTEGERS: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda a, b, _: a + b,
    "sub": lambda a, b, _: a - b,
    "mul": lambda a, b, _: a * b,
    "truncdiv": lambda a, b, _: truncated(a, b),
    "truncmod": lambda a, b, _: a - b * truncated(a, b) if b else 0,
    "floordiv": lambda a, b, _: floored(a, b),
    "floormod": lambda a, b, _: a - b * floored(a, b) if b else 0,
    "min": lambda a, b, _: min(a, b),
    "max": lambda a, b, _: max(a, b),
    "bitand": lambda a, b, _: a & b,
    "bitor": lambda a, b, _: a | b,
    "bitxor": lambda a, b, _: a ^ b,
    "shl": _shift_left,
    "shr": _shift_right,
}
ON_ONE_INTEGER: dict[str, Callable[[int, int], int]] = {
    "neg": lambda a, _: -a,
    "abs": lambda a, _: abs(a),
    "bitnot": lambda a, _: ~a,
    "popcount": lambda a, bits: (a % (1 << bits)).bit_count(),
    "clz": lambda a, bits: bits - (a % (1 << bits)).bit_length(),
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def exact_values(e: Expr, env: Mapping[Expr, int]) -> dict[Expr, int]:
    """The value of each part of an index expression, by Python's integers, which do not end; conditions are 0 or 1."""
    done = {v: int(x) for v, x in env.items()}
    for node in post_order(e):
        if node in done:
            continue
        a = [done[x] for x in node.args]
        match node.op:
            case "const":
                done[node] = int(node.value)
            case "select" | "if_then_else":
                done[node] = a[1] if a[0] else a[2]
            case "cast" | "likely":
                done[node] = a[0]
            case "and" | "or":
                done[node] = int(all(a) if node.op == "and" else any(a))
            case "not":
                done[node] = int(not a[0])
            case op if op in COMPARISONS:
                done[node] = int(COMPARISONS[op](*a))
            case op:
                done[node] = (ON_INTEGERS[op] if op in ON_INTEGERS else ON_ONE_INTEGER[op])(*a, 64)
    return done


def on_integers(op: str, of: str, *args: np.ndarray) -> np.ndarray:
    t = dtype(of)
    table: dict[str, Callable[..., int]] = ON_INTEGERS if op in ON_INTEGERS else ON_ONE_INTEGER
    found = [wrap(table[op](*map(int, point), t.bits), t) for point in zip(*args, strict=True)]
    return np.array(found, t.numpy)


def compared(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Python compares numbers of any type exactly."""
    return np.array([COMPARISONS[op](x.item(), y.item()) for x, y in zip(a, b, strict=True)])


# -- arithmetic on floats -------------------------------------------------------------------------


def _sign(x: float) -> float:
    return math.copysign(1.0, x)


def _add(a: float, b: float) -> mpf | float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a + b
    total = real(a) + real(b)
    return total if total else a + b  # the sign of a zero is IEEE's


def _mul(a: float, b: float) -> mpf | float:
    return real(a) * real(b) if math.isfinite(a) and math.isfinite(b) and a and b else a * b


def _div(a: float, b: float) -> mpf | float:
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if not (math.isinf(a) or math.isinf(b) or a == 0 or b == 0):
        return real(a) / real(b)
    if (a == 0 and b == 0) or (math.isinf(a) and math.isinf(b)):
        return math.nan
    size = 0.0 if a == 0 or math.isinf(b) else math.inf
    return size * _sign(a) * _sign(b)


def _fmod(a: float, b: float) -> mpf | float:
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return math.nan
    if math.isinf(b) or a == 0:
        return a
    rest = abs(real(a)) % abs(real(b))
    return rest * int(_sign(a)) if rest else math.copysign(0.0, a)


def _extreme(pick: Callable[[float, float], float]) -> Callable[[float, float], float]:
    return lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else pick(a, b)


def _hypot(a: float, b: float) -> mpf | float:
    if math.isinf(a) or math.isinf(b):
        return math.inf
    return math.nan if math.isnan(a) or math.isnan(b) else mpmath.sqrt(real(a) ** 2 + real(b) ** 2)


def _atan2(a: float, b: float) -> mpf | float:
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if math.isinf(a) or math.isinf(b) or a == 0:
        return math.atan2(a, b)
    if b == 0:
        return mpmath.pi / 2 * int(_sign(a))
    return mpmath.atan2(real(a), real(b))


def _pow(a: float, b: float) -> mpf | float:
    special = math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b) or a == 0 or b == 0 or a == 1
    if special:  # C's rules, which Python follows but for raising
        try:
            return math.pow(a, b)
        except (ValueError, ZeroDivisionError):
            odd = b.is_integer() and abs(b) < 2**53 and int(b) % 2 == 1
            return math.copysign(math.inf, a) if odd else math.inf
    if a < 0 and not float(b).is_integer():
        return math.nan
    negative = a < 0 and int(b) % 2 == 1
    size = abs(b) * abs(float(mpmath.log(abs(real(a)), 2)))
    if size > 3000:
        found: mpf | float = math.inf if (abs(a) > 1) == (b > 0) else 0.0
    else:
        found = mpmath.power(abs(real(a)), real(b))
    return -found if negative else found


def _nextafter(a: float, b: float, of: str) -> float:
    """By the order of the bits."""
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if a == b:
        return b
    info = finfo(of)
    if a == 0:
        return math.copysign(float(info.smallest_subnormal), b)
    bits = np.array(a, of).view(f"int{info.bits}")
    step = 1 if (b > a) == (a > 0) else -1
    return float((bits + bits.dtype.type(step)).view(of))


def _ldexp(a: float, n: int) -> mpf | float:
    return a if a == 0 or not math.isfinite(a) else mpmath.ldexp(real(a), int(np.clip(n, -4000, 4000)))


#: operator -> its value as a real, or as a float where it is exact already
ON_FLOATS: dict[str, Callable[[float, float], mpf | float]] = {
    "add": _add,
    "sub": lambda a, b: _add(a, -b),
    "mul": _mul,
    "div": _div,
    "fmod": _fmod,
    "truncmod": _fmod,
    "min": _extreme(min),
    "max": _extreme(max),
    "hypot": _hypot,
    "atan2": _atan2,
    "pow": _pow,
    "copysign": lambda a, b: math.copysign(a, b),
}


def _half_away(x: float) -> mpf:
    return mpmath.floor(abs(real(x)) + mpf(1) / 2) * int(_sign(x))


def _erf(x: float) -> mpf | float:
    """All the mantissas that there are have fewer than 60 bits: beyond 30 nothing is left of the difference to 1."""
    return _sign(x) if abs(x) > 30 else mpmath.erf(real(x))


def _tanh(x: float) -> mpf | float:
    return _sign(x) if abs(x) > 400 else mpmath.tanh(real(x))


def _sigmoid(x: float) -> mpf | float:
    if abs(x) > 3000:
        return 1.0 if x > 0 else 0.0
    return 1 / (1 + mpmath.exp(-real(x)))


def _bounded(function: Callable[[mpf], mpf], below: float, above: float) -> Callable[[float], mpf | float]:
    """A function that grows beyond every float outside (-4000, 4000): no number of that size is computed."""
    return lambda x: function(real(x)) if abs(x) < 4000 else (above if x > 0 else below)


_inf, _nan = math.inf, math.nan
#: name -> (value on finite numbers of its domain, the domain, values at +inf and -inf)
FUNCTIONS: dict[str, tuple[Callable[[float], mpf | float], Callable[[float], bool], float, float]] = {
    "exp": (_bounded(mpmath.exp, 0.0, _inf), lambda x: True, _inf, 0.0),
    "exp2": (_bounded(lambda x: mpmath.power(2, x), 0.0, _inf), lambda x: True, _inf, 0.0),
    "exp10": (_bounded(lambda x: mpmath.power(10, x), 0.0, _inf), lambda x: True, _inf, 0.0),
    "log": (lambda x: mpmath.log(real(x)) if x else -_inf, lambda x: x >= 0, _inf, _nan),
    "log2": (lambda x: mpmath.log(real(x), 2) if x else -_inf, lambda x: x >= 0, _inf, _nan),
    "log10": (lambda x: mpmath.log10(real(x)) if x else -_inf, lambda x: x >= 0, _inf, _nan),
    "log1p": (lambda x: mpmath.log(1 + real(x)) if x > -1 else -_inf, lambda x: x >= -1, _inf, _nan),
    "sin": (lambda x: mpmath.sin(real(x)), lambda x: True, _nan, _nan),
    "cos": (lambda x: mpmath.cos(real(x)), lambda x: True, _nan, _nan),
    "tan": (lambda x: mpmath.tan(real(x)), lambda x: True, _nan, _nan),
    "asin": (lambda x: mpmath.asin(real(x)), lambda x: abs(x) <= 1, _nan, _nan),
    "acos": (lambda x: mpmath.acos(real(x)), lambda x: abs(x) <= 1, _nan, _nan),
    "atan": (lambda x: mpmath.atan(real(x)), lambda x: True, math.pi / 2, -math.pi / 2),
    "sinh": (_bounded(mpmath.sinh, -_inf, _inf), lambda x: True, _inf, -_inf),
    "cosh": (_bounded(mpmath.cosh, _inf, _inf), lambda x: True, _inf, _inf),
    "tanh": (_tanh, lambda x: True, 1.0, -1.0),
    "asinh": (lambda x: mpmath.asinh(real(x)), lambda x: True, _inf, -_inf),
    "acosh": (lambda x: mpmath.acosh(real(x)), lambda x: x >= 1, _inf, _nan),
    "atanh": (
        lambda x: mpmath.atanh(real(x)) if abs(x) < 1 else math.copysign(_inf, x), lambda x: abs(x) <= 1, _nan, _nan
    ),
    "erf": (_erf, lambda x: True, 1.0, -1.0),
    "sigmoid": (_sigmoid, lambda x: True, 1.0, 0.0),
    "sqrt": (lambda x: mpmath.sqrt(real(x)) if x else x, lambda x: x >= 0, _inf, _nan),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(real(x)) if x else math.copysign(_inf, x), lambda x: x >= 0, 0.0, _nan),
    "floor": (lambda x: mpmath.floor(real(x)), lambda x: True, _inf, -_inf),
    "ceil": (lambda x: mpmath.ceil(real(x)), lambda x: True, _inf, -_inf),
    "trunc": (lambda x: mpmath.floor(abs(real(x))) * int(_sign(x)), lambda x: True, _inf, -_inf),
    "round": (_half_away, lambda x: True, _inf, -_inf),
    "nearbyint": (lambda x: mpmath.nint(real(x)), lambda x: True, _inf, -_inf),
    "neg": (lambda x: -x, lambda x: True, -_inf, _inf),
    "abs": (abs, lambda x: True, _inf, _inf),
}  # fmt: skip
CLASSES: dict[str, Callable[[float], bool]] = {"isnan": math.isnan, "isinf": math.isinf, "isfinite": math.isfinite}
#: functions whose results are exact, or rounded once: not a bit may differ
EXACT = frozenset(("sqrt", "floor", "ceil", "trunc", "round", "nearbyint", "neg", "abs"))
#: functions that keep the sign of what they are given, a zero's too
ODD = frozenset("sin tan asin atan sinh tanh asinh atanh erf trunc round nearbyint floor ceil log1p".split())


def on_one_float(op: str, x: np.ndarray) -> np.ndarray:
    return np.array([_at(op, float(v).hex(), str(x.dtype)) for v in x], x.dtype)


@cache  # by their digits: 0.0 and -0.0 are one key
def _at(op: str, digits: str, of: str) -> float:
    x = float.fromhex(digits)
    function, has, above, below = FUNCTIONS[op]
    if math.isnan(x):
        return math.nan
    if math.isinf(x):
        return above if x > 0 else below
    if not has(x):
        return math.nan
    if x == 0 and op in ODD:
        return x
    wide = EXACT_BITS if op in EXACT or abs(x) > 1e6 or abs(x) < 1e-6 else 300
    with mpmath.workprec(wide):
        found = function(x)
    sign = x if op in ODD else 0.0  # ceil(-0.5) is -0.0
    return found if isinstance(found, float) else rounded(found, of, math.copysign(0.0, sign))


def on_floats(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    of = str(a.dtype)
    if op == "nextafter":
        return np.array([_nextafter(float(x), float(y), of) for x, y in zip(a, b, strict=True)], of)
    if op == "ldexp":
        exact: Iterable[mpf | float] = (_ldexp(float(x), int(n)) for x, n in zip(a, b, strict=True))
        return np.array([e if isinstance(e, float) else rounded(e, of) for e in exact], of)
    points = zip(a.tolist(), b.tolist(), strict=True)
    return np.array([_at_two(op, x.hex(), y.hex(), of) for x, y in points], of)


@cache
def _at_two(op: str, first: str, second: str, of: str) -> float:
    x, y = float.fromhex(first), float.fromhex(second)
    with mpmath.workprec(300 if op in ("hypot", "atan2", "pow", "div") else EXACT_BITS):
        found = ON_FLOATS[op](x, y)
    if not isinstance(found, float):
        return rounded(found, of)
    with np.errstate(over="ignore"):
        return float(np.dtype(of).type(found))


# -- conversions ----------------------------------------------------------------------------------


def converted(x: np.ndarray, to: str) -> np.ndarray:
    """Float to integer cuts off and saturates, NaN to 0; integers wrap; to bool is `!= 0`; to a float rounds once."""
    return np.array([_converted(v.item(), dtype(to)) for v in x], to)


def _converted(x: float | int | bool, to: DType) -> float | int | bool:
    if to.is_bool:
        return x != 0
    if isinstance(x, float):
        if to.is_float:
            return x if not math.isfinite(x) or x == 0 else rounded(real(x), str(to))
        if math.isnan(x):
            return 0
        return int(to.max if x >= to.max else to.min if x <= to.min else math.trunc(x))
    if not to.is_float:
        return wrap(int(x), to)
    with mpmath.workprec(EXACT_BITS):
        return rounded(mpf(int(x)), str(to))


# -- comparing ------------------------------------------------------------------------------------


def steps_apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How many numbers of their type lie between two arrays' elements; NaN is far from all but NaN."""
    bits = f"int{8 * a.dtype.itemsize}"
    order = []
    for x in (a, b):
        place = np.ascontiguousarray(x).view(bits).astype(object)
        least = -(1 << (8 * a.dtype.itemsize - 1))
        order.append(np.where(place < 0, least - place, place))
    apart = np.array([abs(p - q) for p, q in zip(*order, strict=True)], object)
    both = np.isnan(a) & np.isnan(b)
    return np.where(both, 0, np.where(np.isnan(a) | np.isnan(b), 2**70, apart)).astype(float)


def assert_near(found: np.ndarray, expected: np.ndarray, steps: float, what: str, *inputs: np.ndarray) -> None:
    """At most so many numbers of the type apart; 0 asks for the same bits, a NaN's payload aside."""
    assert found.dtype == expected.dtype, what
    if not is_float(found.dtype):
        wrong = np.flatnonzero(found != expected)
    else:
        apart = steps_apart(found, expected)
        wrong = np.flatnonzero(apart > steps)
        if not steps:
            signs = (np.signbit(found) != np.signbit(expected)) & ~np.isnan(found)
            wrong = np.flatnonzero((apart > 0) | signs)
    if len(wrong):
        shown = [
            f"  {what}({', '.join(repr(x[k]) for x in inputs)}) is {expected[k]!r}, not {found[k]!r}"
            for k in wrong[:12]
        ]
        raise AssertionError("\n".join([f"{len(wrong)} of {len(found)} differ:", *shown]))
