"""Unrolling: which loops are written out, by themselves and by the pragmas around them."""

from __future__ import annotations

from dataclasses import replace

from autosched.errors import LowerError
from autosched.ir.stmt import Evaluate, For, Stmt, Store, children, map_stmt, seq, substitute_stmt, walk
from autosched.lowering.verify import check_constant

#: Unrolling by `auto_unroll_max_step` goes through at most so many loops in one another.
MAX_DEPTH = 8
#: Unrolling may not make a program longer than this many statements.
MAX_UNROLLED = 8192


def hint(loop: For, name: str) -> int | None:
    """The value of a loop's pragma, or None."""
    return next((int(p.partition("=")[2] or 1) for p in loop.pragmas if p.partition("=")[0] == name), None)


def apply_hints(body: Stmt) -> Stmt:
    """Loops are unrolled, or not, as pragmas ask."""

    def on_loop(s: Stmt) -> Stmt:
        if not isinstance(s, For):
            return s
        steps = hint(s, "auto_unroll_max_step")
        if steps:
            s = _unrolled(s, steps)
        return map_stmt(s, on_stmt=as_loop) if hint(s, "unroll_explicit") == 0 else s

    def as_loop(s: Stmt) -> Stmt:
        return replace(s, kind="serial") if isinstance(s, For) and s.kind == "unroll" else s

    return map_stmt(body, on_stmt=on_loop)


def _unrolled(s: For, most: int) -> For:
    """The loop, with the loops that add up to at most so many steps marked to be unrolled."""
    depth = 0

    def mark(x: Stmt) -> Stmt:
        nonlocal depth
        if not isinstance(x, For) or x.kind != "serial" or x.extent.op != "const":
            return x
        if any(isinstance(y, For) and y.kind != "unroll" for y in walk(x.body)) or depth >= MAX_DEPTH:
            return x  # a loop stays inside, so copies of it are not straight-line code
        if _steps(x.body) * int(x.extent.value) > most:
            return x
        depth += 1
        return replace(x, kind="unroll")

    done = map_stmt(s, on_stmt=mark)
    assert isinstance(done, For)
    return done


def _steps(s: Stmt) -> int:
    """The number of stores once marked loops are written out."""
    if isinstance(s, For):
        inner = _steps(s.body)
        return inner * int(s.extent.value) if s.kind == "unroll" and s.extent.op == "const" else inner
    if isinstance(s, Store | Evaluate):
        return 1
    return sum(map(_steps, children(s)))


def unroll_loops(s: Stmt) -> Stmt:
    """Unrolled loops are written out."""

    def unroll(s: Stmt) -> Stmt:
        if not isinstance(s, For) or s.kind != "unroll":
            return s
        if s.extent.op != "const":
            if s.ragged or s.start.op != "const":
                return replace(s, kind="serial")
            legal = "split the loop by a constant factor and unroll the inner loop"
            check_constant(s, f"unroll {s.var.name}", legal)
        size = sum(1 for _ in walk(s.body))
        if size * s.extent.value > MAX_UNROLLED:
            raise LowerError(
                f"{s.extent.value} copies of its body are more than {MAX_UNROLLED} statements",
                asked=f"unroll {s.var.name}",
                legal="unroll a smaller loop",
                loop=s.var,
            )
        copies = (substitute_stmt(s.body, {s.var: s.start + k}) for k in range(s.extent.value))
        return seq(*copies)

    return map_stmt(s, on_stmt=unroll)
