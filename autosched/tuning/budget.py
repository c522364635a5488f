"""`Budget`: the seconds of a run and the cost of its parts. `Expectation`: what more of them would bring.
`Neighbours`: other programs that use the CPUs.

Proposing, building and running are counted apart. Lowering, imports and the check of the default schedule come once,
before the first trial, and are not counted: they say nothing about how long the next trial takes.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections import deque
from dataclasses import dataclass

from autosched.measure.protocol import Measurement
from autosched.records import STRAINED

#: Candidates built together: few at first, so that the first result is early and the strategy learns from it; then
#: enough to keep all builders busy.
BATCHES = (2, 4, 8, 16)
#: Candidates of a play-off, and rounds that they run, at most; fewer where time is short.
FINALISTS = 5
ROUNDS, LEAST_ROUNDS = 15, 9
#: Parts of a budget in seconds that are kept for the play-off, at least and at most.
PLAYOFF_SHARE, MOST_PLAYOFF_SHARE = 0.1, 0.3
#: Seconds by which what comes before the first trial, and this trial, may exceed a budget, and those by which a whole
#: run with its play-off may: without them it was spent for nothing. Nothing of a run goes on after these.
GRACE_S, WHOLE_GRACE_S = 1.0, 2.0
#: Part of a budget in which sketches are made; those that there are then are searched.
SKETCHING_SHARE = 0.25
#: Part of the time left that one batch may take: a run can only end between batches.
_BATCH_SHARE = 0.5
_KEPT = 16  # latest trials that the next ones are expected to be like


def moment(left_s: float) -> float | None:
    """The time of the monotonic clock so many seconds from now; None for no limit."""
    return None if math.isinf(left_s) else time.monotonic() + left_s


class Budget:
    """The budget of a run in seconds, None for no limit, and what its parts have cost.

    builders: how many candidates are built at a time;  sample_s: how long a sample lasts, about
    """

    def __init__(self, seconds: float | None, builders: int, sample_s: float) -> None:
        self.seconds = seconds
        self._builders, self._sample_s = max(1, builders), sample_s
        self._builds: deque[float] = deque(maxlen=_KEPT)
        self._runs: deque[float] = deque(maxlen=_KEPT)
        self._propose_s = 0.0
        self._default = 0.0, 0.0

    def default(self, m: Measurement) -> None:
        """Note the cost of the default schedule, which stands for that of trials before the first one."""
        self._default = m.build_s, m.run_s

    def proposed(self, seconds: float) -> None:
        """Note the seconds that the strategy took for a batch.

        It lowers sketches that it has not seen yet, so the first batches take longest, whatever their size.
        """
        self._propose_s = seconds

    @property
    def propose_s(self) -> float:
        """Seconds, about, that the strategy will take for the next batch: less than for the last one."""
        return self._propose_s / 2

    def measured(self, m: Measurement) -> None:
        """Note the cost of one trial."""
        self._builds.append(m.build_s)
        if m.run_s:
            self._runs.append(m.run_s)

    @property
    def trial_s(self) -> float:
        """Seconds, about, that one more trial of a batch takes: its share of building, and its run."""
        build, run = self._default
        if self._builds:
            build = statistics.fmean(self._builds)
        if self._runs:
            run = statistics.fmean(self._runs)
        return build / self._builders + run

    def playoff_s(self, entrants: int, rounds: int) -> float:
        """Seconds, about, that a play-off takes; all is built and verified again, with the default schedule."""
        build = min(self._builds, default=self._default[0])
        run = min(self._runs, default=self._default[1])
        return math.ceil((entrants + 1) / self._builders) * build + (entrants + 1) * (run + rounds * self._sample_s)

    def left(self, elapsed_s: float) -> float:
        """Seconds for more trials: what the budget leaves, less what the play-off will take."""
        if self.seconds is None:
            return math.inf
        most = MOST_PLAYOFF_SHARE * self.seconds
        reserve = min(max(PLAYOFF_SHARE * self.seconds, self.playoff_s(FINALISTS, ROUNDS)), most)
        return self.seconds - elapsed_s - reserve

    def left_for_trials(self, elapsed_s: float, is_first: bool) -> float:
        """Seconds after which a batch is given up, and whoever is proposing one. The first may use all that there is,
        and a little more: its one trial is worth it."""
        if self.seconds is None:
            return math.inf
        return self.seconds + GRACE_S - elapsed_s if is_first else self.left(elapsed_s)

    def left_for_playoff(self, elapsed_s: float) -> float:
        """Seconds after which no round of the play-off begins."""
        return math.inf if self.seconds is None else max(self.seconds + WHOLE_GRACE_S - elapsed_s, 0.0)

    def is_over(self, elapsed_s: float, is_first: bool) -> bool:
        """Whether no other batch is begun. The first one may use the time that is kept for the play-off."""
        if self.seconds is None:
            return False
        return elapsed_s >= self.seconds if is_first else self.left(elapsed_s) <= self.propose_s

    def batch(self, wanted: int, elapsed_s: float) -> int:
        """The number of candidates to build next, `wanted` at most.

        A batch is built before it runs, so none is begun that would take more than half of what is left.
        """
        left = self.left(elapsed_s) - self.propose_s
        if math.isinf(left) or not self.trial_s:
            return wanted
        return max(1, min(wanted, int(_BATCH_SHARE * left / self.trial_s)))

    def playoff(self, elapsed_s: float) -> tuple[int, int]:
        """(finalists, rounds) that the play-off can have in the time that is left."""
        left = math.inf if self.seconds is None else self.seconds - elapsed_s
        for entrants, rounds in ((FINALISTS, ROUNDS), *((n, LEAST_ROUNDS) for n in (FINALISTS, 3, 2))):
            if self.playoff_s(entrants, rounds) <= left:
                return entrants, rounds
        return 1, LEAST_ROUNDS

    def too_short(self, elapsed_s: float, where: str = "") -> str:
        """The message about a budget in which no trial was made; `where` says what was going on as it ended."""
        budget = "the time was used up" if self.seconds is None else f"the budget of {self.seconds:g} s was used up"
        if not self.trial_s:
            after = f"after {elapsed_s:.1f} s" + (f", {where}" if where else "")
            wants = f"one trial takes about as long: give {math.ceil(3 * elapsed_s)} s or more"
            return f"{budget} before the default schedule had run, {after}; {wants}"
        least = elapsed_s + 4 * self.trial_s
        enough = math.ceil((least + self.playoff_s(1, LEAST_ROUNDS)) / (1 - PLAYOFF_SHARE))
        enough = max(enough, math.ceil(self.seconds or 0.0) + 1)
        return (
            f"{budget} before the first trial: preparing took {elapsed_s:.1f} s, "
            f"and one trial takes about {self.trial_s:.1f} s; give {enough} s or more"
        )


# -- more time ------------------------------------------------------------------------------------
# On recorded spaces the logarithm of the best time falls with the trials n like `DECAY * n ** -POWER`, on average. What
# a run has found so far (its last gain, how many trials are near the best) says next to nothing about what follows.
# `experiments/expectation.py` fits the constants, and tells how often outcomes lie within the limits.

#: How the mean falls with trials, and how many times the mean nine outcomes of ten do not exceed.
DECAY, POWER, MOST = 0.5, 0.5, 3.5
#: Fewer trials tell too little about the next ones.
LEAST = 8


@dataclass(frozen=True)
class Expectation:
    """The share by which the best time is expected to fall in so many more seconds, and trials.

    `gain` is the mean, and nine outcomes of ten lie between 0 and `most`.

    >>> Expectation.of(done=100, more=300, seconds=60.0)
    Expectation(seconds=60.0, trials=300, gain=0.025, most=0.084)
    """

    seconds: float
    trials: int
    gain: float
    most: float

    @staticmethod
    def of(done: int, more: int, seconds: float) -> Expectation | None:
        """What `more` trials would bring after `done`; None after fewer than `LEAST`, or where none are left."""
        if done < LEAST or more < 1:
            return None
        mean = DECAY * (done**-POWER - (done + more) ** -POWER)
        return Expectation(seconds, more, round(1.0 - math.exp(-mean), 3), round(1.0 - math.exp(-MOST * mean), 3))


# -- other programs -------------------------------------------------------------------------------
#: Measurements, and seconds of them, from which on waiting is no accident.
_LEAST, _LEAST_S = 3, 0.5


class Neighbours:
    """Adds up how long candidates waited for CPUs that other programs had (`Measurement.strain`)."""

    def __init__(self) -> None:
        self._waited_s = self._timed_s = 0.0
        self._count = 0
        self._is_told = False

    def add(self, m: Measurement) -> None:
        """One more measurement."""
        self._waited_s += m.strain * m.run_s
        self._timed_s += m.run_s
        self._count += bool(m.run_s)

    def add_playoff(self, strains: dict[int, float]) -> None:
        """The strains of a play-off, one for each finalist."""
        for share in strains.values():
            self._waited_s += share
            self._timed_s += 1.0
            self._count += 1

    @property
    def strain(self) -> float:
        """Seconds that threads waited for a CPU, for each second of the measurements; 0 where that is next to none."""
        enough = self._count >= _LEAST and self._timed_s >= _LEAST_S
        share = self._waited_s / self._timed_s if enough else 0.0
        return share if share >= STRAINED else 0.0

    def news(self) -> str:
        """The message to the user; empty where there is none, or it was given before."""
        if self._is_told or not self.strain:
            return ""
        self._is_told = True
        return f"other programs are using this machine's CPUs{_load()}. Each time is the fastest of many short readings"


def _load() -> str:
    """` (load average 3.1 on 2 CPUs)`; empty where the system does not tell."""
    try:
        return f" (load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs)"
    except OSError:
        return ""
