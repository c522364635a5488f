"""Reductions as plain data, which op graphs store and lowering reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autosched.ir.dtype import DType
from autosched.ir.expr import Expr, binary, const, is_const, var
from autosched.ir.visit import substitute

if TYPE_CHECKING:
    from autosched.te.tensor import IterVar


#: Bodies that run over reduce axes, at one place of the tensor or at a place of each point's own.
REDUCTIONS = ("reduce", "scatter")
#: The combiners that go by name, and the operator that each of them is.
BUILT_IN = {"sum": "add", "prod": "mul", "min": "min", "max": "max"}


@dataclass(frozen=True, slots=True, eq=False)
class Combiner:
    """A way to make one value, or tuple of values, of two.

    `result` are expressions over the variables `left` and `right`, one of each for every component;
    `identity` is the constant that, combined with a value, leaves it as it is.
    """

    name: str
    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    result: tuple[Expr, ...]
    identity: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """The value part of a `reduce` expression: how and over what.

    `combiner` is `sum`, `prod`, `min`, `max` or a `Combiner`, perhaps of tuples. The expression's
    args are the sources (one for each component), a condition that says which points take part,
    and where the result so far begins, if that is not at the identity (one for each component). A
    reduction of tuples has one expression for each output, alike but for `value_index`.
    """

    combiner: str | Combiner
    axes: tuple[IterVar, ...]
    value_index: int = 0

    @property
    def name(self) -> str:
        return self.combiner if isinstance(self.combiner, str) else self.combiner.name

    @property
    def size(self) -> int:
        """The number of components of the combined values."""
        return 1 if isinstance(self.combiner, str) else len(self.combiner.result)

    def over(self, axes: Sequence[IterVar]) -> Reduction:
        """The same over other axes."""
        return replace(self, axes=tuple(axes))

    def parts(self, args: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], Expr, tuple[Expr, ...]]:
        """The sources, the condition, and the rest (first values; of a `scatter`, the place) among an
        expression's args."""
        return args[: self.size], args[self.size], args[self.size + 1 :]

    def identity(self, of: Sequence[DType]) -> tuple[Expr, ...]:
        """The values to begin with, for components of these types."""
        if isinstance(self.combiner, Combiner):
            return self.combiner.identity
        (only,) = of
        start = {"sum": 0, "prod": 1, "min": only.max, "max": only.min}
        return (const(start[self.combiner], only),)

    def plain_name(self) -> str | None:
        """Which of the built-in combiners it is, whatever it is called; None for any other."""
        c = self.combiner
        if isinstance(c, str):
            return c
        if len(c.result) == 1:
            (a,), (b,), (result,), (start,) = c.left, c.right, c.result, c.identity
            for name, op in BUILT_IN.items():
                if result in (binary(op, a, b), binary(op, b, a)):
                    begins = {"sum": 0, "prod": 1}.get(name)
                    return name if begins is None or is_const(start, begins) else None
        return None

    def combine(self, a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, ...]:
        if isinstance(self.combiner, str):
            return (binary(BUILT_IN[self.combiner], a[0], b[0]),)
        c = self.combiner
        operands = dict(zip((*c.left, *c.right), (*a, *b), strict=True))
        return tuple(substitute(e, operands) for e in c.result)

    def written_out(self, of: Sequence[DType]) -> Combiner:
        """The combiner as expressions, for components of these types."""
        if isinstance(self.combiner, Combiner):
            return self.combiner
        x, y = (var(name, of[0]) for name in "xy")
        return Combiner(self.combiner, (x,), (y,), self.combine((x,), (y,)), self.identity(of))

    def describe(self, e: Expr, text: Callable[[Expr], str]) -> str:
        axes = ", ".join(a.name for a in self.axes)
        sources, _, rest = self.parts(e.args)
        what = ", ".join(map(text, sources))
        if e.op == "scatter":
            return f"{self.name}({what}, at=[{', '.join(map(text, rest))}], axis=[{axes}])"
        if self.size == 1:
            begin = f", init={text(rest[0])}" if rest else ""
            return f"{self.name}({what}, axis=[{axes}]{begin})"
        begin = f", init=({', '.join(map(text, rest))})" if rest else ""
        return f"{self.name}(({what}), axis=[{axes}]{begin})[{self.value_index}]"
