"""The schedules that a template makes: one for each combination of its choices.

A template is run once for each. One that goes step by step, as a `Walk`, is copied before steps that
choose, so that a combination begins where it parts from the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from autosched.errors import AutoschedError, WorkloadError, raised_at, raised_in
from autosched.schedule.schedule import Schedule, create_schedule
from autosched.space.workload import Template, Walk, Workload
from autosched.target import Target

Choices = dict[str, Any]


def forks(workload: Workload, t: Template, target: Target) -> Iterator[tuple[str, Choices, Any]]:
    """For each combination of the template's choices: a name, the choices, and the schedule that it makes
    or the error it ends with.

    Depth first: the last choice that has an option left takes it, and all that comes after is done again.
    """
    trail = _Trail(workload, t, target)
    choices: Choices = {}
    for _ in range(t.max_forks):
        s = trail.begin(choices)
        result: Schedule | Exception = s
        try:
            with _located(workload, t):
                trail.follow()
        except AutoschedError as error:
            result = error
        made = {name: choices.get(name, options[0]) for name, options in s.choices_seen.items()}
        label = ", ".join(f"{name}={value}" for name, value in made.items())
        yield f"{t.name}[{label}]" if label else t.name, made, result
        after = _next(made, s.choices_seen)
        if after is None:
            return
        choices = after
    raise WorkloadError(
        f"its choices make more than {t.max_forks} sketches",
        asked=f"template {t.name}",
        legal=f"fewer options, knobs instead of choices, or @template(..., max_forks={2 * t.max_forks})",
    )


def traced(workload: Workload, t: Template, target: Target, choices: Choices) -> Schedule:
    """The schedule that the template makes with these choices, from the start."""
    s = create_schedule(list(workload.args), fixed_arguments=True).with_choices(choices)
    with _located(workload, t):
        t.apply(s, target)
    return s


def _next(made: Choices, options: dict[str, tuple[Any, ...]]) -> Choices | None:
    """The combination of choices after this one; what comes after the last choice in it starts over."""
    names = list(made)
    for at in reversed(range(len(names))):
        name = names[at]
        different = {repr(option): option for option in options[name]}  # 1 is not True
        later = list(different.values())[list(different).index(repr(made[name])) + 1 :]
        if later:
            return {**{n: made[n] for n in names[:at]}, name: later[0]}
    return None


@contextmanager
def _located(workload: Workload, t: Template) -> Iterator[None]:
    """Turn what the template raises into an AutoschedError with the line of the template."""
    try:
        yield
    except AutoschedError as error:
        error.located("raised", where=raised_at(error))
        raise
    except Exception as error:
        raise raised_in(f"template {t.name} of {workload.name}", error) from error


class _Trail:
    """The way of one combination, and copies of the walk that the next ones may go on from."""

    def __init__(self, workload: Workload, t: Template, target: Target) -> None:
        self._workload, self._template, self._target = workload, t, target
        self._walk: Walk | None = None
        self._steps = 0
        #: choices made and steps taken before it was copied, along the way of the present combination
        self._kept: list[tuple[int, int, Walk]] = []
        self._choosing: set[int] = set()  #: steps that chose something so far: before others no copy is made

    def begin(self, choices: Choices) -> Schedule:
        """The schedule of a combination, of which all but the last choice are those of the one before."""
        while self._kept and self._kept[-1][0] >= len(choices):
            self._kept.pop()
        if self._kept:
            _, self._steps, kept = self._kept[-1]
            self._walk = deepcopy(kept)
            return self._walk.s.with_choices(choices)
        self._s = create_schedule(list(self._workload.args), fixed_arguments=True).with_choices(choices)
        self._steps = 0
        self._walk = None if self._template.walk is None else self._template.walk(self._s, self._target)
        return self._s

    def follow(self) -> None:
        """Do the rest of what the template does."""
        if self._walk is None:
            self._template.apply(self._s, self._target)
            return
        is_done = False
        while not is_done:
            before = len(self._walk.s.choices_seen)
            if self._steps in self._choosing and (not self._kept or self._kept[-1][1] < self._steps):
                self._kept.append((before, self._steps, deepcopy(self._walk)))
            is_done = not self._walk.step()
            if len(self._walk.s.choices_seen) > before:
                self._choosing.add(self._steps)
            self._steps += 1
