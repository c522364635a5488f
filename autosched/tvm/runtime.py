"""`tvm.runtime`: compiled modules."""

from __future__ import annotations

from autosched.runtime.export import load_module
from autosched.runtime.module import Module
from autosched.tvm._missing import missing

__all__ = ["Module", "load_module"]

_INSTEAD = {"enabled": "autosched doctor says which targets work on this machine"}
__getattr__ = missing("runtime", globals(), _INSTEAD)
