"""`tvm.ir.module`."""

from __future__ import annotations

from autosched.tir.module import IRModule
from autosched.tvm._missing import missing

__all__ = ["IRModule"]

__getattr__ = missing("ir.module", globals())
