"""`tune`, `tune_sizes` and `tune_tasks` as a person calls them: they show their progress.

    tune("box_blur", budget_s=30)                       # a live display in a terminal, a few lines in a notebook
    tune("box_blur", budget_s=30, progress=False)       # nothing but the result

`autosched.tuning` has the same functions without a display.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from autosched import building, tuning
from autosched.effort import EFFORTS
from autosched.errors import UsageError
from autosched.report.progress import make_display
from autosched.space.workload import Workload

P = ParamSpec("P")
R = TypeVar("R")

#: What is shown where the caller does not say: one of `report.PROGRESS_MODES`.
PROGRESS_VARIABLE = "AUTOSCHED_PROGRESS"


def with_progress(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with a display of its progress where its caller gives none."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given = kwargs.pop("progress", None)
        with _display(given, function.__name__) as tell:
            kwargs["progress"] = tell
            return function(*args, **kwargs)

    return call


@contextmanager
def _display(given: Any, name: str) -> Iterator[Any]:
    """The function to call with events; `given` is the argument `progress`."""
    if callable(given):
        yield given
    elif given is None or given is True:
        with make_display("auto" if given else _mode(), sys.stderr) as display:
            yield display
    elif given is False:
        yield None
    else:
        raise UsageError(
            f"{given!r} shows nothing",
            asked=f"{name}(progress={given!r})",
            legal="True, False, or a function that takes events; by default progress is shown on standard error",
        )


def _mode() -> str:
    if not hasattr(sys.stderr, "write"):  # a program without a console
        return "none"
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:  # one of many workers of somebody's
        return "none"
    return os.environ.get(PROGRESS_VARIABLE) or "auto"


def searching(function: Callable[P, R]) -> Callable[P, R]:
    """`build`, which with `effort="full"` searches for schedules that no search on this machine has found yet."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs.get("effort") == "full":
            _search(*args, **kwargs)
        return function(*args, **kwargs)

    return call


def _search(what: Any, target: Any = None, **options: Any) -> None:
    known: dict[str, Any] = {name: options.get(name) for name in ("records", "sizes")}
    for one in what.values() if isinstance(what, Mapping) else [what]:
        w = building.as_workload(one)
        if not isinstance(w, Workload):
            legal = "a workload: a schedule is built as it is"
            raise UsageError("there is nothing to search", asked='build(.., effort="full")', legal=legal)
        provenance = building.plan(w, target, **known).provenance
        if provenance["kind"] != "family" and not (provenance["kind"] == "record" and provenance["exact"]):
            tune(w, target, trials=None, budget_s=EFFORTS["full"], **known)


build = searching(building.build)
tune = with_progress(tuning.tune)
tune_sizes = with_progress(tuning.tune_sizes)
tune_tasks = with_progress(tuning.tune_tasks)
