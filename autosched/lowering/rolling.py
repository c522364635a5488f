"""The times of a scan that are stored: all of them, or a window that rolls along where only the last ones are read.

states[0 .. 100], of which only states[100] is read    ->    two planes: time t is kept in plane t % 2

Where a step reads the earliest time that it needs at the place alone that it stores to, that time is overwritten: one
plane less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from autosched.ir.expr import Expr, compare, is_const
from autosched.ir.simplify import Analyzer
from autosched.ir.visit import post_order
from autosched.schedule.primitives.loops import GUARDED
from autosched.schedule.stage import Split
from autosched.te.extern import ExternOp
from autosched.te.scan import ScanOp
from autosched.te.tensor import Tensor

if TYPE_CHECKING:
    from autosched.schedule.stage import Stage


def rolling_times(scan: Stage, bodies: Mapping[Stage, tuple[Expr, ...]]) -> dict[Tensor, int]:
    """Outputs of a scan -> planes that are enough for it, where they are fewer than its times.

    A step at time t needs as many times before t as its updates reach back, and its own, which may be stored in place
    of the earliest; the init is stored at once. All others may be overwritten if whoever else reads the scan reads its
    last times only.
    """
    op, s = scan.op, scan.schedule
    assert isinstance(op, ScanOp)
    begin, length = op.init[0].shape[0], op.update[0].shape[0]
    steps = [s.stage(t) for step in op.steps for t in step.outputs]
    if not is_const(begin) or any(x.intrinsic is not None for x in steps):
        return {}
    found = {}
    for tensor, reach in zip(op.outputs, op.reach, strict=True):
        kept = reach if reach is None or _is_in_place(scan, tensor, reach, bodies) else reach + 1
        planes = None if kept is None else max(kept, int(begin.value))
        if planes is None or tensor in s.outputs or (is_const(length) and length.value <= planes):
            continue
        if all(_reads_last(user, tensor, planes, body) for user, body in bodies.items() if user is not scan):
            found[tensor] = planes
    return found


def _is_in_place(scan: Stage, tensor: Tensor, reach: int, bodies: Mapping[Stage, tuple[Expr, ...]]) -> bool:
    """Whether a step may store an element where the one `reach` times before was: nobody reads that any more.

    The update itself reads it at its own place only, which it computes once, and whoever else reads the state is done
    with the whole step before the update begins.
    """
    op, s = scan.op, scan.schedule
    assert isinstance(op, ScanOp)
    update = s.stage(op.update[tensor.value_index])
    bound = any(x.thread for x in (*update.loops, *scan.loops, *scan.loops_around()))  # nobody waits for the others
    if len(update.op.outputs) > 1 or update.reduce_axis or bound:
        return False
    if any(isinstance(r, Split) and r.tail not in (*GUARDED, "exact") for r in (*update.relations, *scan.relations)):
        return False
    an, now, place = Analyzer(), update.axis[0], [a.var for a in update.axis[1:]]
    an.bind(now.var, now.min, now.min + now.extent - 1)
    state = op.state_placeholder[tensor.value_index]
    for user, body in bodies.items():
        found = [e.args for e in post_order(body) if e.op == "read" and e.value is state]
        if user is update:
            early = [i for i in found if not an.prove(compare("gt", i[0], now.var - reach))]
            if not all(a is b for i in early for a, b in zip(i[1:], place, strict=True)):
                return False
        elif found and user.attach.kind != "inline" and not _is_before(user, update, scan):
            return False
    return True


def _is_before(stage: Stage, update: Stage, scan: Stage) -> bool:
    """Whether each step has computed the whole stage before the update begins."""
    host: Stage | None = stage
    while host is not None and host.attach.loop is not scan.scan_loop:
        host = host.attach.stage
    order = scan.schedule.stages
    return host is not None and order.index(host) < order.index(update)


def _reads_last(user: Stage, tensor: Tensor, planes: int, body: tuple[Expr, ...]) -> bool:
    """Whether a stage reads none but the last `planes` times of an output of a scan, if any."""
    if isinstance(user.op, ExternOp):
        return tensor not in user.op.input_tensors
    times = [e.args[0] for e in post_order(body) if e.op == "read" and e.value is tensor]
    if not times or user.attach.kind == "inline":  # its readers' bodies contain its own
        return True
    if user.intrinsic is not None:  # it would step over the end of the window
        return False
    an = Analyzer()
    for a in (*user.axis, *user.reduce_axis):
        an.bind(a.var, a.min, a.min + a.extent - 1)
    return all(an.prove(compare("ge", time, tensor.shape[0] - planes)) for time in times)
