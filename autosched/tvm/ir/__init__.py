"""`tvm.ir`: modules, expressions' base class, and what is common to passes."""

from __future__ import annotations

from autosched.ir.expr import Expr as PrimExpr
from autosched.ir.module import GlobalVar, IRModule
from autosched.tvm import transform
from autosched.tvm._missing import missing
from autosched.tvm.ir import instrument, module

__all__ = ["GlobalVar", "IRModule", "PrimExpr", "Range", "instrument", "module", "transform"]


def Range(begin: object, end: object = None) -> tuple[object, object]:
    """(first value, one past the last), as `te.reduce_axis` takes it; one argument is the end."""
    return (0, begin) if end is None else (begin, end)


_INSTEAD = {
    **dict.fromkeys(
        ("structural_equal", "assert_structural_equal"), "expressions built alike are the same object: `is`"
    ),
    **dict.fromkeys(("save_json", "load_json"), "s.trace.to_json(), te.graph_to_json(tensors)"),
}
__getattr__ = missing("ir", globals(), _INSTEAD)
