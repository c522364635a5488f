"""Random programs with schedules that sketch rules make, against the oracle. More of them:
`python -m autosched.testing.fuzz --generated --seeds 0:1000`."""

from __future__ import annotations

import pytest

from autosched.testing.case import Case


def check(seed: int, backend: str) -> None:
    case = Case.generated(seed, backend)
    try:
        case.check()
    except Exception as error:
        error.add_note(str(case))
        raise


@pytest.mark.parametrize("seed", range(700_000, 700_012))
def test_interpreted(seed: int) -> None:
    check(seed, "interpreter" if seed % 2 else "backwards")


@pytest.mark.parametrize("seed", range(710_000, 710_010))
def test_compiled(seed: int) -> None:
    check(seed, "llvm")


@pytest.mark.parametrize("seed", range(720_000, 720_010))
def test_kernels_interpreted(seed: int) -> None:
    check(seed, "kernels")


@pytest.mark.parametrize("seed", range(730_000, 730_008))
def test_kernels_on_a_device(seed: int) -> None:
    check(seed, "tasks" if seed % 2 else "opencl")


def test_most_have_schedules_that_rules_made() -> None:
    cases = [Case.generated(seed, "llvm") for seed in range(740_000, 740_020)]
    assert sum(bool(c.knobs) for c in cases) >= 5
    assert Case.generated(740_000, "llvm") == cases[0]
