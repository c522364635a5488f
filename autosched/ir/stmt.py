"""Statements: a handful of frozen dataclasses, handled with `match`.

    stmt   ::= For(var, start, extent, kind, thread, body)      for var in [start, start + extent)
             | Store(buffer, indices, value)                    buffer[indices] = value
             | If(condition, then, otherwise)
             | Seq(stmts)
             | Let(var, value, body)
             | Allocate(buffer, body)                           buffer lives while body runs
             | Produce(name, body)                              a label: these loops compute `name`
             | Evaluate(value)                                  a call for its effect
             | While(condition, body)
             | Prefetch(buffer, indices)                 buffer[indices] will be read: a hint, anywhere
             | Barrier(scope)                                   all work-items of the group meet here
             | Launch(name, grid, block, body)                  one device kernel (GPU-style targets)
    Function ::= (name, params, sizes, body, outputs)

Indices are one Expr per dimension until `flatten_buffers`, exactly one afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from autosched.ir.dtype import HANDLE, DType
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr, as_expr, const, make, ramp
from autosched.ir.node import fresh
from autosched.ir.ops import ACCESSES
from autosched.ir.visit import substitute, values_below

LOOP_KINDS = ("serial", "parallel", "vectorize", "unroll", "thread")
THREAD_TAGS = tuple(f"{level}Idx.{axis}" for level in ("block", "thread") for axis in "xyz")
#: what a loop of virtual threads is bound to: one work-item does the work of all of them
VTHREAD = "vthread"
#: other names for the same: several loops of a stage may have one
VTHREAD_SPELLINGS = ("vthread.x", "vthread.y", "vthread.z", "cthread")


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """Memory of one element type. Identity is identity: two buffers are never equal.

    `shape` in elements, outermost first, row-major. `scope`: `global`, `shared` (one per
    work-group) or `local` (one per thread or work-item). `strides`, in elements, are those of a
    buffer whose rows are padded or that was declared with strides, which says how many elements of
    memory there is `room` for; none means that the elements lie close together. For the rest see
    `ir.buffers.decl_buffer`.
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    scope: str = "global"
    strides: tuple[Expr, ...] = ()
    room: Expr | None = None
    elem_offset: Expr | None = None
    data_alignment: int = -1
    offset_factor: int = 0
    buffer_type: str = ""
    serial: int = field(default_factory=fresh, init=False)  #: see `ir.node.order`
    #: hints for `access_ptr`: what may be done there
    READ: ClassVar[int] = 1
    WRITE: ClassVar[int] = 2

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> Expr:
        """How many elements of memory it takes, padding included."""
        if self.room is not None:
            return self.room
        if self.strides:
            return self.strides[0] * self.shape[0]
        total: Expr = const(1)
        for d in self.shape:
            total = total * d
        return total

    @property
    def data(self) -> Expr:
        """The address of its memory."""
        return self.access_ptr()

    def access_ptr(
        self, access_mask: object = "rw", ptr_type: str = "handle", content_lanes: int = 1, offset: object = 0
    ) -> Expr:
        """The address of the element at an offset in memory, for `call_extern`; the other arguments are hints."""
        return make("address", HANDLE, (as_expr(offset),), self)

    def vload(self, begin: object, dtype: object = None) -> Expr:
        """The elements from an index on: as many as the type has lanes, by default one."""
        indices = tuple(map(as_expr, begin if isinstance(begin, (tuple, list)) else (begin,)))
        lanes = 1 if dtype is None else to_dtype(dtype).lanes
        return load(self, *indices[:-1], ramp(indices[-1], 1, lanes))

    def vstore(self, begin: object, value: object) -> Store:
        """The statement that writes a value, or a vector, from an index on."""
        indices = tuple(map(as_expr, begin if isinstance(begin, (tuple, list)) else (begin,)))
        e = as_expr(value, self.dtype)
        return Store(self, (*indices[:-1], ramp(indices[-1], 1, e.dtype.lanes)), e)

    def __repr__(self) -> str:
        strides = f" strides [{', '.join(map(repr, self.strides))}]" if self.strides else ""
        return f"{self.name}: {self.dtype}[{', '.join(map(repr, self.shape))}] {self.scope}{strides}"


