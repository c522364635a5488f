"""A model that is compiled: kernels with the schedules that are known for them, and runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from autosched.errors import ModelError
from autosched.graph.building import build_all
from autosched.graph.kernels import Cutter, bytes_of, calls_of, param_of
from autosched.graph.layout import prepared
from autosched.graph.model import Graph, restored
from autosched.graph.program import Place, Program
from autosched.ir.dtype import dtype
from autosched.ir.printer import file_name
from autosched.runtime.module import Module
from autosched.target import Target

Array = np.ndarray[Any, Any]
_ALIGNMENT = 64


class CompiledModel:
    """A model for fixed shapes on one target. `run` computes its outputs."""

    def __init__(self, graph: Graph, target: Target, effort: str = "quick", records: str | None = None) -> None:
        self.graph, self.target = graph, target
        cut = Cutter(prepared(graph)).cut_up()
        self.cut = cut
        stem = file_name(graph.name)
        names = [f"{stem}_{i}_{k.workload.name}" for i, k in enumerate(cut.kernels)]
        built = build_all([k.workload for k in cut.kernels], names, target, effort, records)
        self.modules = [Module(b.artifact, target, provenance=b.provenance) for b in built]
        known = {*cut.inputs.values(), *cut.outputs.values(), *cut.weights}
        offsets, total = {}, 0
        for n, t in enumerate(cut.tensors):
            if n not in known:
                offsets[n] = total
                total += -(-bytes_of(t) // _ALIGNMENT) * _ALIGNMENT
        self.program = Program(
            stem,
            tuple(param_of(name, cut.tensors[n], False) for name, n in cut.inputs.items()),
            tuple(param_of(name, cut.tensors[n], True) for name, n in cut.outputs.items()),
            tuple(cut.weights.values()),
            tuple(m.artifact for m in self.modules),
            tuple(calls_of(cut, offsets)),
            total,
        )
        self._arena = np.zeros(total + _ALIGNMENT, np.uint8)
        self._start = -self._arena.ctypes.data % _ALIGNMENT

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name, for arrays by name of input. Raises ModelError for one that is missing or wrong."""
        given = [self._checked(p, inputs) for p in self.program.inputs]
        made = [np.empty(p.shape_for({}), _numpy(p.dtype)) for p in self.program.outputs]
        for call in self.program.calls:
            module = self.modules[call.kernel]
            arrays = [
                self._array(place, p, given, made)
                for place, p in zip(call.places, module.signature.params, strict=True)
            ]
            module(*arrays)
        found = dict(zip((p.name for p in self.program.outputs), made, strict=True))
        return self._named(found)

    def _named(self, found: Mapping[str, Array]) -> dict[str, Any]:
        """Outputs as the model has them: sequences as lists."""
        result: dict[str, Any] = {}
        for name, value in self.graph.outputs.items():
            if isinstance(value, list):
                values = {t: found[f"{name}.{k}"] for k, t in enumerate(value)}
                result[name] = restored(value, values)
            else:
                result[name] = None if value is None else found[name]
        return result

    def _checked(self, p: Any, inputs: Mapping[str, Any]) -> Array:
        asked = f"run {self.graph.name}"
        if p.name not in inputs:
            legal = f"its inputs are {', '.join(map(str, self.program.inputs))}"
            raise ModelError(f"no value for {p.name!r}", asked=asked, legal=legal)
        array = np.asarray(inputs[p.name])
        if array.dtype != _numpy(p.dtype) or array.shape != p.shape:
            raise ModelError(f"{p.name!r} is {array.dtype}{list(array.shape)}", asked=asked, legal=f"needed: {p}")
        return np.ascontiguousarray(array).reshape(p.shape_for({}))

    def _array(self, place: Place, p: Any, given: list[Array], made: list[Array]) -> Array:
        match place.kind:
            case "input":
                return given[place.number]
            case "output":
                return made[place.number]
            case "weight":
                return self.program.weights[place.number]
        of = _numpy(p.dtype)
        start = self._start + place.number
        size = int(np.prod(p.shape, dtype=np.int64)) * of.itemsize
        return self._arena[start : start + size].view(of).reshape(p.shape_for({}))


def _numpy(of: str) -> np.dtype[Any]:
    return dtype(of).numpy
