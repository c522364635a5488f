"""`metrics` and `objective`: numbers computed from a result, and which of them is to be made best.

A metric is a function of a result, or a formula over its names: the parameters, `time` in milliseconds, and the
metrics before it. The search sees a positive cost: the value itself, or 1 / value where higher is better. That
costs of time keep their meaning, the objective `time` is no `Objective` at all.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.ir.evaluate import evaluate_float
from autosched.ir.expr import var
from autosched.raw.formula import formula
from autosched.raw.parameters import Parameters

__all__ = ["HIGHER_IS_BETTER", "Metrics", "Objective"]

Metric = Callable[[dict[str, Any]], Any]

#: Kernel Tuner's objectives that need not say which way is better.
HIGHER_IS_BETTER = {
    "time": False,
    "energy": False,
    "cost": False,
    "fitness": True,
    **dict.fromkeys("GFLOP/s TFLOP/s GB/s TB/s GFLOPS/W TFLOPS/W GFLOP/J TFLOP/J".split(), True),
}


@dataclass(frozen=True)
class Metrics:
    """Name -> function of a result, in the order in which they are computed."""

    parameters: Parameters
    functions: dict[str, Metric]

    @staticmethod
    def of(given: Any, parameters: Parameters) -> Metrics:
        """Raises UsageError for what is neither a function nor a formula, and for names that are taken."""
        if not isinstance(given or {}, Mapping):
            raise UsageError("it is no dictionary", asked="metrics", legal=_LEGAL)
        functions: dict[str, Metric] = {}
        for name, metric in (given or {}).items():
            if name in parameters.values or name in ("time", "times", "status", "error"):
                raise UsageError("results have that already", asked=f"metric {name!r}", legal="another name")
            if not callable(metric) and not isinstance(metric, str):
                raise UsageError(f"{metric!r} is no metric", asked=f"metrics[{name!r}]", legal=_LEGAL)
            functions[name] = metric if callable(metric) else _formula(metric, parameters, list(functions))
        return Metrics(parameters, functions)

    def row(self, knobs: Mapping[str, int], samples: Sequence[float]) -> dict[str, Any]:
        """A result: the parameters, `time` (the median) and `times` in milliseconds, and the metrics.

        Raises what a metric raises.
        """
        row: dict[str, Any] = self.parameters.decode(knobs)
        row |= {"time": statistics.median(samples) * 1e3, "times": [s * 1e3 for s in samples]}
        for name, metric in self.functions.items():
            row[name] = metric(row)
        return row


def _formula(text: str, parameters: Parameters, earlier: Sequence[str]) -> Metric:
    """A metric from a text. Earlier metrics whose names are no names in Python cannot be mentioned."""
    numbers = {name: var(name, "float64") for name in ("time", *earlier)}
    e = formula(text, {**parameters.symbols, **numbers}, "metric")

    def compute(row: dict[str, Any]) -> float:
        columns = {n: np.asarray([v]) for n, v in parameters.encode({n: row[n] for n in parameters.values}).items()}
        env = {**parameters.environment(columns), **{v: np.asarray([row[n]]) for n, v in numbers.items()}}
        return float(np.broadcast_to(evaluate_float([e], env)[0], 1)[0])

    return compute


@dataclass(frozen=True)
class Objective:
    """The metric that a search makes best. Satisfies `space.tunable.Objective`."""

    name: str
    higher_is_better: bool
    metrics: Metrics

    @staticmethod
    def of(name: str, higher_is_better: bool | None, metrics: Metrics) -> Objective | None:
        """None for the time. Raises UsageError for what is no metric, or where nobody says which way is better."""
        asked = f"objective {name!r}"
        if name != "time" and name not in metrics.functions:
            known = ", ".join(["time", *metrics.functions])
            raise UsageError("there is no such metric", asked=asked, legal=f"one of {known}; give it in metrics")
        better = HIGHER_IS_BETTER.get(name) if higher_is_better is None else higher_is_better
        if better is None:
            raise UsageError("which way is better?", asked=asked, legal="objective_higher_is_better=True or False")
        if name == "time" and better:
            raise UsageError("the slowest configuration wins", asked=asked, legal="objective_higher_is_better=False")
        return None if name == "time" else Objective(name, better, metrics)

    def value(self, knobs: Mapping[str, int], samples: Sequence[float]) -> float:
        """The metric, at the median of the samples. Raises UsageError for one that is no positive number."""
        try:
            value = float(self.metrics.row(knobs, samples)[self.name])
        except Exception as error:
            raise UsageError(f"it raised {type(error).__name__}: {error}", asked=f"objective {self.name!r}") from error
        if not (math.isfinite(value) and value > 0):
            raise UsageError(
                f"it is {value:g} for {self.metrics.parameters.decode(knobs)}",
                asked=f"objective {self.name!r}",
                legal="positive numbers",
            )
        return value

    def costs(self, knobs: Mapping[str, int], samples: Sequence[float]) -> tuple[float, ...]:
        """A positive number for each sample, the smaller the better; `inf` where the metric is no positive number."""
        found = []
        for s in samples:
            try:
                value = self.value(knobs, [s])
                found.append(1.0 / value if self.higher_is_better else value)
            except UsageError:
                found.append(math.inf)
        return tuple(found)

    def describe(self, cost: float) -> str:
        """The value that a cost stands for."""
        return f"{1.0 / cost if self.higher_is_better else cost:.6g} {self.name}"


_LEGAL = '{"GFLOP/s": lambda r: 2 * n / r["time"] / 1e6}, or a formula over the parameters and time'
