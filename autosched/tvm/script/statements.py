"""Scripts as functions of statements: blocks become what they do.

An axis is its binding, `T.where` a condition, `T.init` runs where all reduce axes are at their beginning. Such a
function is built as it is; there is nothing to schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from autosched.errors import UsageError
from autosched.ir.expr import Expr, compare, const, logical_and, variables
from autosched.ir.node import order
from autosched.ir.simplify import simplify
from autosched.ir.stmt import (
    Allocate,
    Buffer,
    Function,
    If,
    Seq,
    Stmt,
    Store,
    children,
    handed_out,
    seq,
    substitute_stmt,
    walk,
    with_parts,
)
from autosched.ir.stmt import expressions as expressions_of
from autosched.ir.visit import substitute
from autosched.lowering.arguments import explicit_sizes, read_scalars
from autosched.tvm.script.parts import Block, Handle, Signature


@dataclass(frozen=True)
class Reason:
    """Why a function is not made of stages, and what it was read from; an attribute that is not printed."""

    text: str
    tree: Any = None

    def __str__(self) -> str:
        return self.text


def as_function(name: str, signature: Signature, body: Any, attrs: dict[str, Any], why: str = "") -> Function:
    """Return the function. Raises UsageError for a handle without a buffer."""
    done = seq(*(s for b, values in signature.constants.items() for s in _stored(b, values)), dissolved(body))
    for b in reversed([*signature.constants, *signature.buffers]):
        done = Allocate(b, done)
    params: list[Buffer] = []
    scalars: dict[Expr, Buffer] = {}
    for called, p in signature.params.items():
        if isinstance(p, Handle):
            raise UsageError(
                "no buffer is matched to it", asked=f"handle {called}", legal=f"T.match_buffer({called}, ..)"
            )
        b = p if isinstance(p, Buffer) else Buffer(called, (), p.dtype)
        if isinstance(p, Expr):
            scalars[p] = b
        params.append(b)
    dims = [d for b in params for d in (*b.shape, *b.strides)]
    sizes = tuple(dict.fromkeys(v for d in dims for v in sorted(variables(d), key=order)))
    done = read_scalars(done, params, scalars)
    written = {s.buffer for s in walk(done) if isinstance(s, Store)}.union(*map(handed_out, walk(done)))
    outputs = tuple(i for i, b in enumerate(params) if b in written)
    told = explicit_sizes(params, scalars)
    extra: dict[str, Any] = {"explicit_sizes": told} if told else {}
    if why:
        extra["stages"] = Reason(f"the blocks of {name} are no stages: {why}")
    return Function(name, tuple(params), sizes, done, outputs, {**attrs, **extra})


def _stored(b: Buffer, values: Sequence[Any]) -> list[Stmt]:
    """The stores of a buffer's numbers."""
    places = product(*(range(int(d.value)) for d in b.shape))
    return [Store(b, tuple(map(const, at)), const(v, b.dtype)) for at, v in zip(places, values, strict=True)]


def dissolved(s: Any) -> Stmt:
    """A statement without blocks."""
    if isinstance(s, Block):
        return _block(s)
    if isinstance(s, Seq):
        return seq(*map(dissolved, s.stmts))
    inner = [dissolved(c) for c in children(s)]
    made: Stmt = with_parts(s, expressions_of(s), inner) if inner else s
    return made


def _block(b: Block) -> Stmt:
    body = dissolved(b.body)
    if b.init is not None:
        first = logical_and(*(compare("eq", a.var, a.start) for a in b.axes if a.kind == "reduce"))
        init = dissolved(b.init)
        body = seq(init if first.op == "const" else If(first, init), body)
    bindings = {a.var: a.binding for a in b.axes}
    body = substitute_stmt(body, bindings)
    if b.predicate is not None:
        condition = simplify(substitute(b.predicate, bindings))
        body = body if condition.op == "const" and condition.value else If(condition, body)
    for buffer in reversed(b.buffers):
        body = Allocate(_sized(buffer, bindings), body)
    return body


def _sized(b: Buffer, bindings: dict[Expr, Expr]) -> Buffer:
    """The buffer, whose shape may not depend on axes."""
    if not any(variables(d) & bindings.keys() for d in b.shape):
        return b
    return replace(b, shape=tuple(substitute(d, bindings) for d in b.shape))
