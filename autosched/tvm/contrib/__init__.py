"""`tvm.contrib`: folders for a while, compilers, libraries' functions, and compiled models.

The rest of it says what to use instead.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from autosched.tvm._missing import MODULES, NotPartOfThis, missing
from autosched.tvm.contrib import _libraries, cblas, cc, clang, dlpack, mkl, nvcc, pickle_memoize, random, sort, utils

globals().update(_libraries.install(__name__))
_missing = missing("contrib", globals(), {"popen_pool": "concurrent.futures"})
#: models bring the tuner with them, the others are rarely used
_ON_FIRST_USE = ("dnnl", "download", "graph_executor", "graph_runtime", "sparse", "tar", "tedd")


def __getattr__(name: str) -> Any:
    if name in _ON_FIRST_USE:
        return import_module(f"{__name__}.{name.replace('graph_runtime', 'graph_executor')}")
    asked = f"tvm.contrib.{name}"
    if f"contrib.{name}" not in MODULES:
        return _missing(name)
    raise NotPartOfThis(f"{asked} is not part of autosched", asked=asked, legal=MODULES[f"contrib.{name}"])
