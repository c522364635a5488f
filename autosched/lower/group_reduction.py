"""Reduce loops bound to threadIdx: each work-item combines a part, and the group combines the parts.

    for k.outer:                                      C.part = 0                       in registers
      for k.inner (threadIdx.x): C += A[..]   ->      for k.outer:
                                                        C.part += A[..]                by each work-item
                                                      C.group[t] = C.part              in shared memory, t = threadIdx.x
                                                      barrier
                                                      if t < 4: C.group[t] += C.group[t + 4]
                                                      barrier
                                                      ...
                                                      C = C.group[0]

The number of work-items need not be a power of two, and may be open: the steps of the tree that it
has no use for fall away when it is known. Work-items that belong to different elements have rows of
their own. Every work-item of the group can read the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from autosched.ir.dtype import DType
from autosched.ir.expr import Expr, compare, const, maximum, minimum, var
from autosched.ir.simplify import simplify
from autosched.ir.stmt import Allocate, Barrier, Buffer, For, If, Stmt, Store, load, seq

__all__ = ["MOST_WORK_ITEMS", "GroupReduction", "ThreadLoop"]

#: no device has larger groups, so no tree has more steps
MOST_WORK_ITEMS = 4096

Combine = Callable[[Sequence[Expr], Sequence[Expr]], Sequence[Expr]]
Place = tuple[Buffer, tuple[Expr, ...]]


@dataclass(frozen=True)
class ThreadLoop:
    """A loop bound to the hardware axis `tag`."""

    tag: str
    var: Expr
    extent: Expr


@dataclass
class GroupReduction:
    """One reduction of a group.

    `across` are its reduce loops that are bound, `rows` the bound loops around it that tell its
    elements apart; `repeats` says whether a work-item may come by several times.
    """

    name: str
    dtypes: Sequence[DType]
    across: Sequence[ThreadLoop]
    rows: Sequence[ThreadLoop]
    repeats: bool
    parts: list[Place] = field(init=False)
    shared: list[Buffer] = field(init=False)

    def __post_init__(self) -> None:
        across = sorted(self.across, key=lambda loop: loop.tag)  # x runs fastest, as work-items do
        # one work-item at least: somebody has to store the result of nothing
        self.across = [replace(x, extent=simplify(maximum(x.extent, 1))) for x in across]
        self.count: Expr = const(1)
        for loop in self.across:
            self.count = self.count * loop.extent
        suffixes = [""] if len(self.dtypes) == 1 else [f".v{i}" for i in range(len(self.dtypes))]
        names = [
            (f"{self.name}.part{x}", f"{self.name}.group{x}", of) for x, of in zip(suffixes, self.dtypes, strict=True)
        ]
        shape = (*(row.extent for row in self.rows), self.count)
        self.parts = [(Buffer(part, (const(1),), of, "local"), (const(0),)) for part, _, of in names]
        self.shared = [Buffer(group, shape, of, "shared") for _, group, of in names]

    def around(self, accumulate: Stmt, combine: Combine, at_once: Callable[[list[Store]], Stmt], finish: Stmt) -> Stmt:
        """`accumulate`, which leaves each work-item's result in its `parts`; the tree; then `finish`, which
        takes what `result` loads."""
        steps: list[Stmt] = [accumulate]
        if self.repeats:
            steps.append(Barrier())  # everybody has read the result before
        steps.append(self._each(self._publish))
        step = MOST_WORK_ITEMS // 2
        while step:
            if self.count.op != "const" or step < self.count.value:
                tree = seq(Barrier(), self._each(partial(self._step, step, combine, at_once)))
                steps.append(If(compare("lt", const(step), self.count), tree))
            step //= 2
        body = seq(*steps, Barrier(), finish)
        for buffer in reversed([*(b for b, _ in self.parts), *self.shared]):
            body = Allocate(buffer, body)
        return body

    def result(self) -> list[Expr]:
        """What the whole group has found."""
        return [load(b, *self._at(const(0))) for b in self.shared]

    def _at(self, t: Expr) -> tuple[Expr, ...]:
        """Where work-item `t` of a row has its element."""
        return (*(row.var for row in self.rows), t)

    def _publish(self, t: Expr) -> Stmt:
        pairs = zip(self.shared, self.parts, strict=True)
        return seq(*(Store(b, self._at(t), load(part, *at)) for b, (part, at) in pairs))

    def _step(self, step: int, combine: Combine, at_once: Callable[[list[Store]], Stmt], t: Expr) -> Stmt:
        mine = [load(b, *self._at(t)) for b in self.shared]
        other = [load(b, *self._at(t + step)) for b in self.shared]
        stores = [Store(b, self._at(t), e) for b, e in zip(self.shared, combine(mine, other), strict=True)]
        return If(t < minimum(const(step), self.count - step), at_once(stores))

    def _each(self, body: Callable[[Expr], Stmt]) -> Stmt:
        """`body` for each work-item's number among those that combine."""
        number: Expr = const(0)
        stride: Expr = const(1)
        fresh = [var(f"{self.name}.{loop.tag}", role="loop") for loop in self.across]
        for v, loop in zip(fresh, self.across, strict=True):
            number, stride = number + v * stride, stride * loop.extent
        result = body(number)
        for v, loop in zip(fresh, self.across, strict=True):
            result = For(v, const(0), loop.extent, "thread", result, loop.tag)
        return result
