"""One worker process and its clock, with a worker of a few lines instead of the real one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from measuring import children, is_alive, open_fds

from autosched.measure import proc, process
from autosched.measure.proc import CpuSeconds, cpu_seconds
from autosched.measure.process import BROKEN, DIED, KILLED, REPLY, STALE, TIMEOUT, Outcome, WorkerProcess, wait

pytestmark = pytest.mark.timeout(60)

TOY = Path(__file__).with_name("toy_worker.py")
LONG = [("work", 30.0)]


def make(tmp_path: Path) -> WorkerProcess:
    return WorkerProcess("toy", [sys.executable, "-S", str(TOY)], dict(os.environ), tmp_path)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerProcess]:
    before = children(), open_fds()
    worker = make(tmp_path)
    worker.start()
    yield worker
    worker.kill()
    assert (children(), open_fds()) == before


def ask(worker: WorkerProcess, limits: list[tuple[str, float]] = LONG, **message: Any) -> Outcome:
    assert worker.send(message, limits)
    ((answered, outcome),) = wait([worker], 60)
    assert answered is worker and not worker.busy
    return outcome


def works(worker: WorkerProcess) -> bool:
    """Whether it answers, after a restart if it needs one."""
    if not worker.running:
        worker.start()
    return ask(worker, do="echo", value=5).reply == {"got": 5}


def test_question_and_answer(worker: WorkerProcess) -> None:
    for value in ("ü", [1, 2], "x" * 500_000):  # the last one does not fit in the pipe at once
        outcome = ask(worker, do="echo", value=value)
        assert (outcome.kind, outcome.reply, outcome.phase) == (REPLY, {"got": value}, "work")
    assert worker.running


def test_what_it_prints_is_kept_apart(worker: WorkerProcess) -> None:
    assert ask(worker, do="print").log == "out err"
    assert ask(worker, do="echo", value=1).log == ""


def test_flood_of_output_is_bounded(worker: WorkerProcess) -> None:
    outcome = ask(worker, do="flood", blocks=300)
    assert outcome.kind == REPLY and 0 < len(outcome.log) <= 8192
    assert works(worker)


def test_endless_flood_is_killed_at_the_limit(worker: WorkerProcess) -> None:
    assert ask(worker, [("work", 0.3)], do="flood", blocks=10**9).kind == TIMEOUT


def test_own_session_and_no_foreign_descriptors(worker: WorkerProcess, tmp_path: Path) -> None:
    extra = os.open(tmp_path, os.O_RDONLY)
    try:
        reply = ask(worker, do="state").reply
    finally:
        os.close(extra)
    assert reply["sid"] == worker.pid != os.getsid(0)
    assert reply["cwd"] == str(tmp_path)
    assert len(reply["fds"]) == 6  # 0, 1, 2, its two pipes, and the listing itself


@pytest.mark.parametrize("do", ["half", "deaf"])
def test_silence(worker: WorkerProcess, do: str) -> None:
    start = time.monotonic()
    outcome = ask(worker, [("work", 0.1)], do=do)
    assert (outcome.kind, outcome.error) == (TIMEOUT, "no answer within 0.1 s")
    assert time.monotonic() - start < 10
    assert not worker.running and works(worker)


def test_stopped_process_is_killed(worker: WorkerProcess) -> None:
    assert ask(worker, [("work", 0.2)], do="signal", number=signal.SIGSTOP).kind == TIMEOUT
    assert works(worker)


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGXCPU"])
def test_death_by_its_own_signal(worker: WorkerProcess, name: str) -> None:
    outcome = ask(worker, do="signal", number=signal.Signals[name])
    assert (outcome.kind, outcome.error) == (DIED, name)
    assert works(worker)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGHUP"])
def test_killed_from_outside(worker: WorkerProcess, name: str) -> None:
    assert worker.send({"do": "deaf" if name == "SIGKILL" else "half"}, LONG)
    time.sleep(0.2)
    os.kill(worker.pid or 0, signal.Signals[name])
    ((_, outcome),) = wait([worker], 60)
    assert outcome.kind == KILLED and outcome.error.startswith(f"{name} from outside")


@pytest.mark.parametrize("status", [0, 7])
def test_exit_without_an_answer(worker: WorkerProcess, status: int) -> None:
    outcome = ask(worker, do="exit", status=status)
    assert (outcome.kind, outcome.error) == (DIED, f"it exited with status {status} and no answer")


def test_answers_to_other_questions(worker: WorkerProcess) -> None:
    assert works(worker)
    assert ask(worker, do="answer", shift=-1).kind == STALE
    worker.start()
    outcome = ask(worker, do="answer", shift=1)
    assert outcome.kind == BROKEN and "an answer to question" in outcome.error


def test_answering_twice_costs_the_worker_not_the_answer(worker: WorkerProcess) -> None:
    assert ask(worker, do="twice").kind == REPLY
    assert works(worker)
    assert ask(worker, do="twice late", pause=0.0).kind == REPLY
    time.sleep(0.3)
    assert not worker.send({"do": "echo", "value": 1}, LONG)  # noticed when it is needed next
    assert not worker.running and works(worker)


def test_a_second_answer_is_not_taken_for_that_to_the_next_question(worker: WorkerProcess) -> None:
    assert ask(worker, do="twice late", pause=0.5).kind == REPLY
    assert ask(worker, do="echo", value=1).kind == STALE
    assert works(worker)


def test_answer_and_exit(worker: WorkerProcess) -> None:
    assert ask(worker, do="answer and exit").kind == REPLY
    time.sleep(0.3)
    assert not worker.send({"do": "echo", "value": 1}, LONG)
    assert works(worker)


def test_closed_pipe(worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_EXIT_LIMIT_S", 0.3)
    outcome = ask(worker, do="close pipe")
    assert (outcome.kind, outcome.error) == (BROKEN, "it closed its pipe and went on running")


def test_closed_output_is_no_harm(worker: WorkerProcess) -> None:
    assert ask(worker, do="close output").kind == REPLY
    assert works(worker)


def test_phases_have_their_own_time(worker: WorkerProcess) -> None:
    limits = [("a", 5.0), ("b", 5.0), ("c", 0.2), ("d", 5.0)]
    outcome = ask(worker, limits, do="phases", phases=["b", "d"], pause=0.25)
    assert (outcome.kind, outcome.phase) == (REPLY, "d")
    outcome = ask(worker, limits, do="phases", phases=["b", "c"], pause=0.4)
    assert (outcome.kind, outcome.phase, outcome.error) == (TIMEOUT, "c", "no answer within 0.2 s")


@pytest.mark.parametrize("phases", [["b", "b"], ["c", "b"], ["a"], ["x"], [["b"]], [None]])
def test_phases_cannot_be_used_to_win_time(worker: WorkerProcess, phases: list[Any]) -> None:
    outcome = ask(worker, [("a", 5.0), ("b", 5.0), ("c", 5.0)], do="phases", phases=phases, pause=0.0)
    assert outcome.kind == BROKEN and "garbage on its pipe: phase" in outcome.error


def test_a_build_has_cpu_time(worker: WorkerProcess) -> None:
    """Twice the limit by the clock on the wall, and a fraction of it by that of the CPU."""
    outcome = ask(worker, [("build", CpuSeconds(0.5))], do="compute", cpu=0.1, pause=0.2)
    assert outcome.kind == REPLY and outcome.seconds > 0.9


@pytest.mark.parametrize("do", ["compute", "compute in a child"])
def test_cpu_time_runs_out(worker: WorkerProcess, do: str) -> None:
    outcome = ask(worker, [("build", CpuSeconds(0.3))], do=do, cpu=1e9, pause=0)
    assert (outcome.kind, outcome.error) == (TIMEOUT, "no answer within 0.3 s of CPU time")


def test_patience_with_a_build_has_an_end(worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "PATIENCE", 2.0)
    outcome = ask(worker, [("build", CpuSeconds(0.6))], do="compute", cpu=1e9, pause=0.3)
    assert outcome.kind == TIMEOUT and "s, in which it used 0." in outcome.error
    assert outcome.seconds > 1.1


def test_a_build_that_stands_still_is_not_waited_for(worker: WorkerProcess) -> None:
    outcome = ask(worker, [("build", CpuSeconds(2.0))], do="slow", pause=600)
    assert outcome.kind == TIMEOUT
    assert re.fullmatch(r"no answer within [\d.]+ s, in which it used 0(\.\d+)? s of CPU time", outcome.error)
    assert 1.9 < outcome.seconds < process.PATIENCE * 2.0


def test_without_cpu_time_the_wall_clock_counts(worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "cpu_seconds", lambda pid: None)
    outcome = ask(worker, [("build", CpuSeconds(0.2))], do="slow", pause=600)
    assert (outcome.kind, outcome.error) == (TIMEOUT, "no answer within 0.2 s")


def test_every_phase_has_its_own_cpu_time(worker: WorkerProcess) -> None:
    limits = [("a", CpuSeconds(0.4)), ("b", 30.0), ("c", CpuSeconds(0.4))]
    assert ask(worker, limits, do="phases", phases=["b", "c"], pause=0.1).kind == REPLY


def test_cpu_time_of_who_is_gone() -> None:
    assert cpu_seconds(os.getsid(0)) is None or cpu_seconds(os.getsid(0)) >= 0
    assert cpu_seconds(2**22 + 1) is None


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")
def test_who_has_no_children_is_not_looked_for_in_all_of_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> tuple[bool, bool]:
        return leader.pid in proc.children(), cpu_seconds(leader.pid) is not None

    leader = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        with_lists = asked()
        monkeypatch.setattr(proc, "_has_children", lambda pid: None)  # a system that keeps no lists
        assert with_lists == asked() == (True, True)
    finally:
        leader.kill()
        leader.wait()
    monkeypatch.undo()
    assert asked() == (False, False)


def test_the_whole_family_dies(worker: WorkerProcess) -> None:
    grandchild = ask(worker, do="family").reply["child"]
    assert is_alive(grandchild)
    worker.kill()
    for _ in range(200):
        if not is_alive(grandchild):
            break
        time.sleep(0.01)
    assert not is_alive(grandchild)


def test_family_of_a_crashed_worker_dies_too(worker: WorkerProcess) -> None:
    grandchild = ask(worker, do="family").reply["child"]
    assert ask(worker, do="signal", number=signal.SIGSEGV).kind == DIED
    time.sleep(0.2)
    assert not is_alive(grandchild)


def test_several_at_once(tmp_path: Path) -> None:
    """One hangs, one crashes, one answers: nobody waits for anybody."""
    workers = [make(tmp_path) for _ in range(3)]
    for worker in workers:
        worker.start()
    workers[0].send({"do": "half"}, [("work", 0.7)])
    workers[1].send({"do": "exit", "status": 1}, LONG)
    workers[2].send({"do": "echo", "value": 3}, LONG)
    kinds = {}
    while len(kinds) < 3:
        kinds.update({workers.index(worker): outcome.kind for worker, outcome in wait(workers, 30)})
    assert kinds == {0: TIMEOUT, 1: DIED, 2: REPLY}
    assert list(kinds)[-1] == 0
    assert wait(workers, 30) == []  # nobody is busy: no waiting
    for worker in workers:
        worker.kill()


def test_extend_gives_a_late_watcher_a_chance(worker: WorkerProcess) -> None:
    assert works(worker)
    worker.send({"do": "echo", "value": 1}, [("work", 0.0)])
    worker.extend(30)
    ((_, outcome),) = wait([worker], 60)
    assert outcome.kind == REPLY


def test_an_answer_that_waits_is_taken_even_after_the_deadline(worker: WorkerProcess) -> None:
    assert works(worker)
    worker.send({"do": "slow", "pause": 0.1}, [("work", 0.4)])
    assert worker.advance() is None
    time.sleep(0.6)
    ((_, outcome),) = wait([worker], 60)
    assert outcome.kind == REPLY


def test_misuse(worker: WorkerProcess) -> None:
    with pytest.raises(ValueError, match="cannot be asked"):
        worker.send({"do": "half"}, [])
    worker.send({"do": "half"}, LONG)
    with pytest.raises(ValueError, match="cannot be asked"):
        worker.send({"do": "half"}, LONG)
    worker.kill()
    worker.kill()


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    before = open_fds()
    worker = WorkerProcess("none", ["/does/not/exist"], {}, tmp_path)
    with pytest.raises(OSError):
        worker.start()
    assert not worker.running and open_fds() == before
    assert not worker.send({}, LONG)
