"""Programs in natural spelling beside what a careful person would run: with no trial, after some, after a minute.

    python experiments/searchbench.py                     # every program: an hour and a half, on a quiet machine
    python experiments/searchbench.py heat gauss          # programs whose name has one of these
    python experiments/searchbench.py --budget 20         # 20 s of tuning instead of 60
    python experiments/searchbench.py --trials 0          # only with no trial, beside the baselines
    python experiments/searchbench.py --replay --seeds 10 # the search alone, over recorded spaces
    python experiments/searchbench.py --table             # what was measured so far, as a table for documents

A row tunes one program of `programs/` into an empty folder, with predictions made anew. Then all that it
found is timed in turn with the baselines, round by round, in one process: the plain loops, what `build` takes with
no record, the best of the first 8 and of the first 64 trials, the winner. Every result is compared with the
reference, those of baselines, too. Baselines that are not installed are skipped with a word; they come with
`pip install autosched[bench]` and, for PyTorch, `pip install torch`.

Results go to `experiments/results/searchbench.json`; rows that did not run stay.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from common import RESULTS, interleaved, machine, medians, save
from programs import Program, close, load

from autosched import build, predicting, search_space, tune
from autosched.records import RecordLog
from autosched.runtime.module import Module
from autosched.search.predicted import look_ahead
from autosched.simulate.recorded import RecordedSpace, find_space, list_spaces
from autosched.simulate.replay import Contender, prior_of, replay_run
from autosched.space.default import plain_schedule
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.tuning import Event, TrialDone

ROUNDS = 7
#: trials after which the best is timed, and those of a replay after which its regret is told
AFTER, REGRET_AT = (8, 64), (0, 1, 4, 16, 64, 256)
Call = Callable[[], object]
#: what a user is promised: (column, geometric mean at most, worst at most) of its time over the best of ours
AIMS = (("no trial", 1.15, 1.6), ("after 8", 1.05, math.inf), ("after 64", 1.02, math.inf))


@contextmanager
def fresh_predictions(folder: str) -> Iterable[None]:  # type: ignore[misc]
    """Predictions are remembered in the user's cache; here each is made anew."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = folder
    predicting.answers.clear()
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = before


def measure(p: Program, target: Target, budget_s: float, trials: int | None) -> dict[str, Any]:
    """Everything that is told of one program."""
    work = p.work()
    inputs = work.sample_inputs(None)
    wanted = p.reference(*inputs)
    outputs = [np.empty([int(n.value) for n in t.shape], str(t.dtype)) for t in work.outputs]
    row: dict[str, Any] = {"part": p.part, **space_of(work, target)}
    with tempfile.TemporaryDirectory() as folder, fresh_predictions(f"{folder}/cache"):
        modules = {"plain": build(plain_schedule(work.args, target), target, args=work.args)}
        begun = time.monotonic()
        modules["no trial"] = build(work, target, records=f"{folder}/none")
        row["build_s"] = round(time.monotonic() - begun, 2)
        row["origin"] = modules["no trial"].provenance["note"]
        if trials != 0:
            row |= tuned(work, target, folder, budget_s, trials, modules)
    calls: dict[str, Call | None] = {}
    for name, module in modules.items():
        calls[name] = checked(name, p, wanted, outputs, lambda m=module: m(*inputs, *outputs), row)  # type: ignore[misc]
    for name, prepare in p.baselines.items():
        try:
            calls[f"by {name}"] = checked(name, p, wanted, outputs, prepare(inputs, outputs), row)
        except ImportError as error:
            print(f"  {p.name}: {name} is not installed ({error})", file=sys.stderr)
    seconds = medians(interleaved({n: c for n, c in calls.items() if c}, rounds=ROUNDS))
    return {**row, "seconds": {name: float(f"{s:.4g}") for name, s in seconds.items()}}


def space_of(work: Workload, target: Target) -> dict[str, Any]:
    begun = time.process_time()
    space = search_space(work, target, space="auto")
    return {"sketches": len(space.sketches), "space_s": round(time.process_time() - begun, 2)}


