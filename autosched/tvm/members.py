"""Methods and attributes of TVM's objects that those of this package do not have: what there is instead.

    s.get_block      MissingName: s[B] is the stage; te.create_prim_func and tir.Schedule have blocks

`MissingName` is an AttributeError, so `hasattr` and `getattr` with a default work as for any other name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, get_args

from autosched.errors import asked_at
from autosched.ir.attached import attach
from autosched.ir.expr import Expr
from autosched.ir.stmt import Buffer, Function, Stmt
from autosched.runtime.module import Module
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Loop, Stage
from autosched.schedule.trace import Trace
from autosched.tir.blocks import Block
from autosched.tir.module import IRModule, PrimFunc
from autosched.tir.schedule import Schedule as TirSchedule
from autosched.tvm._missing import MissingName
from autosched.tvm.attributes import PARTS

#: the class as `tvm.coverage` names it -> member of TVM's -> what there is instead
MEMBERS: dict[str, Mapping[str, str]] = {}


def lacking(dotted: str, legal: str) -> MissingName:
    """The error for a member that is not here, with the line that asked for it."""
    where = asked_at()
    asked = f"tvm.{dotted}"
    return MissingName("it has no such member here", asked=f"{asked}  at {where}" if where else asked, legal=legal)


def tell(cls: type, name: str, instead: Mapping[str, str]) -> None:
    """Let instances of a class say what there is instead of a member that they lack."""
    MEMBERS[name] = instead
    before: Callable[[Any, str], Any] | None = getattr(cls, "__getattr__", None)

    def __getattr__(self: Any, member: str) -> Any:
        if member in instead:
            raise lacking(f"{name}.{member}", instead[member])
        if before is None:
            raise AttributeError(f"{cls.__name__!r} object has no attribute {member!r}")
        return before(self, member)

    attach(cls, __getattr__=__getattr__)


_STATE = "sch.mod, and sch.schedule: the stages and their loops"
_ONE_LIBRARY = "a module is one library: module.export_library(path), and call it by its functions' names"

tell(
    Schedule,
    "te.Schedule",
    {
        "get_block": "s[B] is the stage; te.create_prim_func and tir.Schedule have blocks",
        "get_loops": "s[B].leaf_iter_vars, and s[B].op.axis",
    },
)
_NODES = "print(sch.mod.script()): blocks are stages, and their nodes are made when they are printed"
_PARTS = dict.fromkeys(("alloc_buffers", "match_buffers", "annotations"), _NODES)
tell(
    Stage,
    "te.Stage",
    {
        "is_opengl": "targets: llvm, c, opencl, cuda",
        **_PARTS,
    },
)
tell(
    Block,
    "tir.schedule.BlockRV",
    {
        "name_hint": "block.name",
        "iter_vars": "sch.get(block).op.axis, sch.get(block).op.reduce_axis",
        "reads": "sch.get_producers(block)",
        "writes": "sch.get_consumers(block)",
        "body": _NODES,
        "init": _NODES,
        **_PARTS,
    },
)
tell(
    Loop,
    "tir.schedule.LoopRV",
    {
        "body": "sch.get_child_blocks(loop)",
        "thread_binding": "loop.thread_tag",
        "annotations": "loop.pragmas",
        "attrs": "loop.pragmas",
    },
)
tell(
    TirSchedule,
    "tir.Schedule",
    {
        "state": _STATE,
    },
)
tell(
    Trace,
    "tir.schedule.Trace",
    {
        "decisions": "the numbers stand in the instructions",
        **dict.fromkeys(("get_decision", "with_decision"), "the numbers stand in its instructions"),
    },
)
_FUNCTION = {
    "specialize": "f.args are tensors: te.create_prim_func of others, whose shapes are numbers",
    "struct_info": "f.args, whose shapes and types are those of the arguments",
    "ret_type": "outputs are arguments, and there is no result",
}
tell(
    PrimFunc, "tir.PrimFunc", {**_FUNCTION, "with_body": "tir.Schedule(f): schedules move blocks and do not edit them"}
)
tell(Function, "tir.Function", _FUNCTION)
tell(
    Buffer,
    "tir.Buffer",
    {"get_flattened_buffer": "tvm.lower(s, args), whose buffers are flat", "offset_of": "buffer.vload(indices)"},
)
tell(
    IRModule,
    "IRModule",
    dict.fromkeys(
        (
            "get_global_type_vars",
            "get_global_type_var",
            "get_constructor",
            "get_type",
            "import_from_std",
            "type_definitions",
        ),
        "modules hold functions only; models are read from ONNX",
    ),
)
tell(
    Module,
    "runtime.Module",
    dict.fromkeys(
        ("import_module", "clear_imports", "get_property_mask", "is_binary_serializable", "is_dso_exportable"),
        _ONE_LIBRARY,
    ),
)


# -- statements and expressions: any member ---------------------------------------------------------------

_of_expression: Callable[[Expr, str], Any] = vars(Expr)["__getattr__"]


def _part_of_expression(self: Expr, member: str) -> Any:
    try:
        return _of_expression(self, member)
    except AttributeError:
        if member.startswith("_") or member in Expr.__slots__:
            raise
    parts = [n for n in PARTS if _has(self, n)]
    raise lacking(f"tir.PrimExpr.{member}", f"of {self!r:.60}: {', '.join(['op', 'args', 'dtype', 'value', *parts])}")


def _has(e: Expr, name: str) -> bool:
    try:
        _of_expression(e, name)
    except AttributeError:
        return False
    return True


def _no_part(self: Any, member: str) -> Any:
    if member.startswith("_"):
        raise AttributeError(member)
    cls = type(self)
    own = [*(f.name for f in fields(cls)), *(n for n, x in vars(cls).items() if isinstance(x, property))]
    blocks = "; print(f.script()) shows blocks" if member in ("block", "iter_values", "predicate") else ""
    raise lacking(f"tir.{cls.__name__}.{member}", f"{', '.join(own)}{blocks}")


attach(Expr, __getattr__=_part_of_expression)
for _cls in get_args(Stmt):
    attach(_cls, __getattr__=_no_part)
