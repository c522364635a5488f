"""What programs of loops cost, as TVM counts it: `estimate_tir_flops` and `calculate_workspace_bytes`."""

from __future__ import annotations

import math
from typing import Any

from autosched.errors import UsageError
from autosched.ir.expr import OPS, Expr
from autosched.ir.ranges import Interval, Ranges
from autosched.ir.stmt import Allocate, For, Function, If, Stmt, Store, children, expressions
from autosched.tir.module import IRModule, PrimFunc
from autosched.tvm.driver import lower

_LEGAL = "a function or a module, of blocks or lowered; statements"
_SELECTS = ("select", "if_then_else")


def estimate_tir_flops(stmt_or_mod: Any) -> float:
    """Return the arithmetic of a program: one for each of its operators, of whatever type.

    Comparisons, casts, calls and the indices of elements count nothing; of two branches the dearer one counts, and
    loops whose lengths are unknown run once. A function's attribute `estimated_flops` is taken instead. Raises
    UsageError for what is no program.

    >>> from autosched.tvm import te
    >>> A = te.placeholder((64,), name="A")
    >>> f = te.create_prim_func([A, te.compute((64,), lambda i: A[i] * 2.0 + 1.0, name="B")])
    >>> estimate_tir_flops(f)
    128.0
    """
    if isinstance(stmt_or_mod, IRModule):
        return sum(map(estimate_tir_flops, stmt_or_mod.values()), 0.0)
    if isinstance(stmt_or_mod, (PrimFunc, Function)):
        said = stmt_or_mod.attrs.get("estimated_flops")
        return _Arithmetic().of(_loops(stmt_or_mod)) if said is None else float(getattr(said, "value", said))
    return _Arithmetic().of(_statement(stmt_or_mod, "estimate_tir_flops"))


def calculate_workspace_bytes(func: Any, workspace_byte_alignment: int) -> int:
    """Return the most bytes of allocated memory that a function holds at a time, each buffer rounded up to a multiple.

    Buffers whose lengths depend on sizes count nothing. Raises UsageError for what is no function.

    >>> from autosched.tvm import te
    >>> A = te.placeholder((64,), name="A")
    >>> B = te.compute((64,), lambda i: A[i] * 2.0, name="B")
    >>> f = te.create_prim_func([A, te.compute((64,), lambda i: B[i] + 1.0, name="C")])
    >>> calculate_workspace_bytes(f, 1)
    256
    """
    is_function = isinstance(func, (PrimFunc, Function))
    body = _loops(func) if is_function else _statement(func, "calculate_workspace_bytes")
    return _held(body, int(workspace_byte_alignment))


def _loops(f: PrimFunc | Function) -> Stmt:
    loops: Function = f if isinstance(f, Function) else lower(f, simple_mode=True)["main"]
    return loops.body


def _statement(s: Any, asked: str) -> Stmt:
    if not isinstance(s, Stmt):  # type: ignore[arg-type]
        raise UsageError(f"{s!r:.60} is no program", asked=asked, legal=_LEGAL)
    return s


def _held(s: Stmt, alignment: int) -> int:
    inside = max((_held(x, alignment) for x in children(s)), default=0)
    if not isinstance(s, Allocate) or s.buffer.elements.op != "const":
        return inside
    return inside + math.ceil(int(s.buffer.elements.value) * s.buffer.dtype.bytes / alignment) * alignment


class _Arithmetic:
    """Counts operators of statements, each expression once however often it is shared."""

    def __init__(self) -> None:
        self._ranges = Ranges()
        self._known: dict[Expr, float] = {}

    def of(self, s: Stmt) -> float:
        if isinstance(s, For):
            start, extent = self._ranges.of(s.start), self._ranges.of(s.extent).high
            self._ranges.bind(s.var, Interval(start.low, start.high + extent - 1))
            return self.of(s.body) * (max(0.0, float(extent)) if math.isfinite(extent) else 1)
        if isinstance(s, Store):
            return self._of_expr(s.value)
        if isinstance(s, If):
            branches = (s.then, s.otherwise) if s.otherwise is not None else (s.then,)
            return self._of_expr(s.condition) + max(map(self.of, branches))
        return sum(map(self._of_expr, expressions(s)), 0.0) + sum(map(self.of, children(s)))

    def _of_expr(self, e: Expr) -> float:
        if e not in self._known:
            self._known[e] = self._counted(e)
        return self._known[e]

    def _counted(self, e: Expr) -> float:
        kind = OPS[e.op].kind
        if e.op in ("load", "read") or kind == "compare":
            return 0.0
        if e.op in _SELECTS:
            return self._of_expr(e.args[0]) + max(map(self._of_expr, e.args[1:]))
        return float(kind == "arith" and e.op != "abs") + sum(map(self._of_expr, e.args))
