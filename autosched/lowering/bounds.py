"""Bounds inference: the region of each tensor that is computed, from consumers to producers.

A stage at the root computes its whole domain. A stage computed at a consumer's loop computes what one iteration of
that loop reads: the index expressions of the reads, with every loop inside the attach point relaxed to its range.
Relaxing works on the expression tree, where `f % 3` of a fused loop becomes 0..2, not on its normal form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autosched.errors import LowerError
from autosched.ir.dims import Range
from autosched.ir.expr import Expr, compare, const, floormod, is_const, is_index, logical_and, minimum, variables
from autosched.ir.ops import CHOICES
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import VTHREAD
from autosched.ir.visit import contains, post_order, substitute
from autosched.lowering.inline import inline_stages
from autosched.lowering.rolling import rolling_times
from autosched.lowering.round_up import reads_fit
from autosched.lowering.sliding import Slide, find_blocks, find_slide, loop_free
from autosched.schedule.loop import covered_extents, loop_extents, ragged, values_of_leaves
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Loop, Split, Stage
from autosched.te.extern import ExternOp
from autosched.te.scan import ScanOp
from autosched.te.tensor import IterVar, Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """`low <= x <= high` along one dimension, and `high - low <= width`, which is free of loop variables if known."""

    low: Poly
    high: Poly
    width: Poly


@dataclass(slots=True, eq=False)
class Realization:
    """One stage with its region, the extents of its loops and the values of its axes.

    start, extent: the first index along each dimension, over the loops around the attach point; the number of indices,
                   over sizes and knobs only
    offsets:       the value of each axis relative to `start`, over the stage's own leaf loops
    guards:        conditions that the loops must satisfy
    storage:       the elements that are kept;  states: those kept of scans' states
    slide:         the part of the region that an iteration computes, if earlier ones have computed the rest
    blocks:        loops whose iterations compute a scan's times block after block
    """

    stage: Stage
    body: tuple[Expr, ...]
    start: list[Expr]
    extent: list[Expr]
    storage: Storage
    slide: Slide | None
    states: dict[Tensor, Storage]
    is_passed: bool  #: stored in an argument, whole
    extents: dict[Loop, Expr] = field(default_factory=dict)
    offsets: dict[IterVar, Expr] = field(default_factory=dict)
    guards: list[Expr] = field(default_factory=list)
    clamped: frozenset[int] = frozenset()  #: dimensions along which tiles reach past what may be read
    rolling: dict[Tensor, int] = field(default_factory=dict)  #: outputs of a scan of which only the last times are kept
    blocks: tuple[Expr, ...] = ()

    def window(self, tensor: Tensor) -> Storage:
        """The part of a tensor of this stage that is stored."""
        if isinstance(self.stage.op, ExternOp):
            return Storage.of(tensor)
        if not isinstance(self.stage.op, ScanOp):
            return self.storage
        if self.is_passed:
            return Storage.of(tensor)
        if self.blocks:  # one block of times, behind those of the block before that its steps read
            reach = self.stage.op.reach[tensor.value_index] or 0
            return Storage([self.start[0] - reach, *self.start[1:]], [self.extent[0] + reach, *self.extent[1:]])
        whole = Storage.of(tensor)
        places = (whole.start, whole.extent) if not self.stage.op.is_uniform else (self.start, self.extent)
        planes = self.rolling.get(tensor)
        times = tensor.shape[0] if planes is None else const(planes)
        return Storage([const(0), *places[0][1:]], [times, *places[1][1:]], None if planes is None else 0)

    def value_at(self, position: int, offset: Expr | None = None) -> Expr:
        """The value of an axis, at its offset from the region's start or at another; clamped in padded tiles."""
        offset = self.offsets[self.stage.axis[position]] if offset is None else offset
        if position in self.clamped and offset is not self.stage.roots[self.stage.axis[position]].var:
            offset = minimum(offset, self.extent[position] - 1)
        return self.start[position] + offset


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """The elements that a buffer holds: `extent[i]` from `start[i]` on along dimension i.

    The dimension `folded`, if any, is a circular buffer: element k is kept at `k % extent`.
    """

    start: list[Expr]
    extent: list[Expr]
    folded: int | None = None

    @staticmethod
    def of(tensor: Tensor) -> Storage:
        """The whole tensor."""
        return Storage([const(0)] * tensor.ndim, list(tensor.shape))

    def place(self, first: Sequence[Expr], offsets: Sequence[Expr]) -> tuple[Expr, ...]:
        """The indices in the buffer of the element at these offsets from the first one."""
        places: list[Expr] = []
        for i, (a, offset, low) in enumerate(zip(first, offsets, self.start, strict=True)):
            if i == self.folded:
                places.append(floormod(a + offset, self.extent[i]))
            else:
                places.append(offset if a is low else a - low + offset)
        return tuple(places)


