"""Scans in main memory whose places are shared out among work-items.

The work-items of a kernel do not wait for one another between two steps. So either a step only reads what its own
work-item wrote: along a bound axis each place is a recurrence of its own, and init and updates give each place to the
same work-item. Or the host runs the loop over time, and what a step computes are kernels.
"""

from __future__ import annotations

from autosched.errors import LowerError
from autosched.ir.expr import Expr, var, variables
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import VTHREAD
from autosched.ir.visit import post_order, substitute
from autosched.lowering.bounds import Realization
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Loop, Stage
from autosched.te.scan import ScanOp


def is_stepped_by_host(
    s: Schedule, scan: Stage, real: dict[Stage, Realization], an: Analyzer, is_cpu: bool = False
) -> bool:
    """Whether each step of a scan in main memory is a kernel, or several: the host runs the loop over time.

    On a device that `is_cpu`, so are steps with parallel loops. Raises LowerError if init and updates may not be bound
    as they are.
    """
    op = scan.op
    assert isinstance(op, ScanOp)
    parts = [s.stage(t) for t in (*op.init, *op.update)]
    bound = next((x for part in parts for x in part.loops if _hardware(x)), None)
    time = scan.loops.index(scan.scan_loop) if scan.scan_loop is not None else 0
    around = any(x.thread.startswith("threadIdx") for x in scan.loops[:time])
    may_step = scan.attach.kind == "root" and scan.loops[0] is scan.scan_loop and not real[scan].blocks
    if bound is not None and may_step and _look_aside(op, parts, real, an):
        _check_kept(scan, real)
        return True
    _check_steps(s, scan, parts, real, bound is not None or around)
    if bound is None:
        return is_cpu and may_step and _has_tasks(scan, real)
    asked = bound.marked_by
    stand_ins: dict[tuple[str, int], Expr] = {}
    plans = [_owners(part, real[part], an, stand_ins) for part in parts]
    for part, plan in zip(parts, plans, strict=True):
        for d, (place, threads) in enumerate(plan):
            if threads and (d == 0 or not op.is_uniform or not op.independent[d - 1]):
                raise LowerError(
                    f"a step reads what other work-items wrote along {part.axis[d].name} of {part.name}, "
                    "and nothing makes them wait for one another",
                    asked=asked,
                    legal=f"bind axes along which a step reads its own place, compute {scan.name} at the root, where "
                    "each step is a kernel, or at a loop bound to blockIdx, in shared memory",
                )
            if d and place != plans[0][d][0]:
                raise LowerError(
                    f"{part.name} and {parts[0].name} give the same place to different work-items",
                    asked=asked,
                    legal=f"split and bind the axes of {part.name} as those of {parts[0].name}",
                )
    return False


def _look_aside(op: ScanOp, parts: list[Stage], real: dict[Stage, Realization], an: Analyzer) -> bool:
    """Whether a step reads what other work-items wrote."""
    for part in parts:
        shared_out = [threads for _, threads in _owners(part, real[part], an, {})]
        if any(t and d and not (op.is_uniform and op.independent[d - 1]) for d, t in enumerate(shared_out)):
            return True
    return False


def _has_tasks(scan: Stage, real: dict[Stage, Realization]) -> bool:
    """Whether a stage of a step is parallel, and all that a step computes may lie in memory that outlives a kernel."""
    steps = [x for x in real if x.attach.loop is scan.scan_loop]
    kept = any(x.scope_given and x.scope != "global" for x in steps)
    return not kept and any(loop.kind == "parallel" for x in steps for loop in x.loops)


def _check_kept(scan: Stage, real: dict[Stage, Realization]) -> None:
    """Raise LowerError for what a step of several kernels leaves for the next one in memory that ends with a kernel."""
    for x in real:
        if x.attach.loop is scan.scan_loop and x.scope_given and x.scope != "global":
            raise LowerError(
                f"the steps of {scan.name} are kernels, and {x.scope} memory does not outlive the one that computes it",
                asked=f"{x.name} in {x.scope} storage",
                legal=f"set_scope('global'), or compute {x.name} at a loop of what reads it",
            )


def _check_steps(
    s: Schedule, scan: Stage, parts: list[Stage], real: dict[Stage, Realization], is_shared_out: bool
) -> None:
    """Raise LowerError for a shared intermediate of a step that reads the state of other work-items.

    Where a single work-item stores the state, the others wait for it: see `barriers`.
    """
    for x in real:
        if x in parts or s.scans.step_of(x) is not scan or x.scope != "shared" or not is_shared_out:
            continue
        if not any(
            e.op == "read" and s.scans.storage.get(e.value) in scan.op.outputs for e in post_order(real[x].body)
        ):
            continue
        bound = next((loop for loop in x.loops if _hardware(loop)), None)
        where = f"{x.name} in a step of {scan.name}"
        raise LowerError(
            f"{x.name} is shared and reads the state, which other work-items wrote in the step before, "
            "and nothing makes them wait for one another",
            asked=where if bound is None else bound.marked_by,
            legal=f"{x.name} unbound and local, or {scan.name} computed at a loop bound to blockIdx, in shared memory",
        )


def check_private_state(s: Schedule, scan: Stage, real: dict[Stage, Realization]) -> None:
    """Raise LowerError if a step shares with its group values computed from a state that belongs to one work-item."""
    if scan.scope == "shared":
        return
    bound = next((x for x in scan.loops_around() if x.thread.startswith("threadIdx") or x.thread == VTHREAD), None)
    for x in real if bound is not None else ():
        if x.scope == "shared" and s.scans.step_of(x) is scan and not s.scans.part(x):
            raise LowerError(
                f"{scan.name} is computed inside {bound!r}, so its state belongs to one work-item of the group",
                asked=f"{x.name}, in a step of {scan.name}, in shared storage",
                legal=f"{x.name} in local storage, or {scan.name} in shared storage",
            )


def _owners(
    stage: Stage, real: Realization, an: Analyzer, stand_ins: dict[tuple[str, int], Expr]
) -> list[tuple[object, bool]]:
    """For each axis its value over hardware axes and unbound loops, in a form that compares across stages; and
    whether it is shared out among work-items."""
    names: dict[Expr, Expr] = {}
    spans: dict[Expr, object] = {}
    for loop in stage.loops:
        extent = an.poly(real.extents[loop])
        tag = _hardware(loop)
        key = (tag, 0 if tag else len(names))
        names[loop.var] = stand_ins.setdefault(key, var(tag or "serial", role="loop"))
        spans[loop.var] = extent
    found: list[tuple[object, bool]] = []
    for i, a in enumerate(stage.axis):
        value = an.simplify(real.start[i] + real.offsets[a])
        used = [x for x in stage.loops if x.var in variables(value)]
        place = (an.poly(substitute(value, names)), [spans[x.var] for x in used])
        found.append((place, any(_hardware(x) for x in used)))
    return found


def _hardware(loop: Loop) -> str:
    """The hardware axis of a loop; none for virtual threads, which are one work-item."""
    return "" if loop.thread == VTHREAD else loop.thread
