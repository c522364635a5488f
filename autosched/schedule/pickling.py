"""Pickles of schedules: the program they compute and their trace, as JSON. Unpickling makes the calls again."""

from __future__ import annotations

import copyreg
from typing import Any

from autosched.schedule.schedule import Schedule, replay
from autosched.te.graph_json import graph_from_json, graph_to_json


def made_again(graph: dict[str, Any], trace: Any, fixed_arguments: bool) -> Schedule:
    """A schedule with tensors of its own. Raises what `graph_from_json` and `replay` raise."""
    return replay(trace, graph_from_json(graph), trusted=not fixed_arguments)


def _parts(s: Schedule) -> tuple[Any, ...]:
    return made_again, (graph_to_json(s.outputs), s.trace.to_json(), s.fixed_arguments)


copyreg.pickle(Schedule, _parts)
