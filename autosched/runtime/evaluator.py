"""Timing a compiled function: what `Module.time_evaluator` makes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from autosched.errors import check_positive, expect
from autosched.ir.functions import get_global_func

if TYPE_CHECKING:
    from autosched.runtime.function import CompiledFunction


_GROWTH = 1.618  #: at least so many times more calls, when those before did not last long enough
#: what is 0 unless given
_OR_ZERO = ("min_repeat_ms", "limit_zero_time_iterations", "cooldown_interval_ms", "cache_flush_bytes")


@dataclass(frozen=True)
class BenchmarkResult:
    """Seconds per call. `str()` is a table in milliseconds."""

    results: tuple[float, ...]

    @property
    def min(self) -> float:
        return float(np.min(self.results))

    @property
    def mean(self) -> float:
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        return float(np.median(self.results))

    @property
    def max(self) -> float:
        return float(np.max(self.results))

    @property
    def std(self) -> float:
        return float(np.std(self.results))

    def __str__(self) -> str:
        columns = ("mean", "median", "max", "min", "std")
        head = "".join(f"{f'{name} (ms)':^14}" for name in columns)
        values = "".join(f"{getattr(self, name) * 1e3:^14.4f}" for name in columns)
        return f"Execution time summary:\n{head.rstrip()}\n{values.rstrip()}"


@dataclass(frozen=True)
class TimeEvaluator:
    """Call it with a function's arrays; see `Module.time_evaluator` for the fields."""

    function: CompiledFunction
    number: int = 10
    repeat: int = 1
    min_repeat_ms: int = 0
    limit_zero_time_iterations: int = 100
    cooldown_interval_ms: int = 0
    repeats_to_cooldown: int = 1
    cache_flush_bytes: int = 0
    f_preproc: str = ""

    def __post_init__(self) -> None:
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.type == "int"}
        check_positive("time_evaluator", or_zero=_OR_ZERO, or_none=False, **given)
        asked = "time_evaluator(f_preproc=..)"
        expect(self.f_preproc, "the name of a function", isinstance(self.f_preproc, str), asked)

    def __call__(self, *arrays: object) -> BenchmarkResult:
        """Outputs are allocated when left out. Raises what a call raises."""
        prepare = get_global_func(self.f_preproc) if self.f_preproc else None
        with self.function.bound(arrays) as bound:
            bound.run()
            samples: list[float] = []
            number = self.number
            for i in range(self.repeat):
                if prepare is not None:
                    prepare(*arrays)
                if self.cache_flush_bytes:
                    np.ones(self.cache_flush_bytes, np.uint8).sum()
                seconds, number = self._sample(bound.time, number)
                samples.append(seconds)
                if self.cooldown_interval_ms and (i + 1) % self.repeats_to_cooldown == 0:
                    time.sleep(self.cooldown_interval_ms * 1e-3)
        return BenchmarkResult(tuple(samples))

    def _sample(self, timed: Callable[[int], float], number: int) -> tuple[float, int]:
        """Seconds per call, and how many calls that took."""
        zeros = 0
        while True:
            seconds = timed(number)
            lasted = seconds * number * 1e3
            zeros += seconds == 0
            if lasted >= self.min_repeat_ms or zeros >= self.limit_zero_time_iterations:
                return seconds, number
            wanted = self.min_repeat_ms / (seconds * 1e3) + 1 if seconds else 0.0
            number = int(max(wanted, number * _GROWTH, number + 1))
