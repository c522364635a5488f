"""What the search promises, measured: trials needed, by simulation over recorded spaces.

    python experiments/search.py               # all sections
    python experiments/search.py simulation    # one of them

simulation: trials that each strategy needs on the recorded spaces, and how good it is after 100
transfer:   how many trials of matmul 1024 the records of 512 and 2048 save
candidates: candidates a second through the features, and through features and model, on one core
throughput: measured trials a second, verification included, on this machine; best on a quiet one
openblas:   matmul 1024 after two minutes from nothing, beside NumPy's product

Results go to `experiments/results/search.json`, a part for each section; figures of sections that did
not run stay.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from common import RESULTS, interleaved, machine, medians, save

from autosched.building import build
from autosched.measure.protocol import MeasureOptions
from autosched.model import make_model
from autosched.records import Record
from autosched.runtime.device import resolve_target, with_machine
from autosched.search import DEFAULT, STRATEGIES
from autosched.simulate.curves import Curves, as_json, compare, curves_of, drawing, overall
from autosched.simulate.recorded import list_spaces, load
from autosched.simulate.replay import BATCH, Contender, Run, run_all
from autosched.space.loading import find_workload
from autosched.target import cpu_count
from autosched.tuning import Event, Preflight, TrialDone, tune

TRIALS = 100
#: Whole spaces, on which all strategies run; parts of a space only prime models.
WHOLE = ("matmul-1024", "box_blur", "conv2d_nchw", "softmax", "layer_norm", "depthwise_conv2d")
MATMUL, OTHERS = "matmul-1024", ("matmul-512", "matmul-2048")
#: Random search costs nothing, and few seeds of it may be lucky.
RANDOM_SEEDS = 200
#: Records of each other shape that a model is shown: as many as a tuning run makes by default.
PRIME_TRIALS = 200
#: Drawn in the figure; the table has all.
DRAWN = ("random", DEFAULT, "guided", "annealing", "genetic", "droplet")
#: Workload -> candidates a second to reach on one core: through the features, through features and model.
SCORED = {"matmul": (100_000, 50_000), "conv2d_nchw": (20_000, 20_000)}
#: Workload -> trials a second to reach on two cores.
PACE = {"box_blur": 8.0, "matmul": 4.0}
#: Seconds in which tuning has to be level with OpenBLAS.
BUDGET_S = 120.0
FIGURE = Path(__file__).resolve().parent.parent / "docs" / "simulation.svg"


def runs_of(spaces: Sequence[str], contenders: Sequence[Contender], seeds: int) -> list[Run]:
    """All runs of these contenders on these spaces."""
    return run_all(list_spaces(), spaces, contenders, range(seeds), TRIALS, BATCH, cpu_count())


def curves_in(spaces: Sequence[str], runs: Sequence[Run]) -> list[Curves]:
    """Their curves, space by space."""
    files = list_spaces()
    return [c for name in spaces for c in curves_of(load(files[name]), runs, TRIALS)]


def simulation(seeds: int) -> dict[str, Any]:
    """All built-in strategies on all spaces."""
    runs = runs_of(WHOLE, [Contender("random", model="none")], RANDOM_SEEDS)
    runs += runs_of(WHOLE, [Contender(name) for name in STRATEGIES if name not in ("random", "grid")], seeds)
    return summary(runs, seeds)


def summary(runs: Sequence[Run], seeds: int) -> dict[str, Any]:
    """The figures of these runs; draws those of some strategies into the documents."""
    curves = curves_in(WHOLE, runs)
    FIGURE.write_text(drawing([c for c in curves if c.contender in DRAWN]), encoding="utf-8")
    found = compare(curves)
    by = {(f.space, f.contender): f for f in found}
    means = overall(found)
    print(f"  {'strategy':14s} {'score':>6s}  {'after 25':>8s} {'50':>6s} {'100':>6s} of {MATMUL}, to 5%")
    for name, score in means.items():
        line = by[MATMUL, name]
        after = " ".join(f"{line.after[n][1]:6.3f}" for n in ("25", "50", "100"))
        print(f"  {name:14s} {score:6.3f}  {after}  {line.trials_to['5%']:g}")
    after = by[MATMUL, DEFAULT].after["100"][1]
    print(f"  {DEFAULT}: {after:.3f} x the best of {MATMUL} after 100 trials, median of {seeds} seeds (goal: 1.05)")
    return {
        **as_json(found, [], {"trials": TRIALS, "default": DEFAULT, "random_seeds": RANDOM_SEEDS}),
        "matmul_1024_after_100": {"reached": round(after, 4), "goal": 1.05},
    }


def transfer(seeds: int) -> dict[str, Any]:
    """The default strategy with and without the records of two other shapes."""
    alone, primed = Contender(DEFAULT), Contender(DEFAULT, prime=OTHERS, prime_trials=PRIME_TRIALS)
    found = {f.contender: f for f in compare(curves_in([MATMUL], runs_of([MATMUL], [alone, primed], seeds)))}
    result: dict[str, Any] = {}
    for near, trials in found[alone.label].trials_to.items():
        less = found[primed.label].trials_to[near]
        print(f"  trials to within {near}: {trials:g} alone, {less:g} after {' and '.join(OTHERS)} (goal: half)")
        result[near] = {"alone": _finite(trials), "after_others": _finite(less), "goal_share": 0.5}
    return result


def candidates(seeds: int) -> dict[str, Any]:
    """Batches of 1024 candidates, as a round of search scores them; medians of 15."""
    result: dict[str, Any] = {}
    for name, goals in SCORED.items():
        alone, both = scored(name)
        print(
            f"  {name}: features {alone:,.0f} a second (goal: {goals[0]:,}), with the model {both:,.0f} ({goals[1]:,})"
        )
        result[name] = {"features": round(alone), "features_and_model": round(both), "goals": goals}
    return result


def scored(name: str, count: int = 1024) -> tuple[float, float]:
    """Candidates of an operator's largest sketch a second: features alone, and features with predictions."""
    space = find_workload(name)().search_space(with_machine(resolve_target("llvm")), {})
    sketch = max(space.sketches, key=lambda s: s.size)
    rng = np.random.default_rng(0)
    rows = sketch.valid_points.rows(rng.integers(0, sketch.valid_points.count, count))
    model = make_model("xgb", space.feature_names, seed=0)
    model.fit(sketch.features(rows[:200]), rng.random(200) + 0.1, np.zeros(200, dtype=np.int64))
    alone = median_s(lambda: sketch.features(rows))
    return count / alone, count / median_s(lambda: model.predict(sketch.features(rows)))


