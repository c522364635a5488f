"""The default schedule of CPUs on random programs, as if all of them were large."""

from __future__ import annotations

import random

import numpy as np
import pytest

from autosched import build
from autosched.schedule.schedule import replay
from autosched.space import default as default_module
from autosched.space.default import default_schedule, plain_schedule
from autosched.target import Target
from autosched.testing.oracle import check_against_reference
from autosched.testing.programs import random_program


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Makes every threshold one that small programs meet, by a seed."""

    def apply(rng: random.Random) -> None:
        values = {
            "WORTH_THREADS": (1,),
            "LEAST_TASK": (1, 16, 256),
            "LONG_REDUCTION": (2, 64),
            "WINDOW": (1, 4, 64),
            "STRIP": (8, 16, 64),
            "SHORT": (2, 4, 16),
            "VECTORS_OF_BORDERED": (0, 1, 4),
            "LEAST_LANES": (2, 4),
        }
        for name, some in values.items():
            monkeypatch.setattr(default_module, name, rng.choice(some))

    return apply


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed: int, target: str, large) -> None:  # type: ignore[no-untyped-def]
    rng = random.Random(seed)
    program = random_program(rng)
    large(rng)
    s = default_schedule(program.args, Target(target).with_limits(vector_bytes=rng.choice((16, 32, 64))))
    again = replay(s.trace.to_json(), program.args, trusted=False)
    assert again.trace.to_json() == s.trace.to_json()
    check_against_reference(program.args, again, target, program.inputs())


@pytest.mark.parametrize("seed", range(100, 124))
def test_results_have_the_bits_of_plain_loops(seed: int, large) -> None:  # type: ignore[no-untyped-def]
    """Of sums of any floats, as nothing is added up in another order."""
    rng, strict = random.Random(seed), Target("llvm -strict")
    program = random_program(rng)
    large(rng)
    noise = np.random.default_rng(seed)
    inputs = [
        (a + noise.random(a.shape)).astype(a.dtype) if a.dtype.kind == "f" and a.dtype.itemsize > 2 else a
        for a in program.inputs()
    ]
    found = []
    for s in (default_schedule(program.args, strict), plain_schedule(program.args, strict)):
        got = build(s, strict, args=list(program.args))(*inputs)
        found.append(got if isinstance(got, (tuple, list)) else [got])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
