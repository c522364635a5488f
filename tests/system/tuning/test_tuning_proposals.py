"""Proposing ahead: who knows what when, one thread at a time, errors and ends."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

import pytest

from autosched.search import Candidate, Trial, make_strategy
from autosched.testing import SyntheticSpace
from autosched.tuning.proposals import Proposals


class Diary:
    """A strategy that writes down what is asked of it, and notices two callers at once."""

    def __init__(self, fail_at: int = -1, end_at: int = 10**9) -> None:
        self.fail_at, self.end_at = fail_at, end_at
        self.known: list[int] = []
        self.asked: list[tuple[int, ...]] = []  # what was known at each question
        self.threads: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()
        self._busy = threading.Lock()

    def propose(self, n: int) -> list[Candidate]:
        assert self._busy.acquire(blocking=False), "two callers at once"
        try:
            self.gate.wait(30)
            self.threads.add(threading.current_thread().name)
            self.asked.append(tuple(self.known))
            k = len(self.asked) - 1
            if k == self.fail_at:
                raise ValueError("no idea")
            return [Candidate(0, (k, i)) for i in range(n)] if k < self.end_at else []
        finally:
            self._busy.release()

    def observe(self, trials: Sequence[Trial]) -> None:
        assert self._busy.acquire(blocking=False), "two callers at once"
        self.known += [t.candidate.indices[0] for t in trials[:1]]
        self._busy.release()


def run(proposals: Proposals, batches: int, n: int = 4) -> list[list[Candidate]]:
    """The loop of a run."""
    taken = []
    for _ in range(batches):
        batch = proposals.take(n)
        if not batch:
            break
        taken.append(batch)
        proposals.prepare(n)
        proposals.observe([Trial(c, "ok", 1.0, (1.0,)) for c in batch])
    proposals.close()
    return taken


def test_a_batch_knows_all_before_it_without_looking_ahead() -> None:
    diary = Diary()
    taken = run(Proposals(diary, ahead=False), 4)
    assert diary.asked == [(), (0,), (0, 1), (0, 1, 2)] and diary.threads == {"MainThread"}
    assert [len(batch) for batch in taken] == [4] * 4


def test_a_batch_ahead_knows_all_but_the_one_being_built() -> None:
    diary = Diary()
    taken = run(Proposals(diary, ahead=True), 4)
    assert diary.asked == [(), (), (0,), (0, 1), (0, 1, 2)]  # the last was prepared and not taken
    assert [batch[0].indices[0] for batch in taken] == [0, 1, 2, 3]


def test_what_is_known_does_not_depend_on_how_long_proposing_takes() -> None:
    diary = Diary()
    proposals = Proposals(diary, ahead=True)
    batch = proposals.take(2)
    diary.gate.clear()
    proposals.prepare(2)  # waits at the gate, with nothing observed
    threading.Timer(0.05, diary.gate.set).start()
    proposals.observe([Trial(c, "ok", 1.0, (1.0,)) for c in batch])  # waits for it
    assert diary.asked == [(), ()] and diary.known == [0]
    proposals.take(2)
    assert "propose" in diary.threads


def test_what_a_smaller_batch_leaves_is_measured_next() -> None:
    """The strategy takes its proposals for being measured: one that is dropped would never be."""
    proposals = Proposals(Diary(), ahead=True)
    proposals.take(2)
    proposals.prepare(6)
    taken = [proposals.take(2), proposals.take(3)]
    proposals.prepare(4)  # of which one is there
    taken += [proposals.take(8)]
    assert [c.indices for batch in taken for c in batch] == [*((1, i) for i in range(6)), *((2, i) for i in range(3))]


def test_an_error_comes_out_where_the_answer_is_needed() -> None:
    proposals = Proposals(Diary(fail_at=1), ahead=True)
    batch = proposals.take(3)
    proposals.prepare(3)
    proposals.observe([Trial(c, "ok", 1.0, (1.0,)) for c in batch])  # the batch at work is not lost
    with pytest.raises(ValueError, match="no idea"):
        proposals.take(3)
    proposals.close()


def test_a_strategy_that_waits_for_results_is_asked_again() -> None:
    """One that proposes nothing while a batch is out is not at its end."""

    class Patient(Diary):
        def propose(self, n: int) -> list[Candidate]:
            return super().propose(n) if len(self.known) == len(self.asked) else []

    assert len(run(Proposals(Patient(end_at=3), ahead=True), 10)) == 3


def test_a_strategy_that_hangs_does_not_keep_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.tuning.proposals.PATIENCE_S", 0.01)
    diary = Diary()
    proposals = Proposals(diary, ahead=True)
    proposals.take(1)
    diary.gate.clear()
    proposals.prepare(1)
    proposals.close()
    diary.gate.set()


@pytest.mark.parametrize("ahead", [False, True])
def test_what_comes_first_is_a_batch_of_its_own(ahead: bool) -> None:
    diary, first = Diary(), [Candidate(7, (9,))]
    proposals = Proposals(diary, ahead, lambda: first)
    proposals.begin(4)
    assert proposals.take(4) == first and diary.asked == []
    assert [len(batch) for batch in run(proposals, 2)] == [4, 4]


def test_where_nothing_comes_first_the_strategy_is_asked() -> None:
    diary = Diary()
    assert len(Proposals(diary, False, list).take(3)) == 3 and diary.asked == [()]


def test_what_is_known_by_now_is_left_out() -> None:
    """The default schedule may be proposed while it is being measured."""
    proposals = Proposals(Diary(), False)
    proposals.begin(2)
    proposals.leave_out(Candidate(0, (0, 1)))
    assert proposals.take(2) == [Candidate(0, (0, 0))]
    proposals.begin(1)
    proposals.leave_out(Candidate(0, (1, 0)))
    assert proposals.take(1) == [Candidate(0, (2, 0))]  # none left of these: it is asked again


@pytest.mark.parametrize("ahead", [False, True])
def test_a_seed_decides_the_run(ahead: bool) -> None:
    def once() -> list[Candidate]:
        space = SyntheticSpace.standard()
        proposals = Proposals(make_strategy("guided", space, seed=3, model=None), ahead)
        taken: list[Candidate] = []
        for _ in range(8):
            batch = proposals.take(8)
            proposals.prepare(8)
            taken += batch
            proposals.observe(space.measure(batch))
        proposals.close()
        return taken

    first = once()
    assert first == once() and len(set(first)) == 64


@pytest.mark.parametrize("ahead", [False, True])
def test_a_strategy_that_is_still_at_work_when_the_time_is_over_is_left_as_it_is(ahead: bool) -> None:
    class Endless(Diary):
        def propose(self, n: int) -> list[Candidate]:
            while len(self.asked) == 1:  # the first answer comes at once
                sum(range(100))
            return super().propose(n)

    strategy = Endless()
    proposals = Proposals(strategy, ahead, left=lambda: 0.05)
    batch = proposals.take(4)
    assert len(batch) == 4 and not proposals.is_late
    proposals.prepare(4)
    proposals.observe([Trial(c, "ok", 1.0, (1.0,)) for c in batch])
    known = list(strategy.known)
    assert proposals.take(4) == [] and proposals.is_late
    proposals.observe([Trial(c, "ok", 1.0, (1.0,)) for c in batch])
    assert (proposals.take(4), strategy.known) == ([], known)
    proposals.close()


@pytest.mark.parametrize("what", ["propose", "observe"])
def test_a_strategy_that_sleeps_is_left_behind(what: str) -> None:
    """No step of Python code comes at which it could be stopped."""

    class Sleeper(Diary):
        def observe(self, trials: Sequence[Trial]) -> None:
            self.gate.wait(30)
            super().observe(trials)

    strategy, left = Sleeper(), [30.0]
    proposals = Proposals(strategy, False, left=lambda: left[0])
    trials = [Trial(c, "ok", 1.0, (1.0,)) for c in proposals.take(4)]
    strategy.gate.clear()
    left[0] = 0.05
    if what == "propose":
        assert proposals.take(4) == []
    else:
        proposals.observe(trials)
    assert proposals.is_late and proposals.late_s > 0 and strategy.known == []
    strategy.gate.set()
    proposals.observe(trials)
    assert proposals.take(4) == [] and strategy.known == []


def test_the_default_schedule_does_not_wait_for_it_till_the_end() -> None:
    strategy = Diary()
    strategy.gate.clear()
    proposals = Proposals(strategy, False, left=lambda: 300.0)
    proposals.begin(4)
    proposals.join(0.01)
    assert not proposals.is_late and proposals.at_hand == []
    strategy.gate.set()
    assert len(proposals.take(4)) == 4


def test_what_observing_raises_comes_out_at_once() -> None:
    class Forgetful(Diary):
        def observe(self, trials: Sequence[Trial]) -> None:
            raise ValueError("what was it?")

    for left in (math.inf, 300.0):
        proposals = Proposals(Forgetful(), False, left=lambda left=left: left)  # type: ignore[misc]
        with pytest.raises(ValueError, match="what was it"):
            proposals.observe([Trial(c, "ok", 1.0, (1.0,)) for c in proposals.take(4)])
