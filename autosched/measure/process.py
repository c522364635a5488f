"""`WorkerProcess`: one worker process, its pipes and its deadlines.

The worker runs native code that may do anything to it, so nothing here trusts it: reads never block, answers are
matched with questions, every question has a deadline, and a worker that breaks a rule is killed with its process group.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autosched.measure.frames import FrameBuffer, FrameError, encode
from autosched.measure.proc import MARK, PATIENCE, CpuSeconds, cpu_seconds, end_strays

REPLY = "reply"  # it answered
TIMEOUT = "timeout"  # it did not answer in time, and was killed
DIED = "died"  # it ended without an answer: a signal of its own making, or an exit
KILLED = "killed"  # somebody else ended it (SIGKILL, SIGTERM, SIGHUP)
BROKEN = "broken"  # what it wrote on the pipe is not an answer; it was killed
STALE = "stale"  # it answered an earlier question again; it was killed

#: Signals that come from outside: the kernel's out-of-memory killer, an administrator.
_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)

_TERM_GRACE_S = 0.2  # between SIGTERM and SIGKILL
_REAP_LIMIT_S = 5.0  # a process stuck in a driver may outlive SIGKILL; do not wait for ever
_EXIT_LIMIT_S = 1.0  # between closing its pipe and being gone
_TICK_S = 0.25  # longest sleep between two looks at a worker that has become silent
_LEAST_LOOK_S = 0.5  # between two looks at the CPU time of a worker that is late
_LOG_KEPT = 8192  # bytes
_READ_PER_TICK = 1 << 20  # bytes, so that a flood on one pipe cannot stop the clock


@dataclass(frozen=True)
class Outcome:
    """The end of one question; `log` is the end of what the worker printed meanwhile, `spent` the seconds of each of
    its phases."""

    kind: str
    reply: dict[str, Any] = field(default_factory=dict)
    phase: str = ""
    error: str = ""
    log: str = ""
    seconds: float = 0.0
    spent: dict[str, float] = field(default_factory=dict)


class WorkerProcess:
    """A child process in a session of its own, which is asked one question at a time over two pipes.

    `command` is the argument list, to which `--read-fd`, `--write-fd` and `--parent` are appended. `send` a question,
    then `wait` (or `advance`) until there is an outcome. After any outcome but REPLY the process is dead, and `start`
    makes a new one.
    """

    def __init__(self, name: str, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self.name = name
        self._command, self._env, self._cwd = list(command), dict(env), cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._fds: dict[str, int] = {}  # "requests", "answers", "log": our ends, all non-blocking
        self._abandoned: list[subprocess.Popen[bytes]] = []
        self._sequence = 0
        self._mark = ""
        self._reset()

    def _reset(self) -> None:
        self.busy = False
        self._is_new = True
        self._frames = FrameBuffer()
        self._outgoing = b""
        self._log = bytearray()
        self._limits: dict[str, float] = {}
        self._spent: dict[str, float] = {}
        self._phase = ""
        self._sent = self._deadline = math.inf
        self._entered = 0.0
        self._used_before: float | None = None  # CPU time as the phase began
        self._used: float | None = None  # and when it was last looked at

    # -- start and end ----------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether there is a process; it may just have died."""
        return self._process is not None

    @property
    def phase(self) -> str:
        """What it was last known to do of the question that it is busy with."""
        return self._phase

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Spawn the process. Raises OSError when the system has no process or pipe left."""
        self.kill()
        self._reset()
        self._mark = secrets.token_hex(8)
        theirs: list[int] = []
        try:
            requests, self._fds["requests"] = _pipe(theirs, ours="write")
            answers, self._fds["answers"] = _pipe(theirs, ours="read")
            log, self._fds["log"] = _pipe(theirs, ours="read")
            ends = ["--read-fd", str(requests), "--write-fd", str(answers), "--parent", str(os.getpid())]
            self._process = subprocess.Popen(
                [*self._command, *ends],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(requests, answers),
                start_new_session=True,
                env={**self._env, MARK: self._mark},
                cwd=self._cwd,
            )
        except BaseException:
            # A child that was spawned all the same sees its pipe end, and leaves.
            self._close_pipes()
            raise
        finally:
            for fd in theirs:
                os.close(fd)

    def kill(self) -> None:
        """End the whole process group, reap the child, close the pipes. Safe to call twice."""
        process, self._process = self._process, None
        self.busy = False
        try:
            if process is not None:
                self._end_group(process)
        finally:
            self._close_pipes()
            self._abandoned = [p for p in self._abandoned if not self._reap(p)]

    def _end_group(self, process: subprocess.Popen[bytes]) -> None:
        """Send SIGTERM, then SIGKILL; end what left the group before that, while its parents are known, and after.

        The child is reaped last: until then its id cannot be reused.
        """
        try:
            end_strays(self._mark, leader=process.pid)
            if not _has_exited(process.pid):
                _signal_group(process.pid, signal.SIGTERM)
                _await_exit(process.pid, _TERM_GRACE_S)
        finally:
            _signal_group(process.pid, signal.SIGKILL)
            _await_exit(process.pid, _REAP_LIMIT_S)
            end_strays(self._mark)
            if not self._reap(process):
                self._abandoned.append(process)

    def _reap(self, process: subprocess.Popen[bytes]) -> bool:
        try:
            pid, status = os.waitpid(process.pid, os.WNOHANG)
        except ChildProcessError:  # the host program waits for all children itself
            process.returncode = 0
            return True
        if pid == 0:
            return False
        process.returncode = os.waitstatus_to_exitcode(status)
        return True

    def _close_pipes(self) -> None:
        for fd in self._fds.values():
            os.close(fd)
        self._fds = {}

    # -- one question and its outcome -------------------------------------------------------------

    def send(self, message: dict[str, Any], limits: Sequence[tuple[str, float]]) -> bool:
        """Ask a question. Returns False, and ends the process, where the idle worker turns out to be broken.

        `limits` are the phases of the work in order, each with its seconds or `CpuSeconds`. The clock starts with the
        first phase and again when the worker announces a later one; none is repeated, so the whole lasts at most their
        sum. Raises FrameError for a message that is too large.
        """
        if self.busy or not limits:
            raise ValueError(f"worker {self.name} cannot be asked: busy, or no limits given")
        if not self.running or not (self._is_new or self._is_quiet()):
            self.kill()
            return False
        self._is_new = False  # one that dies at its start shall say why, as an outcome
        self._sequence += 1
        self._outgoing = encode({**message, "seq": self._sequence})
        self._log.clear()
        self._limits = dict(limits)
        self._sent, self._spent = time.monotonic(), {}
        self._start_clock(limits[0][0])
        self.busy = True
        return True

    def _is_quiet(self) -> bool:
        """Whether the idle worker is alive and has written nothing since its last answer."""
        self._read_log()
        try:
            open_ = self._read("answers", self._frames.feed)
        except OSError:
            open_ = False
        return open_ and not len(self._frames) and not _has_exited(self.pid)

    def extend(self, seconds: float) -> None:
        """Give a pending question at least `seconds` from now.

        For a caller that did not watch for a while: an answer may wait, or the worker may have been blocked on a full
        pipe.
        """
        if self.busy:
            self._deadline = max(self._deadline, time.monotonic() + seconds)

    def advance(self) -> Outcome | None:
        """Read and write what can be without waiting; returns the outcome if there is one now."""
        if not self.busy:
            return None
        self._read_log()
        try:
            self._write()
            open_ = self._read("answers", self._frames.feed)
            reply = self._take_reply()
        except FrameError as error:
            return self._fail(BROKEN, f"garbage on its pipe: {error}")
        except _StaleAnswerError:
            return self._fail(STALE, "it answered an earlier question a second time")
        if reply is not None:
            return self._answered(reply)
        if not open_ or _has_exited(self.pid):
            return self._gone()
        if time.monotonic() >= self._deadline and (late := self._is_late()):
            return self._fail(TIMEOUT, late)
        return None

    def _start_clock(self, phase: str) -> None:
        self._phase = phase
        self._entered = time.monotonic()
        self._deadline = self._entered + self._limits[phase]
        self._used_before = self._used = None
        if isinstance(self._limits[phase], CpuSeconds) and self.pid is not None:
            self._used_before = self._used = cpu_seconds(self.pid)

    def _is_late(self) -> str:
        """Return why the worker is late; empty, with a later deadline, where it got too little of the CPU.

        A blocked worker uses no CPU time, and is late at once.
        """
        limit, before, earlier = self._limits[self._phase], self._used_before, self._used
        now = None if before is None or self.pid is None else cpu_seconds(self.pid)
        if before is None or earlier is None or now is None:
            return f"no answer within {limit:.3g} s"
        used, waited = now - before, time.monotonic() - self._entered
        if used >= limit:
            return f"no answer within {limit:.3g} s of CPU time"
        if now == earlier or waited >= PATIENCE * limit:
            return f"no answer within {waited:.3g} s, in which it used {used:.2g} s of CPU time"
        self._used = now
        self._deadline = time.monotonic() + max(limit - used, _LEAST_LOOK_S)
        return ""

    def _take_reply(self) -> dict[str, Any] | None:
        while (message := self._frames.pop()) is not None:
            sequence = message.pop("seq", None)
            if sequence != self._sequence:
                if isinstance(sequence, int) and 0 < sequence < self._sequence:
                    raise _StaleAnswerError
                raise FrameError(f"an answer to question {str(sequence)[:20]!r}, asked was {self._sequence}")
            if "phase" not in message:
                return message
            self._enter(message["phase"])
        return None

    def _enter(self, phase: Any) -> None:
        names = list(self._limits)
        if phase not in names or names.index(phase) <= names.index(self._phase):
            raise FrameError(f"phase {str(phase)[:20]!r} after {self._phase!r}")
        self._end_phase()
        self._start_clock(phase)

    def _end_phase(self) -> None:
        self._spent[self._phase] = time.monotonic() - self._entered

    def _answered(self, reply: dict[str, Any]) -> Outcome:
        self.busy = False
        self._read_log()
        self._end_phase()
        seconds = time.monotonic() - self._sent
        outcome = Outcome(REPLY, reply, self._phase, "", self._log_tail(), seconds, self._spent)
        if len(self._frames):  # it went on writing after its answer
            self.kill()
        return outcome

    def _gone(self) -> Outcome:
        """The outcome of a worker that closed its pipe or ended, with the signal that ended it."""
        process = self._process
        assert process is not None
        if not _await_exit(process.pid, _EXIT_LIMIT_S):
            return self._fail(BROKEN, "it closed its pipe and went on running")
        outcome = self._fail(DIED, "")
        kind, error = _describe_exit(process.returncode)
        return replace(outcome, kind=kind, error=error)

    def _fail(self, kind: str, error: str) -> Outcome:
        seconds = time.monotonic() - self._sent
        self._read_log()
        log = self._log_tail()
        self.kill()
        return Outcome(kind, {}, self._phase, error, log, seconds)

    # -- pipes ------------------------------------------------------------------------------------

    def register(self, poller: select.poll) -> None:
        """Have `poller` wake when `advance` has something to do."""
        for name in ("answers", "log"):
            if name in self._fds:
                poller.register(self._fds[name], select.POLLIN)
        if self._outgoing:
            poller.register(self._fds["requests"], select.POLLOUT)

    @property
    def wake_at(self) -> float:
        """Monotonic time of the deadline."""
        return self._deadline

    def _write(self) -> None:
        while self._outgoing:
            try:
                self._outgoing = self._outgoing[os.write(self._fds["requests"], self._outgoing) :]
            except BlockingIOError:
                return
            except OSError:  # the reading end is gone: `_gone` will say why
                self._outgoing = b""

    def _read(self, name: str, take: Any) -> bool:
        """Pass what has arrived to `take`; False at the end of the stream."""
        for _ in range(_READ_PER_TICK >> 16):
            try:
                data = os.read(self._fds[name], 1 << 16)
            except BlockingIOError:
                return True
            if not data:
                return False
            take(data)
        return True

    def _read_log(self) -> None:
        if "log" not in self._fds:
            return
        if not self._read("log", self._log.__iadd__):
            os.close(self._fds.pop("log"))  # else the poller would wake for ever
        del self._log[:-_LOG_KEPT]

    def _log_tail(self) -> str:
        return self._log.decode(errors="replace").strip()


class _StaleAnswerError(Exception):
    """An answer to a question that was answered before."""


def wait(workers: Collection[WorkerProcess], timeout: float) -> list[tuple[WorkerProcess, Outcome]]:
    """Outcomes of busy workers, as soon as there is one; none after `timeout` seconds.

    A worker past its deadline is killed here.
    """
    end = time.monotonic() + timeout
    while True:
        watched = [worker for worker in workers if worker.busy]
        done = [(worker, outcome) for worker in watched if (outcome := worker.advance()) is not None]
        now = time.monotonic()
        if done or not watched or now >= end:
            return done
        poller = select.poll()
        for worker in watched:
            worker.register(poller)
        until = min(end, now + _TICK_S, *(worker.wake_at for worker in watched))
        poller.poll(max(0, math.ceil((until - now) * 1000)))


def _pipe(theirs: list[int], ours: str) -> tuple[int, int]:
    """(the child's end, our end, which does not block); the child's is added to `theirs`."""
    read, write = os.pipe()
    child, parent = (read, write) if ours == "write" else (write, read)
    theirs.append(child)
    os.set_blocking(parent, False)
    return child, parent


def _signal_group(pid: int, number: signal.Signals) -> None:
    # macOS answers EPERM for a group of zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _has_exited(pid: int | None) -> bool:
    """Whether the child has ended; it is not reaped."""
    if pid is None:
        return True
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _await_exit(pid: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    pause = 0.0005
    while not _has_exited(pid):
        if time.monotonic() >= end:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.01)
    return True


def _describe_exit(code: int | None) -> tuple[str, str]:
    """(DIED or KILLED, words) for a return code as `subprocess` gives it."""
    if code is None or code >= 0:
        return DIED, f"it exited with status {code} and no answer"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if -code in _OUTSIDE:
        return KILLED, f"{name} from outside the process: out of memory, or somebody ended it"
    return DIED, name
