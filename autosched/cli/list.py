"""List what can be named on the command line: workloads, strategies, cost models, targets and passes."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from autosched.cli import options

EXAMPLES = """\
examples:
  %(prog)s
  %(prog)s workloads --json
"""

Listing = dict[str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", choices=tuple(_LISTINGS), help="only these; default all")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    chosen = [args.what] if args.what else list(_LISTINGS)
    found = {what: _LISTINGS[what]() for what in chosen}
    if args.json:
        options.emit(found)
        return 0
    width = max((len(name) for listing in found.values() for name in listing), default=0)
    blocks = []
    for what, listing in found.items():
        lines = [f"  {name:{width}}  {about}".rstrip() for name, about in listing.items()] or ["  none"]
        blocks.append("\n".join([f"{what}:", *lines]))
    print("\n\n".join(blocks))
    return 0


def _workloads() -> Listing:
    from autosched.space.loading import find_workload, list_workloads

    found = {}
    for name, path in list_workloads().items():
        function = find_workload(name)
        about = (function.__doc__ or "").strip().partition("\n")[0]
        kinds = ", ".join(dict.fromkeys(t.target for t in function.templates)) or "no target"
        found[name] = f"{about}  [templates for {kinds}; {path}]".strip()
    return found


def _strategies() -> Listing:
    from autosched.search import strategy_names

    return strategy_names()


def _models() -> Listing:
    from autosched.model import model_names

    return model_names()


def _targets() -> Listing:
    from autosched.target import KINDS

    return {
        kind: f"{what}; options: {', '.join(f'-{name}= ({about})' for name, about in known.items())}"
        for kind, (what, known) in KINDS.items()
    }


def _passes() -> Listing:
    from autosched.lower.pipeline import CONCRETE, PASSES

    about = {name: (function.__doc__ or "").strip().partition("\n")[0] for name, function in CONCRETE}
    return {name: about.get(name, "Bounds, loop nests, guards and storage; knobs still open.") for name in PASSES}


_LISTINGS: dict[str, Callable[[], Listing]] = {
    "workloads": _workloads,
    "strategies": _strategies,
    "models": _models,
    "targets": _targets,
    "passes": _passes,
}
