"""A worker's main loop: `python -m autosched.measure.worker`. Started by `process.WorkerProcess`.

Questions come on one pipe, answers go out on another; what the process prints is captured by the
parent. A question is `{"seq", "op", ...}`, its answer echoes `seq`:

    configure   role, files and options -> {"status": "ok"}
    build       job, path, known        -> `jobs.build`
    run         see `jobs.Runner.run`; announces its phases with {"seq", "phase"}
    time        see `jobs.Runner.time`

The worker leaves when its pipe is closed, and the system kills it when its parent dies.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

from autosched.garbage import THRESHOLDS
from autosched.ir.dtype import from_file
from autosched.measure.frames import FrameError, read_frame, write_frame
from autosched.measure.jobs import ArgumentArrays, Backend, CompilerBackend, Runner, build, describe
from autosched.measure.proc import children
from autosched.measure.protocol import Job
from autosched.plugins import run_file
from autosched.target import Target
from autosched.te.rounding import Rounding

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(argv: list[str] | None = None) -> None:
    """Serve until the parent closes the pipe. Does not return."""
    parser = argparse.ArgumentParser(prog="autosched.measure.worker")
    parser.add_argument("--read-fd", type=int, required=True)
    parser.add_argument("--write-fd", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True, help="process id; leave if it is not our parent")
    parser.add_argument("--memory-limit", type=int, default=0, help="bytes of address space; 0: no limit")
    parser.add_argument("--backend", default="", help="module:attribute, for tests")
    parser.add_argument("--load", default="", help="modules to load before the first question, with commas")
    args = parser.parse_args(argv)
    _settle(args.parent, args.memory_limit)
    for fd in (args.read_fd, args.write_fd):
        os.set_inheritable(fd, False)
    for module in filter(None, args.load.split(",")):
        importlib.import_module(module)
    service = _Service(args.write_fd, args.backend)
    try:
        while (message := read_frame(args.read_fd)) is not None:
            service.answer(message)
    except BrokenPipeError:
        pass  # the parent is gone
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    # Without the destructors: a driver may hang in one, and nothing is left to save.
    os._exit(0)


def _settle(parent: int, memory_limit: int) -> None:
    """End with the parent, dump no core, leave Ctrl-C to the parent, stay within the memory limit."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # see `proc`
    if os.getppid() != parent:  # it died before the line above
        os._exit(0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_limit:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        soft = memory_limit if hard == resource.RLIM_INFINITY else min(memory_limit, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class _Service:
    """State between questions."""

    def __init__(self, write_fd: int, backend: str) -> None:
        self._write_fd, self._backend_name = write_fd, backend
        self._sequence = 0
        self._backend: Backend
        self._runner: Runner

    def answer(self, message: dict[str, Any]) -> None:
        self._sequence = message["seq"]
        match message["op"]:
            case "configure":
                reply = self._configure(message)
            case "build":
                known = Path(message["known"]) if message["known"] else None
                reply = build(self._backend, Job(**message["job"]), Path(message["path"]), known)
            case "run":
                reply = self._runner.run(message)
                # What a candidate left behind would run beside the next ones. It ends with this process.
                reply = {**reply, "recycle": True} if children() else reply
            case _:
                reply = self._runner.time(message)
        sys.stdout.flush()
        try:
            self._send(reply)
        except FrameError as error:
            self._send({"status": "error", "error": f"the answer cannot be sent: {error}"})

    def _send(self, message: dict[str, Any]) -> None:
        write_frame(self._write_fd, {**message, "seq": self._sequence})

    def _configure(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            for path in message.get("imports", ()):
                run_file(Path(path), f"autosched_search_spaces.{Path(path).stem}")
            self._backend = make_backend(self._backend_name, message)
            if message["role"] == "runner":
                self._runner = self._make_runner(message)
            else:
                gc.set_threshold(*THRESHOLDS)  # binding makes many short-lived objects next to structures that stay
        except Exception as error:
            return {"status": "error", "error": describe(error)}
        return {"status": "ok"}

    def _make_runner(self, message: dict[str, Any]) -> Runner:
        options = message["options"]
        inputs = [_read_array(path) for path in message["inputs"]]
        expected, initial = (
            [_read_array(path) if path else None for path in message[name]] for name in ("expected", "initial")
        )
        roundings = [Rounding(**r) for r in message["roundings"]]
        arguments = ArgumentArrays(inputs, expected, options["rtol"], options["atol"], initial, roundings)
        return Runner(
            self._backend, arguments, lambda phase: self._send({"phase": phase}), verify_outputs=options["verify"]
        )


def make_backend(name: str, message: dict[str, Any]) -> Backend:
    """The compiler; for a name `module:attribute`, what calling that with the message returns."""
    if name:
        module, _, attribute = name.partition(":")
        backend: Backend = getattr(importlib.import_module(module), attribute)(message)
        return backend
    workload, sketches = (json.loads(Path(message[key]).read_text("utf-8")) for key in ("workload", "sketches"))
    return CompilerBackend(workload, sketches, Target(**message["target"]))


def _read_array(path: str) -> Any:
    """Map a .npy file read-only: a stray write to it ends the process."""
    try:
        return from_file(np.load(path, mmap_mode="r", allow_pickle=False))
    except ValueError:  # an empty array cannot be mapped
        return from_file(np.load(path, allow_pickle=False))


if __name__ == "__main__":
    main()
