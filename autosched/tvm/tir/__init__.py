"""`tvm.tir`: the lowered program's expressions and statements, by TVM's names."""

from __future__ import annotations

from autosched.errors import ScheduleError as ScheduleError
from autosched.ir import builder
from autosched.ir.calls import CallEffectKind as CallEffectKind
from autosched.ir.expr import Expr
from autosched.ir.stmt import Buffer as Buffer
from autosched.ir.stmt import Stmt as Stmt
from autosched.tir import Schedule as Schedule
from autosched.tvm import members as _members
from autosched.tvm._missing import missing
from autosched.tvm.arith.index_map import IndexMap as IndexMap
from autosched.tvm.tir import analysis, data_layout, nodes, op, schedule, stmt_functor, transform
from autosched.tvm.tir.buffer import BufferRegion as BufferRegion
from autosched.tvm.tir.data_layout import BijectiveLayout as BijectiveLayout
from autosched.tvm.tir.data_layout import Layout as Layout
from autosched.tvm.tir.data_layout import bijective_layout as bijective_layout
from autosched.tvm.tir.data_layout import layout as layout
from autosched.tvm.tir.nodes import NODES
from autosched.tvm.tir.nodes import ForKind as ForKind
from autosched.tvm.tir.op import *  # noqa: F403

PrimExpr = Expr
ir_builder = builder
globals().update(NODES)

_INSTEAD = {
    "AttrStmt": "loops carry it: tir.For.kind, .thread and .loop_var",
    "ProducerStore": "tir.BufferStore: stores name buffers",
    "ProducerRealize": "tir.Allocate: storage is a buffer",
    "BufferRealize": "tir.Allocate: storage is a buffer",
    "Load": "tir.BufferLoad",
    "Store": "tir.BufferStore",
    "Block": "tir.Schedule: blocks are stages",
    "StringImm": "Python strings",
    "Shuffle": "tir.Ramp and tir.Broadcast are the vectors there are",
}
__getattr__ = missing("tir", globals(), _INSTEAD)
