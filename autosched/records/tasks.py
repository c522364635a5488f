"""Records by task: a workload at some sizes, for a target, on a device. Times of one task can be compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from autosched.errors import RecordError
from autosched.records.best import ranked
from autosched.records.record import Record
from autosched.records.transfer import Task

#: Tasks that an error lists.
_LISTED = 10


def by_task(records: Iterable[Record]) -> dict[Task, list[Record]]:
    """The records of each task, the tasks by name."""
    found: dict[Task, list[Record]] = defaultdict(list)
    for r in records:
        found[Task.of(r)].append(r)
    return dict(sorted(found.items(), key=lambda x: repr(x[0])))


def best_of_each(records: Iterable[Record]) -> dict[Task, Record]:
    """The record of each task that `build` would take, the tasks by name; without those of which none is usable."""
    choices = {t: ranked(rs, key=t.key, target=t.target) for t, rs in by_task(records).items()}
    return {t: found[0].record for t, found in choices.items() if found}


def one_task(records: Sequence[Record], asked: str) -> Task:
    """The task that all records are of. Raises RecordError, which lists them, where they are of several, or none."""
    found = by_task(records)
    if len(found) == 1:
        return next(iter(found))
    listing = [task_text(rs[0]) for rs in found.values()]
    more = [f"and {len(listing) - _LISTED} more"] if len(listing) > _LISTED else []
    raise RecordError(
        f"there are records of {len(found)} tasks" if found else "there are no records",
        asked=asked,
        legal="records of one of them:\n  " + "\n  ".join(listing[:_LISTED] + more) if found else "records of one task",
    )


def task_text(r: Record) -> str:
    """The task of a record in one line: `matmul(m=512) for llvm on AMD EPYC (znver5), 2 threads`."""
    params = ", ".join(f"{name}={value!r}" for name, value in r.workload["params"].items())
    sizes = "".join(f", {name}={value}" for name, value in sorted(r.sizes.items()))
    return f"{r.workload['name']}({params}){sizes} for {r.target} on {r.device_name or 'an unnamed device'}"
