"""Questions about scans and what reads them: along which of a reader's axes time goes."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.ir.expr import is_const
from autosched.schedule.stage import Stage
from autosched.space.analysis import Access, accesses, readers
from autosched.te.scan import ScanOp
from autosched.te.tensor import IterVar

#: Times of an init that a block of times holds.
MOST_FIRST_TIMES = 4


def scan_along(stage: Stage) -> Stage | None:
    """A scan of which a row of a stage is what it makes one after the other: part of it needs all that is before."""
    for a in accesses(stage):
        source, column = stage.schedule.stage(a.tensor), stage.axis[-1]
        if isinstance(source.op, ScanOp) and a.mentions(column):
            dimension = a.dimension(column)
            if not dimension or not source.op.is_uniform or not source.op.independent[dimension - 1]:
                return source
    return None


def may_go_in_blocks(scan: Stage) -> bool:
    """Whether a scan may go on block by block with a stage that reads it, as far as the scan itself says."""
    op = scan.op
    if not isinstance(op, ScanOp) or scan.is_output or not op.is_uniform or None in op.reach:
        return False
    return all(op.independent) and is_const(op.scan_axis.min) and op.scan_axis.min.value <= MOST_FIRST_TIMES


def time_of(reader: Stage, reads: Sequence[Access]) -> IterVar | None:
    """The axis that is the first index of all these reads, from 0 on."""
    times = {a.indices[0] for a in reads}
    axes = (a for a in (*reader.axis, *reader.reduce_axis) if a.var in times and is_const(a.min, 0))
    return next(axes, None) if len(times) == 1 else None


def goes_in_blocks(scan: Stage) -> bool:
    """Whether a scan may go on block by block with the only stage that reads it, along whose rows time goes."""
    users = readers(scan)
    if len(users) != 1 or not may_go_in_blocks(scan):
        return False
    time = time_of(users[0], [a for a in accesses(users[0]) if a.tensor in scan.op.outputs])
    return time is not None and time in users[0].axis[-1:]
