"""A stand-in for the compiler whose candidates misbehave on demand.

The sketch of a job names what its kernel does; knobs give numbers. The honest kernel computes
`y = 2 x + 1` (int32) and `z = x / 2` (float32) and claims to take `ns` nanoseconds per call.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import json
import os
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from autosched.errors import BuildError, DeviceError, LowerError, ScheduleError

SIZE = 1000  # elements; 4000 bytes leave 32 bytes up to the next multiple of 64


def inputs() -> list[np.ndarray]:
    return [np.arange(SIZE, dtype=np.int32)]


def expected() -> list[np.ndarray]:
    (x,) = inputs()
    return [2 * x + 1, (x / 2).astype(np.float32)]


def make(message: dict[str, Any]) -> FakeBackend:
    if message["target"]["options"].get("mcpu") == "none":
        raise DeviceError("there is no such device")
    return FakeBackend()


def digest_of(sketch: str, code: int) -> str:
    return hashlib.sha256(f"{sketch} {code}".encode()).hexdigest()


class FakeBackend:
    def build(self, job: Any, path: Path, known: Callable[[str], bool]) -> str:
        BUILDS.get(job.sketch, _hang_in_native_code if "hang" in job.knobs else lambda: None)()
        digest = digest_of(job.sketch, job.knobs.get("code", job.id))
        if not known(digest):
            path.write_text(json.dumps(job.to_json()))
        return digest

    def load(self, path: Path) -> FakeKernel:
        job = json.loads(path.read_text())
        if job["sketch"] == "load_error":
            print("kernel.cl:7: error: expected ';'", file=sys.stderr, flush=True)
            raise BuildError("the device's compiler refused the code")
        if job["sketch"] == "load_hang":
            _hang_in_native_code()
        return FakeKernel(job["sketch"], job["knobs"])


def _raise(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def _hang_in_native_code() -> None:
    ctypes.CDLL(None).pause()


BUILDS: dict[str, Callable[[], Any]] = {
    "build_constraints": _raise(LowerError("the tile does not fit", asked="split(y, 64)")),
    "build_schedule": _raise(ScheduleError("no such loop")),
    "build_error": _raise(ValueError("strange expression\nin two lines")),
    "build_segv": lambda: ctypes.string_at(0),
    "build_hang": _hang_in_native_code,
    "build_killed_once": lambda: _first_time() and os.kill(os.getpid(), signal.SIGKILL),
}


class FakeKernel:
    def __init__(self, what: str, knobs: dict[str, int]) -> None:
        self.what, self.knobs = what, knobs
        params = [SimpleNamespace(name=n, is_output=n != "x") for n in "xyz"]
        self.signature = SimpleNamespace(name="fake", params=params)

    def bind(self, arrays: list[np.ndarray]) -> FakeCall:
        return FakeCall(self, arrays)


class FakeCall:
    def __init__(self, kernel: FakeKernel, arrays: list[np.ndarray]) -> None:
        self.what, self.knobs = kernel.what, kernel.knobs
        self.x, self.y, self.z = arrays
        self.calls = 0

    def upload(self) -> None: ...

    def fetch(self) -> None: ...

    def run(self) -> None:
        self._compute()
        action = getattr(self, f"do_{self.what}", None)
        if action is not None:
            action()

    def time(self, number: int) -> float:
        self.calls += 1
        self._compute()
        if self.what == "wrong_when_timed":
            self.y[17] += 1
        if self.what == "lazy_when_timed":
            self.y.view(np.uint8)[:] = 0x5A
        if self.what == "unsteady":
            self.z[5] = np.nextafter(self.z[5], np.float32(100))
        if self.what == "crash_when_timed":
            ctypes.string_at(0)
        if self.what == "crash_in_playoff" and self.calls > 3:
            ctypes.string_at(0)
        if self.what == "killed_in_playoff" and self.calls > 3 and _first_time():
            os.kill(os.getpid(), signal.SIGKILL)
        clocks = {"clock_nan": float("nan"), "clock_zero": 0.0, "clock_back": -1e-3, "clock_inf": float("inf")}
        return clocks.get(self.what, self.knobs.get("ns", 1000) * 1e-9)

    def _compute(self) -> None:
        self.y[:] = 2 * self.x + 1
        self.z[:] = self.x / 2

    # -- wrong ------------------------------------------------------------------------------------

    def do_wrong(self) -> None:
        self.y[3:5] = 0

    def do_nan(self) -> None:
        self.z[7] = np.nan

    def do_unwritten(self) -> None:
        self.z[9] = np.nan  # the poison

    def do_changes_input(self) -> None:
        self.x[0] = 99

    def do_overrun(self) -> None:
        ctypes.memset(self.y.ctypes.data + self.y.nbytes, 1, 4)

    def do_underrun(self) -> None:
        ctypes.memset(self.z.ctypes.data - 4, 1, 4)

    # -- dead -------------------------------------------------------------------------------------

    def do_overrun_far(self) -> None:
        ctypes.memset(self.y.ctypes.data + self.y.nbytes, 1, 200)

    def do_segv(self) -> None:
        print("last words", flush=True)
        ctypes.string_at(0)

    def do_ill(self) -> None:
        os.kill(os.getpid(), signal.SIGILL)

    def do_fpe(self) -> None:
        os.kill(os.getpid(), signal.SIGFPE)

    def do_bus(self) -> None:
        os.kill(os.getpid(), signal.SIGBUS)

    def do_abort(self) -> None:
        os.abort()

    def do_exit(self) -> None:
        os._exit(0)

    def do_sysexit(self) -> None:
        sys.exit(3)

    def do_killed(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def do_killed_once(self) -> None:
        if _first_time():
            os.kill(os.getpid(), signal.SIGKILL)

    def do_crash_once(self) -> None:
        if _first_time():
            ctypes.string_at(0)

    def do_native_bomb(self) -> None:
        """malloc until it fails, and write to what it returned."""
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        for _ in range(64):
            libc.memset(ctypes.c_void_p(libc.malloc(ctypes.c_size_t(1 << 30))), 1, 16)

    # -- deaf -------------------------------------------------------------------------------------

    def do_hang(self) -> None:
        _hang_in_native_code()

    def do_hang_with_gil(self) -> None:
        ctypes.PyDLL(None).pause()

    def do_spin(self) -> None:
        while True:
            pass

    def do_deaf(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _hang_in_native_code()

    def do_stop(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def do_leaves_child(self) -> None:
        """A grandchild that outlives a kill of its parent alone."""
        if os.fork() == 0:
            time.sleep(600)
        _hang_in_native_code()

    def do_daemon(self) -> None:
        """Double fork into a session of its own: no process group and no parent leads to it."""
        _daemon(lambda: time.sleep(600))

    def do_daemon_and_segv(self) -> None:
        _daemon(lambda: time.sleep(600))
        ctypes.string_at(0)

    def do_bare_daemon(self) -> None:
        """The same with nothing in its environment, and a candidate that hangs."""
        _daemon(lambda: os.execve("/bin/sleep", ["sleep", "600"], {}))
        _hang_in_native_code()

    # -- noisy ------------------------------------------------------------------------------------

    def do_garbage(self) -> None:
        _write(struct.pack(">I", 6) + b"\xff\x00junk")

    def do_half_frame(self) -> None:
        _write(struct.pack(">I", 1000) + b'{"seq": 1')
        _hang_in_native_code()

    def do_huge_frame(self) -> None:
        _write(struct.pack(">I", 2**31) + b"{")

    def do_deep_frame(self) -> None:
        _write(struct.pack(">I", 200_000) + b"[" * 200_000)

    def do_other_job(self) -> None:
        _answer(seq=_sequence() + 1000)

    def do_stale(self) -> None:
        _answer(seq=_sequence() - 1)

    def do_nonsense(self) -> None:
        _answer(seq=_sequence(), samples=[1e-3, "fast"])

    def do_twice(self) -> None:
        _answer(seq=_sequence())

    def do_repeats_phase(self) -> None:
        _frame({"seq": _sequence(), "phase": "first"})

    def do_flood(self) -> None:
        for _ in range(300):
            os.write(2, b"x" * 65536)

    # -- refusing ---------------------------------------------------------------------------------

    def do_raises(self) -> None:
        raise OverflowError("too much")

    def do_bomb(self) -> None:
        np.ones(1 << 40, dtype=np.uint8)

    def do_device_error(self) -> None:
        raise DeviceError("the driver was reset")

    def do_device_error_once(self) -> None:
        if _first_time():
            raise DeviceError("the driver was reset")


def _daemon(act: Callable[[], None]) -> None:
    """Run `act` in a process that nobody waits for, and leave its id in `../daemon`."""
    child = os.fork()
    if child == 0:
        os.setsid()
        grandchild = os.fork()
        if grandchild == 0:
            act()
        (Path(tempfile.gettempdir()) / "../daemon").write_text(str(grandchild))
        os._exit(0)
    os.waitpid(child, 0)


def _first_time() -> bool:
    """True once per session: in the session's own temporary folder a file says so afterwards."""
    marker = Path(tempfile.gettempdir()) / "been-here"
    if marker.exists():
        return False
    marker.touch()
    return True


def _sequence() -> int:
    """Of the question being answered, as only a test may know it."""
    service = next(o for o in gc.get_objects() if type(o).__name__ == "_Service")
    return service._sequence


def _answer(**changes: Any) -> None:
    _frame({"status": "ok", "error": "", "samples": [1e-3], "verified": "full", "number": 1, "run_s": 0.1, **changes})


def _frame(message: dict[str, Any]) -> None:
    payload = json.dumps(message).encode()
    _write(struct.pack(">I", len(payload)) + payload)


def _write(data: bytes) -> None:
    os.write(int(sys.argv[sys.argv.index("--write-fd") + 1]), data)
