"""A multi-armed bandit over strategies: who found better points lately proposes the next ones.

The arms are strategies that share everything that is observed. Each candidate is asked of one arm.
An arm's credit is the area under the curve of its successes: of its last proposals, those that beat
the best time before them count, the later the more. To that comes a bonus for arms that were asked
seldom, so that none is given up for good.

Source: A. Fialho et al., "Analyzing Bandit-based Adaptive Operator Selection Mechanisms", Annals of
Mathematics and AI 60, 2010; J. Ansel et al., "OpenTuner: An Extensible Framework for Program
Autotuning", PACT 2014, section 3.2 (AUC credit assignment).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import cast

from autosched.errors import UsageTypeError
from autosched.model.protocol import CostModel, FloatArray, IntArray, UncertainCostModel
from autosched.search import make_strategy
from autosched.search.base import PointStrategy, at_least
from autosched.search.protocol import Candidate, SearchStrategy, SpaceLike, Trial

#: The arms by default: two that learn most from few trials, in different ways, and one that polishes what they found.
ARMS = "annealing,guided,droplet"

#: An arm is asked this often for a batch before its share is random: others may have tried what it wants.
ASKED = 3


class BanditSearch(PointStrategy):
    """Shares proposals out over other strategies, by what each has found.

    `arms`     their names, with commas between; the first one makes the first `initial` proposals. Of those
               given by default, annealing comes later where the model knows other shapes already, and is left
               out where there is no model.
    `initial`  trials before the others get their turn.
    `window`   proposals of the past that count.
    `bonus`    weight of the bonus for arms that were asked seldom (OpenTuner's C).

    `found_by` says which arm proposed what; `credits` how many proposals each arm made, how many
    of those were better than all before, and the best time of each. The model goes to the arms
    that use one.

    Raises UsageError for an option out of range and for arms that cannot be made.
    """

    def __init__(
        self,
        space: SpaceLike,
        *,
        seed: int = 0,
        model: CostModel | None = None,
        arms: str = ARMS,
        initial: int = 48,
        window: int = 128,
        bonus: float = 0.01,
    ) -> None:
        at_least("bandit", 1, window=window)
        at_least("bandit", 0, initial=initial, bonus=bonus)
        names = [name.strip() for name in arms.split(",") if name.strip()]
        if arms == ARMS:
            names = _by_default(names, model)
        if not names or len(set(names)) < len(names) or "bandit" in names:
            raise UsageTypeError(
                f"arms={arms!r} is not a list of other strategies, each once", asked="strategy 'bandit'", legal=ARMS
            )
        self._initial, self._window, self._bonus = initial, window, bonus
        super().__init__(space, seed)
        once = _FitOnceUncertain if isinstance(model, UncertainCostModel) else _FitOnce
        shared = None if model is None else once(model)
        self._arms: dict[str, SearchStrategy] = {
            name: make_strategy(name, space, seed=(seed + number) % 2**63, model=shared)
            for number, name in enumerate(names)
        }
        #: candidate -> the arm that proposed it; "random" where no arm had anything new
        self.found_by: dict[Candidate, str] = {}
        self._past: list[tuple[str, bool]] = []  # of each measured proposal: the arm, and whether it beat the best
        self._told: list[Trial] = []
        self._observed = 0
        self._best = math.inf
        self._best_of: dict[str, float] = {}

    @property
    def credits(self) -> dict[str, tuple[int, int, float]]:
        """Arm -> its measured proposals, how many of them beat all before, and its best seconds (inf if none)."""
        self._learn()
        found = {name: [beat for arm, beat in self._past if arm == name] for name in self._arms}
        return {name: (len(beats), sum(beats), self._best_of.get(name, math.inf)) for name, beats in found.items()}

    def propose(self, n: int) -> list[Candidate]:
        """Up to `n` candidates; each arm's share is asked of it at once."""
        self._learn()
        found: list[Candidate] = []
        for name, share in self._shares(n).items():
            mine = self._ask(self._arms[name], share)
            self.found_by.update(dict.fromkeys(mine, name))
            found += mine
        rest = self._points.take(n - len(found), self._rng) if not found else []
        self.found_by.update(dict.fromkeys(rest, "random"))
        return found + rest

    def _take_in(self, trials: list[Trial]) -> None:
        self._told += trials
        for arm in self._arms.values():
            arm.observe(trials)

    def _ask(self, arm: SearchStrategy, n: int) -> list[Candidate]:
        """Up to `n` candidates of the arm that nobody proposed before."""
        found: list[Candidate] = []
        for _ in range(ASKED):
            if len(found) == n:
                break
            asked = arm.propose(n - len(found))
            found += self._points.mark(c for c in asked if c.indices not in self._points.sketches[c.sketch])
            if not asked:
                break
        return found

    def _learn(self) -> None:
        """Give credit for what was measured since the last call, whatever order it came in.

        All of it is compared with the best before: of a batch, nobody knew the others' results. So
        all that works in the first batch is a success, which gives the first arm a head start.
        """
        best = self._best
        order = {candidate: place for place, candidate in enumerate(self.found_by)}
        for trial in sorted(self._told, key=lambda t: (order.get(t.candidate, -1), t.candidate, t.seconds)):
            name = self.found_by.get(trial.candidate)
            if trial.ok:
                best = min(best, trial.seconds)
            if name in self._arms:
                self._past.append((name, trial.ok and trial.seconds < self._best))
                if trial.ok:
                    self._best_of[name] = min(trial.seconds, self._best_of.get(name, math.inf))
        self._observed += len(self._told)
        self._told, self._best = [], best

    def _shares(self, n: int) -> dict[str, int]:
        """The share of `n` proposals of each arm: one by one, to the arm that then scores best."""
        names = list(self._arms)
        shares = dict.fromkeys(names, 0)
        if self._observed < self._initial:
            shares[names[0]] = n
            return shares
        past = self._past[-self._window :]
        beats = {name: [beat for arm, beat in past if arm == name] for name in names}
        areas = {name: area_under_curve(beats[name]) for name in names}

        def score(name: str) -> float:
            asked, total = len(beats[name]) + shares[name], len(past) + sum(shares.values())
            return areas[name] + self._bonus * math.sqrt(2 * math.log(total) / asked) if asked else math.inf

        for _ in range(n):
            shares[max(names, key=score)] += 1  # of equal ones the first
        return shares


def area_under_curve(successes: Sequence[bool]) -> float:
    """Area under the curve of successes, in [0, 1]: a success weighs as much as it is late."""
    count = len(successes)
    return sum(i * success for i, success in enumerate(successes, start=1)) * 2 / max(count * (count + 1), 1)


class _FitOnce:
    """A cost model that several arms use: it is fitted once to what they all have seen."""

    def __init__(self, model: CostModel) -> None:
        self._model, self.feature_names = model, model.feature_names
        self._last: tuple[bytes, ...] = ()

    @property
    def ready(self) -> bool:
        return self._model.ready

    def fit(self, features: FloatArray, seconds: FloatArray, groups: IntArray) -> None:
        data = (features.tobytes(), seconds.tobytes(), groups.tobytes())
        if data != self._last:
            self._model.fit(features, seconds, groups)
            self._last = data

    def predict(self, features: FloatArray) -> FloatArray:
        return self._model.predict(features)


class _FitOnceUncertain(_FitOnce):
    """The same for a model that knows how unsure it is: strategies look for the method."""

    def predict_with_std(self, features: FloatArray) -> tuple[FloatArray, FloatArray]:
        return cast(UncertainCostModel, self._model).predict_with_std(features)


def _by_default(names: list[str], model: CostModel | None) -> list[str]:
    """Annealing walks on a model: without one it is random search, and what a primed one knows at the start is
    better used by `guided` (17 trials rather than 21 to within 10 % of matmul 1024, medians of 24 replays)."""
    others = [name for name in names if name != "annealing"]
    if model is None:
        return others
    with contextlib.suppress(Exception):  # the arms report what is wrong with it
        if model.ready:
            return [*others[:1], "annealing", *others[1:]]
    return names
