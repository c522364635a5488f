"""Recurrences that several tests schedule, run and print."""

from __future__ import annotations

import numpy as np

from autosched import te
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor


def running_sum(dtype: str = "float32") -> list[Tensor]:
    """X[n, m] -> S, the sums of X's rows up to each."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), dtype, name="X")
    state = te.placeholder((n, m), dtype, name="state")
    first = te.compute((1, m), lambda _, i: x[0, i], name="first")
    step = te.compute((n, m), lambda t, i: state[t - 1, i] + x[t, i], name="step")
    return [x, te.scan(first, step, state, inputs=[x], name="S")]


def two_states() -> list[Tensor]:
    """P and Q advance together: a step goes through `mid`, and Q's reads the new P."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), "int32", name="X")
    p, q = (te.placeholder((n, m), "int32", name=name) for name in "pq")
    p0 = te.compute((2, m), lambda t, i: x[t, i], name="p0")
    q0 = te.compute((2, m), lambda t, i: t + i, name="q0")
    mid = te.compute((n, m), lambda t, i: te.min(p[t - 2, i] * 2, 9) - x[t, i], name="mid")
    p1 = te.compute((n, m), lambda t, i: mid[t, i] + te.max(q[t - 1, i], -9), name="p1")
    q1 = te.compute((n, m), lambda t, i: te.max(p1[t, i], -9) - mid[t, i] + q[t - 2, i], name="q1")
    return [x, *te.scan([p0, q0], [p1, q1], [p, q], inputs=[x], name="PQ")]


def states_at_once() -> list[Tensor]:
    """The same; inits, what a step goes through, and updates are computed two at a time."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), "int32", name="X")
    p, q = (te.placeholder((n, m), "int32", name=name) for name in "pq")
    init = te.compute((2, m), lambda t, i: (x[t, i], t + i), name="pq0")
    mid, last = te.compute(
        (n, m), lambda t, i: (te.min(p[t - 2, i] * 2, 9) - x[t, i], te.max(q[t - 1, i], -9)), name="mid"
    )

    def step(t: te.Expr, i: te.Expr) -> tuple[te.Expr, te.Expr]:
        new = mid[t, i] + last[t, i]
        return new, te.max(new, -9) - mid[t, i] + q[t - 2, i]

    return [x, *te.scan(init, te.compute((n, m), step, name="pq1"), [p, q], inputs=[x], name="PQ")]


def behind_the_best() -> list[Tensor]:
    """Each row is X's minus the greatest of the row before, and that one's place: a step reduces pairs."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), "int32", name="X")
    state = te.placeholder((n, m), "int32", name="state")
    first = te.compute((1, m), lambda _, i: x[0, i], name="first")
    k = te.reduce_axis((0, m), "k")
    place, most = te.compute((n,), lambda t: te.argmax(state[t - 1, k], axis=k), name="best")
    step = te.compute((n, m), lambda t, i: x[t, i] - most[t] + place[t], name="step")
    return [x, te.scan(first, step, state, inputs=[x], name="S")]


def two_states_by_hand(x: np.ndarray) -> list[np.ndarray]:
    p, q = x.copy(), np.add.outer(np.arange(len(x)), np.arange(x.shape[1])).astype(np.int32)
    for t in range(2, len(x)):
        mid = np.minimum(p[t - 2] * 2, 9) - x[t]
        p[t] = mid + np.maximum(q[t - 1], -9)
        q[t] = np.maximum(p[t], -9) - mid + q[t - 2]
    return [p, q]


