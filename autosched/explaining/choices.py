"""The choices of a search space one by one: what each value comes to, by the model and by records, and what it changes.

A value is judged by the best point that has it, with what was chosen before held fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, variables
from autosched.ir.printer import format_expr
from autosched.ir.stmt import Allocate, Evaluate, For, Launch, Prefetch, Produce, Stmt, Store, children
from autosched.model import AnalyticalModel
from autosched.records import Record
from autosched.schedule.trace import Trace
from autosched.search.predicted import Predicted, look_ahead
from autosched.space.space import SearchSpace, Sketch

#: Parts of a predicted time that are sums of others.
_WHOLE = ("total",)


@dataclass(frozen=True)
class Option:
    """A sketch, or a value of a knob.

    name:      the sketch, or the value as text
    seconds:   predicted for the best point that has it; infinite where there is none, which `why_not` explains
    mostly:    the largest part of that time, by the names of `AnalyticalModel.parts`
    knobs:     that point
    measured:  the fastest record of a point that has it, in seconds; infinite without one
    effect:    loops and buffers that the knob decides on, at that point
    """

    name: str
    seconds: float
    mostly: str
    knobs: Mapping[str, int]
    measured: float
    effect: str = ""
    why_not: str = ""

    @property
    def is_possible(self) -> bool:
        return not self.why_not

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name, "predicted_s": self.seconds, "mostly": self.mostly, "knobs": dict(self.knobs),
            "measured_s": self.measured, "effect": self.effect, "why_not": self.why_not,
        }  # fmt: skip


@dataclass(frozen=True)
class _Line:
    """A line of a loop nest; `size` is the number that ends it."""

    depth: int
    text: str
    size: Expr | None


class Choices:
    """A search space, walked by hand.

    space:   what `search_space` returns
    model:   the analytical model of the machine; UsageError where there is none
    records: trials of the same workload, sizes, target and device; others are not looked at
    """

    def __init__(self, space: SearchSpace, model: AnalyticalModel | None, records: Sequence[Record] = ()) -> None:
        if model is None:
            why = "there is no model of this device, so nothing can be predicted"
            raise UsageError(why, asked=f"choose {space.workload.name}", legal="autosched tune, which measures")
        self.space, self._model = space, model
        found = [(space.find(r.trace), r) for r in records if r.ok]
        self._measured = [(at, r.knobs, r.seconds) for at, r in found if at is not None]
        self._looked: dict[Any, Option] = {}

    def sketches(self, fixed: Mapping[str, int]) -> list[tuple[int, Option]]:
        """(position, option) of the sketches that were looked at, the best first: a space may have thousands.

        fixed: knobs whose values are settled; sketches without one of them are left out
        """
        have = [i for i, s in enumerate(self.space.sketches) if fixed.keys() <= {k.name for k in s.knobs}]
        parts = tuple(self.space.sketches[i].narrowed(fixed) for i in have)
        outlook = look_ahead(replace(self.space, sketches=parts), self._model.seconds)
        numbers = [have[c.candidate.sketch] for c in outlook.choices]
        for number, choice in zip(numbers, outlook.choices, strict=True):
            self._looked.setdefault(_key(number, fixed), self._option(number, fixed, choice))
        return [(i, self.best(i, fixed)) for i in numbers]

    def best(self, number: int, fixed: Mapping[str, int]) -> Option:
        """The point of a sketch that is predicted best, with some knobs settled."""
        key = _key(number, fixed)
        if key not in self._looked:
            part = self.space.sketches[number].narrowed(fixed)
            outlook = look_ahead(replace(self.space, sketches=(part,)), self._model.seconds)
            self._looked[key] = self._option(number, fixed, *outlook.choices)
        return self._looked[key]

    def _option(self, number: int, fixed: Mapping[str, int], choice: Predicted | None = None) -> Option:
        part = self.space.sketches[number].narrowed(fixed)
        times = [t for at, knobs, t in self._measured if at == number and fixed.items() <= knobs.items()]
        measured = min(times, default=float("inf"))
        if choice is None:
            why = part.failure or "no valid point is left"
            return Option(part.name, float("inf"), "", {}, measured, why_not=why)
        parts = self._model.parts(part.features(np.array([choice.candidate.indices], dtype=np.int64)))
        costs = {name: float(np.ravel(ns)[0]) for name, ns in parts.items() if name not in _WHOLE}
        knobs = part.values(choice.candidate.indices)
        return Option(part.name, choice.seconds, max(costs, key=costs.__getitem__), knobs, measured)

    def values(self, number: int, knob: str, fixed: Mapping[str, int]) -> list[Option]:
        """What each value of a knob comes to, in the order that the knob has them."""
        sketch = self.space.sketches[number]
        fixed = {name: value for name, value in fixed.items() if name != knob}
        base = self.best(number, fixed).knobs
        (values,) = (k.values for k in sketch.knobs if k.name == knob)
        found = []
        for value in values:
            option = replace(self.best(number, {**fixed, knob: value}), name=str(value))
            if option.is_possible:
                option = replace(option, effect=self._effect(sketch, knob, option.knobs))
            elif (indices := sketch.indices_of({**base, knob: value})) is not None:
                option = replace(option, why_not="; ".join(sketch.reasons(indices)) or option.why_not)
            found.append(option)
        return found

    def calls(self, number: int, knob: str) -> list[str]:
        """The calls of the schedule that take a knob, as Python."""
        trace = Trace.from_json(self.space.sketches[number].trace)
        return [i.as_python() for i in trace if knob in i.knobs]

    def nest(self, number: int, knobs: Mapping[str, int]) -> list[str]:
        """The loops at a point, outer before inner, each with how often it runs; buffers with their bytes."""
        sketch = self.space.sketches[number]
        lines = list(_lines(sketch.structure.function.body))
        sizes = _sizes(sketch, lines, knobs)
        return [f"{'  ' * line.depth}{line.text}{size}" for line, size in zip(lines, sizes, strict=True)]

    def _effect(self, sketch: Sketch, knob: str, knobs: Mapping[str, int]) -> str:
        var = next(k.var for k in sketch.structure.knobs if k.name == knob)
        lines = [x for x in _lines(sketch.structure.function.body) if x.size is not None and var in variables(x.size)]
        told = zip(lines, _sizes(sketch, lines, knobs), strict=True)
        return ", ".join(dict.fromkeys(f"{line.text}{size}" for line, size in told))


def _key(number: int, fixed: Mapping[str, int]) -> tuple[Any, ...]:
    return (number, *sorted(fixed.items()))


def _lines(s: Stmt, depth: int = 0) -> Iterator[_Line]:
    match s:
        case For():
            kind = s.thread or ("for" if s.kind == "serial" else s.kind)
            yield _Line(depth, f"{kind} {format_expr(s.var)}", s.extent)
        case Produce():
            yield _Line(depth, f"produce {s.name}", None)
        case Allocate():
            elements: Any = 1
            for d in s.buffer.shape:
                elements = elements * d
            yield _Line(depth, f"buffer {s.buffer.name}", elements * s.buffer.dtype.bytes)
        case Launch():
            yield _Line(depth, f"kernel {s.name}", None)
        case Store():
            yield _Line(depth, f"{s.buffer.name} = ..", None)
        case Evaluate() | Prefetch():
            yield _Line(depth, type(s).__name__.lower(), None)
    inside = depth + isinstance(s, (For, Produce, Launch))
    for part in children(s):
        yield from _lines(part, inside)


def _sizes(sketch: Sketch, lines: Sequence[_Line], knobs: Mapping[str, int]) -> list[str]:
    """What ends each line at a point: the number, or the formula where it changes from turn to turn."""
    indices = sketch.indices_of(knobs)
    env = sketch.environment(np.array([indices], dtype=np.int64).reshape(1, -1))
    found = []
    for line in lines:
        if line.size is None:
            found.append("")
        elif not variables(line.size) <= env.keys():
            found.append(f" {format_expr(line.size)}")
        else:
            n = int(np.ravel(evaluate([line.size], env)[0])[0])
            found.append(f" {n:,} bytes" if line.text.startswith("buffer ") else f" {n}")
    return found
