"""Pixels of three and four channels moved about, with no trial, beside NumPy and the default schedule on one core.

Planes to channels and back, channels in another order or without the last, rows mirrored, images transposed. Prints
milliseconds of CPU time (the least of ten readings, taken in turn) and both ratios, theirs over ours.

    OMP_NUM_THREADS=1 python experiments/pixels.py                 # llvm
    OMP_NUM_THREADS=1 python experiments/pixels.py c
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from autosched import build, te
from autosched.space.workload import Workload

SIZE = 256
Shape = tuple[int, ...]
#: name -> the shape of the image that is read, its element at a place of the result, the same in NumPy, the result.
MOVES: dict[str, tuple[Shape, Callable[..., te.Expr], Callable[[np.ndarray], np.ndarray], Shape]] = {
    "planes to channels": (
        (3, SIZE, SIZE),
        lambda x, i, j, k: x[k, i, j],
        lambda x: x.transpose(1, 2, 0),
        (SIZE, SIZE, 3),
    ),
    "channels to planes": (
        (SIZE, SIZE, 3),
        lambda x, k, i, j: x[i, j, k],
        lambda x: x.transpose(2, 0, 1),
        (3, SIZE, SIZE),
    ),
    "four to planes": (
        (SIZE, SIZE, 4),
        lambda x, k, i, j: x[i, j, k],
        lambda x: x.transpose(2, 0, 1),
        (4, SIZE, SIZE),
    ),
    "channels backwards": (
        (SIZE, SIZE, 3),
        lambda x, i, j, k: x[i, j, 2 - k],
        lambda x: x[..., ::-1],
        (SIZE, SIZE, 3),
    ),
    "without the last": (
        (SIZE, SIZE, 4),
        lambda x, i, j, k: x[i, j, k],
        lambda x: x[..., :3],
        (SIZE, SIZE, 3),
    ),
    "mirrored": (
        (SIZE, SIZE, 3),
        lambda x, i, j, k: x[i, SIZE - 1 - j, k],
        lambda x: x[:, ::-1],
        (SIZE, SIZE, 3),
    ),
    "transposed": (
        (SIZE, SIZE, 3),
        lambda x, i, j, k: x[j, i, k],
        lambda x: x.transpose(1, 0, 2),
        (SIZE, SIZE, 3),
    ),
}


def main() -> None:
    kind = sys.argv[1] if len(sys.argv) > 1 else "llvm"
    target = f"{kind} -num-cores=1"
    for dtype in ("uint8", "float32"):
        for name, (shape, element, view, result) in MOVES.items():
            x = te.placeholder(shape, dtype, name="x")
            moved = te.compute(result, lambda *at, x=x, element=element: element(x, *at), name="moved")
            work = Workload("pixels", (x, moved))
            ours, default = (build(work, target, records="none.jsonl", effort=e) for e in ("quick", "none"))
            given = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
            out, wanted = np.empty(result, dtype), np.empty(result, dtype)
            least: dict[str, float] = {}
            calls = {
                "ours": lambda: ours(given, out),  # noqa: B023
                "default": lambda: default(given, out),  # noqa: B023
                "numpy": lambda: np.copyto(wanted, view(given)),  # noqa: B023
            }
            for _ in range(10):
                for who, call in calls.items():
                    begun = time.process_time()
                    for _ in range(20):
                        call()
                    least[who] = min((time.process_time() - begun) / 20, least.get(who, float("inf")))
                    if who != "numpy":
                        np.testing.assert_array_equal(out, view(given))
                        out[...] = 0
            mine = least["ours"]
            print(
                f"{dtype:8} {name:20} ours {mine * 1e3:6.4f}   default {least['default'] * 1e3:6.4f} "
                f"({least['default'] / mine:5.2f})   numpy {least['numpy'] * 1e3:6.4f} ({least['numpy'] / mine:6.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
