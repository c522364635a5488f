"""Functions from outside, by name: what `call_packed` and `call_extern` find. See `ir.functions`."""

from __future__ import annotations

from autosched.ir.functions import (
    get_global_func,
    list_global_func_names,
    load_library,
    register_func,
    register_numpy,
    register_symbol,
    remove_global_func,
)
from autosched.runtime.sources import import_c, import_llvm

__all__ = [
    "get_global_func",
    "import_c",
    "import_llvm",
    "list_global_func_names",
    "load_library",
    "register_func",
    "register_numpy",
    "register_symbol",
    "remove_global_func",
]
