"""Beside other programs: calls of parallel loops, and whole searches.

    python experiments/contention.py                          # calls: about a minute
    python experiments/contention.py tune --runs 10           # searches: 4 minutes a run
    python experiments/contention.py tune box_blur --budget 20 --others 1

Calls: each kernel is timed with no other program at work, then beside one and beside two that want a core each all the
time. The team of this library and an OpenMP team run the same machine code by turns of half a second.

Searches: each workload is tuned with no other program at work, then beside one. Both winners and the default schedule
are then timed against each other, round by round, with no other program at work. A search beside another program is
good where its winner takes at most 15 % longer than the other's.

Results go to `experiments/results/contention.json` and `contention_tune.json`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

os.environ["AUTOSCHED_THREADS"] = "team"

from common import machine, save
from operators import TABLE, Row

import autosched
from autosched import build
from autosched.measure import Job, Measurer
from autosched.noise import typical
from autosched.runtime import cpu
from autosched.runtime.device import resolve_target
from autosched.runtime.module import Module
from autosched.space.loading import find_workload
from autosched.target import Target
from autosched.tuning import TuneResult

KERNELS = ("matmul 512", "softmax 1024x1024", "box blur 1920x1280x3")
ROUNDS, SECONDS = 5, 0.5
BUSY = "while True: pass"


def on_openmp(row: Row, target: Target, sizes: dict[str, int]) -> Module:
    """The same code, loaded so that it runs on an OpenMP team."""
    usual = cpu.runtime_of
    cpu.runtime_of = lambda is_openmp: usual(True)  # type: ignore[assignment]
    try:
        return build(row.work(), target, sizes=sizes)
    finally:
        cpu.runtime_of = usual


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


@contextmanager
def beside(others: int) -> Iterator[None]:
    """So many programs that want a core each all the time."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(others)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def calls() -> None:
    """Calls beside none, one and two other programs."""
    target = Target.parse("llvm")
    rows = [next(r for r in TABLE if r.title == title) for title in KERNELS]
    results: dict[str, object] = {"machine": machine()}
    for others in range(3):
        with beside(others):
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
    save("contention", results)


#: workload -> seconds that its search gets
SEARCHES = {"box_blur": 25.0, "layer_norm": 25.0, "cumsum": 20.0, "gaussian_blur": 25.0}
#: A winner may take this much longer than the one that was found with no other program at work.
ALLOWED = 1.15


def search(name: str, budget_s: float, seed: int, others: int) -> TuneResult:
    """One search, with records of its own."""
    with tempfile.TemporaryDirectory() as records, beside(others):
        return autosched.tune(
            name, "llvm", trials=None, budget_s=budget_s, seed=seed, records=records, transfer=False, progress=False
        )


def time_again(name: str, results: list[TuneResult], rounds: int = 15) -> list[float]:
    """Seconds of the default schedule and of each result, against each other."""
    workload = find_workload(name)()
    target = resolve_target("llvm")
    inputs = workload.sample_inputs(None)
    space = workload.search_space(target, workload.sizes_of(inputs), "", ())
    trace, knobs = workload.defaults(target, space)
    sketches = {"default": trace} | {f"{i}": r.best.trace for i, r in enumerate(results) if r.best is not None}
    jobs = [Job(0, "default", knobs[0])]
    jobs += [
        Job(i + 1, "default", knobs[0]) if r.best is None else Job(i + 1, f"{i}", r.best.knobs)
        for i, r in enumerate(results)
    ]
    with Measurer(workload.graph, target, sketches, inputs, workload.reference(inputs)) as measurer:
        return [typical(samples) for _, samples in measurer.playoff(jobs, rounds)]


def searches(names: list[str], runs: int, budget_s: float | None, others: int) -> None:
    """Searches beside other programs, against those beside none."""
    results: dict[str, Any] = {"machine": machine(), "others": others}
    for name in names:
        rows = []
        for seed in range(runs):
            found = [search(name, budget_s or SEARCHES[name], seed, n) for n in (0, others)]
            default, quiet, busy = time_again(name, found)
            row = {
                "default": default,
                "quiet": quiet,
                "busy": busy,
                "trials": [r.trials for r in found],
                "strain": [r.strain for r in found],
            }
            rows.append(row)
            print(
                f"{name}, seed {seed}: default {default * 1e3:.3f} ms; winner alone {quiet * 1e3:.3f} ms, beside "
                f"{others} {busy * 1e3:.3f} ms, {busy / quiet:.2f} times as long; trials {row['trials']}, strain "
                f"{row['strain']}",
                flush=True,
            )
        good = sum(row["busy"] <= ALLOWED * row["quiet"] for row in rows)
        print(f"{name}: {good} of {runs} searches end within {ALLOWED - 1:.0%} of the quiet one's winner", flush=True)
        results[name] = {"runs": rows, "good": good}
    save("contention_tune", results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("calls", "tune"), default="calls")
    parser.add_argument("names", nargs="*", default=list(SEARCHES), help="workloads to tune")
    parser.add_argument("--runs", type=int, default=1, help="searches of each workload")
    parser.add_argument("--budget", type=float, help="seconds of each search")
    parser.add_argument("--others", type=int, default=1, help="programs beside the search")
    args = parser.parse_args()
    if args.what == "calls":
        calls()
    else:
        searches(args.names, args.runs, args.budget, args.others)


if __name__ == "__main__":
    main()
