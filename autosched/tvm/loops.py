"""Loops of a lowered program with what they touch: what features of AutoTVM and of Ansor are counted from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from autosched.errors import UsageError
from autosched.ir.expr import Expr, const
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Allocate, Buffer, For, Stmt, Store, children, expressions
from autosched.ir.visit import post_order, substitute
from autosched.tvm.driver import lower


@dataclass(eq=False)
class Walked:
    """A loop: its length, its depth (1 for the outermost), what it is, and where it comes in the program."""

    loop: For
    length: int
    depth: int
    kind: str  #: serial, parallel, vectorize, unroll, vthread, blockIdx.x, ...
    order: int
    inside: list[Access] = field(default_factory=list)


@dataclass(eq=False)
class Access:
    """A load or a store of an element, and the loops around it, outermost first."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    is_store: bool
    loops: tuple[Walked, ...]
    store: Store

    def strides(self, an: Analyzer) -> list[int]:
        """How far each loop moves it: see `strides_of`."""
        return strides_of(self.buffer, self.indices, self.loops, an)


def strides_of(buffer: Buffer, indices: Sequence[Expr], loops: Sequence[Walked], an: Analyzer) -> list[int]:
    """How far each loop moves an element's place in the flat buffer; 1 where that is no number."""
    flat, step = const(0), 1
    for index, length in zip(reversed(indices), reversed(lengths_of(buffer, indices)), strict=True):
        flat = flat + index * step
        step = step * length
    present = {e for e in post_order(flat) if e.op == "var"}
    found = []
    for x in loops:
        v = x.loop.var
        moved = an.simplify(substitute(flat, {v: v + 1}) - flat) if v in present else const(0)
        found.append(int(moved.value) if moved.op == "const" else 1)
    return found


@dataclass(eq=False)
class Program:
    """All loops, stores and allocations of a program, in order."""

    loops: list[Walked]
    stores: list[tuple[Store, tuple[Walked, ...]]]
    accesses: list[Access]  #: of each store: itself, then its loads
    allocations: list[tuple[Buffer, tuple[Walked, ...]]]


def program_of(s: Any, args: Sequence[Any]) -> Program:
    """Lower a schedule, with its loops as scheduled. Raises UsageError for a length that is no number."""
    return walked(lower(s, list(args), simple_mode=True)["main"].body)


def walked(body: Stmt) -> Program:
    """Return the loops of a statement."""
    found = Program([], [], [], [])
    _visit(body, (), found)
    return found


def _visit(s: Stmt, around: tuple[Walked, ...], found: Program) -> None:
    if isinstance(s, For):
        if s.extent.op != "const":
            raise UsageError(
                f"the length of {s.var!r} is no number", asked="features of a program", legal="shapes that are numbers"
            )
        kind = s.thread or s.kind
        x = Walked(s, int(s.extent.value), len(around) + 1, "vthread" if kind.startswith("vthread") else kind, 0)
        x.order = len(found.loops)
        found.loops.append(x)
        _visit(s.body, (*around, x), found)
        return
    if isinstance(s, Allocate):
        found.allocations.append((s.buffer, around))
    if isinstance(s, Store):
        found.stores.append((s, around))
        for access in _accesses(s, around):
            found.accesses.append(access)
            for x in around:
                x.inside.append(access)
    for inner in children(s):
        _visit(inner, around, found)


def _accesses(s: Store, around: tuple[Walked, ...]) -> Iterator[Access]:
    yield Access(s.buffer, s.indices, True, around, s)
    for e in post_order(expressions(s)):
        if e.op == "load":
            yield Access(e.value, e.args, False, around, s)


def lengths_of(buffer: Buffer, indices: Sequence[Expr]) -> list[int]:
    """The lengths that indices run over: one where passes made the buffer flat; 1 for those that are no numbers."""
    return [size_of(buffer)] if len(indices) == 1 else [int(n.value) if n.op == "const" else 1 for n in buffer.shape]


def size_of(buffer: Buffer) -> int:
    """Elements of a buffer; 1 for each length that is no number."""
    return prod(int(n.value) if n.op == "const" else 1 for n in buffer.shape)
