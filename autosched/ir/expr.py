"""Expressions: one hash-consed class, consumed by tables.

    Expr(op, dtype, args, value)

`op` is a key of `OPS`; `args` are Exprs; `value` is what does not fit into args: a number for
`const`, a `VarInfo` for `var`, a buffer or tensor for `load`. Two Exprs that are built alike are
the same object, so `is` is structural equality, and a pass may memoise on the object.

Integer arithmetic wraps around like NumPy's; `/` on integers truncates toward zero (C's and TVM's
`div`), `//` and `%` floor (Python's and NumPy's); dividing an integer by zero gives 0 (NumPy's
result, without its warning). Index arithmetic (see `is_index`) is exact: it is evaluated in 64 bits.
"""

from __future__ import annotations

import itertools
import math
import numbers
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from autosched.errors import NoValueYet, UsageError
from autosched.ir.dtype import BOOL, INT32, DType, dtype, promote
from autosched.ir.ops import FIELDS, OPS, REDUCE_FIELDS, OpInfo

__all__ = [
    "OPS",
    "Expr",
    "OpInfo",
    "VarInfo",
    "as_expr",
    "binary",
    "broadcast",
    "call",
    "cast",
    "ceildiv",
    "combine_lanes",
    "compare",
    "const",
    "convert_pair",
    "floordiv",
    "floormod",
    "if_then_else",
    "is_const",
    "is_index",
    "likely",
    "logical_and",
    "logical_not",
    "logical_or",
    "make",
    "max_value",
    "maximum",
    "min_value",
    "minimum",
    "neg",
    "ramp",
    "select",
    "truncdiv",
    "truncmod",
    "var",
    "variables",
]


_INDEX_OPS = frozenset(
    "const var add sub mul truncdiv truncmod floordiv floormod min max neg select if_then_else "
    "eq ne lt le gt ge and or not likely ramp broadcast cast".split()
)


@dataclass(frozen=True, slots=True, eq=False)
class VarInfo:
    """What a `var` is. Two variables are the same only if they were made by the same call.

    `role`: `size` (non-negative, part of a shape), `scalar` (a run-time number), `loop`, `thread`,
    `knob` (a tuning parameter with a finite set of values) or `let`. `lower` / `upper` bound the
    value, inclusively, where they are known for good.
    """

    name: str
    role: str
    serial: int
    lower: int | None = None
    upper: int | None = None


_interned: WeakValueDictionary[tuple[Any, ...], Expr] = WeakValueDictionary()
_serial = itertools.count()


def _knobs(e: Expr) -> list[str]:
    """The names of the knobs in an expression."""
    return [v.value.name for v in variables(e) if v.value.role == "knob"]


def _no_value_yet(knobs: list[str], asked: str) -> NoValueYet:
    return NoValueYet(
        f"{knobs[0]} is a knob: it has no value while the sketch is traced",
        asked=asked,
        legal="use s.choose(...) for a decision that changes the loop structure, "
        "or te.select(...) inside an expression",
        names=knobs,
    )


def _is_asked_by_us() -> bool:
    """Whether the truth of an expression is asked for by this package, and not by a user's program."""
    module = sys._getframe(2).f_globals.get("__name__", "")
    return module.partition(".")[0] == "autosched" and not module.startswith("autosched.tvm.")


