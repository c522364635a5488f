"""Keeps watch on strategies that others wrote: their faults are reported as theirs, and the run goes on."""

from __future__ import annotations

import inspect
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import index
from typing import Any

import numpy as np

from autosched.search.points import Points
from autosched.search.protocol import Candidate, SearchStrategy, SpaceLike, Trial

#: A strategy that proposed only what had to be dropped is asked so often before the batch is random.
ASKED = 3
#: Of what a strategy proposes, so many times what it was asked for are looked at: a generator may have no end.
MOST_LOOKED_AT = 100

HELP = "autosched.testing.check_strategy(YourStrategy) tells what else is wrong with it"


class GuardedStrategy:
    """Passes calls on to `strategy`, and makes up for what it does wrong.

    What is no feasible candidate of the space, was proposed or observed before, or is more than was
    asked for is dropped. Where nothing remains although points are left, random points take its
    place. A strategy that raised is not asked again: all that follows is random.

    Each kind of fault is described once, in `messages`, which whoever owns the loop shows and
    empties. `dropped` counts the dropped proposals by reason.
    """

    def __init__(self, name: str, strategy: SearchStrategy, space: SpaceLike, *, seed: int = 0) -> None:
        self.name = name
        self.strategy = strategy
        self.messages: list[str] = []
        self.dropped: Counter[str] = Counter()
        #: What it raised, with file and line; empty if it did not.
        self.raised = ""
        self._points = Points(space)
        self._rng = np.random.default_rng(seed)
        self._idle = False  # it was told once that it proposed nothing

    def propose(self, n: int) -> list[Candidate]:
        """The sound proposals of the plug-in; else random points; empty if none is left."""
        for _ in range(ASKED):
            proposed = self._call("propose", n)
            if proposed is None or not len(proposed):
                break
            if found := self._sound(proposed, n):
                return found
        found = self._points.take(n, self._rng) if n > 0 else []
        if found and not self.raised and not self._idle:
            self._idle = True
            self._tell(f"propose({n}) gave nothing of use although points are left; random ones are tried instead")
        return found

    def observe(self, trials: Sequence[Trial]) -> None:
        """Tell the plug-in."""
        self._points.mark(trial.candidate for trial in trials)
        self._call("observe", trials)

    def summary(self) -> str:
        """The number of dropped proposals by reason, as text; empty if none was."""
        if not self.dropped:
            return ""
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.dropped.most_common())
        return f"strategy {self.name!r}: {self.dropped.total()} proposals were dropped: {reasons}"

    def _call(self, method: str, argument: Any) -> Any:
        """The result of the plug-in's method; None if it raises or has raised before."""
        if self.raised:
            return None
        try:
            given = getattr(self.strategy, method)(argument)
            if method != "propose" or isinstance(given, Iterable):
                return list(islice(given, MOST_LOOKED_AT * max(argument, 1))) if method == "propose" else given
            self.raised = f"propose returned {given!r:.60}, which is no list of candidates"
        except Exception as error:
            self.raised = f"{method} raised {type(error).__name__}: {error} ({self._place(error)})"
        self._tell(f"{self.raised}; it is not asked again, the rest of the run is random")
        return None

    def _place(self, error: Exception) -> str:
        """File and line: the deepest of the plug-in's own file, else of the caller who got it wrong."""
        frames = traceback.extract_tb(error.__traceback__)
        try:
            ours = inspect.getsourcefile(type(self.strategy))
        except TypeError:
            ours = None
        own = [frame for frame in frames if frame.filename == ours] or frames[1:] or frames
        return f"{own[-1].filename}:{own[-1].lineno}"

    def _sound(self, proposed: Sequence[Any], n: int) -> list[Candidate]:
        """The proposals that may be measured, marked as seen; others are counted."""
        found: list[Candidate] = []
        for one in proposed:
            candidate, reason = self._checked(one)
            if candidate is not None and len(found) == n:
                reason = "more than asked for"
            if reason:
                if reason not in self.dropped:
                    self._tell(f"propose({n}) gave {one!r}: {reason}; such proposals are dropped")
                self.dropped[reason] += 1
            elif candidate is not None:
                found += self._points.mark([candidate])
        return found

    def _checked(self, proposed: Any) -> tuple[Candidate | None, str]:
        """The candidate in plain Python integers (records are JSON, which knows no NumPy's), or why not."""
        try:
            candidate = Candidate(index(proposed.sketch), tuple(map(index, proposed.indices)))
        except (AttributeError, TypeError):
            return None, "not a Candidate"
        if not self._points.valid(candidate):
            return None, "not a point of the space"
        points, row = self._points.sketches[candidate.sketch], candidate.indices
        if row in points:
            return None, "proposed or observed before"
        return (candidate, "") if len(points.fresh(points.as_rows([row]))) else (None, "infeasible")

    def _tell(self, what: str) -> None:
        hint = "" if self.messages else f"; {HELP}"
        self.messages.append(f"strategy {self.name!r}: {what}{hint}")