def interval(
    e: Expr, relaxed: frozenset[Expr], an: Analyzer, done: dict[Expr, Region | None] | None = None
) -> Region | None:
    """The range of `e` while the variables in `relaxed` run through theirs; None if unknown. `done` has those of its
    parts that were found before."""
    done = {} if done is None else done
    if e in done:
        return done[e]
    if not (variables(e) & relaxed):
        p = None if contains(e, "read", "call") else an.poly(e)
        found = None if p is None else Region(p, p, Poly({}))
    else:
        found = _interval(e, relaxed, an, done)
        if found is not None and loop_free(width := found.high - found.low):
            found = Region(found.low, found.high, width)
    done[e] = found
    return found


def _interval(e: Expr, relaxed: frozenset[Expr], an: Analyzer, done: dict[Expr, Region | None]) -> Region | None:
    if e.op == "var":
        low, high = an.range(e)
        return None if low is None or high is None else Region(low, high, high - low)
    if not e.index:  # a value that may wrap in its type, of which the rules below know nothing
        return None
    parts = [interval(a, relaxed, an, done) for a in e.args]
    if e.op in CHOICES:
        parts = parts[1:]
        if e.op == "select" and None not in parts and _is_case(e, an):
            return parts[1]
        return None if None in parts else _hull([p for p in parts if p is not None], an)
    if any(p is None for p in parts):
        return None
    a = parts[0]
    assert a is not None
    if e.op == "cast":
        return a
    if e.op == "neg":
        return Region(-a.high, -a.low, a.width)
    b = parts[1] if len(parts) > 1 else None
    if b is None:
        return None
    match e.op:
        case "add":
            return Region(a.low + b.low, a.high + b.high, a.width + b.width)
        case "sub":
            return Region(a.low - b.high, a.high - b.low, a.width + b.width)
        case "mul":
            return _scaled(a, b, an) or _scaled(b, a, an)
        case "floordiv" if not b.width.terms and an.prove_nonneg(b.low):
            low, high = an.floordiv(a.low, b.low), an.floordiv(a.high, b.low)
            return Region(low, high, an.floordiv(a.width, b.low) + 1)
        case "floormod" if not b.width.terms and an.prove_nonneg(b.low):
            low, high = an.floordiv(a.low, b.low), an.floordiv(a.high, b.low)
            if low == high:
                return Region(a.low - low * b.low, a.high - low * b.low, a.width)
            return Region(Poly({}), b.low - 1, b.low - 1)
        case "min" | "max":
            return Region(
                an.extremum(e.op, a.low, b.low), an.extremum(e.op, a.high, b.high), an.extremum("max", a.width, b.width)
            )
    return None


def _is_case(e: Expr, an: Analyzer) -> bool:
    """Whether what a choice takes where its condition holds is what it would take otherwise, as of mirrored indices."""
    condition, then, otherwise = e.args
    if not is_index(condition):
        return False
    with an.assuming(condition):
        return an.prove(compare("eq", then, otherwise))


def _scaled(a: Region, b: Region, an: Analyzer) -> Region | None:
    """`a * b` for a constant `b` of known sign."""
    if b.width.terms:
        return None
    k = b.low
    if an.prove_nonneg(k):
        return Region(a.low * k, a.high * k, a.width * k)
    return Region(a.high * k, a.low * k, -(a.width * k)) if an.prove_nonneg(-k) else None


def _hull(parts: list[Region], an: Analyzer) -> Region | None:
    """The smallest region around all; None if its width is not free of loop variables."""
    low, high, width = parts[0].low, parts[0].high, parts[0].width
    for p in parts[1:]:
        low, high = an.extremum("min", low, p.low), an.extremum("max", high, p.high)
        width = high - low
    span = width if len(parts) == 1 or loop_free(width) else _provable_span(parts, an)
    return None if span is None else Region(low, high, span)


