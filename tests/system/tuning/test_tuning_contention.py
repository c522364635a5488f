"""Searches on a machine that does something else, too: what is noticed, said and recorded, and who wins."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import autosched
from autosched.measure import timing as strain
from autosched.measure import workers
from autosched.measure.measurer import Measurer
from autosched.measure.protocol import Job, Measurement, MeasureOptions
from autosched.measure.timing import Strain
from autosched.measure.workers import early_workers, take_workers
from autosched.records import RecordLog, decode, default_path, encode
from autosched.space.loading import find_workload
from autosched.target import Target
from autosched.tuning import Note
from autosched.tuning.budget import Neighbours

ROOT = Path(__file__).resolve().parents[3]
SIZES = {"height": 24, "width": 40}
FAST = MeasureOptions(min_repeat_ms=0.2, repeat=2, builders=1)

#: Seconds of one call, and of one that waits for a thread without a core until the other program's slice is over.
CLEAN, WAITED = 0.11e-3, 7.8e-3


def measured(strain: float, run_s: float = 0.2) -> Measurement:
    return Measurement(Job(1, "s"), "ok", (1e-3,), run_s=run_s, strain=strain)


def test_other_programs_are_noticed_and_told_of_once() -> None:
    neighbours = Neighbours()
    neighbours.add(measured(0.6))
    assert neighbours.strain == 0.0 and neighbours.news() == ""  # it may have been a moment
    for _ in range(4):
        neighbours.add(measured(0.4))
    assert neighbours.strain == pytest.approx(0.44)
    assert neighbours.news().startswith("other programs are using this machine's CPUs")
    assert neighbours.news() == ""


def test_a_quiet_machine_is_not_spoken_of() -> None:
    neighbours = Neighbours()
    for share in (0.3, *[0.0] * 20):
        neighbours.add(measured(share))
    assert neighbours.strain == 0.0 and neighbours.news() == ""


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who took part in play-offs, on a machine on which the default schedule takes 2.48 ms alone on a core, and candidates 0.11 ms on all cores, which
    they have in one round of three. The median of theirs is that of those that waited."""

    played: list[str] = []

    def measure(self: Measurer, jobs: list[Job], quiet: Any = None, until: float | None = None) -> Any:
        if quiet is not None:
            quiet()
        for job in jobs:
            is_default = job.sketch == "default"
            seconds = 2.48e-3 if is_default else CLEAN * (1 + job.id / 100)
            share = 0.0 if is_default else 0.5
            yield Measurement(job, "ok", (seconds,) * 3, "", 0.1, 0.3, "full", f"{job.id:064x}", strain=share)

    def playoff(self: Measurer, jobs: list[Job], rounds: int = 15, until: float | None = None) -> Any:
        self.playoff_errors, self.playoff_strains = {}, {job.id: 0.5 for job in jobs}
        played.extend(job.sketch for job in jobs)
        return [(job, samples_of(job, i, rounds)) for i, job in enumerate(jobs)]

    monkeypatch.setattr(Measurer, "measure", measure)
    monkeypatch.setattr(Measurer, "playoff", playoff)
    return played


def samples_of(job: Job, place: int, rounds: int) -> list[float]:
    if job.sketch == "default":
        return [2.48e-3] * rounds
    return [CLEAN * (1 + place / 100) if (r + place) % 3 == 0 else WAITED for r in range(rounds)]


@pytest.mark.parametrize("doubt", [20.0, 1000.0])
def test_a_hopeless_default_schedule_never_wins(
    busy: list[str], doubt: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it stays away from the play-off, or takes part in it."""
    monkeypatch.setattr("autosched.tuning.playoff.BEYOND_DOUBT", doubt)
    blur = find_workload("box_blur", ROOT / "search_spaces")()
    events: list[Any] = []
    result = autosched.tune(
        blur, "llvm", trials=6, sizes=SIZES, records=tmp_path, strategy="random", measure=FAST, progress=events.append
    )
    assert result.best is not None
    assert result.seconds < 2 * CLEAN and result.speedup > 10 and result.interval[0] > 10
    assert "default" not in result.tied
    assert ("default" in busy) == (doubt > 2.48e-3 / CLEAN)
    # and it is said, live and in the result, and written down
    assert any("other programs are using" in e.text for e in events if isinstance(e, Note))
    assert result.strain > 0.3 and result.to_json()["strain"] == result.strain
    assert result.best.strain == 0.5
    lines = RecordLog(default_path("box_blur", "llvm", tmp_path)).read().records
    (winner,) = [r for r in lines if r.playoff and r.playoff["winner"]]
    assert winner.strain == 0.5 and winner.seconds < 2 * CLEAN
    assert decode(encode(winner)) == winner
    trials = [r for r in lines if r.sketch != "default" and r.playoff is None]
    assert trials and all(r.strain == 0.5 for r in trials)
    (default,) = [r for r in lines if r.sketch == "default"]
    assert default.strain == 0.0 and "strain" not in default.extra


def test_strain_is_the_time_that_threads_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = iter([1.0, 1.3, 1.3])
    clock = iter([100.0, 100.5, 101.0])
    monkeypatch.setattr(strain, "waited", lambda: next(waited))
    monkeypatch.setattr(strain.time, "monotonic", lambda: next(clock))
    before = Strain.now()
    assert before.share() == pytest.approx(0.6)
    assert before.share() == pytest.approx(0.3)


def test_what_a_record_says_of_strain_is_checked() -> None:
    record = RecordLog(ROOT / "records" / "box_blur.llvm.jsonl").read().records[0]
    assert record.strain == 0.0
    assert "strain" not in record.with_strain(0.01).extra  # as good as none
    assert record.with_strain(0.4321).strain == 0.432
    assert record.with_strain(0.4).with_strain(0.0) == record
    for bad in ("much", -1, True, None):
        changed = record.with_strain(0.4)
        changed.extra["strain"] = bad
        assert changed.strain == 0.0


def test_workers_can_be_started_before_it_is_known_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    target, options = Target.parse("llvm"), MeasureOptions(builders=1)
    with early_workers("llvm", options):
        found = take_workers(target, options)
        processes = [slot.worker._process for slot in found.pool.slots]
        assert len(processes) == 2 and all(isinstance(p, subprocess.Popen) for p in processes)
        other = take_workers(target, options)  # the first ones are taken
        assert other is not found
        other.close()
        assert found.session.path.is_dir()
    assert not found.session.path.exists() and not found.pool.slots[0].worker.running
    with early_workers("llvm", MeasureOptions(builders=1, memory_limit_mb=5000)):
        made = take_workers(target, options)  # those have another limit
        assert all(slot.worker.running for slot in made.pool.slots)
        made.close()
    with early_workers("no such target", options):
        assert not workers.waiting
