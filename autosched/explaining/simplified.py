"""`simplify`: leave out what is worth nothing, one call after the other, as long as it stays as fast."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autosched.errors import UsageError
from autosched.explaining.explanation import (
    LIMIT,
    ROUNDS,
    Bench,
    Explanation,
    Result,
    Row,
    explain_on,
    undoings_of,
    variant_of,
)
from autosched.explaining.subject import Explainable, Subject, subject_of
from autosched.measure.protocol import MeasureOptions
from autosched.records import Record, RecordLog, default_path, find_folder, new_id, sealed
from autosched.report.text import plural
from autosched.report.text import seconds as seconds_text
from autosched.runtime.device import describe_device, versions
from autosched.schedule.trace import FOR_TUNING, Trace
from autosched.target import TargetLike
from autosched.te.tensor import Tensor

#: the strategy that records of simplified schedules name
STRATEGY = "simplify"
#: A call that could not go at first may go when others have gone.
_PASSES = 3
#: What is worth more than this by itself is not tried again.
_WORTH_A_TRY = 1.1


@dataclass(frozen=True)
class Simplified:
    """The shortest schedule found that is as fast.

    ratio, interval: its time over that of the original, of the last play-off; the interval holds the true
                     one with 95 % confidence
    seconds:         the time of the original, as the explanation has it, times the ratio
    removed:         the calls that are gone, as Python, in the order of the original
    explanation:     what each call of the original is worth
    written:         the file that the record of it was appended to
    """

    explanation: Explanation
    removed: tuple[str, ...]
    ratio: float
    interval: tuple[float, float]
    seconds: float
    trace: list[Any]
    knobs: dict[str, int]
    schedule_python: str
    record: Record | None = None
    written: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        numbers = {"ratio": self.ratio, "interval": list(self.interval), "seconds": self.seconds}
        schedule = {"schedule_python": self.schedule_python, "trace": self.trace, "knobs": self.knobs}
        log = (None, None) if self.record is None else (self.record.id, str(self.written))
        record = dict(zip(("record", "written"), log, strict=True))
        return {**numbers, "removed": list(self.removed), **schedule, **record, "original": self.explanation.to_json()}

    def __str__(self) -> str:
        return "\n".join([*self.headline(), "", self.schedule_python.rstrip("\n")])

    def headline(self) -> list[str]:
        """The result in a few lines."""
        lines = self.explanation.headline()
        if not self.removed:
            return [*lines, "nothing can go"]
        low, high = self.interval
        gone = plural(len(self.removed), "call")
        took = f"{self.ratio:.2f} times the time ({low:.2f} - {high:.2f})"
        return [*lines, f"without {gone}: {seconds_text(self.seconds)}, {took}"]


def simplify(
    what: Explainable,
    target: TargetLike = None,
    *,
    records: str | os.PathLike[str] | None = None,
    sizes: Mapping[str, int] | None = None,
    knobs: Mapping[str, int] | None = None,
    args: Sequence[Tensor] | None = None,
    rounds: int = ROUNDS,
    measure: MeasureOptions | None = None,
    write: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Simplified:
    """Leave out of a schedule what is worth nothing within 2 %, greedily.

    What is worth least goes first; after each the rest is measured against the original, interleaved, and at the
    end once more for longer. With `write`, what is left becomes a record of its own, in the folder that records
    go to. The other arguments and the errors are those of `explain`; a kernel without a schedule raises
    UsageError, and so does `write` for what is no record of a workload.
    """
    subject = subject_of(what, target, records=records, sizes=sizes, knobs=knobs, args=args)
    if subject.is_kernel:
        raise UsageError(
            "it is a kernel that somebody wrote, which has no schedule",
            asked=f"simplify {subject.workload.name}",
            legal="`explain` says what its parameters are worth",
        )
    if write and subject.record is None:
        why = "a schedule of no record has no workload to be recorded for"
        raise UsageError(why, asked="simplify(write=True)", legal="a workload or a record")
    tell = progress or (lambda text: None)
    with Bench(subject, measure or MeasureOptions(), rounds, LIMIT) as bench:
        explanation = explain_on(bench, tell)
        states, result = _Search(bench, explanation.rows, tell).run()
    found = _report(subject, explanation, states[-1], result)
    return _written(found, subject, bench.sizes, result, records) if write and found.removed else found


@dataclass(frozen=True)
class _State:
    """A schedule on the way: its trace, and for each instruction the position of the original's."""

    trace: Trace
    origin: tuple[int, ...]
    options: frozenset[tuple[int, str]] = frozenset()  #: that are gone, by the position in the original


