"""What more trials bring: the constants of `autosched/tuning/budget.py`, and how often outcomes are within limits.

    python experiments/expectation.py --seeds 8               # replays on the recorded spaces: some minutes
    python experiments/expectation.py --logs FOLDER           # also over tuning runs of 24 trials or more in logs

A pair (n, m) of a run is a trial n and a later one m, up to four times as late; its outcome is the logarithm of the
best time after n over that after m. Of each recorded space no more than half of the points are tried. For each
space, the constants are fitted to the others alone, and judged on it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from common import save

from autosched.records import RecordLog
from autosched.search import DEFAULT
from autosched.simulate.recorded import find_space, list_spaces
from autosched.simulate.replay import BATCH, Contender, run_all
from autosched.target import cpu_count
from autosched.tuning.budget import DECAY, MOST, POWER

AT, LATER = (8, 12, 16, 24, 32, 48, 64, 96, 128), (1.25, 1.5, 2, 3, 4)
Pairs = list[tuple[int, int, float]]  #: n, m, outcome


def pairs(seconds: Sequence[float]) -> Iterator[tuple[int, int, float]]:
    best = np.minimum.accumulate(np.array(seconds))
    for n in AT:
        for m in (round(n * later) for later in LATER):
            if m <= len(best) and math.isfinite(best[n - 1]):
                yield n, m, math.log(best[n - 1] / best[m - 1])


def means(found: Pairs) -> np.ndarray:
    """The expected outcome of each pair, for DECAY 1."""
    return np.array([n**-POWER - m**-POWER for n, m, _ in found])


def fitted(found: Pairs) -> tuple[float, float]:
    """DECAY, as equal to the mean outcome, and MOST, which nine outcomes of ten do not exceed."""
    outcomes, unit = np.array([g for *_, g in found]), means(found)
    decay = float(outcomes.mean() / unit.mean())
    return decay, float(np.quantile(outcomes / (decay * unit), 0.9))


def told(name: str, found: Pairs, decay: float, most: float) -> dict[str, float]:
    outcomes, expected = np.array([g for *_, g in found]), decay * means(found)
    within = float((outcomes <= most * expected).mean())
    row = {"pairs": len(found), "expected": expected.mean(), "outcome": outcomes.mean(), "within": within}
    print(f"| {name} | {len(found)} | {expected.mean():.1%} | {outcomes.mean():.1%} | {within:.0%} |")
    return {key: round(float(x), 4) for key, x in row.items()}


def replayed(seeds: int) -> dict[str, Pairs]:
    files, found = list_spaces(), defaultdict(list)
    for name in files:
        trials = min(192, find_space(name).size // 2)
        for run in run_all(files, [name], [Contender(DEFAULT)], range(seeds), trials, BATCH, cpu_count()):
            found[name] += pairs(run.seconds)
    return found


def logged(folder: Path) -> dict[str, Pairs]:
    """Those of the runs in log files, by file."""
    found: dict[str, Pairs] = {}
    for path in sorted(folder.rglob("*.jsonl")):
        runs: dict[str, dict[int, float]] = defaultdict(dict)
        for r in RecordLog(path).read().records:
            if r.trial > 0:
                runs[r.run].setdefault(r.trial, statistics.median(r.samples) if r.ok else math.inf)
        curves = [[run[i] for i in sorted(run)] for run in runs.values() if len(run) >= 24]
        if curves:
            found[path.name.partition(".")[0]] = [p for curve in curves for p in pairs(curve)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--logs", type=Path, help="also judge the runs that are logged in this folder")
    args = parser.parse_args()
    spaces = replayed(args.seeds)
    decay, most = fitted([p for found in spaces.values() for p in found])
    print(f"fitted to all: DECAY {decay:.2f}, MOST {most:.1f}; in use: {DECAY}, {MOST}, POWER {POWER}")
    print("| space | pairs | expected, mean | outcome, mean | within the limits |\n|---|---|---|---|---|")
    rows = {}
    for name, found in spaces.items():
        rows[name] = told(name, found, *fitted([p for other, ps in spaces.items() if other != name for p in ps]))
    rows["all"] = told("all, with the constants in use", [p for ps in spaces.values() for p in ps], DECAY, MOST)
    if args.logs is not None:
        logs = logged(args.logs)
        rows["logged"] = told(f"{len(logs)} programs, tuned", [p for ps in logs.values() for p in ps], DECAY, MOST)
    save("expectation", {"seeds": args.seeds, "decay": round(decay, 3), "most": round(most, 2), "spaces": rows})


if __name__ == "__main__":
    main()
