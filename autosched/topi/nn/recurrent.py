"""An LSTM as a scan over time."""

from __future__ import annotations

from collections.abc import Callable

from autosched import te
from autosched.errors import UsageError
from autosched.ir.dtype import DType
from autosched.ir.expr import Expr
from autosched.te.tensor import IterVar, Tensor
from autosched.topi.arguments import accumulator, narrowed, number


def lstm(
    Xs: Tensor,
    Wi: Tensor,
    Wh: Tensor,
    Bi: Tensor | None = None,
    Bh: Tensor | None = None,
    h_init: Tensor | None = None,
    c_init: Tensor | None = None,
    proj: Tensor | None = None,
    p_i: Tensor | None = None,
    p_f: Tensor | None = None,
    p_o: Tensor | None = None,
    f_act: Callable[[Expr], Expr] = te.sigmoid,
    g_act: Callable[[Expr], Expr] = te.tanh,
    h_act: Callable[[Expr], Expr] = te.tanh,
    reverse: bool = False,
    weight_layout: str = "IFGO",
) -> tuple[Tensor, Tensor]:
    """Return the hidden states and the cell states of every step, each [time, batch, hidden].

    `Xs` is [time, batch, in], `Wi` [4 * hidden, in], `Wh` [4 * hidden, hidden], biases [4 * hidden],
    initial states [batch, hidden], zero without. `weight_layout` orders the gates (input, forget,
    cell, output) within the 4. Activations take and return expressions. With `proj`, [out, hidden], hidden states
    are products with it, [time, batch, out], and `Wh` is [4 * hidden, out]. Peepholes `p_i`, `p_f` and `p_o`,
    [batch, hidden], let the cell's state weigh in the gates. (Hochreiter and Schmidhuber 1997; gates as in
    Gers et al. 2000; projections as in Sak et al. 2014.)
    """
    asked = "topi.nn.lstm"
    if sorted(weight_layout) != sorted("IFGO"):
        raise UsageError(f"weight_layout {weight_layout!r}", asked=asked, legal="I, F, G and O in any order")
    for t, ndim in ((Xs, 3), (Wi, 2), (Wh, 2)):
        if t.ndim != ndim:
            raise UsageError(f"{t!r} has {t.ndim} dimensions", asked=asked, legal=f"{ndim} dimensions")
    steps, batch, width = Xs.shape
    out = Wh.shape[1]
    hidden = out if proj is None else proj.shape[1]
    if number(Wi.shape[0], asked) != 4 * number(hidden, asked) or Wh.shape[0] is not Wi.shape[0]:
        legal = f"[4 * hidden, in] and [4 * hidden, {'hidden' if proj is None else 'out'}]"
        raise UsageError(f"{Wi!r} and {Wh!r}", asked=asked, legal=legal)
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
    h_state = te.placeholder((length, batch, out), of, "h_state")
    c_state = te.placeholder((length, batch, hidden), of, "c_state")

    def first(init: Tensor | None) -> Callable[..., object]:
        return lambda _, b, j: init(b, j) if init is not None else te.const(0, of)

    h_first = te.compute((1, batch, out), first(h_init), name="h_init")
    c_first = te.compute((1, batch, hidden), first(c_init), name="c_init")
    r = te.reduce_axis((0, out), "kh")
    from_state = te.compute(
        (length, batch, Wi.shape[0]), lambda t, b, g: contribution(h_state(t - 1, b, r), Wh(g, r), r), name="s_h2h"
    )

    def gate(which: str, t: Expr, b: Expr, j: Expr) -> Expr:
        g = j + rows[which]
        total = from_inputs(t - 1, b, g) + from_state(t, b, g)
        for bias in (Bi, Bh):
            total = total if bias is None else total + bias(g)
        return total

    h_next, c_next = _step(gate, c_state, (p_i, p_f, p_o), f_act, g_act, h_act)
    if proj is not None:
        h_next = _projected(h_next, proj, sums)
    hs, cs = te.scan([h_first, c_first], [h_next, c_next], [h_state, c_state], name="lstm_scan")

    def without_first(states: Tensor, name: str) -> Tensor:
        return te.compute((steps, *states.shape[1:]), lambda t, b, j: states(t + 1, b, j), name=name)

    return without_first(hs, "hidden_states"), without_first(cs, "cell_states")


def _step(
    gate: Callable[[str, Expr, Expr, Expr], Expr],
    c_state: Tensor,
    peepholes: tuple[Tensor | None, Tensor | None, Tensor | None],
    f_act: Callable[[Expr], Expr],
    g_act: Callable[[Expr], Expr],
    h_act: Callable[[Expr], Expr],
) -> tuple[Tensor, Tensor]:
    """The hidden states and the cell states after a step, from the sums that arrive at the gates."""
    p_i, p_f, p_o = peepholes

    def opened(which: str, p: Tensor | None, cell: Expr, t: Expr, b: Expr, j: Expr) -> Expr:
        total = gate(which, t, b, j)
        return f_act(total if p is None else total + p(b, j) * cell)

    def cell(t: Expr, b: Expr, j: Expr) -> Expr:
        before = c_state(t - 1, b, j)
        kept, taken = opened("F", p_f, before, t, b, j), opened("I", p_i, before, t, b, j)
        return (kept * before + taken * g_act(gate("G", t, b, j))).astype(c_state.dtype)

    c_next = te.compute(c_state.shape, cell, name="c_next")

    def hidden(t: Expr, b: Expr, j: Expr) -> Expr:
        now = c_next(t, b, j)
        return (opened("O", p_o, now, t, b, j) * h_act(now)).astype(c_state.dtype)

    return te.compute(c_state.shape, hidden, name="h_next"), c_next


def _projected(h: Tensor, proj: Tensor, sums: DType) -> Tensor:
    """Hidden states after the projection."""
    length, batch, hidden = h.shape
    k = te.reduce_axis((0, hidden), "kp")
    product = te.compute(
        (length, batch, proj.shape[0]),
        lambda t, b, j: te.sum(h(t, b, k).astype(sums) * proj(j, k).astype(sums), axis=k),
        name="h_projected",
    )
    return narrowed(product, h.dtype)
