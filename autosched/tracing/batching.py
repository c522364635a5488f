"""The same program for each element of a leading axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr, make
from autosched.ir.visit import rewrite
from autosched.te.tensor import ComputeOp, Graph, IterVar, PlaceholderOp, Tensor


@dataclass(frozen=True)
class Batched:
    """`inputs`: the placeholders with the new axis, by those without; `outputs` have it, too."""

    inputs: dict[Tensor, Tensor]
    outputs: list[Tensor]


def batched(length: int, over: Sequence[Tensor], outputs: Sequence[Tensor]) -> Batched:
    """A program with an axis of that length in front of some inputs, and of all outputs.

    What reads none of these inputs is computed once. Raises UsageError for recurrences and scatters.
    """
    made = {t: te.placeholder((length, *t.shape), t.dtype, name=t.name) for t in over}
    inputs = dict(made)

    def changed(axis: IterVar) -> object:
        def f(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
            if e.op != "read" or e.value not in made:
                return None
            return make("read", e.dtype, (axis.var, *args), made[e.value])

        return f

    for op in Graph.of(list(outputs)).ops:
        if isinstance(op, PlaceholderOp) or not any(t in made for t in op.input_tensors):
            continue
        if not isinstance(op, ComputeOp) or op.body[0].op == "scatter":
            raise UsageError(
                f"{op.name} carries something from one element to the next",
                asked="a function for each element of a leading axis",
                legal="element-wise functions, products and reductions; call it in a loop",
            )
        axis = IterVar("batch", length)
        body = [rewrite(e, changed(axis)) for e in op.body]  # type: ignore[arg-type]
        new = ComputeOp(op.name, (length, *op.shape), (axis, *op.axis), body, op.tag, op.attrs)
        made.update(zip(op.outputs, new.outputs, strict=True))
    return Batched(inputs, [made[t] if t in made else _repeated(t, length) for t in outputs])


def _repeated(t: Tensor, length: int) -> Tensor:
    """What is the same for all elements."""
    return te.compute((length, *t.shape), lambda b, *i: t(*i), name=t.name)
