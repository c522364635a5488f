"""Simulations in time steps."""

from __future__ import annotations

import numpy as np

from autosched import te

from . import prange, program


def _heat_numpy(a: np.ndarray) -> np.ndarray:
    for _ in range(63):
        b = a.copy()
        b[1:-1] = 0.25 * a[:-2] + 0.5 * a[1:-1] + 0.25 * a[2:]
        a = b
    return a


def _heat_numba(first, out):  # type: ignore[no-untyped-def]
    n = first.size
    a, b = first.copy(), first.copy()
    for _ in range(63):
        for i in prange(1, n - 1):
            b[i] = 0.25 * a[i - 1] + 0.5 * a[i] + 0.25 * a[i + 1]
        a, b = b, a
    out[:] = a


@program(_heat_numpy, numba=_heat_numba)
def heat_1d(steps: int = 64, n: int = 65536) -> tuple[te.Tensor, ...]:
    """Heat along a rod of n points whose ends stay as they are: the last of `steps` states."""
    rod = te.placeholder((n,), name="rod")
    state = te.placeholder((steps, n), name="state")
    first = te.compute((1, n), lambda _, i: rod[i], name="first")

    def move(t: te.Expr, i: te.Expr) -> te.Expr:
        left, right = te.max(i - 1, 0), te.min(i + 1, n - 1)
        inside = te.all(i > 0, i < n - 1)
        moved = 0.25 * state[t - 1, left] + 0.5 * state[t - 1, i] + 0.25 * state[t - 1, right]
        return te.if_then_else(inside, moved, state[t - 1, i])

    states = te.scan(first, te.compute((steps, n), move, name="step"), state, name="states")
    return rod, te.compute((n,), lambda i: states[steps - 1, i], name="last")
