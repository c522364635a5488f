"""Virtual threads: loops bound to `vthread` are pushed inwards until they enclose single statements.

    for v in 2:                                allocate C.local[2*1]
      allocate C.local[1]                      C.local[0] = 0; C.local[1] = 0
      C.local[0] = 0                     ->    for k: A.shared[..] = A[k, ..]
      for k:                                          C.local[0] += A.shared[0]
        A.shared[..] = A[k, ..]                       C.local[1] += A.shared[8]
        C.local[0] += A.shared[8*v]

One work-item does the work of all its virtual threads, interleaved. What does not depend on `v` (the
fetch of a shared tile, say) is done once; storage that does depend on it gets a copy for each.
"""

from __future__ import annotations

from dataclasses import replace

from autosched.errors import LowerError
from autosched.ir.expr import Expr, const, make, var, variables
from autosched.ir.ops import ACCESSES
from autosched.ir.stmt import (
    VTHREAD,
    Allocate,
    Buffer,
    Evaluate,
    For,
    If,
    Let,
    Prefetch,
    Produce,
    Seq,
    Stmt,
    Store,
    children,
    expressions,
    handed_out,
    map_stmt,
    seq,
    substitute_stmt,
    walk,
)
from autosched.ir.visit import post_order, rewrite

__all__ = ["inject"]


def inject(body: Stmt) -> Stmt:
    """`body`, whose indices are flat, without loops of virtual threads. Raises LowerError."""

    def unbind(s: Stmt) -> Stmt:
        if not isinstance(s, For) or s.thread != VTHREAD:
            return s
        if s.extent.op != "const":
            raise LowerError(
                f"its extent {s.extent!r} is not a constant",
                asked=f"bind {s.var.name} to {VTHREAD}",
                legal="split the loop by a constant, or into a constant number of parts",
                loop=s.var,
            )
        return _VirtualThreads(s).push(s.body)

    return map_stmt(body, on_stmt=unbind)


class _VirtualThreads:
    """One loop on its way inwards."""

    def __init__(self, loop: For) -> None:
        self.v, self.count = loop.var, int(loop.extent.value)
        inside = {s.buffer for s in walk(loop.body) if isinstance(s, Allocate)}
        self.own = {
            b: replace(b, shape=(b.shape[0] * self.count,))
            for b in sorted(self._differing(loop.body, inside), key=lambda b: b.name)
        }
        self._depends: dict[Stmt, bool] = {}

    def _differing(self, body: Stmt, inside: set[Buffer]) -> set[Buffer]:
        """The buffers whose contents are not the same for all virtual threads."""
        found: set[Buffer] = set()
        while True:
            more = self._written(body, found, False) & inside
            if more <= found:
                return found
            found |= more

    def _written(self, s: Stmt, differing: set[Buffer], under: bool) -> set[Buffer]:
        """The buffers written where, or with what, depends on `v`; `under`: everything here does."""
        under = under or any(self._mentions(e, differing) for e in expressions(s))
        if isinstance(s, Store | Evaluate):
            touched = handed_out(s) | ({s.buffer} if isinstance(s, Store) else set())
            return touched if under else touched & differing
        return set().union(*(self._written(c, differing, under) for c in children(s)))

    def _mentions(self, e: Expr, differing: set[Buffer]) -> bool:
        return self.v in variables(e) or any(n.op in ACCESSES and n.value in differing for n in post_order(e))

    def depends(self, s: Stmt) -> bool:
        """Whether anything in `s` is not the same for all virtual threads."""
        if s not in self._depends:
            here = any(self._mentions(e, set(self.own)) for e in expressions(s))
            here = here or (isinstance(s, Store | Prefetch) and s.buffer in self.own)
            self._depends[s] = here or any(self.depends(c) for c in children(s))
        return self._depends[s]

    def push(self, s: Stmt) -> Stmt:
        """`s` for all virtual threads."""
        if not self.depends(s):
            return s
        asks = any(self._mentions(e, set(self.own)) for e in expressions(s))
        match s:
            case Seq(stmts=stmts):
                return seq(*(self.push(c) for c in stmts))
            case Allocate():
                return Allocate(self.own.get(s.buffer, s.buffer), self.push(s.body))
            case For() | Let() | Produce() if not asks:
                return replace(s, body=self.push(s.body))
            case If() if not asks:
                return If(s.condition, self.push(s.then), None if s.otherwise is None else self.push(s.otherwise))
            case _:
                v = var(f"{self.v.name}.v", role="loop")
                return For(v, const(0), const(self.count), "unroll", substitute_stmt(self._retarget(s), {self.v: v}))

    def _retarget(self, s: Stmt) -> Stmt:
        """The same accesses in the copies of virtual thread `v`."""

        def shifted(b: Buffer, index: Expr) -> Expr:
            return index + self.v * b.shape[0]

        def loads(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
            own = self.own.get(e.value) if e.op in ACCESSES else None
            return None if own is None else make(e.op, e.dtype, (shifted(e.value, args[0]), *args[1:]), own)

        def stores(s: Stmt) -> Stmt:
            match s:
                case Store() if s.buffer in self.own:
                    return Store(self.own[s.buffer], (shifted(s.buffer, s.indices[0]),), s.value)
                case Prefetch() if s.buffer in self.own:
                    return Prefetch(self.own[s.buffer], (shifted(s.buffer, s.indices[0]),))
                case Allocate():
                    return Allocate(self.own.get(s.buffer, s.buffer), s.body)
                case _:
                    return s

        done: dict[Expr, Expr] = {}
        return map_stmt(s, lambda e: rewrite(e, loads, done), stores)
