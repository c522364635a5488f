"""`relay.build`: a model compiled, and what TVM's programs do with the result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from autosched.errors import ModelError
from autosched.graph.compiled import CompiledModel
from autosched.graph.loaded import Model
from autosched.runtime import ndarray as nd
from autosched.runtime.device import resolve_target
from autosched.target import Target
from autosched.tvm.contrib.graph_executor import GraphExecutorFactory, GraphModule
from autosched.tvm.relay.frontend import RelayModule, with_params
from autosched.tvm.transform import PassContext


class ModelLibrary:
    """The code of a model: the second of the three results of `relay.build`."""

    def __init__(self, factory: ExecutorFactoryModule) -> None:
        self.factory = factory

    def get_source(self, fmt: str = "source") -> str:
        """The code of all kernels, and of the function that calls them one after the other, as `Module.get_source`
        gives it: for the target c, C99."""
        compiled = self.factory.compiled
        return "\n".join(m.get_source(fmt) for m in (*compiled.modules, compiled.executable.module))

    @property
    def type_key(self) -> str:
        return self.factory.target.kind

    @property
    def imported_modules(self) -> list[Any]:
        return self.factory.compiled.executable.module.imported_modules

    def export_library(self, file_name: str, **options: Any) -> None:
        """Write a library with the weights inside; see `GraphExecutorFactory`."""
        self.factory.export_library(file_name, **options)

    def __getitem__(self, name: str) -> Any:
        return self.factory[name]


class ExecutorFactoryModule(GraphExecutorFactory):
    """What `relay.build` returns: `lib["default"](device)` runs, `graph, lib, params = ..` takes it apart.

    compiled: the model as `autosched.graph` compiled it;  target: what for
    """

    def __init__(self, compiled: CompiledModel, ir_mod: RelayModule, libmod_name: str) -> None:
        super().__init__(compiled.executable, libmod_name)
        self.compiled, self.ir_mod = compiled, ir_mod
        self.target: Target = compiled.target
        self.lib = ModelLibrary(self)
        #: weights are in the library
        self.params: dict[str, Any] = {}

    @property
    def module(self) -> ExecutorFactoryModule:
        return self

    @property
    def graph_json(self) -> str:
        """The calls of kernels as JSON: `nodes` (inputs, then calls), `arg_nodes` (numbers of inputs), `heads`."""
        cut, graph = self.compiled.cut, self.compiled.graph
        number = {n: k for k, n in enumerate(cut.inputs.values())}
        nodes: list[dict[str, Any]] = [{"op": "null", "name": name, "inputs": []} for name in cut.inputs]
        for call in cut.calls:
            kernel, read, made, _ = call
            workload = cut.kernels[kernel].workload.name
            inputs = [[number[n], 0, 0] for n in read if n in number]
            nodes.append({"op": "tvm_op", "name": workload, "attrs": {"func_name": workload}, "inputs": inputs})
            number.update(dict.fromkeys(made, len(nodes) - 1))
        heads = [[number[n], 0, 0] for n in cut.outputs.values() if n in number]
        whole = {"nodes": nodes, "arg_nodes": [*range(len(cut.inputs))], "heads": heads, "name": graph.name}
        return json.dumps(whole, indent=2)

    def get_graph_json(self) -> str:
        return self.graph_json

    get_executor_config = get_graph_json

    def get_lib(self) -> ModelLibrary:
        return self.lib

    def get_params(self) -> dict[str, Any]:
        return self.params

    def __iter__(self) -> Iterator[Any]:
        return iter((self.graph_json, self.lib, self.params))


def build(
    ir_mod: Any,
    target: Any = None,
    target_host: Any = None,
    executor: Any = None,
    runtime: Any = None,
    workspace_memory_pools: Any = None,
    constant_memory_pools: Any = None,
    params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
) -> ExecutorFactoryModule:
    """Compile a model for a target (the current one, or the CPU).

    params: values of weights, which become constants

    Kernels take the best of their records; without one what a model of this machine predicts, or, in a
    `PassContext(opt_level=0)`, the default schedule. Weights are inside of the result. `executor` and `runtime` change
    nothing: one native function calls all kernels. Raises ModelError, BuildError, LowerError, TargetError.
    """
    return compile_model(_model_of(ir_mod, params), target, mod_name)


def compile_model(
    model: Model, target: Any = None, mod_name: str = "default", records: str | None = None
) -> ExecutorFactoryModule:
    """Compile with the options of the current context; `records` is a folder of records."""
    if isinstance(target, Mapping):
        kinds = [*target.values()]
        if len(kinds) != 1:
            raise ModelError("one target runs a model", asked=f"relay.build(target={target!r})", legal='"llvm"')
        target = kinds[0]
    to = resolve_target(target if target is not None else Target.current(allow_none=True) or "llvm")
    effort = "none" if PassContext.current().opt_level == 0 else "quick"
    return ExecutorFactoryModule(model.compile(to, effort=effort, records=records), RelayModule(model), mod_name)


def _model_of(ir_mod: Any, params: Mapping[str, Any] | None) -> Model:
    if not isinstance(ir_mod, RelayModule):
        legal = "mod, params = relay.frontend.from_onnx(..)"
        raise ModelError(f"{type(ir_mod).__name__} is no model", asked="relay.build(mod)", legal=legal)
    return with_params(ir_mod.model, params) if params else ir_mod.model


class GraphEvaluator:
    """`create_executor(..)`: `evaluate()` returns a function of the inputs, by position or by name."""

    def __init__(self, factory: ExecutorFactoryModule, device: Any) -> None:
        self.module = GraphModule(factory["default"](device))

    def evaluate(self, expr: Any = None) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            for k, value in enumerate(args):
                self.module.set_input(k, value)
            self.module.run(**named)
            outputs = [self.module.get_output(k) for k in range(self.module.get_num_outputs())]
            return outputs[0] if len(outputs) == 1 else outputs

        return call


def create_executor(
    kind: str = "graph",
    mod: Any = None,
    device: Any = None,
    target: Any = "llvm",
    params: Mapping[str, Any] | None = None,
) -> GraphEvaluator:
    """Compile a model for calls as a Python function. Every `kind` of executor is the same one here."""
    factory = build(mod, target, params=params)
    return GraphEvaluator(factory, device if device is not None else nd.device("cpu"))
