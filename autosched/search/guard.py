"""Keeps watch on strategies that others wrote, so that their faults are reported as theirs."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from autosched.errors import AutoschedError, UsageError
from autosched.search.points import Points, feasible
from autosched.search.protocol import Candidate, SearchStrategy, SpaceLike, Trial

__all__ = ["GuardedStrategy"]


class GuardedStrategy:
    """Passes calls on to `strategy`; checks what it proposes.

    Raises UsageError naming the plug-in when it raises, proposes what is no feasible candidate of
    the space, or something that was proposed or observed before.
    """

    def __init__(self, name: str, strategy: SearchStrategy, space: SpaceLike) -> None:
        self.name = name
        self.strategy = strategy
        self._space = space
        self._points = Points(space)

    def propose(self, n: int) -> list[Candidate]:
        """What the plug-in proposes, checked."""
        try:
            proposed = list(self.strategy.propose(n))
        except AutoschedError:
            raise
        except Exception as error:
            raise self._fault(f"propose({n}) raised {type(error).__name__}: {error}") from error
        if len(proposed) > n:
            raise self._fault(f"propose({n}) gave {len(proposed)} candidates")
        checked = []
        for candidate in proposed:
            checked.append(self._checked(candidate))
            self._points.mark(checked[-1:])
        return checked

    def observe(self, trials: Sequence[Trial]) -> None:
        """Tell the plug-in."""
        self._points.mark(trial.candidate for trial in trials)
        try:
            self.strategy.observe(trials)
        except AutoschedError:
            raise
        except Exception as error:
            raise self._fault(f"observe raised {type(error).__name__}: {error}") from error

    def _checked(self, proposed: Any) -> Candidate:
        """The candidate in plain Python integers: records are JSON, which knows no NumPy's."""
        try:
            candidate = Candidate(index(proposed.sketch), tuple(map(index, proposed.indices)))
        except (AttributeError, TypeError):
            raise self._fault(f"it proposed {proposed!r}, which is not a Candidate") from None
        if not self._points.valid(candidate):
            raise self._fault(f"it proposed {candidate!r}, which is not a point of the space")
        points = self._points.sketches[candidate.sketch]
        if candidate.indices in points:
            raise self._fault(f"it proposed {candidate!r}, which was proposed or observed before")
        if not len(feasible(points.sketch, points.as_rows([candidate.indices]))):
            raise self._fault(f"it proposed {candidate!r}, which is infeasible")
        return candidate

    def _fault(self, why: str) -> UsageError:
        return UsageError(
            why,
            asked=f"strategy {self.name!r}",
            legal="autosched.testing.check_strategy(YourStrategy) tells what else is wrong with it",
        )
