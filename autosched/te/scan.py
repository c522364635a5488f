"""Recurrences: tensors whose element at time t is computed from those at earlier times.

    X = te.placeholder((n, m), name="X")
    state = te.placeholder((n, m))                                      # stands for the result so far
    init = te.compute((1, m), lambda _, i: X[0, i])                     # its first rows
    update = te.compute((n, m), lambda t, i: state[t - 1, i] + X[t, i])  # all others, one after the other
    sums = te.scan(init, update, state, inputs=[X])                     # = np.cumsum(X, axis=0)

The first dimension is time. A scan is stored once: `init` and `update` write into its memory, and
what they read from `state` is read from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosched.errors import UsageError, UsageTypeError
from autosched.ir.expr import Expr, compare, const, make, var
from autosched.ir.simplify import Analyzer, always_equal
from autosched.ir.visit import post_order, substitute
from autosched.te.tensor import ComputeOp, Graph, IterVar, Operation, PlaceholderOp, Tensor, as_list, compute, tag_of

#: Times before its own that steps are followed back.
MAX_REACH = 16


class ScanOp(Operation):
    """Several states that advance together, one output for each.

    `scan_axis` runs over the times that updates compute, from the length of `init` on.
    `spatial_axis_` are the other axes of all outputs, one after the other. `body` are the operations
    that one step computes: those that depend on a state, producers first, updates included.
    `independent` are the spatial axes along which every place is a recurrence of its own, `reach`
    says for each state how many times back a step reads. `axis_names` are those of an output's axes, time first, where
    the scan does not name them after itself.
    """

    def __init__(
        self,
        name: str,
        init: Sequence[Tensor],
        update: Sequence[Tensor],
        state_placeholder: Sequence[Tensor],
        inputs: Sequence[Tensor] = (),
        tag: str = "",
        attrs: dict[str, Any] | None = None,
        axis_names: Sequence[str] = (),
    ) -> None:
        self.axis_names = tuple(axis_names)
        self.init, self.update, self.state_placeholder = tuple(init), tuple(update), tuple(state_placeholder)
        self.inputs, self.tag, self.attrs = tuple(inputs), tag, dict(attrs or {})
        self._check_parts(name)
        super().__init__(name, self.update[0].shape, [self.update[0].dtype])
        if len(self.update) > 1:
            self.outputs = tuple(Tensor(self, f"{name}.v{k}", u.shape, u.dtype, k) for k, u in enumerate(self.update))
        begin = self.init[0].shape[0]
        self.scan_axis = IterVar((self.axis_names or (f"{name}.idx",))[0], self.shape[0] - begin, "scan", begin)
        self.spatial_axes = self._spatial_axes(name)
        self.reduce_axis: tuple[IterVar, ...] = ()
        self.steps = self._steps()
        recurrence = _Recurrence(self)
        self.independent, self.reach = recurrence.independent_axes(), recurrence.reach()

    def _spatial_axes(self, name: str) -> tuple[tuple[IterVar, ...], ...]:
        """For each output its axes but time; outputs of one shape share them."""

        def axes(u: Tensor, prefix: str) -> tuple[IterVar, ...]:
            names = self.axis_names[1:] or [f"{prefix}.i{d}" for d in range(1, len(u.shape))]
            return tuple(IterVar(n, extent) for n, extent in zip(names, u.shape[1:], strict=True))

        if self.is_uniform:
            return (axes(self.update[0], name),) * len(self.update)
        return tuple(axes(u, f"{name}.out{k}") for k, u in enumerate(self.update))

    @property
    def spatial_axis_(self) -> tuple[IterVar, ...]:
        return tuple(a for axes in self.spatial_axes for a in axes)

    @property
    def axis(self) -> tuple[IterVar, ...]:  # type: ignore[override]
        """The axes of the first output, time first."""
        return (self.scan_axis, *self.spatial_axes[0])

    @property
    def is_uniform(self) -> bool:
        """Whether all outputs have the same shape: then they share their axes."""
        first = self.update[0].shape
        return all(len(u.shape) == len(first) and all(map(always_equal, u.shape, first)) for u in self.update[1:])

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return (*self.init, *self.state_placeholder, *self.update)

    @property
    def body(self) -> tuple[Expr, ...]:
        """The reads of one step: an element of each update, and one of each init before the first step."""
        zero = const(0)
        reads: list[Expr] = []
        for k, axes in enumerate(self.spatial_axes):
            place = tuple(a.var for a in axes)
            reads.append(make("read", self.init[k].dtype, (zero, *place), self.init[k]))
            reads.append(make("read", self.update[k].dtype, (self.scan_axis.var, *place), self.update[k]))
        return tuple(reads)

    # -- checks -----------------------------------------------------------------------------------
    def _check_parts(self, name: str) -> None:
        asked = f"scan {name}"
        counts = [len(x) for x in (self.init, self.update, self.state_placeholder)]
        if len(set(counts)) != 1 or not counts[0]:
            why = f"{counts[0]} init, {counts[1]} update and {counts[2]} state tensors"
            raise UsageError(why, asked=asked, legal="one of each for every state")
        parts = (*self.init, *self.update, *self.state_placeholder)
        twice = [t.name for i, t in enumerate(parts) if t in parts[:i]]
        if twice:
            raise UsageError(f"{twice[0]} is given twice", asked=asked, legal="tensors of its own for every part")
        for kind_of, tensors in (("init", self.init), ("update", self.update)):
            for t in tensors:
                apart = [x.name for x in t.op.outputs if x not in tensors]
                if apart:
                    raise UsageError(
                        f"{apart[0]} is computed together with {t.name} and is no {kind_of}",
                        asked=asked,
                        legal=f"all outputs of {t.op.name}, or a compute of its own for {t.name}",
                    )
        for init, update, state in zip(self.init, self.update, self.state_placeholder, strict=True):
            for t, kind in ((state, PlaceholderOp), (init, ComputeOp), (update, ComputeOp)):
                if not isinstance(t.op, kind):
                    wanted = "te.placeholder" if kind is PlaceholderOp else "te.compute"
                    legal = f"a {wanted} for this part"
                    raise UsageError(f"{t.name} is not made by {wanted}", asked=asked, legal=legal)
            _check_shapes(asked, init, update, state, self.init[0], self.update[0])

    def check_in(self, graph: Graph) -> None:
        """Nobody else may use what exists only while the scan runs."""
        own = {*self.steps, self}
        private = dict.fromkeys(self.state_placeholder, "state")
        private.update(dict.fromkeys(self.update, "update"))
        private.update(dict.fromkeys(self.init, "init"))
        for op in graph.ops:
            for t in op.input_tensors:
                kind = private.get(t) or ("step" if t.op in own and t.op is not self else "")
                if kind and op not in (own if kind != "init" else {self}):
                    legal = f"read {self.name}, or compute it a second time under another name"
                    raise UsageError(f"{op.name} reads {t.name}, its {kind}", asked=f"scan {self.name}", legal=legal)

    def _steps(self) -> tuple[Operation, ...]:
        """The operations that depend on a state, producers first, and the updates."""
        found: dict[Operation, None] = {}
        updates = {u.op for u in self.update}
        for op in Graph.of(self.update).ops:
            depends = any(t in self.state_placeholder or t.op in found for t in op.input_tensors)
            if depends and not isinstance(op, ComputeOp):
                legal = "scans one after the other: none inside the step of another"
                raise UsageError(f"{op.name}, a scan, reads its state", asked=f"scan {self.name}", legal=legal)
            if depends or op in updates:
                found[op] = None
        early = [t.name for t in self.init if any(u in found for u in Graph.of([t]).ops)]
        if early or any(s.op in Graph.of(self.init).ops for s in self.state_placeholder):
            why = f"its init {early[0] if early else self.init[0].name} depends on its state"
            raise UsageError(why, asked=f"scan {self.name}", legal="an init of tensors computed before")
        return tuple(found)


def _check_shapes(asked: str, init: Tensor, update: Tensor, state: Tensor, init0: Tensor, update0: Tensor) -> None:
    def demand(holds: bool, why: str, legal: str) -> None:
        if not holds:
            raise UsageError(why, asked=asked, legal=legal)

    for t in (init, state):
        why = f"{t.name} is {t.dtype} of {t.ndim} dimensions, {update.name} {update.dtype} of {update.ndim}"
        alike = t.dtype == update.dtype and t.ndim == update.ndim
        demand(alike, why, "one type and rank for init, update and state")
    demand(update.ndim > 0, f"{update.name} has no dimension", "the first dimension is time")
    for t, first, legal in (
        (state, 0, "one shape for update and state"),
        (init, 1, "an init that differs from its update in the first dimension only"),
    ):
        why = f"{t.name} is {list(t.shape)}, {update.name} {list(update.shape)}"
        demand(all(map(always_equal, t.shape[first:], update.shape[first:])), why, legal)
    times = always_equal(init.shape[0], init0.shape[0]) and always_equal(update.shape[0], update0.shape[0])
    why = f"{update.name} and {update0.name} run over different times"
    demand(times, why, "one length of all inits and of all updates")
    begin, length = init.shape[0], update.shape[0]
    if begin.op == "const":
        fits = begin.value >= 1 and (length.op != "const" or length.value >= begin.value)
        why = f"{init.name} gives {begin.value} of {length!r} times"
        demand(fits, why, "at least the first time, and no more than all")


class _Recurrence:
    """The places at which one step reads the states, over the scan's own axes. None may be in the future; along some
    spatial axes they may all be the step's own place."""

    def __init__(self, op: ScanOp) -> None:
        self.op = op
        self.an = Analyzer()
        begin, length = op.scan_axis.min, op.scan_axis.extent
        self.an.bind(op.scan_axis.var, begin, begin + length - 1)
        self.places = [(op.scan_axis.var, *(a.var for a in axes)) for axes in op.spatial_axes]
        for axes in op.spatial_axes:
            for a in axes:
                self.an.bind(a.var, 0, a.extent - 1)
        self.reads: dict[Tensor, list[tuple[Expr, ...]]] = {}
        for u, place in zip(op.update, self.places, strict=True):
            self.reads[u] = [place]
        self._follow()
        self._check_times()

    def _follow(self) -> None:
        """From the updates back to the states."""
        inside = {*self.op.state_placeholder, *(t for x in self.op.steps for t in x.outputs)}
        for step in reversed(self.op.steps):
            assert isinstance(step, ComputeOp)
            places = [p for t in step.outputs for p in self.reads.get(t, ())]
            values = {a.var: self._agreed([p[d] for p in places], a) for d, a in enumerate(step.axis)}
            for a in step.reduce_axis:
                self.an.bind(a.var, a.min, a.min + a.extent - 1)
            for e in post_order(step.body):
                if e.op == "read" and e.value in inside:
                    self.reads.setdefault(e.value, []).append(tuple(substitute(i, values) for i in e.args))

    def _agreed(self, indices: list[Expr], axis: IterVar) -> Expr:
        """The one index that all reads have, or a variable that is no more than the largest of them."""
        first = self.an.poly(indices[0])
        if all(self.an.poly(i) == first for i in indices[1:]):
            return indices[0]
        last = (h for h in indices if all(self.an.prove(compare("le", i, h)) for i in indices))
        stand_in = var(axis.name, role="loop")
        self.an.bind(stand_in, axis.min, next(last, axis.min + axis.extent - 1))
        return stand_in

    def _check_times(self) -> None:
        now = self.op.scan_axis.var
        for state in self.op.state_placeholder:
            for place in self.reads.get(state, ()):
                if not self.an.prove(compare("lt", place[0], now)):
                    raise UsageError(
                        f"a step reads {state.name} at time {self.an.simplify(place[0])!r}, "
                        f"which is not known to be before {now.name}",
                        asked=f"scan {self.op.name}",
                        legal=f"times before {now.name}, such as {state.name}[t - 1, ...] in an update over t",
                    )
        for update in self.op.update:
            for place in self.reads[update]:
                if self.an.poly(place[0]) != self.an.poly(now):
                    why = f"a step reads {update.name} at time {self.an.simplify(place[0])!r}, not at {now.name}"
                    raise UsageError(why, asked=f"scan {self.op.name}", legal="read earlier times from the state")

    def reach(self) -> tuple[int | None, ...]:
        """For each state how many times before its own a step reads at most; None where that is more than `MAX_REACH`,
        or not known."""
        now = self.op.scan_axis.var
        found: list[int | None] = []
        for state in self.op.state_placeholder:
            times = [place[0] for place in self.reads.get(state, ())]
            enough = (n for n in range(MAX_REACH + 1) if all(self.an.prove(compare("ge", t, now - n)) for t in times))
            found.append(next(enough, None))
        return tuple(found)

    def independent_axes(self) -> tuple[bool, ...]:
        """For each spatial dimension (of outputs of one shape): whether every place along it is a
        recurrence of its own."""
        if not self.op.is_uniform:
            return ()
        tensors = (*self.op.state_placeholder, *self.op.update)
        own = self.places[0]
        return tuple(
            all(self.an.poly(p[d]) == self.an.poly(own[d]) for t in tensors for p in self.reads.get(t, ()))
            for d in range(1, len(own))
        )


