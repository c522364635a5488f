"""Tuning parameters as knobs, quantities that depend on them, and what is to be made best."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.ir.evaluate import evaluate, evaluate_float
from autosched.ir.expr import Expr, var
from autosched.ir.printer import MOST_CHARACTERS
from autosched.raw.formula import Coded, formula
from autosched.schedule.schedule import Knob

#: Values that a function of the user's is asked for in advance, where workers need its results.
MAX_TABLE = 20_000
_C_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Parameters:
    """Name -> values, in the order given. Raises UsageError for names and values that cannot be meant."""

    values: dict[str, tuple[Any, ...]]

    @staticmethod
    def of(tune_params: Mapping[str, Iterable[Any]]) -> Parameters:
        if not isinstance(tune_params, Mapping):
            raise UsageError("it is no dictionary", asked="tune_params", legal='{"block_size_x": [32, 64, 128]}')
        return Parameters({str(name): _checked(str(name), values) for name, values in tune_params.items()})

    @cached_property
    def choices(self) -> dict[str, tuple[Any, ...]]:
        """The parameters whose knob is a position."""
        return {n: v for n, v in self.values.items() if not all(isinstance(x, int) for x in v)}

    @cached_property
    def knobs(self) -> tuple[Knob, ...]:
        numbers = {n: tuple(range(len(v))) if n in self.choices else v for n, v in self.values.items()}
        return tuple(Knob(n, v, var(n, "int32", "knob", min(v), max(v))) for n, v in numbers.items())

    @cached_property
    def symbols(self) -> dict[str, Expr | Coded]:
        """The names that formulas know."""
        return {k.name: Coded(k.var, self.choices[k.name]) if k.name in self.choices else k.var for k in self.knobs}

    def decode(self, knobs: Mapping[str, int]) -> dict[str, Any]:
        """The values that knob values stand for. Raises UsageError for a parameter that has none."""
        missing = [n for n in self.values if n not in knobs]
        if missing:
            raise UsageError(f"the parameter {missing[0]} has no value", asked="configuration", legal="one for each")
        return {n: self.choices[n][knobs[n]] if n in self.choices else knobs[n] for n in self.values}

    def encode(self, given: Mapping[str, Any]) -> dict[str, int]:
        """The inverse. Raises UsageError for values or names that are not there."""
        unknown = sorted({*given} ^ {*self.values}, key=str)
        if unknown:
            why = f"{unknown[0]!r} is {'no parameter' if unknown[0] in given else 'missing'}"
            raise UsageError(why, asked=f"params {dict(given)!r}", legal=f"parameters: {', '.join(self.values)}")
        for name, value in given.items():
            if value not in self.values[name]:
                legal = ", ".join(map(str, self.values[name]))
                raise UsageError(f"{name} cannot be {value!r}", asked=f"params {dict(given)!r}", legal=legal)
        return {n: self.choices[n].index(given[n]) if n in self.choices else int(given[n]) for n in self.values}

    def rows(self, columns: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
        """The decoded values of each point, as a function of the user's takes them."""
        listed = {n: c.tolist() for n, c in columns.items()}
        return [self.decode(dict(zip(listed, row, strict=True))) for row in zip(*listed.values(), strict=True)]

    def environment(self, columns: Mapping[str, np.ndarray]) -> dict[Expr, Any]:
        return {k.var: columns[k.name] for k in self.knobs}


