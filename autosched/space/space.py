"""Search spaces: the sketches of a workload for a target, and their candidates.

A sketch is a trace with open knobs. Its structure is lowered once; constraints and features are
expressions over the knobs, evaluated for whole batches of candidates (rows of knob indices).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from autosched.errors import AutoschedError, WorkloadError
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr
from autosched.lower.pipeline import Structure, lower_structure
from autosched.schedule.schedule import Knob, Schedule, create_schedule
from autosched.space.features import FEATURE_NAMES, extract
from autosched.space.limits import implied_constraints
from autosched.space.workload import Template, Workload
from autosched.target import Target

__all__ = ["MAX_FORKS", "SearchSpace", "Sketch", "make_sketch", "template_space"]

#: `choose` may split one template into this many sketches.
MAX_FORKS = 64


@dataclass(frozen=True)
class Sketch:
    """A workload, a trace and its open knobs, at concrete sizes."""

    name: str
    workload: Workload
    trace: list[Any]
    knobs: tuple[Knob, ...]
    structure: Structure
    sizes: dict[str, int]

    @property
    def size(self) -> int:
        """How many combinations of knob values there are, feasible or not."""
        return int(np.prod([len(k.values) for k in self.knobs], dtype=object)) if self.knobs else 1

    def values(self, indices: Sequence[int]) -> dict[str, int]:
        """The knob values that indices stand for."""
        return {k.name: k.values[int(i)] for k, i in zip(self.knobs, indices, strict=True)}

    def indices_of(self, values: dict[str, int]) -> tuple[int, ...] | None:
        """The inverse; None if the values are not of this sketch."""
        if set(values) != {k.name for k in self.knobs}:
            return None
        if any(values[k.name] not in k.values for k in self.knobs):
            return None
        return tuple(k.values.index(values[k.name]) for k in self.knobs)

    def _environment(self, indices: np.ndarray) -> dict[Expr, Any]:
        batch = np.asarray(indices, dtype=np.int64).reshape(len(indices), len(self.knobs))
        env: dict[Expr, Any] = {
            k.var: np.asarray(k.values, dtype=np.int64)[batch[:, column]] for column, k in enumerate(self.knobs)
        }
        for v in self.structure.function.sizes:
            env[v] = np.int64(self.sizes[v.name])
        return env

    @cached_property
    def _conditions(self) -> list[tuple[Expr, str]]:
        given = [(c.condition, c.reason) for c in self.structure.constraints]
        return given + implied_constraints(self.structure)

    def mask(self, indices: np.ndarray) -> np.ndarray:
        """Which rows of `indices` (int, [n, knobs]) are feasible: bool [n]."""
        n = len(indices)
        if not self._conditions:
            return np.ones(n, dtype=bool)
        results = evaluate([c for c, _ in self._conditions], self._environment(indices))
        return np.logical_and.reduce([np.broadcast_to(r.astype(bool), n) for r in results])

    def reasons(self, indices: Sequence[int]) -> list[str]:
        """Why one candidate is infeasible: the reasons of the constraints it breaks."""
        row = np.asarray([indices], dtype=np.int64)
        results = evaluate([c for c, _ in self._conditions], self._environment(row))
        return [why for (_, why), r in zip(self._conditions, results, strict=True) if not bool(np.ravel(r)[0])]

    @cached_property
    def _features(self) -> Any:
        return extract(self.structure)

    def features(self, indices: np.ndarray) -> np.ndarray:
        """What the cost model sees: float64 [n, len(FEATURE_NAMES)], for rows of knob indices."""
        return self._features.evaluate(self._environment(indices), len(indices))

    def __repr__(self) -> str:
        return f"Sketch({self.name}: {self.size} points)"


@dataclass(frozen=True)
class SearchSpace:
    """The union of a workload's sketches for a target."""

    workload: Workload
    target: Target
    sketches: tuple[Sketch, ...]

    @property
    def size(self) -> int:
        return sum(s.size for s in self.sketches)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return FEATURE_NAMES

    def find(self, trace: Any) -> int | None:
        """The position of the sketch with this trace."""
        return next((i for i, s in enumerate(self.sketches) if s.trace == trace), None)


def template_space(workload: Workload, target: Target, sizes: dict[str, int]) -> SearchSpace:
    """The sketches of a workload's templates for a target.

    Raises WorkloadError when there is no template for this kind of target or one of them raises.
    """
    templates = [t for t in workload.templates if t.fits(target)]
    if not templates:
        kinds = sorted({t.target for t in workload.templates})
        raise WorkloadError(
            f"it has no template for {target.kind}",
            asked=f"tune {workload.name}",
            legal=f"templates are there for: {', '.join(kinds) or 'no target'}; "
            f'write one under @template({workload.name}, target="{target.kind}")',
        )
    sketches = [s for t in templates for s in _sketches(workload, t, target, sizes)]
    return SearchSpace(workload, target, tuple(sketches))


def _sketches(workload: Workload, t: Template, target: Target, sizes: dict[str, int]) -> list[Sketch]:
    """One sketch for each combination of the template's choices."""
    found: list[Sketch] = []
    pending: list[dict[str, Any]] = [{}]
    done: set[tuple[tuple[str, str], ...]] = set()
    while pending:
        choices = pending.pop(0)
        s = _traced(workload, t, target, choices)
        made = {name: choices.get(name, options[0]) for name, options in s.choices_seen.items()}
        key = tuple((name, repr(value)) for name, value in made.items())
        if key in done:
            continue
        done.add(key)
        if len(done) > MAX_FORKS:
            raise WorkloadError(
                f"its choices make more than {MAX_FORKS} sketches", asked=f"template {t.name}", legal="fewer options"
            )
        for name, options in s.choices_seen.items():
            for option in options:
                other = {**made, name: option}
                if tuple((n, repr(v)) for n, v in other.items()) not in done:
                    pending.append(other)
        label = ", ".join(f"{name}={value}" for name, value in made.items())
        found.append(make_sketch(f"{t.name}[{label}]" if label else t.name, workload, s, target, sizes))
    return found


def _traced(workload: Workload, t: Template, target: Target, choices: dict[str, Any]) -> Schedule:
    s = create_schedule(list(workload.args)).with_choices(choices)
    try:
        t.apply(s, target)
    except AutoschedError:
        raise
    except Exception as error:
        raise WorkloadError(
            f"it raised {type(error).__name__}: {error}", asked=f"template {t.name} of {workload.name}"
        ) from error
    return s


def make_sketch(name: str, workload: Workload, s: Schedule, target: Target, sizes: dict[str, int]) -> Sketch:
    """The sketch that a traced schedule is."""
    structure = lower_structure(s, list(workload.args), target, workload.name)
    missing = [v.name for v in structure.function.sizes if v.name not in sizes]
    if missing:
        raise WorkloadError(f"the size {missing[0]} is not known", asked=f"tune {workload.name}")
    return Sketch(name, workload, s.trace.to_json(), tuple(s.knobs.values()), structure, dict(sizes))
