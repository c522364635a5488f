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
from dataclasses import dataclass, field, fields, replace
from itertools import islice
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
    buffer whose rows are padded or that was declared with strides; without them, elements lie close
    together. `room` is the number of elements of memory, where shape and strides do not tell. For the
    rest see `ir.buffers.decl_buffer`.
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
        """The elements of memory that it takes, padding included."""
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
        self,
        access_mask: object = "rw",
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: object = 0,
        extent: object = None,
    ) -> Expr:
        """The address of the element at an offset in memory, for `call_extern`; the other arguments are hints."""
        return make("address", HANDLE, (as_expr(offset),), self)

    def vload(self, begin: object, dtype: object = None) -> Expr:
        """The elements from an index on: as many as the type has lanes, by default one."""
        return load(self, *_from(begin, 1 if dtype is None else to_dtype(dtype).lanes))

    def vstore(self, begin: object, value: object) -> Store:
        """The statement that writes a value, or a vector, from an index on."""
        e = as_expr(value, self.dtype)
        return Store(self, _from(begin, e.dtype.lanes), e)

    def __repr__(self) -> str:
        return self.described(repr)

    def described(self, text: Callable[[Expr], str]) -> str:
        """Name, type, shape, scope and strides, expressions as `text` prints them."""
        strides = f" strides [{', '.join(map(text, self.strides))}]" if self.strides else ""
        return f"{self.name}: {self.dtype}[{', '.join(map(text, self.shape))}] {self.scope}{strides}"


def _from(begin: object, lanes: int) -> tuple[Expr, ...]:
    *outer, last = map(as_expr, begin if isinstance(begin, (tuple, list)) else (begin,))
    return *outer, ramp(last, 1, lanes)


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


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
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


#: statement -> its fields, in the order in which they are evaluated and stored, with what each is: one or several
#: expressions or statements (`perhaps`: one or none), a variable, a buffer or (`same`) text. Hints are left out
FIELDS: dict[type, dict[str, str]] = {
    For: {"var": "variable", "start": "expr", "extent": "expr", "kind": "same", "thread": "same", "body": "statement"},
    Store: {"buffer": "buffer", "indices": "exprs", "value": "expr"},
    Prefetch: {"buffer": "buffer", "indices": "exprs"},
    If: {"condition": "expr", "then": "statement", "otherwise": "perhaps"},
    Seq: {"stmts": "statements"},
    Let: {"var": "variable", "value": "expr", "body": "statement"},
    Allocate: {"buffer": "buffer", "body": "statement"},
    Produce: {"name": "same", "body": "statement"},
    Evaluate: {"value": "expr"},
    While: {"condition": "expr", "body": "statement"},
    Barrier: {"scope": "same"},
    Launch: {"name": "same", "grid": "exprs", "block": "exprs", "body": "statement"},
}


def _parts(*kinds: str) -> dict[type, list[tuple[str, str]]]:
    return {cls: [(name, k) for name, k in fields.items() if k in kinds] for cls, fields in FIELDS.items()}


_BELOW = ("statement", "statements", "perhaps")
_EXPRESSIONS, _CHILDREN = _parts("expr", "exprs"), _parts(*_BELOW)
#: statement -> all its fields, in the order in which it is made of them, and what each is
_MADE_OF = {cls: [(f.name, kinds.get(f.name, "same")) for f in fields(cls)] for cls, kinds in FIELDS.items()}


def children(s: Stmt) -> tuple[Stmt, ...]:
    found: tuple[Stmt, ...] = ()
    for name, kind in _CHILDREN[type(s)]:
        part = getattr(s, name)
        if part is not None:
            found = (*found, part) if kind != "statements" else part
    return found


def expressions(s: Stmt) -> tuple[Expr, ...]:
    """The expressions of this statement itself, not of the statements in it."""
    if isinstance(s, Allocate):
        return s.buffer.shape
    found: tuple[Expr, ...] = ()
    for name, kind in _EXPRESSIONS[type(s)]:
        part = getattr(s, name)
        found = (*found, part) if kind == "expr" else (*found, *part)
    return found


def with_parts(s: Stmt, exprs: Sequence[Expr], inner: Sequence[Stmt]) -> Stmt:
    """`s` with others in place of its `expressions` and `children`, in the same order.

    A buffer's own shape is left alone: a Buffer is an identity, and the loads share it.
    """
    if isinstance(s, Seq):
        return seq(*inner)
    if not exprs and not inner:
        return s
    given: list[Any] = []
    values, below = iter(exprs), iter(inner)
    for name, kind in _MADE_OF[type(s)]:
        if kind == "expr":
            given.append(next(values))
        elif kind == "exprs":
            given.append(tuple(islice(values, len(getattr(s, name)))))
        else:
            given.append(next(below, None) if kind in _BELOW else getattr(s, name))
    return type(s)(*given)


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
    waiting = [s]
    while waiting:  # deep nests are walked without recursion, which would pass each statement on level by level
        s = waiting.pop()
        yield s
        waiting += children(s)[::-1]


def all_expressions(s: Stmt) -> list[Expr]:
    """The expressions of this statement and of all below it, in program order."""
    return [e for x in walk(s) for e in expressions(x)]


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