def median_s(call: Callable[[], object], rounds: int = 15) -> float:
    """Seconds of a call."""
    call()
    found = []
    for _ in range(rounds):
        begun = time.perf_counter()
        call()
        found.append(time.perf_counter() - begun)
    return float(np.median(found))


def throughput(seeds: int) -> dict[str, Any]:
    """A run of each workload from nothing, with racing and without."""
    result: dict[str, Any] = {"load": round(os.getloadavg()[0], 1)}
    for name, goal in PACE.items():
        for race in (True, False):
            found = pace(name, race)
            label = f"{name}, {'racing' if race else 'no race'}"
            print(f"  {label}: {found['trials_a_second']:.2f} trials a second (goal: {goal:g}), {found}")
            result[label] = {**found, "goal": goal}
    return result


def pace(name: str, race: bool, trials: int = 100) -> dict[str, Any]:
    """Trials a second from the pre-flight to the last trial, and what a trial costs in seconds of one core to build."""
    records: list[Record] = []
    moments: list[float] = []  # of the pre-flight, and of every trial

    def tell(event: Event) -> None:
        if isinstance(event, (Preflight, TrialDone)):
            moments.append(time.monotonic())
        if isinstance(event, TrialDone):
            records.append(event.record)

    with tempfile.TemporaryDirectory() as folder:
        options = MeasureOptions(race=race)
        tune(find_workload(name)(), "llvm", trials=trials, records=folder, measure=options, progress=tell)
    return {
        "trials": len(records),
        "trials_a_second": round(len(records) / (moments[-1] - moments[0]), 2),
        "build_s": round(sum(r.build_s for r in records) / len(records), 3),
        "samples": round(sum(len(r.samples) for r in records) / len(records), 2),
        "raced": sum(r.raced for r in records),
        "failed": sum(r.status != "ok" for r in records),
    }


def openblas(seeds: int) -> dict[str, Any]:
    """The product that two minutes of tuning find, interleaved with NumPy's."""
    work = find_workload("matmul")()
    with tempfile.TemporaryDirectory() as folder:
        found = tune(work, "llvm", trials=None, budget_s=BUDGET_S, records=folder)
        f = build(work, "llvm", records=folder)
    a, b = work.sample_inputs()
    samples = medians(interleaved({"autosched": lambda: f(a, b), "numpy": lambda: a @ b}))
    mine, its = samples["autosched"], samples["numpy"]
    print(
        f"  {found.trials} trials; {mine * 1e3:.2f} ms, NumPy {its * 1e3:.2f} ms: {its / mine:.2f} x as fast (goal: 1)"
    )
    return {"trials": found.trials, "ours_s": mine, "numpy_s": its, "ratio": round(its / mine, 3), "goal": 1.0}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


SECTIONS: dict[str, Callable[[int], dict[str, Any]]] = {
    "simulation": simulation,
    "transfer": transfer,
    "candidates": candidates,
    "throughput": throughput,
    "openblas": openblas,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"{', '.join(SECTIONS)}; default: all")
    parser.add_argument("--seeds", type=int, default=10)
    args = parser.parse_args()
    if unknown := [name for name in args.sections if name not in SECTIONS]:
        parser.error(f"no section {unknown[0]!r}; sections: {', '.join(SECTIONS)}")
    path = RESULTS / "search.json"
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for name in args.sections or SECTIONS:
        print(name)
        results[name] = {**SECTIONS[name](args.seeds), "seeds": args.seeds, "machine": machine()}
        save("search", results)


if __name__ == "__main__":
    main()
