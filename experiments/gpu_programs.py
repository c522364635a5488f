"""Every program of the bench on a GPU, built with no trial: seconds of its kernels, and whether the answer is right.

    python experiments/gpu_programs.py                  # on the CUDA device that is there
    python experiments/gpu_programs.py --target opencl --jobs 4 matmul conv

Each program has a process of its own. They are built side by side, and timed one at a time, on the device's clock.
Results go to `experiments/results/gpu_programs.json`, with the device that gave them; those of programs that are not
asked for stay there, if they are of the same device.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import portalocker
import programs
from common import RESULTS, machine, save

from autosched import build
from autosched.errors import AutoschedError
from autosched.measure.verify import allowed_error, compare
from autosched.runtime import cuda
from autosched.runtime.device import describe_device, resolve_target
from autosched.te.work import work_of

PATIENCE_S = 120


def measured(name: str, spec: str, lock: str) -> dict[str, Any]:
    """Seconds to build the program, and of its kernels; what is wrong with its first wrong output."""
    work, target = programs.load()[name].work(), resolve_target(spec)
    inputs = work.sample_inputs(None)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as none:
        module = build(work, target, records=none)
    built = time.perf_counter() - begun
    wanted = work.reference(inputs)
    outputs = [np.zeros_like(w) for w in wanted]
    module(*inputs, *outputs)
    told = [
        compare(a, b, *allowed_error(b, None, None, r), rounding=r)
        for a, b, r in zip(outputs, wanted, work.roundings(target), strict=True)
    ]
    with portalocker.Lock(lock):  # waits for the others
        timed = module.time_evaluator(module.name, number=1, repeat=5, min_repeat_ms=20)
        seconds = float(timed(*inputs, *outputs).median)
    load = work_of(work.args, work.sizes_of(inputs))
    return {
        "seconds": float(f"{seconds:.4g}"),
        "build_s": round(built, 2),
        "GBs": round(load.moved / seconds / 1e9, 1) if load else None,
        "GFLOPs": round(load.flops / seconds / 1e9, 1) if load else None,
        "wrong": next(filter(None, told), ""),
    }


def alone(name: str, spec: str, lock: str) -> dict[str, Any]:
    """The same in a process of its own; why, where there is no result."""
    command = [sys.executable, __file__, "--target", spec, "--one", name, "--lock", lock]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
        return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer in {PATIENCE_S} s"}
    except (IndexError, ValueError):
        return {"failed": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1][:300]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only programs with one of these in their name")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--jobs", type=int, default=8, help="programs that are built at once; default %(default)d")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--lock", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measured(args.one, args.target, args.lock)))
        return 0
    try:
        target = resolve_target(args.target)
        cuda.cuda_device(target) if target.kind == "cuda" else None
    except AutoschedError as error:
        parser.error(str(error))
    device = describe_device(target)["name"]
    names = [n for n in programs.load() if not args.names or any(part in n for part in args.names)]
    path = RESULTS / "gpu_programs.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    rows: dict[str, Any] = before["rows"] if before.get("device") == device else {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        one = partial(alone, spec=args.target, lock=f"{folder}/lock")
        for name, row in zip(names, pool.map(one, names), strict=True):
            rows[name] = row
            told = row.get("failed") or row["wrong"]
            spent = "" if "failed" in row else f"{1e6 * row['seconds']:.1f} µs | {row['GBs']} | {row['GFLOPs']}"
            print(f"| {name} | {spent} | {told} |", flush=True)
    save("gpu_programs", {"device": device, "target": args.target, "machine": machine(), "rows": rows})
    return 1 if any(row.get("failed") or row["wrong"] for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
