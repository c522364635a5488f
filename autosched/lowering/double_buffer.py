"""Two copies of a stage: one is filled for the next iteration of a loop while this one reads the other.

    for k in N:                     fill A0 for 0
      allocate A                    for k.pair in ceil(N/2):
      fill A for k            ->      if 2*k.pair + 1 < N: fill A1 for 2*k.pair + 1
      use A                           use A0 for 2*k.pair
                                      if 2*k.pair + 2 < N: fill A0 for 2*k.pair + 2
                                      if 2*k.pair + 1 < N: use A1 for 2*k.pair + 1

Two buffers rather than two halves of one: what is being read is plainly not what is being written, so
that a work-group whose tile is shared meets at one barrier for each iteration, where it would be two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.ir.expr import ceildiv, compare, const, likely, var
from autosched.ir.stmt import Allocate, Buffer, For, If, Stmt, seq, substitute_stmt
from autosched.lowering.storage import retarget


def in_turns(loop: For, fill: Stmt, buffers: Sequence[Buffer]) -> Stmt:
    """The serial `loop`, whose body reads `buffers`, with `fill`, which writes them for its iteration, one
    iteration ahead."""
    end = loop.start + loop.extent
    copies = [{b: replace(b, name=f"{b.name}.{k}") for b in buffers} for k in (0, 1)]
    filled, used = ([retarget(s, owner) for owner in copies] for s in (fill, loop.body))
    pair = var(f"{loop.var.value.name}.pair", role="loop")
    this = loop.start + pair * 2

    def at(s: Stmt, ahead: int) -> Stmt:
        return substitute_stmt(s, {loop.var: this + ahead})

    def if_reached(ahead: int, s: Stmt) -> Stmt:
        return If(likely(compare("lt", this + ahead, end)), s)

    steps = seq(
        if_reached(1, at(filled[1], 1)),
        at(used[0], 0),
        if_reached(2, at(filled[0], 2)),
        if_reached(1, at(used[1], 1)),
    )
    first = If(compare("gt", loop.extent, 0), substitute_stmt(filled[0], {loop.var: loop.start}))
    body = seq(first, For(pair, const(0), ceildiv(loop.extent, 2), "serial", steps, pragmas=loop.pragmas))
    for owner in copies:
        for buffer in owner.values():
            body = Allocate(buffer, body)
    return body
