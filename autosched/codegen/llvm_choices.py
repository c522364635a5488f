"""Choices between two states, which nothing foretells: conditional moves in place of jumps.

    for j: s[j] = min(min(s[j-1], r[j]) + 1, r[j-1] + (a == b[j]))     r: the row before, in the same array

LLVM makes jumps of the conditional moves of a loop whose steps wait for them, because a CPU that guesses right does not
wait. Of a running maximum it does: few elements change one. Of two states of a dynamic program either may be the
smaller one, and each wrong guess costs as much as ten moves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import llvmlite.binding as llvm

from autosched.ir.expr import Expr
from autosched.ir.stmt import For, Stmt, Store, all_expressions, walk
from autosched.ir.visit import post_order

#: The line of an assembly text that says so.
MARK = "; choices between states are not foretold\n"
_OPTION = "-x86-cmov-converter"


def chooses_between_states(body: Stmt) -> bool:
    """Whether steps of a loop take the smaller or larger of two integers, each made of elements that steps before
    stored: `s[j] = min(s[j-1] + 1, s[j-20])`, but not `s[j] = max(s[j-1], x[j])`."""
    loops = (s for s in walk(body) if isinstance(s, For) and s.kind == "serial")
    return any(_chooses(loop) for loop in loops)


def _chooses(loop: For) -> bool:
    stored = {s.buffer for s in walk(loop.body) if isinstance(s, Store)}
    made_of: dict[Expr, frozenset[Expr]] = {}
    for e in post_order(all_expressions(loop.body)):
        found = frozenset[Expr]().union(*(made_of[a] for a in e.args)) if e.args else frozenset()
        if e.op == "load":
            found = frozenset((e,)) if e.value in stored else frozenset()
        made_of[e] = found
        scalar = e.dtype.is_integer and e.dtype.lanes == 1 and not e.index
        if e.op in ("min", "max") and scalar and all(made_of[a] for a in e.args) and len(found) > 1:
            return True
    return False


@contextmanager
def moves_for(source: str, triple: str) -> Iterator[None]:
    """While instructions are selected, let conditional moves of a text that is marked be. LLVM has one setting for the
    whole process, so nothing else may be compiled meanwhile."""
    if not source.startswith(MARK) or not _is_x86(triple):
        yield
        return
    llvm.set_option("autosched", f"{_OPTION}=false")
    try:
        yield
    finally:
        llvm.set_option("autosched", f"{_OPTION}=true")


@lru_cache(maxsize=8)
def _is_x86(triple: str) -> bool:
    return bool(re.match("x86_64|i.86", triple or llvm.get_default_triple()))
