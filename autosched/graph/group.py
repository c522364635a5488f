"""Kernels of a graph: which operations are computed together.

What an operation is, its te body says; no operator of a network is known here.

- A *contraction* or window reduction is the anchor of a kernel. One that reads every element once, a row at a time
  (a sum, a mean, a maximum), shares its kernel with others over the same rows: soft-max, layer norm.
- An elementwise operation joins the kernel that computes its operand at the same place: an epilogue.
- One that only moves elements is no kernel at all: it is an index map, cloned into each reader. So is any injective
  operation with one reader.
- Scans with their steps, scatters and code from outside stand alone.

Kernels are merged only where none would have to wait for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from autosched.ir.expr import OPS, Expr, is_const, is_index, variables
from autosched.ir.simplify import always_equal
from autosched.ir.visit import needed_first, post_order, reached, reads
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, Graph, IterVar, Operation, PlaceholderOp, Tensor

#: operations of one kernel, at most: rules look at each with all others
MOST_OPERATIONS = 24
#: operands that an injective operation may choose among and still be cloned
MOST_CHOICES = 2


@dataclass(eq=False)
class Group:
    """Operations of one kernel, producers first, and what others read of them. `rows` are the lengths of the axes that
    reductions of whole rows leave, for a kernel of such."""

    ops: list[Operation] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    rows: tuple[Expr, ...] | None = None
    #: the groups that have to come before
    needs: set[Group] = field(default_factory=set)
    is_closed: bool = False

    def depends_on(self, other: Group) -> bool:
        return any(g is other for g in reached([self], lambda g: g.needs))


def groups_of(outputs: Iterable[Tensor]) -> list[Group]:
    """The kernels that compute these tensors, in an order in which they can run."""
    return _Grouping(list(dict.fromkeys(outputs))).groups()


class _Grouping:
    def __init__(self, outputs: Sequence[Tensor]) -> None:
        self.wanted = [t for t in outputs if not isinstance(t.op, PlaceholderOp)]
        self.graph = Graph.of(self.wanted)
        self.home: dict[Operation, Group] = {}
        self.final = {t.op for t in self.wanted}
        self.parts = {
            part: op
            for op in self.graph.ops
            if isinstance(op, ScanOp)
            for part in (*op.steps, *(t.op for t in op.init), *(t.op for t in op.state_placeholder))
        }

    def groups(self) -> list[Group]:
        for op in self.graph.ops:
            if not isinstance(op, PlaceholderOp) and op not in self.parts and not self._is_cloned(op):
                self._place(op)
        found = list(dict.fromkeys(self.home.values()))
        for g in found:
            self._complete(g)
        for g in found:
            read = {t for other in found if other is not g for op in other.ops for t in op.input_tensors}
            own = [t for op in g.ops if self.home.get(op) is g for t in op.outputs]
            g.outputs = [t for t in own if t in read or t in self.wanted]
        return _in_order(found)

    # -- what becomes of one operation ------------------------------------------------------------
    def _is_cloned(self, op: Operation) -> bool:
        """Whether each reader computes it itself."""
        if op in self.final or not isinstance(op, ComputeOp) or op.reduce_axis or not self._readers(op):
            return False
        if op.num_outputs > 1:
            return False
        if is_movement(op):
            return True
        return len(self._readers(op)) == 1 and self._epilogue_of(op) is None and self._rows_of(op) is None

    def _readers(self, op: Operation) -> list[Operation]:
        return list(dict.fromkeys(self.parts.get(user, user) for user in self.graph.consumers[op]))

    def _place(self, op: Operation) -> None:
        """Give it a kernel: one of those whose results it reads, or a new one."""
        group = self._rows_of(op) or self._epilogue_of(op) or Group()
        if not isinstance(op, ComputeOp) or op.body[0].op == "scatter":
            group.is_closed = True
        if isinstance(op, ComputeOp) and group.rows is None and not group.ops:
            group.rows = rows_of(op)
        group.ops.append(op)
        group.needs |= {g for g in self._sources(op) if g is not group}
        self.home[op] = group

    def _sources(self, op: Operation) -> Iterator[Group]:
        """The groups that an operation reads, through what is cloned."""
        seen: set[Operation] = set()
        waiting = [op]
        while waiting:
            for t in self._inputs(waiting.pop()):
                if t.op in seen:
                    continue
                seen.add(t.op)
                if t.op in self.home:
                    yield self.home[t.op]
                else:
                    waiting.append(t.op)

    def _inputs(self, op: Operation) -> Iterator[Tensor]:
        """What it reads; of a scan, what its steps read, too."""
        if isinstance(op, ScanOp):
            inside = {op, *(part for part, of in self.parts.items() if of is op)}
            for part in inside:
                yield from (t for t in part.input_tensors if t.op not in inside)
        else:
            yield from op.input_tensors

    def _can_join(self, op: Operation, group: Group) -> bool:
        """Whether the kernel stays one that need not wait for itself."""
        if group.is_closed or len(group.ops) >= MOST_OPERATIONS:
            return False
        return not any(g is not group and g.depends_on(group) for g in self._sources(op))

    def _epilogue_of(self, op: Operation) -> Group | None:
        """The kernel whose last result an injective operation reads at its own place, alone."""
        if not isinstance(op, ComputeOp) or op.reduce_axis or op.body[0].op == "scatter":
            return None
        for t in op.input_tensors:
            group = self.home.get(t.op)
            if group is None or t.op in self.final or len(self._readers(t.op)) > 1:
                continue
            if reads_each_once(op, t) and self._can_join(op, group):
                return group
        return None

    def _rows_of(self, op: Operation) -> Group | None:
        """The kernel of rows whose next step the operation is."""
        if not isinstance(op, ComputeOp) or op.body[0].op == "scatter":
            return None
        for group in dict.fromkeys(self._sources(op)):
            if group.rows is None or not self._can_join(op, group):
                continue
            own = rows_of(op) if op.reduce_axis else op.shape[: len(group.rows)]
            if own is not None and _same(own, group.rows) and self._stays_in_rows(op, group):
                return group
        return None

    def _stays_in_rows(self, op: ComputeOp, group: Group) -> bool:
        """Whether an iteration over a row reads that row alone of what the kernel computes."""
        assert group.rows is not None
        n = len(group.rows)
        found = [e for body in op.body for e in reads(body) if self.home.get(e.value.op) is group]
        return bool(found) and all(is_place(a, i) for e in found for a, i in zip(op.axis[:n], e.args, strict=False))

    # -- a whole kernel ---------------------------------------------------------------------------
    def _complete(self, g: Group) -> None:
        """Add what is cloned, and the parts of scans."""

        def further(op: Operation) -> list[Operation]:
            parts = [part for part, of in self.parts.items() if of is op] if isinstance(op, ScanOp) else []
            inner = (t.op for t in op.input_tensors if t.op not in self.home)
            return [*parts, *(x for x in inner if not isinstance(x, PlaceholderOp))]

        needed = {*reached(g.ops, further)}
        g.ops = [op for op in self.graph.ops if op in needed]


def _in_order(groups: Sequence[Group]) -> list[Group]:
    return needed_first(groups, lambda g: [x for x in reversed(groups) if x in g.needs])


# -- what a body says -----------------------------------------------------------------------------


def is_movement(op: ComputeOp) -> bool:
    """Whether an element is one of another tensor, unchanged: an index map. It may choose among few, or a constant."""
    if op.reduce_axis or op.num_outputs > 1:
        return False
    values = [e for e in post_order(op.body) if not is_index(e)]
    moved = all(e.op in ("read", "const") or OPS[e.op].kind == "choice" or e.dtype.is_bool for e in values)
    looked_up = any(not is_index(i) for e in values if e.op == "read" for i in e.args)
    return moved and not looked_up and len({e.value for e in values if e.op == "read"}) <= MOST_CHOICES


def reads_in_place(op: ComputeOp, t: Tensor) -> bool:
    """Whether it reads that tensor of the same shape at its own place, and nowhere else."""
    places = [e.args for body in op.body for e in reads(body) if e.value is t]
    return _same(op.shape, t.shape) and all(all(map(is_place, op.axis, at)) for at in places)


def reads_each_once(op: ComputeOp, t: Tensor) -> bool:
    """Whether it reads that tensor at its own place, or with its axes in another order: each element for one result."""
    axes = {a.var for a in op.axis}
    long = {a.var for a in op.axis if not is_const(a.extent, 1)}
    places = [[i for i in e.args if not is_const(i)] for body in op.body for e in reads(body) if e.value is t]
    exchanged = all(long <= set(at) <= axes and len(set(at)) == len(at) for at in places)
    return reads_in_place(op, t) or (exchanged and t.ndim == len(axes))


def is_place(axis: IterVar, index: Expr) -> bool:
    """Whether an index is the axis itself; of one iteration, anything is."""
    return index is axis.var or is_const(axis.extent, 1)


def rows_of(op: ComputeOp) -> tuple[Expr, ...] | None:
    """The lengths of the axes of a reduction of rows: each element of what it reads is used for one result. None for
    anything else: contractions, windows."""
    first = op.body[0]
    if first.op != "reduce" or not op.axis:
        return None
    inner = {a.var for a in op.reduce_axis}
    outer = [a.var for a in op.axis if not is_const(a.extent, 1)]
    places = {a.var for a in op.axis} | inner
    for e in reads(first):
        used = frozenset().union(*(variables(i) for i in e.args)) if e.args else frozenset()
        if not used & inner:
            continue  # one value for each row
        plain = all(i in places or is_const(i) for i in e.args)
        if not plain or not all(v in used for v in outer):
            return None
    return op.shape


def _same(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(map(always_equal, a, b))
