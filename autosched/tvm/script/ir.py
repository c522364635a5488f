"""The `I` of scripts: `from tvm.script import ir as I`."""

from __future__ import annotations

from typing import Any

from autosched.ir.dims import Range as Range
from autosched.tir.module import GlobalVar as GlobalVar
from autosched.tir.module import IRModule as IRModule
from autosched.tvm._missing import missing
from autosched.tvm.script.parts import Effect


def ir_module(mod: Any = None, check_well_formed: bool = True) -> Any:
    """Read a class of functions."""
    from autosched.tvm.script.parser import read_module

    return ir_module if mod is None else read_module(mod)


def module_attrs(attrs: dict[str, Any]) -> Effect:
    """Give the module attributes."""
    return Effect("module_attrs", (attrs,))


__getattr__ = missing("script.ir", globals())
