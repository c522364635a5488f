"""Functions as blocks: `create_prim_func`, and `Schedule`, the block spelling of schedules.

    from autosched import te, tir

    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda *i: A(*i) + 1.0, name="B")
    sch = tir.Schedule(tir.create_prim_func([A, B]))
    i0, i1 = sch.split(sch.get_loops(sch.get_block("B"))[0], factors=[None, 4])
    sch.vectorize(i1)
    print(sch.mod.script())

`autosched.build(sch.mod)` compiles it. What `autosched.lower` returns has a `script()` and a `mod`, too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import autosched.tir.block_script  # noqa: F401 - it prints a PrimFunc
from autosched.tir.module import GlobalVar, IRModule, PrimFunc, create_prim_func

if TYPE_CHECKING:
    from autosched.tir.blocks import Block
    from autosched.tir.extern import extern_primfunc
    from autosched.tir.schedule import Schedule

__all__ = ["Block", "GlobalVar", "IRModule", "PrimFunc", "Schedule", "create_prim_func", "extern_primfunc"]

#: name -> module and its name there; loaded on first use, because whoever lowers imports this package
_HOME = {
    "Block": ("blocks", "Block"),
    "Schedule": ("schedule", "Schedule"),
    "extern_primfunc": ("extern", "extern_primfunc"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'autosched.tir' has no attribute {name!r}")
    module, there = _HOME[name]
    return getattr(import_module(f"autosched.tir.{module}"), there)