class Expr:
    """An expression of scalar or vector type. Build it with operators and this module's functions."""

    __slots__ = ("__weakref__", "_cache", "args", "depth", "dtype", "index", "op", "serial", "value")
    op: str
    dtype: DType
    args: tuple[Expr, ...]
    value: Any
    serial: int  #: creation order: a stable order for printing and canonical forms
    depth: int  #: operators on the longest way down to a leaf
    index: bool  #: see `is_index`
    _cache: dict[str, Any] | None

    __array_ufunc__ = None  # keep NumPy from taking `array * expr` apart
    __hash__ = object.__hash__

    # -- printing and truth -------------------------------------------------------------------
    def __repr__(self) -> str:
        from autosched.ir.printer import format_expr

        return format_expr(self)

    def __bool__(self) -> bool:
        if self.op == "const":
            return bool(self.value)
        knobs = _knobs(self)
        if self.op in ("eq", "ne") and self.args[0].dtype.lanes == 1:
            same = self.args[0] is self.args[1]
            # Whether two formulas are the same is asked all the time; a script asks for the knob's value.
            if same or not knobs or not any(a.op == "const" for a in self.args) or _is_asked_by_us():
                return same if self.op == "eq" else not same
        if knobs:
            raise _no_value_yet(knobs, f"bool({self!r})")
        raise UsageError(
            "an expression has no truth value before it runs",
            asked=f"bool({self!r})",
            legal="use te.all / te.any to combine conditions, te.select or te.if_then_else to choose",
        )

    def __int__(self) -> int:
        if self.op != "const":
            knobs = _knobs(self)
            if knobs:
                raise _no_value_yet(knobs, f"int({self!r})")
            raise TypeError(f"{self!r} has no value before it runs")
        return int(self.value)

    def __index__(self) -> int:
        if self.op == "const" and not isinstance(self.value, int):
            raise TypeError(f"{self!r} is not an integer")
        return int(self)

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"{self!r} is a scalar expression and cannot be iterated")

    # -- attributes that read like TVM's ------------------------------------------------------
    @property
    def name(self) -> str:
        """The variable's name; '' for any other expression."""
        return self.value.name if self.op == "var" else ""

    def __getattr__(self, name: str) -> Any:
        """The names TVM gives to parts of a node: `a` and `b`, `condition`, `lanes`, `buffer`, `indices` ..."""
        if name.startswith("_") or name in Expr.__slots__:
            raise AttributeError(name)
        at = FIELDS.get((self.op, name))
        if at is not None:
            return self.args[at]
        if name == "lanes" and self.op in ("ramp", "broadcast"):
            return self.dtype.lanes
        if self.op == "reduce" and name in REDUCE_FIELDS:
            return self.value.field(name, self.args)
        if self.op in ("load", "read"):
            if name == "indices":
                return self.args
            if name == ("buffer" if self.op == "load" else "producer"):
                return self.value
        raise AttributeError(f"{self.op!r} expression has no {name!r}: {self!r}")

    def astype(self, to: object) -> Expr:
        return cast(to, self)

    def same_as(self, other: object) -> bool:
        """Whether it is that very expression: those built alike are."""
        return self is other

    def equal(self, other: object) -> Expr:
        """`self == other` as an expression, as TVM writes it."""
        return compare("eq", self, other)

    # -- operators ----------------------------------------------------------------------------
    def __add__(self, other: object) -> Expr:
        return binary("add", self, other)

    def __radd__(self, other: object) -> Expr:
        return binary("add", other, self)

    def __sub__(self, other: object) -> Expr:
        return binary("sub", self, other)

    def __rsub__(self, other: object) -> Expr:
        return binary("sub", other, self)

    def __mul__(self, other: object) -> Expr:
        return binary("mul", self, other)

    def __rmul__(self, other: object) -> Expr:
        return binary("mul", other, self)

    def __truediv__(self, other: object) -> Expr:
        return divide(self, other)

    def __rtruediv__(self, other: object) -> Expr:
        return divide(other, self)

    def __floordiv__(self, other: object) -> Expr:
        return floordiv(self, other)

    def __rfloordiv__(self, other: object) -> Expr:
        return floordiv(other, self)

    def __mod__(self, other: object) -> Expr:
        return floormod(self, other)

    def __rmod__(self, other: object) -> Expr:
        return floormod(other, self)

    def __neg__(self) -> Expr:
        return neg(self)

    def __abs__(self) -> Expr:
        return call("abs", self)

    def __pow__(self, other: object) -> Expr:
        return call("pow", self, other)

    def __and__(self, other: object) -> Expr:
        return _bitwise("bitand", "and", self, other)

    def __rand__(self, other: object) -> Expr:
        return _bitwise("bitand", "and", other, self)

    def __or__(self, other: object) -> Expr:
        return _bitwise("bitor", "or", self, other)

    def __ror__(self, other: object) -> Expr:
        return _bitwise("bitor", "or", other, self)

    def __xor__(self, other: object) -> Expr:
        return _bitwise("bitxor", "ne", self, other)

    def __rxor__(self, other: object) -> Expr:
        return _bitwise("bitxor", "ne", other, self)

    def __lshift__(self, other: object) -> Expr:
        return _bitwise("shl", "", self, other)

    def __rlshift__(self, other: object) -> Expr:
        return _bitwise("shl", "", other, self)

    def __rshift__(self, other: object) -> Expr:
        return _bitwise("shr", "", self, other)

    def __rrshift__(self, other: object) -> Expr:
        return _bitwise("shr", "", other, self)

    def __invert__(self) -> Expr:
        if self.dtype.is_bool:
            return logical_not(self)
        return make("bitnot", self.dtype, (_require_integer("~", self),))

    def __lt__(self, other: object) -> Expr:
        return compare("lt", self, other)

    def __le__(self, other: object) -> Expr:
        return compare("le", self, other)

    def __gt__(self, other: object) -> Expr:
        return compare("gt", self, other)

    def __ge__(self, other: object) -> Expr:
        return compare("ge", self, other)

    def __eq__(self, other: object) -> Any:
        try:
            return compare("eq", self, other)
        except UsageError:
            return NotImplemented

    def __ne__(self, other: object) -> Any:
        try:
            return compare("ne", self, other)
        except UsageError:
            return NotImplemented


