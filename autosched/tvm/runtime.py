"""`tvm.runtime`: compiled modules, arrays, devices."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

from autosched.errors import TargetError
from autosched.ir.dtype import dtype
from autosched.ir.expr import as_expr
from autosched.ir.expr import const as const
from autosched.runtime import ndarray as ndarray
from autosched.runtime.device import Device as Device
from autosched.runtime.device import cpu as cpu
from autosched.runtime.device import cuda as cuda
from autosched.runtime.device import device as device
from autosched.runtime.device import opencl as opencl
from autosched.runtime.export import load_module as load_module
from autosched.runtime.module import Module as Module
from autosched.runtime.ndarray import NDArray as NDArray
from autosched.target import Target
from autosched.tvm import nd as nd
from autosched.tvm._missing import missing

DataType = dtype
PackedFunc = Callable  #: `register_func` registers Python functions


def convert(value: Any) -> Any:
    """Turn numbers into expressions, also those in lists and tuples; anything else stays as it is."""
    if isinstance(value, (list, tuple)):
        return [convert(v) for v in value]
    return as_expr(value) if isinstance(value, Real) else value


def enabled(target: str) -> bool:
    """Return whether there is a device for that kind of target."""
    try:
        return device(Target(target).kind).exist
    except TargetError:
        return False


_INSTEAD = {
    "String": "Python strings",
    "Object": "Python objects",
    "script_printer": "mod.script()",
    "vm": "tvm.build",
    "profiling": "module.time_evaluator(...)",
}
__getattr__ = missing("runtime", globals(), _INSTEAD)
