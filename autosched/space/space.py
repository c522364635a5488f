"""Search spaces: the sketches of a workload for a target, and their candidates.

A sketch is a trace with open knobs. Its structure is lowered once, and only when a candidate of it is
looked at: a template may have thousands of sketches. Constraints and features are expressions over
the knobs, evaluated for whole batches of candidates (rows of knob indices).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from autosched.errors import AutoschedError, WorkloadError
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, const, variables
from autosched.lowering.pipeline import Structure, lower_structure
from autosched.schedule.renaming import numbered
from autosched.schedule.schedule import Constraint, Knob, Schedule
from autosched.space.constraints import explain, implied_constraints
from autosched.space.default import default_schedule
from autosched.space.features import FEATURE_NAMES, FEATURE_VERSION, extract
from autosched.space.forks import forks, traced
from autosched.space.points import ValidPoints, valid_points
from autosched.space.tunable import KnobPoints, knob_columns
from autosched.space.workload import Template, Workload
from autosched.target import Target

#: Name of the sketch that is the default schedule.
DEFAULT = "default"
#: Sketches that are all lowered to count the feasible points of a space, and seconds of computing that it may take.
FEW = 16
#: Seconds of computing after which no more sketches are made of a workload, and the time of the monotonic clock at
#: which no more are made either: see `sketching_until`.
SKETCHING_S: ContextVar[float] = ContextVar("sketching_s", default=20.0)
SKETCHING_UNTIL: ContextVar[float] = ContextVar("sketching_until", default=math.inf)
COUNTING_S = 0.5
#: Different reasons that the error of an impossible space lists.
MOST_REASONS = 5


@dataclass(frozen=True)
class Sketch(KnobPoints):
    """A workload, a trace and its open knobs, at concrete sizes.

    `structure` is lowered when first asked for: by `mask`, `reasons`, `features`, and building. One that
    cannot be lowered has no feasible point, and says why in `failure`.
    """

    name: str
    workload: Workload
    trace: list[Any]
    knobs: tuple[Knob, ...]
    schedule: Callable[[], Schedule] = field(repr=False)  #: what the trace does, done again
    target: Target
    sizes: dict[str, int]
    declared: tuple[Constraint, ...] = field(default=(), repr=False)  #: constraints known before lowering
    counted: dict[Any, int] = field(default_factory=dict, repr=False)  #: `most_points`, shared by sketches alike
    remarks: tuple[tuple[str, str, str], ...] = field(default=(), repr=False)  #: stage, rule, why; where rules made it

    @cached_property
    def _lowered(self) -> Structure | Exception:
        try:
            s = self.schedule()
            if s.trace.to_json() != self.trace:
                raise WorkloadError(
                    "the template did something else when it ran again",
                    asked=f"sketch {self.name}",
                    legal="a template that depends on nothing but the schedule and the target",
                )
            return lower_structure(s, list(self.workload.args), self.target, self.workload.name)
        except Exception as error:  # whatever it is, other sketches may do
            return error

    @property
    def structure(self) -> Structure:
        """The loops, with knobs and sizes as variables. Raises what lowering raised."""
        if isinstance(self._lowered, Exception):
            raise self._lowered
        return self._lowered

    @property
    def failure(self) -> str:
        """Why it cannot be lowered. Empty if it can, and as long as nobody has asked for it."""
        found = self.__dict__.get("_lowered")
        return _reason(found) if isinstance(found, Exception) else ""

    def environment(self, indices: np.ndarray) -> dict[Expr, Any]:
        """The values of knobs and sizes in `structure`'s expressions, at rows of knob indices."""
        columns, sizes = knob_columns(self.knobs, indices), self.structure.function.sizes
        knobs = {k.var: columns[k.name] for k in self.structure.knobs}
        return {**knobs, **{v: np.int64(self.sizes[v.name]) for v in sizes}}

    @cached_property
    def _conditions(self) -> list[tuple[Expr, str]]:
        given = [(c.condition, c.reason) for c in self.structure.constraints]
        return given + implied_constraints(self.structure)

    @cached_property
    def valid_points(self) -> ValidPoints:
        """The feasible points, counted and numbered. Lowers the sketch; one that cannot be lowered has none."""
        if isinstance(self._lowered, Exception):
            return valid_points([(k.var, ()) for k in self.knobs], [const(False)])
        conditions = [c for c, _ in self._conditions]
        return valid_points(self._open(self._lowered), conditions, self._fixed(conditions))

    @cached_property
    def most_points(self) -> int:
        """The number of points that meet the declared constraints; those that lowering adds may exclude some."""
        conditions = [c.condition for c in self.declared]
        if not conditions:
            return self.size
        key = (tuple((k.name, k.values) for k in self.knobs), tuple(map(repr, conditions)))
        if key not in self.counted:
            knobs = [(k.var, k.values) for k in self.knobs]
            self.counted[key] = valid_points(knobs, conditions, self._fixed(conditions)).count
        return self.counted[key]

    def _open(self, lowered: Structure) -> list[tuple[Expr, tuple[int, ...]]]:
        """The variables of the structure's knobs, with the values that they may take here."""
        values = {k.name: k.values for k in self.knobs}
        return [(k.var, values[k.name]) for k in lowered.knobs]

    def narrowed(self, values: Mapping[str, int]) -> Sketch:
        """The same sketch where some knobs have no value but the one given."""
        knobs = tuple(replace(k, values=(values[k.name],)) if k.name in values else k for k in self.knobs)
        return self._with(knobs=knobs)

    def at(self, sizes: Mapping[str, int]) -> Sketch:
        """The same sketch at other sizes, some or all."""
        return self._with(sizes={**self.sizes, **sizes})

    def _with(self, **changes: Any) -> Sketch:
        part = replace(self, counted={}, **changes)
        known = ("_lowered", "_conditions", "_features")  # none of which depends on values of knobs, or on sizes
        part.__dict__.update({name: self.__dict__[name] for name in known if name in self.__dict__})
        return part

    def _fixed(self, conditions: Sequence[Expr]) -> dict[Expr, int]:
        """The sizes among the variables of conditions."""
        found = dict.fromkeys(v for c in conditions for v in variables(c) if v.value.role != "knob")
        return {v: self.sizes[v.name] for v in found}

    def contradiction(self) -> tuple[str, str] | None:
        """The constraints that leave no point, and the points there would be without each; None if there is one
        or nobody has looked yet. Declared constraints are always looked at."""
        if self.declared and self.most_points == 0:
            given = [(c.condition, c.reason) for c in self.declared]
            return explain([(k.var, k.values) for k in self.knobs], given, self._fixed([c for c, _ in given]))
        known = self.__dict__.get("valid_points")
        if known is None or known.count or isinstance(self._lowered, Exception):
            return None
        return explain(self._open(self._lowered), self._conditions, self._fixed([c for c, _ in self._conditions]))

    def mask(self, indices: np.ndarray) -> np.ndarray:
        """Feasibility of each row of `indices` (int, [n, knobs]): bool [n]."""
        n = len(indices)
        if not n or isinstance(self._lowered, Exception):
            return np.zeros(n, dtype=bool)
        if not self._conditions:
            return np.ones(n, dtype=bool)
        results = evaluate([c for c, _ in self._conditions], self.environment(indices))
        return np.logical_and.reduce([np.broadcast_to(r.astype(bool), n) for r in results])

    def reasons(self, indices: Sequence[int]) -> list[str]:
        """Why one candidate is infeasible: the reasons of the constraints it breaks."""
        if isinstance(self._lowered, Exception):
            return [self.failure]
        row = np.asarray([indices], dtype=np.int64)
        results = evaluate([c for c, _ in self._conditions], self.environment(row))
        return [why for (_, why), r in zip(self._conditions, results, strict=True) if not bool(np.ravel(r)[0])]

    @cached_property
    def _features(self) -> Any:
        return extract(self.structure)

    def features(self, indices: np.ndarray) -> np.ndarray:
        """The cost model's input: float64 [n, len(FEATURE_NAMES)], for rows of knob indices."""
        if not len(indices):
            return np.zeros((0, len(FEATURE_NAMES)))
        return self._features.evaluate(self.environment(indices), len(indices))

    def __repr__(self) -> str:
        return f"Sketch({self.name}: {self.size} points)"