def make(op: str, of: DType, args: tuple[Expr, ...] = (), value: Any = None) -> Expr:
    """The one Expr with these parts. No folding, no checking: the functions below do that."""
    if op == "const":  # 0.0 and -0.0 are equal, and so are 1 and True, but they are not the same
        key: tuple[Any, ...] = (op, of, repr(value))
    else:
        key = (op, of, *map(id, args), id(value)) if value is not None else (op, of, *map(id, args))
    found = _interned.get(key)
    if found is not None:
        return found
    expr = object.__new__(Expr)
    expr.op, expr.dtype, expr.args = op, of, args
    expr.value = args[0] if op in ("cast", "broadcast") else value  # what TVM calls their operand
    expr.serial = next(_serial)
    expr.depth = 1 + max([a.depth for a in args]) if args else 0
    expr.index = _is_index(op, of, args)
    expr._cache = None
    _interned[key] = expr
    return expr


def _is_index(op: str, of: DType, args: tuple[Expr, ...]) -> bool:
    if op not in _INDEX_OPS or of.is_float:
        return False
    if not args:
        return of.kind != "uint" or of.bits < 64
    if op == "cast" and (of.kind != "int" or of.bits < 32):
        return False
    return all(a.index for a in args)


# -- leaves ---------------------------------------------------------------------------------------


def const(value: Any, of: object = None) -> Expr:
    """A literal. Without `of`: int32 (int64 when it does not fit), float32, bool."""
    if isinstance(value, Expr):
        return cast(of, value) if of is not None else value
    if isinstance(value, np.generic):
        of = of or value.dtype
        value = value.item()
    if of is None:
        if isinstance(value, bool):
            of = "bool"
        elif isinstance(value, numbers.Integral):
            of = "int32" if -(2**31) <= int(value) < 2**31 else "int64"
        else:
            of = "float32"
    to = dtype(of)
    if not isinstance(value, numbers.Real):
        raise UsageError("not a number", asked=f"const({value!r})", legal="legal: int, float, bool")
    if to.lanes > 1:
        return broadcast(const(value, to.scalar), to.lanes)
    number = int(value) if isinstance(value, numbers.Integral) else float(value)
    if to.is_float:
        try:
            with np.errstate(over="ignore"):
                return make("const", to, (), float(to.numpy.type(number)))
        except OverflowError:
            raise UsageError("an integer too large for any float", asked=f"const(..., {to!r})") from None
    if to.is_bool:
        return make("const", to, (), bool(number))
    if isinstance(number, float) and not math.isfinite(number):
        raise UsageError(f"{value} has no {to} value", asked=f"const({value!r}, {to!r})")
    span = 1 << to.bits
    wrapped = int(number) % span
    if to.kind == "int" and wrapped >= span >> 1:
        wrapped -= span
    return make("const", to, (), wrapped)


def var(
    name: str,
    of: object = INT32,
    role: str = "scalar",
    lower: int | None = None,
    upper: int | None = None,
) -> Expr:
    """A fresh variable, distinct from every other, even of the same name."""
    info = VarInfo(name, role, next(_serial), lower, upper)
    return make("var", dtype(of), (), info)


def as_expr(value: object, like: DType | None = None) -> Expr:
    """`value` as an Expr. A Python number takes the type `like` if that can hold its kind.

    An integer too large for int32 makes that int64; one that another type cannot hold is a
    UsageError, not another number.
    """
    if isinstance(value, Expr):
        return value
    as_scalar = getattr(value, "as_expr", None)  # loop handles and iteration variables
    if as_scalar is not None:
        return as_scalar()
    if isinstance(value, (bool, np.bool_)):
        return const(bool(value), "bool" if like is None else like)
    if isinstance(value, np.generic):
        return const(value)
    if isinstance(value, numbers.Integral):
        return _integer_literal(int(value), like)
    if isinstance(value, numbers.Real):
        return const(float(value), like if like is not None and like.is_float else None)
    raise UsageError(
        f"{type(value).__name__} is not an expression",
        asked=repr(value),
        legal="legal: a number, a te variable, an axis, or an expression over tensor elements A[i, j]",
    )


