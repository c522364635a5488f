"""Undoing instructions of random schedules: what is left still computes the reference."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from autosched.errors import BuildError, LowerError, ScheduleError
from autosched.lowering.bounds import inferred_ranges
from autosched.schedule import Schedule, Trace
from autosched.schedule.schedule import replay
from autosched.schedule.undo import undoable, ways_to_undo
from autosched.testing.case import BACKENDS, Case
from autosched.testing.oracle import check_against_reference


def extents(s: Schedule) -> dict[Any, Any]:
    return {loop: found.extent for loop, found in inferred_ranges(s).items()}


def check_undone(case: Case, count: int, ended: Counter[str]) -> None:
    """Undo some instructions of a random schedule, and run what is left."""
    program = case.program
    trace = Trace.from_json(case.trace)
    todo = undoable(trace)
    random.Random(case.seed).shuffle(todo)
    target, how = BACKENDS[case.backend]
    for at, option in todo[:count]:
        for u in ways_to_undo(trace, at, program.args, case.knobs, option, extents):
            if u.trace is None:
                assert u.refused
                ended["refused"] += 1
                continue
            assert at not in u.origin or option
            assert len(u.origin) == len(u.trace)
            s = replay(Trace.from_json(u.trace.to_json()), program.args)
            assert s.trace.to_json() == u.trace.to_json()
            knobs = {name: value for name, value in case.knobs.items() if name in s.knobs}
            try:
                with np.errstate(all="ignore"):
                    check_against_reference(program.args, s, target, program.inputs(case.seed), how, knobs)
                ended["right"] += 1
            except (LowerError, ScheduleError, BuildError) as error:  # as measuring would find out
                assert error.why
                ended["not lowered"] += 1


@pytest.mark.parametrize(
    ("backend", "seeds"), [("interpreter", range(14)), ("llvm", range(100, 108)), ("kernels", range(200, 208))]
)
def test_what_is_left_computes_the_reference(backend: str, seeds: range) -> None:
    ended: Counter[str] = Counter()
    for seed in seeds:
        check_undone(Case.draw(seed, backend, 0.5), 3, ended)
    assert ended["right"] > 3 * (ended["refused"] + ended["not lowered"])
