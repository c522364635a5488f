"""Random functions of arrays: what is traced, and what is compiled, computes what NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.testing.arrays import Case, draw, judge, main
from autosched.tracing.functions import table


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_traced(first: int) -> None:
    for seed in range(first, first + 30):
        case = draw(seed)
        assert judge(case, None) == "", f"seed {seed}\n{case}"


@pytest.mark.parametrize("seed", range(7000, 7006))
def test_compiled(seed: int, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    case = draw(seed)
    assert judge(case, "llvm") == "", str(case)


def test_a_difference_is_seen(monkeypatch, capsys) -> None:
    case = draw(3)
    broken = Case(case.inputs, (*case.steps, lambda v: np.flip(np.arange(3) + v[0].sum() * 0)), 0)
    assert judge(broken, None) == ""
    monkeypatch.setitem(table.FUNCTIONS, np.flip, lambda m, axis=None: m)
    assert "differs" in judge(broken, None)
    monkeypatch.setattr("autosched.testing.arrays.draw", lambda seed: broken)
    assert main(["--seeds", "0:1", "--target", "oracle"]) == 1
    assert "1 functions, 1 wrong" in capsys.readouterr().out