def _provable_span(parts: list[Region], an: Analyzer) -> Poly | None:
    """For parts that are shifted copies of one another: how far they reach behind the first's begin, and before it."""
    first, *others = parts
    behind, before = first.width, Poly({})
    for low, width in dict.fromkeys((p.low, p.width) for p in others):
        ahead, back = _at_most(low - first.low, an), _at_most(first.low - low, an)
        if ahead is None or back is None:
            return None
        behind = an.extremum("max", behind, width + ahead)
        before = an.extremum("max", before, back)
    return behind + before


def _at_most(shift: Poly, an: Analyzer) -> Poly | None:
    """A bound of a shift that is free of loop variables, and not negative; None where none is found."""
    if loop_free(shift):
        return an.extremum("max", shift, Poly({}))
    return next((Poly.of(k) for k in range(65) if an.prove_nonneg(Poly.of(k) - shift)), None)


def _tightest(index: Expr, relaxed: frozenset[Expr], an: Analyzer) -> Region | None:
    """The range of an index as it stands or simplified, whichever is tighter.

    As it stands, `f % 3` is 0..2, whatever it is added to; simplified, `f//3*3 + f%3` is `f`.
    """
    found = interval(index, relaxed, an)
    simple = an.simplify(index)
    return found if simple is index else _tighter(found, interval(simple, relaxed, an), an)


def _tighter(found: Region | None, other: Region | None, an: Analyzer) -> Region | None:
    """The narrower of two ranges of one index, the first one where that is not known."""
    if found is None or other is None or not loop_free(other.width):
        return found if other is None or found is not None else other
    tighter = not loop_free(found.width) or an.prove_nonneg(found.width - other.width)
    return other if tighter else found


def infer_bounds(
    s: Schedule, bodies: dict[Stage, tuple[Expr, ...]], an: Analyzer, passed: frozenset[Tensor] = frozenset()
) -> dict[Stage, Realization]:
    """The region of every stage that is computed, and the ranges of its loops (left in `an`).

    `passed` are intermediates that are stored in arguments: whole, wherever they are computed.
    """
    done: dict[Stage, Realization] = {}
    for stage in reversed(s.stages):
        if stage.is_placeholder or stage.attach.kind == "inline":
            continue
        if stage.attach.kind == "root":
            start, extent = [a.min for a in stage.axis], [a.extent for a in stage.axis]
        else:
            start, extent = _required(stage, done, an)
        storage, slide, blocks = Storage(start, extent), None, None
        inner, outer = stage.attach.loop, stage.store.loop
        is_passed = not passed.isdisjoint(stage.op.outputs)
        if is_passed:
            _check_sums(stage, done, an)
            storage = Storage.of(stage.tensor)
        elif inner is not None and outer is not None and outer is not inner and stage.scan_loop is not None:
            blocks = _blocks_of_times(stage, done, an)
            if blocks is not None:
                start, extent, _ = blocks
                storage = Storage(start, extent)
        elif inner is not None and outer is not None and outer is not inner:
            storage = Storage(*_required(stage, done, an, outer))
            consumer = done[outer.stage]
            if consumer.stage.scan_loop is None:
                slide = find_slide(start, extent, outer, inner, consumer.extents, consumer.guards, an)
            if slide is not None and slide.folds:
                storage = _folded(storage, slide.dimension, extent, an)
        states = _states(s, done)
        real = done[stage] = Realization(stage, bodies[stage], start, extent, storage, slide, states, is_passed)
        if blocks is not None:
            real.blocks = blocks[2]
        elif stage.scan_loop is not None and not is_passed:
            real.rolling = rolling_times(stage, bodies)
        _enter_loops(real, an)
    return done


def _blocks_of_times(
    scan: Stage, done: dict[Stage, Realization], an: Analyzer
) -> tuple[list[Expr], list[Expr], tuple[Expr, ...]] | None:
    """The region of a scan of which each iteration of some loops reads the times that come next, and these loops.

    for t.o: .. S[t.o*16 .. t.o*16 + 15]   ->   S goes on from where it was, 16 steps
    """
    inner, outer, op = scan.attach.loop, scan.store.loop, scan.op
    assert isinstance(op, ScanOp) and inner is not None and outer is not None
    updates = [scan.schedule.stage(u) for u in op.update]
    if not op.is_uniform or None in op.reach or scan.loops[0] is not scan.scan_loop or not is_const(op.scan_axis.min):
        return None
    if any(x.thread for y in updates for x in (*y.loops, *y.loops_around())) or any(x.intrinsic for x in updates):
        return None
    consumer = done[outer.stage]
    if consumer.stage.scan_loop is not None:
        return None
    start, extent = _required(scan, done, an, in_blocks=True)
    loops = find_blocks(start, extent, outer, inner, consumer.extents, consumer.guards, an)
    has_begun = an.prove(compare("ge", extent[0], op.scan_axis.min))  # the first block holds all of the init
    return (start, extent, loops) if loops is not None and has_begun else None


