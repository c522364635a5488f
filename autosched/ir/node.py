"""Expressions: one hash-consed class, consumed by tables.

    Expr(op, dtype, args, value)

`op` is a key of `OPS`; `args` are Exprs; `value` is what does not fit into args: a number for
`const`, a `VarInfo` for `var`, a buffer or tensor for `load`. Two Exprs that are built alike are
the same object, so `is` is structural equality, and a pass may memoise on the object.

`a == b` is an expression. Its truth value says whether both are the same formula, except where one of them
mentions a knob, whose value is not known yet. So nothing in this package compares expressions with `==`.

What Python's operators build, and all other ways to make an expression, is in `ir.expr`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar
from weakref import WeakValueDictionary

from autosched.errors import NoValueYet, UsageError, UsageTypeError
from autosched.ir.dtype import DType

T = TypeVar("T")

INDEX_OPS = frozenset(
    "const var add sub mul truncdiv truncmod floordiv floormod min max neg select if_then_else "
    "eq ne lt le gt ge and or not likely ramp broadcast cast".split()
)


@dataclass(frozen=True, slots=True, eq=False)
class VarInfo:
    """The value of a `var`. Two variables are the same only if they were made by the same call.

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
_serial = itertools.count(1)


def fresh() -> int:
    """The number of something made just now: greater than those of all before."""
    return next(_serial)


class Unique:
    """An immutable thing with an identity: a copy of what refers to it refers to the same one."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        legal = (
            "te.graph_to_json(args) of a program, s.trace.to_json() of a schedule; schedules and modules can be pickled"
        )
        raise UsageTypeError(
            f"a {type(self).__name__} is the one that it is, which another process has not", asked="pickle", legal=legal
        )

    def same_as(self, other: object) -> bool:
        """Whether it is that very one. Expressions that are built alike are."""
        return self is other


class Operators(Generic[T]):
    """Python's operators, for type checkers; `ir.expr` makes the methods."""

    __slots__ = ()
    if TYPE_CHECKING:

        def __add__(self, other: object) -> T: ...
        def __radd__(self, other: object) -> T: ...
        def __sub__(self, other: object) -> T: ...
        def __rsub__(self, other: object) -> T: ...
        def __mul__(self, other: object) -> T: ...
        def __rmul__(self, other: object) -> T: ...
        def __truediv__(self, other: object) -> T: ...
        def __rtruediv__(self, other: object) -> T: ...
        def __floordiv__(self, other: object) -> T: ...
        def __rfloordiv__(self, other: object) -> T: ...
        def __mod__(self, other: object) -> T: ...
        def __rmod__(self, other: object) -> T: ...
        def __pow__(self, other: object) -> T: ...
        def __rpow__(self, other: object) -> T: ...
        def __and__(self, other: object) -> T: ...
        def __rand__(self, other: object) -> T: ...
        def __or__(self, other: object) -> T: ...
        def __ror__(self, other: object) -> T: ...
        def __xor__(self, other: object) -> T: ...
        def __rxor__(self, other: object) -> T: ...
        def __lshift__(self, other: object) -> T: ...
        def __rlshift__(self, other: object) -> T: ...
        def __rshift__(self, other: object) -> T: ...
        def __rrshift__(self, other: object) -> T: ...
        def __neg__(self) -> T: ...
        def __abs__(self) -> T: ...
        def __invert__(self) -> T: ...
        def __lt__(self, other: object) -> T: ...
        def __le__(self, other: object) -> T: ...
        def __gt__(self, other: object) -> T: ...
        def __ge__(self, other: object) -> T: ...
        def astype(self, dtype: object) -> T: ...


class Expr(Unique, Operators["Expr"]):
    """An expression of scalar or vector type. Build it with operators and the functions of `ir.expr`."""

    __slots__ = ("__weakref__", "_cache", "args", "depth", "dtype", "index", "op", "value")
    op: str
    dtype: DType
    args: tuple[Expr, ...]
    value: Any
    depth: int  #: operators on the longest way down to a leaf
    index: bool  #: see `is_index`
    _cache: dict[str, Any] | None

    __hash__ = object.__hash__

    # -- printing and truth -------------------------------------------------------------------
    def __repr__(self) -> str:
        from autosched.ir.printer import format_expr  # it stands on this module

        return format_expr(self)

    def __bool__(self) -> bool:
        if self.op == "const":
            return bool(self.value)
        if self.op in ("eq", "ne") and self.args[0].dtype.lanes == 1:
            same = self.args[0] is self.args[1]
            if same or not _knobs(self):
                return same is (self.op == "eq")
        raise self._no_value("bool") or UsageError(
            "an expression has no truth value before it runs",
            asked=f"bool({self!r})",
            legal="use te.all / te.any to combine conditions, te.select or te.if_then_else to choose",
        )

    def __int__(self) -> int:
        if self.op == "const":
            return int(self.value)
        raise self._no_value("int") or UsageTypeError(
            "it has no value before it runs", asked=f"int({self!r})", legal="a constant"
        )

    def __float__(self) -> float:
        if self.op == "const":
            return float(self.value)
        legal = "te.sqrt and the like for functions of `math`, .astype(..) for a conversion"
        raise self._no_value("float") or UsageTypeError(
            "it has no value before it runs", asked=f"float({self!r})", legal=legal
        )

    def __index__(self) -> int:
        if self.op == "const" and not isinstance(self.value, int):
            raise UsageTypeError(
                "it is not an integer", asked=f"index({self!r})", legal="a constant of an integer type"
            )
        return int(self)

    def _no_value(self, asked: str) -> NoValueYet | None:
        """The error for a script that asks for a knob's value, if there is a knob in this."""
        knobs = _knobs(self)
        if not knobs:
            return None
        return NoValueYet(
            f"{knobs[0]} is a knob: it has no value while the sketch is traced",
            asked=f"{asked}({self!r})",
            legal="use s.choose(...) for a decision that changes the loop structure, "
            "te.select(...) inside an expression, or a.same_as(b) to ask whether two formulas are the same",
            names=knobs,
        )

    def __iter__(self) -> Iterator[Any]:
        why = "it is a scalar expression and cannot be iterated"
        raise UsageTypeError(why, asked=f"iterate over {self!r}", legal="a list, or a tuple")

    @property
    def name(self) -> str:
        """The variable's name; '' for any other expression."""
        return self.value.name if self.op == "var" else ""

    if TYPE_CHECKING:

        def __eq__(self, other: object) -> Any: ...
        def __ne__(self, other: object) -> Any: ...


