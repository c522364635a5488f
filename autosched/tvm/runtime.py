"""`tvm.runtime`: compiled modules, arrays, devices."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from autosched.errors import TargetError, UsageError
from autosched.ir.dtype import dtype
from autosched.ir.expr import as_expr
from autosched.ir.expr import const as const
from autosched.runtime import export
from autosched.runtime import ndarray as ndarray
from autosched.runtime.device import Device as Device
from autosched.runtime.device import cpu as cpu
from autosched.runtime.device import cuda as cuda
from autosched.runtime.device import device as device
from autosched.runtime.device import opencl as opencl
from autosched.runtime.function import BenchmarkResult as BenchmarkResult
from autosched.runtime.module import Module as Module
from autosched.runtime.ndarray import NDArray as NDArray
from autosched.target import Target
from autosched.tvm import nd as nd
from autosched.tvm._missing import missing
from autosched.tvm.container import ADT as ADT
from autosched.tvm.container import ShapeTuple as ShapeTuple
from autosched.tvm.container import String as String

DataType = dtype
Object = object
PackedFunc = Callable  #: `register_func` registers Python functions


def convert(value: Any) -> Any:
    """Turn numbers into expressions, also those in lists, tuples and dictionaries; anything else stays as it is."""
    if isinstance(value, (list, tuple)):
        return [convert(v) for v in value]
    if isinstance(value, dict):
        return {k: convert(v) for k, v in value.items()}
    return as_expr(value) if isinstance(value, Real) else value


def enabled(target: str) -> bool:
    """Return whether there is a device for that kind of target."""
    try:
        return device(Target(target).kind).exist
    except TargetError:
        return False


def load_module(path: str | os.PathLike[str], fmt: str = "") -> Any:
    """The module of a file; of a library that holds a model, what `lib["default"](device)` is asked of.

    Raises BuildError, and ModelError for a damaged model. The file is machine code: load only files that you would run.
    """
    module = export.load_module(path)
    if not module.attached:
        return module
    from autosched.tvm.contrib.graph_executor import factory_of  # models bring the tuner with them

    return factory_of(module, os.fspath(path))


load = load_module


def save_param_dict(params: Mapping[str, Any]) -> bytes:
    """Arrays by name as bytes, for `load_param_dict`: those of an .npz file."""
    file = io.BytesIO()
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in params.items()}
    np.savez(file, **arrays)
    return file.getvalue()


def load_param_dict(param_bytes: bytes) -> dict[str, Any]:
    """The arrays that `save_param_dict` wrote. Raises UsageError for other bytes."""
    try:
        with np.load(io.BytesIO(param_bytes), allow_pickle=False) as found:
            return {name: nd.array(found[name]) for name in found.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, TypeError, AttributeError) as error:
        legal = "what save_param_dict returned"
        raise UsageError(f"they are no arrays: {error}", asked="load_param_dict", legal=legal) from None


def save_param_dict_to_file(params: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write what `save_param_dict` returns to a file."""
    Path(path).write_bytes(save_param_dict(params))


def load_param_dict_from_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arrays of a file that `save_param_dict_to_file` wrote. Raises UsageError for another file."""
    return load_param_dict(Path(path).read_bytes())


def num_threads() -> int:
    """How many threads parallel loops of the current target take, or of the CPU."""
    return (Target.current(allow_none=True) or Target("llvm")).num_threads


cl, gpu = opencl, cuda

_INSTEAD = {
    "script_printer": "mod.script()",
    "vm": "tvm.build",
    "profiling": "module.time_evaluator(...)",
}
__getattr__ = missing("runtime", globals(), _INSTEAD)
