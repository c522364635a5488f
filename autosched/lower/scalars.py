"""Numbers as arguments: a `te.var` that is an argument itself is passed as a tensor of no dimensions.

    n, alpha = te.var("n"), te.var("alpha", "float32")
    ...B[i] = A[i]*alpha...           lower(s, [alpha, A, B])      module(2.5, a, b)

A variable that shapes depend on is read off the shapes. It may be an argument all the
same: a call checks that the number it gets is that size.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.errors import LowerError
from autosched.ir.expr import Expr, variables
from autosched.ir.stmt import Allocate, Buffer, For, Stmt, load, walk
from autosched.lower.scoped import replace_exprs
from autosched.te.tensor import Tensor


def scalar_buffers(args: Sequence[Tensor | Expr]) -> dict[Expr, Buffer]:
    """The memory of the variables among the arguments. Raises LowerError for other expressions."""
    found: dict[Expr, Buffer] = {}
    for a in args:
        if not isinstance(a, Expr):
            continue
        if a.op != "var" or a.value.role not in ("size", "scalar") or a in found:
            why = "it is given twice" if a in found else "it is not a variable"
            raise LowerError(why, asked=f"argument {a!r}", legal='tensors, and variables: te.var("alpha", "float32")')
        found[a] = Buffer(a.value.name, (), a.dtype)
    return found


def explicit_sizes(params: Sequence[Buffer], scalars: dict[Expr, Buffer]) -> tuple[int, ...]:
    """Which parameters are numbers that the shapes of others tell as well."""
    lengths = {v for b in params for d in (*b.shape, *b.strides) for v in variables(d)}
    known = {b for v, b in scalars.items() if v in lengths}
    return tuple([i for i, b in enumerate(params) if b in known])


def read_scalars(body: Stmt, params: Sequence[Buffer], scalars: dict[Expr, Buffer]) -> Stmt:
    """`body` with the variables loaded from their arguments, where they are values and no lengths."""
    told = explicit_sizes(params, scalars)
    scalars = {v: b for v, b in scalars.items() if not any(b is params[i] for i in told)}
    if not scalars:
        return body
    lengths: list[Expr] = []
    for s in walk(body):
        if isinstance(s, For):
            lengths += (s.start, s.extent)
        elif isinstance(s, Allocate):
            lengths += s.buffer.shape
    for v in scalars:
        if any(v in variables(d) for d in lengths):
            raise LowerError(
                f"the length of a loop or intermediate depends on {v.name}, which the shape of no argument tells",
                asked=f"argument {v.name}",
                legal=f"leave {v.name} out, and let it be the length of one more input",
            )
    return replace_exprs(body, {v: load(b) for v, b in scalars.items()})
