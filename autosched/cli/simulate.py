"""`autosched simulate`: strategies over recorded search spaces, as tables and curves."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from autosched.cli import options
from autosched.errors import UsageError, named_file, new_file
from autosched.places import write_whole
from autosched.report.text import count, duration, table
from autosched.search import DEFAULT
from autosched.simulate.curves import Curves, Figures, as_json, compare, curves_of, drawing, overall
from autosched.simulate.recorded import SUFFIX, RecordedSpace, find_space, list_spaces, load
from autosched.simulate.recording import check_features, renewed, write
from autosched.simulate.replay import BATCH, Contender, run_all
from autosched.target import cpu_count


def run(args: argparse.Namespace) -> int:
    records = options.records_folder(args)
    known = list_spaces(records)
    if not args.spaces:
        return _list(known, args)
    suffix = Path(args.output).suffix if args.output else ""
    if args.output and suffix not in (".svg", ".json"):
        raise UsageError(
            f"{suffix or 'no ending'} is not known", asked=f"--output {args.output}", legal=".svg or .json"
        )
    if args.output and not args.renew:
        new_file(args.output, f"simulate -o {args.output}", args.force)
    names = [*known] if args.spaces == ["all"] else list(dict.fromkeys(args.spaces))
    files = {name: Path(name) if name.endswith(SUFFIX) else known.get(name, Path()) for name in (*names, *args.prime)}
    spaces = {name: find_space(name, records) for name in files}
    if not args.renew:
        return _simulate(args, names, spaces, files)
    for name, space in spaces.items():
        write(renewed(space), files[name])
        print(f"renewed {files[name]}")
    return 0


def _list(known: dict[str, Path], args: argparse.Namespace) -> int:
    spaces = {name: load(path) for name, path in known.items()}
    facts = {
        name: {
            "points": space.size,
            "sketches": len(space.sketches),
            "whole": space.facts["whole"],
            "best_seconds": space.best_seconds,
            "target": space.facts["target"],
            "device": space.facts["device"].get("name", ""),
            "features": space.facts["features"],
            "note": space.facts["note"],
        }
        for name, space in spaces.items()
    }
    if args.json:
        options.emit({"spaces": facts})
        return 0
    rows = [
        [name, str(f["points"]), str(f["sketches"]), f["target"], f["device"], f["note"]] for name, f in facts.items()
    ]
    print("\n".join(table(rows, ["space", "points", "sketches", "target", "device", "note"], right=(1, 2))))
    return 0


def _simulate(
    args: argparse.Namespace, names: list[str], spaces: dict[str, RecordedSpace], files: dict[str, Path]
) -> int:
    if args.model != "none":
        for space in spaces.values():
            check_features(space)
    if args.prime and args.model == "none":
        raise UsageError("no cost model could learn from it", asked=f"--prime {args.prime[0]}", legal="--model xgb")
    contenders = [Contender.parse(text, args.model) for text in args.strategy or ["random", DEFAULT]]
    primed = {"prime": tuple(args.prime), "prime_trials": args.prime_trials}
    contenders += [replace(c, **primed) for c in contenders if args.prime and c.strategy != "random"]
    begun = time.monotonic()
    runs = run_all(
        files, names, contenders, range(args.seeds), args.trials, args.batch or BATCH, args.processes or cpu_count(),
        _progress,
    )  # fmt: skip
    curves = [c for name in names for c in curves_of(spaces[name], runs, args.trials)]
    figures = compare(curves)
    facts = {
        "seeds": args.seeds,
        "trials": args.trials,
        "batch": args.batch or BATCH,
        "model": args.model,
        "spaces": {name: {"points": spaces[name].size, "best_seconds": spaces[name].best_seconds} for name in names},
        "elapsed_s": round(time.monotonic() - begun, 1),
    }
    _write(args.output, figures, curves, facts)
    if args.json:
        options.emit(as_json(figures, curves, facts))
    else:
        print("\n".join(report(figures, facts["elapsed_s"])))
    return 0


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {of} runs", end="\n" if done == of else "", file=sys.stderr, flush=True)


def _write(output: str | None, figures: list[Figures], curves: list[Curves], facts: dict[str, Any]) -> None:
    if output is None:
        return
    text = drawing(curves) if output.endswith(".svg") else json.dumps(as_json(figures, curves, facts), indent=1) + "\n"
    with named_file(f"simulate -o {output}"):
        write_whole(Path(output), lambda out: out.write(text.encode()))


def report(figures: list[Figures], elapsed_s: float) -> list[str]:
    """The table as text, a block for each space, and the mean over the spaces."""
    lines = []
    for space in dict.fromkeys(f.space for f in figures):
        of = [f for f in figures if f.space == space]
        header = ["strategy", *(f"to {near}" for near in of[0].trials_to), *(f"after {n}" for n in of[0].after)]
        rows = [
            [
                f.contender,
                *(count(int(n)) if n < 1e9 else "-" for n in f.trials_to.values()),
                *(f"{middle:.3f} [{low:.3f} {high:.3f}]" for low, middle, high in f.after.values()),
                f"{f.score:.3f}",
                "-" if f.beats_random is None else f"{f.beats_random:.0%}",
            ]
            for f in of
        ]
        lines += [f"{space}, {of[0].seeds} seeds:"]
        lines += [f"  {line}" for line in table(rows, [*header, "score", "beats random"], right=range(1, 9))] + [""]
    if len({f.space for f in figures}) > 1:
        rows = [[name, f"{value:.3f}"] for name, value in overall(figures).items()]
        lines += ["mean of all spaces:", *(f"  {line}" for line in table(rows, ["strategy", "score"], right=(1,))), ""]
    runs = sum(f.seeds for f in figures)
    return [*lines, f"{count(runs)} runs in {duration(elapsed_s)}"]