def scan(
    init: Tensor | Sequence[Tensor],
    update: Tensor | Sequence[Tensor],
    state_placeholder: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor] | None = None,
    name: str = "scan",
    tag: str = "",
    attrs: dict[str, Any] | None = None,
) -> Any:
    """The tensors (one for each state; a single one is returned as such) that a recurrence defines.

    `init` has the shape [k, ...] and gives the first k times; `update` the shape [n, ...] and gives
    time t, for t from k to n - 1, reading `state_placeholder` (a placeholder of update's shape) at
    earlier times. Steps may go through other tensors and reductions on their way from state to
    update. `inputs` is a hint that is not needed. Raises UsageError where the shapes
    do not fit together, or a read cannot be shown to be of an earlier time.

    >>> import numpy as np
    >>> from autosched import te
    >>> n = te.var("n")
    >>> X = te.placeholder((n,), "int32", name="X")
    >>> fib = te.placeholder((n,), "int32")
    >>> one = te.compute((2,), lambda t: te.const(1, "int32"))
    >>> step = te.compute((n,), lambda t: fib[t - 1] + fib[t - 2] + X[t])
    >>> result = te.scan(one, step, fib, inputs=[X])
    >>> te.reference([X, result], [np.zeros(8, "int32")])
    [array([ 1,  1,  2,  3,  5,  8, 13, 21], dtype=int32)]
    """
    inits, updates, states = map(as_list, (init, update, state_placeholder))
    hints = [] if inputs is None else as_list(inputs)
    for t in (*inits, *updates, *states, *hints):
        if not isinstance(t, Tensor):
            raise UsageTypeError(f"{t!r} is not a tensor", asked=f"scan {name}", legal="tensors, or lists of tensors")
    # an init that is an input is copied into the scan's memory
    inits = [
        compute(t.shape, lambda *i, t=t: t(*i), name=f"{name}.init") if isinstance(t.op, PlaceholderOp) else t
        for t in inits
    ]
    op = ScanOp(name, inits, updates, states, hints, tag_of(tag, f"scan {name}"), attrs)
    return op.outputs[0] if len(op.outputs) == 1 else list(op.outputs)
