"""`tvm.runtime`: compiled modules, arrays, devices."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

from autosched.errors import TargetError
from autosched.ir.dtype import dtype as DataType
from autosched.ir.expr import as_expr, const
from autosched.runtime import ndarray
from autosched.runtime.device import Device, cpu, cuda, device, opencl
from autosched.runtime.export import load_module
from autosched.runtime.module import Module
from autosched.runtime.ndarray import NDArray
from autosched.target import Target
from autosched.tvm import nd
from autosched.tvm._missing import missing

PackedFunc = Callable  #: functions that `register_func` knows are Python functions

__all__ = [
    "DataType",
    "Device",
    "Module",
    "NDArray",
    "PackedFunc",
    "const",
    "convert",
    "cpu",
    "cuda",
    "device",
    "enabled",
    "load_module",
    "nd",
    "ndarray",
    "opencl",
]


def convert(value: Any) -> Any:
    """Numbers as expressions, also those in lists and tuples; anything else as it is."""
    if isinstance(value, (list, tuple)):
        return [convert(v) for v in value]
    return as_expr(value) if isinstance(value, Real) else value


def enabled(target: str) -> bool:
    """Whether code for that kind of target is generated and run here: there is a device for it."""
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
