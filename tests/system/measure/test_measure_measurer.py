"""`Measurer` from outside: scheduling, limits, deduplication, play-offs, and what is left behind."""

from __future__ import annotations

import gc
import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import fake_backend
import numpy as np
import pytest
from fake_backend import digest_of
from measuring import children, open_fds

from autosched.errors import DeviceError, MeasureError, UsageError
from autosched.measure import STATUSES, Job, Measurement, MeasureOptions, Measurer, judge
from autosched.measure import batch as measure_batch
from autosched.measure.playoff import LATE

pytestmark = pytest.mark.timeout(120)

Make = Callable[..., Measurer]
PATIENT = {"timeout_s": 10.0, "build_timeout_s": 10.0}


def honest(count: int, start: int = 0) -> list[Job]:
    return [Job(i, "honest", {"ns": 1000 + i}) for i in range(start, start + count)]


@pytest.mark.parametrize("overlap", [False, True])
def test_every_job_is_measured_once(make_measurer: Make, overlap: bool) -> None:
    measurer = make_measurer(**PATIENT, builders=2, overlap=overlap)
    before = open_fds()
    jobs = honest(40)
    measured = list(measurer.measure(iter(jobs)))
    assert sorted(m.job.id for m in measured) == list(range(40))
    for m in measured:
        assert (m.status, m.error, m.verified) == ("ok", "", "full")
        assert set(m.samples) == {m.job.knobs["ns"] * 1e-9} and len(m.samples) >= 3
        assert m.build_s > 0 and m.run_s > 0 and len(m.digest) == 64
    assert measurer.best_s == pytest.approx(1e-6)
    assert measurer.restarts == 0
    assert list(measurer.measure([])) == []
    again = list(measurer.measure(honest(3, start=100)))  # the same workers
    assert [m.status for m in again] == ["ok"] * 3 and measurer.restarts == 0
    assert open_fds() == before + 3 * 3  # three pipes of each of three workers


def test_builders_do_not_disturb_the_runner(make_measurer: Make) -> None:
    """Without overlap, no builder has a job while the runner has one, and none runs during `yield`."""
    measurer = make_measurer(**PATIENT, builders=2)
    slots = measurer.context.pool.slots
    seen = []
    real = measurer.context.pool.submit

    def watch(slot, *args):  # type: ignore[no-untyped-def]
        seen.append((slot.role, {s.role for s in slots if s.state == "busy"}))
        return real(slot, *args)

    measurer.context.pool.submit = watch  # type: ignore[method-assign]
    for m in measurer.measure(honest(30)):
        assert m.ok and not any(s.state == "busy" for s in slots)
    assert all(busy <= {role} for role, busy in seen)
    roles = [role for role, _ in seen]
    assert roles.count("builder") == roles.count("runner") == 30
    assert roles[:17] == ["builder"] * 16 + ["runner"]


def test_identical_code_is_measured_once(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT)
    first, twin, other = measurer.measure(
        [Job(1, "honest", {"code": 7, "ns": 1500}), Job(2, "honest", {"code": 7}), Job(3, "honest", {"ns": 2000})]
    )
    assert (twin.status, twin.error) == ("ok", "same code as job 1")
    assert (twin.samples, twin.verified, twin.digest) == (first.samples, "full", first.digest)
    assert other.error == "" and other.digest != first.digest
    (later,) = measurer.measure([Job(9, "honest", {"code": 7})])
    assert later.error == "same code as job 1"


