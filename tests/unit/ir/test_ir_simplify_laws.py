"""The simplifier on random index expressions: an unsound simplifier is a miscompiler.

`AUTOSCHED_FUZZ=100000:120000 pytest tests/unit/ir/test_ir_simplify_laws.py` runs those seeds instead of
the few that always run; a failure names its seed and depth.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from index_fuzz import Seeded
from simplifier_laws import Case

FIRST, _, END = os.environ.get("AUTOSCHED_FUZZ", "0:500").partition(":")
CHUNK = 100


class Drawn:
    """Decisions drawn from hypothesis, which can make a failing case smaller."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def integer(self, low: int, high: int) -> int:
        return self._data.draw(st.integers(low, high))

    def pick(self, options: Sequence[str]) -> str:
        return self._data.draw(st.sampled_from(options))


@pytest.mark.parametrize("start", range(int(FIRST), int(END), CHUNK))
def test_laws_on_seeds(start: int) -> None:
    """Deeper expressions than hypothesis draws, the same ones each time."""
    for seed in range(start, min(start + CHUNK, int(END))):
        depth = 3 + seed % 4
        try:
            Case(Seeded(seed), depth).check()
        except Exception as error:
            raise AssertionError(f"seed {seed}, depth {depth}: {error}") from error


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_laws(data: st.DataObject) -> None:
    """Small expressions, made smaller when one fails."""
    Case(Drawn(data), 3).check()
