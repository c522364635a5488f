"""How a run shares out a budget in seconds: on a clock of its own, with candidates that cost what a test says."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import autosched
from autosched.errors import RecordError, UsageError
from autosched.measure.measurer import Measurer
from autosched.measure.playoff import LATE
from autosched.measure.protocol import Job, Measurement, MeasureOptions
from autosched.records import RecordLog
from autosched.report.summary import summary_lines
from autosched.search import make_strategy
from autosched.search.guard import GuardedStrategy
from autosched.space.loading import find_workload
from autosched.testing import SyntheticSpace
from autosched.tuning import Note, TrialDone, blame
from autosched.tuning import run as tuning_run
from autosched.tuning.budget import FINALISTS, LEAST_ROUNDS, ROUNDS, WHOLE_GRACE_S, Budget
from autosched.tuning.expected import Expected, reference_limit_s

ROOT = Path(__file__).resolve().parents[3]
SIZES = {"height": 24, "width": 40}


def trial(build_s: float, run_s: float) -> Measurement:
    return Measurement(Job(1, "s"), "ok", (1e-3,), build_s=build_s, run_s=run_s)


def test_what_comes_once_is_no_cost_of_a_trial() -> None:
    budget = Budget(25.0, builders=2, sample_s=0.02)
    budget.default(trial(1.5, 0.5))
    assert budget.trial_s == pytest.approx(1.25)  # all that is known so far
    for _ in range(4):
        budget.measured(trial(0.2, 0.1))
    assert budget.trial_s == pytest.approx(0.1 + 0.1)
    assert budget.left(12.0) > 25.0 - 12.0 - 0.3 * 25.0
    budget.proposed(6.0)  # sketches were lowered for the first time: the next batch lowers fewer
    assert budget.trial_s == pytest.approx(0.1 + 0.1)
    assert 0 < budget.propose_s < 6.0
    assert not budget.is_over(12.0, is_first=False)


def test_the_reserve_for_the_play_off_is_bounded() -> None:
    budget = Budget(10.0, builders=2, sample_s=0.02)
    budget.default(trial(20.0, 10.0))
    assert budget.left(2.0) == pytest.approx(5.0)
    quick = Budget(100.0, builders=2, sample_s=0.02)
    quick.default(trial(0.01, 0.01))
    assert quick.left(0.0) == pytest.approx(90.0)


def test_no_batch_takes_more_than_half_of_what_is_left() -> None:
    budget = Budget(10.0, builders=2, sample_s=0.02)
    budget.measured(trial(0.4, 0.1))
    left = budget.left(2.0)
    assert budget.batch(16, 2.0) == int(left / 2 / 0.3)
    assert budget.batch(16, 9.9) == 1
    assert Budget(None, 2, 0.02).batch(16, 1e9) == 16


def test_batches_and_play_offs_end_with_the_budget() -> None:
    budget = Budget(10.0, builders=2, sample_s=0.02)
    budget.measured(trial(0.4, 0.1))
    assert budget.left_for_trials(4.0, is_first=False) == budget.left(4.0) < 6.0
    assert 6.0 < budget.left_for_trials(4.0, is_first=True) <= 7.0
    assert budget.left_for_playoff(4.0) == pytest.approx(8.0)
    assert budget.left_for_playoff(11.0) == pytest.approx(1.0)
    assert budget.left_for_playoff(12.5) == 0.0
    endless = Budget(None, 2, 0.02)
    assert endless.left_for_trials(1e9, is_first=False) == endless.left_for_playoff(1e9) == float("inf")


def test_a_late_play_off_is_smaller_and_never_without_a_verdict() -> None:
    budget = Budget(10.0, builders=2, sample_s=0.02)
    budget.measured(trial(0.2, 0.1))
    assert budget.playoff(0.0) == (FINALISTS, ROUNDS)
    entrants, rounds = budget.playoff(8.8)
    assert entrants < FINALISTS and rounds == LEAST_ROUNDS
    assert budget.playoff(11.0) == (1, LEAST_ROUNDS)


class Clock:
    """Time that passes only where candidates are measured."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A machine on which the default schedule takes 4 s to build, a candidate 0.3 s, each run 0.1 s and a play-off
    2 s, with two builders."""
    clock = Clock()

    def measure(self: Measurer, jobs: list[Job], quiet: Any = None, until: float | None = None) -> Any:
        if quiet is not None:
            quiet()
        build_s = 4.0 if jobs[0].sketch == "default" else 0.3
        clock.now += build_s * -(-len(jobs) // 2)
        for job in jobs:
            clock.now += 0.1
            seconds = 1e-3 if job.sketch == "default" else 5e-4
            yield Measurement(job, "ok", (seconds,) * 3, "", build_s, 0.1, "full", f"{job.id:064x}")

    def playoff(self: Measurer, jobs: list[Job], rounds: int = 15, until: float | None = None) -> Any:
        clock.now += 2.0
        return [(job, [1e-3 if job.sketch == "default" else 5e-4] * rounds) for job in jobs]

    monkeypatch.setattr(Measurer, "measure", measure)
    monkeypatch.setattr(Measurer, "playoff", playoff)
    monkeypatch.setattr(tuning_run.time, "monotonic", clock.monotonic)
    return clock


def tune(folder: Path, budget_s: float, strategy: str = "random") -> tuple[Any, list[Any]]:
    events: list[Any] = []
    blur = find_workload("box_blur", ROOT / "search_spaces")()
    result = autosched.tune(
        blur,
        "llvm",
        trials=None,
        budget_s=budget_s,
        sizes=SIZES,
        records=folder,
        strategy=strategy,
        transfer=False,
        measure=MeasureOptions(builders=2),
        progress=events.append,
    )
    return result, events


def test_a_budget_of_ten_seconds_is_good_for_several_trials(clock: Clock, tmp_path: Path) -> None:
    """The default schedule's build takes 4 s of them, which is no cost of a trial: those take 0.25 s."""
    result, events = tune(tmp_path, 10.0)
    assert 8 <= result.trials == sum(isinstance(e, TrialDone) for e in events)
    assert clock.now - 1000.0 <= 10.0
    assert result.best is not None and result.speedup == pytest.approx(2.0)
    more = result.expected
    assert more is not None and more.trials == result.trials and 0 < more.gain < more.most < 0.2
    assert more.seconds == pytest.approx(0.25 * more.trials, rel=0.5)
    told = [e.expected for e in events if isinstance(e, TrialDone)]
    assert told[:8] == [None] * 8 and told[-1] is not None  # too few trials at first


