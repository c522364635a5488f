"""`tvm.ir`: modules, expressions' base class, and what is common to passes."""

from __future__ import annotations

from typing import Any

from autosched.ir.arith import Range
from autosched.ir.expr import Expr as PrimExpr
from autosched.ir.intrinsics import get_op_attr, register_intrin_lowering, register_op_attr
from autosched.ir.module import GlobalVar, IRModule
from autosched.tvm import transform
from autosched.tvm._missing import missing
from autosched.tvm.ir import instrument, module

__all__ = [
    "GlobalVar",
    "IRModule",
    "Op",
    "PrimExpr",
    "Range",
    "get_op_attr",
    "instrument",
    "module",
    "register_intrin_lowering",
    "register_op_attr",
    "transform",
]


class Op(str):
    """The name of an intrinsic, as `tir.call_intrin` takes it: `Op.get("tir.exp")`."""

    __slots__ = ()

    @staticmethod
    def get(op_name: str) -> Op:
        return Op(op_name)

    @property
    def name(self) -> str:
        return str(self)

    def get_attr(self, attr_name: str) -> Any:
        """What `register_op_attr` said of it; None if nothing."""
        return get_op_attr(self.name, attr_name)


_INSTEAD = {
    **dict.fromkeys(
        ("structural_equal", "assert_structural_equal"), "expressions built alike are the same object: `is`"
    ),
    **dict.fromkeys(("save_json", "load_json"), "s.trace.to_json(), te.graph_to_json(tensors)"),
}
__getattr__ = missing("ir", globals(), _INSTEAD)
