"""Functions as blocks: `create_prim_func`, and `Schedule`, the block spelling of schedules.

    from autosched import te, tir

    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda *i: A(*i) + 1.0, name="B")
    sch = tir.Schedule(tir.create_prim_func([A, B]))
    i0, i1 = sch.split(sch.get_loops(sch.get_block("B"))[0], factors=[None, 4])
    sch.vectorize(i1)
    print(sch.mod.script())

`autosched.build(sch.mod)` compiles it.
"""

from __future__ import annotations

import autosched.lower.block_script  # noqa: F401 - so that a PrimFunc can be printed
from autosched.ir.module import GlobalVar, IRModule
from autosched.schedule.blocks import Block
from autosched.schedule.blocks import BlockSchedule as Schedule
from autosched.schedule.prim_func import PrimFunc, create_prim_func
from autosched.tir.extern import extern_primfunc

__all__ = ["Block", "GlobalVar", "IRModule", "PrimFunc", "Schedule", "create_prim_func", "extern_primfunc"]