def _check_sums(stage: Stage, done: dict[Stage, Realization], an: Analyzer) -> None:
    """Raise LowerError if iterations that run at the same time would update one element of an argument."""
    if not stage.reduce_axis and stage.scan_loop is None:
        return
    for p in stage.loops_around():
        if p.kind != "parallel" or is_const(done[p.stage].extents[p], 1):
            continue
        are_apart = False
        if p.stage is stage.attach.stage:
            start, extent = _required(stage, done, an, p)
            following = [substitute(e, {p.var: p.var + 1}) for e in start]
            are_apart = any(an.prove(compare("ge", b - a, n)) for a, b, n in zip(start, following, extent, strict=True))
        if not are_apart:
            raise LowerError(
                f"the iterations of {p.full_name} run at the same time, and those that need an element of "
                f"{stage.name} would all sum it up in the argument",
                asked=p.marked_by,
                legal=f"{stage.name}.compute_root(); or leave {stage.name} out: then each iteration has its own",
            )


def _states(s: Schedule, done: dict[Stage, Realization]) -> dict[Tensor, Storage]:
    """The part of each state that steps can read: what the update computes in a step."""
    found = {}
    for scan in s.scans.stages:
        assert isinstance(scan.op, ScanOp)
        for state, update in zip(scan.op.state_placeholder, scan.op.update, strict=True):
            real = done.get(s.stage(update))
            if real is not None:
                found[state] = Storage(real.start, real.extent)
    return found


def _folded(storage: Storage, dimension: int, window: list[Expr], an: Analyzer) -> Storage:
    """Storage for one window along the sliding dimension, unless the whole is no longer."""
    extent = storage.extent[dimension]
    # the innermost dimension is never folded: vectors along it would be torn at the seam
    if dimension == len(window) - 1 or an.prove(compare("le", extent, window[dimension])):
        return storage
    return Storage(
        storage.start, [*storage.extent[:dimension], window[dimension], *storage.extent[dimension + 1 :]], dimension
    )


def _enter_loops(real: Realization, an: Analyzer) -> None:
    """The extents of a stage's loops, the values of its axes in them, and their guards."""
    stage = real.stage
    real.extents = loop_extents(stage, dict(zip(stage.axis, real.extent, strict=True)), an.simplify)
    for loop, e in real.extents.items():
        an.bind(loop.var, 0, an.poly(e) - 1)
    for a in _without_loops(stage):
        an.bind(a.var, 0, an.poly(a.extent) - 1)
    values = values_of_leaves(stage, real.extents)
    real.offsets = {a: values[loop] for a, loop in stage.roots.items()}
    if any(isinstance(r, Split) and r.tail == "round_up" for r in stage.relations):
        _fill_up(real, an)
    real.guards = conditions(real, an)


def _fill_up(real: Realization, an: Analyzer) -> None:
    """Enlarge the storage to whole tiles, and find the dimensions along which their indices must be clamped."""
    stage = real.stage
    covered = covered_extents(stage, real.extents, an.simplify)
    loops = [stage.roots[a] for a in stage.axis]
    stored = [covered.get(loop, e) for loop, e in zip(loops, real.extent, strict=True)]
    real.storage = Storage(real.storage.start, stored)
    for i, loop in enumerate(loops):
        if loop not in covered or loop in stage.loops:
            continue
        if reads_fit(stage, real.body, stage.axis[i], real.start[i], covered[loop], an):
            an.bind(loop.var, 0, an.poly(covered[loop]) - 1)
        else:
            real.clamped |= {i}


def _without_loops(stage: Stage) -> list[IterVar]:
    """The spatial axes of a scan whose outputs have several shapes: each step computes them whole."""
    op = stage.op
    return list(op.spatial_axis_) if isinstance(op, ScanOp) and not op.is_uniform else []


