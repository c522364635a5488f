"""`autosched list`: what can be named on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from autosched.cli import options
from autosched.errors import AutoschedError
from autosched.lowering.pipeline import CONCRETE, PASSES
from autosched.model import model_names
from autosched.raw.kernel import RawKernelFunction
from autosched.report.text import plural, valid_of
from autosched.search import strategy_names
from autosched.space.loading import all_workloads
from autosched.space.rules import cpu_rules, gpu_rules, rule_names
from autosched.space.space import template_space
from autosched.space.workload import Template, Workload, WorkloadFunction
from autosched.target import KINDS, Target

#: name -> facts about it
Listing = dict[str, dict[str, Any]]


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
        sentences = any(isinstance(v, str) and " " in v for v in value.values())
        between, of = ("; ", " ") if sentences else (", ", "=")
        return between.join(f"{k}{of}{v}" for k, v in value.items())
    return ", ".join(value) if isinstance(value, (list, tuple)) else str(value)


def _workloads() -> Listing:
    return {
        name: {
            "about": _first_line(function.__doc__),
            "parameters": function.parameters,
            "templates for": [k for k in KINDS if any(t.fits(Target(k)) for t in function.templates)],
            "points": {} if isinstance(function, RawKernelFunction) else _points(function),
            "kernel": "source by hand" if isinstance(function, RawKernelFunction) else "",
            "file": str(path),
        }
        for name, (path, function) in all_workloads().items()
    }


def _points(function: WorkloadFunction[...]) -> dict[str, str]:
    """The sketches and points of the templates for each kind of target, at the workload's own parameters and sizes.

    Nothing is lowered, which would take seconds for all workloads, so the number of points is an upper bound of the
    valid ones; `show --space` counts them.
    """
    found: dict[str, str] = {}
    known: dict[tuple[Template, ...], str] = {}  # of templates that make the same for all targets
    workload: Workload | None = None
    for kind in KINDS:
        templates = tuple(t for t in function.templates if t.fits(Target(kind)))
        if templates in known:
            found[kind] = known[templates]
        if not templates or templates in known:
            continue
        try:
            if workload is None:
                workload = function()
                sizes = workload.usual_sizes()
                if sizes.keys() != set(workload.size_names()):
                    sizes = workload.sizes_of(workload.sample_inputs())
            space = template_space(workload, Target(kind), sizes, templates)
        except AutoschedError as error:  # sizes that are asked for, a template that does not work here
            workload, found[kind] = None, f"none: {error.why}"
            continue
        most = sum(s.most_points for s in space.sketches)
        points = plural(most, "point") if most == space.size else f"at most {valid_of(most, space.size)}"
        found[kind] = f"{plural(len(space.sketches), 'sketch')} with {points}"
        if not any(t.wants_target for t in templates):
            known[templates] = found[kind]
    return found


def _rules() -> Listing:
    """The built-in rules, whose names `sketch` prints, and those of plug-ins, which `--rule` takes."""
    found: Listing = {}
    for what, rules in (("loops on CPUs", cpu_rules()), ("kernels", gpu_rules())):
        for r in rules:
            found.setdefault(r.name, {"about": r.about, "for": []})["for"].append(what)
    return {**found, **{name: {"about": origin} for name, origin in rule_names().items() if name not in found}}


def _targets() -> Listing:
    return {
        name: {"about": kind.what, **{f"-{option}": o.meaning for option, o in kind.options.items()}}
        for name, kind in KINDS.items()
    }


def _passes() -> Listing:
    about = {name: _first_line(function.__doc__) for name, function in CONCRETE}
    return {
        name: {"about": about.get(name, "Bounds, loop nests, guards and storage, with open knobs.")} for name in PASSES
    }


def _first_line(doc: str | None) -> str:
    return (doc or "").strip().partition("\n")[0]


_LISTINGS: dict[str, Callable[[], Listing]] = {
    "workloads": _workloads,
    "strategies": lambda: {name: {"about": origin} for name, origin in strategy_names().items()},
    "models": lambda: {name: {"about": origin} for name, origin in model_names().items()},
    "rules": _rules,
    "targets": _targets,
    "passes": _passes,
}
