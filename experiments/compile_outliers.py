"""Programs that take long to compile: random ones of the kinds that compilers find hard, and what takes their time.

    python experiments/compile_outliers.py [--seeds 0:200] [--kind masks] [--target llvm] [--over 3] [--limit 60]

Kinds: deep chains of stages, wide stages with many producers, reductions under masks with arithmetic, reductions of
short types, indices of many operations, schedules of many splits. Sizes are numbers or symbols. Each program is built
twice, with the default schedule and with the one that a model chooses, in a process of its own that is ended after
`--limit` seconds of computing. Those over `--over` seconds, or that fail, are told with the time of each part; the exit
status is 1 if there are any. Nothing is timed but the compiler, in seconds of computing.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable

from autosched import te
from autosched.codegen.artifact import Artifact
from autosched.codegen.llvm import object_code, source_of
from autosched.planning import Plan, default_plan
from autosched.runtime.c_compiler import CKernel
from autosched.runtime.device import resolve_target
from autosched.space.workload import Workload
from autosched.te.tensor import Tensor

SHORT = ("int8", "uint8", "int16", "uint16", "float16", "bfloat16", "bool")
Program = tuple[Tensor, ...]


def _size(rng: random.Random, name: str, usual: tuple[int, ...] = (17, 33, 50, 64, 100, 129, 1000)) -> object:
    return te.var(name) if rng.random() < 0.35 else rng.choice(usual)


def _clip(i: object, n: object) -> object:
    return te.min(te.max(i, 0), n - 1)


def masks(rng: random.Random) -> Program:
    """A reduction whose condition has quotients, remainders and minima of its indices."""
    n = te.var("n") if rng.random() < 0.6 else rng.choice((48, 100, 129))
    m = n if rng.random() < 0.6 else _size(rng, "m")
    a, b = te.placeholder((n, m), rng.choice(("float32", "int32", "int8")), "a"), None
    b = te.placeholder((n, m), a.dtype, "b")
    k = te.reduce_axis((0, m), "k")

    def condition(i: object, j: object) -> object:
        d, r = rng.randint(2, 7), rng.randint(0, 2)
        at = rng.choice((lambda: k + i, lambda: k * 2 + j, lambda: i + j + k, lambda: k - j + 64))()
        kind = rng.choice(("order", "remainder", "quotient", "least", "band"))
        if kind == "order":
            return k <= at - k + r if rng.random() < 0.5 else k < i
        if kind == "remainder":
            return at % d != r
        if kind == "quotient":
            return k // d <= i // (d + r)
        return k <= te.min(i, j) if kind == "least" else te.all(k >= i - 4 * d, k < i + 3 * d)

    def element(i: object, j: object) -> object:
        parts = [condition(i, j) for _ in range(rng.randint(1, 3))]
        where = te.all(*parts) if len(parts) > 1 else parts[0]
        value = a[i, k] * b[j, k] if rng.random() < 0.8 else te.max(a[i, k], b[j, k])
        return te.sum(value, axis=k, where=where)

    return a, b, te.compute((n, n), element, "r")


def short_types(rng: random.Random) -> Program:
    """A reduction of a type of one or two bytes, along rows or columns, of products or of what it reads with a step."""
    of = rng.choice(SHORT)
    m, n = _size(rng, "m", (20, 1000, 20000)), _size(rng, "n")
    k = te.reduce_axis((0, n), "k")
    step = rng.choice((1, 1, 1, 2, 3))
    shape = rng.choice(("rows", "columns", "product", "map", "planes"))
    reduce = rng.choice((te.max, te.min, te.sum))
    to = rng.choice(("", "", "int32", "float32")) if of != "bool" else "int32"

    def cast(e: object) -> object:
        return e.astype(to) if to else e

    if shape == "rows":
        a = te.placeholder((m, n * step), of, "a")
        return a, te.compute((m,), lambda i: reduce(cast(a[i, k * step]), axis=k), "r")
    if shape == "columns":
        a = te.placeholder((n, m), of, "a")
        return a, te.compute((m,), lambda i: reduce(cast(a[k, i]), axis=k), "r")
    if shape == "planes":
        c = rng.choice((2, 3, 4, 8))
        a = te.placeholder((m, n, c), of, "a")
        return a, te.compute((m, c), lambda i, q: reduce(cast(a[i, k, q]), axis=k), "r")
    a = te.placeholder((m, n), of, "a")
    if shape == "map":
        x = te.compute((m, n), lambda i, j: cast(a[i, j] * a[i, j] + a[i, n - 1 - j]), "x")
        return a, te.compute((m,), lambda i: reduce(x[i, k], axis=k), "r")
    b = te.placeholder((m, n), of, "b")
    return a, b, te.compute((m, m), lambda i, j: reduce(cast(a[i, k]) * cast(b[j, k]), axis=k), "r")


def chains(rng: random.Random) -> Program:
    """Many stages, one after the other: maps, windows, reductions of rows that all read them."""
    n, m = _size(rng, "n", (512, 1000)), _size(rng, "m", (512, 1000))
    a = te.placeholder((n, m), rng.choice(("float32", "uint8")), "a")
    x = te.compute((n, m), lambda i, j: a[i, j].astype("float32"), "start")
    kinds = rng.sample(("map", "window", "wrapped", "rows", "both", "choice"), rng.randint(1, 3))
    for step in range(rng.choice((6, 12, 25, 50))):
        kind = rng.choice(kinds)
        name = f"{kind}{step}"
        if kind == "map":
            x = te.compute((n, m), lambda i, j, x=x: x[i, j] * 0.5 + 1.0, name)
        elif kind == "window":
            x = te.compute((n, m), lambda i, j, x=x: x[i, _clip(j - 1, m)] + x[i, j] + x[i, _clip(j + 1, m)], name)
        elif kind == "wrapped":
            x = te.compute((n, m), lambda i, j, x=x: x[(i + 1) % n, j] + x[i, (j + 3) % m], name)
        elif kind == "rows":
            k = te.reduce_axis((0, m), "k")
            total = te.compute((n,), lambda i, x=x, k=k: te.max(x[i, k], axis=k), f"{name}_most")
            x = te.compute((n, m), lambda i, j, x=x, t=total: x[i, j] - t[i], name)
        elif kind == "both":
            x = te.compute((n, m), lambda i, j, x=x: x[_clip(i - 1, n), j] + x[i, _clip(j + 1, m)], name)
        else:
            x = te.compute((n, m), lambda i, j, x=x: te.if_then_else(j > 0, x[i, te.max(j - 1, 0)], x[i, j]), name)
    return a, x


def wide(rng: random.Random) -> Program:
    """One stage that reads many, each of which reads all inputs, at places of its own."""
    n = _size(rng, "n", (1000, 100_000))
    count = rng.choice((8, 20, 40))
    inputs = [te.placeholder((n,), rng.choice(("float32", "int16")), f"a{q}") for q in range(rng.randint(1, 4))]
    stages = []
    for q in range(count):
        a = rng.choice(inputs)
        if rng.random() < 0.7:
            stages.append(te.compute((n,), lambda i, a=a, q=q: a[_clip(i + q - 3, n)].astype("float32") * q, f"x{q}"))
        else:
            k = te.reduce_axis((0, rng.choice((3, 5, 9))), "k")
            body = lambda i, a=a, k=k: te.sum(a[_clip(i + k, n)].astype("float32"), axis=k)  # noqa: E731
            stages.append(te.compute((n,), body, f"x{q}"))

    def element(i: object) -> object:
        total = stages[0][i]
        for x in stages[1:]:
            total = te.max(total, x[i]) if rng.random() < 0.3 else total + x[i]
        return total

    return *inputs, te.compute((n,), element, "y")


def indices(rng: random.Random) -> Program:
    """A read at an index of many operations."""
    n = _size(rng, "n", (1000, 4096))
    a = te.placeholder((n,), "float32", "a")

    def step(at: object) -> object:
        d, kind = rng.randint(2, 9), rng.randrange(6)
        if kind < 2:
            return at // d + at % d if kind else (at * d + 1) % n
        if kind < 4:
            return te.min(at + d, n - 1) if kind == 2 else te.max(at - d, 0)
        return n - 1 - at if kind == 4 else at // d * d + (at + 1) % d

    def element(i: object) -> object:
        for _ in range(rng.choice((5, 12, 25))):
            i = step(i)
        return a[_clip(i, n)]

    return a, te.compute((n,), element, "y")


KINDS: dict[str, Callable[[random.Random], Program]] = {
    f.__name__: f for f in (masks, short_types, chains, wide, indices)
}


def parts_of(plan: Plan) -> dict[str, float]:
    """The seconds of computing of each part of a compilation."""
    found, begun = {}, time.process_time()

    def note(name: str) -> None:
        nonlocal begun
        now = time.process_time()
        found[name], begun = round(now - begun, 2), now

    f = plan.lowered()
    note("lower")
    if plan.target.kind == "llvm":
        source = source_of(f, plan.target)
        note("emit")
        object_code(source, plan.target)
    else:
        artifact: Artifact = plan.compile().artifact
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        CKernel(artifact, plan.target)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        begun -= after.ru_utime - children.ru_utime
    note("compile")
    return found


def one(kind: str, seed: int, target: str) -> dict[str, object]:
    """What the compilations of one program took, in this process."""
    from autosched import predicting
    from autosched.planning import plans_to_try

    predicting._answered = lambda file: None  # neither what was remembered, nor to be remembered
    predicting._write = lambda file, known: None
    w, to = Workload("w", KINDS[kind](random.Random(f"{kind} {seed}"))), resolve_target(target)
    begun = time.process_time()
    made = default_plan(w, to, "f", "")
    found: dict[str, object] = {"schedule": round(time.process_time() - begun, 2), "default": parts_of(made)}
    print(json.dumps(found), flush=True)
    begun = time.process_time()
    plan = next(plans_to_try(w, to, "/nowhere", None, None))
    found["choose"] = round(time.process_time() - begun, 2)
    found["sketch"], found["knobs"] = plan.provenance.get("sketch"), plan.provenance.get("knobs")
    print(json.dumps(found), flush=True)
    found["chosen"] = parts_of(plan)
    print(json.dumps(found), flush=True)
    return found


def look(kind: str, seed: int, target: str, limit_s: float) -> tuple[float, str]:
    """(seconds of the slower compilation, what is known of both); infinity where it did not end, or failed."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s), int(limit_s) + 1))
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

    command = [sys.executable, __file__, "--one", f"{kind}:{seed}", "--target", target]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False)
    known = done.stdout.strip().splitlines()[-1:] or [""]
    if done.returncode:
        return float("inf"), f"rc {done.returncode} {known[0]} {done.stderr.strip()[-300:]}"
    found = json.loads(known[0])
    taken = max(sum(found[x].values()) for x in ("default", "chosen"))
    return max(taken, found["schedule"]), known[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:40")
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--over", type=float, default=3.0)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        kind, _, seed = args.one.partition(":")
        one(kind, int(seed), args.target)
        return 0
    low, _, high = args.seeds.partition(":")
    slow, times = 0, []
    for seed in range(int(low), int(high)):
        for kind in args.kind or KINDS:
            taken, known = look(kind, seed, args.target, args.limit)
            times.append(taken)
            if taken > args.over:
                slow += 1
                print(f"{kind}:{seed} {taken:.1f} s {known}", flush=True)
    times.sort()
    print(f"{len(times)} programs, median {times[len(times) // 2]:.2f} s, {slow} over {args.over:g} s")
    return int(slow > 0)


if __name__ == "__main__":
    raise SystemExit(main())
