"""Curves of several runs as figures: how many trials to come near the best, how near after so many.

All times are given as multiples of the best of the space, so that 1 is the optimum and spaces can be
put together. A run that exhausts its space, or has fewer trials, keeps its last value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.model.protocol import FloatArray
from autosched.simulate.recorded import RecordedSpace
from autosched.simulate.replay import Run

__all__ = ["BUDGETS", "NEAR", "Curves", "Figures", "as_json", "compare", "curves_of", "overall"]

#: After how many trials the table says how good the best is.
BUDGETS = (25, 50, 100, 200)
#: What the score is made of.
SCORED = (25, 50, 100)
#: How near to the best counts as found.
NEAR = (1.05, 1.10)
#: The strategy that others are compared with.
BASELINE = "random"


@dataclass(frozen=True)
class Curves:
    """All runs of one contender on one space: `best` is float64 [seeds, trials], multiples of the optimum."""

    space: str
    contender: str
    best: FloatArray

    def quantiles(self, *shares: float) -> FloatArray:
        """float64 [len(shares), trials] over the seeds: 0.5 is the median."""
        return np.asarray(np.quantile(self.best, shares, axis=0, method="linear"))

    def trials_to(self, near: float) -> float:
        """Median over the seeds of the first trial whose best is within `near` of the optimum; `inf` if
        half of them do not get there."""
        first = [float(np.argmax(row <= near)) + 1 if row[-1] <= near else math.inf for row in self.best]
        return sorted(first)[(len(first) - 1) // 2]

    def scores(self) -> FloatArray:
        """float64 [seeds]: the geometric mean of the best after each of `SCORED` trials, as far as the run
        goes: what it has to show when it ends early, or not so early."""
        last = self.best.shape[1]
        ends = [n - 1 for n in SCORED if n <= last] or [last - 1]
        return np.asarray(np.exp(np.log(self.best[:, ends]).mean(axis=1)))


@dataclass(frozen=True)
class Figures:
    """One line of the table. `after` has for each budget the quartiles and median of the best; `beats` is
    the probability that a run scores better than one of random search, ties counting half."""

    space: str
    contender: str
    seeds: int
    trials_to: dict[str, float]
    after: dict[str, tuple[float, float, float]]
    score: float
    beats_random: float | None


def curves_of(space: RecordedSpace, runs: Sequence[Run], trials: int) -> list[Curves]:
    """The curves of each contender on this space, in order of appearance.

    Until a first point ran, the worst of the space stands for it.
    """
    found = []
    for contender in dict.fromkeys(run.contender for run in runs if run.space == space.name):
        of = [run for run in runs if run.space == space.name and run.contender == contender]
        table = np.empty((len(of), trials))
        for row, run in zip(table, of, strict=True):
            best = np.minimum(run.best[:trials], space.worst_seconds) if run.seconds else [space.worst_seconds]
            row[: len(best)], row[len(best) :] = best, best[-1]
        found.append(Curves(space.name, contender, table / space.best_seconds))
    return found


def compare(curves: Sequence[Curves]) -> list[Figures]:
    """A line for each contender on each space."""
    baseline = {c.space: c.scores() for c in curves if c.contender == BASELINE}
    found = []
    for c in curves:
        trials = c.best.shape[1]
        low, middle, high = c.quantiles(0.25, 0.5, 0.75)
        budgets = [n for n in BUDGETS if n <= trials] or [trials]
        scores = c.scores()
        found.append(
            Figures(
                c.space,
                c.contender,
                len(c.best),
                {f"{near - 1:.0%}": c.trials_to(near) for near in NEAR},
                {str(n): (float(low[n - 1]), float(middle[n - 1]), float(high[n - 1])) for n in budgets},
                float(np.exp(np.log(scores).mean())),
                _beats(scores, baseline[c.space]) if c.space in baseline else None,
            )
        )
    return found


def overall(figures: Sequence[Figures]) -> dict[str, float]:
    """Contender -> the geometric mean of its scores over all spaces, the best first."""
    by: dict[str, list[float]] = {}
    for line in figures:
        by.setdefault(line.contender, []).append(line.score)
    means = {name: math.exp(sum(map(math.log, scores)) / len(scores)) for name, scores in by.items()}
    return dict(sorted(means.items(), key=lambda item: item[1]))


def _beats(scores: FloatArray, others: FloatArray) -> float:
    """P(score < other) + P(equal) / 2, over all pairs."""
    less = (scores[:, None] < others[None, :]).mean()
    return float(less + (scores[:, None] == others[None, :]).mean() / 2)


def as_json(figures: Sequence[Figures], curves: Sequence[Curves], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Everything for a file: the figures, and median and quartiles of each curve."""
    bands = []
    for c in curves:
        low, middle, high = (np.round(row, 4).tolist() for row in c.quantiles(0.25, 0.5, 0.75))
        bands.append({"space": c.space, "strategy": c.contender, "q25": low, "median": middle, "q75": high})
    lines = [
        {
            "space": f.space,
            "strategy": f.contender,
            "seeds": f.seeds,
            "trials_to": {k: v if math.isfinite(v) else None for k, v in f.trials_to.items()},
            "after": {k: [round(x, 4) for x in v] for k, v in f.after.items()},
            "score": round(f.score, 4),
            "beats_random": None if f.beats_random is None else round(f.beats_random, 3),
        }
        for f in figures
    ]
    means = {name: round(value, 4) for name, value in overall(figures).items()}
    return {**facts, "overall": means, "figures": lines, "curves": bands}
