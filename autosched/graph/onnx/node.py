"""What a function that reads one ONNX operator is given, and the table of these functions.

    @operator("Relu")
    def relu(node: Node, x: Tensor) -> Tensor:
        return topi.nn.relu(x)

Tensors come as te tensors, absent optional inputs as None, sequences as lists. The function returns a tensor, a list
for a sequence, or a tuple of several outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched import te
from autosched.errors import ModelError
from autosched.graph.known import Undecided, known
from autosched.graph.small import carried, carrier, is_small
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr
from autosched.ir.visit import rebuild
from autosched.te.tensor import Tensor

Array = np.ndarray[Any, Any]
Dim = int | Expr
#: a tensor, a sequence of tensors, or an optional that holds nothing
Value = Tensor | list[Any] | None
Reader = Callable[..., Any]

#: ONNX's name of an operator, with its domain in front unless that is the standard's -> the function that reads it
OPERATORS: dict[str, Reader] = {}


def operator(*names: str) -> Callable[[Reader], Reader]:
    """Enter a function in the table of operators, under each of these names."""

    def enter(f: Reader) -> Reader:
        for name in names:
            OPERATORS[name] = f
        return f

    return enter


@dataclass
class Node:
    """One node of a model.

    kind:    its operator, `Conv`; `opset` is the version of the operator set that it is read in
    name:    its own name, or that of its first output
    attrs:   attributes as Python's numbers, texts (str), lists, NumPy arrays for tensors
    outputs: names of its results; "" for those that nobody wants
    bodies:  attributes that are graphs, as functions of a list of values that return a list of values
    """

    kind: str
    name: str
    opset: int
    attrs: dict[str, Any]
    outputs: Sequence[str]
    constants: dict[Tensor, Array] = field(repr=False)
    bodies: dict[str, Callable[[Sequence[Value]], list[Value]]] = field(default_factory=dict, repr=False)
    #: tensors whose values are of a type that no kernel stores: see `graph.onnx.small`
    small: dict[Tensor, np.dtype[Any]] = field(default_factory=dict, repr=False)

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default of the standard, which the caller says."""
        return self.attrs.get(name, default)

    def constant(self, value: Any, dtype: object = None) -> Tensor:
        """A tensor of these values."""
        array = np.ascontiguousarray(value, dtype=None if dtype is None else to_dtype(dtype).numpy)
        array = array.reshape(np.shape(value))  # ascontiguousarray makes one dimension of none
        made = te.placeholder(array.shape, carrier(array.dtype), name="constant")
        self.constants[made] = carried(array)
        if is_small(array.dtype):
            self.small[made] = array.dtype
        return made

    def values(self, t: Tensor) -> Array:
        """The elements of a tensor in numbers, such as axes or pads. Raises Undecided where only a run knows them."""
        found = known(t, self.constants)
        if found.dtype == object:
            if any(isinstance(x, Expr) for x in found.flat):
                raise self.refused("it depends on a symbolic dimension", "a number for it: see `shapes` of load")
            found = found.astype(t.dtype.numpy)
        return found

    def dims(self, t: Tensor) -> list[Dim]:
        """The elements of a tensor of one dimension, or of none, as dimensions: numbers, or expressions over sizes."""
        return [_dim(x) if isinstance(x, Expr) else int(x) for x in known(t, self.constants).reshape(-1)]

    def number(self, t: Tensor) -> Any:
        """The one element of a tensor, as a Python number."""
        found = self.values(t)
        if found.size != 1:
            raise self.refused(f"{t!r} is no single number", "a tensor of one element")
        return found.item()

    def is_known(self, t: Tensor) -> bool:
        """Whether `values` or `dims` would say something."""
        try:
            known(t, self.constants)
        except Undecided:
            return False
        return True

    def refused(self, why: str, legal: str = "") -> ModelError:
        """The error to raise for what cannot be compiled, with the node's name."""
        return ModelError(why, asked=f"{self.kind} node {self.name!r}", legal=legal)


def _dim(e: Expr) -> Expr:
    """An expression over sizes without the casts to int64 that every shape has in ONNX."""
    if e.op == "cast" and e.index:
        return _dim(e.args[0])
    return rebuild(e, tuple(map(_dim, e.args))) if e.args else e