def _integer_literal(value: int, like: DType | None) -> Expr:
    if like is None or like.is_bool:
        return const(value)
    if like.is_integer and not like.min <= value <= like.max:
        if like is INT32:
            return const(value)
        raise UsageError(
            f"{value} is not a value of {like}",
            asked=f"{value} beside an operand of type {like}",
            legal=f"cast the operand to a wider type, or write te.const({value}, {like!r}) to wrap around",
        )
    return const(value, like)


def convert_pair(a: object, b: object) -> tuple[Expr, Expr]:
    """Both operands in their common type and lane count."""
    left = a if isinstance(a, Expr) or not _is_number(a) else None
    right = b if isinstance(b, Expr) or not _is_number(b) else None
    x = as_expr(a) if left is not None else as_expr(a, as_expr(b).dtype.scalar if right is not None else None)
    y = as_expr(b) if right is not None else as_expr(b, x.dtype.scalar)
    if x.dtype is y.dtype:
        return x, y
    to = promote(x.dtype.scalar, y.dtype.scalar)
    lanes = max(x.dtype.lanes, y.dtype.lanes)
    return _fit(x, to, lanes), _fit(y, to, lanes)


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, np.generic)


def _fit(x: Expr, to: DType, lanes: int) -> Expr:
    x = cast(to.with_lanes(x.dtype.lanes), x)
    return x if x.dtype.lanes == lanes else broadcast(x, lanes)


# -- builders, folding constants -----------------------------------------------------------------


def is_const(x: Expr, value: object = None) -> bool:
    return x.op == "const" and (value is None or x.value == value)


def fold(op: str, of: DType, args: tuple[Expr, ...]) -> Expr:
    """`make`, evaluated at once when every argument is a constant (with NumPy's arithmetic).

    An int32 result that would wrap around is left as it is: as an index it is exact, as a value
    it wraps when it becomes one.
    """
    ufunc = OPS[op].numpy
    if ufunc is None or any(a.op != "const" for a in args):
        return make(op, of, args)
    with np.errstate(all="ignore"):
        result = ufunc(*(a.dtype.numpy.type(a.value) for a in args))
        if of is INT32 and op in _INDEX_OPS and ufunc(*(np.int64(a.value) for a in args)) != result:
            return make(op, of, args)
    return const(np.asarray(result).astype(of.numpy)[()], of)


def binary(op: str, a: object, b: object) -> Expr:
    """Arithmetic on two operands in their common type, with the identities of 0 and 1 applied."""
    x, y = convert_pair(a, b)
    if x.dtype.is_bool and op in ("add", "sub", "mul"):
        x, y = cast("int32", x), cast("int32", y)
    if not x.dtype.is_float:
        if op == "add":
            if is_const(x, 0):
                return y
            if is_const(y, 0):
                return x
        elif op == "sub":
            if is_const(y, 0):
                return x
            if x is y:
                return const(0, x.dtype)
        elif op == "mul":
            for one, other in ((x, y), (y, x)):
                if is_const(one, 1):
                    return other
                if is_const(one, 0):
                    return one
        elif op in ("min", "max") and x is y:
            return x
    return fold(op, x.dtype, (x, y))


def divide(a: object, b: object) -> Expr:
    """`/`: float division, or truncation toward zero when both operands are integers."""
    x, y = convert_pair(a, b)
    if x.dtype.is_float:
        return fold("div", x.dtype, (x, y))
    return truncdiv(x, y)


def _integer_division(op: str, a: object, b: object) -> Expr:
    x, y = convert_pair(a, b)
    if op == "truncdiv":
        _require_integer(op, x)
    if x.dtype.is_bool:
        x, y = cast("int32", x), cast("int32", y)
    if is_const(y, 1) and x.dtype.is_integer:
        return x if op.endswith("div") else const(0, x.dtype)
    return fold(op, x.dtype, (x, y))


def truncdiv(a: object, b: object) -> Expr:
    return _integer_division("truncdiv", a, b)


def truncmod(a: object, b: object) -> Expr:
    return _integer_division("truncmod", a, b)


def floordiv(a: object, b: object) -> Expr:
    return _integer_division("floordiv", a, b)


