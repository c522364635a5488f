"""`tvm._ffi`: functions by name, where programs before TVM 0.8 look for them."""

from __future__ import annotations

from autosched.ir.functions import get_global_func, register_func
from autosched.tvm._ffi import base, registry

__all__ = ["base", "get_global_func", "register_func", "registry"]
