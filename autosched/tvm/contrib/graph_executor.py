"""`tvm.contrib.graph_executor`: compiled models, with their inputs and outputs by name or by number.

lib = relay.build(mod, target="llvm", params=params)
module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
module.set_input("data", image)
module.run()
result = module.get_output(0).numpy()
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from autosched.errors import ModelError, UsageError, check_positive
from autosched.graph.running import Executable
from autosched.ir.dtype import dtype
from autosched.runtime import ndarray as nd
from autosched.runtime.device import Device
from autosched.runtime.function import BenchmarkResult
from autosched.runtime.ndarray import NDArray
from autosched.tvm._missing import missing
from autosched.tvm.runtime import load_param_dict

Array = np.ndarray[Any, Any]


class GraphExecutor:
    """A compiled model on a device: `executor["run"]()`, `executor["set_input"]("data", x)`, and so on."""

    def __init__(self, executable: Executable, device: Device, compiled: Any = None) -> None:
        self.executable, self.device, self.compiled = executable, device, compiled
        self.inputs: dict[str, Array] = {
            p.name: np.zeros(p.shape_for({}), dtype(p.dtype).numpy) for p in executable.inputs
        }
        self.outputs: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function of `GraphModule` by its name. Raises UsageError for one that there is not."""
        legal = [n for n in vars(GraphModule) if not n.startswith("_")]
        if name not in legal:
            raise UsageError(f"there is no function {name!r}", asked=f"module[{name!r}]", legal=", ".join(legal))
        found: Callable[..., Any] = getattr(GraphModule(self), name)
        return found

    def time_evaluator(
        self, func_name: str, dev: Any = None, number: int = 10, repeat: int = 1, min_repeat_ms: int = 0, **more: Any
    ) -> Callable[..., BenchmarkResult]:
        """A timer of a function: `repeat` samples, each the mean of `number` calls, or of more where these last less
        than `min_repeat_ms`. Called with the function's arguments, it returns their seconds."""
        function = self[func_name]
        return lambda *args, **named: _timed(lambda: function(*args, **named), number, repeat, min_repeat_ms)


def _timed(call: Callable[[], object], number: int, repeat: int, min_repeat_ms: int) -> BenchmarkResult:
    """The seconds of a call, after one that does not count."""
    check_positive("time_evaluator", or_none=False, number=number, repeat=repeat)
    call()
    calls = number
    samples: list[float] = []
    while len(samples) < repeat:
        begun = time.perf_counter()
        for _ in range(calls):
            call()
        took = time.perf_counter() - begun
        if took * 1e3 < min_repeat_ms:
            calls = max(calls + 1, int(calls * min(min_repeat_ms / (took * 1e3), 10.0)))
        else:
            samples.append(took / calls)
    return BenchmarkResult(tuple(samples))


class GraphExecutorFactory:
    """A compiled model, for any device of its target: `factory["default"](tvm.cpu())`."""

    compiled: Any = None  #: the model with its kernels, where it was compiled here

    def __init__(self, executable: Executable, libmod_name: str = "default") -> None:
        self.executable, self.libmod_name = executable, libmod_name

    def __getitem__(self, name: str) -> Callable[[Device], GraphExecutor]:
        """What makes a `GraphExecutor`. Raises UsageError for another name than `default`, or that of the module."""
        if name not in ("default", self.libmod_name, "debug_create"):
            raise UsageError(f"there is no function {name!r}", asked=f"lib[{name!r}]", legal=f'"{self.libmod_name}"')
        skipped = int(name == "debug_create")  # which is told the name of the module first
        return lambda *given: GraphExecutor(self.executable, _device(self.executable, *given[skipped:]), self.compiled)

    def export_library(self, file_name: str, **options: Any) -> None:
        """Write a library with the weights inside, `x.so` or `x.tar`, for `tvm.runtime.load_module`."""
        if options:
            legal = "x.so, which the C compiler that is found links; CC names another"
            raise UsageError(f"{', '.join(options)} cannot be chosen", asked="export_library of a model", legal=legal)
        self.executable.save(file_name)


def _device(executable: Executable, *devices: Any) -> Device:
    """The first device, which must be one that the code runs on."""
    kind = executable.module.target.kind
    runs_on = "cpu" if kind in ("llvm", "c") else kind
    first: Device = devices[0] if devices else nd.device(runs_on)
    if isinstance(first, (list, tuple)):
        return _device(executable, *first)
    if not isinstance(first, Device) or first.kind != runs_on:
        raise UsageError(f"the model is compiled for {kind}", asked=f"{first!r}", legal=f"tvm.{runs_on}()")
    return first


