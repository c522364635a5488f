"""The values of small tensors while a model is read: shapes, axes, counts.

A model computes shapes with the operators that compute everything else. A tensor of constants is evaluated by the
oracle. One that depends on symbolic dimensions is evaluated an element at a time: its te definition with numbers for
its axes, which leaves an expression over size variables.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import product
from typing import Any

import numpy as np

from autosched.ir.expr import Expr, const, is_const, variables
from autosched.ir.ops import CHOICES
from autosched.ir.simplify import simplify
from autosched.ir.visit import contains, reached, rebuild, substitute
from autosched.te.reference import reference
from autosched.te.tensor import ComputeOp, Graph, PlaceholderOp, Tensor

Array = np.ndarray[Any, Any]
Constants = Mapping[Tensor, Array]

#: elements of a shape, and points of a reduction over one, at most
MOST_POINTS = 4096


class Undecided(Exception):
    """A value is needed while a model is read, and depends on `tensor`, an input, which only a run has."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__(tensor.name)
        self.tensor = tensor


def inputs_of(t: Tensor) -> list[Tensor]:
    """The placeholders that a tensor is computed from."""
    graph = Graph.of([t])
    found = [op.output_tensor for op in graph.ops if isinstance(op, PlaceholderOp)]
    return [x for x in found if x not in graph.states]


def depends_on(t: Tensor, some: Container[Tensor]) -> bool:
    """Whether a tensor is one of these, or is computed from one. Looks no further than the first that it finds."""
    return any(x in some for x in reached([t], lambda x: x.op.input_tensors))


def evaluated(t: Tensor, constants: Constants) -> Array | None:
    """The value of a tensor of constants, by the oracle; None for one that depends on anything else."""
    if t in constants:
        return constants[t]
    inputs = inputs_of(t)
    if not all(x in constants for x in inputs) or mentions_sizes(t):
        return None
    return reference([*inputs, t], [constants[x] for x in inputs])[0]


def mentions_sizes(t: Tensor) -> bool:
    """Whether a tensor depends on a symbolic dimension."""
    for op in Graph.of([t]).ops:
        exprs = [*op.shape, *(op.body if isinstance(op, ComputeOp) else ())]
        if any(v.value.role not in ("loop", "thread", "let") for e in exprs for v in variables(e)):
            return True
    return False


def known(t: Tensor, constants: Constants) -> Array:
    """The elements of a tensor: an array of numbers, or of numbers and expressions over size variables.

    Raises Undecided, which names the input that it depends on.
    """
    found = evaluated(t, constants)
    if found is not None:
        return found
    if not all(is_const(d) for d in t.shape):
        raise Undecided(inputs_of(t)[0] if inputs_of(t) else t)
    shape = [int(d.value) for d in t.shape]
    if int(np.prod(shape)) > MOST_POINTS:
        raise Undecided(inputs_of(t)[0] if inputs_of(t) else t)
    elements = _Elements(constants)
    array = np.empty(shape, dtype=object)
    for at in product(*map(range, shape)):
        e = simplify(elements.of(t, at))
        array[at] = int(e.value) if e.op == "const" and e.dtype.is_integer else e.value if e.op == "const" else e
    return array


class _Elements:
    """Elements of tensors as expressions without reads."""

    def __init__(self, constants: Constants) -> None:
        self._constants = constants
        self._done: dict[tuple[Tensor, tuple[int, ...]], Expr] = {}

    def of(self, t: Tensor, at: tuple[int, ...]) -> Expr:
        """The element at a place. Raises Undecided."""
        if (t, at) not in self._done:
            self._done[t, at] = self._computed(t, at)
        return self._done[t, at]

    def _computed(self, t: Tensor, at: tuple[int, ...]) -> Expr:
        if t in self._constants:
            return const(self._constants[t][at], t.dtype)
        if not isinstance(t.op, ComputeOp):
            raise Undecided((inputs_of(t) or [t])[0])
        place = {a.var: const(x) for a, x in zip(t.op.axis, at, strict=True)}
        body = t.op.body[t.value_index]
        if body.op not in ("reduce", "scatter"):
            return self._value(substitute(body, place))
        reduction = body.value
        spans = [(a.min, a.extent) for a in reduction.axes]
        is_plain = body.op == "reduce" and reduction.size == 1
        if not is_plain or not all(is_const(e) for span in spans for e in span):
            raise Undecided((inputs_of(t) or [t])[0])
        (source,), condition, _ = reduction.parts(body.args)
        total = reduction.identity([t.dtype])[0]
        for point in product(*(range(int(lo.value), int(lo.value) + int(n.value)) for lo, n in spans)):
            here = place | {a.var: const(x) for a, x in zip(reduction.axes, point, strict=True)}
            if is_const(self._value(substitute(condition, here)), True):
                (total,) = reduction.combine((total,), (self._value(substitute(source, here)),))
        return total

    def _value(self, e: Expr) -> Expr:
        """An expression without its reads. Of a choice only the side that is taken is looked at."""
        if e.op in CHOICES:
            condition = self._value(e.args[0])
            if condition.op == "const":
                return self._value(e.args[1 if condition.value else 2])
        if not contains(e, "read"):
            return simplify(e) if e.index else e
        args = tuple(self._value(a) for a in e.args)
        if e.op != "read":
            return rebuild(e, args)
        if not all(a.op == "const" for a in args):
            raise Undecided((inputs_of(e.value) or [e.value])[0])
        return self.of(e.value, tuple(int(a.value) for a in args))
