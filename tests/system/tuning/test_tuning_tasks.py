"""Several tasks under one budget: whose turn it is, what is learnt, what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import autosched
from autosched import predicting, te
from autosched.errors import UsageError
from autosched.measure.protocol import MeasureOptions
from autosched.predicting import Foreseen
from autosched.runtime.device import describe_device
from autosched.search.points import Points
from autosched.target import Target
from autosched.tuning import Note, TasksProgress, TrialDone, tune_tasks
from autosched.tuning.tasks import Scheduler, TaskRun

FAST = MeasureOptions(min_repeat_ms=0.2, builders=1)


@autosched.workload
def scaled(rows=32, columns=64):
    x = te.placeholder((rows, columns), name="x")
    return x, te.compute((rows, columns), lambda i, j: x[i, j] * 2.0, name="y")


@autosched.workload
def summed(rows=16, columns=80):
    x = te.placeholder((rows, columns), name="x")
    k = te.reduce_axis((0, columns), "k")
    return x, te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name="s")


def test_tasks_share_the_trials(tmp_path) -> None:
    told: list[TasksProgress] = []
    watched: list[int] = []
    result = tune_tasks(
        [scaled, summed(rows=8)],
        "llvm",
        weights=[1, 3],
        trials=10,
        round_trials=4,
        records=tmp_path,
        measure=FAST,
        progress=lambda e: told.append(e) if isinstance(e, TasksProgress) else None,
        watch=lambda i, e: watched.append(i),
    )
    assert result.trials == 10
    assert sum(result.rounds) == len(told) == 3
    assert min(result.rounds) >= 1
    assert [t.trials for t in told[0].tasks] == [4, 0]
    assert not math.isfinite(told[0].objective)
    assert math.isfinite(told[-1].objective)
    assert told[-1].objective == pytest.approx(sum(t.weight * t.best_seconds for t in told[-1].tasks))
    assert set(watched) == {0, 1}
    assert {p.name for p in tmp_path.glob("*.jsonl")} == {"scaled.llvm.jsonl", "summed.llvm.jsonl"}
    assert result.to_json()["trials"] == 10
    few = tune_tasks([scaled, summed], "llvm", trials=4, records=tmp_path / "few", measure=FAST)
    assert [r.trials for r in few.results] == [2, 2]  # the first task does not use up what all have
    again = tune_tasks([scaled], "llvm", trials=2, round_trials=2, records=tmp_path, measure=FAST)
    assert again.results[0].resumed == result.results[0].trials


class FakeRun:
    """As much of a run as the scheduler's choice needs."""

    def __init__(self, name: str, default_seconds: float) -> None:
        self.workload = type("W", (), {"name": name})()
        self.sizes: dict[str, int] = {}
        self.default_seconds = default_seconds
        self.measured: list[object] = []


def task(name: str, history: list[float], weight: float = 1.0, seconds: float = 1.0) -> TaskRun:
    made = TaskRun(FakeRun(name, history[0]), weight, 4)  # type: ignore[arg-type]
    made.history = history
    made.measuring_s = seconds * len(history)
    return made


def chosen(*tasks: TaskRun, policy: str = "gradient", objective=None) -> str:
    scheduler = Scheduler(list(tasks), policy, objective, 100, None, lambda e: None)
    found = scheduler.choose()
    assert found is not None
    return found.run.workload.name


def test_a_small_last_batch_of_a_round_is_the_last_small_one() -> None:
    """A round of 32 ends with what is left of it; the next round begins with whole batches."""
    sizes: list[int] = []

    class Advancing(FakeRun):
        best_seconds = 1.0
        measurer = type("M", (), {"best_s": None})()
        most = 16
        expectation = None

        def choose_strategy(self) -> None:
            pass

        def learn_from_others(self) -> None:
            pass

        @contextmanager
        def measuring(self) -> Iterator[None]:
            yield

        def advance(self) -> bool:
            sizes.append(min(self.most, (4, 8, 16)[min(len(sizes), 2)]))
            self.measured += [None] * sizes[-1]
            return True

    one = TaskRun(Advancing("one", 1.0), 1.0, 32)  # type: ignore[arg-type]
    told: list[object] = []
    scheduler = Scheduler([one], "gradient", None, 100, None, told.append)
    scheduler.round(one)
    scheduler.round(one)
    assert sizes == [4, 8, 16, 4, 16, 16]
    scheduler.round(one, share=3)
    assert (sizes[6:], len(told)) == ([3], 3)


def test_the_gradient_prefers_what_matters_most_for_each_second() -> None:
    same = [8.0, 4.0]
    assert chosen(task("small", [0.8, 0.4]), task("large", same)) == "large"
    assert chosen(task("a", same), task("often", same, weight=3)) == "often"
    assert chosen(task("slow", same, seconds=4), task("quick", same)) == "quick"
    late, early = [8.0, 8.0, 8.0, 8.0, 4.0], [8.0, 4.0, 4.0, 4.0, 4.0]
    assert chosen(task("early", early), task("late", late)) == "late"
    assert chosen(task("stuck", [8.0, 8.0, 8.0, 8.0, 8.0, 8.0]), task("moving", [16.0, 12.0, 8.0])) == "moving"


