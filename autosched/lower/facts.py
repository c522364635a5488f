"""What lowering finds out about a schedule, and how its operations depend on each other: TVM's passes
over schedules, `te.schedule.InferBound` and its like.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autosched.ir.expr import Expr, const
from autosched.ir.range import Range
from autosched.ir.simplify import Analyzer
from autosched.lower.bounds import infer_bounds
from autosched.lower.inline import inline_stages
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Loop
from autosched.te.scan import ScanOp
from autosched.te.tensor import Graph, IterVar, Operation, Tensor

__all__ = ["attach_paths", "inferred_ranges", "post_dfs_order", "read_graph", "scan_body", "scan_fixed_axes"]


def inferred_ranges(s: Schedule) -> dict[IterVar | Loop, Range]:
    """Axis or loop -> the values it runs over, where its stage is computed.

    The axes of a stage that is computed at a loop of its consumer begin at what that iteration reads
    first. Raises ScheduleError or LowerError.

    >>> from autosched import create_schedule, te
    >>> A = te.placeholder((64,), name="A")
    >>> B = te.compute((64,), lambda i: A[i] + 1, name="B")
    >>> C = te.compute((64,), lambda i: B[i] * 2, name="C")
    >>> s = create_schedule(C)
    >>> outer, _ = s[C].split("i", factor=8)
    >>> s[B].compute_at(s[C], outer)
    >>> inferred_ranges(s)[B.op.axis[0]]
    range(min=i.outer*8, extent=8)
    """
    s.verify()
    an = Analyzer()
    found: dict[IterVar | Loop, Range] = {}
    for stage, real in infer_bounds(s, inline_stages(s), an).items():
        for loop, extent in real.extents.items():
            found[loop] = Range.from_min_extent(const(0), an.simplify(extent))
        for axis, start, extent in zip(stage.axis, real.start, real.extent, strict=False):
            found[axis] = Range.from_min_extent(an.simplify(start), an.simplify(extent))
        found.update((axis, axis.dom) for axis in stage.reduce_axis)
    return found


def read_graph(ops: Iterable[Operation]) -> dict[Operation, tuple[Tensor, ...]]:
    """Operation -> the tensors it reads, for these and all that they need."""
    return {op: tuple(op.input_tensors) for op in Graph.of([op.output_tensor for op in ops]).ops}


def post_dfs_order(
    ops: Iterable[Operation], graph: Mapping[Operation, Sequence[Tensor]] | None = None
) -> list[Operation]:
    """The operations that these need, and they themselves, producers first; of a `read_graph`, its own."""
    found = Graph.of([op.output_tensor for op in ops]).ops
    return [op for op in found if graph is None or op in graph]


def attach_paths(s: Schedule) -> dict[Operation, tuple[IterVar | Loop, ...]]:
    """Operation -> the loops of other stages that it is computed inside, innermost first."""
    found = {}
    for stage in s.stages:
        path: list[IterVar | Loop] = []
        host, loops = stage.surroundings()
        while host is not None:
            path += [loop.root or loop for loop in reversed(loops)]
            host, loops = host.surroundings()
        found[stage.op] = tuple(path)
    return found


def scan_body(op: ScanOp) -> list[Operation]:
    """The operations that one step of a recurrence computes: they depend on its states, or are its updates."""
    return list(op.steps)


def scan_fixed_axes(op: ScanOp) -> dict[IterVar, Expr]:
    """Spatial axis -> 1 if each place along it is a recurrence of its own, which TVM calls a fixed point."""
    own = op.independent
    return {a: const(int(d < len(own) and own[d])) for axes in op.spatial_axes for d, a in enumerate(axes)}
