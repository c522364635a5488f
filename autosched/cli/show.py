"""`autosched show`: the schedule, loops, source or assembly of what `build` would compile."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from autosched.building import plan, search_space
from autosched.cli import options
from autosched.cli.arguments import LOOPS_AFTER
from autosched.cli.records import summarise
from autosched.cli.workloads import choose_workload, sizes_of
from autosched.codegen.asm import marked
from autosched.errors import UsageError
from autosched.ir.printer import format_function
from autosched.lowering.pipeline import PASS_RUNNER, Pass, Program
from autosched.planning import Plan
from autosched.records import find_files, find_folders, misses, read_files, read_workload
from autosched.report.summary import Standing, standing
from autosched.report.text import knobs, plural, seconds, valid_of
from autosched.runtime.device import describe_device, resolve_target
from autosched.space.workload import Workload
from autosched.target import Target


def run(args: argparse.Namespace) -> int:
    what = args.what or ("loops" if args.after is not None else "schedule")
    workload = choose_workload(args)
    sizes = sizes_of(args, workload) or None
    if what == "records":
        return _records(args, workload)
    if what == "why":
        return _why(args, workload, sizes)
    if what == "space":
        return _space(args, workload, sizes)
    chosen = plan(workload, args.target, records=options.records_folder(args), sizes=sizes)
    content, more = _assembly(chosen, what) if what in ("asm", "hot") else (_text(chosen, what, args.after), {})
    if args.json:
        options.emit({"workload": repr(workload), "target": str(chosen.target), "what": what, "text": content}
                     | {"after": args.after, "provenance": chosen.provenance} | more)  # fmt: skip
        return 0
    line = provenance_line(repr(workload), str(chosen.target), chosen.provenance)
    print(line + _standing(chosen), file=sys.stderr)
    print(content.rstrip("\n"))
    return 0


def _standing(chosen: Plan) -> str:
    """The record's fraction of the roofline, if it was measured on this machine."""
    p = chosen.provenance
    if p["kind"] != "record" or p["device"] != describe_device(chosen.target)["name"]:
        return ""
    near = standing(chosen.args, chosen.target, p["sizes"], p["seconds"])
    return f"; {near}" if isinstance(near, Standing) else ""


def _text(chosen: Plan, what: str, after: str | None) -> str:
    if what == "schedule":
        versions = [*chosen.versions, ("all other sizes", chosen)]
        texts = [(f"# for {sizes!s}\n", p.schedule.trace.as_python(knobs=p.knobs)) for sizes, p in versions]
        return "\n".join(head + text for head, text in texts) if chosen.versions else texts[0][1]
    if what == "loops":
        return format_function(chosen.after(after or LOOPS_AFTER))
    if what == "passes":
        return _passes(chosen)
    if what == "llvm":
        _check_cpu(chosen, what)
    return chosen.compile().get_source(what)


def _passes(chosen: Plan) -> str:
    """The time of each pass between loops and code generation."""
    times: list[tuple[str, float]] = []

    def timed(p: Program, name: str, run: Pass) -> Program:
        begin = time.perf_counter()
        after = run(p)
        times.append((name, time.perf_counter() - begin))
        return after

    token = PASS_RUNNER.set(timed)
    try:
        chosen.lowered()
    finally:
        PASS_RUNNER.reset(token)
    whole = sum(seconds for _, seconds in times)
    return "".join(f"{name}: {seconds * 1e6:.0f}us ({seconds / whole:.1%})\n" for name, seconds in times)


def _assembly(chosen: Plan, what: str) -> tuple[str, dict[str, Any]]:
    """The assembly with its hot loop marked, or that loop alone; and the loop as data."""
    _check_cpu(chosen, what)
    module = chosen.compile()
    hot = module.hot_loop()
    text = marked(module.assembly, module.artifact.machine, alone=what == "hot")
    return text, {"hot_loop": None if hot is None else hot.to_json()}


