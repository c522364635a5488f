"""`tvm.ir_pass` of TVM 0.5 and 0.6: what programs for these call on statements and expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autosched.ir.expr import Expr
from autosched.ir.stmt import Stmt
from autosched.tir.module import IRModule
from autosched.tvm._missing import missing
from autosched.tvm.arith import Analyzer
from autosched.tvm.ir.base import structural_equal
from autosched.tvm.tir import stmt_functor

Node = Expr | Stmt


def _node(given: Any) -> Any:
    """`tvm.lower` gave the statement of the one function."""
    return given["main"].body if isinstance(given, IRModule) else given


def PostOrderVisit(node: Any, fvisit: Callable[[Node], object]) -> None:
    """Call a function on every node, parts before wholes."""
    stmt_functor.post_order_visit(_node(node), fvisit)


def IRTransform(stmt: Any, preorder: Any, postorder: Any, only_enable: Sequence[str] | None = None) -> Node:
    """Return a statement rewritten node by node: `only_enable=["For"]`."""
    result: Node = stmt_functor.ir_transform(_node(stmt), preorder, postorder, only_enable)
    return result


def Substitute(node: Any, value_map: Mapping[Any, Any]) -> Node:
    """Return a statement or an expression with other expressions for variables."""
    return stmt_functor.substitute(_node(node), dict(value_map))


def Simplify(expr: Any, vrange: Mapping[Any, Any] | None = None) -> Any:
    """Return a simpler expression of variables, whose ranges may be given."""
    analyzer = Analyzer()
    for v, values in (vrange or {}).items():
        analyzer.bind(v, values)
    return analyzer.simplify(expr)


def Equal(lhs: Any, rhs: Any) -> bool:
    """Whether two statements or expressions are the same but for names."""
    return structural_equal(_node(lhs), _node(rhs))


CanonicalSimplify = Simplify

__getattr__ = missing("ir_pass", globals())
