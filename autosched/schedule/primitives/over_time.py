"""Several steps of a scan as one, which tiles of places can go through together: temporal blocking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from autosched.errors import Illegal
from autosched.ir.expr import Expr, compare, floordiv, if_then_else, is_const, make, variables
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.visit import post_order, rewrite
from autosched.schedule import kinds as K
from autosched.schedule.kinds import starts_anew
from autosched.schedule.primitive import keeps_meaning, primitive
from autosched.schedule.primitives.new_stages import guarded, rebased
from autosched.schedule.scans import Scans
from autosched.te.extern import ExternOp
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, IterVar, PlaceholderOp, Tensor

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage

#: Steps of a block at most: each is a stage of its own.
MOST_STEPS = 64


@primitive(K.NUMBER, of_schedule=True)
@keeps_meaning
def block_time(s: Schedule, stage: Stage, factor: int) -> list[Tensor]:
    """Make one step of a scan of `factor` steps; all of them but the last become stages of their own.

    for t in 1..n: for x: S[t, x] = f(S[t-1, x-1], S[t-1, x], S[t-1, x+1])   --block_time(S, 2)->
        for t in 1..n/2: for x: U.1[t, x] = f(S[t-1, x-1], S[t-1, x], S[t-1, x+1])
                         for x: S[t, x]   = f(U.1[t, x-1], U.1[t, x], U.1[t, x+1])

    Computed at a loop over tiles of the update, the steps before it go through a tile while it is in a near cache, with
    what neighbours need of each other computed twice: temporal blocking with overlapping tiles. Where `factor` does not
    divide the number of steps, those beyond the last keep the state. Only the last time may be read by others, steps
    may look back by one, and the loops of the scan and of its steps start anew. Returns the tensors of the steps before
    the last, in the order of computation.
    """
    block = _Block(s, stage, _checked(s, stage, factor))
    block.replace()
    return block.made


def _checked(s: Schedule, stage: Stage, factor: Any) -> int:
    """The factor. Raises Illegal where the scan is none of which steps may be put together."""
    op = stage.op
    if not isinstance(op, ScanOp):
        raise Illegal(f"{stage.name} is no scan: it has no steps", "a tensor that te.scan made")
    if isinstance(factor, bool) or not isinstance(factor, int) or not 2 <= factor <= MOST_STEPS:
        raise Illegal(f"a block of {factor!r} steps", f"a number from 2 to {MOST_STEPS}")
    if not is_const(op.init[0].shape[0], 1):
        raise Illegal(f"{stage.name} begins with {op.init[0].shape[0]!r} times", "scans that begin with one")
    length = op.scan_axis.extent
    if is_const(length) and int(length.value) < factor:
        raise Illegal(f"{stage.name} takes {int(length.value)} steps, fewer than {factor}", "no more than all steps")
    if stage.is_output:
        raise Illegal(f"{stage.name} is an output: all of its times are wanted", "scans of which the last time is read")
    return factor


@dataclass(frozen=True)
class _Moving:
    """Where the time of a tensor of the step is: along `dimension`, `later` than the update's own."""

    dimension: int
    later: int


