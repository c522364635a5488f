"""From a graph to its kernels: te programs of their own, each distinct one once, and where their arrays lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched import te
from autosched.codegen.signature import Param
from autosched.errors import ModelError
from autosched.graph.group import Group, groups_of
from autosched.graph.model import Graph, tensors_of
from autosched.graph.program import Call, Place
from autosched.graph.rewriting import Changes, Read, Rewriter, read_of
from autosched.ir.expr import const, is_const
from autosched.space.workload import Workload
from autosched.te.tensor import PlaceholderOp, Tensor

Array = np.ndarray[Any, Any]


@dataclass
class Kernel:
    """A te program that is part of a model, and the number of its calls in one run."""

    workload: Workload
    count: int = 0
    #: what it computes, by the model's nodes
    kinds: tuple[str, ...] = ()

    @property
    def is_tunable(self) -> bool:
        """Whether it has anything to compute."""
        return all(d.value for t in self.workload.args for d in t.shape)


@dataclass
class Cut:
    """A graph in kernels: distinct ones, and the calls in order, over numbered tensors.

    A call is (kernel, tensors it reads, tensors it makes); `inputs`, `outputs` and `weights` are numbers, too.
    """

    name: str
    tensors: list[Tensor] = field(default_factory=list)
    inputs: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, int] = field(default_factory=dict)
    weights: dict[int, Array] = field(default_factory=dict)
    kernels: list[Kernel] = field(default_factory=list)
    calls: list[tuple[int, tuple[int, ...], tuple[int, ...], str]] = field(default_factory=list)


def flat_outputs(graph: Graph) -> dict[str, Tensor]:
    """The tensors that a run makes, by name; one of a sequence is `name.0`. One that is an input, a constant or has
    two names is copied."""
    found: dict[str, Tensor] = {}
    for name, value in graph.outputs.items():
        several = tensors_of(value)
        for k, t in enumerate(several):
            label = f"{name}.{k}" if isinstance(value, list) else name
            if isinstance(t.op, PlaceholderOp) or t in found.values():
                t = te.compute(t.shape, lambda *i, t=t: t(*i), name="copy")
            found[label] = t
    return found


class Cutter:
    """Cuts a graph into kernels."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.kinds = {t: (s.kind, s.name) for s in graph.steps for t in s.outputs.values()}
        self.number: dict[Tensor, int] = {}
        self.by_key: dict[str, int] = {}
        self.cut = Cut(graph.name)

    def cut_up(self) -> Cut:
        """The kernels. Raises ModelError for a graph with symbolic dimensions."""
        outputs = flat_outputs(self.graph)
        for name, t in (*self.graph.inputs.items(), *outputs.items()):
            if not all(is_const(d) for d in t.shape):
                legal = "numbers for its dimensions: `shapes` of load, or inputs of a run"
                raise ModelError(
                    f"{name!r} has the shape {list(t.shape)}", asked=f"compile {self.graph.name}", legal=legal
                )
        for name, t in self.graph.inputs.items():
            self.cut.inputs[name] = self._number(t)
        for g in groups_of(outputs.values()):
            self._add(g)
        self.cut.outputs = {name: self._number(t) for name, t in outputs.items()}
        return self.cut

    def _number(self, t: Tensor) -> int:
        if t not in self.number:
            self.number[t] = len(self.cut.tensors)
            self.cut.tensors.append(t)
        return self.number[t]

    def _add(self, g: Group) -> None:
        if not any(map(bytes_of, g.outputs)):
            return  # nothing is computed, and what reads it reads nothing
        inside = {t for op in g.ops for t in op.outputs}
        states = {t for op in g.ops for t in op.state_placeholder}
        read = dict.fromkeys(t for op in g.ops for t in op.input_tensors if t not in inside and t not in states)
        constants = {t: self._element(t) for t in read if self._is_scalar(t)}
        outside = [t for t in read if t not in constants]
        places = {t: te.placeholder(t.shape, t.dtype, name=f"in{k}") for k, t in enumerate(outside)}
        reads: dict[Tensor, Read] = {t: read_of(p) for t, p in places.items()} | constants
        made = Rewriter(Changes(reads)).tensors(g.outputs)
        kinds = tuple(dict.fromkeys(self.kinds[t][0] for op in g.ops for t in op.outputs if t in self.kinds))
        names = [self.kinds[t][1] for op in g.ops for t in op.outputs if t in self.kinds]
        args = (*places.values(), *made)
        workload = Workload("_".join(map(str.lower, kinds[:4])) or "copy", args, is_anonymous=True)
        k = self.by_key.setdefault(workload.key, len(self.cut.kernels))
        if k == len(self.cut.kernels):
            self.cut.kernels.append(Kernel(workload, kinds=kinds))
        self.cut.kernels[k].count += 1
        numbers = tuple(self._number(t) for t in outside), tuple(self._number(t) for t in g.outputs)
        for t in outside:
            if t in self.graph.constants:
                self.cut.weights[self._number(t)] = self.graph.constants[t]
        self.cut.calls.append((k, *numbers, ", ".join(dict.fromkeys(names))))

    def _is_scalar(self, t: Tensor) -> bool:
        array = self.graph.constants.get(t)
        return array is not None and array.size == 1

    def _element(self, t: Tensor) -> Read:
        value = const(self.graph.constants[t].reshape(-1)[0], t.dtype)
        return lambda at: value


def calls_of(cut: Cut, offsets: Mapping[int, int]) -> list[Call]:
    """The calls with the place of each argument; `offsets` are those of intermediates in the arena."""
    weights = {number: k for k, number in enumerate(cut.weights)}
    inputs = {number: k for k, number in enumerate(cut.inputs.values())}
    outputs = {number: k for k, number in enumerate(cut.outputs.values())}

    def place(number: int) -> Place:
        if number in outputs:
            return Place("output", outputs[number])
        if number in inputs:
            return Place("input", inputs[number])
        return Place("weight", weights[number]) if number in weights else Place("arena", offsets[number])

    return [Call(k, tuple(map(place, (*read, *made))), name) for k, read, made, name in cut.calls]


def param_of(name: str, t: Tensor, is_output: bool) -> Param:
    return Param(name, str(t.dtype), shape_of(t), is_output)


def shape_of(t: Tensor) -> tuple[int, ...]:
    return tuple(int(d.value) for d in t.shape)


def bytes_of(t: Tensor) -> int:
    return int(np.prod(shape_of(t), dtype=object)) * t.dtype.bytes
