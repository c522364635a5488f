"""Measuring variants of a schedule against the schedule itself.

Every variant is built, verified and timed once. Those that come out as the same machine code are as fast
by definition. The others meet the schedule in play-offs, some at a time, interleaved round by round; where
it is not clear after that on which side of the limit one is, once more for longer.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from autosched.errors import MeasureError
from autosched.explaining.subject import Subject
from autosched.measure.measurer import Measurer
from autosched.measure.protocol import Job, MeasureOptions
from autosched.measure.stats import ratio_interval
from autosched.runtime.device import with_machine

__all__ = ["Bench", "Result", "Variant"]

#: Variants in one play-off: the runner keeps only so many loaded, and a round should be short.
_AT_ONCE = 10
#: One that is so many times slower gets as many rounds as an interval takes.
_CLEARLY_SLOWER = 3.0
_FEW_ROUNDS = 6
#: And one so much slower has no play-off: one measurement tells enough.
_BEYOND_DOUBT = 20.0
#: Play-offs that the schedule itself may leave before it is given up.
_ATTEMPTS = 3
#: The schedule itself may take so many times the time limit: it waits for workers to start.
_PATIENCE = 6.0


@dataclass(frozen=True)
class Variant:
    """A candidate: a trace in JSON form, or None for the schedule's own, and values of its knobs."""

    trace: list[Any] | None
    knobs: dict[str, int]

    @property
    def key(self) -> str:
        return json.dumps([self.trace, self.knobs], sort_keys=True)


@dataclass
class Result:
    """How a variant compares with the schedule. `ratio` is its time over that of the schedule, `interval`
    holds the true one with 95 % confidence; infinite, with the reason in `why`, if it does not work."""

    ratio: float = float("inf")
    interval: tuple[float, float] = (0.0, float("inf"))
    why: str = ""
    same_code: bool = False
    digest: str = ""
    samples: list[float] = field(default_factory=list)  #: seconds, in rounds
    baseline: list[float] = field(default_factory=list)  #: of the schedule, in the same rounds

    @property
    def works(self) -> bool:
        return not self.why

    def judge(self) -> None:
        """Take the ratio from the samples."""
        n = min(len(self.samples), len(self.baseline))
        self.ratio = float(np.median(np.array(self.samples[:n]) / np.array(self.baseline[:n])))
        self.interval = ratio_interval(self.samples, self.baseline)