class _Search:
    """Removing call after call. `run` gives the states passed through, and how the last one compares."""

    def __init__(self, bench: Bench, rows: Sequence[Row], tell: Callable[[str], None]) -> None:
        self.bench, self.rows, self.tell = bench, [r for r in rows if r.primitive != "knob"], tell
        self.args, self.knobs = bench.subject.args, bench.subject.knobs
        trace = list(enumerate(Trace.from_json(bench.subject.trace)))
        kept = [(p, i) for p, i in trace if i.kind not in FOR_TUNING]
        self.states = [_State(Trace([i for _, i in kept]), tuple(p for p, _ in kept))]

    def run(self) -> tuple[list[_State], Result]:
        perhaps = [r for r in self.rows if r.verdict == "not alone" or r.ratio < _WORTH_A_TRY]
        todo = sorted((r for r in perhaps if r.verdict not in ("not alone", "keep")), key=lambda r: (r.ratio, -r.at))
        for _ in range(_PASSES):
            before = len(self.states)
            for row in todo:
                self._try(row)
            if len(self.states) == before:
                break
            todo = sorted(perhaps, key=lambda r: (r.ratio, -r.at))
        return self.states, self._confirm()

    def _try(self, row: Row) -> None:
        """Leave one more call out, if it is still there and nothing is lost by it."""
        now = self.states[-1]
        if row.at not in now.origin or (row.option and (row.at, row.option) in now.options):
            return
        undone = undoings_of(now.trace, now.origin.index(row.at), row.option, self.args, self.knobs)
        ways = [(u.trace, u.origin) for u in undone if u.trace is not None]
        results = self.bench.compare([variant_of(trace, self.knobs) for trace, _ in ways])
        fast = [k for k, r in enumerate(results) if r.works and r.ratio <= 1 + self.bench.limit]
        if not fast:
            self.tell(f"stays: {row.line}")
            return
        _, ratio, k = min((len(ways[k][0]), results[k].ratio, k) for k in fast)
        trace, kept = ways[k]
        gone = now.options | {(row.at, row.option)} if row.option else now.options
        self.states.append(_State(trace, tuple(now.origin[p] for p in kept), gone))
        self.tell(f"goes ({ratio:.2f}): {row.line}{f', without {row.option}' if row.option else ''}")

    def _confirm(self) -> Result:
        """The last state against the original, for long; back to the one before as long as it is slower."""
        while True:
            variant = variant_of(self.states[-1].trace, self.knobs)
            if len(self.states) > 1:
                self.bench.compare([variant])
            self.tell("confirming: the shortest schedule against the original")
            found = self.bench.confirm(variant, 2 * self.bench.rounds + 1)
            if found.works and found.ratio <= 1 + self.bench.limit:
                return found
            if len(self.states) > 1:
                self.states.pop()
            if len(self.states) == 1:
                return self.bench.confirm(variant_of(self.states[0].trace, self.knobs), 2 * self.bench.rounds + 1)


def _report(subject: Subject, explanation: Explanation, state: _State, result: Result) -> Simplified:
    trace = Trace.from_json(subject.trace)
    calls = [(p, i) for p, i in enumerate(trace) if i.kind not in (*FOR_TUNING, "define_knob")]
    removed = [i.as_python() for p, i in calls if p not in state.origin]
    options = [f"{trace[p].as_python()}  # only {option}" for p, option in sorted(state.options) if p in state.origin]
    variant = variant_of(state.trace, subject.knobs)
    return Simplified(
        explanation,
        (*removed, *options),
        result.ratio,
        result.interval,
        result.ratio * explanation.seconds,
        state.trace.to_json(),
        variant.knobs,
        state.trace.as_python(knobs=variant.knobs),
    )


def _written(
    found: Simplified,
    subject: Subject,
    sizes: dict[str, int],
    result: Result,
    records: str | os.PathLike[str] | None,
) -> Simplified:
    """The same, appended to the log of its workload."""
    origin = subject.record
    assert origin is not None
    extra = {"simplified": {"from": origin.id, "ratio": round(result.ratio, 4)}}
    record = Record(
        workload={**origin.workload, "sizes": sizes},
        target=str(subject.target),
        device=describe_device(subject.target),
        versions=versions(),
        sketch=f"{origin.sketch} simplified",
        trace=found.trace,
        knobs=found.knobs,
        status="ok",
        samples=tuple(result.samples),
        verified="full",
        strategy=STRATEGY,
        run=new_id(),
        extra=extra,
    )
    log = RecordLog(default_path(subject.workload.name, subject.target.kind, find_folder(records)))
    log.append(sealed(record))
    return replace(found, record=record, written=log.path)
