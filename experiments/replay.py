"""What the compiler makes of several hundred candidates, kept to compare with after a change.

    python experiments/replay.py keep                # before the change
    python experiments/replay.py compare             # after it: what differs from what was kept last
    python experiments/replay.py compare --show 3    # with the texts of the first three differences
    python experiments/replay.py keep --name main --only softmax --only matmul

Candidates: every workload of `search_spaces/` on llvm, c, opencl and cuda, with its default schedule, points of each of
its templates and of a fixed sample of generated sketches; and random programs with random schedules, which use every
primitive. Of each the lowered text, the generated code and the features. Targets name their machine, so that two
machines make the same. A change that is meant to change nothing leaves all as it was; `compare` exits with 1 otherwise.

Files go to the user's cache folder, `replay/NAME.json.gz`.
"""

from __future__ import annotations

import argparse
import difflib
import gzip
import json
import os
import random
import subprocess
import sys
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from autosched.codegen import compile_function
from autosched.ir.stmt import Function
from autosched.lowering.pipeline import Structure, lower_structure
from autosched.places import cache_folder, write_whole
from autosched.schedule.schedule import replay
from autosched.space import features
from autosched.space.loading import find_workload, list_workloads
from autosched.space.space import Sketch
from autosched.target import Target
from autosched.te.tensor import PlaceholderOp
from autosched.testing.case import Case

ROOT = Path(__file__).resolve().parents[1]

#: with a machine of their own: what is made must not depend on the one that runs this
TARGETS = {
    "llvm": Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=8"),
    "c": Target("c -num-cores=8"),
    "opencl": Target("opencl"),
    "cuda": Target("cuda"),
}
SKETCHES, POINTS, TRIES = 3, 2, 200
RANDOM = 240

#: of one candidate: its lowered text, code, features, or the error instead of them
Made = dict[str, str]


def candidates(name: str, kind: str) -> Iterator[tuple[str, Made]]:
    """Those of a workload on one target."""
    work, target = find_workload(name, ROOT / "search_spaces")(), TARGETS[kind]
    trace, _ = work.defaults(target, None)
    outputs = [t for t in work.args if not isinstance(t.op, PlaceholderOp)]
    yield f"{name}/{kind}/default", made(lambda: lower_structure(replay(trace, outputs), work.args, target, name), {})
    for origin in ("template", "auto"):
        own = [t for t in work.templates if t.fits(target)]
        if origin == "template" and not own:
            continue
        space = work.search_space(target, work.usual_sizes(), "" if origin == "template" else "auto")
        for at, sketch in enumerate(_sample(space.sketches) if origin == "auto" else space.sketches):
            for number, point in enumerate(points(sketch)):
                yield f"{name}/{kind}/{origin}/{at}/{number}", made(partial(getattr, sketch, "structure"), point)


def _sample(sketches: Sequence[Sketch]) -> list[Sketch]:
    return random.Random(0).sample(list(sketches), min(SKETCHES, len(sketches)))


def points(sketch: Sketch) -> list[dict[str, int]]:
    """Feasible ones, drawn with a fixed seed; without knobs the only one. A sketch that fails to lower has one, too."""
    if not sketch.knobs:
        return [{}]
    rng = np.random.default_rng(0)
    tries = np.stack([rng.integers(0, len(k.values), TRIES) for k in sketch.knobs], axis=1)
    return [sketch.values(row) for row in tries[sketch.mask(tries)][:POINTS]] or [sketch.values(tries[0])]


def programs(seeds: range) -> Iterator[tuple[str, Made]]:
    """Random programs with random schedules, one backend after the other."""
    kinds = {"llvm": "llvm", "c": "c", "opencl": "opencl", "kernels": "cuda"}
    for seed in seeds:
        backend = list(kinds)[seed % len(kinds)]
        case = Case.draw(seed, backend)
        program = case.program
        outputs = [t for t in program.args if not isinstance(t.op, PlaceholderOp)]
        lower = partial(lower_structure, replay(case.trace, outputs), program.args, TARGETS[kinds[backend]], "random")
        yield f"random/{seed}/{kinds[backend]}", made(lower, case.knobs)


