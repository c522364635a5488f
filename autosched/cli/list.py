"""List what can be named on the command line: workloads, strategies, cost models, targets and passes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from autosched.cli import options

EXAMPLES = """\
examples:
  %(prog)s
  %(prog)s workloads --json
"""

#: name -> facts about it
Listing = dict[str, dict[str, Any]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", choices=tuple(_LISTINGS), help="only these; default all")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    chosen = [args.what] if args.what else [*_LISTINGS]
    found = {what: _LISTINGS[what]() for what in chosen}
    if args.json:
        options.emit(found)
    else:
        print("\n\n".join("\n".join([f"{what}:", *_lines(listing)]) for what, listing in found.items()))
    return 0


def _lines(listing: Listing) -> list[str]:
    width = max(map(len, listing), default=0)
    lines = []
    for name, facts in listing.items():
        lines.append(f"  {name:{width}}  {facts['about']}".rstrip())
        details = [f"{key}: {_spell(value)}" for key, value in facts.items() if key != "about" and value]
        lines += [f"  {'':{width}}    {detail}" for detail in details]
    return lines or ["  none"]


def _spell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k}={v}" for k, v in value.items())
    return ", ".join(value) if isinstance(value, (list, tuple)) else str(value)


def _workloads() -> Listing:
    from autosched.raw.kernel import RawKernelFunction
    from autosched.space.loading import find_workload, list_workloads
    from autosched.target import KINDS, Target

    found: Listing = {}
    for name, path in list_workloads().items():
        function = find_workload(name)
        found[name] = {
            "about": _first_line(function.__doc__),
            "parameters": function.parameters,
            "templates for": [k for k in KINDS if any(t.fits(Target(k)) for t in function.templates)],
            "kernel": "source by hand" if isinstance(function, RawKernelFunction) else "",
            "file": str(path),
        }
    return found


def _strategies() -> Listing:
    from autosched.search import strategy_names

    return {name: {"about": origin} for name, origin in strategy_names().items()}


def _models() -> Listing:
    from autosched.model import model_names

    return {name: {"about": origin} for name, origin in model_names().items()}


def _targets() -> Listing:
    from autosched.target import KINDS

    return {
        name: {"about": kind.what, **{f"-{option}": o.meaning for option, o in kind.options.items()}}
        for name, kind in KINDS.items()
    }


def _passes() -> Listing:
    from autosched.lower.pipeline import CONCRETE, PASSES

    about = {name: _first_line(function.__doc__) for name, function in CONCRETE}
    return {
        name: {"about": about.get(name, "Bounds, loop nests, guards and storage, with open knobs.")} for name in PASSES
    }


def _first_line(doc: str | None) -> str:
    return (doc or "").strip().partition("\n")[0]


_LISTINGS: dict[str, Callable[[], Listing]] = {
    "workloads": _workloads,
    "strategies": _strategies,
    "models": _models,
    "targets": _targets,
    "passes": _passes,
}