def load(buffer: Buffer, *indices: Expr) -> Expr:
    lanes = max((i.dtype.lanes for i in indices), default=1)
    return make("load", buffer.dtype.with_lanes(lanes), tuple(indices), buffer)


@dataclass(frozen=True, slots=True, eq=False)
class For:
    """`for var in [start, start + extent): body`; iterations of `parallel` and `thread` commute.

    `thread` is the hardware index a `thread` loop is bound to (one of `THREAD_TAGS`, or `VTHREAD`).
    `ragged` marks a piece that partitioning cut off: rarely run, so not worth vector code.
    `lanes` marks a serial loop that was part of a vector loop: it may be run this many iterations
    at a time, in vectors that overlap if they must. `pragmas` are those of `schedule.primitives.marks` that
    lowering looks at. A `masked` vector loop stays whole where a guard holds for some of its lanes only.
    """

    var: Expr
    start: Expr
    extent: Expr
    kind: str
    body: Stmt
    thread: str = ""
    ragged: bool = False
    lanes: int = 0
    pragmas: tuple[str, ...] = ()
    masked: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """`buffer[indices] = value`; a vector index or value stores all lanes.

    `streaming` stores go past the caches where the target can do that.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    streaming: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class If:
    condition: Expr
    then: Stmt
    otherwise: Stmt | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Seq:
    stmts: tuple[Stmt, ...]

    def __len__(self) -> int:
        return len(self.stmts)

    def __getitem__(self, at: int) -> Stmt:
        return self.stmts[at]


@dataclass(frozen=True, slots=True, eq=False)
class Let:
    var: Expr
    value: Expr
    body: Stmt


@dataclass(frozen=True, slots=True, eq=False)
class Allocate:
    buffer: Buffer
    body: Stmt


@dataclass(frozen=True, slots=True, eq=False)
class Produce:
    name: str
    body: Stmt


@dataclass(frozen=True, slots=True, eq=False)
class Evaluate:
    """`value`, a call of a function from outside, for its effect; what it returns is dropped."""

    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class While:
    """`while condition: body`; the condition reads memory that the body writes."""

    condition: Expr
    body: Stmt


@dataclass(frozen=True, slots=True, eq=False)
class Prefetch:
    """`buffer[indices]` will be read soon: a hint, which may name elements that do not exist."""

    buffer: Buffer
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Barrier:
    scope: str = "shared"


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """Run `body` once for each work-item of `grid` x `block` (three extents each, x first).

    In `body`, a work-item knows its place by the `thread` variables named after `THREAD_TAGS`.
    """

    name: str
    grid: tuple[Expr, Expr, Expr]
    block: tuple[Expr, Expr, Expr]
    body: Stmt


Stmt = For | Store | If | Seq | Let | Allocate | Produce | Evaluate | While | Prefetch | Barrier | Launch


@dataclass(frozen=True, slots=True, eq=False)
class Require:
    """A condition on the sizes of a call, checked when they are known; `reason` says what needs it."""

    condition: Expr
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A lowered program. Calls pass `params` in order; `sizes` are read off their shapes.

    `outputs` are the positions in `params` that the function writes. A buffer whose shape names a
    size variable alone in some dimension defines it. A call whose sizes break what it `requires` is
    refused.
    """

    name: str
    params: tuple[Buffer, ...]
    sizes: tuple[Expr, ...]
    body: Stmt
    outputs: tuple[int, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    requires: tuple[Require, ...] = ()

    def with_body(self, body: Stmt) -> Function:
        return replace(self, body=body)


def seq(*stmts: Stmt | None) -> Stmt:
    """The statements one after the other, flattened; None is left out."""
    flat: list[Stmt] = []
    for s in stmts:
        if isinstance(s, Seq):
            flat.extend(s.stmts)
        elif s is not None:
            flat.append(s)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def is_empty(s: Stmt | None) -> bool:
    return s is None or (isinstance(s, Seq) and not s.stmts)


def children(s: Stmt) -> tuple[Stmt, ...]:
    match s:
        case For(body=body) | Let(body=body) | Allocate(body=body) | Produce(body=body) | Launch(body=body):
            return (body,)
        case While(body=body):
            return (body,)
        case If(then=then, otherwise=otherwise):
            return (then,) if otherwise is None else (then, otherwise)
        case Seq(stmts=stmts):
            return stmts
        case _:
            return ()


def expressions(s: Stmt) -> tuple[Expr, ...]:
    """The expressions of this statement itself, not of the statements in it."""
    match s:
        case For(start=start, extent=extent):
            return (start, extent)
        case Store(indices=indices, value=value):
            return (*indices, value)
        case Prefetch(indices=indices):
            return indices
        case If(condition=condition) | While(condition=condition):
            return (condition,)
        case Let(value=value) | Evaluate(value=value):
            return (value,)
        case Allocate(buffer=buffer):
            return buffer.shape
        case Launch(grid=grid, block=block):
            return (*grid, *block)
        case _:
            return ()


def with_parts(s: Stmt, exprs: Sequence[Expr], inner: Sequence[Stmt]) -> Stmt:
    """`s` with others in place of its `expressions` and `children`, in the same order.

    A buffer's own shape is left alone: a Buffer is an identity, and the loads share it.
    """
    match s:
        case For():
            return replace(s, start=exprs[0], extent=exprs[1], body=inner[0])
        case Store():
            return Store(s.buffer, tuple(exprs[:-1]), exprs[-1], s.streaming)
        case Prefetch():
            return Prefetch(s.buffer, tuple(exprs))
        case If():
            return If(exprs[0], inner[0], inner[1] if len(inner) > 1 else None)
        case Seq():
            return seq(*inner)
        case Let():
            return Let(s.var, exprs[0], inner[0])
        case Allocate():
            return Allocate(s.buffer, inner[0])
        case Produce():
            return Produce(s.name, inner[0])
        case Evaluate():
            return Evaluate(exprs[0])
        case While():
            return While(exprs[0], inner[0])
        case Launch():
            (gx, gy, gz), (bx, by, bz) = exprs[:3], exprs[3:]
            return Launch(s.name, (gx, gy, gz), (bx, by, bz), inner[0])
        case _:
            return s


def with_children(s: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """`s` with what `change` makes of each of its children."""
    inner = []
    for c in children(s):
        inner.append(change(c))  # no comprehension: see `map_stmt`
    return with_parts(s, expressions(s), inner) if inner else s


def handed_out(s: Stmt) -> set[Buffer]:
    """The buffers whose memory this statement itself hands to a function, which may read and write it."""
    return {e.value for e in values_below(expressions(s)) if e.op in ("address", "view")}


def read_buffers(s: Stmt) -> set[Buffer]:
    """The buffers that expressions in `s` load from, or hand to functions."""
    return {e.value for x in walk(s) for e in values_below(expressions(x)) if e.op in ACCESSES}


def walk(s: Stmt) -> Iterator[Stmt]:
    """This statement and all below it, outer before inner, in program order."""
    yield s
    for c in children(s):
        yield from walk(c)


def map_stmt(
    s: Stmt,
    on_expr: Callable[[Expr], Expr] = lambda e: e,
    on_stmt: Callable[[Stmt], Stmt] = lambda s: s,
) -> Stmt:
    """`s` rebuilt bottom-up: `on_expr` on each expression, then `on_stmt` on each statement."""

    def go(s: Stmt) -> Stmt:
        exprs = [] if isinstance(s, Allocate) else [on_expr(e) for e in expressions(s)]
        inner = []
        for c in children(s):
            inner.append(go(c))  # no comprehension: each would be a frame more of a stack that deep nests fill
        return on_stmt(with_parts(s, exprs, inner))

    return go(s)


def substitute_stmt(s: Stmt, mapping: dict[Expr, Expr]) -> Stmt:
    return map_stmt(s, lambda e: substitute(e, mapping)) if mapping else s
