"""Kernels with barriers, spelled so that PoCL 3.0 compiles them right.

PoCL runs the work-items of a group in loops of its own, one loop for each region between barriers. Version 3.0, which
pip installs, gets such regions wrong. The macros of `PREAMBLE` part them for PoCL and mean nothing elsewhere.

    if (item == 0) a[0] = 0;               if (item == 0) a[0] = 0;
                                           pocl_barrier();          before what is skipped as a whole
    for (k = 0; k < n; ++k) {              for (k = 0; k < n; ++k) {
      barrier();                             barrier();
      for (j = 0; j < m; ++j)       ->       for (j = 0; each_item(j < m); ++j)
        ...                                    ...
      if (item < 2) b[k] = ...;              if (item < 2) b[k] = ...;
                                             pocl_barrier();        after the conditions that end a round
    }                                      }

- What stands before a loop or a condition with barriers, and is itself conditional, is lost where the loop is skipped.
- Of two conditions between the same two barriers the first one is lost, in a loop also the last one of a round.
- Of two branches with barriers, what one ends with is lost. They are two conditions, one after the other.
- PoCL puts barriers of its own into innermost loops whose rounds the group agrees about. Where such a loop may be
  skipped, its counter is wrong, or stores before it are lost. A bound that asks for the work-item keeps PoCL from it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from autosched.ir.calls import touches_memory
from autosched.ir.expr import logical_not
from autosched.ir.stmt import (
    Allocate,
    Barrier,
    For,
    If,
    Let,
    Produce,
    Seq,
    Stmt,
    While,
    seq,
    walk,
)

#: the scope of a barrier that only PoCL needs
POCL = "pocl"
PREAMBLE = """
#ifdef POCL_DEVICE_ADDRESS_BITS  // PoCL 3.0 loses stores of regions between barriers that are not parted so
#define each_item(condition) ((condition) && (int)get_local_id(0) >= 0)
#define pocl_barrier() barrier(CLK_LOCAL_MEM_FENCE)
#else
#define each_item(condition) (condition)
#define pocl_barrier()
#endif"""


def part_regions(body: Stmt) -> tuple[Stmt, frozenset[For]]:
    """The body of a kernel with the barriers that PoCL needs besides its own, and the loops in it that each work-item
    has to decide about."""
    return (_Regions().part(body), _loops_of_each_item(body, 0)) if _waits(body) else (body, frozenset())


def _loops_of_each_item(body: Stmt, depth: int, maybe: bool = False) -> frozenset[For]:
    """The loops without barriers that may be skipped, or are in a nest of which a part may be; but for one that stands
    alone. `depth` is the number of loops and conditions around `body`; `maybe`: there is a condition among them."""
    found = frozenset[For]()
    match body:
        case For() if not _waits(body):
            nest = [s for s in walk(body) if isinstance(s, For)]
            return frozenset(nest) if maybe or ((depth or len(nest) > 1) and _is_conditional(body)) else found
        case For() | While():
            return _loops_of_each_item(body.body, depth + 1, maybe)
        case If():
            branches = [s for s in (body.then, body.otherwise) if s is not None]
            return found.union(*(_loops_of_each_item(s, depth + 1, True) for s in branches))
        case Seq(stmts=stmts):
            return found.union(*(_loops_of_each_item(s, depth, maybe) for s in stmts))
        case Allocate() | Produce() | Let():
            return _loops_of_each_item(body.body, depth, maybe)
        case _:
            return found


class _Regions:
    """`since` says what stands behind the last barrier: nothing, or statements of which one may be conditional."""

    def __init__(self) -> None:
        self.since: Literal["nothing", "statements", "condition"] = "statements"

    def part(self, s: Stmt) -> Stmt:
        match s:
            case Barrier():
                self.since = "nothing"
                return s
            case _ if not _waits(s):
                return self._plain(s)
            case For() | While():
                begun = [] if isinstance(s, For) and _always_runs(s) else self._barrier()
                body = self.part(s.body)
                return seq(*begun, replace(s, body=seq(body, *(self._barrier() if self.since == "condition" else []))))
            case If() if s.otherwise is not None and not touches_memory(s.condition):
                return self.part(seq(If(s.condition, s.then), If(logical_not(s.condition), s.otherwise)))
            case If():
                begun = self._barrier()
                then, ended = self.part(s.then), self.since
                self.since = "nothing"
                otherwise = None if s.otherwise is None else self.part(s.otherwise)
                self.since = "condition" if "condition" in (ended, self.since) else "statements"
                return seq(*begun, If(s.condition, then, otherwise))
            case Seq(stmts=stmts):
                return seq(*map(self.part, stmts))
            case Allocate() | Produce() | Let():
                return replace(s, body=self.part(s.body))
            case _:
                return s

    def _plain(self, s: Stmt) -> Stmt:
        """A statement without barriers: a second condition gets a region of its own."""
        if not _is_conditional(s):
            self.since = "condition" if self.since == "condition" else "statements"
            return s
        begun = self._barrier() if self.since == "condition" else []
        self.since = "condition"
        return seq(*begun, s)

    def _barrier(self) -> list[Stmt]:
        """A barrier here, unless there is one."""
        found: list[Stmt] = [] if self.since == "nothing" else [Barrier(POCL)]
        self.since = "nothing"
        return found


def _waits(s: Stmt) -> bool:
    return any(isinstance(x, Barrier) for x in walk(s))


def _always_runs(s: For) -> bool:
    return s.extent.op == "const" and s.extent.value > 0


def _is_conditional(s: Stmt) -> bool:
    return any(isinstance(x, If | While) or (isinstance(x, For) and not _always_runs(x)) for x in walk(s))
