"""Random programs, randomly scheduled, against the oracle: on the interpreter, on LLVM, on OpenCL.

A failure prints the program, the schedule as Python and, in the test's name, the seed. Thousands of
them, each failure made smaller: `python -m autosched.testing.fuzz --seeds 0:1000`.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.schedule.primitive import PRIMITIVES
from autosched.testing.case import Case
from autosched.testing.oracle import check_against_reference
from autosched.testing.programs import RandomProgram
from autosched.testing.schedules import with_numbers
from autosched.testing.steps import legal_steps


def seeds(first: int, count: int) -> list[object]:
    return [pytest.param(seed, id=f"seed{seed}") for seed in range(first, first + count)]


def draw(seed: int, target: str = "llvm", knobs: float = 0.3) -> tuple[RandomProgram, Schedule, dict[str, int]]:
    case = Case.draw(seed, "kernels" if target == "opencl" else target, knobs)
    return case.program, case.schedule(), case.knobs


def check(seed: int, backend: str, knobs: float = 0.3) -> None:
    case = Case.draw(seed, backend, knobs)
    try:
        case.check()
    except Exception as error:
        error.add_note(str(case))
        raise


@pytest.mark.parametrize("seed", seeds(0, 60))
def test_interpreted(seed: int) -> None:
    """In bounds, nothing read before it is written, parallel loops in either direction."""
    check(seed, "interpreter" if seed % 2 else "backwards")


@pytest.mark.parametrize("seed", seeds(100_000, 20))
def test_compiled(seed: int) -> None:
    check(seed, "llvm")


@pytest.mark.parametrize("seed", seeds(200_000, 20))
def test_kernels_interpreted(seed: int) -> None:
    """Work-items that meet at every barrier, shared storage that is complete when it is read."""
    check(seed, "kernels", knobs=0)


@pytest.mark.parametrize("seed", seeds(300_000, 10))
def test_kernels_on_a_device(seed: int) -> None:
    check(seed, "tasks" if seed % 2 else "opencl", knobs=0)


@pytest.mark.parametrize("seed", seeds(400_000, 20))
def test_traces_make_their_schedules_again(seed: int) -> None:
    program, s, _ = draw(seed)
    assert_roundtrip(s, program.args)


@pytest.mark.parametrize("seed", seeds(500_001, 9))
def test_numbers_in_place_of_knobs(seed: int) -> None:
    """A sketch with its knobs bound computes what the schedule with those numbers does."""
    program, s, values = draw(seed, knobs=1)
    concrete = create_schedule(list(program.args))
    names = {"te": te}
    exec(s.trace.as_python(knobs=values), names)
    names["schedule"](concrete)  # type: ignore[operator]
    assert concrete.trace.to_json() == with_numbers(s.trace.to_json(), values)
    check_against_reference(program.args, concrete, "llvm", program.inputs(seed), "interpreter")
    lower_structure(s, program.args, "llvm").bind(values)


def test_the_same_seed_is_the_same_program_and_schedule() -> None:
    for seed in range(5):
        (p, s, v), (q, t, w) = draw(seed), draw(seed)
        assert p.describe() == q.describe()
        assert s.trace.to_json() == t.trace.to_json()
        assert v == w
        assert all(a.tobytes() == b.tobytes() for a, b in zip(p.inputs(seed), q.inputs(seed), strict=True))


def test_every_primitive_is_drawn() -> None:
    missing, rich = set(PRIMITIVES), (184, 173, 145, 69, 284, 251, 9, 186)
    for seed in (*rich, *range(300)):  # those that draw them all now, and where steps have changed, all others
        if missing:
            missing.difference_update(i.kind for i in draw(seed)[1].trace)
    assert not missing


def test_legal_steps_are_legal() -> None:
    """Each of them, one after the other on schedules of their own."""
    for seed in range(4):
        program, s, _ = draw(seed)
        for step in legal_steps(s, random.Random(seed)):
            t = create_schedule(list(program.args))
            names = {"te": te}
            exec(s.trace.as_python(), names)
            names["schedule"](t)  # type: ignore[operator]
            step.apply(t)
            t.verify()


def test_a_wrong_result_is_reported_with_the_schedule() -> None:
    """A schedule for one program checked against another: the message says where and what."""
    a = te.placeholder((3,), "int32", name="A")
    right = te.compute((3,), lambda i: a[i] + 1, name="B")
    s = create_schedule(right)
    s[right].parallel("i")
    s[right].body = (a[s[right].axis[0].var] + 2,)
    with pytest.raises(AssertionError) as raised:
        check_against_reference([a, right], s, "llvm", [np.zeros(3, np.int32)], "interpreter")
    assert str(raised.value).startswith("B: 3 of 3 elements differ, first at [0]: got 2, expected 1")
    assert "\ndef schedule(s):" in str(raised.value)
