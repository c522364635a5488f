"""`tvm.te.schedule`: schedules, and TVM's passes over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any

from autosched.ir.expr import Expr, const
from autosched.ir.stmt import Buffer as Buffer
from autosched.ir.stmt import Stmt
from autosched.ir.visit import post_order
from autosched.schedule.schedule import Schedule as Schedule
from autosched.schedule.stage import Fuse as Fuse
from autosched.schedule.stage import Loop
from autosched.schedule.stage import Split as Split
from autosched.schedule.stage import Stage as Stage
from autosched.te.scan import ScanOp
from autosched.te.tensor import Graph, Operation, Tensor
from autosched.te.tensor import IterVar as Axis
from autosched.tvm._missing import missing
from autosched.tvm.attributes import AttachType as AttachType
from autosched.tvm.clamping import infer_bound
from autosched.tvm.driver import lower
from autosched.tvm.te.intrinsic_calls import create_schedule as create_schedule
from autosched.tvm.tir.nodes import IterVar as IterVar

InferBound = infer_bound


def ScheduleOps(s: Schedule, bounds: Any = None, debug_keep_trivial_loop: bool = False) -> Stmt:
    """Return the loops of a schedule over the tensors it needs and computes; bounds are inferred anew."""
    body: Stmt = lower(s, s.arguments, simple_mode=True)["main"].body
    return body


def CreateReadGraph(ops: Iterable[Operation]) -> dict[Operation, tuple[Tensor, ...]]:
    """Map these operations, and all that they need, to the tensors they read."""
    return {op: tuple(op.input_tensors) for op in Graph.of([op.output_tensor for op in ops]).ops}


def PostDFSOrder(
    ops: Iterable[Operation], graph: Mapping[Operation, Sequence[Tensor]] | None = None
) -> list[Operation]:
    """Return these operations and all that they need, producers first; of a `CreateReadGraph`, those in it."""
    found = Graph.of([op.output_tensor for op in ops]).ops
    return [op for op in found if graph is None or op in graph]


def CreateAttachPath(s: Schedule) -> dict[Operation, tuple[Axis | Loop, ...]]:
    """Map each operation to the loops of other stages around it, innermost first."""
    found = {}
    for stage in s.stages:
        path: list[Axis | Loop] = []
        for _, loops in stage.hosts():
            path += [loop.root or loop for loop in reversed(loops)]
        found[stage.op] = tuple(path)
    return found


def ScanGetBody(op: ScanOp) -> list[Operation]:
    """Return the operations of one step of a recurrence: they depend on its states, or are its updates."""
    return list(op.steps)


def ScanFixPointAnalysis(op: ScanOp) -> dict[Axis, Expr]:
    """Map each spatial axis to 1 if each place along it is a recurrence of its own, which TVM calls a fixed point."""
    own = op.independent
    return {a: const(int(d < len(own) and own[d])) for axes in op.spatial_axes for d, a in enumerate(axes)}


# -- inlining of what costs nothing to compute again ----------------------------------------------------


def _is_elem_wise(stage: Stage) -> bool:
    """Element (i, j, ..) is computed from elements (i, j, ..) of what the stage reads."""
    axes = [a.var for a in stage.axis]
    return stage.is_injective and all(
        len(indices) == len(axes) and all(i is v for i, v in zip(indices, axes, strict=True))
        for indices in _reads(stage)
    )


def _is_broadcast(stage: Stage) -> bool:
    """It is tagged so, or each read's indices are some of the axes, in their order."""
    places = {a.var: i for i, a in enumerate(stage.axis)}

    def is_ordered(indices: tuple[Expr, ...]) -> bool:
        at = [places.get(i, -1) for i in indices]
        return -1 not in at and all(a < b for a, b in pairwise(at))

    tag = getattr(stage.op, "tag", "")
    return stage.is_injective and (tag == "broadcast" or all(map(is_ordered, _reads(stage))))


def _reads(stage: Stage) -> list[tuple[Expr, ...]]:
    return [e.args for e in post_order(stage.body) if e.op == "read"]


def AutoInlineElemWise(s: Schedule) -> None:
    """Inline every stage that is computed element by element, and that nothing was done with.

    >>> from autosched import te
    >>> from autosched.schedule import create_schedule
    >>> a = te.placeholder((8,), name="A")
    >>> b = te.compute((8,), lambda i: a[i] + 1, name="B")
    >>> s = create_schedule(te.compute((8,), lambda i: b[i] * 2, name="C"))
    >>> AutoInlineElemWise(s)
    >>> s["B"].attach.kind
    'inline'
    """
    _inline(s, _is_elem_wise)


def AutoInlineBroadcast(s: Schedule) -> None:
    """Inline every stage that repeats elements along new axes, and that nothing was done with."""
    _inline(s, _is_broadcast)


def AutoInlineInjective(s: Schedule) -> None:
    """Inline every stage that is no reduction, and that nothing was done with."""
    _inline(s, attrgetter("is_injective"))


def _inline(s: Schedule, is_wanted: Callable[[Stage], bool]) -> None:
    for stage in s.stages:
        untouched = not stage.relations and not any(x.mark for x in stage.loops) and stage.attach.kind == "root"
        hosts = any(x.attach.stage is stage for x in s.stages)
        if untouched and not hosts and not stage.is_output and not s.scans.part(stage) and is_wanted(stage):
            stage.compute_inline()


_INSTEAD = {
    **dict.fromkeys(
        ("SchedulePostProcToPrimFunc", "VerifyCompactBuffer", "schedule_to_primfunc"),
        'tvm.lower(s, args, simple_mode=True)["main"] is the function',
    ),
    "Singleton": "s[B].fuse() gives a tensor without dimensions a loop",
    "SpecializedCondition": "s[B].specialize(condition)",
}
__getattr__ = missing("te.schedule", globals(), _INSTEAD)