@dataclass(frozen=True)
class SearchSpace:
    """The union of a workload's sketches for a target; `untraced` has the combinations of choices that the
    schedule refused, and why, `cut` the reason why others were not made, empty where all were."""

    workload: Workload
    target: Target
    sketches: tuple[Sketch, ...]
    untraced: dict[str, str] = field(default_factory=dict)
    cut: str = ""

    @property
    def size(self) -> int:
        return sum(s.size for s in self.sketches)

    @cached_property
    def valid(self) -> int | None:
        """The number of feasible points, if that is known exactly and cheaply: it takes lowering all sketches, which is
        not done for more than `FEW`, and is ended once it is seen to take `COUNTING_S` seconds of computing."""
        found, begun = 0, time.thread_time()
        for done, s in enumerate(self.sketches):
            spent = time.thread_time() - begun
            expected = spent / done * len(self.sketches) if done else 0.0
            if len(self.sketches) > FEW or expected > COUNTING_S or not s.valid_points.exact:
                return None
            found += s.valid_points.count
        return found

    @cached_property
    def remarks(self) -> list[tuple[str, str, str, int]]:
        """Reasons of the rules that made it: (stage, rule, why, number of sketches), stages in program order."""
        order: list[str] = []
        found: dict[str, dict[str, tuple[str, int]]] = {}  # stage -> rule -> why, in how many
        for sketch in self.sketches:
            at = 0
            for stage, by, why in sketch.remarks:
                if stage not in found:
                    order.insert(at, stage)
                at = order.index(stage) + 1
                rules = found.setdefault(stage, {})
                first, count = rules.get(by, (why, 0))
                rules[by] = first, count + 1
        return [(stage, by, why, count) for stage in order for by, (why, count) in found[stage].items()]

    def at(self, sizes: Mapping[str, int]) -> SearchSpace:
        """The same space at other sizes, some or all."""
        return replace(self, sketches=tuple(s.at(sizes) for s in self.sketches))

    @property
    def is_default_alone(self) -> bool:
        """Whether there is nothing but the default schedule, under whatever name."""
        if len(self.sketches) != 1 or self.sketches[0].knobs:
            return False
        return self.sketches[0].trace == default_schedule(self.workload.args, self.target).trace.to_json()

    @property
    def feature_names(self) -> tuple[str, ...]:
        return FEATURE_NAMES

    @property
    def failures(self) -> dict[str, str]:
        """Name of each sketch that turned out not to be possible so far, and why."""
        return {**self.untraced, **{s.name: s.failure for s in self.sketches if s.failure}}

    @cached_property
    def _by_trace(self) -> dict[str, int]:
        return {json.dumps(s.trace): i for i, s in reversed(list(enumerate(self.sketches)))}

    @property
    def is_unsearchable(self) -> bool:
        """Whether the default schedule is alone because no other sketch could be made."""
        return bool(self.untraced) and self.is_default_alone

    def impossible(self) -> Exception | None:
        """The error to raise if every sketch is known not to lower or to have no point."""
        found = {s.name: s.__dict__.get("_lowered") for s in self.sketches}
        errors = {name: e for name, e in found.items() if isinstance(e, Exception)}
        if len(errors) == len(self.sketches):
            return _no_sketch(f"tune {self.workload.name}", errors)
        for s in self.sketches:
            known = s.__dict__.get("valid_points")
            if s.name not in errors and s.most_points and (known is None or known.count):
                return None
        # what is wrong with the first of which that can be told
        told = ((s, said) for s in self.sketches if (said := s.contradiction()) is not None)
        for s, (why, legal) in told:
            others = f", nor is there in {len(self.sketches) - 1} other sketches" if len(self.sketches) > 1 else ""
            asked = f"tune {self.workload.name}, sketch {s.name}"
            return WorkloadError(f"there is no point to try: {why}{others}", asked=asked, legal=legal)
        return None

    @property
    def feature_version(self) -> str:
        """Equal for features that mean the same: records of another version teach nothing."""
        return FEATURE_VERSION

    def find(self, trace: Any) -> int | None:
        """The position of the sketch with this trace."""
        return self._by_trace.get(json.dumps(trace))

    @cached_property
    def _by_numbers(self) -> dict[str, tuple[int, list[str]]]:
        found = [numbered(s.trace) for s in self.sketches]
        return {text: (i, knobs) for i, (text, knobs) in reversed(list(enumerate(found)))}

    def find_alike(self, trace: Any) -> tuple[int, dict[str, str]] | None:
        """The position of the sketch whose trace differs in names of knobs alone, and the knob here for each there."""
        text, knobs = numbered(trace)
        found = self._by_numbers.get(text)
        return None if found is None else (found[0], dict(zip(knobs, found[1], strict=True)))


