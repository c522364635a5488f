"""`tvm._ffi.registry`: Python functions by name."""

from __future__ import annotations

from autosched.ir.functions import get_global_func, list_global_func_names, register_func, remove_global_func

__all__ = ["get_global_func", "list_global_func_names", "register_func", "remove_global_func"]
