"""Parallel loops beside other programs: the team of this library and an OpenMP team, with the same machine code.

    python experiments/contention.py            # about a minute

Each kernel is timed with no other program at work, then beside one and beside two that want a core each all the time.
The two teams take turns of half a second; results go to `experiments/results/contention.json`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

os.environ["AUTOSCHED_THREADS"] = "team"

from common import machine, save
from operators import TABLE, Row

from autosched import build
from autosched.runtime import cpu
from autosched.runtime.module import Module
from autosched.target import Target

KERNELS = ("matmul 512", "softmax 1024x1024", "box blur 1920x1280x3")
ROUNDS, SECONDS = 5, 0.5
BUSY = "while True: pass"


def on_openmp(row: Row, target: Target, sizes: dict[str, int]) -> Module:
    """The same code, loaded so that it runs on an OpenMP team."""
    usual = cpu._runtime
    cpu._runtime = lambda is_openmp: usual(True)  # type: ignore[assignment]
    try:
        return build(row.work(), target, sizes=sizes)
    finally:
        cpu._runtime = usual


def compare(row: Row, target: Target) -> dict[str, list[float]]:
    """Seconds of each call on the team and on OpenMP, by turns of some calls."""
    work = row.work()
    inputs = work.sample_inputs(row.sizes)
    (expected,) = work.reference(inputs)
    sizes = work.sizes_of(inputs)
    modules = {"team": build(work, target, sizes=sizes), "OpenMP": on_openmp(row, target, sizes)}
    out = np.zeros_like(expected)
    found: dict[str, list[float]] = {name: [] for name in modules}
    for _ in range(ROUNDS):
        for name, module in modules.items():
            time.sleep(0.02)  # threads of the other team stop looking for work
            ends = time.perf_counter() + SECONDS
            while time.perf_counter() < ends:
                begun = time.perf_counter()
                module(*inputs, out)
                found[name].append(time.perf_counter() - begun)
    return found


def main() -> None:
    target = Target.parse("llvm")
    rows = [next(r for r in TABLE if r.title == title) for title in KERNELS]
    results: dict[str, object] = {"machine": machine()}
    for others in range(3):
        busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(others)]
        try:
            for row in rows:
                found = compare(row, target)
                named = {
                    name: {"mean": float(np.mean(seconds)), "90 %": float(np.percentile(seconds, 90))}
                    for name, seconds in found.items()
                }
                results[f"{row.title}, beside {others}"] = named
                told = "; ".join(
                    f"{n} {t['mean'] * 1e3:.3f} ms (90 %: {t['90 %'] * 1e3:.3f})" for n, t in named.items()
                )
                print(f"{row.title}, beside {others} other programs: {told}", flush=True)
        finally:
            for process in busy:
                process.kill()
                process.wait()
    save("contention", results)


if __name__ == "__main__":
    main()
