"""A model that is compiled: kernels with the schedules that are known for them, and runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from autosched.codegen.artifact import Artifact
from autosched.codegen.signature import Param
from autosched.errors import TargetError
from autosched.exporting.folder import Exported
from autosched.graph import memory
from autosched.graph.building import build_all
from autosched.graph.export import compile_c_program, export_c, export_llvm, export_opencl
from autosched.graph.kernels import Cutter, bytes_of, calls_of, param_of
from autosched.graph.layout import prepared
from autosched.graph.linking import link
from autosched.graph.merging import merge_launches
from autosched.graph.model import Graph
from autosched.graph.program import Place, Program
from autosched.graph.running import Executable, Output
from autosched.graph.weights import as_block, described
from autosched.ir.dtype import dtype
from autosched.ir.printer import file_name
from autosched.runtime.launch import LaunchPlan
from autosched.runtime.module import Module
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.te.tensor import Tensor

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Memory:
    """Bytes for intermediates: of the arena, of all of them apart, and the most that are alive at once."""

    arena: int
    apart: int
    alive: int


@dataclass(frozen=True)
class Timed:
    """A call of a kernel: the model's nodes that it computes, where its schedule came from, and its seconds."""

    nodes: str
    workload: Workload
    provenance: Mapping[str, Any]
    seconds: float


