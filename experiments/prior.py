"""How good the analytical model is: at ranking the recorded spaces, as what a search begins with, and alone.

    python experiments/prior.py                       # all sections
    python experiments/prior.py ranks                 # against the recorded spaces, with constants fitted, too
    python experiments/prior.py replay --seeds 10     # the default strategy with and without it
    python experiments/prior.py choices               # `--trials 0 --space auto`, against the default schedule
    python experiments/prior.py kernels               # the same on an OpenCL device; only if asked for

The first two sections measure nothing. A space of which single points were measured while the machine did something
else says little by its slow half, so correlation is taken over the faster half.

Choices are run by one thread and timed in CPU time, from which the machine's other work takes little. Half of it is
shown: what two threads would take that share it evenly. The default schedule is serial.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import spearmanr

from autosched import build, tune
from autosched.codegen import compile_function
from autosched.model import prior_for
from autosched.model.analytical import AnalyticalModel, Core
from autosched.runtime.device import resolve_target, with_machine
from autosched.runtime.module import Module
from autosched.search.predicted import look_ahead
from autosched.simulate.recorded import RecordedSpace, find_space, list_spaces
from autosched.simulate.replay import Contender, replay_run
from autosched.space.default import plain_schedule
from autosched.space.loading import find_workload
from autosched.target import Target

WORKLOADS = (
    "matmul", "batched_matmul", "conv2d_nchw", "conv2d_nhwc", "depthwise_conv2d", "gemv", "softmax", "layer_norm",
    "row_sum", "column_sum", "max_pool", "box_blur", "gaussian_blur", "sobel", "resize", "add", "exp_chain",
    "tanh_chain", "cumsum", "histogram",
)  # fmt: skip
#: What is fitted: all constants that are times, each within about a factor of two.
FREE = [f.name for f in fields(Core) if f.name not in ("units", "vector_bytes", "l2", "l3", "kept_code", "long_code")]
#: Points of a space that take part in a fit, and trials of a replay.
POINTS, TRIALS = 200, 96
AT = (1, 4, 16, 32, 64, 96)


def table_of(space: RecordedSpace) -> tuple[np.ndarray, np.ndarray]:
    """Features and seconds of the points that run."""
    features = np.concatenate([s.table for s in space.sketches])
    seconds = np.concatenate([s.seconds for s in space.sketches])
    good = np.isfinite(seconds)
    return features[good], seconds[good]


def core_of(space: RecordedSpace) -> Core:
    return Core.of(int(space.facts["device"].get("threads", 2)), space.facts["limits"])


def operator(name: str) -> str:
    return name.partition("-")[0]


def fitted(spaces: Mapping[str, RecordedSpace]) -> dict[str, float]:
    """Factors of the constants that explain these spaces best; times much above the prediction count little."""
    rng = np.random.default_rng(0)
    data = []
    for space in spaces.values():
        features, seconds = table_of(space)
        chosen = rng.permutation(len(seconds))[:POINTS]
        features, seconds = features[chosen], seconds[chosen]
        weights = seconds.min() / seconds
        data.append((space, features, seconds, np.sqrt(20 * weights / weights.sum())))

    def residuals(logs: np.ndarray) -> np.ndarray:
        parts = [logs]  # a factor of e costs as much as one point that is off by a third
        for space, features, seconds, weights in data:
            core = scaled(core_of(space), dict(zip(FREE, np.exp(logs), strict=True)))
            off = np.log(AnalyticalModel(space.feature_names, core=core).seconds(features) / seconds)
            parts.append(weights * np.sign(off) * np.sqrt(np.log1p((off / 0.3) ** 2)))
        return np.concatenate(parts)

    found = least_squares(residuals, np.zeros(len(FREE)), max_nfev=20)
    return dict(zip(FREE, np.exp(found.x).tolist(), strict=True))


def scaled(core: Core, factors: Mapping[str, float]) -> Core:
    return replace(core, **{name: getattr(core, name) * factor for name, factor in factors.items()})


def quality(space: RecordedSpace, core: Core) -> tuple[float, float, float, float]:
    """Correlation over the faster half; regret of the first choice, the first three (median), the best of 16."""
    features, seconds = table_of(space)
    said = AnalyticalModel(space.feature_names, core=core).seconds(features)
    fast = seconds <= np.median(seconds)
    ordered = seconds[np.argsort(said, kind="stable")] / seconds.min()
    rho = float(spearmanr(said[fast], seconds[fast])[0])
    return rho, float(ordered[0]), float(np.median(ordered[:3])), float(ordered[:16].min())


def ranks(spaces: Mapping[str, RecordedSpace]) -> None:
    print(
        "| space | points | median point | correlation | first | first 3 | best of 16 "
        "| fitted to others: first 3 | best of 16 |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    others = {
        one: fitted({n: s for n, s in spaces.items() if operator(n) != one}) for one in {operator(n) for n in spaces}
    }
    for name, space in spaces.items():
        _, seconds = table_of(space)
        rho, first, three, sixteen = quality(space, core_of(space))
        _, _, three_f, sixteen_f = quality(space, scaled(core_of(space), others[operator(name)]))
        numbers = f"{rho:.2f} | {first:.2f} | {three:.2f} | {sixteen:.2f} | {three_f:.2f} | {sixteen_f:.2f}"
        print(f"| {name} | {len(seconds)} | {np.median(seconds) / seconds.min():.2f} | {numbers} |", flush=True)


def replay(spaces: Mapping[str, RecordedSpace], seeds: int) -> None:
    print(f"| best so far after | {' | '.join(map(str, AT))} | to 10 % | to 5 % |")
    print("|---" * (len(AT) + 3) + "|")
    for prior in (False, True):
        curves: list[Any] = []
        for space in spaces.values():
            for seed in range(seeds):
                best = replay_run(space, Contender("bandit", prior=prior), seed, TRIALS).best
                padded = np.pad(best, (0, TRIALS - len(best)), mode="edge") / space.best_seconds
                curves.append(np.minimum(padded, space.worst_seconds / space.best_seconds))
            mine = np.array(curves[-seeds:])
            print(
                f"  {space.name} {prior}: {np.exp(np.log(mine).mean(axis=0))[[a - 1 for a in AT]].round(3)}", flush=True
            )
        every = np.array(curves)
        means = np.exp(np.log(every).mean(axis=0))
        within = [
            np.median([np.argmax(c <= limit) + 1 if (c <= limit).any() else TRIALS for c in every])
            for limit in (1.1, 1.05)
        ]
        shown = [f"{means[a - 1]:.3f}" for a in AT] + [f"{w:.0f}" for w in within]
        print(f"| {'with' if prior else 'without'} the prior | {' | '.join(shown)} |", flush=True)


def cpu_seconds(module: Any, inputs: Sequence[np.ndarray]) -> float:
    """The least of some calls, in seconds of this thread. Outputs are there: memory that is touched for the first
    time takes longer to come than most of these programs run."""
    made = module(*inputs)
    arrays = (*inputs, *(made if isinstance(made, tuple) else (made,)))
    best, spent = np.inf, 0.0
    while spent < 0.3 or best is np.inf:
        begun = time.thread_time()
        module(*arrays)
        best, spent = min(best, time.thread_time() - begun), spent + time.thread_time() - begun
    return float(best)


def choices(names: Sequence[str]) -> None:
    two, one = with_machine(Target("llvm -threads=2")), with_machine(Target("llvm -threads=1"))
    print("| workload | sketches | chosen in | expected | measured | default, serial | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        workload = find_workload(name)()
        inputs = workload.sample_inputs(None)
        space = workload.search_space(two, workload.sizes_of(inputs), "auto")
        prior = prior_for(space.feature_names, is_gpu_style=False, units=2, limits=two.limits)
        assert prior is not None
        begun = time.thread_time()
        outlook = look_ahead(space, prior.seconds)
        took = time.thread_time() - begun
        best = outlook.choices[0]
        sketch = space.sketches[best.candidate.sketch]
        chosen = Module(compile_function(sketch.structure.bind(sketch.values(best.candidate.indices)), one), one)
        plain = build(plain_schedule(workload.args, one), one, args=workload.args)
        mine, other = cpu_seconds(chosen, inputs) / 2, cpu_seconds(plain, inputs)
        times = " | ".join(f"{1e6 * t:.0f} µs" for t in (best.seconds, mine, other))
        looked = f"{len(outlook.choices)} of {len(space.sketches)}"
        print(f"| {name} | {looked} | {took:.1f} s | {times} | {other / mine:.1f} |", flush=True)


def kernels(names: Sequence[str], spec: str) -> None:
    """`tune --trials 0` on a device, default schedule beside it: times of the device's own clock, the least of some."""
    print("| workload | sketch | expected | measured | default | ratio |")
    print("|---|---|---|---|---|---|")
    for name in names:
        workload = find_workload(name)()
        inputs = workload.sample_inputs(None)
        with tempfile.TemporaryDirectory() as folder:
            found = tune(workload, spec, space="auto", trials=0, inputs=inputs, records=folder).predicted
            if found is None:
                print(f"| {name} | none works | | | | |", flush=True)
                continue
            target = resolve_target(spec)
            chosen = build(workload, target, sizes=workload.sizes_of(inputs), records=folder)
        plain = build(plain_schedule(workload.args, target), target, args=workload.args)
        made = chosen(*inputs)
        arrays = [*inputs, *(made if isinstance(made, tuple) else (made,))]
        times: list[list[float]] = [[], []]
        for _ in range(3):
            for module, mine in zip((chosen, plain), times, strict=True):
                mine += module.time_evaluator(module.entry_name, number=1, repeat=2, min_repeat_ms=20)(*arrays).results
        mine, other = min(times[0]), min(times[1])
        shown = " | ".join(f"{1e6 * t:.0f} µs" for t in (found.predicted_s, mine, other))
        print(f"| {name} | {found.sketch} | {shown} | {other / mine:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="ranks|replay|choices|kernels")
    parser.add_argument("--device", default="opencl", metavar="TARGET", help="for kernels; default %(default)s")
    parser.add_argument("--workload", action="append", default=[], help="for choices; may be repeated")
    parser.add_argument("--seeds", type=int, default=10)
    args = parser.parse_args()
    spaces = {name: find_space(name) for name in list_spaces()}
    if not args.sections or "ranks" in args.sections:
        ranks(spaces)
    if not args.sections or "replay" in args.sections:
        replay(spaces, args.seeds)
    if not args.sections or "choices" in args.sections:
        choices(args.workload or WORKLOADS)
    if "kernels" in args.sections:
        kernels(args.workload or WORKLOADS, args.device)


if __name__ == "__main__":
    main()
