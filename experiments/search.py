"""What the search promises, measured: trials needed, by simulation over recorded spaces.

    python experiments/search.py               # all sections
    python experiments/search.py simulation    # one of them

simulation: trials that each strategy needs on the recorded spaces, and how good it is after 100
transfer:   how many trials of matmul 1024 the records of 512 and 2048 save

Results go to `experiments/results/search.json`, a part for each section; figures of sections that did
not run stay.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import RESULTS, machine, save

from autosched.search import DEFAULT, STRATEGIES
from autosched.simulate.compare import Curves, as_json, compare, curves_of, overall
from autosched.simulate.draw import drawing
from autosched.simulate.processes import run_all
from autosched.simulate.recorded import list_spaces, load
from autosched.simulate.replay import BATCH, Contender, Run
from autosched.target import cpu_count

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


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


SECTIONS: dict[str, Callable[[int], dict[str, Any]]] = {"simulation": simulation, "transfer": transfer}


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
