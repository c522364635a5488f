"""Measure every feasible point of a small search space, and check the space in for `simulate`.

    python experiments/record_space.py softmax
    python experiments/record_space.py matmul --param m=512 --param n=512 --param k=512 --where lanes=16
    python experiments/record_space.py box_blur --seconds 60       # a piece; run it again for the rest
    python experiments/record_space.py box_blur --again 1.5        # once more what is close to the best
    python experiments/record_space.py box_blur --write            # records/simulated/box_blur.json.gz

Points are measured in random order, so that what drifts on the machine is not mistaken for a knob.
Each becomes an ordinary record in `--log`, and points with a record there are passed over: a run that
was ended goes on. A second pass (`--again 1.5`: what took at most 1.5 times the best) gives samples of
another moment; `--write`, on the same machine, puts the samples of all passes together, with the features
of each point.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from autosched.measure import Job, MeasureOptions, Measurer
from autosched.records import Record, RecordLog, new_id
from autosched.runtime.device import describe_device, resolve_target, versions, with_machine
from autosched.search import Candidate
from autosched.search.baselines import lexicographic
from autosched.search.points import feasible
from autosched.simulate.recorded import FOLDER, SUFFIX
from autosched.simulate.recording import from_records, write
from autosched.space.loading import find_workload
from autosched.space.space import SearchSpace, template_space
from autosched.space.workload import Workload

BATCH = 16

#: a point by its sketch's name and its knobs
Label = tuple[str, tuple[tuple[str, int], ...]]


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", help="a name, or file.py:function")
    parser.add_argument("--name", help="of the recorded space; default: the workload's, with its numbers")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--param", action="append", default=[], metavar="K=V", help="parameter of the workload")
    parser.add_argument("--size", action="append", default=[], metavar="K=N", help="size variable")
    parser.add_argument("--sketch", action="append", default=[], metavar="PATTERN", help="only these sketches")
    parser.add_argument("--where", action="append", default=[], metavar="KNOB=V,V", help="only these values")
    parser.add_argument("--points", type=int, help="a random part of so many points")
    parser.add_argument("--again", type=float, metavar="RATIO", help="measure again what took RATIO x the best")
    parser.add_argument("--passes", type=int, default=2, help="with --again: until it was measured so many times")
    parser.add_argument("--repeat", type=int, default=3, help="samples of a measurement")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--log", type=Path, default=Path("records/exhaustive"), help="folder of the measurements")
    parser.add_argument("--write", metavar="FOLDER", nargs="?", type=Path, const=Path("records") / FOLDER)
    parser.add_argument("--note", default="", help="with --write: what a reader should know")
    return parser.parse_args(words)


def chosen(space: SearchSpace, args: argparse.Namespace) -> list[Candidate]:
    """The feasible points that are asked for, in random order."""
    allowed = {name: {int(v) for v in values.split(",")} for name, _, values in (w.partition("=") for w in args.where)}
    found = []
    for number, sketch in enumerate(space.sketches):
        if args.sketch and not any(fnmatch.fnmatchcase(sketch.name, pattern) for pattern in args.sketch):
            continue
        for rows in lexicographic([len(knob.values) for knob in sketch.knobs]):
            for row in map(tuple, feasible(sketch, rows).tolist()):
                values = sketch.values(row)
                if all(values[name] in some for name, some in allowed.items() if name in values):
                    found.append(Candidate(number, row))
    order = np.random.default_rng(0).permutation(len(found))[: args.points]
    return [found[i] for i in order]


def left(
    space: SearchSpace, points: list[Candidate], records: list[Record], again: float | None, passes: int
) -> list[Candidate]:
    """Those of the points that are yet to be measured: at all, or `passes` times if they may be among the best."""
    done: Counter[Label] = Counter()
    fastest: dict[Label, float] = {}
    for r in records:
        label = (r.sketch, tuple(sorted(r.knobs.items())))
        done[label] += 1
        fastest[label] = min(fastest.get(label, float("inf")), *r.samples, float("inf"))
    limit = (again or 0) * min(fastest.values(), default=0.0)
    found = []
    for c in points:
        sketch = space.sketches[c.sketch]
        label = (sketch.name, tuple(sorted(sketch.values(c.indices).items())))
        if not done[label] or (done[label] < passes and fastest[label] <= limit):
            found.append(c)
    return found


def measured(
    w: Workload, space: SearchSpace, sizes: dict[str, int], points: list[Candidate], args: argparse.Namespace
) -> Iterator[Record]:
    """A record for each point, until the time is over."""
    inputs = w.sample_inputs(sizes or None)
    sizes, run, device, made = w.sizes_of(inputs), new_id(), describe_device(space.target), versions()
    traces = {s.name: s.trace for s in space.sketches}
    params = {k: v if isinstance(v, (str, int, float, bool)) else repr(v) for k, v in w.params.items()}
    of = {"name": w.name, "key": w.key, "params": params, "args": w.describe_args(), "sizes": sizes}
    begun, trial = time.monotonic(), 0
    options = MeasureOptions(repeat=args.repeat, imports=w.files)
    with Measurer(w.graph, space.target, traces, inputs, w.reference(inputs), options) as measurer:
        for start in range(0, len(points), BATCH):
            if time.monotonic() - begun > args.seconds:
                return
            batch = points[start : start + BATCH]
            jobs = [
                Job(i, space.sketches[c.sketch].name, space.sketches[c.sketch].values(c.indices), patience=6.0)
                for i, c in enumerate(batch)
            ]
            for m in measurer.measure(jobs):
                trial += 1
                yield Record(
                    workload=of,
                    target=str(space.target),
                    device=device,
                    versions=made,
                    sketch=m.job.sketch,
                    trace=traces[m.job.sketch],
                    knobs=m.job.knobs,
                    status=m.status,
                    samples=m.samples,
                    error=m.error,
                    build_s=m.build_s,
                    verified=m.verified,
                    strategy="exhaustive",
                    trial=trial,
                    run=run,
                )


def main() -> None:
    args = parse()
    function = find_workload(args.workload)
    params = {k: type(function.parameters[k])(v) for k, _, v in (p.partition("=") for p in args.param)}
    w = function(**params)
    sizes = w.sizes_of(w.sample_inputs({k: int(v) for k, _, v in (s.partition("=") for s in args.size)} or None))
    target = resolve_target(args.target)
    space = template_space(w, target, sizes)
    name = args.name or "-".join([w.name, *(str(v) for v in params.values())])
    log = RecordLog(args.log / f"{name}.{target.kind}.jsonl")
    records = list(log.read().records) if log.path.exists() else []
    if args.write is not None:
        recorded = from_records(name, records, args.note, with_machine(target).limits)
        write(recorded, args.write / f"{name}{SUFFIX}")
        whole = "every feasible point" if recorded.facts["whole"] else "a part"
        print(f"{recorded}: {whole}, best {recorded.best_seconds:.3g} s, in {args.write}")
        return
    points = chosen(space, args)
    todo = left(space, points, records, args.again, args.passes)
    print(f"{name}: {len(points)} points, {len(todo)} to measure", flush=True)
    begun, done = time.monotonic(), 0
    for record in measured(w, space, sizes, todo, args) if todo else ():
        log.append(record)
        done += 1
    print(f"{name}: {done} measured in {time.monotonic() - begun:.0f} s, {len(todo) - done} left in {log.path}")


if __name__ == "__main__":
    main()
