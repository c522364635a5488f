"""Finding stores that together fill a stretch of memory, such as the three channels of a pixel.

    a[ramp(3*x, 3)] = r; a[ramp(3*x + 1, 3)] = g; a[ramp(3*x + 2, 3)] = b

is one contiguous store of the three vectors interleaved, where each store alone would take its lanes
apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.codegen.lanes import line_of
from autosched.codegen.llvm_memory import WIDEST_STRIDE
from autosched.ir.expr import Expr
from autosched.ir.stmt import Buffer, Stmt, Store
from autosched.ir.visit import post_order

__all__ = ["Interleaved", "distance", "interleaved"]


@dataclass(frozen=True)
class Interleaved:
    """Stores of `values[k]` to base + k, base + k + n, base + k + 2n, ... for n values."""

    buffer: Buffer
    base: Expr
    values: tuple[Expr, ...]
    lanes: int


def interleaved(stmts: Sequence[Stmt], start: int) -> Interleaved | None:
    """The stores from `stmts[start]` on that fill a stretch of memory, if they do."""
    first = stmts[start]
    if not isinstance(first, Store) or len(first.indices) != 1 or first.indices[0].dtype.lanes == 1:
        return None
    line = line_of(first.indices[0])
    if line is None or not 2 <= line[1] <= WIDEST_STRIDE or start + line[1] > len(stmts):
        return None
    count, lanes = line[1], first.indices[0].dtype.lanes
    offsets: dict[int, Expr] = {}
    bases: dict[int, Expr] = {}
    for position, s in enumerate(stmts[start : start + count]):
        if not isinstance(s, Store) or s.buffer is not first.buffer or len(s.indices) != 1:
            return None
        other = line_of(s.indices[0])
        if other is None or other[1] != count or s.indices[0].dtype.lanes != lanes:
            return None
        if s.value.dtype.scalar != s.buffer.dtype or (position > 0 and _reads(s, first.buffer)):
            return None
        offset = distance(line[0], other[0])
        if offset is None or offset in offsets:
            return None
        offsets[offset], bases[offset] = s.value, other[0]
    order = sorted(offsets)
    if order[-1] - order[0] != count - 1:
        return None
    return Interleaved(first.buffer, bases[order[0]], tuple(offsets[k] for k in order), lanes)


def _reads(s: Store, buffer: Buffer) -> bool:
    """Whether the store might read what the ones before it wrote."""
    return any(e.op == "load" and e.value is buffer for e in post_order([*s.indices, s.value]))


def distance(a: Expr, b: Expr) -> int | None:
    """`b - a` where it is a known number: both the same sum of terms, but for a constant."""
    terms, others = _terms(a), _terms(b)
    offset = others.pop(None, 0) - terms.pop(None, 0)
    if {e: k for e, k in terms.items() if k} != {e: k for e, k in others.items() if k}:
        return None
    return offset


def _terms(e: Expr, factor: int = 1, into: dict[Expr | None, int] | None = None) -> dict[Expr | None, int]:
    """The sum `e` as term -> factor; the constant is under None."""
    terms = {} if into is None else into
    match e.op:
        case "const":
            terms[None] = terms.get(None, 0) + factor * int(e.value)
        case "add" | "sub":
            _terms(e.args[0], factor, terms)
            _terms(e.args[1], factor if e.op == "add" else -factor, terms)
        case "neg":
            _terms(e.args[0], -factor, terms)
        case "mul" if e.args[1].op == "const":
            _terms(e.args[0], factor * int(e.args[1].value), terms)
        case "mul" if e.args[0].op == "const":
            _terms(e.args[1], factor * int(e.args[0].value), terms)
        case _:
            terms[e] = terms.get(e, 0) + factor
    return terms