def _whole_axes(stage: Stage) -> list[bool]:
    """The axes that are computed whole wherever the stage is: of a scan, time and what advances together."""
    op = stage.op
    if not isinstance(op, ScanOp):
        return [a in stage.scatter_axes or (stage.attach.kind == "init" and i == 0) for i, a in enumerate(stage.axis)]
    return [True, *(not free for free in op.independent)]


def conditions(real: Realization, an: Analyzer) -> list[Expr]:
    """The guards of a stage: ragged splits stay in range, and so does a region that may leave its tensor or storage.

    The condition of a split is kept even if that of another implies it, because it may stand further out.
    """
    stage, storage = real.stage, real.storage
    kept = []
    for asked in ragged(stage, real.extents):
        simple = an.simplify(asked)
        # a condition that no loop decides would stand around everything, also what sets the first values
        if not is_const(simple, True):
            kept.append(simple if any(v.value.role == "loop" for v in variables(simple)) else asked)
    found: list[Expr] = []
    room = stage.schedule.scans.storage.get(stage.tensor, stage.tensor).shape
    for i, a in enumerate(stage.axis):
        of_init = stage.attach.kind == "init" and i == 0  # a scan may be shorter than its init
        limits = [(a.min, room[0] if of_init else a.min + a.extent, False)]
        apart = storage.start[i] is not real.start[i]
        apart = apart or (stage.store.loop is not None and storage.extent[i] is not real.extent[i])
        if i != storage.folded and apart:
            limits.append((storage.start[i], storage.start[i] + storage.extent[i], True))
        start = real.start[i]
        value = real.value_at(i)  # an offset is never negative, and less than the region's extent
        for low, end, of_storage in limits:
            outside: list[Expr] = []
            if not an.prove(compare("le", start + real.extent[i], end)):
                outside.append(compare("lt", value, end))
            if not an.prove(compare("ge", start, low)):
                outside.append(compare("ge", value, low))
            if outside and (of_storage or not _reads_stay_inside(real, a.var, value, an)):
                found += outside
    for condition in [*found, *_within_states(real)]:
        with an.assuming(logical_and(*kept)):
            simple = an.simplify(condition)
        if not is_const(simple, True):
            kept.append(simple)
    return kept


def _within_states(real: Realization) -> list[Expr]:
    """Guards of a step that computes more than is read of it, for which there may be no state."""
    found: list[Expr] = []
    values = {a.var: real.value_at(i) for i, a in enumerate(real.stage.axis)}
    for e in post_order(real.body):
        there = real.states.get(e.value) if e.op == "read" else None
        if there is None:
            continue
        parts = list(zip(e.args, there.start, there.extent, e.value.shape, strict=True))
        for index, low, extent, whole in parts[1:]:  # the first is time
            if extent is not whole:
                at = substitute(index, values)
                found += [compare("ge", at, low), compare("lt", at, low + extent)]
    return found


def _reads_stay_inside(real: Realization, axis: Expr, value: Expr, an: Analyzer) -> bool:
    """Return whether elements outside a tensor may be computed too: there is room, and their operands exist."""
    stage = real.stage
    if stage.attach.kind != "at" or stage.tensor in stage.schedule.scans.storage:
        return False
    if isinstance(stage.op, ScanOp) and axis is stage.op.scan_axis.var:  # no step makes the times of the init
        return False
    for e in post_order(real.body):
        if e.op != "read":
            continue
        for index, extent in zip(e.args, e.value.shape, strict=True):
            if axis not in variables(index):
                continue
            if not an.is_within(substitute(index, {axis: value}), extent):
                return False
    return True


