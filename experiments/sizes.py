"""One workload, many sizes: what a few kernels behind guards gain over one for all sizes.

    python experiments/sizes.py                    # all rows: a quarter of an hour
    python experiments/sizes.py product            # rows whose name has one of these
    python experiments/sizes.py --trials 20        # fewer trials for each size

Each row tunes into an empty folder. Then, at every size, these run in turn, round by round, timed in native code: the
default schedule; the best single kernel for all sizes; the kernels that `tune_sizes` took (a tolerance of 5 %), as one
function; and what won at that size alone. Results go to `experiments/results/sizes.json`; rows that did not run stay.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import RESULTS, machine, save

from autosched import build, te, tune_sizes, workload
from autosched.codegen import compile_function
from autosched.lowering import lower_structure
from autosched.runtime.module import Module
from autosched.space.default import default_schedule
from autosched.space.loading import find_workload
from autosched.space.workload import Workload
from autosched.target import Target


@workload
def row_sums(columns=256):
    """x[n, columns] -> sums of rows."""
    n = te.var("n")
    x = te.placeholder((n, columns), name="x")
    k = te.reduce_axis((0, columns), name="k")
    return x, te.compute((n,), lambda i: te.sum(x[i, k], axis=k), name="sums")


@workload
def product(inner=256):
    """a[n, inner] @ b[inner, m]."""
    n, m = te.var("n"), te.var("m")
    a, b = te.placeholder((n, inner), name="a"), te.placeholder((inner, m), name="b")
    k = te.reduce_axis((0, inner), name="k")
    return a, b, te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")


def blur() -> Workload:
    found: Workload = find_workload("box_blur")()
    return found


ROUNDS = 15
CASES = {
    "row_sums 256": (row_sums, [{"n": n} for n in (4, 64, 1024, 16384)]),
    "product 256": (product, [{"n": n, "m": m} for n, m in ((4, 1024), (64, 64), (256, 256), (1024, 1024))]),
    "box_blur": (blur, [{"height": h, "width": w} for h, w in ((32, 48), (240, 320), (1280, 1920))]),
}


def run(what: Any, sizes: list[dict[str, int]], trials: int) -> dict[str, Any]:
    """Tune, then compare."""
    w = what()
    target = Target.parse("llvm")
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        found = tune_sizes(w, sizes, space="auto", trials=trials * len(sizes), records=folder)
        took = time.monotonic() - begun
        alone = [build(w, records=folder, sizes=at) for at in sizes]
        several = build(w, records=folder)
        tune_sizes(w, sizes, space="auto", kernels=1, trials=1, records=folder)
        single = build(w, records=folder)
    default = lower_structure(default_schedule(w.args, target), w.args, target, w.name).bind()
    default = Module(compile_function(default, target), target)
    rows = []
    for at, own in zip(sizes, alone, strict=True):
        inputs = w.sample_inputs(at)
        modules = {"default": default, "one": single, "several": several, "own": own}
        samples: dict[str, list[float]] = {name: [] for name in modules}
        for _ in range(ROUNDS):
            for name, module in modules.items():
                samples[name] += module.time(*inputs, repeat=1)
        took_each = {name: statistics.median(s) for name, s in samples.items()}
        rows.append({"sizes": at, **took_each})
    kernels = [{"when": found.guard(i), "knobs": m.record.knobs} for i, m in enumerate(found.kernels)]
    return {"rows": rows, "kernels": kernels, "worst": found.worst, "tuning_s": round(took, 1), "trials": found.trials}


def show(title: str, result: dict[str, Any]) -> None:
    print(f"{title}: {len(result['kernels'])} kernels, {result['trials']} trials in {result['tuning_s']:.0f} s")
    for row in result["rows"]:
        at = ", ".join(f"{k}={v}" for k, v in row["sizes"].items())
        times = "  ".join(f"{n} {row[n] * 1e6:.2f} us" for n in ("default", "one", "several", "own"))
        print(
            f"  {at:24} {times}  one/own {row['one'] / row['own']:.2f}  several/own {row['several'] / row['own']:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="rows whose name has one of these; default all")
    parser.add_argument("--trials", type=int, default=60, help="for each size; default %(default)s")
    args = parser.parse_args()
    file = RESULTS / "sizes.json"
    results = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else {}
    for title, (what, sizes) in CASES.items():
        if not args.names or any(n in title for n in args.names):
            results[title] = run(what, sizes, args.trials)
            show(title, results[title])
            save("sizes", {"machine": machine(), "rows": results})


if __name__ == "__main__":
    main()
