"""The end of a run: the best few meet the default schedule, interleaved, before anyone is called a winner.

    records of this run and earlier ones -> finalists -> samples, round by round -> verdict -> outcome

The run has the records, their costs and the measurer. The lines of the finalists are written to its log again, with
the verdict.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autosched.measure.playoff import LATE
from autosched.measure.protocol import Job
from autosched.measure.stats import PlayoffResult, judge, speedup_interval
from autosched.noise import typical
from autosched.records import Record, ranked
from autosched.space.space import DEFAULT
from autosched.tuning.budget import FINALISTS, ROUNDS, moment

if TYPE_CHECKING:
    from autosched.tuning.run import Run

#: The default schedule does not take part where it is this many times slower than the best.
BEYOND_DOUBT = 20.0


@dataclass(frozen=True)
class PlayoffOutcome:
    """The result of a play-off. `best` is None where the default schedule won.

    `interval` encloses the speed-up; `tied` has the labels of those that are not significantly slower.
    """

    best: Record | None
    seconds: float
    speedup: float = 1.0
    interval: tuple[float, float] = (1.0, 1.0)
    tied: tuple[str, ...] = ()
    played: tuple[Record, ...] = ()  #: those who took part, with the samples of the play-off
    default_samples: tuple[float, ...] = ()  #: seconds of the default schedule, where it took part, too


def label(r: Record | Job) -> str:
    """A schedule in one line: its sketch and knobs."""
    knobs = ", ".join(f"{k}={v}" for k, v in r.knobs.items())
    return f"{r.sketch}({knobs})"


def finalists_of(run: Run) -> list[Record]:
    """The best of this run and of earlier ones, each schedule once."""
    ours = ranked([*run.earlier, *run.measured], key=run.workload.key, target=run.target, device=run.device["name"])
    found: list[Record] = []
    seen: set[str] = set()
    for record in sorted((c.record for c in ours), key=run.costs.of):
        playable = run.candidate_of(record) is not None or record is run.former_best
        if record.sketch != DEFAULT and playable and label(record) not in seen and run.costs.of(record) < float("inf"):
            seen.add(label(record))
            found.append(record)
    return found[:FINALISTS]


def hold(run: Run, finalists: list[Record], *, rounds: int = ROUNDS) -> PlayoffOutcome:
    """Measure the finalists and the default schedule in turns, and decide who won."""
    finalists = sorted(finalists, key=run.costs.of)
    if run.default_record is None:  # it had no time to run
        return without(run)
    if not finalists:
        if run.settled is None and run.measured:
            run.note("no candidate could be measured, so the default schedule stays", "warning")
        return _nothing(run)
    # Its one measurement will do. It is not judged, either: a constant ties with anything that is noisy enough.
    is_hopeless = _default_cost(run) > BEYOND_DOUBT * run.costs.of(finalists[0])
    jobs = [] if is_hopeless else [Job(0, DEFAULT, run.default_knobs)]
    jobs += [Job(i, run.name_of(r), r.knobs) for i, r in enumerate(finalists, start=1)]
    until = moment(min(run.budget.left_for_playoff(run.elapsed), run.ends_at - time.monotonic()))
    samples = [s for _, s in run.measurer.playoff(jobs, rounds, until)]
    run.neighbours.add_playoff(run.measurer.playoff_strains)
    names = {job.id: job.sketch for job in jobs}
    errors = run.measurer.playoff_errors
    for job, why in errors.items():
        if why != LATE:
            run.note(f"{names[job]} failed in the play-off: {why}", "warning")
    played: list[Record | None] = [*finalists] if is_hopeless else [None, *finalists]
    knobs = [run.default_knobs if r is None else r.knobs for r in played]
    costs = [run.costs.samples(k, s) for k, s in zip(knobs, samples, strict=True)]
    verdict = judge(costs)
    if verdict.winner is None or not (is_hopeless or samples[0]):
        what = "the budget left no time for a play-off" if LATE in errors.values() else "the play-off failed"
        run.note(f"{what}, so the result compares measurements that were not taken side by side", "warning")
        return without(run)
    return _decide(run, played, samples, costs, verdict)


def without(run: Run) -> PlayoffOutcome:
    """The best single measurement as the outcome, which may be the default schedule's."""
    finalists = finalists_of(run)
    if not finalists or (run.default_record is not None and _default_cost(run) <= run.costs.of(finalists[0])):
        return _nothing(run)
    best = finalists[0]
    speedup = _default_cost(run) / run.costs.of(best) if run.default_record is not None else math.nan
    return PlayoffOutcome(best, best.seconds, speedup, (0.0, math.inf))


def _nothing(run: Run) -> PlayoffOutcome:
    """The default schedule; no times where it has not run either."""
    if run.default_record is None:
        return PlayoffOutcome(None, math.nan, math.nan)
    return PlayoffOutcome(None, run.default_seconds)


def _default_cost(run: Run) -> float:
    return run.costs.samples(run.default_knobs, [run.default_seconds])[0]


def _decide(
    run: Run,
    played: list[Record | None],
    samples: list[list[float]],
    costs: list[list[float]],
    verdict: PlayoffResult,
) -> PlayoffOutcome:
    """Write the verdict to the log for every finalist; `played` has None for the default schedule."""
    assert verdict.winner is not None
    winner = played[verdict.winner]
    has_default = None in played
    default_costs = costs[0] if has_default else [_default_cost(run)] * len(costs[verdict.winner])
    default_cost = verdict.medians[0] if has_default else default_costs[0]
    lines: list[Record | None] = []
    for i, r in enumerate(played):
        line = r
        if r is not None and samples[i]:
            won, speedup = i == verdict.winner, round(default_cost / verdict.medians[i], 4)
            line = r.with_playoff(tuple(samples[i]), run=run.run_id, winner=won, speedup=speedup)
            line = line.with_strain(run.measurer.playoff_strains.get(i + (not has_default), 0.0))
            run.save(line)
        lines.append(line)
    took_part = tuple(line for line, s in zip(lines, samples, strict=True) if line is not None and s)
    ties = [lines[i] for i in verdict.tied_with_best if i != verdict.winner]
    tied = tuple(DEFAULT if r is None else label(r) for r in ties)
    default_samples = tuple(samples[0]) if has_default else ()
    seconds = typical(samples[verdict.winner])
    if winner is None:
        return PlayoffOutcome(None, seconds, tied=tied, played=took_part, default_samples=default_samples)
    cost = verdict.medians[verdict.winner]
    if run.costs.objective is not None:
        best, default = map(run.costs.objective.describe, (cost, default_cost))
        run.note(f"objective: {best}; the default schedule has {default}")
    interval = speedup_interval(default_costs, costs[verdict.winner])
    won_by = lines[verdict.winner]
    return PlayoffOutcome(won_by, seconds, default_cost / cost, interval, tied, took_part, default_samples)
