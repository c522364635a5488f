"""Rewriting expressions, without recursion: a chain of inlined stages is a thousand levels deep."""

from __future__ import annotations

from collections.abc import Callable

from autosched.ir.expr import Expr, rebuild

__all__ = ["rewrite"]


def rewrite(
    root: Expr, change: Callable[[Expr, tuple[Expr, ...]], Expr | None], done: dict[Expr, Expr] | None = None
) -> Expr:
    """`root` with every node replaced by `change(node, its new arguments)`, arguments first.

    Where `change` returns None the node stays, with its new arguments. Every distinct node is changed
    once; `done` keeps the results for further roots.

    >>> from autosched.ir.expr import var
    >>> x, y = var("x"), var("y")
    >>> rewrite(x * 2 + x, lambda e, args: y if e is x else None)
    y*2 + y
    """
    if done is None:
        done = {}
    stack = [root]
    while stack:
        e = stack[-1]
        if e in done:
            stack.pop()
            continue
        missing = [a for a in e.args if a not in done]
        if missing:
            stack += missing[::-1]
            continue
        stack.pop()
        args = tuple([done[a] for a in e.args])
        found = change(e, args)
        done[e] = found if found is not None else rebuild(e, args) if args else e
    return done[root]