def made(lower: Any, knobs: dict[str, int]) -> Made:
    """What the compiler makes of one candidate."""
    try:
        structure: Structure = lower()
        function: Function = structure.bind(knobs)
        code = compile_function(function, structure.target, lambda identity: True).texts["source"]
        columns = features.extract(structure).columns
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"lowered": str(function), "code": code, "features": "\n".join(map(repr, columns))}


def _job(job: tuple[str, str] | range) -> dict[str, Made]:
    return dict(programs(job) if isinstance(job, range) else candidates(*job))


def everything(only: Sequence[str]) -> dict[str, Made]:
    """All candidates, or those of some workloads; `random` is one of these."""
    names = [n for n in list_workloads(ROOT / "search_spaces") if not only or n in only]
    jobs: list[Any] = [(name, kind) for name in names for kind in TARGETS]
    jobs += [range(at, at + 20) for at in range(0, RANDOM, 20)] if not only or "random" in only else []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return {key: found for part in pool.map(_job, jobs) for key, found in part.items()}


def keep(found: dict[str, Made], file: Path) -> None:
    data = gzip.compress(json.dumps(found, sort_keys=True).encode(), 5)
    write_whole(file, lambda out: out.write(data))
    lines = sum(text.count("\n") for texts in found.values() for text in texts.values())
    errors = sum("error" in texts for texts in found.values())
    checksum = zlib.crc32(json.dumps(found, sort_keys=True).encode())
    print(f"{len(found)} candidates ({errors} with an error), {lines:,} lines, checksum {checksum:08x}: {file}")


def compare(before: dict[str, Made], after: dict[str, Made], show: int, only: Sequence[str]) -> int:
    """Print what differs. The exit status."""
    if only:
        before = {key: found for key, found in before.items() if key.split("/")[0] in only}
    changed = [key for key in before.keys() & after.keys() if before[key] != after[key]]
    for word, keys in (("no longer there", before.keys() - after.keys()), ("new", after.keys() - before.keys())):
        if keys:
            print(f"{len(keys)} {word}: {', '.join(sorted(keys)[:8])}{' ...' if len(keys) > 8 else ''}")
    for number, key in enumerate(sorted(changed)):
        old, new = before[key], after[key]
        fields = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
        print(f"{key}: {', '.join(fields)}")
        for name in fields if number < show else ():
            was, now = old.get(name, "").splitlines(), new.get(name, "").splitlines()
            print("\n".join(list(difflib.unified_diff(was, now, "before", "after", lineterm="", n=1))[:60]))
    print(f"{len(changed)} of {len(before)} candidates changed")
    return int(bool(changed) or before.keys() != after.keys())


def _kept(folder: Path, name: str) -> Path:
    files = [folder / f"{name}.json.gz"] if name else sorted(folder.glob("*.json.gz"), key=lambda f: f.stat().st_mtime)
    if not files or not files[-1].exists():
        raise SystemExit(f"compare: nothing was kept in {folder} as {name or 'any name'}; `replay.py keep` comes first")
    return files[-1]


def main() -> int:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("what", choices=("keep", "compare"))
    parser.add_argument("--name", default="", help="of the kept file; the commit, and to compare with the newest")
    parser.add_argument("--only", action="append", default=[], help="a workload, or `random`; may be repeated")
    parser.add_argument("--show", type=int, default=1, help="differences that are printed whole")
    args = parser.parse_args()
    folder = cache_folder() / "replay"
    if args.what == "compare":
        file = _kept(folder, args.name)
        before = json.loads(gzip.decompress(file.read_bytes()))
        return compare(before, everything(args.only), args.show, args.only)
    commit = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    name = args.name or subprocess.run(commit, capture_output=True, text=True, check=True).stdout.strip()
    keep(everything(args.only), folder / f"{name}.json.gz")
    return 0


if __name__ == "__main__":
    sys.exit(main())
