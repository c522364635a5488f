"""`tvm.tir.ir_builder`: statements written as Python."""

from __future__ import annotations

from autosched.ir.builder import BufferVar, IRBuilder, create
from autosched.tvm._missing import missing

__all__ = ["BufferVar", "IRBuilder", "create"]

__getattr__ = missing("tir.ir_builder", globals())