def test_a_budget_too_short_for_a_trial_says_how_long_one_takes(clock: Clock, tmp_path: Path) -> None:
    result, events = tune(tmp_path, 3.0)
    assert result.trials == 0
    (warning,) = [e.text for e in events if isinstance(e, Note) and e.level == "warning" and "budget" in e.text]
    assert warning.startswith("the budget of 3 s was used up before the first trial: preparing took 4.1 s")
    assert "one trial takes about 2.1 s" in warning and warning.endswith("s or more")


def test_a_first_batch_that_is_given_up_leaves_a_reason(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A candidate takes so long to build that the time is over before it runs."""
    real = Measurer.measure

    def measure(self: Measurer, jobs: list[Job], quiet: Any = None, until: float | None = None) -> Any:
        if jobs[0].sketch == "default":
            yield from real(self, jobs, quiet, until)
        elif until is not None:
            clock.now = until

    monkeypatch.setattr(Measurer, "measure", measure)
    result, events = tune(tmp_path, 5.0)
    assert result.trials == 0
    (warning,) = [e.text for e in events if isinstance(e, Note) and e.level == "warning" and "budget" in e.text]
    assert warning.startswith("the budget of 5 s was used up before the first trial")


def slow_default(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler takes longer over the default schedule than there is time."""
    real = Measurer.measure

    def measure(self: Measurer, jobs: list[Job], quiet: Any = None, until: float | None = None) -> Any:
        if jobs[0].sketch != "default":
            yield from real(self, jobs, quiet, until)
            return
        assert until is not None
        quiet()
        clock.now = until

    monkeypatch.setattr(Measurer, "measure", measure)


def test_a_default_schedule_that_is_not_ready_in_time_ends_the_run_with_a_prediction(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_default(clock, monkeypatch)
    result, events = tune(tmp_path, 3.0, strategy="bandit")
    assert clock.now - 1000.0 <= 3.0 + WHOLE_GRACE_S
    (warning,) = [e.text for e in events if isinstance(e, Note) and e.level == "warning"]
    assert warning == (
        "the budget of 3 s was used up before the default schedule had run, after 4.0 s; one trial takes about as "
        "long: give 12 s or more"
    )
    assert result.trials == 0 and result.best is None and math.isnan(result.default_seconds)
    predicted = result.predicted
    assert predicted is not None and predicted.verified == "no" and result.knobs == predicted.knobs
    assert "sch" in result.schedule_python or "split" in result.schedule_python
    assert not result.log.exists() or not RecordLog(result.log).read().records
    text = "\n".join(summary_lines(result, build="build it", resume="go on"))
    assert "the schedule that a model chose; about" in text and "its output was not checked" in text


def test_what_earlier_runs_found_is_the_result_where_nothing_could_be_run(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, _ = tune(tmp_path, 10.0)
    slow_default(clock, monkeypatch)
    result, _ = tune(tmp_path, 3.0)
    assert result.trials == 0 and result.resumed == before.trials
    assert result.best is not None and result.seconds == pytest.approx(5e-4)
    assert "the default schedule has not run" in "\n".join(summary_lines(result, build="", resume=""))


def test_a_run_without_a_trial_shows_what_it_would_have_tried(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default schedule has run, and there is no time for more."""
    assert (
        Budget(3.0, 2, 0.02)
        .too_short(4.0, "while it was loaded")
        .startswith(
            "the budget of 3 s was used up before the default schedule had run, after 4.0 s, while it was loaded; one trial"
        )
    )
    result, _ = tune(tmp_path, 3.0, strategy="bandit")
    assert result.trials == 0 and result.default_seconds == 1e-3
    assert result.predicted is not None and math.isnan(result.speedup)
    assert not any("the default schedule stays" in note for note in result.notes)


def test_a_strategy_that_had_the_time_is_named() -> None:
    """Both where it answers, only slowly, and where it was left behind."""
    told: list[str] = []
    space = SyntheticSpace.standard()
    run = SimpleNamespace(
        strategy=GuardedStrategy("mine.py:Slow", make_strategy("random", space, seed=0), space),
        options=SimpleNamespace(strategy="mine.py:Slow"),
        budget=Budget(10.0, builders=2, sample_s=0.02),
        proposals=SimpleNamespace(waited_s=4.0, late_s=0.5),
        note=lambda text, level: told.append(text),
        elapsed=10.0,
    )
    blame.for_faults(run, last=True)  # type: ignore[arg-type]
    blame.for_being_late(run)  # type: ignore[arg-type]
    assert told == []
    run.proposals = SimpleNamespace(waited_s=6.0, late_s=3.0)
    blame.for_faults(run)  # type: ignore[arg-type]
    assert told == []  # it is told at the end
    blame.for_faults(run, last=True)  # type: ignore[arg-type]
    blame.for_being_late(run)  # type: ignore[arg-type]
    assert told == [
        "6.0 of 10.0 s went to the strategy 'mine.py:Slow' itself",
        "strategy 'mine.py:Slow' was left behind: it had been choosing candidates for 3.0 s",
    ]


def test_several_tasks_end_with_their_budget(clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default schedule of the first would take longer than there is time for all."""
    limits: list[float | None] = []
    real = Expected.__post_init__

    def watched(self: Expected) -> None:
        limits.append(self.limit_s)
        real(self)

    monkeypatch.setattr(Expected, "__post_init__", watched)
    slow_default(clock, monkeypatch)
    told: list[Any] = []
    blur = find_workload("box_blur", ROOT / "search_spaces")
    result = autosched.tune_tasks(
        [blur(), blur(channels=1)],
        "llvm",
        budget_s=8.0,
        records=tmp_path,
        inputs=[blur(channels=c).sample_inputs(SIZES) for c in (3, 1)],
        strategy="random",
        transfer=False,
        measure=MeasureOptions(builders=2),
        progress=told.append,
    )
    assert clock.now - 1000.0 <= 8.0 + WHOLE_GRACE_S and result.results == []
    assert limits == [reference_limit_s(4.0)]  # the second, which is not reached, has no need of its reference
    texts = [e.text for e in told if isinstance(e, Note)]
    assert any("used up before the default schedule had run" in t for t in texts)
    assert any("not reached" in t for t in texts)


@pytest.mark.parametrize(("seconds", "is_better"), [(5e-4, True), (5e-3, False)])
def test_without_a_play_off_the_default_schedule_stays_where_it_is_faster(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, is_better: bool
) -> None:
    real = Measurer.measure

    def measure(self: Measurer, jobs: list[Job], quiet: Any = None, until: float | None = None) -> Any:
        for m in real(self, jobs, quiet, until):
            yield m if m.job.sketch == "default" else replace(m, samples=(seconds,) * 3)

    def late(self: Measurer, jobs: list[Job], rounds: int = 15, until: float | None = None) -> Any:
        self.playoff_errors = {job.id: LATE for job in jobs}
        return [(job, []) for job in jobs]

    monkeypatch.setattr(Measurer, "measure", measure)
    monkeypatch.setattr(Measurer, "playoff", late)
    result, _ = tune(tmp_path, 10.0)
    assert any("no time for a play-off" in note for note in result.notes) and result.trials
    assert (result.best is not None) is is_better
    assert result.seconds == (seconds if is_better else 1e-3) and result.speedup == (2.0 if is_better else 1.0)


@pytest.mark.parametrize(("kept", "is_recorded"), [(0, False), (1, False), (100, True)])
def test_no_command_is_offered_on_what_was_not_written(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int, is_recorded: bool
) -> None:
    """The disk is full after so many lines, of which the first is the default schedule's."""
    real, left = RecordLog.append, [kept]

    def append(self: RecordLog, record: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise RecordError("cannot write records: No space left on device", asked=str(self.path))
        real(self, record)

    monkeypatch.setattr(RecordLog, "append", append)
    result, _ = tune(tmp_path, 10.0)
    assert result.best is not None and result.is_recorded is is_recorded
    text = "\n".join(summary_lines(result, build="build it", resume="go on"))
    assert ("build    build it" in text) is is_recorded and ("which could not be written" in text) is not is_recorded


def test_batches_are_small_at_first(clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    real = Measurer.measure

    def measure(self: Measurer, jobs: list[Job], quiet: Any = None, until: float | None = None) -> Any:
        sizes.append(len(jobs))
        return real(self, jobs, quiet, until)

    monkeypatch.setattr(Measurer, "measure", measure)
    tune(tmp_path, 60.0)
    assert sizes[:6] == [1, 2, 4, 8, 16, 16]


def test_progress_that_is_no_function(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="True, False, or a function"):
        autosched.tune("box_blur", trials=1, records=tmp_path, progress="live")  # type: ignore[arg-type]