def test_what_was_measured_before_is_neither_written_nor_run(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT)
    digest = digest_of("segv", 7)  # it would crash
    measurer.remember(digest, [3e-6, 4e-6], verified="sampled", name="record 12ab", raced=True)
    measurer.remember("../escape", [1e-9], verified="full", name="nobody")
    (m,) = measurer.measure([Job(1, "segv", {"code": 7})])
    assert (m.status, m.error, m.samples) == ("ok", "same code as record 12ab", (3e-6, 4e-6))
    assert (m.digest, m.verified, m.raced, m.run_s) == (digest, "sampled", True, 0.0)
    session = measurer.context.session
    assert [path.name for path in session.known.iterdir()] == [digest]
    assert not list((session.path / "artifacts").iterdir())
    assert measurer.restarts == 0
    ((_, samples),) = measurer.playoff([Job(2, "honest", {"code": 7})], rounds=2)
    measurer.remember(digest_of("honest", 7), [1e-3], verified="full", name="record 34cd")
    ((_, again),) = measurer.playoff([Job(2, "honest", {"code": 7})], rounds=2)
    assert samples == again == pytest.approx([1e-6, 1e-6])  # built and run all the same


def test_identical_code_that_failed_is_tried_again(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT)
    measured = list(measurer.measure([Job(1, "wrong", {"code": 7}), Job(2, "wrong", {"code": 7})]))
    assert [(m.status, "same code" in m.error) for m in measured] == [("correctness", False)] * 2


def test_candidates_race_against_the_best(make_measurer: Make) -> None:
    times = {1: 10_000, 2: 55_000, 3: 16_000, 4: 12_000, 5: 10_500, 6: 9_000}
    jobs = [Job(i, "honest", {"ns": ns}) for i, ns in times.items()]
    jobs.append(Job(7, "honest", {"ns": 55_000, "code": 2}))  # the same code as job 2
    raced = list(make_measurer(**PATIENT).measure(jobs))
    assert [len(m.samples) for m in raced] == [3, 1, 2, 2, 3, 3, 1]
    assert [m.job.id for m in raced if m.raced] == [2, 3, 7]
    patient = list(make_measurer(**PATIENT, race=False).measure(jobs))
    assert [len(m.samples) for m in patient] == [3] * 7 and not any(m.raced for m in patient)
    assert [m.seconds for m in patient] == [m.seconds for m in raced]


def test_an_innocent_victim_is_measured_again(make_measurer: Make) -> None:
    """A worker that ran others before may have been damaged by them: one more try, on a new one."""
    measurer = make_measurer(**PATIENT)
    good, victim = measurer.measure([Job(1, "honest"), Job(2, "crash_once")])
    assert good.ok and victim.ok
    assert measurer.restarts == 1


def test_a_crash_on_a_new_worker_is_final(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT)
    (culprit,) = measurer.measure([Job(2, "crash_once")])  # would succeed the second time
    assert culprit.status == "crash"


def test_a_candidate_that_always_crashes_runs_twice_at_most(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT)
    statuses = [m.status for m in measurer.measure([Job(1, "honest"), Job(2, "segv"), Job(3, "honest")])]
    assert statuses == ["ok", "crash", "ok"]
    assert measurer.restarts == 2


def test_workers_killed_while_idle_are_replaced(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT)
    assert [m.status for m in measurer.measure(honest(2))] == ["ok"] * 2
    for slot in measurer.context.pool.slots:
        assert slot.worker.pid is not None
        os.kill(slot.worker.pid, signal.SIGKILL)
    time.sleep(0.2)
    assert [m.status for m in measurer.measure(honest(2, start=10))] == ["ok"] * 2


def test_without_verification_anything_goes(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT, verify=False)
    (wrong,) = measurer.measure([Job(1, "wrong")])
    assert (wrong.status, wrong.verified) == ("ok", "no")


def test_tolerances_are_passed_on(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT, rtol=1e-3, atol=1e9)
    (unsteady,) = measurer.measure([Job(1, "unsteady")])
    assert "two runs differ" in unsteady.error  # tolerance does not excuse a race


def test_number_and_repeat(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT, number=3, repeat=5)
    (m,) = measurer.measure([Job(1, "honest")])
    assert len(m.samples) == 5