def floormod(a: object, b: object) -> Expr:
    return _integer_division("floormod", a, b)


def ceildiv(a: object, b: object) -> Expr:
    x, y = convert_pair(a, b)
    return floordiv(x + (y - 1), y)


def minimum(a: object, b: object) -> Expr:
    return binary("min", a, b)


def maximum(a: object, b: object) -> Expr:
    return binary("max", a, b)


def neg(x: object) -> Expr:
    e = as_expr(x)
    if e.dtype.is_bool:
        e = cast("int32", e)
    return fold("neg", e.dtype, (e,))


def compare(op: str, a: object, b: object) -> Expr:
    x, y = convert_pair(a, b)
    return fold(op, BOOL.with_lanes(x.dtype.lanes), (x, y))


def _truth(x: object) -> Expr:
    e = as_expr(x)
    return e if e.dtype.is_bool else compare("ne", e, const(0, e.dtype))


def logical_and(*conditions: object) -> Expr:
    result = const(True)
    for condition in map(_truth, conditions):
        if is_const(result, True):
            result = condition
        elif not is_const(condition, True) and result is not condition:
            lanes = max(result.dtype.lanes, condition.dtype.lanes)
            pair = (_fit(result, BOOL, lanes), _fit(condition, BOOL, lanes))
            if is_const(pair[0], False) or is_const(pair[1], False):
                return const(False, BOOL.with_lanes(lanes))
            result = make("and", BOOL.with_lanes(lanes), pair)
    return result


def logical_or(*conditions: object) -> Expr:
    return logical_not(logical_and(*(logical_not(c) for c in conditions))) if conditions else const(False)


NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}


def logical_not(x: object) -> Expr:
    e = _truth(x)
    if e.op == "const":
        return const(not e.value)
    if e.op == "not":
        return e.args[0]
    if e.op in NEGATED and not e.args[0].dtype.is_float:  # a NaN makes both sides false
        return make(NEGATED[e.op], e.dtype, e.args)
    if e.op == "and":
        sides = tuple(logical_not(a) for a in e.args)
        return make("or", e.dtype, sides)
    if e.op == "or":
        return logical_and(*(logical_not(a) for a in e.args))
    return make("not", e.dtype, (e,))


def likely(x: object) -> Expr:
    e = _truth(x)
    return e if e.op in ("const", "likely") else make("likely", e.dtype, (e,))


def _choice(op: str, condition: object, then: object, otherwise: object) -> Expr:
    c = _truth(condition)
    x, y = convert_pair(then, otherwise)
    if c.op == "const":
        return x if c.value else y
    if x is y:
        return x
    lanes = max(c.dtype.lanes, x.dtype.lanes)
    return make(op, x.dtype.with_lanes(lanes), (c, _fit(x, x.dtype.scalar, lanes), _fit(y, y.dtype.scalar, lanes)))


def select(condition: object, then: object, otherwise: object) -> Expr:
    """`then` where `condition` holds, else `otherwise`; both are evaluated."""
    return _choice("select", condition, then, otherwise)


def if_then_else(condition: object, then: object, otherwise: object) -> Expr:
    """`then` if `condition` holds, else `otherwise`; only that one is evaluated."""
    return _choice("if_then_else", condition, then, otherwise)


def cast(to: object, x: object) -> Expr:
    """`x` converted to the type `to`.

    Float to integer truncates toward zero and saturates (NaN becomes 0), on every backend;
    integer to integer wraps; anything to bool is `!= 0`.
    """
    target, e = dtype(to), as_expr(x)
    if target.lanes == 1 and e.dtype.lanes > 1:
        target = target.with_lanes(e.dtype.lanes)
    if target == e.dtype:
        return e
    if target.lanes > 1 and e.dtype.lanes == 1:
        return broadcast(cast(target.scalar, e), target.lanes)
    if e.op == "broadcast":
        return broadcast(cast(target.scalar, e.args[0]), target.lanes)
    if target.is_bool:
        return compare("ne", e, const(0, e.dtype))
    if e.op == "const":
        if e.dtype.is_float and not target.is_float:
            return const(saturate(e.value, target), target)
        with np.errstate(over="ignore"):  # by way of NumPy: through a Python float it would round twice
            return const(np.asarray(e.value, e.dtype.numpy).astype(target.numpy)[()], target)
    return make("cast", target, (e,))


