"""`verify`: the best records of this machine built again, checked, and timed in turns with the default schedule."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autosched.errors import AutoschedError, VerificationError, is_finite
from autosched.explaining.compared import default_of, in_turns
from autosched.explaining.explanation import ROUNDS, Bench, Result, Variant
from autosched.explaining.subject import Subject, is_here, of_record, trace_of
from autosched.measure.protocol import MeasureOptions
from autosched.measure.stats import speedup_interval
from autosched.noise import typical
from autosched.records import IMPORTED, Record, best_of_each, by_task, latest, new_id, sealed, task_text, timestamp
from autosched.report.text import ratio as ratio_text
from autosched.report.text import seconds as seconds_text
from autosched.runtime.device import describe_device, resolve_target, versions
from autosched.space.space import DEFAULT
from autosched.space.workload import Workload

#: what a `Verified` can be, the worst first
STATUSES = {
    "wrong": "its result is wrong",
    "slower": "it is slower than recorded by more than was asked for",
    "failed": "it cannot be built or run any more",
    "ok": "its result is right, and it is not known to be slower",
}


@dataclass(frozen=True)
class Verified:
    """A record, measured again. Times are seconds.

    recorded: what the record, or the log, says of the speed-up over the default schedule; NaN where neither does
    speedup:  the same, measured now in turns; NaN where it was not measured
    interval: holds the true speed-up with 95 % confidence
    why:      the reason for a status other than ok
    """

    record: Record
    status: str
    seconds: float = math.nan
    speedup: float = math.nan
    interval: tuple[float, float] = (0.0, math.inf)
    recorded: float = math.nan
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        r = self.record
        about = {"record": r.id, "task": task_text(r), "status": self.status, "why": self.why}
        times = {"seconds": self.seconds, "recorded_seconds": r.seconds}
        speedups = {"speedup": self.speedup, "interval": list(self.interval), "recorded_speedup": self.recorded}
        return {**about, **times, **speedups}

    def __str__(self) -> str:
        parts = [f"{self.status:6}  {task_text(self.record)}, record {self.record.id}"]
        if math.isfinite(self.seconds):
            parts.append(f"{seconds_text(self.seconds)}, recorded {seconds_text(self.record.seconds)}")
        if math.isfinite(self.speedup):
            low, high = self.interval
            was = f", recorded {ratio_text(self.recorded)}" if math.isfinite(self.recorded) else ""
            parts.append(f"{ratio_text(self.speedup)} over the default ({low:.3g} - {high:.3g}){was}")
        return "\n        ".join([*parts, *([self.why] if self.why else [])])


@dataclass
class Verification:
    """The result of `verify`; `elsewhere` counts tasks of other devices and of imported logs, which are passed over."""

    rows: list[Verified] = field(default_factory=list)
    elsewhere: int = 0

    def counts(self) -> dict[str, int]:
        """How many there are of each status, the worst first."""
        found = Counter(row.status for row in self.rows)
        return {status: found[status] for status in STATUSES if found[status]}


def verify(
    records: Iterable[Record],
    *,
    regress: float | None = None,
    rounds: int = ROUNDS,
    measure: MeasureOptions | None = None,
    progress: Callable[[str], None] | None = None,
) -> Verification:
    """Build the best record of each task of this machine again, compare its result with the reference, and time it.

    regress: also time it in turns with the default schedule, and call it slower where both say that it takes more than
             this fraction longer than recorded: its time, and all of the interval of the speed-up over the default
             schedule. Where no speed-up is recorded, the time alone
    rounds:  of the play-off with the default schedule

    A record that cannot be applied any more, or does not work, is a row with the reason; nothing is raised for it.
    """
    given = list(records)
    tell = progress or (lambda text: None)
    found = Verification()
    baselines = {
        task: min((r.seconds for r in latest(of) if r.ok and r.sketch == DEFAULT), default=math.nan)
        for task, of in by_task(given).items()
    }
    for task, r in best_of_each(given).items():
        if not is_here(r) or IMPORTED in r.extra:  # the program of an imported record is in no search space
            found.elsewhere += 1
            continue
        tell(task_text(r))
        found.rows.append(_verified(r, baselines[task], regress, rounds, measure or MeasureOptions()))
    return found


def _verified(r: Record, baseline: float, regress: float | None, rounds: int, options: MeasureOptions) -> Verified:
    recorded = _recorded(r, baseline)
    try:
        subject = of_record(r, None, None)
        with Bench(subject, options, rounds, limit=0.0) as bench:
            speedup, interval = (math.nan, (0.0, math.inf)) if regress is None else _over_default(bench, subject, r)
            seconds = bench.seconds
    except VerificationError as error:
        return Verified(r, "wrong", why=error.why, recorded=recorded)
    except AutoschedError as error:
        return Verified(r, "failed", why=error.why, recorded=recorded)
    why = "" if regress is None else _slower(seconds / r.seconds, interval, recorded, regress)
    return Verified(r, "slower" if why else "ok", seconds, speedup, interval, recorded, why)


def _recorded(r: Record, baseline: float) -> float:
    """The speed-up over the default schedule that was recorded: by a play-off, or else by the log."""
    said = None if r.playoff is None else r.playoff.get("speedup")
    if r.sketch == DEFAULT:
        return math.nan
    return float(said) if is_finite(said) and said > 0 else baseline / r.seconds


def _slower(times: float, interval: Sequence[float], recorded: float, regress: float) -> str:
    """The reason why it is slower than recorded by more than `regress`; empty where it is not known to be."""
    if times <= 1 + regress:
        return ""
    if math.isfinite(recorded) and math.isfinite(interval[1]):
        lost = recorded / interval[1] - 1
        least = (
            f"at least {lost:.0%} of its speed-up over the default schedule is lost, and it takes {times:.2f}x the time"
        )
        return least if lost > regress else ""
    return f"it takes {times:.2f}x the time; no speed-up over the default schedule is known"


def _over_default(bench: Bench, subject: Subject, r: Record) -> tuple[float, tuple[float, float]]:
    """How many times as fast as the default schedule it is, and the interval; unknown where that does not run."""
    found = None if r.sketch == DEFAULT else against_default(bench, subject)
    if found is None or not found.works:
        return math.nan, (0.0, math.inf)
    if found.same_code:
        return 1.0, (1.0, 1.0)
    return typical(found.samples) / typical(found.baseline), speedup_interval(found.samples, found.baseline)


def against_default(bench: Bench, subject: Subject) -> Result:
    """The default schedule, timed in turns with the one of the bench."""
    trace, knobs = default_of(subject.workload, subject.target, subject.sizes)
    return in_turns(bench, Variant(None if subject.is_kernel else trace, knobs))


def measured_here(r: Record, w: Workload) -> tuple[Record, float]:
    """A record from elsewhere, built, verified and timed on this machine, and its speed-up over the default schedule.

    It is a record of its own, which `build` may take. Raises MeasureError where it does not work here,
    VerificationError where its result is wrong, TargetError or DeviceError.
    """
    to = w.compiled_for(resolve_target(r.target))
    subject = Subject(w, to, trace_of(r, w), dict(r.knobs), dict(r.sizes), r)
    with Bench(subject, MeasureOptions(), ROUNDS, limit=0.0) as bench:
        found = against_default(bench, subject)
        sizes, samples = bench.sizes, tuple(found.baseline) or (bench.seconds,)
    speedup = typical(found.samples) / typical(samples) if found.samples else 1.0 if found.same_code else math.nan
    run = new_id()
    playoff = {"playoff": {"run": run, "winner": True, "speedup": speedup}} if found.works else {}
    made = replace(
        r, workload={**r.workload, "sizes": sizes}, target=str(to), device=describe_device(to), versions=versions(),
        samples=samples, status="ok", error="", verified="full", run=run, id=new_id(), at=timestamp(),
        extra={**r.extra, **playoff},
    )  # fmt: skip
    return sealed(made), speedup
