"""Operations of te rebuilt over other inputs: parts of a graph as programs of their own, tensors in other layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from autosched.ir.expr import Expr, make
from autosched.ir.visit import rewrite
from autosched.te.extern import ExternOp
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor

#: makes the expression for an element of a tensor from its indices
Read = Callable[[Sequence[Expr]], Expr]


def read_of(t: Tensor) -> Read:
    """The element of a tensor as it is."""
    return lambda at: make("read", t.dtype, tuple(at), t)


class Rewriter:
    """Rebuilds operations.

    reads:   tensor -> what stands for its elements; what it says is not rebuilt
    layouts: operation -> the order in which its axes are kept in memory. Its readers read accordingly
    """

    def __init__(self, reads: Mapping[Tensor, Read], layouts: Mapping[Operation, Sequence[int]] | None = None) -> None:
        self._reads = dict(reads)
        self._layouts = dict(layouts or {})
        self._made: dict[Tensor, Tensor] = {}

    def tensors(self, wanted: Iterable[Tensor]) -> list[Tensor]:
        """The tensors over the new inputs, in their new layouts."""
        listed = list(wanted)
        for op in _needed(listed, self._reads):
            if not isinstance(op, PlaceholderOp) and op.outputs[0] not in self._made:
                self._enter(op, self._rebuilt(op))
        return [self._made.get(t, t) for t in listed]

    def _enter(self, old: Operation, new: Operation) -> None:
        order = self._layouts.get(old)
        for a, b in zip(old.outputs, new.outputs, strict=True):
            self._made[a] = b
            self._reads[a] = read_of(b) if order is None else _permuted(b, order)

    def _rebuilt(self, op: Operation) -> Operation:
        match op:
            case ComputeOp():
                order = self._layouts.get(op, range(len(op.axis)))
                done: dict[Expr, Expr] = {}
                body = [rewrite(e, self._changed, done) for e in op.body]
                axes = [op.axis[k] for k in order]
                return ComputeOp(op.name, [op.shape[k] for k in order], axes, body, op.tag, op.attrs)
            case ScanOp():
                init, update, inputs = (
                    [self._made.get(t, t) for t in part] for part in (op.init, op.update, op.inputs)
                )
                return ScanOp(op.name, init, update, op.state_placeholder, inputs, op.tag, op.attrs)
            case ExternOp():
                inputs = [self._made.get(t, t) for t in op.inputs]
                return ExternOp(
                    op.name, inputs, op.in_buffers, op.out_buffers, op.statement, op.tag, op.attrs, op.reference
                )
        raise TypeError(op)

    def _changed(self, e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        if e.op != "read" or e.value not in self._reads:
            return None
        return self._reads[e.value](args)


def _permuted(t: Tensor, order: Sequence[int]) -> Read:
    """An element by indices in the old order of a tensor whose axes are kept in another."""
    return lambda at: make("read", t.dtype, tuple(at[k] for k in order), t)


def _needed(wanted: Iterable[Tensor], given: Mapping[Tensor, Read]) -> list[Operation]:
    """The operations behind some tensors up to those that are given, producers first."""
    order: list[Operation] = []
    done: set[Operation] = set()
    stack: list[tuple[Operation, bool]] = [(t.op, False) for t in wanted if t not in given]
    while stack:
        op, expanded = stack.pop()
        if expanded:
            order.append(op)
        elif op not in done:
            done.add(op)
            stack.append((op, True))
            stack.extend((t.op, False) for t in reversed(op.input_tensors) if t not in given)
    return order
