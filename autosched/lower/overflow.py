"""Sums, differences and products of 8- and 16-bit integers that may leave their type: a lint.

Arithmetic wraps around in the type of its operands, as NumPy's does, and a literal takes that type: a
`uint8` plus a `uint8` is a `uint8`. That is the commonest mistake in image code. What is looked at are the
definitions, not the loops: the bounds of elements follow from what computes them (`ir.ranges`).

Nothing is said where wrapping is meant: where the result is masked (`& 255`, `% 256`) or converted to an
integer type that is no wider, directly or by way of other sums and products.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod

from autosched.ir.dtype import DType, dtype
from autosched.ir.expr import Expr, binary, cast, var
from autosched.ir.ranges import EVERYTHING, Interval, bounds_of, of_type
from autosched.ir.visit import post_order, rewrite
from autosched.te.reduction import REDUCTIONS
from autosched.te.tensor import ComputeOp, Graph, Tensor

__all__ = ["Overflow", "overflows"]

#: (name of the tensor, why, better)
Overflow = tuple[str, str, str]

_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
#: what hands a number on modulo a power of two
_RING = frozenset(("add", "sub", "mul", "neg", "bitnot", "select", "if_then_else", "shl"))


def overflows(outputs: tuple[Tensor, ...]) -> Iterator[Overflow]:
    """The first operation of each tensor that the outputs depend on whose result may not fit."""
    elements: dict[Tensor, Interval] = {}
    for op in Graph.of(outputs).ops:
        if isinstance(op, ComputeOp):
            yield from _Definition(op, elements).found()


class _Definition:
    """One operation, with bounds for what it reads; those of its outputs are added to `elements`."""

    def __init__(self, op: ComputeOp, elements: dict[Tensor, Interval]) -> None:
        self.op, self.elements = op, elements
        self.ranges = {a.var: _range(a.min, a.extent) for a in (*op.axis, *op.reduce_axis)}
        self.reads: dict[Expr, Expr] = {}  # what stands for an element -> its read

    def found(self) -> Iterator[Overflow]:
        first: Overflow | None = None
        for tensor, body in zip(self.op.outputs, self.op.body, strict=True):
            is_reduction = body.op in REDUCTIONS
            parts = body.value.parts(body.args)[0] if is_reduction else (body,)
            source = parts[body.value.value_index] if is_reduction else body
            e = rewrite(source, self._element)
            first = first or self._arithmetic(e)
            bound = bounds_of(e, self._variable)
            if is_reduction:
                bound, found = self._reduced(body, bound, source)
                first = first or found
            self.elements[tensor] = bound & of_type(tensor.dtype)
        if first is not None:
            yield first

    def _element(self, e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        """A variable in place of a read, with the bounds of the tensor's elements."""
        if e.op != "read":
            return None
        element = var(e.value.name, e.dtype, "let")
        self.reads[element] = e
        self.ranges[element] = self.elements.get(e.value, of_type(e.dtype))
        return element

    def _variable(self, v: Expr) -> Interval:
        found = self.ranges.get(v)
        if found is not None:
            return found
        low, high = v.value.lower, v.value.upper
        own = of_type(v.dtype)
        return Interval(own.low if low is None else low, own.high if high is None else high)

    def _arithmetic(self, e: Expr) -> Overflow | None:
        nodes = post_order(e)
        modular = _modular(e, nodes)
        compared = {a.args for a in nodes if a.op in ("lt", "le", "gt", "ge")}
        for node in nodes:
            if node.op not in _ARITHMETIC or not _is_narrow(node.dtype) or node.index or node in modular:
                continue
            a, b = node.args
            if node.op == "sub" and ((a, b) in compared or (b, a) in compared or _ordered(a, b)):
                continue  # the difference of the greater and the smaller one
            exact = bounds_of(binary(node.op, cast("int64", a), cast("int64", b)), self._variable)
            if not exact.within(of_type(node.dtype)):
                what = f"the {node.dtype} {self._text(node)}"
                mask = f"& {(1 << node.dtype.bits) - 1}"
                better = f"widen an operand first, with .astype({_wider(exact)!r}); where wrapping is meant, say {mask}"
                return self.op.name, _why(what, exact, node.dtype), better
        return None

    def _reduced(self, body: Expr, source: Interval, expr: Expr) -> tuple[Interval, Overflow | None]:
        """The bounds of a reduction of elements between those of `source`, and what is wrong with it."""
        name, of = body.value.name, body.dtype
        if name in ("min", "max"):
            return (source, None) if body.op == "reduce" else (of_type(of), None)
        if name not in ("sum", "prod") or not _is_narrow(of):
            return of_type(of), None
        spans = [_range(a.min, a.extent) for a in self.op.reduce_axis]
        terms = prod(s.high - s.low + 1 for s in spans) if all(s.high < inf for s in spans) else inf
        if name == "sum":
            ends = [0 if x == 0 else x * terms for x in (source.low, source.high)]
            exact = Interval(min(0, *ends), max(0, *ends))
        else:
            exact = source | Interval(-1, 1) if terms <= 1 or source.within(Interval(-1, 1)) else EVERYTHING
        if exact.within(of_type(of)):
            return exact, None
        what = f"the {of} {name} of {self._text(expr)}"
        better = f"accumulate in a wider type: te.{name}(..., dtype={_wider(exact)!r})"
        return of_type(of), (self.op.name, _why(what, exact, of), better)

    def _text(self, e: Expr) -> str:
        """The expression as it was written, cut short."""
        text = repr(rewrite(e, lambda node, _: self.reads.get(node)))
        return text if len(text) <= 60 else f"{text[:57]}..."


