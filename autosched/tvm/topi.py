"""`tvm.topi`: the operator inventory."""

from __future__ import annotations

from autosched.tvm._missing import missing

__all__: list[str] = []

__getattr__ = missing("topi", globals(), {})