def _checked(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    asked = f"tune_params[{name!r}]"
    if not _C_NAME.fullmatch(name) or len(name) > MOST_CHARACTERS:
        legal = f"letters, digits and _, {MOST_CHARACTERS} at most"
        raise UsageError("it is no name that C knows", asked=asked[:80], legal=legal)
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise UsageError("its values are no list", asked=asked, legal="[32, 64, 128]")
    plain = tuple(_plain(v, asked) for v in values)
    if not plain:
        raise UsageError("it has no values", asked=asked, legal="at least one")
    if len(set(plain)) != len(plain):
        twice = next(v for i, v in enumerate(plain) if v in plain[:i])
        raise UsageError(f"the value {twice!r} is given twice", asked=asked, legal="each value once")
    words = {isinstance(v, str) for v in plain}
    if len(words) > 1:
        raise UsageError("its values are words and numbers", asked=asked, legal="either")
    return plain


def _plain(value: Any, asked: str) -> int | float | str:
    """A Python number or word; True is 1, as C has it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (bool, int)) and -(2**31) <= value < 2**31:
        return int(value)
    if isinstance(value, float) and np.isfinite(value):
        return value
    if isinstance(value, str) and "\n" not in value:
        return value
    raise UsageError(f"{value!r} cannot be the value of a #define", asked=asked, legal="32-bit integers, floats, words")


@dataclass(frozen=True)
class Quantity:
    """A number, a formula, or a table of what a function of the user's answered."""

    parameters: Parameters
    data: Any

    @staticmethod
    def of(given: Any, parameters: Parameters, asked: str, width: int = 0) -> Quantity:
        """`width` is how many numbers a function answers with; 0 is one that is no tuple."""
        if callable(given):
            return Quantity(parameters, _table(given, parameters, asked, width))
        if isinstance(given, str):
            formula(given, parameters.symbols, asked)
            return Quantity(parameters, given)
        if isinstance(given, (int, float, np.integer, np.floating)) and not isinstance(given, bool):
            return Quantity(parameters, float(given))
        raise UsageError(f"{given!r} is no size", asked=asked, legal="a number, a formula as a string, or a function")

    def evaluate(self, columns: Mapping[str, np.ndarray], n: int) -> np.ndarray:
        """float64 [n], or [n, width] of a function that answers with several numbers."""
        if isinstance(self.data, str):
            e = formula(self.data, self.parameters.symbols, "formula")
            return np.broadcast_to(evaluate([e], self.parameters.environment(columns))[0], n).astype(np.float64)
        if isinstance(self.data, dict):
            of = {tuple(key): value for key, value in self.data["rows"]}
            keys = zip(*(columns[name].tolist() for name in self.data["names"]), strict=True)
            found = [of[key] for key in keys] if self.data["names"] else [of[()]] * n
            return np.asarray(found, dtype=np.float64)
        return np.full(n, float(self.data))


class _Watched(dict[str, Any]):
    """Parameters that notice which of them are read."""

    def __init__(self, values: Mapping[str, Any], read: set[str]) -> None:
        super().__init__(values)
        self._read = read

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._read.add(name)
        return super().get(name, default)


def _table(fn: Callable[[Any], Any], parameters: Parameters, asked: str, width: int) -> dict[str, Any]:
    """The answers of a function for all values of the parameters that it reads: workers know no functions."""
    read: set[str] = set()
    while True:
        names = [n for n in parameters.values if n in read]
        sets = [next(k for k in parameters.knobs if k.name == n).values for n in names]
        if prod(map(len, sets)) > MAX_TABLE:
            why = f"it reads {', '.join(names)}, which have more than {MAX_TABLE} combinations"
            raise UsageError(why, asked=asked, legal="a formula as a string")
        first = {k.name: k.values[0] for k in parameters.knobs}
        rows: list[Any] = []
        before = len(read)
        for key in itertools.product(*sets):
            point = parameters.decode({**first, **dict(zip(names, key, strict=True))})
            rows.append([list(key), _answer(fn, _Watched(point, read), asked, width)])
            if len(read) > before:
                break
        else:
            return {"names": names, "rows": rows}


def _answer(fn: Callable[[Any], Any], point: dict[str, Any], asked: str, width: int) -> Any:
    try:
        result = fn(point)
        values = [float(v) for v in (result if isinstance(result, (tuple, list)) else [result])]
    except Exception as error:
        raise UsageError(f"it raised {type(error).__name__}: {error}", asked=f"{asked}({dict(point)!r})") from error
    if width:
        return [*values, *[1.0] * (width - len(values))][:width]
    if len(values) != 1:
        raise UsageError(f"it answered with {len(values)} numbers", asked=f"{asked}({point!r})", legal="one number")
    return values[0]


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
            raise UsageError("it is no dictionary", asked="metrics", legal=_LEGAL_OBJECTIVE)
        functions: dict[str, Metric] = {}
        for name, metric in (given or {}).items():
            if name in parameters.values or name in ("time", "times", "status", "error"):
                raise UsageError("results have that already", asked=f"metric {name!r}", legal="another name")
            if not callable(metric) and not isinstance(metric, str):
                raise UsageError(f"{metric!r} is no metric", asked=f"metrics[{name!r}]", legal=_LEGAL_OBJECTIVE)
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
            why = f"it is {value:g} for {self.metrics.parameters.decode(knobs)}"
            raise UsageError(why, asked=f"objective {self.name!r}", legal="positive numbers")
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


_LEGAL_OBJECTIVE = '{"GFLOP/s": lambda r: 2 * n / r["time"] / 1e6}, or a formula over the parameters and time'
