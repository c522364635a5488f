"""The candidates of a run: asking its strategy, ahead of time where that is wanted."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence

from autosched.deadline import TooLate, within
from autosched.search import Candidate, SearchStrategy, Trial

PATIENCE_S = 10.0  # at the end of a run, for a strategy that is still at work


class Proposals:
    """The candidates of a run, batch after batch.

    With `ahead`, a thread proposes the next batch while the present one is built, so that training a model and scoring
    candidates take no time of their own. In return batch k + 2 is chosen by what was learnt up to batch k: exactly
    that, however long anything takes, so a seed still decides the run. Nobody else calls the strategy meanwhile.

    Where `first` has candidates, they come first: a strategy looks around before it answers, and that takes time.

    An exception of the strategy is raised by `take`, which needs the answer.

    `left` tells the seconds that proposing may take. A strategy that is not done then `is_late`: it is left as it is,
    neither asked nor told anything again.
    """

    def __init__(
        self,
        strategy: SearchStrategy,
        ahead: bool,
        first: Callable[[], list[Candidate]] | None = None,
        left: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self.is_late = False
        self._left = left
        self._strategy, self._ahead, self._first = strategy, ahead, first
        self._thread: threading.Thread | None = None
        self._next: list[Candidate] = []
        self._error: BaseException | None = None

    def take(self, n: int) -> list[Candidate]:
        """The next candidates, at most `n`; empty when the strategy has none left."""
        self.join()
        error, self._error = self._error, None
        if error is not None:
            raise error
        batch, self._next = self._next[:n], self._next[n:]
        # Asked ahead of time it may have had none only because it waited for what was being measured.
        return batch or self._asked(n)

    def prepare(self, n: int) -> None:
        """Begin to propose the next `n`, with `ahead`. Returns at once."""
        if self._ahead:
            self.begin(n)

    def begin(self, n: int) -> None:
        """Begin to propose in a thread what the next `n` still lack. Returns at once."""
        self.join()
        if n > len(self._next):
            args = (n - len(self._next),)
            self._thread = threading.Thread(target=self._propose, args=args, name="propose", daemon=True)
            self._thread.start()

    def leave_out(self, candidate: Candidate) -> None:
        """Do not give this one out, should it be among those that were proposed already."""
        self.join()
        self._next = [c for c in self._next if c != candidate]

    def observe(self, trials: Sequence[Trial]) -> None:
        """Tell the strategy of trials, once it has answered what it was asked."""
        self.join()
        if not self.is_late:
            self._strategy.observe(trials)

    def join(self) -> None:
        """Wait until nobody is proposing: timing wants the machine for itself."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def close(self) -> None:
        """End the run, however it ended: a strategy that hangs does not keep the program."""
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
            self._thread = None

    def _asked(self, n: int) -> list[Candidate]:
        left = self._left()
        if self.is_late or math.isinf(left):
            return [] if self.is_late else self._answer(n)
        try:
            with within(max(left, 0.0)):
                return self._answer(n)
        except TooLate:
            self.is_late = True
            return []

    def _answer(self, n: int) -> list[Candidate]:
        first, self._first = self._first, None
        found = [] if first is None else first()
        return found or list(self._strategy.propose(n))

    def _propose(self, n: int) -> None:
        try:
            self._next += self._asked(n)
        except BaseException as error:
            self._error = error