@contextmanager
def sketching_until(moment: float = math.inf, *, computing_s: float | None = None) -> Iterator[None]:
    """Spaces that are made inside have the sketches that there are at this time of the monotonic clock, or after so
    many seconds of computing: one at least.
    """
    until = SKETCHING_UNTIL.set(moment)
    computing = SKETCHING_S.set(SKETCHING_S.get() if computing_s is None else computing_s)
    try:
        yield
    finally:
        SKETCHING_UNTIL.reset(until)
        SKETCHING_S.reset(computing)


def template_space(
    workload: Workload, target: Target, sizes: dict[str, int], templates: Sequence[Template] | None = None
) -> SearchSpace:
    """The sketches of templates for a target, by default of the workload's own. Nothing is lowered.

    After `SKETCHING_S` seconds of computing, and at `SKETCHING_UNTIL`, those that there are have to do, which `cut`
    says.
    Raises WorkloadError when there is no template for this kind of target, a size is not known, or the
    declared constraints leave no point in any sketch (naming those that conflict); and
    what the templates raise, if none of them gives a sketch.
    """
    if templates is None:
        templates = workload.templates_for(target)
    if not templates:
        kinds = sorted({t.target for t in workload.templates})
        raise WorkloadError(
            f"it has no template for {target.kind}",
            asked=f"tune {workload.name}",
            legal=f"templates are there for: {', '.join(kinds) or 'no target'}; "
            f'write one under @template({workload.name}, target="{target.kind}"), or tune with space="auto"',
        )
    sketches: list[Sketch] = []
    counted: dict[Any, int] = {}
    refused: dict[str, Exception] = {}
    cut, begun = "", time.thread_time()
    for t, (name, choices, result) in ((one, made) for one in templates for made in forks(workload, one, target)):
        is_late = time.monotonic() > SKETCHING_UNTIL.get()
        if sketches and (is_late or time.thread_time() - begun > SKETCHING_S.get()):
            why = "as the time is short" if is_late else f"after {SKETCHING_S.get():g} s"
            cut = f"making sketches was ended {why}, so the search has the first {len(sketches)}"
            break
        if isinstance(result, Exception):
            refused[name] = result
        else:
            again = partial(traced, workload, t, target, choices)
            sketches.append(make_sketch(name, workload, result, target, sizes, again, counted))
    if not sketches:
        raise _no_sketch(f"tune {workload.name}", refused)
    space = SearchSpace(workload, target, tuple(sketches), {k: _reason(e) for k, e in refused.items()}, cut)
    empty = space.impossible()
    if empty is not None:
        raise empty
    return space


