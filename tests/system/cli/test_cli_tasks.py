"""The command line of several tasks: how they are written, and what is wrong with some."""

from __future__ import annotations

from typing import Any

import pytest

from autosched.cli.app import main
from autosched.cli.tasks import parse_task
from autosched.errors import UsageError, WorkloadError
from autosched.tuning import TasksResult


def test_how_tasks_are_written() -> None:
    plain, weight = parse_task("matmul")
    assert (plain.params["m"], weight) == (1024, 1.0)
    small, weight = parse_task(' matmul(m=64, dtype="int8") * 2.5')
    assert (small.params["m"], small.params["dtype"], weight) == (64, "int8", 2.5)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("matmul(m=x)", "the parameters cannot be read"),
        ("matmul(64)", "the parameters cannot be read"),
        ("matmul(m=__import__('os'))", "the parameters cannot be read"),
        ("matmul(**{'m': 3})", "the parameters cannot be read"),
        ("matmul(m=1)+f(n=2)", "the parameters cannot be read"),
        (f"matmul(m={'(' * 5000}1{')' * 5000})", "the parameters cannot be read"),
        (f"matmul(m={'-' * 100000}1)", "the parameters cannot be read"),
        ("matmul*often", "the weight is not a number above 0"),
        ("matmul*0", "the weight is not a number above 0"),
        ("(m=3)", "this is not a task"),
    ],
)
def test_what_is_no_task(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_task(text)


def test_tasks_are_searched_as_tune_says(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: dict[str, Any] = {}

    def tune_tasks(tasks: Any, target: Any, **options: Any) -> TasksResult:
        asked.update(options, tasks=tasks, target=target)
        return TasksResult([], [], [], 1.0, 1.0, 0.0)

    monkeypatch.setattr("autosched.cli.tasks.tune_tasks", tune_tasks)
    words = "matmul(m=64)*3 softmax --space auto --strategy random --patience 5 --round 8 --repeat 4 --no-transfer"
    assert main(["tasks", *words.split(), "--progress", "none"]) == 0
    assert [w.name for w in asked["tasks"]] == ["matmul", "softmax"] and asked["weights"] == [3.0, 1.0]
    names = ("space", "strategy", "patience", "round_trials", "transfer", "trials", "budget_s")
    assert [asked[name] for name in names] == ["auto", "random", 5, 8, False, 200, None]
    assert asked["measure"].repeat == 4
    assert "total: " in capsys.readouterr().out


def test_unknown_workloads_and_parameters() -> None:
    with pytest.raises(WorkloadError, match="no such workload"):
        parse_task("matmull")
    with pytest.raises(WorkloadError, match="matmul"):
        parse_task("matmul(q=3)")


def test_tasks_that_were_not_reached_have_no_total(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = TasksResult([], [], [], float("inf"), float("inf"), 2.0)
    monkeypatch.setattr("autosched.cli.tasks.tune_tasks", lambda *args, **options: result)
    main(["tasks", "softmax", "--progress", "none"])
    assert "no total, as not all tasks were reached; 0 trials in " in capsys.readouterr().out
