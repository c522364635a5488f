"""Where compile time goes: from `import autosched` to a call, stage by stage.

    python experiments/compile_time.py [WORKLOAD ...] [--rounds N]

For each workload of `search_spaces/` that has a template for the CPU: one candidate, the best record of
its default sizes or else a vectorized point of its first template, is compiled again and again, and each
stage timed on its own. `structure` is done once for a sketch; a candidate of a tuning run costs the
rest, which the column `candidate` adds up. Times are medians of rounds that go over all workloads, in
milliseconds of CPU time, which other programs hardly disturb. Results go to
`experiments/results/compile_time.json`.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import machine, save

from autosched import build, create_schedule, te
from autosched.building import plan
from autosched.codegen.artifact import Artifact
from autosched.codegen.llvm import compile_llvm, cpu_of, optimised, source_of, target_machine
from autosched.errors import AutoschedError
from autosched.lowering.pipeline import CONCRETE, Program, lower_structure
from autosched.report.text import table
from autosched.runtime.cpu import CpuKernel
from autosched.schedule.schedule import Schedule, replay
from autosched.space.features import FEATURE_NAMES
from autosched.space.loading import find_workload, list_workloads
from autosched.space.space import template_space
from autosched.space.workload import Workload
from autosched.target import Target

#: what issue 3 asks for: seconds of a candidate, of the import, and of a call beyond its kernel
AIMS = {"matmul": 0.15, "conv2d_nhwc": 0.4, "conv2d_nchw": 0.4, "import": 0.25, "call": 10e-6}
#: columns of the table -> the stages they add up
COLUMNS = {
    "structure": ("structure",),
    "bind": tuple(name for name, _ in CONCRETE),
    "text": ("text",),
    "optimise": ("optimise",),
    "emit": ("emit",),
    "load": ("load",),
}
TARGET = Target.parse("llvm")
#: what a candidate that somebody would keep has little of
LITTLE = ("vector_arithmetic", "guards", "choices", "waste", "strided_loads")


@dataclass(frozen=True)
class Candidate:
    """A workload with the schedule and the knobs that are compiled."""

    workload: Workload
    schedule: Schedule
    knobs: dict[str, int]
    origin: str


def candidate_of(name: str) -> Candidate | None:
    """The best record's schedule, else a point of the first template; None without a template."""
    workload = find_workload(name)()
    chosen = plan(workload, TARGET)
    if chosen.provenance["kind"] == "record":
        return Candidate(workload, chosen.schedule, chosen.knobs, f"record {chosen.provenance['record']}")
    try:
        sketch = template_space(workload, TARGET, workload.sizes_of(workload.sample_inputs())).sketches[0]
    except AutoschedError as error:
        print(f"{name} is skipped: {error}")
        return None
    rng = np.random.default_rng(0)
    points = np.stack([rng.integers(0, len(k.values), 512) for k in sketch.knobs], axis=1)
    feasible = points[sketch.mask(points)]
    features = dict(zip(FEATURE_NAMES, sketch.features(feasible).T, strict=True))
    point = feasible[sum(features[name] for name in LITTLE).argmin()]
    return Candidate(workload, replay(sketch.trace, workload.args), sketch.values(point), sketch.name)


