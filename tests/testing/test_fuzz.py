"""Cases as data, made smaller, and run in a process of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autosched.errors import UsageError
from autosched.testing import fuzz
from autosched.testing.case import Case
from autosched.testing.shrink import shrink


@pytest.mark.parametrize("seed", range(600_000, 600_006))
def test_a_case_survives_json(seed: int) -> None:
    case = Case.draw(seed, "interpreter")
    again = Case.from_json(json.loads(json.dumps(case.to_json())))
    assert str(again) == str(case)
    assert again.fingerprint == case.fingerprint
    again.check()


def test_the_same_seed_is_the_same_case() -> None:
    assert Case.draw(3, "llvm").fingerprint == Case.draw(3, "llvm").fingerprint != Case.draw(4, "llvm").fingerprint


def test_an_unknown_backend() -> None:
    with pytest.raises(UsageError, match=r"no such backend[\s\S]*interpreter"):
        Case.draw(0, "fpga")


def uses(case: Case, primitive: str, operator: str) -> bool:
    graph = case.graph
    return any(i[0] == primitive for i in case.trace) and any(e[0] == operator for e in graph["exprs"])


def test_shrinking_keeps_the_failure_and_little_else() -> None:
    """As if minimum and vectorize failed together."""
    found = 0
    for seed in range(600_100, 600_160):
        case = Case.draw(seed, "interpreter")
        if not uses(case, "vectorize", "min"):
            continue
        small = shrink(case, lambda c: uses(c, "vectorize", "min"))
        assert uses(small, "vectorize", "min")
        assert len(small.trace) <= 4
        assert (len(small.trace), len(small.graph["ops"])) < (len(case.trace), len(case.graph["ops"]))
        small.check()
        found += 1
        if found == 3:
            break
    assert found == 3


def test_every_step_is_a_case_that_can_be_asked_about() -> None:
    case = Case.draw(600_200, "interpreter")
    asked: list[Case] = []

    def fails(c: Case) -> bool:
        asked.append(c)
        str(c)
        return False

    assert shrink(case, fails) is case
    assert asked


def test_a_worker_reports_what_happened() -> None:
    worker = fuzz.Worker()
    try:
        passed = worker.run({"seed": 5, "backend": "interpreter", "generated": False})
        assert (passed.kind, passed.fingerprint) == ("", Case.draw(5, "interpreter").fingerprint)
        wrong = Case.draw(5, "interpreter").to_json() | {"sizes": {}, "graph": {}}
        assert worker.run({"case": wrong}).kind
        worker._limit = 0.0
        assert worker.run({"seed": 6, "backend": "interpreter", "generated": False}).kind == "timeout"
        worker._limit = 60.0
        assert worker.run({"seed": 6, "backend": "interpreter", "generated": False}).kind == ""
    finally:
        worker.close()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert fuzz.main(["--seeds", "0:2", "--backend", "interpreter"]) == 0
    assert "2 passed (2 on interpreter), 2 distinct cases" in capsys.readouterr().out

    def unlucky(self: fuzz.Worker, question: dict[str, object]) -> fuzz.Verdict:
        return fuzz.Verdict("AssertionError", "b[0] is 2, not 1", "0")

    monkeypatch.setattr(fuzz.Worker, "run", unlucky)
    assert fuzz.main(["--seeds", "1", "--backend", "interpreter", "--failures", str(tmp_path)]) == 1
    assert "b[0] is 2, not 1" in capsys.readouterr().out
    assert fuzz.main(["--case", str(tmp_path / "interpreter-1.json")]) == 0
