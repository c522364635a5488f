"""The functions of the `te` namespace: variables, axes, choices and math."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from autosched.errors import InvalidValueError, UsageError, UsageTypeError, asked_at
from autosched.ir import expr as ir
from autosched.ir.dims import Range
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Arithmetic, Expr
from autosched.ir.printer import checked_name
from autosched.ir.stmt import THREAD_TAGS, VTHREAD, VTHREAD_SPELLINGS
from autosched.te.tensor import IterVar, is_size


class AxisSeparator:
    """Its only value is `AXIS_SEPARATOR`."""

    def __repr__(self) -> str:
        return "te.AXIS_SEPARATOR"


#: Stands between the indices of a layout: those before it and those after it address memory of more than one
#: dimension. All memory here has one dimension, in which the groups follow one another anyway.
AXIS_SEPARATOR = AxisSeparator()


_unnamed = (f"tindex_{i}" if i else "tindex" for i in itertools.count())


def var(name: str | None = None, dtype: object = "int32") -> Expr:
    """A symbolic integer; as a dimension it is non-negative. Without a name, it has one that no other has."""
    name = next(_unnamed) if name is None else checked_name(name, "te.var")
    return ir.var(name, dtype, "size" if to_dtype(dtype).is_integer else "scalar")


@dataclass(frozen=True)
class ThreadAxis(Arithmetic[Expr]):
    """A hardware axis that `bind` gives a loop to; see `thread_axis`."""

    thread_tag: str
    name: str = ""
    dom: Range | None = None  #: as the caller said; loops that are bound to it have their own
    var: Expr = field(default_factory=lambda: ir.var("thread", role="loop"), compare=False, repr=False)

    def as_expr(self) -> Expr:
        """The index along the axis, in what an IRBuilder writes."""
        return self.var


def thread_axis(dom: object = None, tag: object = "", name: str = "") -> ThreadAxis:
    """The axis `tag` of a GPU-style target: `te.thread_axis("threadIdx.x")`.

    Tags are blockIdx and threadIdx with .x, .y or .z, and `vthread`, of which there may be several.
    Extents come from the loops that are bound, so `dom` is not looked at. `bind` takes the tag itself, too.
    """
    called = str(dom if isinstance(dom, str) else tag)
    if called and called not in (*THREAD_TAGS, VTHREAD, *VTHREAD_SPELLINGS):
        legal = ", ".join((*THREAD_TAGS, VTHREAD, *VTHREAD_SPELLINGS))
        raise UsageError("there is no such axis", asked=f"thread_axis({called!r})", legal=legal)
    domain = None if dom is None or isinstance(dom, str) else _range_of(dom, f"thread_axis {called}")
    return ThreadAxis(called, name or called, domain, ir.var(name or called, role="loop"))


def size_var(name: str = "size", dtype: object = "int32") -> Expr:
    """A symbolic dimension, never negative."""
    return var(name, dtype)


def const(value: Any, dtype: object = None) -> Expr:
    """A literal of the given type (int32, or int64 where it needs that, float32 or bool without one).

    Raises UsageError for an integer that the type does not hold: it would wrap.
    """
    literal = ir.const(value, dtype)
    of = literal.dtype.scalar
    is_number = of.is_integer and not of.is_bool and not isinstance(value, ir.Expr)
    if is_number and not of.min <= int(value) <= of.max:
        raise UsageError(
            f"{value!r} is not in {of.min}..{of.max}, what {of} holds",
            asked=f"const({value!r}, {str(of)!r})  at {asked_at()}",
            legal="a wider type, or te.const(..).astype(..), which wraps",
        )
    return literal


def reduce_axis(
    dom: tuple[object, object] | Range, name: str = "rv", thread_tag: str = "", span: object = None
) -> IterVar:
    """An axis to reduce over: `dom` is (first value, one past the last), integers over sizes, or a Range.

    Over no values, a reduction is the combiner's identity; sizes that make the last value come before the
    first mean no values, too. Numbers that do so are refused (InvalidValueError, a ValueError).

    `thread_tag` and `span` are not looked at: `bind` gives a loop to threads.
    """
    domain = _range_of(dom, f"reduce_axis {name}")
    if domain.extent.op == "const" and domain.extent.value < 0:
        first, count = domain.min, int(domain.extent.value)
        raise InvalidValueError(
            f"it ends before it begins: there are {count} integers from {first!r} up to {domain.min + count!r}",
            asked=f"reduce_axis {name}",
            legal="(first, one past the last), where the second is not less than the first",
        )
    return IterVar(name, domain.extent, "reduce", domain.min)


def _range_of(dom: object, asked: str) -> Range:
    """A pair (begin, end), or a Range, over sizes."""
    if not isinstance(dom, Range):
        if not isinstance(dom, (tuple, list)) or len(dom) != 2:
            raise UsageTypeError(f"{dom!r} is no domain", asked=asked, legal="a pair (begin, end)")
        dom = Range(*dom)
    for bound in (dom.min, dom.extent):
        if not is_size(bound):
            legal = "legal: integers, te.var, te.size_var and arithmetic on them"
            raise UsageError(f"{bound!r} is not an integer over size variables", asked=asked, legal=legal)
    return dom


def _intrinsic(op: str) -> Callable[..., Expr]:
    def intrinsic(*operands: object) -> Expr:
        if len(operands) != ir.OPS[op].arity:
            raise UsageError(f"{op} takes {ir.OPS[op].arity} operands, not {len(operands)}", asked=f"te.{op}(...)")
        return ir.call(op, *operands)

    intrinsic.__name__ = op
    intrinsic.__doc__ = f"Element-wise `{op}`: see docs/semantics.md for its accuracy, integers and special values."
    return intrinsic


#: te name -> operator: every math intrinsic of the operator table, and other names for some
MATH: dict[str, Callable[..., Expr]] = {
    **{op: _intrinsic(op) for op, info in ir.OPS.items() if info.kind == "math" or op in ("abs", "popcount")},
    "power": _intrinsic("pow"),
}
