"""RNN, GRU and LSTM. What the inputs contribute is one product of matrices for all times; a step adds what the state
before contributes, and is part of a scan, or written out for a few steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autosched import te
from autosched.graph.onnx.node import Node, operator
from autosched.ir.expr import Expr
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator

Element = Callable[..., Expr]
Activation = Callable[[Expr], Expr]

#: name of an activation -> its function of an element and as many constants as there are defaults
_ACTIVATIONS: dict[str, tuple[Callable[..., Expr], tuple[float, ...]]] = {
    "Relu": (lambda x: te.max(x, te.const(0, x.dtype)), ()),
    "Tanh": (te.tanh, ()),
    "Sigmoid": (te.sigmoid, ()),
    "Softsign": (lambda x: x / (1 + te.abs(x)), ()),
    "Softplus": (lambda x: te.max(x, te.const(0, x.dtype)) + te.log1p(te.exp(0 - te.abs(x))), ()),
    "LeakyRelu": (lambda x, a: te.select(x < 0, x * a, x), (0.01,)),
    "ThresholdedRelu": (lambda x, a: te.select(x > a, x, te.const(0, x.dtype)), (1.0,)),
    "Elu": (lambda x, a: te.select(x < 0, (te.exp(x) - 1) * a, x), (1.0,)),
    "Affine": (lambda x, a, b: x * a + b, (1.0, 0.0)),
    "ScaledTanh": (lambda x, a, b: te.tanh(x * b) * a, (1.0, 1.0)),
    "HardSigmoid": (
        lambda x, a, b: te.max(te.min(x * a + b, te.const(1, x.dtype)), te.const(0, x.dtype)),
        (0.2, 0.5),
    ),
}


def _activations(node: Node, default: list[str], directions: int) -> list[list[Activation]]:
    """The activations of each direction. Constants are for those that take some, in order."""
    names = list(node.attr("activations") or default * directions)
    if len(names) != len(default) * directions:
        raise node.refused(f"{len(names)} activations", f"{len(default)} for each direction")
    alphas, betas = (iter(node.attr(f"activation_{x}") or ()) for x in ("alpha", "beta"))
    table = {name.lower(): entry for name, entry in _ACTIVATIONS.items()}
    clip = node.attr("clip")

    def made(name: str, is_of_cell: bool) -> Activation:
        if name.lower() not in table:
            raise node.refused(f"activation {name!r}", ", ".join(_ACTIVATIONS))
        f, defaults = table[name.lower()]
        constants = [next(given, d) for given, d in zip((alphas, betas), defaults, strict=False)]
        if clip is None or is_of_cell:
            return lambda x: f(x, *constants)
        return lambda x: f(te.max(te.min(x, te.const(clip, x.dtype)), te.const(-clip, x.dtype)), *constants)

    # what LSTM makes of its cell is clipped by no implementation, whatever the standard says of all activations
    found = [made(name, k % len(default) == 2) for k, name in enumerate(names)]
    return [found[k : k + len(default)] for k in range(0, len(found), len(default))]


@dataclass
class Layer:
    """A recurrent layer.

    x, w, r: inputs [time, batch, in], weights [direction, gates * hidden, in or hidden]
    b:       biases [direction, 2 * gates * hidden], those of the inputs first
    lengths: how many times each of the batch has
    initial: first states [direction, batch, hidden], one for each state
    """

    node: Node
    x: Tensor
    w: Tensor
    r: Tensor
    b: Tensor | None
    lengths: Tensor | None
    initial: list[Tensor | None]

    def __post_init__(self) -> None:
        self.direction = self.node.attr("direction", "forward")
        if self.direction not in ("forward", "reverse", "bidirectional"):
            raise self.node.refused(f"direction {self.direction!r}", "forward, reverse, bidirectional")
        self.directions = 2 if self.direction == "bidirectional" else 1
        self.batch_first = bool(self.node.attr("layout", 0))
        self.times, self.batch = self.x.shape[1::-1] if self.batch_first else self.x.shape[:2]
        self.hidden = self.r.shape[2]
        self.of = accumulator(self.x.dtype)
        known = self.node.constants.get(self.r)
        #: recurrent weights at [direction, in, row]: where they are constants, they lie so that rows are vectors
        self.rows: Element = lambda d, k, g: self.r(d, g, k)
        if known is not None:
            self.rows = self.node.constant(known.transpose(0, 2, 1))

    def is_reverse(self, d: int) -> bool:
        return self.direction == "reverse" or d == 1

    def place(self, d: int, t: Expr, b: Expr) -> Expr:
        """The time that is the t-th of a direction."""
        if not self.is_reverse(d):
            return t
        if self.lengths is None:
            return self.times - 1 - t
        return te.max(self.lengths(b).astype("int32") - 1 - t, te.const(0, "int32"))

    def inputs(self, d: int, biases: Callable[[Expr], Expr] | None) -> Element:
        """What inputs contribute to the gates at the t-th step, biases included."""
        k = te.reduce_axis((0, self.x.shape[2]), "k")

        def body(t: Expr, b: Expr, g: Expr) -> object:
            x = self.x(b, t, k) if self.batch_first else self.x(t, b, k)
            return te.sum(x.astype(self.of) * self.w(d, g, k).astype(self.of), axis=k)

        sums = te.compute((self.times, self.batch, self.w.shape[1]), body, name="inputs")
        moved = sums
        if biases is not None:
            moved = te.compute(sums.shape, lambda t, b, g: sums(t, b, g) + biases(g), name="biased")
        return lambda t, b, g: moved(self.place(d, t, b), b, g)

    def bias(self, d: int, g: Expr, of_state: bool = False) -> Expr:
        assert self.b is not None
        return self.b(d, g + self.w.shape[1] if of_state else g).astype(self.of)

    def first(self, which: int, d: int, b: Expr, j: Expr) -> Expr:
        t = self.initial[which]
        if t is None:
            return te.const(0, self.of)
        return (t(b, d, j) if self.batch_first else t(d, b, j)).astype(self.of)

    def outputs(self, hs: list[Element], last: list[list[Element]]) -> tuple[Tensor, ...]:
        """All states in the order of time, and the last ones.

        hs:   for each direction the state after its t-th step
        last: for each state, and each direction, the last one
        """
        of = self.x.dtype

        def chosen(d: Expr, elements: list[Expr]) -> Expr:
            return elements[0] if len(elements) == 1 else te.if_then_else(d == 0, *elements)

        def y(t: Expr, d: Expr, b: Expr, j: Expr) -> Expr:
            value = chosen(d, [h(self.place(k, t, b), b, j) for k, h in enumerate(hs)])
            if self.lengths is not None:
                value = te.if_then_else(t < self.lengths(b).astype("int32"), value, te.const(0, self.of))
            return value.astype(of)

        count = te.const(self.directions)
        if self.batch_first:
            whole = te.compute((self.batch, self.times, count, self.hidden), lambda b, t, d, j: y(t, d, b, j), name="Y")
        else:
            whole = te.compute((self.times, count, self.batch, self.hidden), y, name="Y")

        def final(elements: list[Element]) -> Tensor:
            def body(d: Expr, b: Expr, j: Expr) -> Expr:
                return chosen(d, [e(b, j) for e in elements]).astype(of)

            if self.batch_first:
                return te.compute((self.batch, count, self.hidden), lambda b, d, j: body(d, b, j), name="Y_last")
            return te.compute((count, self.batch, self.hidden), body, name="Y_last")

        return whole, *(final(elements) for elements in last)


class Steps:
    """The steps of one direction as a scan. `stage` makes a tensor that each step computes, `before` reads the states
    before a step; time 0 has the first states."""

    def __init__(self, layer: Layer, d: int) -> None:
        self.layer, self.d = layer, d
        self.shape = (layer.times + 1, layer.batch, layer.hidden)
        self.states = [te.placeholder(self.shape, layer.of, f"state{n}") for n in range(len(layer.initial))]

    def before(self, which: int) -> Element:
        return lambda t, b, j: self.states[which](t - 1, b, j)

    def stage(self, width: Expr, body: Element, name: str) -> Element:
        return te.compute((*self.shape[:2], width), body, name=name)

    def product(self, rows: Expr, begin: Expr | int, source: Element, name: str = "recurrent") -> Element:
        """What a state contributes to rows of the weights, from one on."""
        k, layer = te.reduce_axis((0, self.layer.hidden), "k"), self.layer

        def body(t: Expr, b: Expr, g: Expr) -> object:
            return te.sum(source(t, b, k) * layer.rows(self.d, k, g + begin).astype(layer.of), axis=k)

        return self.stage(rows, body, name)

    def next(self, which: int, body: Element, name: str) -> Tensor:
        """A new state; the old one where a sequence has ended."""
        lengths, old = self.layer.lengths, self.before(which)

        def kept(t: Expr, b: Expr, j: Expr) -> Expr:
            if lengths is None:
                return body(t, b, j)
            return te.select(t <= lengths(b).astype("int32"), body(t, b, j), old(t, b, j))

        return te.compute(self.shape, kept, name=name)

    def run(self, updates: list[Tensor]) -> list[Element]:
        """The states after each step, by their number from 0 on."""
        layer = self.layer
        inits = [
            te.compute((1, *self.shape[1:]), lambda _, b, j, n=n: layer.first(n, self.d, b, j), name=f"first{n}")
            for n in range(len(updates))
        ]
        made = te.scan(inits, updates, self.states, name="steps")
        return [lambda t, b, j, x=x: x(t + 1, b, j) for x in (made if isinstance(made, (list, tuple)) else [made])]


def _layer(
    node: Node, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None, lengths: Tensor | None, *initial: Tensor | None
) -> Layer:
    return Layer(node, x, w, r, b, lengths, list(initial))


def _all_directions(layer: Layer, steps: Callable[[int], list[Element]]) -> tuple[Tensor, ...]:
    """The outputs of a layer, given the states of each direction after each step."""
    found = [steps(d) for d in range(layer.directions)]
    final = layer.times - 1
    last = [[lambda b, j, s=states[n]: s(final, b, j) for states in found] for n in range(len(layer.initial))]
    return layer.outputs([states[0] for states in found], last)


@operator("RNN")
def rnn(
    node: Node, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    h: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    layer = _layer(node, x, w, r, b, lengths, h)
    functions = _activations(node, ["Tanh"], layer.directions)

    def steps(d: int) -> list[Element]:
        run, (f,) = Steps(layer, d), functions[d]
        given = layer.inputs(d, None if b is None else lambda g: layer.bias(d, g) + layer.bias(d, g, True))
        sums = run.product(layer.hidden, 0, run.before(0))
        return run.run([run.next(0, lambda t, b, j: f(given(t - 1, b, j) + sums(t, b, j)), "hidden")])

    return _all_directions(layer, steps)


@operator("GRU")
def gru(
    node: Node, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    h: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    layer = _layer(node, x, w, r, b, lengths, h)
    functions = _activations(node, ["Sigmoid", "Tanh"], layer.directions)
    n, is_linear = layer.hidden, bool(node.attr("linear_before_reset", 0))

    def biases(d: int, g: Expr) -> Expr:
        inner = layer.bias(d, g, True)
        return layer.bias(d, g) + (te.select(g < 2 * n, inner, te.const(0, layer.of)) if is_linear else inner)

    def steps(d: int) -> list[Element]:
        run, (f, g), old = Steps(layer, d), functions[d], None
        old = run.before(0)
        given = layer.inputs(d, None if b is None else lambda row: biases(d, row))
        sums = run.product(3 * n if is_linear else 2 * n, 0, old)

        def gate(row: int) -> Element:
            return lambda t, b, j: f(given(t - 1, b, j + row * n) + sums(t, b, j + row * n))

        update, reset = gate(0), gate(1)
        if is_linear:

            def inner(t: Expr, b: Expr, j: Expr) -> Expr:
                row = j + 2 * n
                total = sums(t, b, row) if layer.b is None else sums(t, b, row) + layer.bias(d, row, True)
                return reset(t, b, j) * total
        else:
            left = run.stage(n, lambda t, b, j: reset(t, b, j) * old(t, b, j), "left")
            inner = run.product(n, 2 * n, left, "candidate")

        def hidden(t: Expr, b: Expr, j: Expr) -> Expr:
            z = update(t, b, j)
            return (1 - z) * g(given(t - 1, b, j + 2 * n) + inner(t, b, j)) + z * old(t, b, j)

        return run.run([run.next(0, hidden, "hidden")])

    return _all_directions(layer, steps)


@operator("LSTM")
def lstm(
    node: Node, x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
    h: Tensor | None = None, c: Tensor | None = None, p: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    layer = _layer(node, x, w, r, b, lengths, h, c)
    functions = _activations(node, ["Sigmoid", "Tanh", "Tanh"], layer.directions)
    n, is_coupled = layer.hidden, bool(node.attr("input_forget", 0))

    def steps(d: int) -> list[Element]:
        run, (f, g, out) = Steps(layer, d), functions[d]
        given = layer.inputs(d, None if b is None else lambda row: layer.bias(d, row) + layer.bias(d, row, True))
        sums, cell = run.product(4 * n, 0, run.before(0)), run.before(1)

        def total(row: int, t: Expr, b: Expr, j: Expr) -> Expr:
            return given(t - 1, b, j + row * n) + sums(t, b, j + row * n)

        def peep(row: int, at: Element, t: Expr, b: Expr, j: Expr) -> Expr:
            return (
                total(row, t, b, j) + p(d, j + (row * n)).astype(layer.of) * at(t, b, j)
                if p is not None
                else total(row, t, b, j)
            )

        def new_cell(t: Expr, b: Expr, j: Expr) -> Expr:
            i = f(peep(0, cell, t, b, j))
            kept = 1 - i if is_coupled else f(peep(2, cell, t, b, j))
            return kept * cell(t, b, j) + i * g(total(3, t, b, j))

        cells = run.next(1, new_cell, "cell")
        hidden = run.next(0, lambda t, b, j: f(peep(1, cells, t, b, j)) * out(cells(t, b, j)), "hidden")
        return run.run([hidden, cells])

    return _all_directions(layer, steps)
