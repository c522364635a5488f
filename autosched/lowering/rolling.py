"""The times of a scan that are stored: all of them, or a window that rolls along where only the last ones are read.

states[0 .. 100], of which only states[100] is read    ->    two planes: time t is kept in plane t % 2
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from autosched.ir.expr import Expr, compare, is_const
from autosched.ir.simplify import Analyzer
from autosched.ir.visit import post_order
from autosched.te.extern import ExternOp
from autosched.te.scan import ScanOp
from autosched.te.tensor import Tensor

if TYPE_CHECKING:
    from autosched.schedule.stage import Stage


def rolling_times(scan: Stage, bodies: Mapping[Stage, tuple[Expr, ...]]) -> dict[Tensor, int]:
    """Outputs of a scan -> planes that are enough for it, where they are fewer than its times.

    A step at time t needs as many times before t as its updates reach back, and its own; the init is stored at once.
    All others may be overwritten if whoever else reads the scan reads its last times only.
    """
    op, s = scan.op, scan.schedule
    assert isinstance(op, ScanOp)
    begin, length = op.init[0].shape[0], op.update[0].shape[0]
    steps = [s.stage(t) for step in op.steps for t in step.outputs]
    if not is_const(begin) or any(x.intrinsic is not None for x in steps):
        return {}
    found = {}
    for tensor, reach in zip(op.outputs, op.reach, strict=True):
        planes = None if reach is None else max(reach + 1, int(begin.value))
        if planes is None or tensor in s.outputs or (is_const(length) and length.value <= planes):
            continue
        if all(_reads_last(user, tensor, planes, body) for user, body in bodies.items() if user is not scan):
            found[tensor] = planes
    return found


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
