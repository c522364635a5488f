"""Reductions of which data decide terms or results, with no trial, beside numba on one core.

Sums under a condition of data (`where=`) in vectors of results, and several results found in each of many short rows.
Prints milliseconds of CPU time (the least of ten readings, taken in turn) and the ratio, numba's over ours.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python experiments/data_decides.py
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numba
import numpy as np

from autosched import build, te
from autosched.space.workload import Workload

TARGET = "llvm -num-cores=1"
Program = tuple[str, list[te.Tensor], list[np.ndarray], Callable[..., None]]
_RNG = np.random.default_rng(0)


def columns() -> Program:
    """Sums of the columns of a matrix, where another one says so."""
    n, m = 1001, 2001
    x, y, k = te.placeholder((n, m), name="x"), te.placeholder((n, m), "int32", name="y"), te.reduce_axis((0, n), "k")
    out = te.compute((m,), lambda j: te.sum(x[k, j], axis=k, where=y[k, j] == 2), name="columns")

    @numba.njit(fastmath=True)
    def loops(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
        out[:] = 0
        for k in range(x.shape[0]):
            for j in range(len(out)):
                if y[k, j] == 2:
                    out[j] += x[k, j]

    given = [_RNG.standard_normal((n, m)).astype("float32"), _RNG.integers(0, 4, (n, m)).astype("int32")]
    return "columns", [x, y, out], given, loops


def density(open_size: bool) -> Program:
    """Densities of smoothed particles: of those that are near."""
    count, reach = 2001, np.float32(0.04)
    n = te.var("n") if open_size else count
    p, mass, k, a = (
        te.placeholder((n, 3), name="p"),
        te.placeholder((n,), name="mass"),
        te.reduce_axis((0, n), "k"),
        te.reduce_axis((0, 3), "a"),
    )
    d = te.compute((n, n), lambda i, j: te.sum((p[i, a] - p[j, a]) * (p[i, a] - p[j, a]), axis=a), name="d")

    def term(i: te.Expr) -> te.Expr:
        left = float(reach) - d[i, k]
        return te.sum(mass[k] * left * left * left, axis=k, where=d[i, k] < float(reach))

    @numba.njit(fastmath=True)
    def loops(p: np.ndarray, mass: np.ndarray, out: np.ndarray) -> None:
        for i in range(len(mass)):
            s = np.float32(0)
            for j in range(len(mass)):
                x, y, z = p[i, 0] - p[j, 0], p[i, 1] - p[j, 1], p[i, 2] - p[j, 2]
                d = x * x + y * y + z * z
                if d < reach:
                    s += mass[j] * (reach - d) * (reach - d) * (reach - d)
            out[i] = s

    given = [_RNG.random((count, 3)).astype("float32"), _RNG.standard_normal(count).astype("float32")]
    name = "density, open size" if open_size else "density"
    return name, [p, mass, te.compute((n,), term, name="density")], given, loops


def masked_product() -> Program:
    """A product of matrices of which data say, for each row and step, whether it takes part."""
    n = 301
    x, y, z = (
        te.placeholder((n, n), name="x"),
        te.placeholder((n, n), name="y"),
        te.placeholder((n, n), "uint8", name="z"),
    )
    k = te.reduce_axis((0, n), "k")
    out = te.compute((n, n), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k, where=z[i, k] > 0), name="masked")

    @numba.njit(fastmath=True)
    def loops(x: np.ndarray, y: np.ndarray, z: np.ndarray, out: np.ndarray) -> None:
        out[:] = 0
        for i in range(len(x)):
            for k in range(len(x)):
                if z[i, k] > 0:
                    for j in range(len(x)):
                        out[i, j] += x[i, k] * y[k, j]

    given = [_RNG.standard_normal((n, n)).astype("float32") for _ in "xy"]
    return "masked product", [x, y, z, out], [*given, _RNG.integers(0, 2, (n, n)).astype("uint8")], loops


def greatest(width: int) -> Program:
    """The place of the largest element in each of 50,000 rows."""
    x, k = te.placeholder((50_000, width), name="x"), te.reduce_axis((0, width), "k")
    place, _ = te.compute((50_000,), lambda i: te.argmax(x[i, k], axis=k), name="greatest")

    @numba.njit(fastmath=True)
    def loops(x: np.ndarray, out: np.ndarray) -> None:
        for i in range(len(out)):
            best = 0
            for k in range(1, x.shape[1]):
                if x[i, k] > x[i, best]:
                    best = k
            out[i] = best

    return f"arg-max of {width}", [x, place], [_RNG.standard_normal((50_000, width)).astype("float32")], loops


def programs() -> Iterator[Program]:
    yield columns()
    yield density(open_size=False)
    yield density(open_size=True)
    yield masked_product()
    yield from map(greatest, (3, 10, 23, 64))


def main() -> None:
    for name, args, given, loops in programs():
        module = build(Workload(f"decides_{len(given)}", tuple(args)), TARGET, records="none.jsonl")
        shape = [int(d.value) if d.op == "const" else len(given[0]) for d in args[-1].shape]
        outs = [np.empty(shape, str(args[-1].dtype)) for _ in range(2)]
        least = {}
        for _ in range(10):
            for who, call, out in (("ours", module, outs[0]), ("numba", loops, outs[1])):
                begun = time.process_time()
                for _ in range(5):
                    call(*given, out)
                taken = (time.process_time() - begun) / 5
                least[who] = min(taken, least.get(who, taken))
        np.testing.assert_allclose(*outs, rtol=1e-3, atol=1e-3)
        ours, theirs = least["ours"] * 1e3, least["numba"] * 1e3
        print(f"{name:20} ours {ours:7.3f}   numba {theirs:7.3f}   times {theirs / ours:6.2f}", flush=True)


if __name__ == "__main__":
    main()
