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
from autosched.simulate.compare import Figures, compare, curves_of, overall
from autosched.simulate.processes import run_all
from autosched.simulate.recorded import list_spaces, load
from autosched.simulate.replay import BATCH, Contender
from autosched.target import cpu_count

TRIALS = 200
#: Whole spaces, on which all strategies run; parts of a space only prime models.
WHOLE = ("box_blur", "conv2d_nchw", "depthwise_conv2d", "layer_norm", "matmul-1024", "softmax")
MATMUL, OTHERS = "matmul-1024", ("matmul-512", "matmul-2048")


def figures(spaces: Sequence[str], contenders: Sequence[Contender], seeds: int) -> list[Figures]:
    """The table of these contenders on these spaces."""
    files = list_spaces()
    runs = run_all(files, spaces, contenders, range(seeds), TRIALS, BATCH, cpu_count())
    return compare([c for name in spaces for c in curves_of(load(files[name]), runs, TRIALS)])


def simulation(seeds: int) -> dict[str, Any]:
    """All built-in strategies on all spaces."""
    found = figures(WHOLE, [Contender(name) for name in STRATEGIES if name != "grid"], seeds)
    for name, score in overall(found).items():
        print(f"  {name:14s} {score:.3f}")
    (ours,) = [f for f in found if (f.space, f.contender) == (MATMUL, DEFAULT)]
    after = ours.after["100"][1]
    print(f"  {MATMUL}, {DEFAULT}: {after:.3f} x the best after 100 trials, median of {seeds} seeds (goal: 1.05)")
    return {
        "overall": overall(found),
        "matmul_1024_after_100": after,
        "goal": 1.05,
        "beats_random": {f"{f.space} {f.contender}": f.beats_random for f in found if f.contender != "random"},
    }


def transfer(seeds: int) -> dict[str, Any]:
    """The default strategy with and without the records of two other shapes."""
    alone, primed = Contender(DEFAULT), Contender(DEFAULT, prime=OTHERS)
    found = {f.contender: f for f in figures([MATMUL], [alone, primed], seeds)}
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
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="default: all")
    parser.add_argument("--seeds", type=int, default=10)
    args = parser.parse_args()
    path = RESULTS / "search.json"
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for name in args.sections or SECTIONS:
        print(name)
        results[name] = {**SECTIONS[name](args.seeds), "seeds": args.seeds, "machine": machine()}
        save("search", results)


if __name__ == "__main__":
    main()
