"""The end of a run: the best few meet the default schedule, interleaved, before anyone is called a winner.

    records of this run and earlier ones -> finalists -> samples, round by round -> verdict -> outcome

What plays is asked of the run: its records, what they cost, and the measurer. The lines of the finalists are
written to its log again, with the verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from autosched.measure.protocol import Job
from autosched.measure.stats import PlayoffResult, judge, ratio_interval
from autosched.records import Record, ranked
from autosched.space.space import DEFAULT

if TYPE_CHECKING:
    from autosched.tuning.run import Run

__all__ = ["DEFAULT", "FINALISTS", "Outcome", "finalists_of", "hold", "label", "without"]

#: How many of the best take part, and how many rounds they run.
FINALISTS = 5
ROUNDS = 15
#: The default schedule stays away when it is this many times slower than the best.
BEYOND_DOUBT = 20.0


@dataclass(frozen=True)
class Outcome:
    """Who won: `best` is None for the default schedule. `interval` encloses the speed-up; `tied` are the labels of
    those that are not significantly slower."""

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


def hold(run: Run, finalists: list[Record] | None = None) -> Outcome:
    """Measure the best, or other finalists, and the default schedule in turns, and say who won."""
    finalists = finalists_of(run) if finalists is None else sorted(finalists, key=run.costs.of)
    if not finalists:
        if not run.is_settled:
            run.note("no candidate could be measured: the default schedule stays", "warning")
        return Outcome(None, run.default_seconds)
    is_hopeless = _default_cost(run) > BEYOND_DOUBT * run.costs.of(finalists[0])  # its one measurement will do
    jobs = [] if is_hopeless else [Job(0, DEFAULT, run.default_knobs)]
    jobs += [Job(i, run.name_of(r), r.knobs) for i, r in enumerate(finalists, start=1)]
    samples = [s for _, s in run.measurer.playoff(jobs, ROUNDS)]
    if is_hopeless:
        samples.insert(0, [run.default_seconds] * ROUNDS)
    names = {job.id: job.sketch for job in jobs}
    for job, why in run.measurer.playoff_errors.items():
        run.note(f"{names[job]} left the play-off: {why}", "warning")
    knobs = [run.default_knobs, *(r.knobs for r in finalists)]
    costs = [run.costs.samples(k, s) for k, s in zip(knobs, samples, strict=True)]
    verdict = judge(costs)
    if verdict.winner is None or not samples[0]:
        run.note("the play-off could not be held", "warning")
        return without(run)
    return _decide(run, finalists, samples, costs, verdict)


def without(run: Run) -> Outcome:
    """The best single measurement, for what it is worth."""
    finalists = finalists_of(run)
    if not finalists:
        return Outcome(None, run.default_seconds)
    best = finalists[0]
    return Outcome(best, best.seconds, _default_cost(run) / run.costs.of(best), (0.0, float("inf")))


def _default_cost(run: Run) -> float:
    return run.costs.samples(run.default_knobs, [run.default_seconds])[0]


def _decide(
    run: Run, finalists: list[Record], samples: list[list[float]], costs: list[list[float]], verdict: PlayoffResult
) -> Outcome:
    """The verdict, written to the log for every finalist."""
    winner = verdict.winner
    assert winner is not None
    speedups = [verdict.medians[0] / m for m in verdict.medians]
    for i, r in enumerate(finalists, start=1):
        if samples[i]:
            won, speedup = i == winner, round(speedups[i], 4)
            line = r.with_playoff(tuple(samples[i]), run=run.run_id, winner=won, speedup=speedup)
            run.save(line)
            finalists[i - 1] = line
    played = tuple(r for r, own in zip(finalists, samples[1:], strict=True) if own)
    tied = tuple(label(finalists[i - 1]) if i else DEFAULT for i in verdict.tied_with_best if i != winner)
    seconds = float(np.median(samples[winner]))
    if winner == 0:
        run.note("no candidate is faster than the default schedule, beyond doubt")
        return Outcome(None, seconds, tied=tied, played=played, default_samples=tuple(samples[0]))
    if run.costs.objective is not None:
        best, default = (run.costs.objective.describe(verdict.medians[i]) for i in (winner, 0))
        run.note(f"what was searched for: {best}, against {default}")
    interval = ratio_interval(costs[0], costs[winner])
    won_by = finalists[winner - 1]
    return Outcome(won_by, seconds, speedups[winner], interval, tied, played, tuple(samples[0]))
