"""What random schedules are drawn with: a call of a primitive as data, and the source of randomness."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from autosched.schedule.schedule import Schedule
from autosched.target import Target

T = TypeVar("T")


@dataclass(frozen=True)
class OpenFactor:
    """A factor that is left to a knob."""

    knob: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One call of a primitive, with the calls that belong to it; loops and stages are named."""

    kind: str
    stage: str
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    then: tuple[Step, ...] = ()

    def apply(self, s: Schedule) -> None:
        if self.kind == "create_group":  # which a trace knows by what it does to each stage
            s.create_group(self.stage, self.options["inputs"]).compute_at(*self.args)
            return
        options = {
            k: s.define_knob(v.knob, v.values) if isinstance(v, OpenFactor) else v for k, v in self.options.items()
        }
        s.apply(self.kind, s[self.stage], *self.args, **options)
        for step in self.then:
            step.apply(s)


@dataclass(frozen=True)
class Draw:
    """The source of randomness, the target, and the known sizes of calls; with `knobs`, factors may stay open."""

    rng: random.Random
    target: Target
    knobs: bool
    sizes: Mapping[str, int] = field(default_factory=dict)

    def one(self, items: Sequence[T]) -> T | Any:
        return self.rng.choice(items) if items else None
