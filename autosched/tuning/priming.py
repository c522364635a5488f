"""Priming the cost model with records of other shapes, operators and devices.

Records keep the features of their candidate, those that come with autosched as well, and a run learns from these alone:
computing the features of 500 records took 4 to 5 s before the first trial, and no later trial was better for it.
Whoever changes what features are computes those of the records that come with autosched anew
(`experiments/record_features.py`).
"""

from __future__ import annotations

from typing import Any

from autosched.model import PrimedCostModel
from autosched.records import Task, read_transfer


def prime(model: PrimedCostModel, task: Task, space: Any, *, records: str | None) -> str:
    """Let the model learn from records of other tasks. Returns what to tell about it; empty if there are none.

    records: the folder they are read from, alone, if it is given
    """
    kind = task.target.partition(" ")[0]
    version, width = space.feature_version, len(space.feature_names)
    found = read_transfer(task, kind, version=version, width=width, folder=records)
    said = []
    if len(found.seconds):
        model.prime(found.features, found.seconds, found.groups)
        said.append(f"the cost model is primed with {found.describe(task)}")
    if found.passed_over:
        said.append(f"records passed over, because they have no features of this version: {found.passed_over}")
    return "; ".join(said)
