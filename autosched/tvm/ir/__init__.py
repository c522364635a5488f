"""`tvm.ir`: modules, expressions' base class, and what is common to passes."""

from __future__ import annotations

from typing import Any

from autosched.ir.expr import Expr as PrimExpr
from autosched.ir.intrinsics import get_op_attr, register_intrin_lowering, register_op_attr
from autosched.tir.module import GlobalVar, IRModule
from autosched.tir.prim_func import PrimFunc
from autosched.tvm import transform
from autosched.tvm._missing import missing
from autosched.tvm.arith import Range
from autosched.tvm.driver import lower
from autosched.tvm.ir import instrument, module, structural
from autosched.tvm.ir.saving import load_json, save_json

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


def _loops_of(node: Any) -> Any:
    """Functions of blocks, and modules of them, as loops: what is compared."""
    if isinstance(node, PrimFunc):
        return lower(node, simple_mode=True)[node.name]
    return lower(node, simple_mode=True) if isinstance(node, IRModule) else node


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """See `autosched.tvm.ir.structural.structural_equal`."""
    return structural.structural_equal(_loops_of(lhs), _loops_of(rhs), map_free_vars)


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise ValueError, with the first parts that differ, unless `structural_equal`."""
    structural.assert_structural_equal(_loops_of(lhs), _loops_of(rhs), map_free_vars)


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A number that is the same for what is structurally equal."""
    return structural.structural_hash(_loops_of(node), map_free_vars)


_INSTEAD = {
    **dict.fromkeys(("PointerType", "PrimType", "TupleType", "FuncType"), 'types are names: "float32", "handle"'),
    "Array": "Python tuples",
    "Map": "Python dictionaries",
}
__getattr__ = missing("ir", globals(), _INSTEAD)