def _is_narrow(of: DType) -> bool:
    return of.is_integer and of.bits <= 16


def _range(start: Expr, extent: Expr) -> Interval:
    if start.op != "const":
        return EVERYTHING
    last = start.value + max(extent.value, 1) - 1 if extent.op == "const" else inf
    return Interval(start.value, last)


def _modular(root: Expr, nodes: list[Expr]) -> set[Expr]:
    """The operations all of whose users take their results modulo a power of two no greater than their type's."""
    users: dict[Expr, list[Expr]] = {}
    for node in nodes:
        for a in node.args:
            users.setdefault(a, []).append(node)
    found: set[Expr] = set()
    for node in reversed(nodes):  # users first
        of = node.dtype
        if (
            node is not root
            and of.is_integer
            and all(_cuts(u, of) or u in found and u.op in _RING for u in users[node])
        ):
            found.add(node)
    return found


def _cuts(user: Expr, of: DType) -> bool:
    """Whether an operation keeps only low bits of an operand of that type."""
    if user.op == "cast":
        return user.dtype.is_integer and user.dtype.bits <= of.bits
    if user.op == "bitand":
        return any(a.op == "const" for a in user.args)
    if user.op in ("floormod", "truncmod"):
        divisor = user.args[1]
        return divisor.op == "const" and divisor.value > 0 and divisor.value & (divisor.value - 1) == 0
    return False


def _ordered(a: Expr, b: Expr) -> bool:
    return a.op == "max" and b.op == "min" and set(a.args) == set(b.args)


def _why(what: str, exact: Interval, of: DType) -> str:
    own = of_type(of)
    reaches, ends = (exact.high, own.high) if exact.high > own.high else (exact.low, own.low)
    how = f"can reach {reaches}" if abs(reaches) != inf else "can grow without a bound"
    return f"{what} {how}, and {of} {'ends' if ends == own.high else 'begins'} at {ends}: it wraps around"


def _wider(exact: Interval) -> str:
    names = ("uint16", "int16", "uint32", "int32", "int64")
    return next((n for n in names if exact.within(of_type(dtype(n)))), "int32" if exact.high == inf else "int64")
