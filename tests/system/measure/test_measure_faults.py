"""Whatever a candidate does is a status, and the next candidate is measured as if nothing had been."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from measuring import is_alive, no_traces

from autosched.measure import Job, Measurement

pytestmark = pytest.mark.timeout(120)

#: what the candidate does -> (status, words of its error)
FAULTS = {
    "segv": ("crash", "SIGSEGV in its first run; it printed: last words"),
    "ill": ("crash", "SIGILL"),
    "fpe": ("crash", "SIGFPE"),
    "bus": ("crash", "SIGBUS"),
    "abort": ("crash", "SIGABRT"),
    "exit": ("crash", "exited with status 0 and no answer"),
    "sysexit": ("crash", "exited with status 3 and no answer"),
    "overrun_far": ("crash", "SIGSEGV"),
    "native_bomb": ("crash", "SIGSEGV"),
    "crash_when_timed": ("crash", "SIGSEGV while it was timed"),
    "garbage": ("crash", "garbage on its pipe: not JSON"),
    "huge_frame": ("crash", "2,147,483,648 bytes announced"),
    "deep_frame": ("crash", "garbage on its pipe"),
    "other_job": ("crash", "an answer to question"),
    "stale": ("crash", "answered an earlier question a second time"),
    "nonsense": ("crash", "it sent an invalid answer: samples is not an array of positive numbers"),
    "repeats_phase": ("crash", "phase 'first' after 'first'"),
    "killed": ("lost", "SIGKILL from outside"),
    "hang": ("timeout", "no answer within 0.4 s in its first run"),
    "hang_with_gil": ("timeout", "no answer within 0.4 s"),
    "spin": ("timeout", "no answer within 0.4 s"),
    "deaf": ("timeout", "no answer within 0.4 s"),
    "stop": ("timeout", "no answer within 0.4 s"),
    "leaves_child": ("timeout", "no answer within 0.4 s"),
    "half_frame": ("timeout", "no answer within 0.4 s"),
    "wrong": ("correctness", "y: 2 of 1,000 elements differ, first at [3]: got 0, expected 7"),
    "nan": ("correctness", "z: 1 of 1,000 elements differ, first at [7]: got nan, expected 3.5"),
    "unwritten": ("correctness", "z: 1 of 1,000 elements differ"),
    "changes_input": ("correctness", "it changed 1 elements of its input x"),
    "overrun": ("correctness", "it wrote outside of y"),
    "underrun": ("correctness", "it wrote outside of z"),
    "wrong_when_timed": ("correctness", "y: 1 of 1,000 elements differ, first at [17]: got 36, expected 35"),
    "lazy_when_timed": ("correctness", "y: 1,000 of 1,000 elements differ"),
    "unsteady": ("correctness", "z: two runs differ in 1 elements"),
    "clock_nan": ("runtime", "the clock measured nan s"),
    "clock_zero": ("runtime", "the clock measured 0.0 s"),
    "clock_back": ("runtime", "the clock measured -0.001 s"),
    "clock_inf": ("runtime", "the clock measured inf s"),
    "raises": ("runtime", "OverflowError: too much"),
    "bomb": ("runtime", "Unable to allocate"),
    "load_error": ("compile", "the device's compiler refused the code\nkernel.cl:7: error: expected ';'"),
    "load_hang": ("timeout", "s of CPU time while it was loaded"),
    "build_constraints": ("constraints", "split(y, 64): the tile does not fit"),
    "build_schedule": ("constraints", "no such loop"),
    "build_error": ("compile", "ValueError: strange expression in two lines"),
    "build_segv": ("compile", "the compiler died: SIGSEGV while it was built"),
    "build_hang": ("build_timeout", "s of CPU time while it was built"),
    "build_killed_once": ("ok", ""),
    "killed_once": ("ok", ""),
    "flood": ("ok", ""),
    "twice": ("ok", ""),
}


HONEST_EVERY = 8  # an honest candidate after so many faults


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Measurement]]:
    """One run with every fault in it, and honest candidates in between."""
    jobs = []
    for i, name in enumerate(FAULTS):
        jobs.append(Job(i, name))
        if i % HONEST_EVERY == 0:
            jobs.append(Job(1000 + i, "honest", {"ns": 1000 + i}))
    with no_traces(tmp_path_factory.mktemp("sessions")) as make:
        measured = list(make(memory_limit_mb=8192).measure(jobs))
    assert sorted(m.job.id for m in measured) == sorted(job.id for job in jobs)
    yield {m.job.sketch if m.job.sketch != "honest" else f"honest {m.job.id}": m for m in measured}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(outcomes: dict[str, Measurement], name: str) -> None:
    status, words = FAULTS[name]
    measurement = outcomes[name]
    assert (measurement.status, measurement.error) == (status, measurement.error)
    assert words in measurement.error
    assert bool(measurement.samples) == (status == "ok")
    assert measurement.verified == ("full" if status == "ok" else "no")


def test_honest_candidates_do_not_notice(outcomes: dict[str, Measurement]) -> None:
    honest = [m for m in outcomes.values() if m.job.sketch == "honest"]
    assert len(honest) == -(-len(FAULTS) // HONEST_EVERY)
    for m in honest:
        assert (m.status, m.error, m.verified) == ("ok", "", "full")
        assert set(m.samples) == {m.job.knobs["ns"] * 1e-9} and len(m.samples) in (3, 7)  # the best get more


def test_hangs_are_killed_soon_after_their_limit(outcomes: dict[str, Measurement]) -> None:
    """Limit 0.4 s; the bound is generous, because the machine may be busy."""
    hung = [m for m in outcomes.values() if m.status == "timeout"]
    assert len(hung) == sum(status == "timeout" for status, _ in FAULTS.values())
    assert all(0.3 < m.run_s < 10 for m in hung)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing leads to such a process")
@pytest.mark.parametrize("name", ["daemon", "daemon_and_segv", "bare_daemon"])
def test_what_a_candidate_leaves_behind_is_ended(name: str, tmp_path: Path) -> None:
    """A process in another session, whose parents are gone, ends with the candidate and not with the search."""
    with no_traces(tmp_path) as make:
        measurer = make()
        left, honest = measurer.measure([Job(0, name), Job(1, "honest")])
        assert left.status == {"daemon": "ok", "daemon_and_segv": "crash", "bare_daemon": "timeout"}[name]
        assert honest.status == "ok"
        pid = int((measurer.context.session.path / "daemon").read_text())
        assert not is_alive(pid)
