"""Two sets of records compared: which tasks are new or gone, and whose best is faster or slower."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from autosched.noise import chance
from autosched.records.record import Record
from autosched.records.tasks import best_of_each
from autosched.records.transfer import Task

#: Samples of equally fast schedules that differ so much are rarer than this where a difference is called significant.
SIGNIFICANT = 0.05

#: what a `Change` can be
VERDICTS = {
    "new": "only the second has a record that works",
    "gone": "only the first has a record that works",
    "same": "the best is the same measurement",
    "faster": "the best of the second is significantly faster",
    "slower": "the best of the second is significantly slower",
    "not clear": "the samples do not tell them apart",
}


@dataclass(frozen=True)
class Change:
    """The best records of one task in two sets; `before` or `after` is None where there is none.

    ratio:  time after over time before, NaN where one is missing
    chance: that samples of equally fast schedules differ so much; NaN where one is missing
    """

    task: Task
    before: Record | None
    after: Record | None
    ratio: float
    chance: float
    verdict: str

    @property
    def any(self) -> Record:
        """One of the two."""
        found = self.after or self.before
        assert found is not None
        return found

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        sides = {
            side: None if r is None else {"record": r.id, "seconds": r.seconds, "sketch": r.sketch, "knobs": r.knobs}
            for side, r in (("before", self.before), ("after", self.after))
        }
        t = self.task
        about = {"workload": t.workload, "key": t.key, "sizes": dict(t.sizes), "target": t.target, "device": t.device}
        return {**about, **sides, "ratio": self.ratio, "chance": self.chance, "verdict": self.verdict}


def difference(before: Iterable[Record], after: Iterable[Record]) -> list[Change]:
    """The tasks of both sets, by name: a workload at some sizes, for a target, on a device.

    Samples were taken at two times, perhaps with other programs beside: what is significant may be the machine's
    doing. `autosched compare` measures in turns.
    """
    first, second = best_of_each(before), best_of_each(after)
    return [_change(task, first.get(task), second.get(task)) for task in sorted({*first, *second}, key=repr)]


def _change(task: Task, a: Record | None, b: Record | None) -> Change:
    if a is None or b is None:
        return Change(task, a, b, math.nan, math.nan, "new" if a is None else "gone")
    ratio, p = b.seconds / a.seconds, chance(a.samples, b.samples)
    if (a.id, a.samples) == (b.id, b.samples):
        return Change(task, a, b, 1.0, 1.0, "same")
    verdict = "not clear" if p > SIGNIFICANT or ratio == 1 else "faster" if ratio < 1 else "slower"
    return Change(task, a, b, ratio, p, verdict)