class _Block:
    """A scan, and the one that takes its place."""

    def __init__(self, s: Schedule, scan: Stage, factor: int) -> None:
        self.s, self.scan, self.factor = s, scan, factor
        assert isinstance(scan.op, ScanOp)
        self.op: ScanOp = scan.op
        self.steps = [x for x in s.stages if s.scans.step_of(x) is scan and not x.is_placeholder and x is not scan]
        self.updates = {t: k for k, t in enumerate(self.op.update)}
        self.states = {t: k for k, t in enumerate(self.op.state_placeholder)}
        self.an = Analyzer()
        self.made: list[Tensor] = []
        self._may_start_anew()
        self.moving = self._find_times()

    # -- checks -------------------------------------------------------------------------------------
    def _may_start_anew(self) -> None:
        s, scan, last = self.s, self.scan, self.op.shape[0] - 1
        for x in (scan, *self.steps):
            starts_anew(s, x, "block_time")
            if x.relations or x.init is not None or x.intrinsic is not None or x.scatter_axes:
                why = f"loops of {x.name} are cut already, or it is a scatter, and the loops start anew"
                raise Illegal(why, "block_time first")
        for x in s.stages:
            for e in _reads_of(x, self.op.outputs):
                time = self.an.simplify(e.args[0])
                if x is not scan and not self.an.prove(compare("eq", time, last)):
                    when = "any time" if isinstance(x.op, ExternOp) else f"time {time!r}"
                    why = f"{x.name} reads {scan.name} at {when}, which a block may pass over"
                    raise Illegal(why, f"scans of which the last time alone is read, {self.an.simplify(last)!r}")

    def _find_times(self) -> dict[Tensor, _Moving]:
        """Where the time of each tensor of the step is, from the updates back to the states."""
        found: dict[Tensor, _Moving] = dict.fromkeys(self.op.update, _Moving(0, 0))
        own = {t for x in self.steps for t in x.op.outputs} | self.states.keys()
        for x in reversed(self.steps):
            mine = next(found[t] for t in x.op.outputs if t in found)
            found.update(dict.fromkeys(x.op.outputs, mine))
            now = x.axis[mine.dimension].var
            for e in _reads_of(x, own):
                found_here = self._time_of(x, e, now, mine.later)
                if found.setdefault(e.value, found_here) != found_here:
                    raise Illegal(f"{e.value.name} is read at several times of one step", "reads at one time")
                if e.value in self.states and found_here != _Moving(0, -1):
                    why = f"{x.name} reads {e.value.name} {-found_here.later} times before its own"
                    raise Illegal(why, "steps that look back by one")
        return found

    def _time_of(self, x: Stage, e: Expr, now: Expr, later: int) -> _Moving:
        """Where a read has its time, as read by a stage whose own is `now`."""
        places = [d for d, i in enumerate(e.args) if now in variables(i)]
        distance = self.an.simplify(e.args[places[0]] - now) if len(places) == 1 else now
        if not is_const(distance):
            why = f"{x.name} reads {e.value.name} at {[self.an.simplify(i) for i in e.args]!r}"
            raise Illegal(why, "reads that have their time along one dimension: some steps before their own")
        return _Moving(places[0], later + int(distance.value))

    # -- building -----------------------------------------------------------------------------------
    @cached_property
    def blocks(self) -> Expr:
        """Steps of the new scan, and its first time."""
        return simplify(floordiv(self.op.scan_axis.extent + (self.factor - 1), self.factor) + 1)

    @cached_property
    def is_whole(self) -> bool:
        return bool(self.an.prove(compare("eq", (self.blocks - 1) * self.factor, self.op.scan_axis.extent)))

    def replace(self) -> None:
        """Put the new scan in the place of the old one, and its steps in theirs."""
        s, op, last = self.s, self.op, self.factor
        before: Sequence[Tensor] = [_state(t, self.blocks) for t in op.state_placeholder]
        states, names = before, [x.op.name for x in self.steps]
        for old, state in zip(op.state_placeholder, states, strict=True):
            s.retensor(s.stage(old), state.op)
        added: list[Stage] = []
        for nth in range(1, last + 1):
            new: dict[Tensor, Tensor] = {}
            for x, name in zip(self.steps, names, strict=True):
                made = self._copied(x, nth, name if nth == last else f"{name}.{nth}", new, before)
                new.update(zip(x.op.outputs, made.outputs, strict=True))
                if nth < last:
                    added.append(s.insert_stage(made.output_tensor, x))
                    self.made += made.outputs
            before = [new[t] for t in op.update]
        renewed = ScanOp(op.name, op.init, before, states, op.inputs, op.tag, op.attrs, op.axis_names)
        for x in self.steps:
            _become(s, x, new[x.op.outputs[0]].op)
        _become(s, self.scan, renewed)
        self._retarget(dict(zip(op.outputs, renewed.outputs, strict=True)))
        _move(s, [*added, *self.steps])
        s.scans = Scans(s)
        for x in (*added, *self.steps, *map(s.stage, op.init)):
            x.attach = s.scans.home(x)

    def _copied(self, x: Stage, nth: int, name: str, new: dict[Tensor, Tensor], before: Sequence[Tensor]) -> ComputeOp:
        """The operation of a stage in the `nth` step of a block; `before` are the states that it begins with."""
        op, mine = x.op, self.moving[x.op.outputs[0]]
        assert isinstance(op, ComputeOp)
        axes = [IterVar(a.name, a.extent, a.kind, a.min) for a in x.axis]
        again = [IterVar(a.name, a.extent, a.kind, a.min) for a in x.reduce_axis]
        axes[mine.dimension] = IterVar(x.axis[mine.dimension].name, self.blocks)
        now = axes[mine.dimension].var
        time = (now - 1) * self.factor + (nth + mine.later)
        to = {a.var: b.var for a, b in zip((*x.axis, *x.reduce_axis), (*axes, *again), strict=True)}
        to[x.axis[mine.dimension].var] = simplify(time)

        def read(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
            if e.op != "read" or (e.value not in self.states and e.value not in new):
                return None
            d = self.moving[e.value].dimension
            when = now - 1 if e.value in self.states and nth == 1 else now
            source = before[self.states[e.value]] if e.value in self.states else new[e.value]
            return make("read", e.dtype, (*args[:d], when, *args[d + 1 :]), source)

        body = [rebased(rewrite(e, read), to, again) for e in x.body]
        if not self.is_whole:
            within = compare("lt", to[x.axis[mine.dimension].var], x.axis[mine.dimension].extent)
            body = [self._kept(x, k, e, within, axes, nth, before) for k, e in enumerate(body)]
        return ComputeOp(name, [a.extent for a in axes], axes, body, op.tag, op.attrs)

    def _kept(
        self, x: Stage, k: int, e: Expr, within: Expr, axes: list[IterVar], nth: int, before: Sequence[Tensor]
    ) -> Expr:
        """The value beyond the last time: the state stays, and what leads to it is not needed."""
        t = x.op.outputs[k]
        if t not in self.updates:
            return guarded(e, within)
        if e.op == "reduce":
            why = f"{self.factor} does not divide the steps of {self.scan.name}, whose update is a reduction"
            raise Illegal(why, "a divisor of the number of steps")
        when, *place = (a.var for a in axes)
        old = make("read", e.dtype, (when - 1 if nth == 1 else when, *place), before[self.updates[t]])
        return if_then_else(within, e, old)

    def _retarget(self, new: dict[Tensor, Tensor]) -> None:
        """Who read the last time of the old scan reads that of the new one."""
        last = simplify(self.blocks - 1)

        def read(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
            return make("read", e.dtype, (last, *args[1:]), new[e.value]) if e.op == "read" and e.value in new else None

        for x in self.s.stages:
            if x is not self.scan:
                x.body = tuple(rewrite(e, read) for e in x.body)


def _reads_of(x: Stage, tensors: Any) -> list[Expr]:
    return [e for e in post_order(x.body) if e.op == "read" and e.value in tensors]


def _state(t: Tensor, times: Expr) -> Tensor:
    return PlaceholderOp(t.op.name, (times, *t.shape[1:]), [t.dtype]).output_tensor


def _become(s: Schedule, stage: Stage, op: Any) -> None:
    """A stage starts anew with another operation."""
    s.retensor(stage, op)
    axis = op.axis if not isinstance(op, ScanOp) or op.is_uniform else op.axis[:1]
    stage.define(axis, op.reduce_axis, op.body)


def _move(s: Schedule, stages: list[Stage]) -> None:
    """Put stages, in this order, where the last of them is."""
    at = max(s.stages.index(x) for x in stages)
    moved = set(stages)
    after = [x for x in s.stages[at + 1 :] if x not in moved]
    s.stages[:] = [*(x for x in s.stages[: at + 1] if x not in moved), *stages, *after]
    s.version += 1