def test_an_objective_of_ones_own() -> None:
    def worst(seconds):
        return max(seconds)

    assert chosen(task("fast", [8.0, 1.0]), task("worst", [8.0, 7.9, 7.8]), objective=worst) == "worst"


def test_round_robin_and_the_end() -> None:
    a, b = task("a", [4.0, 2.0]), task("b", [4.0])
    assert chosen(a, b, policy="round-robin") == "b"
    a.is_over = b.is_over = True
    assert Scheduler([a, b], "gradient", None, 9, None, lambda e: None).choose() is None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"trials": 1, "weights": [1, 2]}, "is not 1 weight"),
        ({"trials": 1, "weights": [0]}, "is not 1 weight"),
        ({"trials": 1, "policy": "fair"}, "no such policy"),
        ({}, "neither trials nor budget_s"),
        ({"trials": 0}, "not more than 0"),
        ({"budget_s": -1}, "not more than 0"),
        ({"trials": 9, "patience": 0}, "tune_tasks\\(patience=0\\)"),
        ({"trials": 9, "strategy_options": [1]}, "tune_tasks\\(strategy_options=..\\): \\[1\\] is not a dictionary"),
        ({"trials": 9, "rules": 3}, "tune_tasks\\(rules=..\\): 3 is not a list of rules"),
        ({"trials": 9, "measure": 3}, "tune_tasks\\(measure=..\\): 3 is not MeasureOptions"),
    ],
)
def test_what_is_refused(options, why) -> None:
    with pytest.raises(UsageError, match=why):
        tune_tasks([scaled], "llvm", **options)
    with pytest.raises(UsageError, match="no tasks"):
        tune_tasks([], "llvm", trials=1)


def test_a_budget_that_is_too_short_leaves_tasks_out_and_says_which(tmp_path, monkeypatch) -> None:
    """The task with the most work has its turn, in the seconds of grace; the seconds end the run, not the list."""
    monkeypatch.setattr("autosched.tuning.tasks.GRACE_S", 300.0)  # of which a busy machine needs more
    told: list[object] = []
    result = tune_tasks(
        [scaled, summed(rows=512), summed(rows=8)], "llvm", budget_s=0.05, records=tmp_path, measure=FAST, progress=told.append
    )  # fmt: skip
    assert (list(result.positions), [r.workload for r in result.results]) == ([1], ["summed(rows=512, columns=80)"])
    assert not math.isfinite(result.objective)
    (text,) = [e.text for e in told if isinstance(e, Note) and e.text.startswith("not reached")]
    assert text.endswith("for all: scaled(rows=32, columns=64), summed(rows=8, columns=80)")


def test_too_few_trials_leave_no_task_out(tmp_path) -> None:
    """Seconds leave tasks out; trials do not: the default schedule of each is measured."""
    told: list[object] = []
    result = tune_tasks(
        [scaled, summed, summed(rows=8)], "llvm", trials=1, records=tmp_path, measure=FAST, progress=told.append
    )
    assert len(result.results) == 3
    assert not any(isinstance(e, Note) and e.text.startswith("not reached") for e in told)


def test_what_build_foresaw_is_the_first_candidate(tmp_path, monkeypatch) -> None:
    """Whatever it was: two points of the space, of which the strategy would begin with one at most."""
    monkeypatch.setenv("AUTOSCHED_PREDICT", "1")
    w = summed(rows=64)
    sketch = autosched.search_space(w, "llvm").sketches[0]
    rows = Points(autosched.search_space(w, "llvm")).sketches[0].find(2, np.random.default_rng(0))
    points = [sketch.values(row) for row in map(tuple, rows.tolist())]
    assert points[0] != points[1]
    for number, knobs in enumerate(points):
        chosen = Foreseen(sketch.name, sketch.trace, knobs, 1e-6)
        monkeypatch.setattr(predicting, "foreseen_before", lambda *_, chosen=chosen: chosen)
        found: list[TrialDone] = []
        autosched.tune(
            w, "llvm", trials=2, records=tmp_path / str(number), measure=FAST,
            progress=lambda e, found=found: found.append(e) if isinstance(e, TrialDone) else None,
        )  # fmt: skip
        first, second = (e.record for e in found)
        assert (first.sketch, first.knobs) == (sketch.name, knobs)
        assert second.knobs != knobs or second.sketch != sketch.name


def test_what_build_chose_is_what_a_search_asks_for(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("AUTOSCHED_PREDICT", "1")
    w, target = summed(rows=64), Target.parse("llvm")
    device = describe_device(target)["name"]
    assert predicting.foreseen_before(w, target, device, {}) is None
    built = autosched.build(w, "llvm", records=str(tmp_path / "none")).provenance
    known = predicting.foreseen_before(w, target, device, {})
    assert known is not None
    assert (built["kind"], known.sketch, known.knobs) == ("predicted", built["sketch"], built["knobs"])