def test_limits_follow_the_best(make_measurer: Make) -> None:
    measurer = make_measurer(timeout_s=60.0, min_repeat_ms=20, repeat=3)
    assert measurer.context.run_limit_s() == 60.0
    assert measurer.context.run_limit_s(patience=6) == 360.0  # the default schedule may be very slow
    measurer.best_s = 1e-3
    assert measurer.context.run_limit_s() == 2.0
    measurer.best_s = 1.0
    assert measurer.context.run_limit_s() == 30.0
    measurer.best_s = 100.0
    assert measurer.context.run_limit_s() == 60.0
    measurer.best_s = 1e-3
    assert dict(measurer.context.run_limits(60.0))["first"] == 60.0  # a play-off's
    measurer.best_s = 100.0
    limits = dict(measurer.context.run_limits(measurer.context.run_limit_s()))
    assert limits["first"] == limits["time"] == 60.0 and limits["load"] == 0.4
    device = make_measurer("opencl", timeout_s=60.0)
    assert dict(device.context.run_limits(60.0))["first"] == 60.4  # its first launch compiles


def test_leaving_early_ends_the_jobs_at_work(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT, builders=2, overlap=True)
    for _ in measurer.measure([*honest(10), Job(99, "hang")]):
        break
    assert not any(slot.state == "busy" for slot in measurer.context.pool.slots)
    assert [m.status for m in measurer.measure(honest(2, start=50))] == ["ok"] * 2


def test_a_batch_ends_when_the_time_is_over(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT)
    assert list(measurer.measure(honest(3), until=time.monotonic() - 1.0)) == []
    assert len(list(measurer.measure(honest(3), until=time.monotonic() + 600.0))) == 3


@pytest.mark.parametrize(("what", "where"), [("build_hang", "built"), ("load_hang", "loaded")])
def test_what_was_going_on_as_the_time_was_over_is_known(make_measurer: Make, what: str, where: str) -> None:
    measurer = make_measurer(**PATIENT)
    assert [m.ok for m in measurer.measure(honest(1))] == [True] and measurer.left_at == ""  # the workers have started
    assert list(measurer.measure([Job(7, what)], until=time.monotonic() + 2.0)) == []
    assert measurer.left_at == f"while it was {where}"


def test_a_build_that_takes_too_long_does_not_keep_the_others(make_measurer: Make) -> None:
    measurer = make_measurer(timeout_s=10.0, build_timeout_s=300.0, builders=2)
    assert [m.status for m in measurer.measure(honest(2))] == ["ok"] * 2  # the workers have started
    jobs = [Job(7, "build_hang"), *(Job(i, "honest", {"ns": 5000 + i}) for i in (1, 2))]
    found = list(measurer.measure(jobs, until=time.monotonic() + 8.0))
    assert {(m.job.id, m.status) for m in found} == {(1, "ok"), (2, "ok")}


@pytest.mark.parametrize("hanging", [Job(7, "honest", {"hang": 1}), Job(7, "load_hang")], ids=["build", "load"])
def test_a_compiler_has_no_more_time_than_others_need(
    make_measurer: Make, monkeypatch: pytest.MonkeyPatch, hanging: Job
) -> None:
    """Of a minute that the options allow, a second is enough to know what has lost."""
    monkeypatch.setattr(measure_batch, "_LEAST_BUILD_S", 1.0)
    measurer = make_measurer(timeout_s=10.0, build_timeout_s=60.0)
    assert [m.status for m in measurer.measure(honest(5))] == ["ok"] * 5
    (found,) = measurer.measure([hanging])
    assert found.status in ("build_timeout", "timeout") and found.error.startswith("no answer within 1")
    assert [m.status for m in measurer.measure(honest(2, start=50))] == ["ok"] * 2


