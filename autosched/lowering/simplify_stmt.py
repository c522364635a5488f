"""Simplification of statements: loops give ranges, conditions give facts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from autosched.ir import stmt as S
from autosched.ir.expr import Expr, is_const, likely, logical_not
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Stmt
from autosched.ir.visit import conjuncts, rewrite


@contextmanager
def inside_loop(loop: S.For, an: Analyzer) -> Iterator[None]:
    """What holds inside a loop holds for a while."""
    with an.tightened({}):
        enter_loop(loop, an)
        yield


def enter_loop(loop: S.For, an: Analyzer) -> None:
    """Assume what holds inside a loop: its variable is in range, and its extent is at least 1."""
    start, extent = an.poly(loop.start), an.poly(loop.extent)
    an.assume_nonneg(extent - 1)
    an.bind(loop.var, start, start + extent - 1)


def bind_loop(loop: S.For, an: Analyzer) -> None:
    """Tell the range of a loop's variable, but not that the loop runs."""
    start = an.poly(loop.start)
    an.bind(loop.var, start, start + an.poly(loop.extent) - 1)


def simplify_stmt(s: Stmt, an: Analyzer) -> Stmt:
    """Ranges of loops and facts of conditions resolve what they can.

    Loops and branches that never run are gone, and of a loop that runs once the body is left.
    """
    match s:
        case S.For():
            extent = an.simplify(s.extent)
            if extent.op == "const" and extent.value <= 0:
                return S.Seq(())
            start = an.simplify(s.start)
            if is_const(extent, 1) and s.kind != "thread":
                return simplify_stmt(S.substitute_stmt(s.body, {s.var: start}), an)
            loop = replace(s, start=start, extent=extent)
            with inside_loop(loop, an):
                body = simplify_stmt(s.body, an)
            return body if S.is_empty(body) else replace(loop, body=body)
        case S.If():
            return _simplify_if(s, an)
        case S.Let():
            value = an.simplify(s.value)
            if value.op in ("const", "var"):
                return simplify_stmt(S.substitute_stmt(s.body, {s.var: value}), an)
            return S.Let(s.var, value, simplify_stmt(s.body, an))
        case S.Produce():
            body = simplify_stmt(s.body, an)
            return body if S.is_empty(body) else S.Produce(s.name, body)
    exprs = [] if isinstance(s, S.Allocate) else [an.simplify(e) for e in S.expressions(s)]
    inner = []
    for c in S.children(s):
        inner.append(simplify_stmt(c, an))  # no comprehension: see `map_stmt`
    return S.with_parts(s, exprs, inner)


def _simplify_if(s: S.If, an: Analyzer) -> Stmt:
    marked = s.condition.op == "likely"
    kept: list[Expr] = []
    for c in conjuncts(s.condition):
        simple = an.simplify(c)
        if is_const(simple, False):
            return S.Seq(()) if s.otherwise is None else simplify_stmt(s.otherwise, an)
        if simple.op != "const" and not any(simple is c for c in kept):
            kept.append(simple)
    if not kept:
        return simplify_stmt(s.then, an)
    condition = kept[0]
    for c in kept[1:]:
        condition = condition & c
    with an.assuming(condition):
        then = simplify_stmt(s.then, an)
    otherwise = None
    if s.otherwise is not None:
        with an.assuming(logical_not(condition)):
            otherwise = simplify_stmt(s.otherwise, an)
    if S.is_empty(then) and S.is_empty(otherwise):
        return S.Seq(())
    if S.is_empty(then) and otherwise is not None:
        return S.If(logical_not(condition), otherwise)
    return S.If(likely(condition) if marked else condition, then, None if S.is_empty(otherwise) else otherwise)


def replace_exprs(s: Stmt, mapping: dict[Expr, Expr]) -> Stmt:
    """`s` with sub-expressions replaced, also inside the replacements, which must be smaller than the originals."""
    done: dict[Expr, Expr] = {}

    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        found = mapping.get(e)
        return None if found is None else rewrite(found, change, done)

    return S.map_stmt(s, lambda e: rewrite(e, change, done))
