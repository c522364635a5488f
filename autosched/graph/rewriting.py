"""Operations of te rebuilt over other inputs: parts of a graph as programs of their own, tensors in other layouts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autosched.graph.model import Graph, Step, restored, tensors_of
from autosched.ir.expr import Expr, make
from autosched.ir.simplify import Analyzer
from autosched.ir.visit import needed_first, reads, rewrite, substitute
from autosched.te.extern import ExternOp
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor

#: makes the expression for an element of a tensor from its indices
Read = Callable[[Sequence[Expr]], Expr]


def read_of(t: Tensor) -> Read:
    """The element of a tensor as it is."""
    return lambda at: make("read", t.dtype, tuple(at), t)


@dataclass(frozen=True)
class Changes:
    """What is to be different in a graph.

    reads:   tensor -> what stands for its elements; what makes that tensor is not rebuilt
    bodies:  operation -> its new body, over the tensors that it was over and constants
    layouts: operation -> the order in which its axes are kept in memory. Its readers read accordingly
    inlined: operations that each reader computes in its own expression
    """

    reads: Mapping[Tensor, Read] = field(default_factory=dict)
    bodies: Mapping[Operation, Sequence[Expr]] = field(default_factory=dict)
    layouts: Mapping[Operation, Sequence[int]] = field(default_factory=dict)
    inlined: Collection[Operation] = ()


def rewritten(graph: Graph, changes: Changes) -> Graph:
    """The graph with these changes."""
    rewriter = Rewriter(changes)
    wanted = [t for v in graph.outputs.values() for t in tensors_of(v)]
    made = dict(zip(wanted, rewriter.tensors(wanted), strict=True))
    outputs = {name: restored(v, made) for name, v in graph.outputs.items()}
    kept, orders = [], {}
    for s in graph.steps:
        found = {name: (t, rewriter.made[t]) for name, t in s.outputs.items() if t in rewriter.made}
        for old, new in found.values():
            order = graph.layouts.get(old, range(old.ndim))
            orders[new] = tuple(order[k] for k in changes.layouts.get(old.op, range(old.ndim)))
        kept.append(Step(s.kind, s.name, {name: new for name, (_, new) in found.items()}))
    return replace(graph, outputs=outputs, steps=kept, layouts=orders)


class Rewriter:
    """Rebuilds operations over other inputs."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._reads = dict(changes.reads)
        #: tensor -> the one in its place
        self.made: dict[Tensor, Tensor] = {}

    def tensors(self, wanted: Iterable[Tensor]) -> list[Tensor]:
        """The tensors over the new inputs, in their new layouts."""
        listed = list(wanted)
        for op in self._needed(listed):
            if not isinstance(op, PlaceholderOp) and op.outputs[0] not in self._reads:
                self._rebuild(op)
        return [self.made.get(t, t) for t in listed]

    def _rebuild(self, op: Operation) -> None:
        new: Operation
        match op:
            case ComputeOp():
                done: dict[Expr, Expr] = {}
                body = [rewrite(e, self._changed, done) for e in self._changes.bodies.get(op, op.body)]
                if op in self._changes.inlined:
                    self._reads[op.output_tensor] = _inlined(op, body[0])
                    return
                if self._changes.inlined:
                    body = [_simplified(e, op) for e in body]
                order = self._changes.layouts.get(op, range(len(op.axis)))
                axes = [op.axis[k] for k in order]
                new = ComputeOp(op.name, [op.shape[k] for k in order], axes, body, op.tag, op.attrs)
                self._enter(op, new, order)
                return
            case ScanOp():
                init, update, inputs = ([self.made.get(t, t) for t in x] for x in (op.init, op.update, op.inputs))
                new = ScanOp(op.name, init, update, op.state_placeholder, inputs, op.tag, op.attrs, op.axis_names)
            case ExternOp():
                read = [self.made.get(t, t) for t in op.inputs]
                statement, buffers = op.statement, (op.in_buffers, op.out_buffers)
                new = ExternOp(op.name, read, *buffers, statement, op.tag, op.attrs, op.reference)
            case _:
                raise TypeError(op)
        self._enter(op, new, None)

    def _enter(self, old: Operation, new: Operation, order: Sequence[int] | None) -> None:
        for a, b in zip(old.outputs, new.outputs, strict=True):
            self.made[a] = b
            self._reads[a] = read_of(b) if order is None else permuted(b, order)

    def _changed(self, e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        if e.op != "read" or e.value not in self._reads:
            return None
        return self._reads[e.value](args)

    def _needed(self, wanted: Iterable[Tensor]) -> list[Operation]:
        """The operations behind some tensors up to those that are given, producers first."""
        given, bodies = self._changes.reads, self._changes.bodies

        def needs(op: Operation) -> list[Operation]:
            read = op.input_tensors if op not in bodies else [e.value for b in bodies[op] for e in reads(b)]
            return [t.op for t in read if t not in given][::-1]

        return needed_first([t.op for t in wanted if t not in given][::-1], needs)


def permuted(t: Tensor, order: Sequence[int]) -> Read:
    """The element by indices in the old order of a tensor whose axes are kept in another."""
    return lambda at: make("read", t.dtype, tuple(at[k] for k in order), t)


def _inlined(op: ComputeOp, body: Expr) -> Read:
    """The element of an operation as its own expression."""
    return lambda at: substitute(body, {a.var: i for a, i in zip(op.axis, at, strict=True)})


def _simplified(e: Expr, op: ComputeOp) -> Expr:
    """A body whose indices are in their normal form, for the ranges of the axes: `(h*64 + d) // 128` may be 0."""
    an = Analyzer()
    for a in (*op.axis, *op.reduce_axis):
        an.bind(a.var, a.min, a.min + a.extent - 1)

    def changed(x: Expr, args: tuple[Expr, ...]) -> Expr | None:
        return (
            make("read", x.dtype, tuple(an.simplify(i) if i.index else i for i in args), x.value)
            if x.op == "read"
            else None
        )

    return rewrite(e, changed)
