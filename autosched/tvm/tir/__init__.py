"""`tvm.tir`: the lowered program's expressions and statements, by TVM's names."""

from __future__ import annotations

from typing import Any

from autosched.errors import ScheduleError
from autosched.ir.calls import CallEffectKind
from autosched.ir.expr import Expr as PrimExpr
from autosched.ir.stmt import Buffer, Stmt
from autosched.te import *  # noqa: F403
from autosched.tir import Schedule
from autosched.tvm._missing import missing
from autosched.tvm.arith.index_map import IndexMap
from autosched.tvm.te import add, const, indexdiv, indexmod, multiply, subtract
from autosched.tvm.tir import analysis, ir_builder, nodes, op, stmt_functor, transform
from autosched.tvm.tir.nodes import NODES, ForKind
from autosched.tvm.tir.op import *  # noqa: F403

__all__ = [
    "Buffer",
    "CallEffectKind",
    "ForKind",
    "IndexMap",
    "PrimExpr",
    "Schedule",
    "ScheduleError",
    "Stmt",
    "add",
    "analysis",
    "const",
    "indexdiv",
    "indexmod",
    "ir_builder",
    "multiply",
    "nodes",
    "op",
    "stmt_functor",
    "subtract",
    "transform",
]

globals().update(NODES)

_LOOPS = "loops carry it: tir.For.kind, .thread and .loop_var"
_INSTEAD = {
    "AttrStmt": _LOOPS,
    "ProducerStore": "tir.BufferStore: stores name buffers",
    "ProducerRealize": "tir.Allocate: storage is a buffer",
    "BufferRealize": "tir.Allocate: storage is a buffer",
    "Load": "tir.BufferLoad",
    "Store": "tir.BufferStore",
    "Block": "tir.Schedule: blocks are stages",
    "StringImm": "Python strings",
    "Shuffle": "tir.Ramp and tir.Broadcast are the vectors there are",
}
_missing = missing("tir", globals(), _INSTEAD)


def __getattr__(name: str) -> Any:
    return _missing(name)
