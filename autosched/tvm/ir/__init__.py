"""`tvm.ir`: modules, the base class of expressions, structural equality, JSON, and attributes of operators."""

from __future__ import annotations

from typing import Any

from autosched.ir.calls import get_op_attr as get_op_attr
from autosched.ir.calls import register_intrin_lowering as register_intrin_lowering
from autosched.ir.calls import register_op_attr as register_op_attr
from autosched.ir.expr import Expr
from autosched.tir import module as module
from autosched.tir.module import GlobalVar as GlobalVar
from autosched.tir.module import IRModule as IRModule
from autosched.tvm import instrument as instrument
from autosched.tvm import transform as transform
from autosched.tvm._missing import missing
from autosched.tvm.arith import Range as Range
from autosched.tvm.container import Array as Array
from autosched.tvm.container import Map as Map
from autosched.tvm.ir.base import assert_structural_equal as assert_structural_equal
from autosched.tvm.ir.base import load_json as load_json
from autosched.tvm.ir.base import save_json as save_json
from autosched.tvm.ir.base import structural_equal as structural_equal
from autosched.tvm.ir.base import structural_hash as structural_hash

PrimExpr = Expr


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
        """Return what `register_op_attr` said of it, or None."""
        return get_op_attr(self.name, attr_name)


_INSTEAD = {
    **dict.fromkeys(("PointerType", "PrimType", "TupleType", "FuncType"), 'types are names: "float32", "handle"'),
}
__getattr__ = missing("ir", globals(), _INSTEAD)
