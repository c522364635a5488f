"""`tune(trials=0)`: the choice of the analytical model, with no search.

Its first choice is built once and verified in the isolated worker, like any candidate, then timed beside the default
schedule; where it fails or is slower, the next choice follows. That costs about as much as two trials, and nobody gets
a schedule that does not work or is worse than none. It is recorded as `predicted`, without samples, so that `build`
finds it where nothing better is known.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from autosched.measure.measurer import Measurer
from autosched.measure.protocol import Job
from autosched.measure.stats import judge
from autosched.model import AnalyticalModel
from autosched.records import PREDICTED, Record
from autosched.search.predicted import Predicted, look_ahead
from autosched.tuning.budget import LEAST_ROUNDS
from autosched.tuning.events import PlayoffDone, TuneResult
from autosched.tuning.playoff import DEFAULT, PlayoffOutcome

if TYPE_CHECKING:
    from autosched.tuning.run import Run

#: Choices that are built, at most, until one works and is faster than the default schedule.
ATTEMPTS = 4


def predict(run: Run, prior: AnalyticalModel) -> TuneResult:
    """Choose, check, compare with the default schedule, record; nothing of the run was measured."""
    run.say(run.started())
    begun = time.monotonic()
    outlook = look_ahead(run.space, prior.seconds, seed=run.options.seed)
    run.note_failures()
    if not outlook.choices and (impossible := run.space.impossible()) is not None:
        raise impossible
    looked = f"{outlook.points} points of {len(outlook.choices)} of {len(run.space.sketches)} sketches"
    run.note(f"an analytical model chose from {looked} in {time.monotonic() - begun:.1f} s; there was no search")
    measured = sum(r.ok and r.sketch != DEFAULT for r in run.earlier)
    if measured:
        run.note(f"{measured} measured records exist, and `build` prefers those to a prediction")
    found = _Found(math.nan, math.nan, None)
    with run.open_measurer() as measurer:
        for choice in outlook.choices[:ATTEMPTS]:
            found = _checked(run, measurer, choice, found.default_s)
            if found.record is not None:
                break
    speedup = found.default_s / found.seconds
    result = run.result(PlayoffOutcome(None, found.seconds, speedup, (0.0, math.inf)))
    result = replace(result, default_seconds=found.default_s, points=run.space.size, notes=list(run.notes))
    if (r := found.record) is not None:
        text = run.workload.as_text(r.trace, r.knobs)
        result = replace(result, predicted=r, knobs=dict(r.knobs), schedule_python=text)
    else:
        result = replace(result, seconds=found.default_s)
    run.say(PlayoffDone(result))
    return result


def untried(run: Run, result: TuneResult) -> TuneResult:
    """The result of a run that had no time for a trial: with what would have been tried first, as a prediction.

    It was not checked, so it is not recorded; `build` predicts for itself, and has the time for it.
    """
    first = next(iter([*run.given_up, *run.proposals.at_hand]), None)
    if result.best is not None or run.prior is None or first is None:
        return result
    sketch = run.space.sketches[first.sketch]
    seconds = float(run.prior.seconds(sketch.features(np.array([first.indices], dtype=np.int64).reshape(1, -1)))[0])
    knobs = sketch.values(first.indices)
    r = run.record(sketch.name, sketch.trace, knobs, 0, status=PREDICTED, strategy=PREDICTED, verified="no")
    text = run.workload.as_text(sketch.trace, knobs)
    return replace(result, predicted=r, seconds=seconds, speedup=math.nan, knobs=knobs, schedule_python=text)


@dataclass(frozen=True)
class _Found:
    """Seconds of a choice and of the default schedule, NaN where they are not known; no record where it is slower."""

    seconds: float
    default_s: float
    record: Record | None


def _checked(run: Run, measurer: Measurer, choice: Predicted, default_s: float) -> _Found:
    """Check one choice; it is recorded where it builds, is right, and is no slower than the default schedule."""
    sketch = run.space.sketches[choice.candidate.sketch]
    job = Job(1, sketch.name, sketch.values(choice.candidate.indices))
    (m,) = measurer.measure([job])
    r = run.measured_record(m, sketch.trace, trial=0, strategy=PREDICTED)
    if not m.ok:
        run.note(f"the model's choice in {sketch.name} fails ({m.status}): {m.error}", "warning")
        run.save(r)
        return _Found(math.nan, default_s, None)
    seconds, default_s = _compared(run, measurer, job, m.seconds)
    if default_s < seconds:
        run.note(f"the model's choice in {sketch.name} takes {seconds * 1e3:.3g} ms, longer than the default schedule")
        return _Found(seconds, default_s, None)
    extra = {name: value for name, value in r.extra.items() if name != "raced"} | {"predicted_s": choice.seconds}
    r = replace(r, status=PREDICTED, samples=(), error="", extra=extra)
    run.save(r)
    return _Found(seconds, default_s, r)


def _compared(run: Run, measurer: Measurer, job: Job, seconds: float) -> tuple[float, float]:
    """(seconds of a choice, seconds of the default schedule), which is given up as soon as it has clearly lost.

    The second is smaller only where that is beyond chance, and NaN where the default schedule does not work.
    """
    default = Job(0, DEFAULT, run.default_knobs)
    (m,) = measurer.measure([default])
    if not m.ok or m.raced:
        return seconds, m.seconds if m.ok else math.nan
    samples = [s for _, s in measurer.playoff([job, default], LEAST_ROUNDS)]
    if not all(samples):
        return seconds, m.seconds if samples[0] else math.nan
    verdict = judge(samples)
    mine, other = verdict.medians
    return mine, other if verdict.winner == 1 else max(mine, other)
