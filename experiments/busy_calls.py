"""Calls beside a program that wants a core all the time: how much slower they get, ours and other libraries'.

    python experiments/busy_calls.py                 # a few minutes
    python experiments/busy_calls.py matmul          # kernels with that in their name
    python experiments/busy_calls.py --mixed         # all libraries in one process, call after call

Each contender has a process of its own, and they take turns of half a second, with the other program stopped and
with it at work. Only turns count in which the rest of the machine was quiet: less than a fifth of a core went
to processes that are no part of this. Contenders that are not installed are left out. Results go to
`experiments/results/busy_calls.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import machine, save

#: in a session of its own, as programs of a desktop are: Linux shares cores out between sessions first
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for _ in range(10**6): pass"
TURN_S, TURNS = 0.5, 5
#: cores' worth of work by processes that are no part of this, above which a turn is taken again
QUIET, MOST_TRIES = 0.2, 10
KERNELS = {
    "matmul 512": ("matmul", {"m": 512, "n": 512, "k": 512}),
    "layer norm 1024x1024": ("layer_norm", {"rows": 1024, "columns": 1024}),
    "softmax 1024x1024": ("softmax", {"rows": 1024, "columns": 1024}),
    "box blur 1920x1280x3": ("box_blur", {"h": 1280, "w": 1920}),
}
CONTENDERS = ("team", "openmp", "numpy", "numba", "torch", "opencv")

Call = Callable[[], object]


# -- what is called -----------------------------------------------------------------------------------


def prepared(kernel: str) -> tuple[object, list[np.ndarray], np.ndarray]:
    """The workload, its inputs and the result."""
    from operators import TABLE

    row = next(r for r in TABLE if r.title == kernel)
    work = row.work()
    inputs = work.sample_inputs(row.sizes)
    return work, inputs, np.asarray(work.reference(inputs)[0])


def ours(kernel: str) -> Call:
    from autosched import build

    work, inputs, expected = prepared(kernel)
    module, out = build(work, "llvm", sizes=work.sizes_of(inputs)), np.zeros_like(expected)  # type: ignore[attr-defined,arg-type]
    return lambda: module(*inputs, out)


def with_numpy(kernel: str) -> Call | None:
    if not kernel.startswith("matmul"):
        return None
    _, (a, b), expected = prepared(kernel)
    out = np.zeros_like(expected)
    return lambda: np.matmul(a, b, out=out)


def with_numba(kernel: str) -> Call | None:
    if not kernel.startswith("layer norm"):
        return None
    from numba import njit, prange

    @njit(parallel=True, fastmath=True)
    def layer_norm(x, gamma, beta, out):  # type: ignore[no-untyped-def]
        for i in prange(x.shape[0]):
            total = np.float32(0)
            squares = np.float32(0)
            for j in range(x.shape[1]):
                total += x[i, j]
            mean = total / np.float32(x.shape[1])
            for j in range(x.shape[1]):
                squares += (x[i, j] - mean) ** 2
            scale = np.float32(1) / np.sqrt(squares / np.float32(x.shape[1]) + np.float32(1e-5))
            for j in range(x.shape[1]):
                out[i, j] = (x[i, j] - mean) * scale * gamma[j] + beta[j]

    _, inputs, expected = prepared(kernel)
    out = np.zeros_like(expected)
    return lambda: layer_norm(*inputs, out)


def with_torch(kernel: str) -> Call | None:
    import torch
    import torch.nn.functional as functional

    _, inputs, expected = prepared(kernel)
    tensors = [torch.from_numpy(a) for a in inputs]
    out = torch.zeros(expected.shape)
    if kernel.startswith("matmul"):
        return lambda: torch.matmul(*tensors, out=out)
    if kernel.startswith("layer norm"):
        return lambda: functional.layer_norm(tensors[0], tensors[0].shape[1:], tensors[1], tensors[2])
    if kernel.startswith("softmax"):
        return lambda: torch.softmax(tensors[0], -1)
    return None


def with_opencv(kernel: str) -> Call | None:
    if not kernel.startswith("box blur"):
        return None
    import cv2

    _, (image, *_), expected = prepared(kernel)
    out = np.zeros_like(expected)
    return lambda: cv2.blur(image, (3, 3), dst=out)


def contender(name: str, kernel: str) -> Call | None:
    """What calls the kernel by that library; None where it does not take part."""
    if name in ("team", "openmp"):
        return ours(kernel)
    try:
        return {"numpy": with_numpy, "numba": with_numba, "torch": with_torch, "opencv": with_opencv}[name](kernel)
    except ImportError:
        return None


# -- a contender's process ----------------------------------------------------------------------------


def timed(call: Call, seconds: float) -> list[float]:
    found = []
    ends = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < ends:
        call()
        found.append(time.perf_counter() - begun)
    return found


def serve(name: str, kernel: str) -> None:
    """Take turns, one for each line of standard input."""
    call = contender(name, kernel)
    print(json.dumps(call is not None), flush=True)
    if call is None:
        return
    timed(call, 0.1)
    for line in sys.stdin:
        have_priority("alone" in line)
        before, begun = cpu_seconds(), time.process_time()
        seconds = timed(call, TURN_S)
        own = time.process_time() - begun
        print(json.dumps([seconds, (cpu_seconds() - before - own) / TURN_S]), flush=True)


def serve_mixed(threads: str, kernel: str) -> None:
    """The same, with all libraries in this process in turn; ours is timed, or for `NAME+all` a round of all."""
    threads, _, of_all = threads.partition("+")
    others = [c for n in CONTENDERS[2:] if (c := contender(n, kernel)) is not None]
    call = contender(threads, kernel)
    assert call is not None
    print(json.dumps(True), flush=True)
    for line in sys.stdin:
        have_priority("alone" in line)
        before, begun, found = cpu_seconds(), time.process_time(), []
        ends = time.perf_counter() + TURN_S
        while time.perf_counter() < ends:
            begun_others = time.perf_counter()
            for other in others:
                other()
            begun_ours = time.perf_counter()
            call()
            found.append(time.perf_counter() - (begun_others if of_all else begun_ours))
        own = time.process_time() - begun
        print(json.dumps([found, (cpu_seconds() - before - own) / TURN_S]), flush=True)


def have_priority(has: bool) -> None:
    """With `--real-time`, run before everything else of the machine, or no longer."""
    if "--real-time" in os.environ.get("BUSY_CALLS", ""):
        how, priority = (os.SCHED_FIFO, 10) if has else (os.SCHED_OTHER, 0)
        for thread in os.listdir("/proc/self/task"):
            os.sched_setscheduler(int(thread), how, os.sched_param(priority))
        time.sleep(0.05)


def cpu_seconds() -> float:
    """What all processes of the machine have had of its cores (Linux)."""
    user, nice, system = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


class Contender:
    """A process that takes a turn when told to."""

    def __init__(self, name: str, kernel: str, how: str) -> None:
        environment = {**os.environ, "AUTOSCHED_THREADS": name.partition("+")[0] if "team" in name else "openmp"}
        command = [sys.executable, __file__, how, name, kernel]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None and self.process.stdin is not None
        self._out, self._in = self.process.stdout, self.process.stdin
        self.takes_part = self._out.readline().strip() == "true"

    def turn(self, others: float) -> list[float]:
        """Seconds of each call, of a turn in which other processes had so many cores."""
        least: tuple[float, list[float]] = (float("inf"), [])
        for _ in range(MOST_TRIES):
            self._in.write("alone\n" if others == 0 else "beside\n")
            self._in.flush()
            seconds, had = json.loads(self._out.readline())
            off = max(had - others, 0.0)
            least = min(least, (off, seconds), key=lambda pair: pair[0])
            if off < QUIET:
                break
        return least[1]

    def close(self) -> None:
        self._in.close()
        self.process.wait()


def measure(kernel: str, how: str, names: tuple[str, ...]) -> dict[str, dict[str, float]]:
    """Medians and 90th percentiles of each contender, in seconds, alone and beside one other."""
    busy = subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True)
    os.kill(busy.pid, signal.SIGSTOP)
    contenders = {name: Contender(name, kernel, how) for name in names}
    found: dict[str, dict[str, list[list[float]]]] = {n: {"alone": [], "busy": []} for n in names}
    try:
        for _ in range(TURNS):
            for name, each in contenders.items():
                if each.takes_part:
                    found[name]["alone"].append(each.turn(0.0))
                    os.kill(busy.pid, signal.SIGCONT)
                    found[name]["busy"].append(each.turn(1.0))
                    os.kill(busy.pid, signal.SIGSTOP)
    finally:
        busy.kill()
        busy.wait()
        for each in contenders.values():
            each.close()
    return {n: summary(f["alone"], f["busy"]) for n, f in found.items() if f["alone"]}


def summary(alone: list[list[float]], busy: list[list[float]]) -> dict[str, float]:
    quiet, beside = float(np.median(np.concatenate(alone))), np.concatenate(busy)
    return {
        "alone": quiet,
        "beside one": float(np.median(beside)),
        "90 % beside one": float(np.percentile(beside, 90)),
        "mean beside one": float(np.mean(beside)),
        "times": float(np.median(beside)) / quiet,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only kernels with one of these in their name")
    parser.add_argument("--mixed", action="store_true", help="all libraries in one process, ours timed")
    parser.add_argument("--real-time", action="store_true", help="alone means before all others (needs root)")
    parser.add_argument("--only", nargs="*", default=CONTENDERS, help="only these contenders")
    args = parser.parse_args()
    os.environ["BUSY_CALLS"] = "--real-time" if args.real_time else ""
    results: dict[str, object] = {"machine": machine()}
    for kernel in KERNELS:
        if args.names and not any(name in kernel for name in args.names):
            continue
        how, names = (
            ("--serve-mixed", ("team", "openmp", "team+all", "openmp+all"))
            if args.mixed
            else ("--serve", tuple(args.only))
        )
        results[kernel] = found = measure(kernel, how, names)
        for name, of in found.items():
            ms = "  ".join(f"{what} {of[what] * 1e3:8.3f}" for what in list(of)[:4])
            print(f"{kernel:24s} {name:10s} {ms} ms, {of['times']:5.2f} times", flush=True)
    save("busy_calls_mixed" if args.mixed else "busy_calls", results)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--serve":
        serve(sys.argv[2], sys.argv[3])
    elif len(sys.argv) == 4 and sys.argv[1] == "--serve-mixed":
        serve_mixed(sys.argv[2], sys.argv[3])
    else:
        main()