def tuned(
    work: Workload, target: Target, folder: str, budget_s: float, trials: int | None, modules: dict[str, Module]
) -> dict[str, Any]:
    """Tune; `modules` gets the best of the first trials, and the winner."""
    moments: list[float] = []

    def follow(event: Event) -> None:
        if isinstance(event, TrialDone):
            moments.append(event.elapsed_s)

    found = tune(work, target, trials=trials, budget_s=budget_s, records=f"{folder}/all", progress=follow)
    records = RecordLog(found.log).read().records
    tried = [r for r in records if r.trial > 0]
    for n in AFTER:
        if len(tried) >= n:
            part = RecordLog(Path(folder) / str(n) / found.log.name)
            for record in [r for r in records if r.trial == 0][:1] + tried[:n]:
                part.append(record)
            modules[f"after {n}"] = build(work, target, records=f"{folder}/{n}")
    modules["tuned"] = build(work, target, records=f"{folder}/all")
    return {
        "trials": found.trials,
        "failures": found.failures,
        "first_trial_s": round(moments[0], 2) if moments else None,
        "tuning_s": round(found.elapsed_s, 1),
        "trials_a_second": round((len(moments) - 1) / (moments[-1] - moments[0]), 2) if len(moments) > 1 else None,
        "sketch": found.best.sketch if found.best is not None else "default",
        "budget_s": budget_s,
    }


def checked(
    name: str,
    p: Program,
    wanted: object,
    outputs: Sequence[np.ndarray],
    call: Callable[[], object],
    row: dict[str, Any],
) -> Callable[[], object] | None:
    """The call, if its results are right: returned, or left in the outputs."""
    for x in outputs:
        x.fill(77)
    returned = call()
    wrong = close(outputs if returned is None else returned, wanted, p.rtol, p.atol)
    if wrong is None:
        return call
    row.setdefault("wrong", {})[name] = wrong
    print(f"  {p.name}: {name} is wrong: {wrong}", file=sys.stderr)
    return None


# -- what it comes to ------------------------------------------------------------------------------


def ours(row: dict[str, Any]) -> dict[str, float]:
    """Seconds of what is ours, by name."""
    return {n: s for n, s in row["seconds"].items() if not n.startswith("by ")}


def baseline(row: dict[str, Any]) -> tuple[str, float] | None:
    """The best baseline's name and seconds."""
    others = {n[3:]: s for n, s in row["seconds"].items() if n.startswith("by ")}
    return min(others.items(), key=lambda x: x[1]) if others else None


COLUMNS = ("plain", "no trial", "after 8", "after 64", "tuned")


def shown(name: str, row: dict[str, Any]) -> str:
    """One line of the table: milliseconds, and how many times as fast as the baseline."""
    mine, other = ours(row), baseline(row)
    times = " | ".join(f"{1e3 * mine[c]:.3g}" if c in mine else "" for c in COLUMNS)
    them = f"{1e3 * other[1]:.3g} ({other[0]}) | {other[1] / min(mine.values()):.2f}" if other else " | "
    first = row.get("first_trial_s")
    return f"| {name} | {row['sketches']} | {row['space_s']} | {first or ''} | {times} | {them} |"


def table(results: dict[str, Any]) -> None:
    print(f"| program | sketches | made in s | first trial s | {' | '.join(COLUMNS)} | baseline | times |")
    print("|" + "---|" * (len(COLUMNS) + 6))
    for name, row in results.items():
        print(shown(name, row))
    summary(results)


def summary(results: dict[str, Any]) -> None:
    """Geometric means beside the aims."""
    for column, mean, worst in AIMS:
        ratios = {n: ours(r)[column] / min(ours(r).values()) for n, r in results.items() if column in ours(r)}
        if ratios:
            last = max(ratios, key=lambda n: ratios[n])
            found = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
            limit = f", {worst}" if math.isfinite(worst) else ""
            print(
                f"{column}: {found:.3f} times the best of ours in the geometric mean of {len(ratios)}, worst "
                f"{ratios[last]:.2f} ({last}); aim {mean}{limit}"
            )
    told_winners(results)
    against = {n: other[1] / min(ours(r).values()) for n, r in results.items() if (other := baseline(r))}
    if against:
        level, slow = sum(x >= 1 for x in against.values()), [n for n, x in against.items() if x < 0.8]
        print(f"baselines: level or faster on {level} of {len(against)}; under 0.8: {', '.join(slow) or 'none'}")


