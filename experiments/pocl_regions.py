"""What it costs to part the regions of kernels for PoCL (`autosched/codegen/pocl.py`).

    python experiments/pocl_regions.py                  # all workloads: how many candidates have such regions
    python experiments/pocl_regions.py matmul --time    # and, of those, the time with the macros over that without

Candidates are points of templates and of generated sketches, drawn with a fixed seed. Times are medians of interleaved
runs in one process. Without the macros PoCL 3.0 may compute wrong results; only the time counts here.
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
from autosched.codegen.dialects import OPENCL
from autosched.errors import AutoschedError
from autosched.ir.dims import evaluate_dim
from autosched.ir.dtype import dtype
from autosched.runtime import load
from autosched.space.loading import find_workload, list_workloads
from autosched.target import Target

ROOT = Path(__file__).resolve().parents[1] / "search_spaces"
SKETCHES, POINTS, RUNS = 8, 2, 9


def candidates(name: str, target: Target) -> Iterator[Artifact]:
    """Compiled candidates of a workload at its usual sizes."""
    work, draw = find_workload(name, ROOT)(), random.Random(0)
    sketches = [x for kind in ("", "auto") for x in work.search_space(target, work.usual_sizes(), kind).sketches]
    for sketch in draw.sample(sketches, min(SKETCHES, len(sketches))):
        try:
            valid = sketch.valid_points
            for _ in range(POINTS if valid.count else 0):
                (row,) = valid.rows([draw.randrange(valid.count)])
                yield compile_function(sketch.structure.bind(sketch.values(row.tolist())), target)
        except AutoschedError as error:
            print(f"  {name}: {type(error).__name__}: {error.why}")


def ratio(name: str, parted: Artifact, target: Target) -> float:
    """The time of a candidate over its time without the macros."""
    sizes = find_workload(name, ROOT)().usual_sizes()
    params = parted.signature.params
    arrays = [np.ones([evaluate_dim(d, sizes) for d in p.shape], dtype(p.dtype).numpy) for p in params]
    plain = replace(parted, code=parted.code.replace(b"#ifdef POCL_DEVICE_ADDRESS_BITS", b"#if 0"))
    calls = [load(a, target).bind(arrays) for a in (parted, plain)]
    for call in calls:
        call.upload()
        call.time(1)
    times = [[call.time(1) for call in calls] for _ in range(RUNS)]
    return median(t[0] for t in times) / median(t[1] for t in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", help="default: all")
    parser.add_argument("--time", action="store_true", help="run them")
    args = parser.parse_args()
    target, preamble = Target.parse("opencl"), OPENCL.of_kernels.regions_preamble.strip().encode()
    names = args.workloads or list(list_workloads(ROOT))
    ratios: list[float] = []
    for name in names:
        made = list(candidates(name, target))
        parted = [a for a in made if preamble in a.code]
        own = [ratio(name, a, target) for a in parted] if args.time else []
        ratios += own
        print(f"{name:<20}{len(parted):>3} of {len(made):>3} candidates", *(f"{r:.2f}" for r in own), flush=True)
    if ratios:
        print(f"geometric mean {geometric_mean(ratios):.3f}, worst {max(ratios):.2f}")


if __name__ == "__main__":
    main()