def of_two_shapes() -> list[Tensor]:
    """A running sum and, beside it, the sum of its last row."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), "int32", name="X")
    rows, total = te.placeholder((n, m), "int32", name="rows"), te.placeholder((n,), "int32", name="total")
    k = te.reduce_axis((0, m), "k")
    rows0 = te.compute((1, m), lambda _, i: x[0, i], name="rows0")
    total0 = te.compute((1,), lambda _: te.const(0, "int32"), name="total0")
    rows1 = te.compute((n, m), lambda t, i: rows[t - 1, i] + x[t, i] + total[t - 1], name="rows1")
    total1 = te.compute((n,), lambda t: te.sum(rows[t - 1, k], axis=k), name="total1")
    return [x, *te.scan([rows0, total0], [rows1, total1], [rows, total], name="both")]


def lstm(steps: int = 5, batch: int = 3, hidden: int = 4) -> list[Tensor]:
    """A cell of long short-term memory: four gates, two states (TVM's recipe, names kept)."""
    x = te.placeholder((steps, batch, 4, hidden), name="Xi2h")
    w = te.placeholder((4, hidden, hidden), name="Wh2h")
    shape = (steps, batch, hidden)
    h, c = te.placeholder(shape, name="h"), te.placeholder(shape, name="c")
    h0 = te.compute((1, batch, hidden), lambda *i: te.const(0.0), name="h0")
    c0 = te.compute((1, batch, hidden), lambda *i: te.const(0.0), name="c0")
    k = te.reduce_axis((0, hidden), "k")
    h2h = te.compute(x.shape, lambda t, i, g, j: te.sum(h[t - 1, i, k] * w[g, j, k], axis=k), name="h2h")
    gates = te.compute(x.shape, lambda *i: x(*i) + h2h(*i), name="gates")
    in_gate = te.compute(shape, lambda t, i, j: te.sigmoid(gates[t, i, 0, j]), name="in_gate")
    in_transform = te.compute(shape, lambda t, i, j: te.tanh(gates[t, i, 1, j]), name="in_transform")
    forget_gate = te.compute(shape, lambda t, i, j: te.sigmoid(gates[t, i, 2, j]), name="forget_gate")
    out_gate = te.compute(shape, lambda t, i, j: te.sigmoid(gates[t, i, 3, j]), name="out_gate")
    next_c = te.compute(
        shape,
        lambda t, i, j: forget_gate[t, i, j] * c[t - 1, i, j] + in_gate[t, i, j] * in_transform[t, i, j],
        name="next_c",
    )
    next_h = te.compute(shape, lambda t, i, j: out_gate[t, i, j] * te.tanh(next_c[t, i, j]), name="next_h")
    new_h = te.compute(shape, lambda *i: next_h(*i), name="new_h")
    new_c = te.compute(shape, lambda *i: next_c(*i), name="new_c")
    return [x, w, *te.scan([h0, c0], [new_h, new_c], [h, c], inputs=[x], name="lstm")]


def lstm_by_hand(x: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    def sigmoid(v: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-v))

    h, c = np.zeros((2, *x[:, :, 0].shape))
    for t in range(1, len(x)):
        gates = x[t] + np.einsum("ik,gjk->igj", h[t - 1], w)
        c[t] = sigmoid(gates[:, 2]) * c[t - 1] + sigmoid(gates[:, 0]) * np.tanh(gates[:, 1])
        h[t] = sigmoid(gates[:, 3]) * np.tanh(c[t])
    return [h, c]


def heat(steps: object, n: object) -> list[Tensor]:
    """rod[n] -> the state after `steps` times the mean of two neighbours, of which the last is the first's."""
    rod = te.placeholder((n,), "int32", name="rod")
    state = te.placeholder((steps + 1, n), "int32", name="state")  # type: ignore[operator]
    first = te.compute((1, n), lambda _, i: rod[i], name="first")
    near = te.compute((steps + 1, n), lambda t, i: state[t - 1, (i + 1) % n] * 3, name="near")  # type: ignore[operator]
    step = te.compute((steps + 1, n), lambda t, i: near[t, i] - state[t - 1, i], name="step")  # type: ignore[operator]
    return [rod, te.scan(first, step, state, name="states")]


def heat_states(rod: np.ndarray, steps: int) -> np.ndarray:
    rows = [rod]
    for _ in range(steps):
        rows.append(np.roll(rows[-1], -1) * 3 - rows[-1])
    return np.array(rows)


def bind_steps(args: list[Tensor], *, inlined: bool) -> Schedule:
    s = create_schedule(args[-1])
    if inlined:
        s["near"].compute_inline()
    for name in ("first", "step") if inlined else ("first", "near", "step"):
        group, item = s[name].split("i", factor=32)
        s[name].bind(group, "blockIdx.x")
        s[name].bind(item, "threadIdx.x")
    return s
