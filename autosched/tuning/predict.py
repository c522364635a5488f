"""`tune(trials=0)`: the choice of the analytical model, with no time taken of anything.

What it likes best is built once and its output compared with the reference, in the isolated worker, like any
candidate; the next one is taken where that fails. That costs about as much as one trial, and nobody is handed a
schedule that does not work. It is recorded as `predicted`, without samples, so that `build` finds it where nothing
better is known.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from autosched.measure.measurer import Measurer
from autosched.measure.protocol import Job
from autosched.model import AnalyticalModel, prior_for
from autosched.records import PREDICTED, Record
from autosched.runtime.device import with_machine
from autosched.search.predicted import Predicted, look_ahead
from autosched.tuning.events import PlayoffDone, TuneResult
from autosched.tuning.playoff import DEFAULT, Outcome

if TYPE_CHECKING:
    from autosched.tuning.run import Run

__all__ = ["predict", "prior_of"]

#: How many choices are built until one works.
ATTEMPTS = 4


def prior_of(run: Run) -> AnalyticalModel | None:
    """The analytical model of this machine; None where it has nothing to say, or where it is not time that counts."""
    if run.costs.objective is not None:
        return None
    target, names = run.target, run.space.feature_names
    limits = with_machine(target).limits
    return prior_for(names, is_gpu_style=target.is_gpu_style, units=target.num_threads, limits=limits)


def predict(run: Run, prior: AnalyticalModel, seed: int) -> TuneResult:
    """Choose, check, record; `run` is prepared, and nothing of it was measured."""
    run.strategy_name, run.seed, run.resumed = PREDICTED, seed, 0
    run.tell(run.started())
    begun = time.monotonic()
    outlook = look_ahead(run.space, prior.seconds, seed=seed)
    run.note_failures()
    if not outlook.choices and (impossible := run.space.impossible()) is not None:
        raise impossible
    looked = f"{outlook.points} points of {len(outlook.choices)} of {len(run.space.sketches)} sketches"
    run.note(f"chosen by the analytical model from {looked} in {time.monotonic() - begun:.1f} s; nothing was timed")
    measured = sum(r.ok and r.sketch != DEFAULT for r in run.earlier)
    if measured:
        run.note(f"{measured} measured records are there, and `build` prefers those to a prediction")
    run.options = replace(run.options, repeat=1, number=1, race=False)
    found: Record | None = None
    with run.open_measurer() as measurer:
        for choice in outlook.choices[:ATTEMPTS]:
            found = _checked(run, measurer, choice)
            if found is not None:
                break
    result = run.result(Outcome(None, math.nan, math.nan, (0.0, math.inf)))
    result = replace(result, default_seconds=math.nan, points=run.space.size, notes=list(run.notes))
    if found is not None:
        text = run.workload.as_text(found.trace, found.knobs)
        seconds, knobs = found.predicted_s, dict(found.knobs)
        result = replace(result, predicted=found, seconds=seconds, knobs=knobs, schedule_python=text)
    run.tell(PlayoffDone(result))
    return result


def _checked(run: Run, measurer: Measurer, choice: Predicted) -> Record | None:
    """The record of a choice that builds and is right; None, and a note, for another."""
    sketch = run.space.sketches[choice.candidate.sketch]
    (m,) = measurer.measure([Job(0, sketch.name, sketch.values(choice.candidate.indices))])
    r = run.record(m, sketch.trace, m.job.knobs, trial=0)
    if not m.ok:
        run.note(f"the model's choice in {sketch.name} fails ({m.status}): {m.error}", "warning")
        run.save(r)
        return None
    extra = {name: value for name, value in r.extra.items() if name != "raced"} | {"predicted_s": choice.seconds}
    r = replace(r, status=PREDICTED, samples=(), error="", extra=extra)
    run.save(r)
    return r
