"""Checks of a lowered program: the invariants that code generation relies on."""

from __future__ import annotations

from autosched.errors import LowerError
from autosched.ir import stmt as S
from autosched.ir.expr import Expr, variables
from autosched.ir.stmt import Function, Stmt
from autosched.ir.visit import post_order
from autosched.target import Target


def check_cpu(f: Function) -> None:
    """A CPU has no work-groups."""
    for s in S.walk(f.body):
        if isinstance(s, S.For) and s.kind == "thread":
            raise LowerError(
                f"{s.thread} exists on GPU-style targets only",
                asked=f"bind {s.var.name} to {s.thread} for llvm",
                legal="parallel() the loop, or use target opencl or cuda",
                loop=s.var,
            )


def check_constant(loop: S.For, asked: str, legal: str) -> None:
    """Raise LowerError for a loop of which a pass has to know how many iterations it has."""
    if loop.extent.op != "const":
        raise LowerError(f"its extent {loop.extent!r} is not a constant", asked=asked, legal=legal, loop=loop.var)


def check_sizes(body: Stmt, sizes: list[Expr], name: str) -> None:
    """Every symbolic size must be readable off an argument's shape."""
    known = set(sizes) | {s.var for s in S.walk(body) if isinstance(s, S.Let)}
    for s in S.walk(body):
        for e in S.expressions(s):
            for v in variables(e):
                if v.value.role in ("size", "scalar") and v not in known:
                    raise LowerError(
                        f"the size {v.name} is in no argument's shape",
                        asked=f"lower {name}",
                        legal="add the tensor whose shape has it to the arguments",
                    )


def verify(f: Function, target: Target) -> None:
    """Flat indices, bound variables, known loop kinds, types that fit. Raises LowerError: a defect
    of the passes, not of the schedule."""
    _verify(f.body, frozenset(f.sizes), target, inside_launch=False)


def _fail(what: str, s: Stmt) -> None:
    raise LowerError(f"{what} (a defect of lowering, please report it)", asked=type(s).__name__)


def _verify(s: Stmt, bound: frozenset[Expr], target: Target, inside_launch: bool) -> None:
    for e in S.expressions(s):
        free = [v for v in variables(e) if v not in bound and v.value.role != "thread"]
        if free:
            _fail(f"{free[0].name} is used outside its loop", s)
        for node in post_order(e):
            if node.op == "read" or (node.op in ("load", "address") and len(node.args) != 1):
                _fail(f"{node!r} is not a flat load", s)
            if node.op in ("reduce", "scatter"):
                _fail(f"{node!r} was not lowered", s)
    match s:
        case S.For():
            if s.kind not in ("serial", "parallel"):
                _fail(f"loop {s.var.name} is still {s.kind}", s)
            bound = bound | {s.var}
        case S.Let():
            bound = bound | {s.var}
        case S.Store():
            if len(s.indices) != 1:
                _fail(f"the store to {s.buffer.name} is not flat", s)
            if s.value.dtype.scalar != s.buffer.dtype:
                _fail(f"{s.value.dtype} stored to {s.buffer.dtype} {s.buffer.name}", s)
            if s.indices[0].dtype.lanes not in (1, s.value.dtype.lanes):
                _fail("index and value have different lanes", s)
        case S.Prefetch():
            if len(s.indices) != 1:
                _fail(f"the prefetch of {s.buffer.name} is not flat", s)
        case S.If(condition=c) | S.While(condition=c):
            if c.dtype.lanes != 1 and not (isinstance(s, S.If) and target.kind == "llvm"):
                _fail("a vector condition", s)
        case S.Allocate(buffer=b) if inside_launch and b.shape[0].op != "const":
            raise LowerError(
                f"its size {b.shape[0]!r} is not a constant",
                asked=f"storage of {b.name} in a kernel",
                legal="tile with constant factors, or compute it at the root",
            )
        case S.Launch():
            inside_launch = True
    for child in S.children(s):
        _verify(child, bound, target, inside_launch)