class Stages:
    """CPU seconds of named stages, in the order in which they ran."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def run(self, name: str, action: Callable[[], Any]) -> Any:
        begun = time.process_time()
        result = action()
        self.seconds[name] = time.process_time() - begun
        return result


def compile_once(c: Candidate) -> dict[str, float]:
    """Seconds of each stage of compiling a candidate and loading the code."""
    w, stages = c.workload, Stages()
    structure = stages.run("structure", lambda: lower_structure(c.schedule, w.args, TARGET, w.name))
    program = Program(structure.function, TARGET, c.knobs)
    for name, lowering in CONCRETE:
        program = stages.run(name, lambda lowering=lowering, program=program: lowering(program))
    source = stages.run("text", lambda: source_of(program.function, TARGET))
    cpu = target_machine(*cpu_of(TARGET))
    module = stages.run("optimise", lambda: optimised(source, cpu))
    code = stages.run("emit", lambda: cpu.emit_object(module))
    artifact: Artifact = compile_llvm(program.function, TARGET)
    if artifact.code != code:
        raise SystemExit(f"{w.name}: the stages do not make what the compiler makes")
    stages.run("load", lambda: CpuKernel(artifact, TARGET))
    return stages.seconds


def import_seconds(rounds: int) -> float:
    """Seconds of `import autosched` in a new interpreter, without the interpreter's own start."""
    probe = "import time; t = time.process_time(); import autosched; print(time.process_time() - t)"
    command = [sys.executable, "-c", probe]
    root = str(Path(__file__).resolve().parent.parent)
    done = [subprocess.run(command, cwd=root, capture_output=True, text=True, check=True) for _ in range(rounds)]
    return statistics.median(float(d.stdout) for d in done)


def call_seconds(rounds: int) -> dict[str, float]:
    """What a call costs beyond the kernel: with the output given, and with a new one each time."""
    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] + 1.0, name="b")
    module = build(create_schedule(b))
    x, y = np.zeros(16, np.float32), np.zeros(16, np.float32)
    kernel = statistics.median(module.time(x, y, repeat=rounds))
    return {
        "output given": _per_call(lambda: module(x, y), rounds) - kernel,
        "output allocated": _per_call(lambda: module(x), rounds) - kernel,
    }


def _per_call(call: Callable[[], object], rounds: int, calls: int = 2000) -> float:
    samples = []
    for _ in range(rounds + 1):  # the first one warms up
        begun = time.process_time()
        for _ in range(calls):
            call()
        samples.append((time.process_time() - begun) / calls)
    return statistics.median(samples[1:])


def measure(names: list[str], rounds: int) -> dict[str, Any]:
    """Medians of all stages of all workloads."""
    candidates = {name: c for name in names if (c := candidate_of(name)) is not None}
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in candidates}
    for r in range(rounds + 1):
        for name, c in candidates.items():
            seconds = compile_once(c)
            if r:  # the first round loads libraries and fills tables
                samples[name].append(seconds)
    result: dict[str, Any] = {}
    for name, c in candidates.items():
        stages = {s: statistics.median(x[s] for x in samples[name]) for s in samples[name][0]}
        columns = {column: sum(stages[s] for s in parts) for column, parts in COLUMNS.items()}
        candidate = columns["bind"] + columns["text"] + columns["optimise"] + columns["emit"]
        what = {"workload": repr(c.workload), "schedule": c.origin, "knobs": c.knobs}
        result[name] = {**what, "stages_s": stages, **{f"{k}_s": v for k, v in columns.items()}}
        result[name]["candidate_s"] = candidate
    return result


def report(compiled: dict[str, Any], imported: float, calls: dict[str, float]) -> None:
    header = ["workload", *COLUMNS, "candidate", "aim"]
    rows = []
    for name, r in compiled.items():
        cells = [f"{r[f'{column}_s'] * 1e3:.1f}" for column in (*COLUMNS, "candidate")]
        rows.append([name, *cells, f"{AIMS[name] * 1e3:.0f}" if name in AIMS else ""])
    print("\n".join(table(rows, header, right=range(1, len(header)))))
    print(f"\nimport autosched   {imported * 1e3:.1f} ms   aim {AIMS['import'] * 1e3:.0f}")
    for how, seconds in calls.items():
        print(f"a call, {how:17} {seconds * 1e6:.2f} us   aim {AIMS['call'] * 1e6:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="default: all that are found")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    compiled = measure(args.workloads or list(list_workloads()), args.rounds)
    imported, calls = import_seconds(args.rounds), call_seconds(args.rounds)
    report(compiled, imported, calls)
    if not args.workloads:
        data = {"compiled": compiled, "import_s": imported, "call_s": calls, "machine": machine(), "aims_s": AIMS}
        print(f"\nsaved to {save('compile_time', data)}")


if __name__ == "__main__":
    main()
