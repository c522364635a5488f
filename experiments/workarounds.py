"""What it costs to avoid the faults of other compilers: regions parted for PoCL, and loads that gcc 12 makes too wide.

    python experiments/workarounds.py opencl matmul softmax    # the time with `codegen/pocl.py` over that without
    python experiments/workarounds.py c                        # the same of `NO_GAPS` in `codegen/gcc.py`

Candidates are points of templates and of generated sketches, drawn with a fixed seed. Each
is timed with the text that avoids the fault and without it, in medians of interleaved runs in one process. Without it
results may be wrong; only the time counts here.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np

from autosched.codegen import compile_function
from autosched.codegen.artifact import Artifact
from autosched.codegen.gcc import NO_GAPS
from autosched.errors import AutoschedError
from autosched.ir.dims import evaluate_dim
from autosched.ir.dtype import dtype
from autosched.runtime import load
from autosched.space.loading import find_workload, list_workloads
from autosched.target import Target

ROOT = Path(__file__).resolve().parents[1] / "search_spaces"
SKETCHES, POINTS, RUNS = 8, 2, 9
#: target -> the text that avoids the fault, and what takes its place
TEXTS = {"opencl": (b"#ifdef POCL_DEVICE_ADDRESS_BITS", b"#if 0"), "c": (NO_GAPS.encode(), b"")}


def candidates(name: str, target: Target) -> Iterator[Artifact]:
    """Compiled candidates of a workload at its usual sizes."""
    work, draw = find_workload(name, ROOT)(), random.Random(0)
    sketches = [x for kind in ("", "auto") for x in work.search_space(target, work.usual_sizes(), kind).sketches]
    for sketch in [sketches[0], *draw.sample(sketches[1:], min(SKETCHES, len(sketches) - 1))]:
        try:
            valid = sketch.valid_points
            for _ in range(POINTS if valid.count else 0):
                (row,) = valid.rows([draw.randrange(valid.count)])
                yield compile_function(sketch.structure.bind(sketch.values(row.tolist())), target)
        except AutoschedError as error:
            print(f"  {name}: {type(error).__name__}: {error.why}")


def ratio(name: str, made: Artifact, target: Target) -> float:
    """The time of a candidate over its time without the text."""
    sizes = find_workload(name, ROOT)().usual_sizes()
    arrays = [np.ones([evaluate_dim(d, sizes) for d in p.shape], dtype(p.dtype).numpy) for p in made.signature.params]
    calls = [load(a, target).bind(arrays) for a in (made, replace(made, code=made.code.replace(*TEXTS[target.kind])))]
    for call in calls:
        call.upload()
        call.time(1)
    times = [[call.time(1) for call in calls] for _ in range(RUNS)]
    return median(t[0] for t in times) / median(t[1] for t in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=list(TEXTS))
    parser.add_argument("workloads", nargs="*", help="default: all")
    args = parser.parse_args()
    target, ratios = Target.parse(args.target), list[float]()
    for name in args.workloads or list(list_workloads(ROOT)):
        made = list(candidates(name, target))
        concerned = [a for a in made if TEXTS[target.kind][0] in a.code]
        own = [ratio(name, a, target) for a in concerned]
        ratios += own
        print(f"{name:<20}{len(own):>3} of {len(made):>3} candidates", *(f"{r:.2f}" for r in own), flush=True)
    if ratios:
        print(f"geometric mean {geometric_mean(ratios):.3f}, worst {max(ratios):.2f}")


if __name__ == "__main__":
    main()
