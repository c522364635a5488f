"""`tvm.tir.stmt_functor`: visiting and rewriting programs; every statement and every expression in it is a node.

Nodes that do not change stay the same objects, so the nodes that a visit finds can be recognized while rewriting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched.ir.expr import Expr, as_expr
from autosched.ir.stmt import (
    For,
    Let,
    Stmt,
    children,
    expressions,
    substitute_stmt,
    with_parts,
)
from autosched.ir.visit import post_order, rebuild
from autosched.ir.visit import substitute as substitute_expr
from autosched.tvm._missing import missing
from autosched.tvm.tir.nodes import matcher

Node = Expr | Stmt
Change = Callable[[Node], Node | None]


def post_order_visit(root: Node, visit: Callable[[Node], object]) -> None:
    """Call `visit` on every distinct node below `root`, parts before wholes.

    >>> from autosched.ir.expr import var
    >>> found = []
    >>> post_order_visit(var("x") * 2, found.append)
    >>> found
    [x, 2, x*2]
    """
    seen: set[Node] = set()

    def expr(e: Expr) -> None:
        for node in post_order(e):
            if node not in seen:
                seen.add(node)
                visit(node)

    def stmt(s: Stmt) -> None:
        for e in (s.var,) if isinstance(s, (For, Let)) else ():
            expr(e)
        for e in expressions(s):
            expr(e)
        for c in children(s):
            stmt(c)
        if s not in seen:
            seen.add(s)
            visit(s)

    expr(root) if isinstance(root, Expr) else stmt(root)


def substitute(root: Node, mapping: dict[Expr, object]) -> Node:
    """Return `root` with variables replaced by other expressions (or numbers)."""
    by = {v: as_expr(e, v.dtype) for v, e in mapping.items()}
    return substitute_expr(root, by) if isinstance(root, Expr) else substitute_stmt(root, by)


def ir_transform(
    stmt: Any, preorder: Change | None, postorder: Change | None, only_enable: Sequence[str] | None = None
) -> Any:
    """Return a program rewritten node by node.

    preorder:    its result for a node takes the node's place; where it returns None, the node's parts are rewritten
    postorder:   its result for a node with rewritten parts takes the place of that, unless it is None
    only_enable: the kinds of nodes that go to the two, `["tir.For"]`; by default all
    """
    transform = _Transform(preorder, postorder, matcher(only_enable))
    return transform.expr(stmt) if isinstance(stmt, Expr) else transform.stmt(stmt)


class _Transform:
    def __init__(self, pre: Change | None, post: Change | None, only: Callable[[Node], bool]) -> None:
        self.pre, self.post, self.only = pre, post, only
        self.done: dict[Expr, Expr] = {}

    def before(self, node: Node) -> Node | None:
        return self.pre(node) if self.pre is not None and self.only(node) else None

    def after(self, node: Node) -> Node:
        found = self.post(node) if self.post is not None and self.only(node) else None
        return node if found is None else found

    def expr(self, root: Expr) -> Expr:
        """Without recursion: a chain of inlined stages may be long."""
        stack, entered = [root], set()
        while stack:
            e = stack[-1]
            if e in self.done:
                stack.pop()
                continue
            if e not in entered:
                entered.add(e)
                found = self.before(e)
                if found is not None:
                    self.done[e] = _expression(found)
                    continue
            missing = [a for a in e.args if a not in self.done]
            if missing:
                stack += missing[::-1]
                continue
            stack.pop()
            self.done[e] = _expression(self.after(rebuild(e, tuple([self.done[a] for a in e.args]))))
        return self.done[root]

    def stmt(self, s: Stmt) -> Stmt:
        found = self.before(s)
        new = self.after(self.parts(s)) if found is None else found
        if isinstance(new, Expr):
            raise TypeError(f"a statement was replaced by the expression {new!r}")
        return new

    def parts(self, s: Stmt) -> Stmt:
        """`s` with rewritten parts; `s` itself where none changed."""
        exprs, inner = [self.expr(e) for e in expressions(s)], [self.stmt(c) for c in children(s)]
        old = (*expressions(s), *children(s))
        if all(a is b for a, b in zip(old, (*exprs, *inner), strict=True)):
            return s
        return with_parts(s, exprs, inner)


def _expression(node: Node) -> Expr:
    if not isinstance(node, Expr):
        raise TypeError(f"an expression was replaced by the statement {node!r}")
    return node


__getattr__ = missing(
    "tir.stmt_functor", globals(), {"renew_defs": "functions may share variables; there is nothing to renew"}
)
