"""The `I` of scripts: `from tvm.script import ir as I`."""

from __future__ import annotations

from typing import Any

from autosched.ir.dims import Range as Range
from autosched.tir.module import GlobalVar as GlobalVar
from autosched.tir.module import IRModule as IRModule
from autosched.tvm._missing import missing
from autosched.tvm.script.parts import Effect


def module_attrs(attrs: dict[str, Any]) -> Effect:
    """Give the module attributes."""
    return Effect("module_attrs", (attrs,))


__getattr__ = missing("script.ir", globals())
