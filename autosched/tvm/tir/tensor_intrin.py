"""`tvm.tir.tensor_intrin`: intrinsics of processors, none of which is here; each name says what to write instead."""

from __future__ import annotations

from autosched.tvm._missing import missing

__getattr__ = missing("tir.tensor_intrin", globals())
