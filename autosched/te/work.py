"""How much a program must do at least: arithmetic by its definition, and each argument moved once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from autosched.ir.evaluate import evaluate
from autosched.ir.expr import OPS, Expr, is_index, variables
from autosched.ir.visit import post_order
from autosched.te.reduction import Reduction
from autosched.te.tensor import ComputeOp, Graph, PlaceholderOp, Tensor

__all__ = ["Work", "work_of"]


@dataclass(frozen=True)
class Work:
    """What one call does at least.

    `flops` counts floating-point operations in units of one add (the table of operators says how much
    a division or an `exp` counts), `wide` whether they are in float64. `loaded` and `stored` are bytes:
    each input read once, each output written once.
    """

    flops: int
    wide: bool
    loaded: int
    stored: int

    @property
    def moved(self) -> int:
        return self.loaded + self.stored


def work_of(args: Sequence[Tensor], sizes: Mapping[str, int]) -> Work | None:
    """The work of the function of these arguments; None where a length is not known from `sizes`.

    >>> from autosched import te
    >>> A = te.placeholder((8, 8), name="A")
    >>> B = te.compute((8, 8), lambda i, j: A[i, j] * 2.0 + 1.0, name="B")
    >>> work_of([A, B], {})
    Work(flops=128, wide=False, loaded=256, stored=256)
    """
    graph = Graph.of(args)
    flops, wide = 0, False
    for op in graph.ops:
        if not isinstance(op, ComputeOp):
            continue
        points = _product([*op.shape, *(a.extent for a in op.reduce_axis)], sizes)
        if points is None:
            return None
        each, is_wide = _flops_of_a_point(op)
        flops += points * each
        wide = wide or is_wide
    moved = {True: 0, False: 0}
    for tensor in args:
        length = _product(tensor.shape, sizes)
        if length is None:
            return None
        moved[isinstance(tensor.op, PlaceholderOp)] += length * tensor.dtype.bytes
    return Work(flops, wide, loaded=moved[True], stored=moved[False])


def _product(lengths: Sequence[Expr], sizes: Mapping[str, int]) -> int | None:
    env = {v: sizes[v.name] for e in lengths for v in variables(e) if v.name in sizes}
    if any(not variables(e) <= env.keys() for e in lengths):
        return None
    return prod(max(int(value), 0) for value in evaluate(list(lengths), env))


def _flops_of_a_point(op: ComputeOp) -> tuple[int, bool]:
    """Floating-point operations for each point of the axes, and whether any is in float64.

    A reduction combines each term with the result so far: one more.
    """
    flops, wide = 0, any(e.dtype.is_float and e.dtype.bits > 32 for e in op.body)
    first = op.body[0]
    work: Sequence[Expr] = op.body
    if first.op == "reduce":
        reduction: Reduction = first.value
        sources, condition, _ = reduction.parts(first.args)  # first values come once, not for each point
        if isinstance(reduction.combiner, str):
            flops, work = int(first.dtype.is_float), (*sources, condition)
        else:
            work = (*sources, condition, *reduction.combiner.result)
    for e in post_order(work):
        if e.dtype.is_float and not is_index(e) and OPS[e.op].kind in ("arith", "math"):
            flops += int(OPS[e.op].flops)
            wide = wide or e.dtype.bits > 32
    return flops, wide