def _required(
    stage: Stage, done: dict[Stage, Realization], an: Analyzer, outer: Loop | None = None, in_blocks: bool = False
) -> tuple[list[Expr], list[Expr]]:
    """The start and extent of the region that is read where the stage is computed, or in an iteration of `outer`; of
    all times of a scan, unless it is computed `in_blocks`."""
    together = frozenset[Expr]()
    if stage.scope == "shared":  # which serves all work-items of a group at once, virtual ones too
        around = stage.loops_around()
        together = frozenset(x.var for x in around if x.thread.startswith("threadIdx") or x.thread == VTHREAD)
    hulls: list[list[Region] | None] = [[] for _ in stage.axis]
    begun: list[list[Poly | None]] = [[] for _ in stage.axis]  #: the time at which a block of a scan begins, of inits
    for user, real in done.items():
        reads = [e for e in post_order(real.body) if e.op == "read" and e.value in stage.op.outputs]
        if not reads:
            continue
        offsets, relaxed = _collapsed(user, real.extents, _inside(user, stage, outer) | together)
        relaxed |= {a.var for a in _without_loops(user)}
        host = done.get(user.attach.stage) if user.attach.kind == "init" and user.attach.stage is not None else None
        first = an.poly(host.start[0]) if host is not None and relaxed.isdisjoint(host.blocks) else None
        values = {a.var: real.value_at(i, offsets[a]) for i, a in enumerate(user.axis)}
        values.update({a.var: a.min + offsets[a] for a in user.reduce_axis})
        digits = {a.var: real.value_at(i) for i, a in enumerate(user.axis) if real.offsets[a] is not offsets[a]}
        for read in reads:
            for d, index in enumerate(read.args[: len(stage.axis)]):
                found = _tightest(substitute(index, values), relaxed, an)
                if any(
                    e.op == "floordiv" or e.op == "floormod" for e in post_order(index)
                ) and digits.keys() & variables(index):
                    # digits of an index are seen by themselves: i + 4 - i//4%2*8 has those of i, but for one
                    found = _tighter(found, _tightest(substitute(index, values | digits), relaxed, an), an)
                hull = hulls[d]
                if found is None or not loop_free(found.width) or hull is None:
                    hulls[d] = None
                else:
                    hull.append(found)
                    begun[d].append(first)
    start, extent = [], []
    whole_axes = _whole_axes(stage)
    if in_blocks:
        whole_axes[0] = False
    for a, parts, firsts, is_whole in zip(stage.axis, hulls, begun, whole_axes, strict=True):
        whole = _hull_with_inits(parts, firsts, an) if parts and not is_whole else None
        if whole is None or an.prove_nonneg(whole.width + 1 - an.poly(a.extent)):  # it is the dimension
            start.append(a.min)
            extent.append(a.extent)
        else:
            start.append(whole.low.expr())
            extent.append((whole.width + 1).expr())
    return start, extent


def _hull_with_inits(parts: list[Region], firsts: list[Poly | None], an: Analyzer) -> Region | None:
    """The smallest region around all. What the init of a scan reads that is computed in blocks, it reads in the first
    block, whose times begin at 0: it may be said as well to be read that much further on."""
    found = _hull(parts, an)
    if found is not None or not any(f is not None for f in firsts):
        return found
    moved = (r if f is None else Region(r.low + f, r.high + f, r.width) for r, f in zip(parts, firsts, strict=True))
    return _hull(list(moved), an)


def _collapsed(
    user: Stage, extents: dict[Loop, Expr], relaxed: frozenset[Expr]
) -> tuple[dict[IterVar, Expr], frozenset[Expr]]:
    """The values of the user's axes, with loops that are relaxed together replaced by the loop they came from.

    Where both loops of a split run through their ranges, so does their parent, which the guard keeps inside its
    extent; where a fused loop does, both its parents do. That is tighter than relaxing each loop by itself.
    """
    whole: set[Loop] = {x for x in user.loops if x.var in relaxed}
    for r in reversed(user.relations):
        whole.update(r.parents if whole.issuperset(r.made) else ())
    values = values_of_leaves(user, extents, whole)
    return {a: values[x] for a, x in user.roots.items()}, relaxed | {x.var for x in whole}


def _inside(user: Stage, producer: Stage, outer: Loop | None) -> frozenset[Expr]:
    """The variables of the loops that run, around `user` and in it, while one region of the producer is in use."""
    place, around = producer.surroundings()
    if outer is not None:
        around = around[: around.index(outer) + 1]
    relaxed: set[Expr] = set()
    stage: Stage | None = user
    loops = user.loops
    while stage is not None and stage is not place:  # schedule.verify() has made sure that `place` is met
        relaxed.update(x.var for x in loops)
        stage, loops = stage.surroundings()
    relaxed.update(x.var for x in loops if x not in around)
    return frozenset(relaxed)


def inferred_ranges(s: Schedule) -> dict[IterVar | Loop, Range]:
    """The range of each axis and loop where its stage is computed.

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
