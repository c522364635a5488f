"""`tvm.contrib.dlpack`: modules as functions of other libraries' arrays, which need no conversion here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autosched.tvm._missing import missing


def convert_func(tvm_func: Callable[..., Any], tensor_type: type, to_dlpack_func: Any = None) -> Callable[..., Any]:
    """The function itself: modules take whatever has `__dlpack__`, arrays of PyTorch, JAX and CuPy among them."""
    return tvm_func


def to_pytorch_func(tvm_func: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, which takes tensors of PyTorch."""
    return tvm_func


__getattr__ = missing("contrib.dlpack", globals())