def test_the_time_to_compile_follows_that_of_others_and_the_budget(make_measurer: Make) -> None:
    context = make_measurer(timeout_s=10.0, build_timeout_s=15.0).context
    assert context.compile_limit_s([1.0] * 9) == 15.0  # nothing was measured yet
    context.best_s = 1e-3
    assert context.compile_limit_s([1.0] * 3) == 15.0  # too few to tell
    assert context.compile_limit_s([1.0, 1.0, 1.0, 9.0]) == 8.0
    assert context.compile_limit_s([1.0] * 4, left=20.0) == 5.0
    assert context.compile_limit_s([0.01] * 4, left=1.0) == 4.0
    assert context.compile_limit_s([5.0] * 4) == 15.0


def test_one_batch_at_a_time(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT)
    batch = measurer.measure(honest(3))
    next(batch)
    with pytest.raises(UsageError, match="busy"):
        next(measurer.measure(honest(1)))
    with pytest.raises(UsageError, match="busy"):
        measurer.playoff(honest(1))
    batch.close()  # type: ignore[attr-defined]
    assert [m.status for m in measurer.measure(honest(1))] == ["ok"]


def test_closed(make_measurer: Make) -> None:
    with make_measurer() as measurer:
        pass
    measurer.close()
    with pytest.raises(UsageError, match="closed"):
        next(measurer.measure(honest(1)))


def test_a_forgotten_measurer_cleans_up(make_measurer: Make, tmp_path: Path) -> None:
    """Not through the fixture, which would hold it."""
    import fake_backend

    from autosched.target import Target

    before = children()
    options = MeasureOptions(builders=1)
    measurer = Measurer(
        {},
        Target.parse("llvm"),
        {},
        fake_backend.inputs(),
        fake_backend.expected(),
        options,
        backend="fake_backend:make",
    )
    assert next(measurer.measure(honest(1))).ok
    assert children() > before
    del measurer
    gc.collect()
    assert children() == before


def test_a_worker_that_cannot_work_says_why(make_measurer: Make) -> None:
    measurer = make_measurer("llvm -mcpu=none")
    with pytest.raises(MeasureError, match="cannot work: there is no such device"):
        next(measurer.measure(honest(1)))


