"""`autosched build`: compile a workload, save it, time a call."""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import autosched
from autosched.cli import options
from autosched.cli.show import provenance_line
from autosched.cli.workloads import choose_tunable, sizes_of
from autosched.codegen.artifact import Artifact
from autosched.errors import UsageError, WorkloadError, named_file, new_file
from autosched.front import build
from autosched.raw.kernel import RawKernel
from autosched.report.summary import Standing, standing
from autosched.report.text import duration, knobs, seconds
from autosched.runtime.module import Module
from autosched.space.workload import Workload


def run(args: argparse.Namespace) -> int:
    workload = choose_tunable(args)
    sizes = sizes_of(args, workload)
    file = Path(args.output or "").expanduser()
    if args.output is not None and (os.path.isdir(file) or not os.path.isdir(file.parent)):
        raise UsageError("it is no place for a file", asked=f"--output {file}", legal="a file in an existing folder")
    if args.output is not None:
        new_file(file, f"build -o {args.output}", args.force)
    if not isinstance(workload, Workload):
        return _build_kernel(args, workload)
    begun = time.perf_counter()
    folder = options.records_folder(args)
    module = build(workload, args.target, records=folder, sizes=sizes or None, effort=args.effort)
    build_s = time.perf_counter() - begun
    if args.output is not None:
        _save(module, Path(args.output).expanduser())
    measured = _time(module, workload, sizes or _sizes_of_record(module.provenance))
    near = standing(workload.args, module.target, measured["sizes"], measured["seconds"] or 0.0)
    measured["roofline"] = near.to_json() if isinstance(near, Standing) else None
    _tell(args, workload, module, build_s, measured, near)
    return 0


def _sizes_of_record(provenance: dict[str, Any]) -> dict[str, int]:
    """The sizes at which the record was measured, the largest of several."""
    served = [at for kernel in provenance.get("kernels", ()) for at in kernel["served"]]
    found: dict[str, int] = max(served, key=lambda at: math.prod(at.values()), default=provenance.get("sizes") or {})
    return found


def _build_kernel(args: argparse.Namespace, kernel: RawKernel) -> int:
    """Build a kernel that its user wrote."""
    begun = time.perf_counter()
    built = autosched.build_kernel(kernel, target=args.target, records=options.records_folder(args))
    build_s = time.perf_counter() - begun
    if args.output is not None:
        _save(built.artifact, Path(args.output).expanduser())
    samples = built.time(*kernel.arguments, number=10)
    took = statistics.median(samples)
    if args.json:
        data = {"workload": repr(kernel), "target": str(built.target), "params": built.params, "note": built.note}
        options.emit(data | {"build_s": build_s, "output": args.output, "seconds": took, "samples": samples})
        return 0
    print(f"{kernel!r} for {built.target}: {knobs(built.params)} ({built.note})")
    print(f"compiled in {duration(build_s)}; a call takes {seconds(took)}")
    if args.output is not None:
        print(f"saved to {args.output}")
    return 0


def _save(module: Module | Artifact, file: Path) -> None:
    with named_file(f"--output {file}"):
        module.save(file)


def _time(module: Module, workload: Workload, sizes: dict[str, int]) -> dict[str, Any]:
    """Seconds of a call on the workload's own inputs, or the reason why these cannot be made."""
    try:
        inputs = workload.sample_inputs(sizes or None)
    except WorkloadError as error:
        return {"seconds": None, "samples": [], "sizes": {}, "not_timed": str(error)}
    samples = module.time(*inputs)
    return {"seconds": statistics.median(samples), "samples": samples, "sizes": workload.sizes_of(inputs)}


def _tell(
    args: argparse.Namespace,
    workload: Workload,
    module: Module,
    build_s: float,
    measured: dict[str, Any],
    near: Standing | str,
) -> None:
    if args.json:
        data = {"workload": repr(workload), "target": str(module.target), "signature": str(module.signature)}
        options.emit(data | {"provenance": module.provenance, "build_s": build_s, "output": args.output} | measured)
        return
    at = knobs(measured["sizes"])
    call = (
        f"a call takes {seconds(measured['seconds'])}{f' at {at}' if at else ''}"
        if measured["samples"]
        else "not timed"
    )
    print(provenance_line(repr(workload), str(module.target), module.provenance))
    print(f"signature {module.signature}")
    known = f", {near}" if near and not isinstance(near, str) else ""
    print(f"compiled in {duration(build_s)}; {call}{known}")
    if isinstance(near, str) and near:
        print(f"note: {near}", file=sys.stderr)
    if "not_timed" in measured:
        print(f"note: {measured['not_timed']}", file=sys.stderr)
    if args.output is not None:
        print(f"saved to {args.output}")
