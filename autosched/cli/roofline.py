"""`autosched roofline`: measure this machine's bandwidths and peaks, and print them."""

from __future__ import annotations

import argparse
import sys

from autosched.cli import options
from autosched.errors import TargetError
from autosched.measure.bandwidth import measure_roofline
from autosched.measure.roofline import Level, Roofline, cache_file, cached, store
from autosched.report.text import plural, table
from autosched.target import Target


def run(args: argparse.Namespace) -> int:
    target = Target.parse(args.target)
    if target.kind != "llvm":
        raise TargetError(
            f"rooflines are measured on CPUs, not on devices of {target.kind}",
            asked=f"roofline --target {target}",
            legal="--target llvm",
        )
    found = None if args.refresh else cached()
    if found is None:
        found = _measure()
    if args.json:
        options.emit({**found.to_json(), "file": str(cache_file())})
    else:
        print("\n".join(_lines(found)))
        print(f"\nkept in {cache_file()}")
    return 0


def _measure() -> Roofline:
    roofline = measure_roofline(lambda what: print(f"measuring with {what} ...", file=sys.stderr, flush=True))
    try:
        store(roofline)
    except OSError as error:
        print(f"warning: the roofline cannot be kept: {error}", file=sys.stderr)
    return roofline


def _lines(r: Roofline) -> list[str]:
    """The two tables: bandwidths with one thread and with all, peaks for every number of threads."""
    counts = sorted({1, max(r.levels[0].read)})
    header = ["GB/s", "measured in", *(f"{what}, {plural(t, 'thread')}" for t in counts for what in ("read", "copy"))]
    rows = [
        [x.name, _size(x), *(f"{rates[t] / 1e9:.1f}" for t in counts for rates in (x.read, x.copy))] for x in r.levels
    ]
    right = range(2, len(header))
    peaks = [[str(t), *(f"{r.fma[name][t] / 1e9:.0f}" for name in r.fma)] for t in sorted(r.fma["float32"])]
    return [
        f"{r.cpu}, {plural(r.cores, 'core')}, measured {r.measured}",
        "",
        *table(rows, header, right),
        "",
        *table(peaks, ["GFLOP/s, threads", *r.fma], right=range(3)),
    ]


def _size(level: Level) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if level.working_set >= unit:
            each = " a thread" if level.private else ""
            return f"{level.working_set / unit:.3g} {name}{each}"
    return f"{level.working_set} B"