def test_a_worker_that_does_not_start_says_why(make_measurer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/does/not/exist")
    with pytest.raises(MeasureError, match=r"runner process does not start: .*No such file"):
        next(make_measurer().measure(honest(1)))
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(MeasureError, match="does not start: it exited with status 1"):
        next(make_measurer().measure(honest(1)))


def test_a_limit_of_memory_that_no_worker_starts_with_is_named(make_measurer: Make) -> None:
    with pytest.raises(
        MeasureError, match=r"a memory limit of 1 MiB: the (runner|builder) .* with so little memory"
    ) as caught:
        next(make_measurer(memory_limit_mb=1).measure(honest(1)))
    assert caught.value.legal.startswith("about 512 MiB or more")
    assert next(make_measurer(memory_limit_mb=10**14).measure(honest(1))).ok


def test_one_device_error_is_a_status(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT)
    jobs = [Job(1, "honest"), Job(2, "device_error_once"), Job(3, "device_error"), Job(4, "honest")]
    assert [(m.status, m.error) for m in measurer.measure(jobs)] == [
        ("ok", ""),
        ("ok", ""),
        ("runtime", "the driver was reset"),
        ("ok", ""),
    ]


def test_a_lost_device_ends_the_run(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT)
    measured: list[Measurement] = []
    with pytest.raises(DeviceError, match="stopped working: the driver was reset"):
        for m in measurer.measure([Job(i, "device_error") for i in range(5)]):
            measured.append(m)
    assert [m.status for m in measured] == ["runtime"] * 3  # what was known by then was handed out first


def test_a_device_that_still_works_is_not_given_up(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT)
    jobs = [Job(0, "honest"), *(Job(i, "device_error") for i in range(1, 5)), Job(9, "honest", {"ns": 2000})]
    assert [m.status for m in measurer.measure(jobs)] == ["ok", *["runtime"] * 4, "ok"]


def test_playoff(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT, builders=2)
    jobs = [Job(1, "honest", {"ns": 3000}), Job(2, "wrong"), Job(3, "honest", {"ns": 2000}), Job(4, "build_error")]
    played = measurer.playoff([*jobs, jobs[0]], rounds=7)
    assert [job for job, _ in played] == [*jobs, jobs[0]]
    samples = [s for _, s in played]
    assert samples == [pytest.approx([3e-6] * 7), [], pytest.approx([2e-6] * 7), [], pytest.approx([3e-6] * 7)]
    assert measurer.playoff_errors.keys() == {2, 4}
    assert measurer.playoff_errors[2].startswith("correctness: y: 2 of 1,000 elements differ")
    assert measurer.playoff_errors[4].startswith("compile: ValueError")
    assert judge(samples).groups == ((2,), (0, 4))
    with pytest.raises(UsageError, match="round"):
        measurer.playoff(jobs, rounds=0)
    assert measurer.playoff([]) == []


def test_a_playoff_ends_when_the_time_is_over(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT)
    jobs = honest(2)
    assert [samples for _, samples in measurer.playoff(jobs, until=time.monotonic() - 1.0)] == [[], []]
    assert set(measurer.playoff_errors) == {job.id for job in jobs}
    played = measurer.playoff(jobs, rounds=3, until=time.monotonic() + 600.0)
    assert [len(samples) for _, samples in played] == [3, 3]


@pytest.mark.parametrize("what", ["load_hang", "hang"])
def test_a_player_that_hangs_does_not_keep_a_playoff_beyond_its_time(make_measurer: Make, what: str) -> None:
    measurer = make_measurer(**PATIENT)
    (ready,) = measurer.measure(honest(1))  # the workers have started
    assert ready.ok
    played = measurer.playoff([Job(7, what)], rounds=3, until=time.monotonic() + 3.0)
    assert played == [(Job(7, what), [])] and measurer.playoff_errors == {7: LATE}
    assert [m.status for m in measurer.measure(honest(2, start=50))] == ["ok"] * 2


def test_outputs_that_take_too_long_are_given_up(make_measurer: Make) -> None:
    measurer = make_measurer(**PATIENT)
    assert measurer.outputs_of(Job(7, "hang"), fake_backend.expected(), 60.0, time.monotonic() + 1.0) == ([], LATE)
    job = Job(8, "honest", {"code": 1})
    outputs, why = measurer.outputs_of(job, fake_backend.expected(), 60.0)
    assert why == "" and np.array_equal(outputs[0], fake_backend.expected()[0])
    assert [m.error for m in measurer.measure([job])] == [""]  # one call is no measurement to take over


def test_playoff_survives_its_players(make_measurer: Make) -> None:
    """One crashes in the third round, one is killed from outside once: the rest keep all their rounds."""
    measurer = make_measurer(**PATIENT)
    names = ["honest", "crash_in_playoff", "killed_in_playoff"]
    played = measurer.playoff([Job(i, name) for i, name in enumerate(names)], rounds=6)
    assert [len(samples) for _, samples in played] == [6, 0, 6]
    assert list(measurer.playoff_errors) == [1]
    assert measurer.playoff_errors[1].startswith("crash: SIGSEGV while it was timed")


def test_options_that_cannot_be_meant() -> None:
    for name, value in [("timeout_s", 0), ("repeat", 0), ("builders", 0), ("number", -1), ("rtol", -1.0)]:
        with pytest.raises(UsageError, match=name):
            MeasureOptions(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="timeout_s"):
        MeasureOptions(timeout_s=math.nan)


def test_measurement_median() -> None:
    assert Measurement(Job(1, "a"), "ok", (1.2, 1.0, 1.1)).seconds == 1.1
    assert Measurement(Job(1, "a"), "ok", (7.8, 0.18, 7.9)).seconds == 0.18  # two of them waited for a core
    assert Measurement(Job(1, "a"), "crash").seconds == math.inf
    assert "ok" in STATUSES and len(set(STATUSES)) == 9
