"""An LSTM as a scan over time."""

from __future__ import annotations

from collections.abc import Callable

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr
from autosched.te.tensor import IterVar, Tensor
from autosched.topi.arguments import accumulator, number


def lstm(
    Xs: Tensor,
    Wi: Tensor,
    Wh: Tensor,
    Bi: Tensor | None = None,
    Bh: Tensor | None = None,
    h_init: Tensor | None = None,
    c_init: Tensor | None = None,
    f_act: Callable[[Expr], Expr] = te.sigmoid,
    g_act: Callable[[Expr], Expr] = te.tanh,
    h_act: Callable[[Expr], Expr] = te.tanh,
    reverse: bool = False,
    weight_layout: str = "IFGO",
) -> tuple[Tensor, Tensor]:
    """Return the hidden states and the cell states of every step, each [time, batch, hidden].

    `Xs` is [time, batch, in], `Wi` [4 * hidden, in], `Wh` [4 * hidden, hidden], biases [4 * hidden],
    initial states [batch, hidden], zero without. `weight_layout` orders the gates (input, forget,
    cell, output) within the 4. Activations take and return expressions. (Hochreiter and Schmidhuber
    1997; gates as in Gers et al. 2000.)
    """
    asked = "topi.nn.lstm"
    if sorted(weight_layout) != sorted("IFGO"):
        raise UsageError(f"weight_layout {weight_layout!r}", asked=asked, legal="I, F, G and O in any order")
    for t, ndim in ((Xs, 3), (Wi, 2), (Wh, 2)):
        if t.ndim != ndim:
            raise UsageError(f"{t!r} has {t.ndim} dimensions", asked=asked, legal=f"{ndim} dimensions")
    steps, batch, width = Xs.shape
    hidden = Wh.shape[1]
    if number(Wi.shape[0], asked) != 4 * number(hidden, asked) or Wh.shape[0] is not Wi.shape[0]:
        raise UsageError(f"{Wi!r} and {Wh!r}", asked=asked, legal="[4 * hidden, in] and [4 * hidden, hidden]")
    of = Xs.dtype
    sums = accumulator(of)
    rows = {gate: n * number(hidden, asked) for n, gate in enumerate(weight_layout)}
    k = te.reduce_axis((0, width), "ki")

    def time(t: Expr) -> Expr:
        return steps - 1 - t if reverse else t

    def contribution(a: Expr, b: Expr, axis: IterVar) -> Expr:
        return te.sum(a.astype(sums) * b.astype(sums), axis=axis)

    # what the inputs contribute does not depend on the steps before
    from_inputs = te.compute(
        (steps, batch, Wi.shape[0]), lambda t, b, g: contribution(Xs(time(t), b, k), Wi(g, k), k), name="Xi2h"
    )
    length = steps + 1
    h_state = te.placeholder((length, batch, hidden), of, "h_state")
    c_state = te.placeholder((length, batch, hidden), of, "c_state")

    def first(init: Tensor | None) -> Callable[..., object]:
        return lambda _, b, j: init(b, j) if init is not None else te.const(0, of)

    h_first = te.compute((1, batch, hidden), first(h_init), name="h_init")
    c_first = te.compute((1, batch, hidden), first(c_init), name="c_init")
    r = te.reduce_axis((0, hidden), "kh")
    from_state = te.compute(
        (length, batch, Wi.shape[0]), lambda t, b, g: contribution(h_state(t - 1, b, r), Wh(g, r), r), name="s_h2h"
    )

    def gate(which: str, t: Expr, b: Expr, j: Expr) -> Expr:
        g = j + rows[which]
        total = from_inputs(t - 1, b, g) + from_state(t, b, g)
        for bias in (Bi, Bh):
            total = total if bias is None else total + bias(g)
        return total

    h_next, c_next = _step(gate, c_state, f_act, g_act, h_act)
    hs, cs = te.scan([h_first, c_first], [h_next, c_next], [h_state, c_state], name="lstm_scan")

    def without_first(states: Tensor, name: str) -> Tensor:
        return te.compute((steps, batch, hidden), lambda t, b, j: states(t + 1, b, j), name=name)

    return without_first(hs, "hidden_states"), without_first(cs, "cell_states")


def _step(
    gate: Callable[[str, Expr, Expr, Expr], Expr],
    c_state: Tensor,
    f_act: Callable[[Expr], Expr],
    g_act: Callable[[Expr], Expr],
    h_act: Callable[[Expr], Expr],
) -> tuple[Tensor, Tensor]:
    """The hidden states and the cell states after a step, from the sums that arrive at the gates."""
    c_next = te.compute(
        c_state.shape,
        lambda t, b, j: (
            f_act(gate("F", t, b, j)) * c_state(t - 1, b, j) + f_act(gate("I", t, b, j)) * g_act(gate("G", t, b, j))
        ).astype(c_state.dtype),
        name="c_next",
    )
    h_next = te.compute(
        c_state.shape,
        lambda t, b, j: (f_act(gate("O", t, b, j)) * h_act(c_next(t, b, j))).astype(c_state.dtype),
        name="h_next",
    )
    return h_next, c_next
