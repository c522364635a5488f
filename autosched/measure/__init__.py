"""Measuring candidates: isolated workers, verified outputs, samples.

`Measurer` is the way in; `docs/measurement.md` says what is measured and what isolation means.
The names below are loaded on first use: importing this package costs nothing, and a worker
(`python -m autosched.measure.worker`) does not load the parent's half.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosched.measure.measurer import Measurer
    from autosched.measure.protocol import STATUSES, Job, Measurement, MeasureOptions
    from autosched.measure.stats import PlayoffResult, judge, significantly_faster
    from autosched.measure.workers import early_workers

__all__ = [
    "STATUSES",
    "Job",
    "MeasureOptions",
    "Measurement",
    "Measurer",
    "PlayoffResult",
    "early_workers",
    "judge",
    "significantly_faster",
]

#: name -> the module that has it, where that is not `protocol`
_HOME = {
    "Measurer": "measurer",
    "PlayoffResult": "stats",
    "early_workers": "workers",
    "judge": "stats",
    "significantly_faster": "stats",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME.get(name, 'protocol')}"), name)
