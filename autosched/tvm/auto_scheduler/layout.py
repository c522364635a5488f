"""Inputs of free layout, copied into the order in which a replayed schedule reads them, or taken in that order.

C[i, j] += A[i, k] * B[k, j]     in loops  i.0 j.0 k.0 i.1 k.1 j.1,  j.1 of 8 and k.1 of 4 iterations
B.global[j // 8, k // 4, k % 4, j % 8] = B[k, j]     so that B is read from one end to the other
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from autosched.graph.rewriting import Changes, Read, Rewriter, read_of
from autosched.ir.expr import Expr
from autosched.ir.visit import post_order
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Fuse, Loop, Stage
from autosched.te.tensor import IterVar, Operation, PlaceholderOp, Tensor, placeholder

#: attribute of an operation: a list of its inputs
FREE = "layout_free_placeholders"


@dataclass(frozen=True)
class _Digit:
    """A loop as part of an axis: `value // stride % extent`, less the `%` for what leads."""

    axis: IterVar
    stride: int
    extent: int
    leads: bool

    def of(self, index: Expr) -> Expr:
        e = index // self.stride if self.stride > 1 else index
        return e if self.leads else e % self.extent


def insert_transforms(s: Schedule, ops: Sequence[Operation]) -> None:
    """Copy the inputs of free layout that one stage reads element by element, in loops that are not fused."""
    for op in ops:
        for tensor in getattr(op, "attrs", {}).get(FREE, ()):
            readers = s.readers(tensor) if isinstance(tensor, Tensor) else []
            digits = _order(readers[0], tensor) if len(readers) == 1 else None
            if digits is not None:
                _copy(s, tensor, readers[0], digits)


def _order(stage: Stage, tensor: Tensor) -> list[tuple[int, _Digit]] | None:
    """The dimension and digit of each loop of a stage, outermost first; None where loops do not map to digits of the
    tensor's dimensions, or the order is that of the tensor."""
    reads = {e.args for body in stage.body for e in post_order(body) if e.op == "read" and e.value is tensor}
    if len(reads) != 1:
        return None
    axes = {a.var: a for a in (*stage.axis, *stage.reduce_axis)}
    read = [axes.get(e) for e in next(iter(reads))]
    if None in read or len(set(read)) != len(read):
        return None
    known = _digits(stage)
    if known is None:
        return None
    found = [(read.index(known[x].axis), known[x]) for x in stage.loops if known[x].axis in read]
    found = [(d, digit) for d, digit in found if digit.extent > 1]
    return None if [d for d, _ in found] == sorted({d for d, _ in found}) else found


def _digits(stage: Stage) -> dict[Loop, _Digit] | None:
    """The part of an axis that each loop is; None where loops are fused, or lengths are no numbers."""
    if any(isinstance(r, Fuse) for r in stage.relations) or any(a.extent.op != "const" for a in stage.roots):
        return None
    found = {loop: _Digit(a, 1, int(a.extent.value), True) for a, loop in stage.roots.items()}
    for r in stage.relations:
        assert not isinstance(r, Fuse)
        whole = found[r.parent]
        amount = r.factor if r.factor is not None else r.nparts
        if amount is None or amount.op != "const":
            return None
        factor = int(amount.value) if r.factor is not None else -(-whole.extent // int(amount.value))
        found[r.outer] = _Digit(whole.axis, whole.stride * factor, -(-whole.extent // factor), whole.leads)
        found[r.inner] = _Digit(whole.axis, whole.stride, min(factor, whole.extent), False)
    return found


def packed(s: Schedule, ops: Sequence[Operation], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the arguments of a computation with inputs of free layout in the order in which a schedule reads them."""
    changed: dict[Tensor, Tensor] = {}
    readers: dict[Tensor, Read] = {}
    for op in ops:
        for tensor in getattr(op, "attrs", {}).get(FREE, ()):
            found = s.readers(tensor) if isinstance(tensor, Tensor) else []
            digits = _order(found[0], tensor) if len(found) == 1 and isinstance(tensor.op, PlaceholderOp) else None
            if digits is not None:
                final = _final(digits)
                new = changed[tensor] = placeholder([x.extent for _, x in final], tensor.dtype, tensor.name)
                readers[tensor] = _reader(new, final)
    if not changed:
        return list(tensors)
    made = Rewriter(Changes(reads=readers)).tensors([t for t in tensors if t not in changed])
    over = dict(zip((t for t in tensors if t not in changed), made, strict=True))
    return [changed.get(t) or over[t] for t in tensors]


def _reader(new: Tensor, final: Sequence[tuple[int, _Digit]]) -> Read:
    read = read_of(new)
    return lambda at: read([x.of(at[d]) for d, x in final])


def _final(digits: Sequence[tuple[int, _Digit]]) -> list[tuple[int, _Digit]]:
    """The digits; the outermost of a dimension leads, though a loop of one iteration may stand before it."""
    leading = {d: max((x for e, x in digits if e == d), key=lambda x: x.stride) for d, _ in digits}
    return [(d, _Digit(x.axis, x.stride, x.extent, x is leading[d])) for d, x in digits]


def _copy(s: Schedule, tensor: Tensor, reader: Stage, digits: Sequence[tuple[int, _Digit]]) -> None:
    final = _final(digits)
    copy = s[s.cache_read(tensor, "global", [reader])]
    covered = {d for d, _ in final}
    rest = [d for d in range(tensor.ndim) if d not in covered]  # of one element
    loops = copy.transform_layout(lambda *i: [*(i[d] for d in rest), *(x.of(i[d]) for d, x in final)])
    outer = loops[: len(rest) + max(1, len(final) - 2)]
    copy.parallel(copy.fuse(*outer) if len(outer) > 1 else outer[0])
    lanes = final[-1][1].extent
    if len(final) > 1 and lanes <= 16 and prod(x.extent for _, x in final) > lanes:
        copy.vectorize(loops[-1])