class CompiledModel:
    """A model for fixed shapes on one target. `run` computes its outputs.

    graph:    what it was compiled from;  prepared: the same after the passes, of which the kernels are parts
    cut:      the kernels and their calls
    modules:  a compiled function for each kernel, with its provenance
    program:  the same as plain data
    """

    def __init__(
        self,
        graph: Graph,
        target: Target,
        effort: str = "quick",
        records: str | None = None,
        progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> None:
        self.graph, self.target = graph, target
        self.prepared = prepared(graph)
        self.cut = cut = Cutter(self.prepared).cut_up()
        stem = file_name(graph.name)
        names = [f"{stem}_{i}_{k.workload.name}" for i, k in enumerate(cut.kernels)]
        built = build_all([k.workload for k in cut.kernels], names, target, effort, records, progress)
        self.modules = [Module(b.artifact, target, provenance=b.provenance) for b in built]
        self.offsets, self.memory = self._plan()
        self.program = Program(
            stem,
            tuple(param_of(name, cut.tensors[n], False) for name, n in cut.inputs.items()),
            tuple(param_of(name, cut.tensors[n], True) for name, n in cut.outputs.items()),
            tuple(cut.weights.values()),
            tuple(m.artifact for m in self.modules),
            tuple(calls_of(cut, self.offsets)),
            self.memory.arena,
        )

    def _plan(self) -> tuple[dict[int, int], Memory]:
        """Offsets of intermediates in the arena, by number of tensor."""
        cut = self.cut
        known = {*cut.inputs.values(), *cut.outputs.values(), *cut.weights}
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for at, (_, read, made, _) in enumerate(cut.calls):
            for n in (*read, *made):
                if n not in known:
                    first.setdefault(n, at)
                    last[n] = at
        numbers = list(first)
        life = [bytes_of(cut.tensors[n]) for n in numbers], [first[n] for n in numbers], [last[n] for n in numbers]
        offsets, size = memory.plan(*life)
        used = Memory(size, memory.total(life[0]), memory.lower_bound(*life))
        return dict(zip(numbers, offsets, strict=True)), used

    # -- runs -------------------------------------------------------------------------------------
    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name, for arrays by name of input.

        Raises ModelError for an input that is missing, or has another shape or type.
        """
        return self.executable.run(inputs)

    @cached_property
    def executable(self) -> Executable:
        """What runs: all kernels as one function."""
        module = Module(linked(self.program, self.target), self.target)
        outputs = [
            Output(name, len(v) if isinstance(v, list) else None, small.name if small else None, v is None)
            for name, v in self.graph.outputs.items()
            for small in [self.graph.small.get(name)]
        ]
        weights = self.program.weights
        return Executable(self.graph.name, module, as_block(weights), described(weights), outputs)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a library with the weights inside, `x.so` or `x.tar`, which `Executable.load` runs without what the
        model was compiled from.

        Raises BuildError, UsageError for another kind of file, FileError where it cannot be written.
        """
        self.executable.save(path)

    def export(self, folder: str | os.PathLike[str], *, arrays: bool = False, force: bool = True) -> Exported:
        """Write what needs nothing of this library: for c, C99 that `cc` builds alone; for llvm, objects, a header and
        a shared library; for opencl, kernels and a launcher. `weights.bin` has the weights.

        arrays: weights as C arrays, too, for the target c
        force:  replace files that are there already

        Raises BuildError or FileError, UsageError for a file that is there already unless `force`.
        """
        if self.target.kind == "c":
            return export_c(self.program, folder, self.target, arrays=arrays, force=force)
        if arrays:
            raise TargetError("arrays of C are for C", asked=f"export, target {self.target}", legal="the target c")
        export = export_opencl if self.target.kind == "opencl" else export_llvm
        return export(self.program, folder, self.target, force=force)

    def profile(self, inputs: Mapping[str, Any], repeat: int = 10) -> list[Timed]:
        """The median time of each call of a kernel over some runs, in order; on a device by the device's clock."""
        given = [*self.executable.checked(inputs), *self.executable.weight_arguments]
        clocked = self._on_device if self.target.kind == "opencl" else self._on_host
        median = np.median(np.stack(clocked(given, repeat + 1)[1:]), axis=0)
        return [
            Timed(
                call.name,
                self.cut.kernels[call.kernel].workload,
                self.modules[call.kernel].provenance,
                float(seconds),
            )
            for call, seconds in zip(self.program.calls, median, strict=True)
        ]

    def _on_host(self, given: Sequence[Any], runs: int) -> list[Array]:
        """The seconds of each call in each run."""
        module = Module(linked(self.program, self.target, profile=True), self.target)
        found = [module(*given) for _ in range(runs)]
        return [np.array(x[-1] if isinstance(x, (tuple, list)) else x) * 1e-9 for x in found]

    def _on_device(self, given: Sequence[Any], runs: int) -> list[Array]:
        """The same, of which each call may be several launches, or none."""
        f = self.executable.module
        calls = f.artifact.meta["calls"]
        numbers = [calls[place] for place, _ in LaunchPlan.of(f.artifact).in_order({})]
        taken = [np.zeros(len(self.program.calls)) for _ in range(runs)]
        with f.bound(given) as bound:
            for row in taken:
                np.add.at(row, numbers, cast(Any, bound).times() if numbers else [])
        return taken

    def intermediates(self, inputs: Mapping[str, Any], wanted: Sequence[Tensor]) -> dict[Tensor, Array]:
        """The values of tensors that lie in memory between kernels (`values_of`), after one run."""
        given, made = self._arrays(inputs)
        found: dict[Tensor, Array] = {}
        for k, (_, _, numbers, _) in enumerate(self.cut.calls):
            arrays = self._call(k, given, made)
            here = dict(zip(numbers, arrays[-len(numbers) :], strict=True))
            found.update({t: here[n].copy() for t in wanted if (n := self.values_of[t]) in here})
        return found

    @cached_property
    def values_of(self) -> dict[Tensor, int]:
        """The tensors that calls make, and their numbers in `cut`."""
        return {self.cut.tensors[n]: n for _, _, made, _ in self.cut.calls for n in made}

    def _arrays(self, inputs: Mapping[str, Any]) -> tuple[list[Array], list[Array]]:
        given = self.executable.checked(inputs)
        return given, [np.empty(p.shape_for({}), _numpy(p)) for p in self.program.outputs]

    def _call(self, k: int, given: list[Array], made: list[Array]) -> list[Array]:
        """Run one kernel; its arrays."""
        call = self.program.calls[k]
        module = self.modules[call.kernel]
        params = module.signature.params
        arrays = [self._array(place, p, given, made) for place, p in zip(call.places, params, strict=True)]
        module(*arrays)
        return arrays

    def _array(self, place: Place, p: Param, given: list[Array], made: list[Array]) -> Array:
        match place.kind:
            case "input":
                return given[place.number]
            case "output":
                return made[place.number]
            case "weight":
                return self.program.weights[place.number]
        size = int(np.prod(p.shape_for({}), dtype=np.int64)) * _numpy(p).itemsize
        return self._block[place.number : place.number + size].view(_numpy(p)).reshape(p.shape_for({}))

    @cached_property
    def _block(self) -> Array:
        """The arena, aligned."""
        whole = np.zeros(self.memory.arena + memory.ALIGNMENT, np.uint8)
        start = -whole.ctypes.data % memory.ALIGNMENT
        return whole[start : start + self.memory.arena]


def linked(program: Program, target: Target, *, profile: bool = False) -> Artifact:
    """The program as one function; see `linking.link`. Raises TargetError for a target without one."""
    if target.kind == "llvm":
        return link(program, target, profile=profile)
    if target.kind == "c":
        return compile_c_program(program, target, profile=profile)
    if target.kind == "opencl" and not profile:
        return merge_launches(program, target)
    raise TargetError("there is no such function of a model", asked=f"target {target}", legal="llvm, c and opencl")


def _numpy(p: Param) -> np.dtype[Any]:
    return dtype(p.dtype).numpy
