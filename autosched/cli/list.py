"""`autosched list`: what can be named on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from autosched import model, search
from autosched.cli import options
from autosched.errors import AutoschedError, UsageError, did_you_mean
from autosched.lowering.pipeline import CONCRETE, PASSES
from autosched.plugins import PluginKind, load_class, option_defaults, plugin_names
from autosched.raw.kernel import RawKernelFunction
from autosched.report.text import plural, valid_of
from autosched.space.loading import all_workloads
from autosched.space.rules import cpu_rules, gpu_rules, rule_names
from autosched.space.space import template_space
from autosched.space.workload import Template, Workload, WorkloadFunction
from autosched.target import KINDS, Target

#: name -> facts about it; what takes time is a function
Listing = dict[str, dict[str, Any]]


def run(args: argparse.Namespace) -> int:
    is_kind = args.what in (None, *_LISTINGS)
    chosen = [args.what] if args.what and is_kind else [*_LISTINGS]
    found = {what: _LISTINGS[what]() for what in chosen}
    if not is_kind:
        found = _of_name(found, args.what)
    if args.json or not is_kind:
        for listing in found.values():
            for name, facts in listing.items():
                listing[name] = {key: value() if callable(value) else value for key, value in facts.items()}
    if args.json:
        options.emit(found)
    else:
        lines = _lines if is_kind else _details
        print("\n\n".join("\n".join([f"{what}:", *lines(listing)]) for what, listing in found.items()))
    return 0


def _of_name(found: dict[str, Listing], name: str) -> dict[str, Listing]:
    """What has this name. Raises UsageError for a name that nothing has."""
    if having := {what: {name: listing[name]} for what, listing in found.items() if name in listing}:
        return having
    names = [*_LISTINGS, *(name for listing in found.values() for name in listing)]
    legal = f"{', '.join(_LISTINGS)}, or a name that one of them shows"
    raise UsageError("nothing has that name", asked=f"list {name}", legal=did_you_mean(name, names) + legal)


def _lines(listing: Listing) -> list[str]:
    width = max(map(len, listing), default=0)
    return [f"  {name:{width}}  {facts['about']}".rstrip() for name, facts in listing.items()] or ["  none"]


def _details(listing: Listing) -> list[str]:
    lines = []
    for name, facts in listing.items():
        lines += [f"  {name}", f"    {facts['about']}"]
        lines += [f"    {key}: {_spell(value)}" for key, value in facts.items() if key != "about" and value]
    return lines


def _spell(value: Any) -> str:
    if isinstance(value, dict):
        sentences = any(isinstance(v, str) and " " in v for v in value.values())
        between, of = ("; ", " ") if sentences else (", ", "=")
        return between.join(f"{k}{of}{v}" for k, v in value.items())
    return ", ".join(value) if isinstance(value, (list, tuple)) else str(value)


def _workloads() -> Listing:
    return {
        name: {
            "about": _sentence(function.__doc__),
            "parameters": function.parameters,
            "templates for": [k for k in KINDS if any(t.fits(Target(k)) for t in function.templates)],
            "points": {} if isinstance(function, RawKernelFunction) else partial(_points, function),
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
    about = {name: _sentence(function.__doc__) for name, function in CONCRETE}
    return {
        name: {"about": about.get(name, "Bounds, loop nests, guards and storage, with open knobs.")} for name in PASSES
    }


def _plugins(kind: PluginKind) -> Listing:
    """Strategies or models: a sentence, and the options of those of ours; plug-ins are not loaded."""
    return {
        name: _facts_of(kind, name) if name in kind.builtins else {"about": origin}
        for name, origin in plugin_names(kind).items()
    }


def _facts_of(kind: PluginKind, name: str) -> dict[str, Any]:
    made_by = load_class(kind, name)
    given = ("seed", "model", "threads")  # by the search itself
    taken = {option: default for option, default in (option_defaults(made_by) or {}).items() if option not in given}
    return {"about": _sentence(made_by.__doc__), "options": taken}


def _sentence(doc: str | None) -> str:
    """The first sentence of a docstring."""
    paragraph = " ".join((doc or "").strip().partition("\n\n")[0].split())
    return paragraph if ". " not in paragraph else paragraph.partition(". ")[0] + "."


_LISTINGS: dict[str, Callable[[], Listing]] = {
    "workloads": _workloads,
    "strategies": partial(_plugins, search.KIND),
    "models": partial(_plugins, model.KIND),
    "rules": _rules,
    "targets": _targets,
    "passes": _passes,
}