def make(op: str, of: DType, args: tuple[Expr, ...] = (), value: Any = None) -> Expr:
    """The one Expr with these parts. No folding, no checking: the functions of `ir.expr` do that."""
    if op == "const":  # 0.0 and -0.0 are equal, and so are 1 and True, but they are not the same
        key: tuple[Any, ...] = (op, of, value if type(value) is int else repr(value))
    else:
        key = (op, of, *map(id, args), id(value)) if value is not None else (op, of, *map(id, args))
    found = _interned.get(key)
    if found is not None:
        return found
    expr = object.__new__(Expr)
    expr.op, expr.dtype, expr.args = op, of, args
    expr.value = args[0] if op in ("cast", "broadcast") else value  # their operand
    expr.depth = 1 + max([a.depth for a in args]) if args else 0
    expr.index = _is_index(op, of, args)
    expr._cache = None
    _interned[key] = expr
    return expr


def remembered(fn: Callable[[Expr], T]) -> Callable[[Expr], T]:
    """A function of one expression that always gives the same: found once, and kept in the expression."""
    return bottom_up(fn, None)


def bottom_up(
    fn: Callable[..., T], below: Callable[[Expr], Sequence[Expr]] | None = attrgetter("args")
) -> Callable[[Expr], T]:
    """A function of an expression and of what the function gave for its args, or for what is `below`, without
    recursion.

    >>> @bottom_up
    ... def size(e: Expr, parts: list[int]) -> int:
    ...     return 1 + sum(parts)
    """
    name = f"{fn.__module__}.{fn.__qualname__}"

    @wraps(fn)
    def asked(e: Expr) -> T:
        cache = e._cache
        if cache is not None and name in cache:
            return cache[name]  # type: ignore[no-any-return]
        stack = [e]
        while stack:
            node = stack[-1]
            args = below(node) if below else ()
            waiting = [a for a in args if a._cache is None or name not in a._cache]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if node._cache is None:
                node._cache = {}
            if name not in node._cache:
                node._cache[name] = fn(node, [a._cache[name] for a in args]) if below else fn(node)  # type: ignore[index]
        return e._cache[name]  # type: ignore[index, no-any-return]

    return asked


@bottom_up
def order(e: Expr, parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The key that sorts expressions: variables first, then what older variables make, and shallow before deep.

    It depends on how an expression is built, and on which of its variables, buffers and tensors was made before which.
    So normal forms, and with them the lowered text, do not depend on what else the process has built.
    """
    if e.op == "var":
        return False, e.value.serial
    value = e.value
    if isinstance(value, Expr) or value is None:
        value = 0
    elif type(value) is not int:
        value = getattr(value, "serial", None) or repr(value)
    return True, max([p[1] for p in parts], default=-1), e.depth, e.op, e.dtype, value, *parts


#: index arithmetic whose results may leave the type of its operands
_WRAPPING = frozenset(("add", "sub", "mul", "neg", "truncdiv", "floordiv"))


def _is_index(op: str, of: DType, args: tuple[Expr, ...]) -> bool:
    if op not in INDEX_OPS or of.is_float:
        return False
    if not args:
        return of.kind != "uint" or of.bits < 64
    if op in _WRAPPING and (of.kind != "int" or of.bits < 32):
        return False  # narrow and unsigned numbers wrap around: constants do when they are folded
    if op == "cast" and (of.kind != "int" or of.bits < 32):
        return False
    return all(a.index for a in args)


_NO_VARIABLES: frozenset[Expr] = frozenset()


def _knobs(e: Expr) -> list[str]:
    """The names of the knobs in an expression, as they were made."""
    return [v.value.name for v in sorted(variables(e), key=order) if v.value.role == "knob"]


@bottom_up
def variables(e: Expr, parts: list[frozenset[Expr]]) -> frozenset[Expr]:
    """The variables `e` mentions (indices of reads included)."""
    if len(parts) == 1:
        return parts[0]
    return frozenset((e,)) if e.op == "var" else _NO_VARIABLES.union(*parts)


def is_index(e: Expr) -> bool:
    """Whether `e` is index arithmetic: integers over variables and constants alone, without reads.

    It is a mathematical integer, evaluated in 64 bits and converted to its own type only where it meets a
    value. Sums and products of narrow or unsigned types are none, because they wrap around.
    """
    return e.index
