"""Checks of records that somebody else may have written: of their times, and of the schedules they hold.

* A time that no machine can reach is not believed (`unbelievable`): the least work of the program over the roofline,
  where this machine's was measured, and over rates that no machine has, elsewhere.
* A trace may hold only what leaves results as they are: each primitive says whether it does, see `schedule.primitive`.
* What this machine's own run did not verify (`records.origin`) is compared with the reference once, on a small
  input, before it is used (`check`). The verdict is remembered in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from autosched.deadline import TooLate, within
from autosched.errors import AutoschedError
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import variables
from autosched.measure import verify
from autosched.measure.roofline import cached
from autosched.places import cache_folder, open_flags, package_digest
from autosched.records import Record
from autosched.runtime.cpu import host
from autosched.runtime.device import host_core, versions
from autosched.runtime.kernel import UnavailableKernel
from autosched.runtime.module import Module
from autosched.space.samples import random_inputs
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.te.rounding import Rounding
from autosched.te.work import least_work, points_of

#: Bytes and floating-point operations a second of one CPU thread, above what any has: its first-level cache gives
#: two 64-byte vectors a cycle, 0.8e12 at 6 GHz; its matrix unit does some 2e12.
THREAD_BYTES_S, THREAD_FLOPS_S = 1e12, 4e12
#: The same of a whole device that is no CPU: the caches of the largest give 3e13, their matrix units 5e15.
DEVICE_BYTES_S, DEVICE_FLOPS_S = 1e14, 2e16
#: Threads that are assumed where a record does not say how many there were.
UNKNOWN_THREADS = 1024
#: No call takes less: entering a function and leaving it again are some cycles.
CALL_S = 1e-9
#: By how much a program may beat the measured roofline: the machine may have been busy while that was measured.
ROOFLINE_SLACK = 4.0

#: Sizes to check at, one after the other until one is accepted: first one that no factor divides.
CHECK_SIZES = (61, 64, 96, 128, 256)
#: Elements, and terms of reductions with them, that the reference may compute for a check.
MOST_ELEMENTS, MOST_POINTS = 20_000_000, 2_000_000_000
#: Seconds that computing the reference may take, of this thread's own: what else the machine does has no say.
CHECK_S = 1.5

#: What a check found: empty where the output was right, else what was wrong with it; None where there was none.
Verdict = str | None


# -- times ----------------------------------------------------------------------------------------
def unbelievable(records: Iterable[Record], w: Workload, target: Target, device: str) -> Iterator[tuple[Record, str]]:
    """The records of a workload whose times cannot be true, and why. `device` is the name of this one."""
    least: dict[str, float] = {}
    for r in records:
        if not r.ok or r.key != w.key or r.target_kind != target.kind:
            continue
        group = repr((sorted(r.sizes.items()), r.device))
        if group not in least:
            least[group] = least_seconds(w, target, r.sizes, r.device, measured=r.device_name == device)
        if r.seconds <= least[group]:
            yield r, f"its time of {r.seconds:.3g} s is less than any machine needs ({least[group]:.3g} s)"


def least_seconds(
    w: Workload, target: Target, sizes: Mapping[str, int], device: Mapping[str, Any], *, measured: bool
) -> float:
    """A time that a call at these sizes certainly exceeds, in seconds.

    measured: whether this machine's roofline, if there is one, holds of that device
    """
    work = least_work(w.args, sizes)
    if work is None:
        return CALL_S
    moved, flops = _rates(target, device)
    least = max(CALL_S, work.moved / moved, work.flops / flops)
    roofline = cached() if measured and target.kind == "llvm" and "mcpu" not in target.options else None
    if roofline is not None:
        least = max(least, roofline.bound(work, target.num_threads).seconds / ROOFLINE_SLACK)
    return least


def _rates(target: Target, device: Mapping[str, Any]) -> tuple[float, float]:
    """Bytes and floating-point operations a second that a device does not reach."""
    if target.is_gpu_style and device.get("is_cpu") is not True:
        return DEVICE_BYTES_S, DEVICE_FLOPS_S
    said = device.get("threads", device.get("compute_units"))
    threads = said if isinstance(said, int) and 0 < said < UNKNOWN_THREADS else UNKNOWN_THREADS
    return threads * THREAD_BYTES_S, threads * THREAD_FLOPS_S


#: levels of x86-64 -> a feature that CPUs of the level have, and those below lack
_LEVELS = {"x86-64": "sse2", "x86-64-v2": "sse4.2", "x86-64-v3": "avx2", "x86-64-v4": "avx512vl"}


def can_run(module: Module) -> bool:
    """Whether a call is certain not to end at an instruction that this CPU lacks: what a CPU's name stands for is known
    of this one and of levels alone."""
    named = module.target.options.get("mcpu", "native") if module.target.kind in ("llvm", "c") else "native"
    known = named in ("native", host_core()) or _LEVELS.get(named) in host()[1]
    return known and not isinstance(module.kernel, UnavailableKernel)


# -- outputs --------------------------------------------------------------------------------------
def check(module: Module, w: Workload, served: Sequence[Mapping[str, int]] = ()) -> tuple[Verdict, str]:
    """Compare what a module computes with the reference: (the verdict, what was done in words).

    served: sizes that it was tuned for, some of which are tried where small ones are not taken
    """
    why = "its inputs are too large for the reference"
    for sizes in _to_try(w, served):
        try:
            points = points_of(w.args, sizes)
            elements = sum(int(np.prod(_shape(t, sizes), dtype=np.int64)) for t in w.args)
            if points is None or points > MOST_POINTS or elements > MOST_ELEMENTS:
                continue
            inputs = random_inputs(w.args, sizes, 0, w.name)
            outputs = [np.empty(_shape(t, sizes), dtype=str(t.dtype)) for t in w.outputs]
            for array in outputs:
                verify.poison(array, 0)
            given = dict(zip((*w.inputs, *w.outputs), (*inputs, *outputs), strict=True))
            arrays = [given[t] for t in w.args]
            module.signature.resolve(arrays)
        except (AutoschedError, MemoryError, TypeError, ValueError) as error:
            why = f"at no small size can it be called: {error}"
            continue
        try:
            with within(CHECK_S, cpu=True):
                expected = w.reference(inputs)
        except TooLate:
            return None, f"the reference takes more than {CHECK_S:g} s"
        roundings = w.roundings(module.target, inputs, expected)
        module(*arrays)
        where = ", ".join(f"{n}={v}" for n, v in sizes.items())
        return _compared(
            w, roundings, outputs, expected
        ), f"compared with the reference{f' at {where}' if where else ''}"
    return None, " ".join(why.split())


def _to_try(w: Workload, served: Sequence[Mapping[str, int]]) -> Iterator[dict[str, int]]:
    names = w.size_names()
    if not names:
        yield {}
        return
    yield from (dict.fromkeys(names, value) for value in CHECK_SIZES)
    yield from ({n: at[n] for n in names} for at in served if all(n in at for n in names))


def _shape(tensor: Any, sizes: Mapping[str, int]) -> list[int]:
    env = {v: sizes[v.name] for d in tensor.shape for v in variables(d)}
    return [max(int(n), 0) for n in evaluate(list(tensor.shape), env)] if tensor.shape else []


def _compared(
    w: Workload,
    roundings: Sequence[Rounding],
    outputs: Sequence[np.ndarray[Any, Any]],
    expected: Sequence[np.ndarray[Any, Any]],
) -> str:
    """The fault of the first wrong output, empty where there is none; outputs are compared as those of candidates."""
    for tensor, got, right, rounding in zip(w.outputs, outputs, expected, roundings, strict=True):
        allowed = verify.allowed_error(right, None, None, rounding)
        wrong = verify.compare(got, right, *allowed, rounding=rounding)
        if wrong:
            return f"{tensor.name}: {wrong}"
    return ""


# -- what was found before ------------------------------------------------------------------------
def remembered(w: Workload, target: Target, device: str, records: Iterable[Record]) -> _Memory:
    """The memory of verdicts for a schedule that these records hold, on this device with this software."""
    traces = [[r.trace, sorted(r.knobs.items()), r.sizes, r.family is not None] for r in records]
    what = [w.key, str(target), device, versions(), package_digest(), traces]
    return _Memory(hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:32])


class _Memory:
    """One schedule's line in the file of verdicts: `[digest, verdict, what was done]`."""

    def __init__(self, digest: str) -> None:
        self.digest = digest

    def get(self) -> tuple[Verdict, str] | None:
        """(The verdict, what was done); None where it was never checked."""
        return _verdicts().get(self.digest)

    def put(self, verdict: Verdict, done: str) -> None:
        """Keep it; a folder that cannot be written costs the next process a check."""
        line = json.dumps([self.digest, verdict, done[:500]]).encode() + b"\n"
        _verdicts()[self.digest] = verdict, done
        with suppress(OSError, RuntimeError):
            file = _file()
            file.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(file, open_flags("WRONLY", "APPEND", "CREAT", "CLOEXEC"), 0o600)
            try:
                os.write(fd, line)  # at once, so that lines of several processes do not mix
            finally:
                os.close(fd)


def _file() -> Path:
    return cache_folder() / "verdicts.jsonl"


#: what was read in this process: file -> digest -> verdict, and what was done
known_verdicts: dict[str, dict[str, tuple[Verdict, str]]] = {}


def _verdicts() -> dict[str, tuple[Verdict, str]]:
    """All verdicts that are kept, read once for each file; a damaged line counts as none."""
    try:
        file = _file()
    except RuntimeError:  # no home folder
        return known_verdicts.setdefault("", {})
    if str(file) not in known_verdicts:
        found = known_verdicts[str(file)] = {}
        with suppress(OSError, UnicodeDecodeError):
            for line in file.read_text(encoding="utf-8").splitlines():
                with suppress(ValueError):
                    match json.loads(line):
                        case [str(digest), str() | None as verdict, str(done)]:
                            found[digest] = verdict, done
    return known_verdicts[str(file)]
