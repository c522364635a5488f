"""Storage: buffers become flat, and buffers whose lives do not overlap share memory."""

from __future__ import annotations

from collections.abc import Callable

from autosched.errors import LowerError
from autosched.ir.buffers import row_major
from autosched.ir.expr import Expr, const, make, maximum, variables
from autosched.ir.ops import ACCESSES
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Allocate, Buffer, Prefetch, Seq, Stmt, Store, map_stmt, read_buffers, walk
from autosched.ir.visit import rewrite

#: a buffer, and the indices or other arguments of an access to it
Place = tuple[Buffer, tuple[Expr, ...]]


def flatten_buffers(body: Stmt, params: tuple[Buffer, ...], an: Analyzer) -> Stmt:
    """One index for each access.

    Offsets are row-major, or by the buffer's strides. Allocated buffers get a one-dimensional shape.
    """
    flat: dict[Buffer, Buffer] = {b: b for b in params}
    strides: dict[Buffer, list[Expr]] = {}

    def target(b: Buffer) -> Buffer:
        if b not in flat:
            size = an.simplify(b.elements)
            if any(v.value.role != "size" for v in variables(size)):
                raise LowerError(
                    f"its size {size!r} depends on a loop",
                    asked=f"storage of {b.name}",
                    legal="compute it at the root, or at a loop whose region has a fixed size",
                )
            flat[b] = Buffer(b.name, (size,), b.dtype, b.scope)
        return flat[b]

    def offset(b: Buffer, indices: tuple[Expr, ...]) -> Expr:
        if b not in strides:
            strides[b] = list(b.strides) or row_major(b.shape, an.simplify)
        if len(indices) == 1 and len(b.shape) != 1:  # flat already
            return indices[0]
        total: Expr = const(0)
        for i, step in zip(indices, strides[b], strict=False):
            total = total + i * step
        return total

    def flat_access(b: Buffer, indices: tuple[Expr, ...], what: str) -> Place:
        return target(b), indices if what in ("view", "allocate") else (offset(b, indices),)

    return map_accesses(body, flat_access)


def reuse_storage(body: Stmt, an: Analyzer) -> Stmt:
    """Intermediates whose lives do not overlap share memory.

    Those of one type that are allocated together at the root: the first keeps its name, and becomes as large as
    the largest.
    """
    chain: list[Buffer] = []
    rest = body
    while isinstance(rest, Allocate):
        chain.append(rest.buffer)
        rest = rest.body
    if len(chain) < 2 or not isinstance(rest, Seq):
        return body
    lives = dict.fromkeys(chain, (len(rest.stmts), len(rest.stmts)))  #: the first and the last access
    for i, s in enumerate(rest.stmts):
        stored = {x.buffer for x in walk(s) if isinstance(x, Store | Prefetch)}
        for b in (stored | read_buffers(s)) & lives.keys():
            lives[b] = (min(lives[b][0], i), i)
    owner: dict[Buffer, Buffer] = {}
    groups: list[list[Buffer]] = []
    for b in sorted(chain, key=lambda b: lives[b]):
        for group in groups:
            fits = group[0].dtype == b.dtype and group[0].scope == b.scope
            if fits and lives[group[-1]][1] < lives[b][0]:
                group.append(b)
                break
        else:
            groups.append([b])
    for group in groups:
        size = group[0].shape[0]
        for b in group[1:]:
            size = an.simplify(maximum(size, b.shape[0]))
        merged = group[0] if len(group) == 1 else Buffer(group[0].name, (size,), group[0].dtype, group[0].scope)
        owner.update(dict.fromkeys(group, merged))
    result: Stmt = retarget(rest, owner)
    for merged in reversed(list(dict.fromkeys(owner[b] for b in chain))):
        result = Allocate(merged, result)
    return result


def retarget(s: Stmt, owner: dict[Buffer, Buffer]) -> Stmt:
    """`s` with other buffers in place of some, in accesses and allocations."""
    return map_accesses(s, lambda b, indices, what: (owner[b], indices) if b in owner else None)


def map_accesses(s: Stmt, change: Callable[[Buffer, tuple[Expr, ...], str], Place | None]) -> Stmt:
    """`s` with other buffers and indices in its accesses and allocations.

    `change` is given the buffer, the arguments of the access (none for an allocation) and what it is: the operator of
    an expression, `store` or `allocate`. Where it returns None the access stays.
    """
    done: dict[Expr, Expr] = {}

    def on_expr(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        found = change(e.value, args, e.op) if e.op in ACCESSES else None
        return None if found is None else make(e.op, e.dtype, found[1], found[0])

    def on_stmt(s: Stmt) -> Stmt:
        match s:
            case Store() if found := change(s.buffer, s.indices, "store"):
                return Store(*found, s.value, s.streaming)
            case Prefetch() if found := change(s.buffer, s.indices, "store"):
                return Prefetch(*found)
            case Allocate() if found := change(s.buffer, (), "allocate"):
                return Allocate(found[0], s.body)
        return s

    return map_stmt(s, lambda e: rewrite(e, on_expr, done), on_stmt)
