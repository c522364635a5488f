"""What the user is told of a strategy: its mistakes, and the time that it took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.search.guard import GuardedStrategy

if TYPE_CHECKING:
    from autosched.tuning.run import Run

#: Shares of a budget from which on the user is told: of one answer that came too late, and of all that were waited for.
LONG_SHARE, MOST_SHARE = 0.1, 0.5


def for_faults(run: Run, *, last: bool = False) -> None:
    """Tell of mistakes of a strategy that is not ours; at the end how many there were, and whether most of the time
    went to it."""
    if not isinstance(run.strategy, GuardedStrategy):
        return
    told, run.strategy.messages = run.strategy.messages, []
    for text in [*told, *([run.strategy.summary()] if last and run.strategy.dropped else [])]:
        run.note(text, "warning")
    waited = run.proposals.waited_s
    if last and run.budget.seconds is not None and waited >= MOST_SHARE * run.elapsed:
        run.note(f"{waited:.1f} of {run.elapsed:.1f} s went to the strategy {run.options.strategy!r} itself", "warning")


def for_being_late(run: Run) -> None:
    """Say whose time it was, where one that is not ours had not answered at the end, and had a good part of it."""
    taken, budget_s = run.proposals.late_s, run.budget.seconds
    if isinstance(run.strategy, GuardedStrategy) and budget_s is not None and taken >= LONG_SHARE * budget_s:
        name = f"strategy {run.options.strategy!r}"
        run.note(f"{name} was left behind: it had been choosing candidates for {taken:.1f} s", "warning")