def told_winners(results: dict[str, Any]) -> None:
    """The same over the winners alone, which no luck of four readings chose.

    The least of four readings is less than any of the four programs takes: even the winner is above it.
    """
    full = [mine for r in results.values() if {"tuned", *(c for c, _, _ in AIMS)} <= (mine := ours(r)).keys()]
    if not full:
        return
    luck = math.exp(sum(math.log(m["tuned"] / min(m.values())) for m in full) / len(full))
    parts = []
    for column, _, _ in AIMS:
        logs = np.log([m[column] / m["tuned"] for m in full])
        error = logs.std(ddof=1) / math.sqrt(len(full)) if len(full) > 1 else math.nan
        parts.append(f"{column} {math.exp(logs.mean()):.3f} ({error:.3f})")
    print(f"over the winner, with standard errors: {', '.join(parts)}; the winner over the best of ours: {luck:.3f}")


def replay(seeds: int) -> None:
    """Regret of the default strategy on recorded spaces: the best so far over the best there is, minus 1."""
    print(f"| space | points | {' | '.join(map(str, REGRET_AT))} |")
    print("|" + "---|" * (len(REGRET_AT) + 2))
    means: list[np.ndarray] = []
    for name in list_spaces():
        space = find_space(name)
        curves = []
        for seed in range(seeds):
            best = replay_run(space, Contender("bandit"), seed, max(REGRET_AT)).best / space.best_seconds
            best = np.minimum(best, space.worst_seconds / space.best_seconds)
            curves.append(np.pad(best, (0, max(REGRET_AT) - len(best)), mode="edge"))
        mean = np.exp(np.log(np.array(curves)).mean(axis=0))
        means.append(np.array([chosen(space, seeds), *mean[[n - 1 for n in REGRET_AT[1:]]]]) - 1)
        print(f"| {name} | {space.size} | {' | '.join(f'{100 * x:.1f} %' for x in means[-1])} |", flush=True)
    every = np.exp(np.log1p(np.array(means)).mean(axis=0)) - 1
    print(f"| geometric mean | | {' | '.join(f'{100 * x:.1f} %' for x in every)} |")


def chosen(space: RecordedSpace, seeds: int) -> float:
    """What the model chooses with no trial, over the best of the space: the geometric mean of some seeds."""
    prior = prior_of(space)
    if prior is None:
        return math.nan
    found = [look_ahead(space, prior.seconds, seed=seed).choices[0].candidate for seed in range(seeds)]
    worst = space.worst_seconds
    return math.exp(sum(math.log(min(space.seconds(c), worst) / space.best_seconds) for c in found) / len(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only programs with one of these in their name")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of tuning for each; default %(default)g")
    parser.add_argument("--trials", type=int, help="at most so many for each")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--replay", action="store_true", help="regret on recorded spaces, nothing is measured")
    parser.add_argument("--seeds", type=int, default=10, help="of --replay; default %(default)d")
    parser.add_argument("--table", action="store_true", help="print what was measured so far, measure nothing")
    args = parser.parse_args()
    if args.replay:
        replay(args.seeds)
        return
    name = "searchbench" if args.target == "llvm" else f"searchbench_{Target.parse(args.target).kind}"
    path = RESULTS / f"{name}.json"
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if args.table:
        table(results)
        return
    programs = load()
    words = [*args.names] or [""]
    chosen = [p for p in programs.values() if any(n == p.name or (n not in programs and n in p.name) for n in words)]
    if not chosen:
        parser.error(f"no program has one of these in its name; programs: {', '.join(programs)}")
    if len(chosen) > 1:  # each in a process of its own: arrays of one that ran for long lie on small pages
        for p in chosen:
            limits = [f"--budget={args.budget}", *([] if args.trials is None else [f"--trials={args.trials}"])]
            subprocess.run([sys.executable, __file__, p.name, f"--target={args.target}", *limits], check=False)
        results = json.loads(path.read_text(encoding="utf-8"))
        summary({p.name: results[p.name] for p in chosen if p.name in results})
        return
    (p,) = chosen
    row = measure(p, Target.parse(args.target), args.budget, args.trials)
    results[p.name] = {**row, "machine": machine()}
    print(shown(p.name, row), flush=True)
    save(name, {n: results[n] for n in (*programs, *results) if n in results})


if __name__ == "__main__":
    main()
