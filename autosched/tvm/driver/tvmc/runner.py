"""`tvmc.run`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.runtime import ndarray as nd
from autosched.tvm.contrib.graph_executor import GraphExecutorFactory, GraphModule
from autosched.tvm.driver.tvmc.model import TVMCPackage, TVMCResult

Array = np.ndarray[Any, Any]
_FILLS = ("random", "zeros", "ones")


def run_module(
    tvmc_package: TVMCPackage,
    device: str,
    hostname: str | None = None,
    port: int | str = 9090,
    rpc_key: str | None = None,
    inputs: Mapping[str, Any] | str | None = None,
    fill_mode: str = "random",
    repeat: int = 10,
    number: int = 10,
    profile: bool = False,
    end_to_end: bool = False,
    options: Any = None,
    benchmark: bool = True,
    print_time: bool = False,
    print_top: int | None = None,
) -> TVMCResult:
    """Run a compiled model on a device, and time it.

    inputs:    arrays by name, or an .npz file; those that are missing are filled as `fill_mode` says
    fill_mode: "random" (from 0 to 1), "zeros", "ones"

    Raises UsageError for options that have no meaning here, ModelError for inputs that do not fit.
    """
    if rpc_key is not None or hostname is not None or options:
        raise UsageError(
            "models run on this machine", asked="tvmc.run(rpc_key=.., hostname=.., options=..)", legal="None"
        )
    if profile:
        raise UsageError("a package keeps no kernels apart", asked="tvmc.run(profile=True)",
                         legal="autosched run model.onnx --profile")  # fmt: skip
    if fill_mode not in _FILLS:
        raise UsageError(f"no fill_mode {fill_mode!r}", asked="tvmc.run", legal=", ".join(_FILLS))
    on = nd.device("opencl" if device in ("cl", "opencl") else device)
    module = GraphModule(GraphExecutorFactory(tvmc_package.executable)["default"](on))
    given = dict(np.load(inputs, allow_pickle=False)) if isinstance(inputs, str) else dict(inputs or {})
    rng = np.random.default_rng(0)
    for name, like in module.module.inputs.items():
        module.set_input(name, given.pop(name) if name in given else _filled(like, fill_mode, rng))
    for name in given:
        module.set_input(name, given[name])  # raises: there is no such input
    module.run()
    outputs = {f"output_{k}": np.asarray(module.get_output(k)) for k in range(module.get_num_outputs())}
    times = module.benchmark(on, repeat=repeat, number=number, end_to_end=end_to_end) if benchmark else None
    result = TVMCResult(outputs, times)
    if print_time:
        print(result.format_times(), file=sys.stdout)
    return result


def _filled(like: Array, mode: str, rng: np.random.Generator) -> Array:
    if mode == "random":
        return np.asarray(rng.uniform(size=like.shape)).astype(like.dtype)
    return np.full(like.shape, mode == "ones", like.dtype)
