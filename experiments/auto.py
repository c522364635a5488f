"""Schedules that nobody wrote a template for: what rules and search find, beside the best library.

    python experiments/auto.py                      # all rows, from nothing: half an hour
    python experiments/auto.py matmul softmax       # rows whose title has one of these
    python experiments/auto.py matmul --trials 64   # fewer trials than the row has
    python experiments/auto.py --trials 0           # the analytical model's choice, nothing measured

Each row tunes one workload with `space="auto"` into an empty folder, so nothing is known beforehand;
then what was found is timed in turn with the peers, round by round. Results go to
`experiments/results/auto.json`; rows that did not run stay.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import RESULTS, machine, save
from operators import TABLE, Call, Peers, Row, measure, torch_peer

from autosched import te, tune, workload
from autosched.target import Target
from autosched.te.work import work_of
from autosched.topi import nn
from autosched.tuning import Event, TrialDone


@workload
def mlp(rows=256, inputs=512, hidden=1024, outputs=256):
    """x[rows, inputs] -> max(x @ w1 + b1, 0) @ w2 + b2: two layers of a network."""
    x, w1, b1 = (
        te.placeholder(s, name=n) for s, n in (((rows, inputs), "x"), ((inputs, hidden), "w1"), ((hidden,), "b1"))
    )
    w2, b2 = te.placeholder((hidden, outputs), name="w2"), te.placeholder((outputs,), name="b2")
    k, q = te.reduce_axis((0, inputs), "k"), te.reduce_axis((0, hidden), "q")
    first = te.compute((rows, hidden), lambda i, j: te.sum(x[i, k] * w1[k, j], axis=k), name="first")
    active = te.compute((rows, hidden), lambda i, j: te.max(first[i, j] + b1[j], 0.0), name="active")
    second = te.compute((rows, outputs), lambda i, j: te.sum(active[i, q] * w2[q, j], axis=q), name="second")
    return x, w1, b1, w2, b2, te.compute((rows, outputs), lambda i, j: second[i, j] + b2[j], name="mlp")


def queries(heads=8, length=256, depth=64):
    """Queries, keys and values of an attention layer, about 1 apart."""
    draw = np.random.default_rng(0)
    return [draw.normal(size=(heads, length, depth)).astype("float32") for _ in range(3)]


@workload(inputs=queries)
def attention(heads=8, length=256, depth=64):
    """q, k, v [heads, length, depth] -> softmax(q @ k.T / sqrt(depth)) @ v."""
    q, k, v = (te.placeholder((heads, length, depth), name=n) for n in "qkv")
    r, t = te.reduce_axis((0, depth), "r"), te.reduce_axis((0, length), "t")
    shape = (heads, length, length)
    scores = te.compute(shape, lambda h, i, j: te.sum(q[h, i, r] * k[h, j, r], axis=r), name="scores")
    scaled = te.compute(shape, lambda h, i, j: scores[h, i, j] * float(depth**-0.5), name="scaled")
    weights = nn.softmax(scaled)
    out = te.compute(
        (heads, length, depth), lambda h, i, j: te.sum(weights[h, i, t] * v[h, t, j], axis=t), name="attention"
    )
    return q, k, v, out


def torch_mlp() -> Peers:
    def layers(t: Any, F: Any, x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Call:
        return lambda: t.addmm(b2, F.relu(t.addmm(b1, x, w1)), w2)

    return torch_peer(layers)


def torch_attention() -> Peers:
    return torch_peer(lambda t, F, q, k, v: lambda: F.scaled_dot_product_attention(q, k, v))


@dataclass(frozen=True)
class Case:
    """A row of the table: how many trials it gets, and what is to be reached after how many of them, in
    GFLOP/s, or in milliseconds where `unit` says so, or times the best peer."""

    row: Row
    trials: int
    aims: dict[int, float] = field(default_factory=dict)
    unit: str = "GFLOP/s"


def row(title: str) -> Row:
    return next(r for r in TABLE if r.title == title)


CASES = (
    Case(row("box blur 1920x1280x3"), 100, {100: 0.6}, "ms"),
    Case(row("matmul 1024"), 500, {64: 120, 500: 160}),
    Case(row("conv2d NCHW 3x3 64x56x56"), 1000, {128: 110, 1000: 140}),
    Case(row("softmax 1024x1024"), 200, {200: 1.5}, "peer"),
    Case(row("layer norm 1024x1024"), 200, {200: 1.5}, "peer"),
    Case(row("depthwise 3x3 128x56x56"), 200, {200: 1.5}, "peer"),
    Case(Row("two layers 256x512x1024x256", mlp, torch_mlp(), 1.5), 200, {200: 1.5}, "peer"),
    Case(Row("attention 8x256x64", attention, torch_attention(), 1.5), 200, {200: 1.5}, "peer"),
)


def run(case: Case, target: Target, trials: int) -> dict[str, Any]:
    """Tune from nothing, then compare."""
    work = case.row.work()
    curve: list[tuple[int, float, float]] = []

    def follow(event: Event) -> None:
        if isinstance(event, TrialDone):
            curve.append((event.index, event.elapsed_s, event.best_seconds))

    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        found = tune(
            work, target, space="auto", trials=trials, records=folder, sizes=case.row.sizes or None, progress=follow
        )
        took = time.monotonic() - begun
        result = measure(case.row, target, records=folder)
    load = work_of(work.args, result["sizes"])
    best = {n: min((s for i, _, s in curve if i <= n), default=None) for n in (16, 64, 100, 128, 200, 500, 1000)}
    return {
        **result,
        "trials": found.trials,
        "tuning_s": round(took, 1),
        "failures": found.failures,
        "default_seconds": found.default_seconds,
        "sketch": found.best.sketch if found.best is not None else "default",
        "after": {str(n): s for n, s in best.items() if s is not None and n <= trials},
        "flops": load.flops if load else None,
    }


def show(case: Case, result: dict[str, Any]) -> None:
    ours, ratio = result["seconds"], result["ratio"]
    rate = f"{result['flops'] / ours / 1e9:.0f} GFLOP/s" if result["flops"] else ""
    print(
        f"{case.row.title}: {ours * 1e3:.3f} ms {rate} after {result['trials']} trials in {result['tuning_s']:.0f} s; "
        f"default {result['default_seconds'] * 1e3:.3f} ms; {result['best_peer']} {ratio or 0:.2f}; {result['sketch']}"
    )
    for trials, aim in case.aims.items():
        at = result["after"].get(str(trials), ours)
        reached = {"ms": at * 1e3, "peer": ratio or 0.0}.get(case.unit, (result["flops"] or 0) / at / 1e9)
        print(f"    after {trials} trials: {reached:.2f} {case.unit}, aim {aim:g}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only rows with one of these in their title")
    parser.add_argument("--trials", type=int, help="at most so many for each row")
    parser.add_argument("--target", default="llvm")
    args = parser.parse_args()
    target = Target.parse(args.target)
    chosen = [c for c in CASES if not args.names or any(n.lower() in c.row.title.lower() for n in args.names)]
    if not chosen:
        parser.error(f"no row has one of these in its title; rows: {', '.join(c.row.title for c in CASES)}")
    path = RESULTS / "auto.json"
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for case in chosen:
        trials = case.trials if args.trials is None else min(case.trials, args.trials)
        result = run(case, target, trials)
        show(case, result)
        results[f"{case.row.title}, {trials} trials"] = {**result, "machine": machine()}
        save("auto", results)


if __name__ == "__main__":
    main()