class GraphModule:
    """A model that is called in steps.

    module: what `lib["default"](device)` returns
    """

    def __init__(self, module: Any) -> None:
        if not isinstance(module, GraphExecutor):
            legal = 'lib["default"](tvm.cpu()), of what relay.build returns'
            raise UsageError("it is no compiled model", asked=f"GraphModule({type(module).__name__})", legal=legal)
        self.module = module

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self.module[name]

    # -- inputs -----------------------------------------------------------------------------------
    def set_input(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Copy a value into an input, by its name or number; those of `params` that are no inputs, such as weights,
        are passed over, as in TVM.

        Raises ModelError for an input that there is not, or a value of another shape.
        """
        if key is not None:
            name = self._name(key)
            self._copy(name, value)
        for name, array in params.items():
            if name in self.module.inputs:
                self._copy(name, array)

    def _name(self, key: str | int) -> str:
        names = [*self.module.inputs]
        if isinstance(key, (int, np.integer)) and 0 <= key < len(names):
            return names[int(key)]
        if key not in names:
            asked = f"input {key!r} of {self.module.executable.name}"
            raise ModelError("there is no such input", asked=asked, legal=", ".join(names) or "it has none")
        return str(key)

    def _copy(self, name: str, value: Any) -> None:
        to = self.module.inputs[name]
        given = value.numpy() if isinstance(value, NDArray) else np.asarray(value)
        if given.shape != to.shape:
            asked = f"set_input({name!r}) of {self.module.executable.name}"
            raise ModelError(f"its shape is {list(given.shape)}", asked=asked, legal=f"{to.dtype}{list(to.shape)}")
        to[...] = given

    def get_num_inputs(self) -> int:
        return len(self.module.inputs)

    def get_input(self, index: str | int, out: Any = None) -> Any:
        """The value of an input."""
        return _into(self.module.inputs[self._name(index)], out)

    def get_input_index(self, name: str) -> int:
        """The number of an input; -1 if there is no such one."""
        names = [*self.module.inputs]
        return names.index(name) if name in names else -1

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Shapes and types of the inputs by name."""
        inputs = self.module.inputs.items()
        return {name: x.shape for name, x in inputs}, {name: x.dtype.name for name, x in inputs}

    def load_params(self, params_bytes: bytes) -> None:
        """Set inputs from what `save_param_dict` gave. Weights are in the library already."""
        self.set_input(**load_param_dict(params_bytes))

    # -- runs -------------------------------------------------------------------------------------
    def run(self, **input_dict: Any) -> None:
        """Set these inputs, and compute all outputs."""
        if input_dict:
            self.set_input(**input_dict)
        self.module.outputs = self.module.executable.run(self.module.inputs)

    def get_num_outputs(self) -> int:
        return len(self.module.executable.outputs)

    def get_output(self, index: int, out: Any = None) -> Any:
        """An output of the last run, by its number. Raises ModelError for one that there is not, or before a run."""
        names = [o.name for o in self.module.executable.outputs]
        asked = f"get_output({index!r}) of {self.module.executable.name}"
        if not isinstance(index, (int, np.integer)) or not 0 <= index < len(names):
            raise ModelError("there is no such output", asked=asked, legal=f"0 to {len(names) - 1}: {', '.join(names)}")
        if not self.module.outputs:
            raise ModelError("nothing was computed yet", asked=asked, legal="run() first")
        return _into(self.module.outputs[names[int(index)]], out)

    def benchmark(
        self,
        device: Any,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Seconds of a call, each of `repeat` samples the mean of `number`. With `end_to_end`, the inputs in `kwargs`
        are set each time, and the outputs are fetched."""
        if not end_to_end:
            self.set_input(**kwargs)
            return _timed(self[func_name], number, repeat, min_repeat_ms or 0)

        def call() -> None:
            self.run(**kwargs)
            for k in range(self.get_num_outputs()):
                self.get_output(k)

        return _timed(call, number, repeat, min_repeat_ms or 0)


def _into(value: Any, out: Any) -> Any:
    """An array of the device, or what `out` is then."""
    if not isinstance(value, np.ndarray):
        return value
    if out is None:
        return nd.array(value)
    out.copyfrom(value)
    return out


def create(graph_json_str: str, libmod: Any, device: Any) -> GraphModule:
    """The model of the three results of `relay.build`: the library is what counts."""
    json.loads(graph_json_str)
    factory = getattr(libmod, "factory", libmod)
    if not isinstance(factory, GraphExecutorFactory):
        legal = "graph, lib, params = relay.build(..)"
        raise UsageError("it is no library of a model", asked=f"create(.., {type(libmod).__name__})", legal=legal)
    return GraphModule(factory["default"](device))


def factory_of(module: Any, path: str) -> GraphExecutorFactory:
    """The model that a loaded library has inside. Raises ModelError."""
    return GraphExecutorFactory(Executable.of(module, path))


__getattr__ = missing("contrib.graph_executor", globals(), {"get_device": "tvm.device(name, index)"})
