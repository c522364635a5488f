"""Everyday operations whose sizes calls tell, built with no trial: what it costs not to know them.

    python experiments/open_sizes.py                # all of them, on a quiet machine: five minutes
    python experiments/open_sizes.py softmax bij    # those whose name has one of these
    python experiments/open_sizes.py --target c     # by a C compiler, or on PoCL with "opencl"

Every size of a program is a variable. Beside the choice of `build` for all sizes stand its choice for the sizes of the
call, told beforehand, and the default schedule for all sizes; the results of the three are compared. All is timed in
one process, in turn, in seconds of computing of all its threads; the least of seven counts.

Results go to `experiments/results/open_sizes.json`, those of another target to `open_sizes_TARGET.json`.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from common import machine, save
from everyday import LLVM, SUMS, einsum, elements, seconds, softmax

from autosched import Target, build, te
from autosched.space.workload import Workload
from autosched.te import Tensor

#: the tensors of a program of some sizes, numbers or variables
Program = Callable[..., Sequence[Tensor]]
EFFORTS = {"open": "quick", "told": "quick", "default": "none"}


def programs() -> Iterator[tuple[str, Program, dict[str, int]]]:
    """Their names, and the sizes that they are called with."""
    rows = {"i": 64, "j": 100, "k": 256}
    for count in (1, 2, 3):
        for axes in combinations(range(3), count):
            kept = "".join(c for a, c in enumerate("ijk") if a not in axes)
            yield f"sum {axes}", contraction(f"ijk->{kept}"), rows
    for kept in ("bhw", "chw", "bc", "c", "hw"):
        yield f"bchw->{kept}", contraction(f"bchw->{kept}"), {"b": 8, "c": 16, "h": 56, "w": 56}
        yield f"bchw->{kept}, small images", contraction(f"bchw->{kept}"), {"b": 32, "c": 64, "h": 7, "w": 7}
    for axis in range(3):
        yield f"softmax {axis}", lambda i, j, k, axis=axis: softmax((i, j, k), axis).args, rows
    for spec, sizes in SUMS.items():
        yield spec, contraction(spec), sizes
    yield from maps()


def contraction(spec: str) -> Program:
    return lambda **sizes: einsum(spec, **sizes).args


def mapped(f: Callable[..., te.Expr], *shapes: str, out: str) -> Program:
    """Each element of an array of some sizes is a function of inputs of some sizes and of its indices."""

    def program(**sizes: Any) -> Sequence[Tensor]:
        inputs, result = [[sizes[c] for c in shape] for shape in shapes], [sizes[c] for c in out]
        return elements(inputs, result, partial(f, sizes), lambda *x: x[0]).args

    return program


def maps() -> Iterator[tuple[str, Program, dict[str, int]]]:
    square, images = {"i": 1000, "j": 1000}, {"b": 8, "c": 64, "h": 7, "w": 7}
    around = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]

    def near(s: Mapping[str, Any], x: Tensor, i: te.Expr, j: te.Expr) -> te.Expr:
        def inside(at: te.Expr, size: Any) -> te.Expr:
            return te.max(te.min(at, size - 1), 0)

        return sum(x[inside(i + a, s["i"]), inside(j + b, s["j"])] for a, b in around) / 9

    yield "tanh", mapped(lambda s, x, *at: te.tanh(x[at]), "ij", out="ij"), square
    yield "transposed", mapped(lambda s, x, j, i: x[i, j] * 2, "ij", out="ji"), square
    yield "flip", mapped(lambda s, x, i, j: x[i, s["j"] - 1 - j], "ij", out="ij"), square
    yield "bias of rows", mapped(lambda s, x, b, i, j: x[i, j] + b[i], "ij", "i", out="ij"), square
    yield "mean of neighbours", mapped(near, "ij", out="ij"), square
    yield "relu, small images", mapped(lambda s, x, *at: te.max(x[at], 0.0), "bchw", out="bchw"), images
    yield (
        "bias of channels, small images",
        mapped(lambda s, x, y, b, c, h, w: te.max(x[b, c, h, w] + y[c], 0.0), "bchw", "c", out="bchw"),
        images,
    )


def measure(program: Program, sizes: Mapping[str, int], target: str) -> dict[str, float]:
    args = {"open": program(**{c: te.var(c) for c in sizes}), "told": program(**sizes)}
    works = {name: Workload(name, tuple(args.get(name, args["open"]))) for name in EFFORTS}
    built = {name: build(w, target, records=os.devnull + ".none", effort=EFFORTS[name]) for name, w in works.items()}
    arrays, shape = works["told"].sample_inputs(None), [int(n.value) for n in args["told"][-1].shape]
    results = {name: np.empty(shape, "float32") for name in built}
    for name, out in results.items():
        built[name](*arrays, out)
        np.testing.assert_allclose(out, results["open"], rtol=2e-3, atol=2e-3 * abs(results["open"]).max())
    return seconds(time.process_time, {name: partial(one, *arrays, results[name]) for name, one in built.items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only those whose name has one of these")
    parser.add_argument("--target", default=LLVM, help="where (one thread of this machine by LLVM)")
    given = parser.parse_args()
    target = Target(given.target)
    to = str(target) if target.is_gpu_style or "threads" in target.options else f"{target} -threads=1"
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        for name, program, sizes in programs():
            if not given.names or any(w in name for w in given.names):
                rows[name] = s = measure(program, sizes, to)
                others = ", ".join(f"{by} {s[by] / s['open']:6.2f}" for by in ("told", "default"))
                print(f"{name:36} {1e3 * s['open']:8.3f} ms, {others} times that", flush=True)
    for by in ("told", "default"):
        found = [s[by] / s["open"] for s in rows.values()]
        mean = math.exp(sum(map(math.log, found)) / len(found))
        print(f"{by}: {mean:.2f} times ours in the geometric mean of {len(found)}; least {min(found):.2f}")
    if not given.names:
        file = "open_sizes" if to == LLVM else f"open_sizes_{target.kind}"
        print("written to", save(file, {"machine": machine(), "programs": rows}))


if __name__ == "__main__":
    main()