class Bench:
    """A measuring session on one schedule. A context manager: it holds worker processes.

    limit: how much slower a variant may be without being slower, as a fraction: 0.02
    """

    def __init__(self, subject: Subject, options: MeasureOptions, rounds: int, limit: float) -> None:
        self.subject, self.rounds, self.limit = subject, rounds, limit
        w = subject.workload
        inputs = w.sample_inputs(subject.sizes or None)
        self.sizes = w.sizes_of(inputs)
        adjusted = w.adjusted(options)
        imports = (*adjusted.imports, *w.files)
        self.measurer = Measurer(
            w.graph,
            with_machine(subject.target),
            {"schedule": subject.trace},
            inputs,
            w.reference(inputs),
            MeasureOptions(**{**vars(adjusted), "imports": imports}),
            backend=w.backend,
            initial=w.initial(inputs),
            roundings=w.roundings(subject.target),
        )
        self.numbers = itertools.count(1)
        self.known: dict[str, Result] = {}
        self.jobs: dict[str, Job] = {}
        self.base = Job(0, "schedule", dict(subject.knobs), patience=_PATIENCE)
        self.seconds = float("nan")
        self.digest = ""

    def __enter__(self) -> Bench:
        try:
            (m,) = self.measurer.measure([self.base])
        except BaseException:
            self.measurer.close()
            raise
        if not m.ok:
            self.measurer.close()
            raise MeasureError(
                f"it does not work here ({m.status}): {m.error}",
                asked=self.subject.name,
                legal="`autosched doctor` says what is found on this machine",
            )
        self.seconds, self.digest = m.seconds, m.digest
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.measurer.close()

    def compare(self, variants: Iterable[Variant], tell: Callable[[str], None] = lambda text: None) -> list[Result]:
        """How each variant compares with the schedule, in the order given."""
        wanted = list(variants)
        new = {v.key: v for v in wanted if v.key not in self.known}
        if new:
            self._measure(list(new.values()), tell)
            self._play_off([self.known[key] for key in new], list(new), self.rounds, tell)
            unclear = [key for key in new if self._is_unclear(self.known[key])]
            self._play_off([self.known[key] for key in unclear], unclear, 2 * self.rounds, tell)
        return [self.known[v.key] for v in wanted]

    def confirm(self, variant: Variant, rounds: int) -> Result:
        """The variant against the schedule once more, for as many rounds, with nothing of what was found before. What
        is the same code is as fast, whatever the samples say."""
        job = self.jobs.get(variant.key, self.base)
        fresh = Result(digest=self.known[variant.key].digest if variant.key in self.known else self.digest)
        self._meet([(fresh, job)], rounds)
        if fresh.works and fresh.digest == self.digest:
            fresh.ratio, fresh.interval, fresh.same_code = 1.0, (1.0, 1.0), True
        return fresh

    # -- steps -------------------------------------------------------------------------------------
    def _measure(self, variants: Sequence[Variant], tell: Callable[[str], None]) -> None:
        keys = {}
        for v in variants:
            number = next(self.numbers)
            keys[number] = v.key
            self.jobs[v.key] = Job(number, f"variant {number}", dict(v.knobs), trace=v.trace)
        tell(f"building and measuring {len(variants)} variant{'' if len(variants) == 1 else 's'}")
        for m in self.measurer.measure([self.jobs[v.key] for v in variants]):
            if not m.ok:
                result = Result(why=_in_few_words(m.status, m.error))
            elif m.digest == self.digest:
                result = Result(1.0, (1.0, 1.0), same_code=True, digest=m.digest)
            else:
                result = Result(m.seconds / self.seconds, digest=m.digest)
            self.known[keys[m.job.id]] = result

    def _play_off(
        self, results: Sequence[Result], keys: Sequence[str], rounds: int, tell: Callable[[str], None]
    ) -> None:
        """Interleaved rounds of those whose ratio is not known well yet."""
        left = [(r, self.jobs[key]) for r, key in zip(results, keys, strict=True) if r.works and not r.same_code]
        left = sorted((x for x in left if x[0].ratio < _BEYOND_DOUBT), key=lambda x: x[0].ratio)
        near = [x for x in left if x[0].ratio < _CLEARLY_SLOWER]
        far = [x for x in left if x[0].ratio >= _CLEARLY_SLOWER]
        parts = [(near[i : i + _AT_ONCE], rounds) for i in range(0, len(near), _AT_ONCE)]
        parts += [(far[i : i + _AT_ONCE], _FEW_ROUNDS) for i in range(0, len(far), _AT_ONCE)]
        for k, (part, count) in enumerate(parts, start=1):
            tell(f"play-off {k} of {len(parts)}: {len(part)} against the schedule, {count} rounds")
            self._meet(part, count)

    def _meet(self, part: Sequence[tuple[Result, Job]], rounds: int) -> None:
        for _ in range(_ATTEMPTS):  # on a machine that others load, even this one may once take too long
            found = self.measurer.playoff([self.base, *(job for _, job in part)], rounds)
            if baseline := found[0][1]:
                break
        else:
            why = self.measurer.playoff_errors.get(self.base.id, "")
            raise MeasureError(f"the schedule itself left the play-off: {why}", asked=self.subject.name)
        self.seconds = float(np.median(baseline))
        for (result, job), (_, samples) in zip(part, found[1:], strict=True):
            if not samples:
                result.why = _in_few_words(*self.measurer.playoff_errors[job.id].split(": ", 1))
                continue
            result.samples += samples
            result.baseline += baseline[: len(samples)]
            result.judge()

    def _is_unclear(self, r: Result) -> bool:
        low, high = r.interval
        return r.works and not r.same_code and r.ratio < _CLEARLY_SLOWER and low <= 1 + self.limit < high


_STATUS = {
    "constraints": "",
    "correctness": "wrong result: ",
    "timeout": "takes too long: ",
    "build_timeout": "takes too long to compile: ",
    "compile": "does not compile: ",
    "runtime": "does not run: ",
    "crash": "crashes: ",
    "lost": "could not be measured: ",
}


def _in_few_words(status: str, error: str = "") -> str:
    """Why a variant does not work, on one line: without the call that it is about and what is legal instead."""
    why = " ".join(error.split("\n")[0].split())
    if status == "constraints":
        why = why.partition(": ")[2] or why
        why = why.partition("; ")[0]
    why = why if len(why) <= 160 else why[:157] + "..."
    return _STATUS.get(status, f"{status}: ") + why
