"""Functions of arrays under `autosched.jit`, with no tuning, beside NumPy and numba, in one process, in turn.

    python experiments/jit.py                  # minutes; needs `pip install autosched[bench]`
    python experiments/jit.py --table          # what was measured last

Each function is written once for NumPy; numba gets loops as its users write them (`parallel=True, fastmath=True`).
Results are compared, and go to `experiments/results/jit.json`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import njit, prange

import autosched

RESULTS = Path(__file__).parent / "results" / "jit.json"
ROUNDS, LEAST_S, PAUSE_S = 11, 0.03, 0.2
FAST = {"parallel": True, "fastmath": True}


def blur(image):
    p = np.pad(image, 1, mode="edge")
    rows = p[:-2] + p[1:-1] + p[2:]
    return (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9


@njit(**FAST)
def blur_loops(image):
    h, w = image.shape
    out = np.empty_like(image)
    for y in prange(h):
        for x in range(w):
            total = np.float32(0)
            for dy in range(-1, 2):
                for dx in range(-1, 2):
                    total += image[min(max(y + dy, 0), h - 1), min(max(x + dx, 0), w - 1)]
            out[y, x] = total / np.float32(9)
    return out


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@njit(**FAST)
def softmax_loops(x):
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        most = x[i].max()
        total = np.float32(0)
        for j in range(x.shape[1]):
            out[i, j] = np.exp(x[i, j] - most)
            total += out[i, j]
        for j in range(x.shape[1]):
            out[i, j] /= total
    return out


def heat(u):
    new = u.copy()
    new[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return new


@njit(**FAST)
def heat_loops(u):
    new = u.copy()
    for y in prange(1, u.shape[0] - 1):
        for x in range(1, u.shape[1] - 1):
            around = u[y + 1, x] + u[y - 1, x] + u[y, x + 1] + u[y, x - 1]
            new[y, x] = u[y, x] + np.float32(0.1) * (around - np.float32(4) * u[y, x])
    return new


def distances(x, y):
    return np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1))


@njit(**FAST)
def distances_loops(x, y):
    out = np.empty((x.shape[0], y.shape[0]), np.float32)
    for i in prange(x.shape[0]):
        for j in range(y.shape[0]):
            total = np.float32(0)
            for k in range(x.shape[1]):
                total += (x[i, k] - y[j, k]) ** 2
            out[i, j] = np.sqrt(total)
    return out


def grey(image):
    weights = np.array([0.299, 0.587, 0.114], np.float32)
    return np.clip((image.astype(np.float32) * weights).sum(-1), 0, 255).astype(np.uint8)


@njit(**FAST)
def grey_loops(image):
    out = np.empty(image.shape[:2], np.uint8)
    for y in prange(image.shape[0]):
        for x in range(image.shape[1]):
            r, g, b = image[y, x]
            value = np.float32(0.299) * r + np.float32(0.587) * g + np.float32(0.114) * b
            out[y, x] = np.uint8(min(max(value, np.float32(0)), np.float32(255)))
    return out


def layer(x, w, b):
    return np.maximum(x @ w + b, 0)


@njit(**FAST)
def layer_loops(x, w, b):
    return np.maximum(x @ w + b, np.float32(0))


def standardised(x):
    return (x - x.mean(0)) / (x.std(0) + 1e-6)


@njit(**FAST)
def standardised_loops(x):
    out = np.empty_like(x)
    for j in prange(x.shape[1]):
        mean = x[:, j].mean()
        deviation = x[:, j].std()
        for i in range(x.shape[0]):
            out[i, j] = (x[i, j] - mean) / (deviation + np.float32(1e-6))
    return out


def inputs() -> list[tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]]:
    rng = np.random.default_rng(0)

    def some(*shape: int) -> Any:
        return rng.random(shape, dtype=np.float32)

    return [
        (blur, blur_loops, (some(1024, 1024),)),
        (softmax, softmax_loops, (some(1024, 1000),)),
        (heat, heat_loops, (some(1024, 1024),)),
        (distances, distances_loops, (some(1000, 32), some(1000, 32))),
        (grey, grey_loops, (rng.integers(0, 256, (1080, 1920, 3), dtype=np.uint8),)),
        (layer, layer_loops, (some(256, 1024), some(1024, 512), some(512))),
        (standardised, standardised_loops, (some(4096, 256),)),
    ]


def sample(action: Callable[[], object]) -> float:
    """Seconds of a call. Threads of BLAS and OpenMP spin for a while after a call and keep a core: a pause lets them
    go to sleep."""
    time.sleep(PAUSE_S)
    action()
    begun, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - begun < LEAST_S:
        action()
        calls += 1
    return (time.perf_counter() - begun) / calls


def measure(fn: Callable[..., Any], loops: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, Any]:
    jitted = autosched.jit(fn)
    begun = time.perf_counter()
    ours = jitted(*args)
    first = time.perf_counter() - begun
    begun = time.perf_counter()
    theirs = loops(*args)
    numba_first = time.perf_counter() - begun
    expected = fn(*args)
    for found in (ours, theirs):
        np.testing.assert_allclose(
            np.float64(found), np.float64(expected), rtol=1e-3, atol=1.01 if ours.dtype == np.uint8 else 1e-3
        )
    rounds = [[sample(lambda f=f: f(*args)) for f in (jitted, fn, loops)] for _ in range(ROUNDS)]
    us, numpy_s, numba_s = (statistics.median(r[k] for r in rounds) for k in range(3))
    return {
        "function": fn.__name__, "us": us * 1e6, "numpy_us": numpy_s * 1e6, "numba_us": numba_s * 1e6,
        "over_numpy": statistics.median(r[1] / r[0] for r in rounds),
        "over_numba": statistics.median(r[2] / r[0] for r in rounds),
        "first_s": first, "numba_first_s": numba_first,
    }  # fmt: skip


def table(rows: dict[str, dict[str, Any]]) -> str:
    lines = ["| function | µs | NumPy µs | numba µs | times as fast as NumPy | as numba | first call | numba's |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for r in rows.values():
        lines.append(
            f"| {r['function']} | {r['us']:.0f} | {r['numpy_us']:.0f} | {r['numba_us']:.0f} | {r['over_numpy']:.1f} | "
            f"{r['over_numba']:.2f} | {r['first_s']:.1f} s | {r['numba_first_s']:.1f} s |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    rows: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if not args.table:
        numba.set_num_threads(args.threads)
        for fn, loops, given in inputs():
            rows[fn.__name__] = measure(fn, loops, given)
            print(json.dumps(rows[fn.__name__]), flush=True)
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
