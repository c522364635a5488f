"""Statements of opaque operations as plain data, for `graph_json`.

    ["for", var, start, extent, kind, thread, body]     ["if", condition, then, otherwise or null]
    ["store", buffer, [index, ...], value]              ["let", var, value, body]
    ["seq", [statement, ...]]                           ["allocate", buffer, body]
    ["evaluate", call]                                  ["while", condition, body]

Variables, expressions and buffers are positions in the graph's tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autosched.errors import UsageError
from autosched.ir.expr import Expr
from autosched.ir.stmt import (
    LOOP_KINDS,
    THREAD_TAGS,
    VTHREAD,
    Allocate,
    Buffer,
    Evaluate,
    For,
    If,
    Let,
    Seq,
    Stmt,
    Store,
    While,
)

__all__ = ["Decode", "Encode", "statement_from_json", "statement_to_json"]


@dataclass(frozen=True)
class Encode:
    """Positions in the tables of a graph."""

    variable: Callable[[Expr], int]
    expr: Callable[[Expr], int]
    buffer: Callable[[Buffer], int]


@dataclass(frozen=True)
class Decode:
    """What is at a position in the tables of a graph."""

    variable: Callable[[Any], Expr]
    expr: Callable[[Any], Expr]
    buffer: Callable[[Any], Buffer]


def statement_to_json(s: Stmt, at: Encode) -> list[Any]:
    """The statement as data. Raises UsageError for one that only lowering makes."""

    def go(s: Stmt) -> list[Any]:
        match s:
            case For():
                span = [at.expr(s.start), at.expr(s.extent)]
                return ["for", at.variable(s.var), *span, s.kind, s.thread, go(s.body)]
            case Store():
                return ["store", at.buffer(s.buffer), [at.expr(i) for i in s.indices], at.expr(s.value)]
            case If():
                return ["if", at.expr(s.condition), go(s.then), None if s.otherwise is None else go(s.otherwise)]
            case Seq():
                return ["seq", [go(c) for c in s.stmts]]
            case Let():
                return ["let", at.variable(s.var), at.expr(s.value), go(s.body)]
            case Allocate():
                return ["allocate", at.buffer(s.buffer), go(s.body)]
            case Evaluate():
                return ["evaluate", at.expr(s.value)]
            case While():
                return ["while", at.expr(s.condition), go(s.body)]
        raise UsageError(f"{type(s).__name__} has no form as data", asked="statement of a te.extern in a graph")

    return go(s)


def statement_from_json(data: Any, at: Decode) -> Stmt:
    """The statement that `statement_to_json` was given. Raises ValueError if `data` is no statement."""
    match data:
        case ["for", v, start, extent, kind, thread, body] if kind in LOOP_KINDS:
            if thread not in ("", VTHREAD, *THREAD_TAGS) or (kind == "thread") != bool(thread):
                raise ValueError(f"bad thread {thread!r}")
            loop, first, count = at.variable(v), at.expr(start), at.expr(extent)
            if loop.value.role != "loop" or not (first.dtype.is_integer and count.dtype.is_integer):
                raise ValueError(f"bad loop {loop.name}")
            return For(loop, first, count, kind, statement_from_json(body, at), thread)
        case ["store", b, list(indices), value]:
            buffer, places, e = at.buffer(b), tuple(map(at.expr, indices)), at.expr(value)
            if e.dtype.scalar != buffer.dtype or len(places) not in (1, len(buffer.shape)):
                raise ValueError(f"bad store to {buffer.name}")
            return Store(buffer, places, e)
        case ["if", condition, then, otherwise]:
            other = None if otherwise is None else statement_from_json(otherwise, at)
            return If(_truth(at.expr(condition)), statement_from_json(then, at), other)
        case ["seq", list(parts)]:
            return Seq(tuple(statement_from_json(p, at) for p in parts))
        case ["let", v, value, body]:
            variable, e = at.variable(v), at.expr(value)
            if variable.value.role != "let" or e.dtype != variable.dtype:
                raise ValueError(f"bad let {variable.name}")
            return Let(variable, e, statement_from_json(body, at))
        case ["allocate", b, body]:
            return Allocate(at.buffer(b), statement_from_json(body, at))
        case ["evaluate", value]:
            e = at.expr(value)
            if e.op != "call":
                raise ValueError("it evaluates what is no call")
            return Evaluate(e)
        case ["while", condition, body]:
            return While(_truth(at.expr(condition)), statement_from_json(body, at))
    raise ValueError(f"no statement: {data!r:.60}")


def _truth(e: Expr) -> Expr:
    if not e.dtype.is_bool or e.dtype.lanes != 1:
        raise ValueError("a condition is no truth value")
    return e