def with_default(space: SearchSpace, sizes: dict[str, int]) -> SearchSpace:
    """The space with the default schedule as one more sketch, which has one point: what there is at least."""
    w, target = space.workload, space.target
    s = default_schedule(w.args, target)
    if space.find(s.trace.to_json()) is not None:
        return space
    return replace(space, sketches=(*space.sketches, make_sketch(DEFAULT, w, s, target, sizes)))


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, AutoschedError) else f"{type(error).__name__}: {error}"


def _no_sketch(asked: str, errors: dict[str, Exception]) -> Exception:
    """The error of a space none of whose sketches is possible: the one they all met, or a list."""
    different = {_reason(e): (name, e) for name, e in reversed(errors.items())}
    if len(different) == 1:
        return next(iter(errors.values()))
    shown = [f"{name}: {reason}" for reason, (name, _) in reversed(different.items())]
    more = [f"and {len(shown) - MOST_REASONS} other reasons"] if len(shown) > MOST_REASONS else []
    return WorkloadError(
        f"none of its {len(errors)} sketches is possible",
        asked=asked,
        legal="\n  ".join(shown[:MOST_REASONS] + more),
    )


def make_sketch(
    name: str,
    workload: Workload,
    s: Schedule,
    target: Target,
    sizes: dict[str, int],
    again: Callable[[], Schedule] | None = None,
    counted: dict[Any, int] | None = None,
) -> Sketch:
    """The sketch that a traced schedule is. With `again`, which makes that anew, it does not keep the schedule."""
    missing = [v for v in workload.size_names() if v not in sizes]
    if missing:
        legal = f"--size {missing[0]}=N, or sizes={{{missing[0]!r}: N}}"
        raise WorkloadError(f"the size {missing[0]} is not known", asked=f"tune {workload.name}", legal=legal)
    knobs, declared, known = tuple(s.knobs.values()), tuple(s.constraints), {} if counted is None else counted
    trace, remarks = s.trace.to_json(), tuple(s.remarks)
    return Sketch(name, workload, trace, knobs, again or (lambda: s), target, dict(sizes), declared, known, remarks)
