"""Permutes of four axes beside a copy of as many bytes: all 24 orders, with no trial.

    python experiments/permutes.py                    # float32, uint8 and float64
    python experiments/permutes.py float32 --shape 8,64,56,56
    python experiments/permutes.py --threads 1        # on one thread, which a busy machine disturbs less

Each order is built with no record, in an empty cache, compared with NumPy and timed in turn with `np.copyto` of the
same array. A row tells bytes a second, as a share of what the copy moves: the fastest of some rounds of both.
Results go to `experiments/results/permutes.json`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from common import machine, save

from autosched import build, te
from autosched.space.workload import Workload

ROUNDS, CALLS = 15, 3


def permuted(shape: Sequence[int], order: Sequence[int], dtype: str) -> Workload:
    """x of that shape -> its axes in another order."""
    x = te.placeholder(tuple(shape), dtype, name="x")

    def at(*to: te.Expr) -> te.Expr:
        return x[tuple(to[order.index(axis)] for axis in range(len(shape)))]

    return Workload("permuted", (x, te.compute(tuple(shape[axis] for axis in order), at, name="permuted")))


def fastest(calls: dict[str, Callable[[], object]], clock: Callable[[], float]) -> dict[str, float]:
    """Seconds of the fastest call of each, in turn."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()
            for _ in range(CALLS):
                begun = clock()
                call()
                best[name] = min(best[name], clock() - begun)
    return best


def measure(shape: Sequence[int], dtype: str, target: str, clock: Callable[[], float]) -> dict[str, Any]:
    """Seconds of the copy and of each order, by its name."""
    x = (np.random.default_rng(0).random(shape) * 100).astype(dtype)
    like, calls = np.empty_like(x), {}
    for order in itertools.permutations(range(len(shape))):
        wanted = np.ascontiguousarray(x.transpose(order))
        out = np.empty_like(wanted)
        module = build(permuted(shape, order, dtype), target, records=os.devnull + ".none")
        module(x, out)
        np.testing.assert_array_equal(out, wanted)
        calls["".join(map(str, order))] = lambda module=module, out=out: module(x, out)  # type: ignore[misc]
    rows = {}
    for name, call in calls.items():
        found = fastest({"copy": lambda: np.copyto(like, x), "ours": call}, clock)
        rows[name] = {k: float(f"{s:.4g}") for k, s in found.items()}
    return {"bytes": x.nbytes, "seconds": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("types", nargs="*", default=["float32", "uint8", "float64"])
    parser.add_argument("--shape", default="8,48,56,72", help="default %(default)s")
    parser.add_argument("--threads", type=int, help="default: all cores; of one, the time that it computes")
    args = parser.parse_args()
    shape = [int(n) for n in args.shape.split(",")]
    target = f"llvm -num-cores={args.threads}" if args.threads else "llvm"
    clock = time.thread_time if args.threads == 1 else time.perf_counter
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        found = {dtype: measure(shape, dtype, target, clock) for dtype in args.types}
    for dtype, one in found.items():
        shares = {name: row["copy"] / row["ours"] for name, row in one["seconds"].items()}
        print(f"{dtype}, {one['bytes'] / 1e6:.1f} MB: " + "  ".join(f"{n} {s:.2f}" for n, s in shares.items()))
        print(
            f"  geometric mean {np.exp(np.mean(np.log(list(shares.values())))):.2f}, least {min(shares.values()):.2f}"
        )
    save("permutes", {"machine": machine(), "shape": shape, "threads": args.threads, "types": found})


if __name__ == "__main__":
    main()
