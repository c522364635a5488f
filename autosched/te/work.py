"""Least work of a program: its arithmetic by definition, and each argument moved once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from autosched.ir.evaluate import evaluate
from autosched.ir.expr import OPS, Expr, is_const, is_index, variables
from autosched.ir.visit import post_order, reached
from autosched.te.reduction import REDUCTIONS, Reduction
from autosched.te.tensor import ComputeOp, Graph, Operation, PlaceholderOp, Tensor


@dataclass(frozen=True)
class Work:
    """The work of one call, at least.

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
        points = _points(op, sizes)
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


def least_work(args: Sequence[Tensor], sizes: Mapping[str, int]) -> Work | None:
    """The part of the work that no schedule can do without; None where a length is not known from `sizes`.

    Outputs are stored whole, so what each of their elements takes has to be computed, except for the side of a
    choice that is not taken and what several may share. Inputs count where all of their elements are read. Of
    intermediates, a consumer may need a part only: they count nothing.
    """
    outputs = [t for t in args if not isinstance(t.op, PlaceholderOp)]
    flops, wide, stored = 0, False, 0
    whole: dict[Tensor, None] = {}
    for tensor in outputs:
        length = _product(tensor.shape, sizes)
        if length is None:
            return None
        stored += length * tensor.dtype.bytes
        whole.update(dict.fromkeys(_read_whole(tensor.op)))
    for op in dict.fromkeys(t.op for t in outputs):
        if isinstance(op, ComputeOp):
            points = _points(op, sizes)
            if points is None:
                return None
            each, is_wide = _flops_of_a_point(op, least=True)
            first = op.body[0]
            if first.op == "scatter" or first.op == "reduce" and not is_const(first.value.parts(first.args)[1], True):
                continue  # terms that a condition leaves out, or whose place is outside, need not be computed
            flops, wide = flops + points * each, wide or is_wide
    loaded = 0
    for tensor in (t for t in args if t in whole):
        loaded += (_product(tensor.shape, sizes) or 0) * tensor.dtype.bytes
    return Work(flops, wide, loaded, stored)


def points_of(args: Sequence[Tensor], sizes: Mapping[str, int]) -> int | None:
    """The number of elements and terms in the definition; None where it is not known from `sizes`."""
    counts = [_points(op, sizes) for op in Graph.of(args).ops if not isinstance(op, PlaceholderOp)]
    return None if None in counts else sum(n or 0 for n in counts)


def _points(op: Operation, sizes: Mapping[str, int]) -> int | None:
    reduce, shape = op.reduce_axis if isinstance(op, ComputeOp) else (), op.outputs[0].shape
    if isinstance(op, ComputeOp) and (first := op.body[0]).op == "scatter":  # terms say where they belong
        shape = shape[: len(shape) - len(first.value.parts(first.args)[2])]
    return _product([*shape, *(a.extent for a in reduce)], sizes)


def _read_whole(op: Operation) -> Iterator[Tensor]:
    """The tensors that an operation reads at all places: at axes of its own as long as the dimensions."""
    if not isinstance(op, ComputeOp):
        return
    extents = {a.var: a.extent for a in (*op.axis, *op.reduce_axis)}
    for e in _always(op.body):
        if e.op != "read" or len(set(e.args)) < len(e.args):
            continue
        if all(i in extents and extents[i] is n for i, n in zip(e.args, e.value.shape, strict=True)):
            yield e.value


def _always(body: Sequence[Expr]) -> Iterator[Expr]:
    """The expressions that are evaluated for each point, whichever way choices go."""
    return reached(body, lambda e: e.args[:1] if OPS[e.op].kind == "choice" else e.args)


def _product(lengths: Sequence[Expr], sizes: Mapping[str, int]) -> int | None:
    env = {v: sizes[v.name] for e in lengths for v in variables(e) if v.name in sizes}
    if any(not variables(e) <= env.keys() for e in lengths):
        return None
    return prod(max(int(value), 0) for value in evaluate(list(lengths), env))


def _flops_of_a_point(op: ComputeOp, least: bool = False) -> tuple[int, bool]:
    """Floating-point operations for each point of the axes, and whether any is in float64.

    A reduction combines each term with the result so far: one more. With `least`, only what is evaluated whatever
    choices come to, and of which no two points may share the result.
    """
    flops, wide = 0, any(e.dtype.is_float and e.dtype.bits > 32 for e in op.body)
    first = op.body[0]
    work: Sequence[Expr] = op.body
    combined: Sequence[Expr] = ()
    if first.op in REDUCTIONS:
        reduction: Reduction = first.value
        sources, condition, _ = reduction.parts(first.args)  # first values come once, not for each point
        work = (*sources, condition)
        if isinstance(reduction.combiner, str):
            combined = sources if first.dtype.is_float else ()
        else:
            work = (*work, *reduction.combiner.result)
    own = _of_one_point(op, work) if least else None
    flops += sum(1 for e in combined if own is None or e in own)
    for e in _always(work) if least else post_order(work):
        if e.dtype.is_float and not is_index(e) and OPS[e.op].kind in ("arith", "math") and (own is None or e in own):
            flops += int(OPS[e.op].flops)
            wide = wide or e.dtype.bits > 32
    return flops, wide


def _of_one_point(op: ComputeOp, work: Sequence[Expr]) -> frozenset[Expr]:
    """The expressions that are made of other inputs' elements at each point, so that no schedule computes them once for
    several: together they are read at all axes. Sums over windows share their rows, a Fourier transform its halves, and
    what depends on some axes only is the same along the others."""
    axes = {a.var for a in (*op.axis, *op.reduce_axis) if not is_const(a.extent, 1)}
    read: dict[Expr, frozenset[Expr]] = {}
    for e in post_order(work):
        read[e] = frozenset().union(*(read[x] for x in e.args))
        if e.op == "read":
            read[e] = frozenset(axes & set(e.args)) if isinstance(e.value.op, PlaceholderOp) else frozenset()
    return frozenset(e for e, at in read.items() if at >= axes)
