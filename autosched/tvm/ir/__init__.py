"""`tvm.ir`: modules, expressions' base class, and what is common to passes."""

from __future__ import annotations

from typing import Any

from autosched.ir.calls import get_op_attr, register_intrin_lowering, register_op_attr
from autosched.ir.expr import Expr as PrimExpr
from autosched.tir.module import GlobalVar, IRModule
from autosched.tvm import transform
from autosched.tvm._missing import missing
from autosched.tvm.arith import Range
from autosched.tvm.ir import instrument, module
from autosched.tvm.ir.saving import load_json, save_json
from autosched.tvm.ir.structural import assert_structural_equal, structural_equal, structural_hash

__all__ = [
    "GlobalVar",
    "IRModule",
    "Op",
    "PrimExpr",
    "Range",
    "assert_structural_equal",
    "get_op_attr",
    "instrument",
    "load_json",
    "module",
    "register_intrin_lowering",
    "register_op_attr",
    "save_json",
    "structural_equal",
    "structural_hash",
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
    **dict.fromkeys(("PointerType", "PrimType", "TupleType", "FuncType"), 'types are names: "float32", "handle"'),
    "Array": "Python tuples",
    "Map": "Python dictionaries",
}
__getattr__ = missing("ir", globals(), _INSTEAD)