def saturate(value: float, to: DType) -> int:
    """The integer of type `to` nearest to `value` cut off toward zero; 0 for NaN."""
    if math.isnan(value):
        return 0
    low, high = int(to.min), int(to.max)
    return low if value <= low else high if value >= high else math.trunc(value)


def _require_integer(spelling: str, e: Expr) -> Expr:
    if e.dtype.is_float:
        raise UsageError(f"{spelling} needs integers, not {e.dtype}", asked=repr(e), legal="cast first")
    return e


def _bitwise(op: str, on_bool: str, a: object, b: object) -> Expr:
    x, y = convert_pair(a, b)
    if x.dtype.is_bool:
        if on_bool == "and":
            return logical_and(x, y)
        if on_bool == "or":
            return logical_or(x, y)
        if on_bool:
            return fold(on_bool, BOOL.with_lanes(x.dtype.lanes), (x, y))
        x, y = cast("int32", x), cast("int32", y)
    _require_integer(op, x)
    return fold(op, x.dtype, (x, y))


RESULT_BOOL = frozenset(("isnan", "isinf", "isfinite"))


def call(op: str, *operands: object) -> Expr:
    """A math intrinsic by name, for example `call("exp", x)`. Integers become float32 first."""
    if op == "ldexp":
        from autosched.ir.bits import ldexp

        return ldexp(*operands)
    info = OPS[op]
    args: tuple[Expr, ...] = convert_pair(*operands) if info.arity == 2 else (as_expr(operands[0]),)
    of = args[0].dtype
    if info.kind == "math" and not of.is_float:
        if op in ("floor", "ceil", "trunc", "round", "nearbyint"):
            return args[0]
        if op in RESULT_BOOL:
            return const(op == "isfinite")
        to = dtype("float64" if of.bits == 64 else "float32").with_lanes(of.lanes)
        args = tuple(cast(to, a) for a in args)
        of = to
    if op == "abs" and of.kind in ("uint", "bool"):
        return args[0]
    if op == "popcount":
        _require_integer(op, args[0])
    return make(op, BOOL.with_lanes(of.lanes) if op in RESULT_BOOL else of, args)


def ramp(base: object, stride: object, lanes: int) -> Expr:
    """The vector `base, base + stride, ..., base + (lanes - 1) * stride`."""
    b, s = convert_pair(base, stride)
    return b if lanes == 1 else make("ramp", b.dtype.with_lanes(lanes), (b, s))


def broadcast(x: object, lanes: int) -> Expr:
    e = as_expr(x)
    if lanes == 1 or e.dtype.lanes == lanes:
        return e
    return make("broadcast", e.dtype.with_lanes(lanes), (e,))


def combine_lanes(op: str, vector: Expr) -> Expr:
    """All lanes combined by `op` (add, mul, min, max, bitand, bitor, bitxor) as a tree, half on half:

    the first half of the lanes with the second, lane by lane, until one is left; of an odd number
    the last lane comes in at the end. The order is fixed, so that results do not depend on the CPU.
    """
    return vector if vector.dtype.lanes == 1 else make("combine_lanes", vector.dtype.scalar, (vector,), op)


def min_value(of: object) -> Expr:
    t = dtype(of)
    return const(t.min, t)


def max_value(of: object) -> Expr:
    t = dtype(of)
    return const(t.max, t)


# -- walking --------------------------------------------------------------------------------------


def variables(e: Expr) -> frozenset[Expr]:
    """The variables `e` mentions (indices of reads included)."""
    found = _known_variables(e)
    if found is not None:
        return found
    stack = [e]
    while stack:
        node = stack[-1]
        parts = [_known_variables(a) for a in node.args]
        unknown = [a for a, p in zip(node.args, parts, strict=True) if p is None]
        if unknown:
            stack.extend(unknown)
            continue
        stack.pop()
        if node._cache is None:
            node._cache = {}
        known = [p for p in parts if p is not None]
        node._cache["vars"] = known[0].union(*known[1:]) if len(known) > 1 else known[0]
    return e._cache["vars"]  # type: ignore[index]


def _known_variables(e: Expr) -> frozenset[Expr] | None:
    if not e.args:
        return frozenset((e,)) if e.op == "var" else frozenset()
    return None if e._cache is None else e._cache.get("vars")


def is_index(e: Expr) -> bool:
    """Whether `e` is index arithmetic: integers over variables and constants alone, no reads.

    Such an expression is a mathematical integer: it is evaluated in 64 bits, and converted to its
    own type only where it meets a value.
    """
    return e.index
