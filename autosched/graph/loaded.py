"""`load`: a model of a file, whose graph is made when shapes, and values that decide shapes, are known."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.effort import EFFORTS, check_effort
from autosched.errors import ModelError
from autosched.graph.compiled import CompiledModel
from autosched.graph.model import Array, Graph, restored, tensors_of
from autosched.graph.onnx.reading import NeedsValues, Shapes, check_shapes, parse, read, stem_of
from autosched.graph.small import carried, returned
from autosched.graph.tuning import TunedModel, tune_model
from autosched.runtime.device import resolve_target
from autosched.target import Target, TargetLike
from autosched.te.reference import reference
from autosched.te.tensor import Tensor

if TYPE_CHECKING:
    import onnx


def _compiled(
    graph: Graph,
    target: Target,
    effort: str,
    records: str | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> CompiledModel:
    """The graph compiled; "full" searches first where no search on this machine has found the schedule of a kernel."""
    check_effort(effort, f"compile {graph.name}")
    compiled = CompiledModel(graph, target, effort, records, progress)
    if effort != "full":
        return compiled
    kernels = zip(compiled.cut.kernels, compiled.modules, strict=True)
    if all(m.provenance["kind"] == "record" for k, m in kernels if k.is_tunable):
        return compiled
    tune_model(graph, target, budget_s=EFFORTS["full"], records=records)
    return CompiledModel(graph, target, effort, records, progress)


class Model:
    """A model that was read from ONNX.

    proto:  the official package's object
    shapes: sizes that were given for symbolic dimensions
    """

    def __init__(self, proto: onnx.ModelProto, shapes: Shapes | None = None, name: str = "") -> None:
        self.proto = proto
        self.shapes = dict(shapes or {})
        self.name = name or proto.graph.name or "model"
        #: inputs whose values decide shapes: their values are compiled in
        self.deciding: tuple[str, ...] = ()
        self._compiled: dict[Any, CompiledModel] = {}

    @property
    def input_names(self) -> list[str]:
        """The inputs that a run needs, in the order of the model."""
        constants = {t.name for t in self.proto.graph.initializer}
        return [x.name for x in self.proto.graph.input if x.name not in constants]

    @property
    def output_names(self) -> list[str]:
        return [x.name for x in self.proto.graph.output]

    def graph(self, values: Mapping[str, Any] | None = None) -> Graph:
        """What it computes. `values` are given for inputs that decide shapes.

        Raises ModelError; NeedsValues, which names the inputs whose values are needed.
        """
        return read(self.proto, self.shapes, values, self.name)

    def graph_for(self, inputs: Mapping[str, Any]) -> Graph:
        """The graph for a run with these inputs: where values of some decide shapes, these are constants of it, and
        all other shapes are those of the inputs."""
        decided: dict[str, Any] = {name: inputs[name] for name in self.deciding}
        while True:
            try:
                given = {k: np.shape(x) for k, x in inputs.items() if isinstance(x, np.ndarray)} if decided else {}
                return read(self.proto, self.shapes | given, decided, self.name)
            except NeedsValues as error:
                missing = [name for name in error.names if name not in inputs]
                if missing or all(name in decided for name in error.names):
                    raise
                decided.update((name, inputs[name]) for name in error.names)
                self.deciding = tuple(decided)

    def reference(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name, by the oracle: slow, for judging what is compiled."""
        return evaluate(self.graph_for(inputs), inputs)

    def compile(
        self,
        target: TargetLike = None,
        *,
        effort: str = "quick",
        records: str | None = None,
        values: Mapping[str, Any] | None = None,
        progress: Callable[[int, int], None] = lambda done, of: None,
    ) -> CompiledModel:
        """Compile for the shapes that were given.

        effort:   "none" takes default schedules, also where there are records; for kernels without a record, "quick"
                  takes what a model of this machine predicts, and "full" searches first, for a minute in all
        records:  a folder to read records from, instead of the usual ones
        values:   arrays for inputs whose values decide shapes; they are compiled in
        progress: is called with the numbers of kernels that are done, and of all

        Raises ModelError, also for a dimension that is not known; BuildError or LowerError.
        """
        return _compiled(self.graph(values), resolve_target(target), effort, records, progress)

    def run(self, inputs: Mapping[str, Any], target: TargetLike = None, *, effort: str = "none") -> dict[str, Any]:
        """The outputs by name. The model is compiled once for each set of shapes, and for each value of an input that
        decides shapes: with default schedules, unless `effort` says more, as for `compile`.

        Raises ModelError for inputs that are missing or do not fit, and what `compile` raises.
        """
        self._check(inputs)
        to = resolve_target(target)
        shapes = {name: np.shape(x) for name, x in inputs.items() if isinstance(x, np.ndarray)}
        key = (str(to), effort, tuple(shapes.items()), self._decided(inputs))
        if key not in self._compiled:
            at = Model(self.proto, {**self.shapes, **shapes}, self.name)
            at.deciding = self.deciding
            compiled = _compiled(at.graph_for(inputs), to, effort)
            self.deciding = at.deciding
            key = (*key[:-1], self._decided(inputs))
            self._compiled[key] = compiled
        return self._compiled[key].run(inputs)

    def _decided(self, inputs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values of the inputs that decide shapes, to be compared."""
        return tuple(repr(np.asarray(inputs[name], object).tolist()) for name in self.deciding)

    def tune(
        self,
        target: TargetLike = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        verified: bool = True,
        **options: Any,
    ) -> TunedModel:
        """Tune the distinct kernels under one budget, each as important as it is often called; their records serve
        every model and workload with the same kernel.

        inputs:   whole runs on these are timed, before and after
        verified: first compare the untuned model with `onnx.reference` on the inputs
        options:  of `tune_tasks`: budget_s, trials, records, strategy, seed, measure, progress

        Raises ModelError; VerificationError, before anything is measured, where the untuned model is wrong.
        """
        proto = self.proto if verified else None
        return tune_model(self.graph(), resolve_target(target), proto, inputs, **options)

    def _check(self, inputs: Mapping[str, Any]) -> None:
        """Raise ModelError for inputs that are missing, or that there are not."""
        asked, legal = f"run {self.name}", f"its inputs are {', '.join(self.input_names) or 'none'}"
        if not isinstance(inputs, Mapping):
            raise ModelError(f"{type(inputs).__name__} is no mapping", asked=asked, legal="arrays by name of input")
        missing = [name for name in self.input_names if name not in inputs]
        unknown = [name for name in inputs if name not in self.input_names]
        if missing:
            raise ModelError(f"no value for {', '.join(map(repr, missing))}", asked=asked, legal=legal)
        if unknown:
            raise ModelError(f"there is no input {unknown[0]!r}", asked=asked, legal=legal)


def load(
    source: str | os.PathLike[str] | bytes | onnx.ModelProto, *, shapes: Shapes | None = None, name: str = ""
) -> Model:
    """The model of an ONNX file, of its bytes, or of an object of the package `onnx`.

    shapes: sizes of symbolic dimensions by name (`{"batch": 8}`), or whole shapes of inputs (`{"data": [1, 3, 8, 8]}`)

    Raises ModelError for a file that is no valid model, and for shapes of what it does not have; FileError where it
    cannot be read.
    """
    proto = parse(source)
    check_shapes(proto, shapes or {})
    return Model(proto, shapes, name or stem_of(source))


def evaluate(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of a graph by name, by the oracle."""
    missing = [name for name in graph.inputs if name not in inputs]
    if missing:
        legal = f"arrays for {', '.join(graph.inputs)}"
        raise ModelError(f"no value for {', '.join(missing)}", asked=f"run {graph.name}", legal=legal)
    values: dict[Tensor, Array] = {
        t: carried(np.asarray(inputs[name])) for name, t in graph.inputs.items()
    } | graph.constants
    wanted = list(dict.fromkeys(t for v in graph.outputs.values() for t in tensors_of(v) if t not in values))
    found = reference([*values, *wanted], [*values.values()])
    values.update(zip(wanted, found, strict=True))
    return {name: returned(restored(v, values), graph.small.get(name)) for name, v in graph.outputs.items()}
