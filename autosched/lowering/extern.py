"""Opaque operations (`te.extern`): their statement, on the buffers of its tensors."""

from __future__ import annotations

from collections.abc import Callable

from autosched.errors import LowerError
from autosched.ir.buffers import row_major
from autosched.ir.expr import Expr
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer, Produce, Seq, Stmt, Store, expressions, seq, substitute_stmt, walk
from autosched.ir.visit import post_order
from autosched.lowering.storage import retarget
from autosched.schedule.stage import Stage
from autosched.te.extern import ExternOp
from autosched.te.tensor import Tensor


def opaque_nest(stage: Stage, body: tuple[Expr, ...], buffer: Callable[[Tensor], Buffer], an: Analyzer) -> Stmt:
    """The statement of an opaque stage, on the buffers of its tensors.

    `body` reads its inputs, or copies that `cache_read` put in their places. Top-level statements may become kernels
    of their own.
    """
    op = stage.op
    assert isinstance(op, ExternOp)
    owner: dict[Buffer, Buffer] = {}
    values: dict[Expr, Expr] = {}
    tensors = [*(read.value for read in body), *op.outputs]
    for declared, tensor in zip((*op.in_buffers, *op.out_buffers), tensors, strict=True):
        real = owner[declared] = buffer(tensor)
        # the variables in the declared shape and strides
        values |= {d: n for d, n in zip(declared.shape, tensor.shape, strict=False) if d.op == "var" and d is not n}
        strides = zip(declared.strides, real.strides or row_major(tensor.shape), strict=False)
        values |= {a: b for a, b in strides if a.op == "var"}
        same = all(an.poly(a) == an.poly(b) for a, b in zip(real.shape, tensor.shape, strict=True))
        if (real.strides or not same) and _counts_elements(op.statement, declared):
            raise LowerError(
                f"the memory of {tensor.name} is padded, and {stage.name} counts its elements one after the other",
                asked=f"extern {stage.name}",
                legal=f"an index for each dimension; or neither storage_align nor tail='round_up' for {tensor.name}",
            )
    statement = retarget(substitute_stmt(op.statement, values), owner)
    parts = statement.stmts if isinstance(statement, Seq) else (statement,)
    if not any(getattr(s, "thread", "").startswith("blockIdx") for part in parts for s in walk(part)):
        parts = (statement,)
    return seq(*(Produce(stage.name, part) for part in parts))


def _counts_elements(statement: Stmt, b: Buffer) -> bool:
    """Return whether the statement relies on the buffer's elements lying close together."""
    for s in walk(statement):
        if isinstance(s, Store) and s.buffer is b and len(s.indices) != len(b.shape):
            return True
        for e in post_order(expressions(s)):
            if e.op in ("address", "view") and e.value is b:
                return True
            if e.op == "load" and e.value is b and len(e.args) != len(b.shape):
                return True
    return False
