"""The candidates of a run: asking its strategy, ahead of time where that is wanted."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from autosched.deadline import TooLate, stop, within
from autosched.search import Candidate, SearchStrategy, Trial

#: Seconds at the end of a run for a strategy that is still at work, and was asked to stop.
PATIENCE_S = 1.0
#: Seconds after the end of its time in which a strategy may come to a step at which it can be stopped.
LAST_STEP_S = 0.25


class Proposals:
    """The candidates of a run, batch after batch.

    With `ahead`, a thread proposes the next batch while the present one is built, so that training a model and scoring
    candidates take no time of their own. In return batch k + 2 is chosen by what was learnt up to batch k: exactly
    that, however long anything takes, so a seed still decides the run. Nobody else calls the strategy meanwhile.

    Where `first` has candidates, they come first: a strategy looks around before it answers, and that takes time.

    An exception of the strategy is raised by `take`, which needs the answer.

    `left` tells the seconds that the strategy may take. One that is not done then `is_late`: it is left as it is,
    neither asked nor told anything again. Where that is limited it works in a thread, in which one that sleeps, or is
    in the middle of a long call of native code, can be left behind.

    `waited_s` is how long the run has waited for the strategy, and `late_s` how long one that is late had been at work.
    """

    def __init__(
        self,
        strategy: SearchStrategy,
        ahead: bool,
        first: Callable[[], list[Candidate]] | None = None,
        left: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self.is_late = False
        self.waited_s = self.late_s = self._begun = 0.0
        self._left = left
        self._strategy, self._ahead, self._first = strategy, ahead, first
        self._thread: threading.Thread | None = None
        self._next: list[Candidate] = []
        self._error: BaseException | None = None

    def take(self, n: int) -> list[Candidate]:
        """The next candidates, at most `n`; empty when the strategy has none left."""
        self.join()
        # Asked ahead of time it may have had none only because it waited for what was being measured.
        if not self._next and self._error is None and not self.is_late:
            self._do(lambda: self._propose(n))
        error, self._error = self._error, None
        if error is not None:
            raise error
        batch, self._next = self._next[:n], self._next[n:]
        return batch

    @property
    def at_hand(self) -> list[Candidate]:
        """What was proposed and not taken."""
        return list(self._next)

    def prepare(self, n: int) -> None:
        """Begin to propose the next `n`, with `ahead`. Returns at once."""
        if self._ahead:
            self.begin(n)

    def begin(self, n: int) -> None:
        """Begin to propose in a thread what the next `n` still lack. Returns at once."""
        self.join()
        lacks = n - len(self._next)
        if lacks > 0 and not self.is_late:
            self._start(lambda: self._propose(lacks))

    def leave_out(self, candidate: Candidate) -> None:
        """Do not give this one out, should it be among those that were proposed already."""
        self.join()
        self._next = [c for c in self._next if c != candidate]

    def observe(self, trials: Sequence[Trial]) -> None:
        """Tell the strategy of trials, once it has answered what it was asked."""
        self.join()
        if self.is_late:
            return
        unasked, self._error = self._error, None
        self._do(lambda: self._strategy.observe(trials))
        error, self._error = self._error, unasked
        if error is not None:
            raise error

    def join(self, most_s: float = math.inf) -> None:
        """Wait until nobody is proposing: timing wants the machine for itself. After `most_s` seconds go on without."""
        if (thread := self._thread) is None:
            return
        begun, left = time.monotonic(), max(self._left(), 0.0) + LAST_STEP_S
        wait = min(left, most_s)
        thread.join(None if math.isinf(wait) else wait)
        self.waited_s += time.monotonic() - begun
        if thread.is_alive() and most_s < left:
            return
        self._thread = None
        if thread.is_alive():
            self._is_too_late()

    def close(self) -> None:
        """End the run, however it ended: a strategy that hangs does not keep the program."""
        if (thread := self._thread) is not None:
            stop(thread)
            thread.join(PATIENCE_S)
            self._thread = None

    def _do(self, work: Callable[[], None]) -> None:
        """Have the strategy do something, in a thread that is left behind where it takes too long."""
        begun = time.monotonic()
        if math.isinf(self._left()):
            work()
            self.waited_s += time.monotonic() - begun
            return
        self._start(work)
        self.join()

    def _start(self, work: Callable[[], None]) -> None:
        def in_time() -> None:
            left = self._left()
            try:
                with nullcontext() if math.isinf(left) else within(max(left, 0.0)):
                    work()
            except TooLate:
                self._is_too_late()
            except BaseException as error:
                self._error = error

        self._begun = time.monotonic()
        self._thread = threading.Thread(target=in_time, name="propose", daemon=True)
        self._thread.start()

    def _is_too_late(self) -> None:
        if not self.is_late:
            self.is_late, self.late_s = True, time.monotonic() - self._begun

    def _propose(self, n: int) -> None:
        first, self._first = self._first, None
        found = [] if first is None else first()
        found = found or list(self._strategy.propose(n))
        if not self.is_late:
            self._next += found
