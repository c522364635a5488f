"""Programs of symbolic sizes, built once with no trial and called with even and with very uneven sizes.

    python experiments/short_rows.py                     # all programs
    python experiments/short_rows.py softmax matmul

Each is built with no record, in an empty cache. At each shape its result is compared with that of the default schedule,
and both are timed in turn: medians of some rounds. Results go to `experiments/results/short_rows.json`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import interleaved, machine, medians, save

from autosched import build, te, topi
from autosched.space.workload import Workload
from autosched.te.tensor import Tensor

#: (rows, columns)
SHAPES = ((1024, 1024), (1_000_000, 1), (300_000, 3), (60_000, 17), (1, 1_000_000), (3, 300_000), (17, 60_000))
#: Columns of the left factor of a product, and what keeps it from taking seconds.
INNER, MOST = 256, 100_000
ROUNDS = 7

n, m = te.var("n"), te.var("m")


def image(dtype: str = "float32", *more: Any) -> Tensor:
    return te.placeholder((n, m, *more), dtype, name="a")


def along(length: Any) -> Any:
    return te.reduce_axis((0, length), "k")


def row_sums() -> list[Tensor]:
    a, k = image(), along(m)
    return [a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="out")]


def column_sums() -> list[Tensor]:
    a, k = image(), along(n)
    return [a, te.compute((m,), lambda j: te.sum(a[k, j], axis=k), name="out")]


def distances() -> list[Tensor]:
    a, b, k = image(), te.placeholder((n, m), name="b"), along(m)
    return [a, b, te.compute((n,), lambda i: te.sum(te.abs(a[i, k] - b[i, k]), axis=k), name="out")]


def gemv() -> list[Tensor]:
    a, x, k = image(), te.placeholder((m,), name="x"), along(m)
    return [a, x, te.compute((n,), lambda i: te.sum(a[i, k] * x[k], axis=k), name="out")]


def matmul() -> list[Tensor]:
    a, b, k = te.placeholder((n, INNER), name="a"), te.placeholder((INNER, m), name="b"), along(INNER)
    return [a, b, te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="out")]


def softmax() -> list[Tensor]:
    a, k, again = image(), along(m), te.reduce_axis((0, m), "again")
    top = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="top")
    e = te.compute((n, m), lambda i, j: te.exp(a[i, j] - top[i]), name="e")
    total = te.compute((n,), lambda i: te.sum(e[i, again], axis=again), name="total")
    return [a, te.compute((n, m), lambda i, j: e[i, j] / total[i], name="out")]


def argmax() -> list[Tensor]:
    a = image()
    return [a, topi.argmax(a, axis=1)]


def decaying_sums() -> list[Tensor]:
    a, state = image(), te.placeholder((n, m), name="state")
    first = te.compute((1, m), lambda _, j: a[0, j])
    return [a, te.scan(first, te.compute((n, m), lambda t, j: state[t - 1, j] * 0.5 + a[t, j]), state, inputs=[a])]


def grey() -> list[Tensor]:
    a = image("uint8", 3)
    red, green, blue = (lambda i, j, c=c: a[i, j, c].astype("float32") for c in range(3))
    return [a, te.compute((n, m), lambda i, j: 0.3 * red(i, j) + 0.6 * green(i, j) + 0.1 * blue(i, j), name="out")]


def box_blur() -> list[Tensor]:
    a = te.placeholder((n + 2, m + 2), name="a")
    across = te.compute((n + 2, m), lambda i, j: a[i, j] + a[i, j + 1] + a[i, j + 2], name="across")
    return [a, te.compute((n, m), lambda i, j: (across[i, j] + across[i + 1, j] + across[i + 2, j]) / 9, name="out")]


PROGRAMS: dict[str, Callable[[], list[Tensor]]] = {
    f.__name__: f
    for f in (row_sums, column_sums, distances, gemv, matmul, softmax, argmax, decaying_sums, grey, box_blur)
}


def measure(name: str, target: str) -> dict[str, Any]:
    """The versions of a program, and seconds of both schedules at each shape."""
    w = Workload(name, tuple(PROGRAMS[name]()))
    chosen, default = (build(w, target, records=os.devnull + ".none", effort=e) for e in ("quick", "none"))
    rows = {}
    for rows_, columns in SHAPES:
        sizes = {"n": rows_, "m": columns}
        if name == "matmul":
            sizes = {k: min(v, MOST) for k, v in sizes.items()}
        arrays = w.sample_inputs(sizes)
        chosen(*arrays)
        like = [x.copy() for x in arrays]
        default(*like)
        for x, y in zip(arrays, like, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)
        calls = {"chosen": partial(chosen, *arrays), "default": partial(default, *like)}
        found = medians(interleaved(calls, ROUNDS))  # type: ignore[arg-type]
        rows[f"{sizes['n']} x {sizes['m']}"] = {k: float(f"{s:.3g}") for k, s in found.items()}
    return {"versions": [f"{v['when']}: {v['sketch']}" for v in chosen.provenance.get("versions", [])], "seconds": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS))
    parser.add_argument("--target", default="llvm")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        found = {}
        for name in args.programs:
            found[name] = measure(name, args.target)
            times = found[name]["seconds"].values()
            print(name, *(f"{x['default'] / x['chosen']:.2f}" for x in times), sep="\t", flush=True)
    if args.programs == list(PROGRAMS) and args.target == "llvm":
        print("written to", save("short_rows", {"machine": machine(), "programs": found}))


if __name__ == "__main__":
    main()
