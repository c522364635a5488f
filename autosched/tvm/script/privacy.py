"""Memory of an iteration's own: for loops that are marked after blocks were moved into them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from autosched.ir.stmt import Allocate, Buffer, For
from autosched.lowering.sliding import loop_free
from autosched.tvm.script.copying import Scope, check_begun, check_covered, comes_before, writers_of
from autosched.tvm.script.moving import may_own, relocated, users
from autosched.tvm.script.parts import Block, Signature
from autosched.tvm.script.reach import NotHere, accesses, box, hands_out, meeting, reads_of, surroundings, writes_of
from autosched.tvm.script.walking import everything, outermost_blocks


@dataclass(frozen=True, eq=False)
class _Iteration(Scope):
    """One iteration of a loop, which owns nothing."""

    loop: For | None = None

    @property
    def inner(self) -> Any:
        assert self.loop is not None
        return self.loop.body

    def owns(self, buffer: Buffer) -> bool:
        return False


def with_own_memory(body: Any, signature: Signature, loop: For, kind: str, thread: str) -> For:
    """A loop, about to be marked, with memory of its own for each buffer that an iteration fills before it reads it,
    and that nothing else uses: as much as it reaches."""
    held = {*signature.buffers, *(b for s in everything(body) if isinstance(s, Block) for b in s.buffers)}
    inside = {b for s in everything(loop.body) if isinstance(s, Block) for b in s.buffers}
    an, _ = surroundings(body, loop.body)
    made, inner = list[tuple[Buffer, Buffer]](), loop.body
    for b in sorted((held - inside) & writes_of(loop.body), key=lambda b: b.serial):
        outside = any(True for _ in users(body, {b}, loop))
        if outside or not may_own(kind, thread, b) or not _fills_first(body, signature, loop, b):
            continue
        spans = box(an, [a for a in accesses(loop.body, an) if a.buffer is b])
        if all(loop_free(an.poly(s.width)) for s in spans):
            made.append((b, Buffer(b.name, tuple(s.extent for s in spans), b.dtype, b.scope)))
            inner = relocated(inner, b, made[-1][1], [s.low for s in spans])
    for _, own in reversed(made):
        inner = Allocate(own, inner)
    return replace(loop, body=inner)


def _fills_first(body: Any, signature: Signature, loop: For, buffer: Buffer) -> bool:
    """Whether an iteration reads of a buffer what it has stored alone."""
    here = _Iteration(body, signature, None, loop)
    try:
        writers = writers_of(here.inner, buffer)
        if not writers or buffer in hands_out(loop.body):
            return False
        writer, *others = writers  # what others store after the first one, in the same iteration, is its own
        if buffer in reads_of(writer):
            check_begun(here, writer, buffer)
        readers = [b for b in outermost_blocks(here.inner) if b is not writer and buffer in reads_of(b)]
        if not all(comes_before(meeting(here.inner, writer, b)) for b in (*others, *readers)):
            return False
        check_covered(here, buffer, writer, readers)
    except NotHere:
        return False
    return True
