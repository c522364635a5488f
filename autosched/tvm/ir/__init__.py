"""`tvm.ir`: modules, the base class of expressions, structural equality, JSON, and attributes of operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autosched.ir.calls import get_op_attr as get_op_attr
from autosched.ir.calls import intrinsic_name
from autosched.ir.calls import register_intrin_lowering as _register_rule
from autosched.ir.calls import register_op_attr as register_op_attr
from autosched.ir.expr import Arithmetic, Expr
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
from autosched.tvm.tir.nodes import STANDING_FOR

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


class CallNode(Arithmetic[Expr]):
    """A call as a rule of `register_intrin_lowering` sees it: an expression whose `op` is an object with a `name`."""

    def __init__(self, call: Expr) -> None:
        self.call, self.op = call, Op(intrinsic_name(call))

    def as_expr(self) -> Expr:
        return self.call

    def __getattr__(self, name: str) -> Any:
        return getattr(self.call, name)


STANDING_FOR.add(CallNode)


def register_intrin_lowering(
    op_name: str, target: str, *, f: Callable[[Any], Any] | None = None, level: int = 10
) -> Any:
    """`autosched.ir.calls.register_intrin_lowering`, whose rules are called with a `CallNode`."""
    if f is None:
        return lambda rule: register_intrin_lowering(op_name, target, f=rule, level=level)
    rule = f
    if callable(f):

        def rule(call: Expr) -> Any:
            node = CallNode(call)
            found = f(node)
            return call if found is node else found

    _register_rule(op_name, target, f=rule, level=level)
    return f


def register_intrin_rule(
    target: str, intrin: str, f: Callable[[Any], Any] | None = None, override: bool = False
) -> Any:
    """Register a rule as TVM 0.5 to 0.7 spelled it: `register_intrin_rule("cuda", "exp", rule, override=True)`."""
    level = 99 if override else 10
    if f is None:
        return lambda rule: register_intrin_rule(target, intrin, rule, override)
    for name in (intrin, f"tir.{intrin}"):  # programs' own intrinsics had no prefix
        register_intrin_lowering(name, target, f=f, level=level)
    return f


_INSTEAD = {
    **dict.fromkeys(("PointerType", "PrimType", "TupleType", "FuncType"), 'types are names: "float32", "handle"'),
}
__getattr__ = missing("ir", globals(), _INSTEAD)