def _space(args: argparse.Namespace, workload: Workload, sizes: dict[str, int] | None) -> int:
    """The sketches that `tune` would search, and how many valid points each has."""
    space = search_space(workload, args.target, sizes=sizes)
    found = [(s, s.valid_points) for s in space.sketches]
    counted = [(s.name, v.count if v.exact else None, s.size, s.failure) for s, v in found]
    known = [valid for _, valid, _, _ in counted if valid is not None]
    valid = sum(known) if len(known) == len(counted) else None
    if args.json:
        options.emit(
            {"workload": repr(workload), "target": str(space.target), "points": space.size, "valid": valid}
            | {"sketches": [{"name": n, "points": p, "valid": v, "failure": why} for n, v, p, why in counted]}
            | {"untraced": space.untraced}
        )
        return 0
    width = max(len(name) for name, *_ in counted)
    for name, some, points, why in counted:
        print(f"{name:{width}}  {valid_of(some, points)}{f': {why}' if why else ''}")
    for name, why in space.untraced.items():
        print(f"{name:{width}}  left out: {' '.join(why.split())}")
    if len(counted) > 1:
        print(f"{'in all':{width}}  {valid_of(valid, space.size)}")
    return 0


def _check_cpu(chosen: Plan, what: str) -> None:
    if chosen.target.is_gpu_style:
        raise UsageError(
            f"{chosen.target.kind} has none: the device's driver makes it",
            asked=f"show --{what}",
            legal="--source prints what the driver is given",
        )


def _records(args: argparse.Namespace, workload: Workload) -> int:
    contents = read_workload(workload.name, Target.parse(args.target).kind, options.records_folder(args))
    return summarise(contents, as_json=args.json, key=workload.key)


def _why(args: argparse.Namespace, workload: Workload, sizes: dict[str, int] | None) -> int:
    """Why records apply or do not, the nearest first."""
    to = resolve_target(args.target)
    device, folder = describe_device(to)["name"], options.records_folder(args)
    files = find_files(workload.name, None, folder)
    asked = {"args": workload.describe_args(), "key": workload.key, "target_kind": to.kind, "device": device}
    found = misses(read_files(files).records, **asked, sizes=sizes)
    chosen = plan(workload, to, records=folder, sizes=sizes)
    if args.json:
        rows = [{"records": m.count, "fastest": m.fastest.id, "reasons": list(m.reasons)} for m in found]
        options.emit({"workload": repr(workload), "target": str(to), "provenance": chosen.provenance, "groups": rows})
        return 0
    print(provenance_line(repr(workload), str(chosen.target), chosen.provenance))
    if not found:
        where = ", ".join(map(str, find_folders(folder))) or "no folder"
        print(f"there is no record of the name {workload.name!r} (looked in {where})")
    for m in found:
        head = f"{plural(m.count, 'record')}, fastest {seconds(m.fastest.seconds)} ({m.fastest.id})"
        print(f"{head}: {'; '.join(m.reasons) or 'nothing is in the way'}")
    return 0


def provenance_line(workload: str, target: str, provenance: dict[str, Any]) -> str:
    """The origin of a schedule in one line; of several for different sizes, in a line each."""
    head = f"{workload} for {target}: "
    note = provenance.get("note") or ""
    if provenance.get("kind") == "family":
        return "\n".join([head + note, *(f"  {k['when']}: {_record(k)}" for k in provenance["kernels"])])
    if provenance.get("kind") not in ("record", "predicted"):
        return head + (note or str(provenance.get("kind")))
    short = [f"  {k['when']}: {_choice(k)}" for k in provenance.get("versions", ())]
    return "\n".join([head + _record(provenance) + (f"; {note}" if note else ""), *short])


def _record(provenance: dict[str, Any]) -> str:
    at = knobs(provenance.get("sizes", {}))
    expected = "when measured" if provenance["kind"] == "record" else "expected"
    at = f" at {at}" if at and "served" in provenance else ""
    source = f"record {provenance['record']}, " if provenance["record"] else ""
    return f"{source}{_choice(provenance)}, {seconds(provenance['seconds'])} {expected}{at}"


def _choice(provenance: dict[str, Any]) -> str:
    values = knobs(provenance["knobs"])
    return f"{provenance['sketch']}{f' at {values}' if values else ''}"
