"""Sketches from rules: the walk from outputs to inputs, and what rules share."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from autosched.errors import AutoschedError, raised_at, raised_in
from autosched.ir.expr import Expr
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Loop, Stage
from autosched.space import analysis
from autosched.space.analysis import long_lanes
from autosched.space.features.memory import Machine
from autosched.target import Target
from autosched.te.tensor import Tensor

#: Sketches that come from deciding stage by stage, at most, and stages in all of these sketches together: the template
#: runs once for each sketch, which takes milliseconds for each stage.
MOST_FORKS, MOST_STAGES = 128, 1024
#: Who settles a stage that no rule is for.
NOBODY = "left as it is"


@dataclass(frozen=True)
class Place:
    """A loop of a stage, at which what is read inside may be computed; `name` says so in choices."""

    name: str
    stage: Stage
    loop: Loop


@dataclass
class Plan:
    """A schedule that rules are working on. `done` has the rule that settled each stage, `why` what speaks for it."""

    s: Schedule
    target: Target
    done: dict[Stage, str] = field(default_factory=dict)
    why: dict[Stage, str] = field(default_factory=dict)
    hosts: dict[Stage, Stage] = field(default_factory=dict)  #: a contraction -> the stage its tiles are stored to
    places: dict[Stage, list[Place]] = field(default_factory=dict)  #: outermost first
    items: dict[Stage, dict[str, Any]] = field(default_factory=dict)  #: work-items of a kernel along each axis
    decided: dict[str, Any] = field(default_factory=dict)  #: name of a decision -> what was chosen
    names: list[str] = field(default_factory=list)  #: those of decisions, sorted
    forks: int = 1  #: combinations of the decisions so far
    usual: dict[tuple[str, int], Any] = field(default_factory=dict)  #: what the n-th decision of a kind was last
    follows: set[Stage] = field(default_factory=set)  #: stages that did as others before them
    knobs: dict[tuple[Stage, str], Expr] = field(default_factory=dict)  #: those of stages
    shared: dict[tuple[Any, ...], Expr] = field(default_factory=dict)  #: the last of each use, values, type and shape
    is_long: bool | None = None  #: whether too many stages are left to choose the place of each by itself
    prefetched: set[tuple[Stage, Tensor]] = field(default_factory=set)  #: (stage, what its loops prefetch)
    in_tiles: dict[Stage, Stage] = field(default_factory=dict)  #: an early step of a block of steps -> the last
    side_of_times: dict[Stage, int] = field(default_factory=dict)  #: times of a scan that a reader goes on by
    placed: int = 0  #: stages of a long pipeline that were placed so far
    extra_work: float = 0.0  #: operations that inlined stages have added so far
    plain_work: float = 0.0  #: operations of the program with every stage stored

    def __post_init__(self) -> None:
        computed = (x for x in self.s.stages if not x.is_placeholder)
        self.plain_work = sum(analysis.iterations((*x.axis, *x.reduce_axis)) * analysis.work(x) for x in computed)

    @property
    def machine(self) -> Machine:
        return Machine.of(self.target)

    @cached_property
    def _most_forks(self) -> int:
        computed = sum(not stage.is_placeholder for stage in self.s.stages)
        return max(MOST_STAGES // 64, min(MOST_FORKS, MOST_STAGES // max(1, computed)))

    @property
    def _are_enough(self) -> bool:
        """Whether the next decision follows one before it."""
        return 2 * self.forks > self._most_forks

    def knob(self, stage: Stage, what: str, values: Iterable[int]) -> Any:
        """A knob named after the stage; a number where there is one value only.

        Where there are enough sketches already, a stage has the knob of the last one like it: of thirty layers that are
        alike, the last few are tuned, and the others follow.
        """
        listed = sorted(set(values))
        if len(listed) == 1:
            return listed[0]
        shape = tuple(x.extent for x in (*stage.axis, *stage.reduce_axis))
        kind = (what, tuple(listed), stage.tensor.dtype, shape, analysis.work(stage))
        known = self.knobs.get((stage, what), self.shared.get(kind) if self._are_enough else None)
        if known is None:
            known = self.s.define_knob(f"{_word(stage.name)}_{what}", listed)
        self.shared[kind] = self.knobs[stage, what] = known
        return known

    def knob_of(self, stage: Stage, what: str) -> Any:
        """The knob that `knob` gave; None where it had one value only."""
        return self.knobs.get((stage, what))

    def choose(self, stage: Stage, what: str, options: Sequence[Any]) -> Any:
        """A decision named after the stage, of which every option gives sketches. It is taken once: asked again, it is
        what it was.

        There is none where there is one option only. Where there are enough sketches already, the stage follows: it
        has what a stage before decided in its n-th decision of this kind, or the first option. The kind is the first
        word of `what`.
        """
        name, listed = f"{_word(stage.name)}_{what}", list(dict.fromkeys(options))
        if name not in self.decided:
            kind, before = what.partition("_")[0], f"{_word(stage.name)}_"
            first = f"{before}{kind}"  # names that begin so lie together
            nth = bisect_left(self.names, f"{first}\U0010ffff") - bisect_left(self.names, first)
            if len(listed) > 1 and self.forks * len(listed) > self._most_forks:
                self.follows.add(stage)
                usual = self.usual.get((kind, nth))
                self.decided[name] = usual if usual in listed else listed[0]
            else:
                self.forks *= len(listed)
                self.decided[name] = listed[0] if len(listed) == 1 else self.s.choose(name, listed)
            self.usual[kind, nth] = self.decided[name]
            insort(self.names, name)
        return self.decided[name]

    def offer(self, stage: Stage, **loops: Loop) -> None:
        """Producers may be computed at these loops of the stage, outermost first."""
        self.places[stage] = [Place(name, stage, loop) for name, loop in loops.items()]


def _word(name: str) -> str:
    """A name as a part of an identifier."""
    return re.sub(r"\W", "_", name)


@dataclass(frozen=True)
class Rule:
    """A way to settle a stage, and its condition. With `last`, later rules are not asked where this one fits.
    `because` tells the reason at a stage, where there is more to say than what the rule does."""

    name: str
    when: Callable[[Plan, Stage], bool]
    apply: Callable[[Plan, Stage], None]
    last: bool = True
    because: Callable[[Plan, Stage], str] | None = None

    def __call__(self, plan: Plan, stage: Stage) -> None:
        self.apply(plan, stage)

    @property
    def about(self) -> str:
        """The first line of what the function says of itself."""
        return (self.apply.__doc__ or "").strip().partition("\n")[0].rstrip(".")


def rule(
    when: Callable[[Plan, Stage], bool], last: bool = True, because: Callable[[Plan, Stage], str] | None = None
) -> Callable[[Callable[[Plan, Stage], None]], Rule]:
    """Make a function `fn(plan, stage)` a rule for the stages for which `when(plan, stage)` is true.

    It calls primitives on `stage` and `plan.s`, and leaves to tuning what it gets from `plan.knob` and
    `plan.choose`. With `last=False` it is one way besides those of the rules after it. Why a stage was
    settled by it is the first line of its docstring, or what `because(plan, stage)` says.
    """

    def made(fn: Callable[[Plan, Stage], None]) -> Rule:
        return Rule(fn.__name__, when, fn, last, because)

    return made


@dataclass
class Walk:
    """Rules on their way through a schedule. Outputs are settled first; stages that a rule adds are settled by it,
    or come next."""

    plan: Plan
    rules: tuple[Rule, ...]

    @property
    def s(self) -> Schedule:
        return self.plan.s

    def step(self) -> bool:
        """Settle the next stage; False if all are.

        Raises WorkloadError, or what a primitive raised, naming the rule and the stage.
        """
        plan, stage = self.plan, _next(self.plan)
        if stage is None:
            plan.s.remarks = list(_remarks(plan))
            return False
        fitting: list[Rule] = []
        for r in self.rules:
            if _call(r.when, r, plan, stage, "condition of "):
                fitting.append(r)
                if r.last:
                    break
        if not fitting:
            plan.done[stage] = NOBODY
            plan.why[stage] = "no rule is for it" if stage.loops else "a single value: it has no loops"
            return True
        name = plan.choose(stage, "by", [r.name for r in fitting])
        chosen = next(r for r in fitting if r.name == name)
        plan.done[stage] = name
        because = chosen.because
        plan.why[stage] = chosen.about if because is None else _call(because, chosen, plan, stage, "reason of ")
        before = set(plan.done)
        _call(chosen, chosen, plan, stage)
        plan.why.update(dict.fromkeys(set(plan.done) - before, f"made for {stage.name}"))
        return True

    def finish(self) -> None:
        """Settle every stage. Raises what `step` raises."""
        while self.step():
            pass

    def __deepcopy__(self, memo: dict[int, Any]) -> Walk:
        memo[id(self.plan.target)] = self.plan.target
        return Walk(deepcopy(self.plan, memo), self.rules)


def _call(fn: Callable[[Plan, Stage], Any], r: Rule, plan: Plan, stage: Stage, part: str = "") -> Any:
    """Call a function of a rule, whose errors name the rule and the stage."""
    try:
        return fn(plan, stage)
    except AutoschedError as error:
        at = f"{part}rule {r.name} at stage {stage.name}"
        error.located("raised", call=f"{at}, {error.asked}" if error.asked else at, where=raised_at(error))
        raise
    except Exception as error:
        raise raised_in(f"{part}rule {r.name} at stage {stage.name}", error) from error


def _remarks(plan: Plan) -> Iterator[tuple[str, str, str]]:
    """(stage, rule, why) of every stage that is computed."""
    for stage in plan.s.stages:
        if stage.is_placeholder:
            continue
        said = [plan.why.get(stage, ""), "decided as stages before it" if stage in plan.follows else ""]
        yield (
            stage.name,
            plan.done[stage],
            "; ".join(x for x in [*said, analysis.missing_types(plan.target, stage)] if x),
        )


def _next(plan: Plan) -> Stage | None:
    waiting = (x for x in reversed(plan.s.stages) if x not in plan.done and not x.is_placeholder)
    return next(waiting, None)


def fuse_all(stage: Stage, loops: Sequence[Loop]) -> Loop:
    """The loops as one; a single one stays as it is, and is no instruction of the trace."""
    return stage.fuse(*loops) if len(loops) > 1 else loops[0]


def lanes_knob(plan: Plan, stage: Stage, n: int | None) -> Any:
    """A knob for the lanes of a statement that only handles elements of the result's type, along a row of `n`."""
    return plan.knob(stage, "lanes", long_lanes(plan.machine, [stage.tensor.dtype], n))


def partial_results(plan: Plan, stage: Stage, loop: Loop, rule: str, factor_axis: int = 0) -> Stage:
    """The stage that `rfactor` makes of a reduce loop, settled by `rule`. The results of a tuple are one stage."""
    made = plan.s.rfactor(stage.tensor, loop, factor_axis=factor_axis)
    partial = plan.s[made[0] if isinstance(made, list) else made]
    plan.done[partial] = rule
    return partial
