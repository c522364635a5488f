"""`autosched sketch`: what tuning searches, as templates to read and change."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from autosched.building import search_space
from autosched.cli import options
from autosched.cli.workloads import choose_workload, sizes_of
from autosched.errors import UsageError
from autosched.report.text import plural, table
from autosched.schedule.trace import Trace
from autosched.space.space import SearchSpace, Sketch


def run(args: argparse.Namespace) -> int:
    workload = choose_workload(args)
    sizes = sizes_of(args, workload) or None
    space = search_space(workload, args.target, sizes=sizes, space=args.space, rules=args.rule)
    if args.only is not None and args.only > len(space.sketches):
        legal = f"sketches: 1 to {len(space.sketches)}"
        raise UsageError(f"there is no sketch {args.only}", asked=f"sketch --only {args.only}", legal=legal)
    numbers = range(len(space.sketches)) if args.only is None else [args.only - 1]
    shown = replace(space, sketches=tuple(space.sketches[i] for i in numbers))
    if args.json:
        options.emit({
            "workload": repr(space.workload),
            "target": str(space.target),
            "stages": [{"stage": s, "rule": by, "why": why, "sketches": n} for s, by, why, n in shown.remarks],
            "left_out": dict(space.untraced),
            "sketches": [_facts(space, i) for i in numbers],
        })  # fmt: skip
    elif args.names:
        print("\n".join([*(f"{i + 1:4}  {space.sketches[i].name}" for i in numbers), *_account(shown)]))
    else:
        account = "\n".join(f"# {line}".rstrip() for line in _account(shown)[1:])
        print("\n\n".join([*([account] if account else []), *(_as_template(space, i) for i in numbers)]))
    return 0


def _account(space: SearchSpace) -> list[str]:
    """An empty line, and what settled each stage; combinations that the schedule refused, and why."""
    rows = [[stage, by, str(count), why] for stage, by, why, count in space.remarks]
    lines = table(rows, ["stage", "rule", "sketches", "why"], right=(2,)) if rows else []
    lines += [f"left out: {name}: {' '.join(why.split())}" for name, why in space.untraced.items()]
    return ["", *lines] if lines else []


def _facts(space: SearchSpace, i: int) -> dict[str, Any]:
    sketch = space.sketches[i]
    return {
        "number": i + 1,
        "name": sketch.name,
        "points": sketch.valid_points.count,
        "failure": sketch.failure,
        "knobs": {k.name: list(k.values) for k in sketch.knobs},
        "stages": {stage: by for stage, by, _ in sketch.remarks},
        "python": _source(sketch, f"sketch_{i + 1}"),
        "trace": sketch.trace,
    }


def _source(sketch: Sketch, name: str) -> str:
    return Trace.from_json(sketch.trace).as_python(name)


def _as_template(space: SearchSpace, i: int) -> str:
    """`@template` over the function, and in a comment which decisions led to it."""
    sketch = space.sketches[i]
    of = space.workload.function.__name__ if space.workload.function is not None else space.workload.name
    points = sketch.failure or plural(sketch.valid_points.count, "point")
    head = f"# sketch {i + 1} of {len(space.sketches)}, {points}: {sketch.name}"
    decorator = f'@template({of}, target="{space.target.kind}")'
    return f"{head}\n{decorator}\n{_source(sketch, f'sketch_{i + 1}')}".rstrip()
