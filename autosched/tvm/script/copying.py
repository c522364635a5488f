"""Copies of buffers in a tree: `cache_read` and `cache_write`.

A copy holds what its buffer holds, from each time on that the one block that writes it has run. So readers may read the
copy instead wherever they stand, outside of that block. Where a block stores under conditions, its copy takes elements
along that nobody has written, and nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autosched.ir.expr import Expr, compare, const, logical_and, var
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import Allocate, Buffer, For, Store, load, seq
from autosched.lowering.sliding import loop_free
from autosched.tvm.script.moving import relocated, scope_of
from autosched.tvm.script.parts import Block, BlockAxis, Signature
from autosched.tvm.script.reach import (
    Access,
    Meeting,
    NotHere,
    Span,
    accesses,
    accesses_below,
    allocated,
    box,
    hands_out,
    meeting,
    reads_of,
    surroundings,
    tiles,
    whole_of,
    writes_of,
)
from autosched.tvm.script.walking import everything, outermost_blocks, path_to, with_other


def buffers_read(block: Block) -> list[Buffer]:
    """The buffers that a block reads, in order of first appearance, without those that it begins itself."""
    but = allocated(block) | (writes_of(block.init) if block.init is not None else set())
    found = dict.fromkeys(a.buffer for a in accesses(block, Analyzer()) if not a.stores)
    return [b for b in found if b not in but]


def buffers_written(block: Block) -> list[Buffer]:
    """The buffers that a block writes, in order of first appearance."""
    but = allocated(block)
    return [b for b in dict.fromkeys(a.buffer for a in accesses(block, Analyzer()) if a.stores) if b not in but]


@dataclass(frozen=True, eq=False)
class Scope:
    """The block, or whole function, that a block to be copied for is in; or what the buffer is allocated for, in it."""

    body: Any
    signature: Signature
    within: Block | Allocate | None

    @staticmethod
    def around(body: Any, signature: Signature, block: Block, buffer: Buffer) -> Scope:
        way = path_to(body, block) or []
        held = next((s for s in way if isinstance(s, Allocate) and s.buffer is buffer), None)
        return Scope(body, signature, held if held is not None else scope_of(body, block))

    @property
    def inner(self) -> Any:
        return self.body if self.within is None else self.within.body

    def analyzer(self) -> Analyzer:
        """What is known of the axes around."""
        return Analyzer() if self.within is None else surroundings(self.body, self.inner)[0]

    def owns(self, buffer: Buffer) -> bool:
        """Whether a buffer lives no longer than this."""
        if isinstance(self.within, Allocate):
            return buffer is self.within.buffer
        buffers = self.signature.buffers if self.within is None else self.within.buffers
        return buffer in buffers

    def with_inner(self, inner: Any, made: Buffer) -> tuple[Any, Signature]:
        """The tree and the signature with other statements in this scope, and one more buffer."""
        if self.within is None:
            return inner, replace(self.signature, buffers=[*self.signature.buffers, made])
        if isinstance(self.within, Allocate):
            changed: Any = replace(self.within, body=Allocate(made, inner))
        else:
            changed = replace(self.within, body=inner, buffers=[*self.within.buffers, made])
        return with_other(self.body, self.within, changed), self.signature

    def check_alone(self, place: Any, check: Callable[[], None]) -> None:
        """Make a check, of what iterations store, where they run at the same time."""
        way = path_to(self.inner, place) or []
        if any(isinstance(s, For) and s.kind not in ("serial", "unroll") for s in way):
            check()


def beside(scope: Scope, block: Block, buffer: Buffer) -> list[Block]:
    """The blocks of a scope that read a buffer as a block does: behind the same writers."""

    def behind(b: Block) -> list[Block]:
        return [w for w in writers_of(scope.inner, buffer) if comes_before(meeting(scope.inner, w, b))]

    found = [b for b in outermost_blocks(scope.inner) if buffer in reads_of(b) - writes_of(b) or b is block]
    return [b for b in found if behind(b) == behind(block)]


def cache_read(scope: Scope, buffer: Buffer, name: str, of: str, readers: Sequence[Block]) -> tuple[Any, Signature]:
    """The tree in which some blocks of a scope read a copy of a buffer. Raises NotHere."""
    inner, an = scope.inner, scope.analyzer()
    _check_readers(scope, buffer, readers)
    writers = writers_of(inner, buffer)
    before = [w for w in writers if any(comes_before(meeting(inner, w, r)) for r in readers)]
    if any(w is r for w in writers for r in readers) or (before and len(writers) > 1):
        names = " and ".join(w.name for w in writers)
        raise NotHere(f"{buffer.name} is written by {names}", "a buffer that one other block writes")
    if not before:
        _stays(inner, buffer, readers, writers)
        loads = [a for r in readers for a in accesses_below(inner, r, an) if a.buffer is buffer and not a.stores]
        spans = _known(an, box(an, loads), buffer)
        made = _buffer(buffer, name, of, spans)
        changed = _redirected(inner, readers, buffer, made, spans)
        return scope.with_inner(seq(_copy(an, name, made, buffer, spans, spans, True), changed), made)
    (writer,) = before
    early = next((r for r in readers if not comes_before(meeting(inner, writer, r))), None)
    if early is not None:
        raise NotHere(f"{early.name} reads {buffer.name} before {writer.name} writes it", "readers that come later")
    stores = [a for a in accesses_below(inner, writer, an) if a.buffer is buffer and a.stores]
    spans = _known(an, box(an, stores), buffer)
    check_covered(scope, buffer, writer, readers)
    place = _place(inner, writer, readers)
    here, _ = surroundings(scope.body, place.at)
    part = [a for a in accesses_below(place.inside, writer, here) if a.buffer is buffer and a.stores]
    local = _known(here, box(here, part), buffer)
    loops = [x for x in everything(place.inside) if isinstance(x, For)]
    scope.check_alone(place.at, lambda: _filled(here, buffer, part, loops, local))
    made = _buffer(buffer, name, of, spans)
    copy = _copy(here, name, made, buffer, spans, local, True)
    return scope.with_inner(_redirected(place.put(inner, copy), readers, buffer, made, spans), made)


def cache_write(
    scope: Scope, block: Block, buffer: Buffer, name: str, of: str, readers: Sequence[Block]
) -> tuple[Any, Signature]:
    """The tree in which a block writes to a buffer of its own, of which a copy is made. Raises NotHere."""
    inner, an = scope.inner, scope.analyzer()
    writers = writers_of(inner, buffer)
    _check_readers(scope, buffer, readers)
    if writers != [block] or buffer in hands_out(inner):
        names = " and ".join(w.name for w in writers)
        raise NotHere(f"{buffer.name} is written by {names}", "a buffer that one block writes, by stores")
    own = [a for a in accesses_below(inner, block, an) if a.buffer is buffer]
    if any(not a.stores for a in own):
        check_begun(scope, block, buffer)
    stores = [a for a in own if a.stores]
    spans = _known(an, box(an, stores), buffer)
    early = next((r for r in readers if not comes_before(meeting(inner, block, r))), None)
    if early is not None:
        raise NotHere(f"{early.name} reads {buffer.name} before {block.name} writes it", "readers that come later")
    check_covered(scope, buffer, block, readers)
    others = [b for b in outermost_blocks(inner) if b not in (block, *readers) and buffer in reads_of(b)]
    place = _place(inner, block, others)
    here, _ = surroundings(scope.body, place.at)
    part = [a for a in accesses_below(place.inside, block, here) if a.buffer is buffer and a.stores]
    local = _known(here, box(here, part), buffer)
    loops = [x for x in everything(place.inside) if isinstance(x, For)]
    if not scope.owns(buffer):
        _filled(here, buffer, part, loops, local)
    scope.check_alone(place.at, lambda: _filled(here, buffer, part, loops, local))
    made = _buffer(buffer, name, of, spans)
    copy = _copy(here, name, made, buffer, spans, local, False)
    return scope.with_inner(_redirected(place.put(inner, copy), [block, *readers], buffer, made, spans), made)


# -- what has to hold ---------------------------------------------------------------------------------------


def writers_of(inner: Any, buffer: Buffer) -> list[Block]:
    found = [b for b in outermost_blocks(inner) if buffer in writes_of(b)]
    stores = [s for s in everything(inner) if isinstance(s, Store) and s.buffer is buffer]
    inside = [s for b in found for s in everything(b)]
    if any(s not in inside for s in stores):
        raise NotHere(f"{buffer.name} is written outside of blocks", "stores in blocks")
    return found


def check_begun(scope: Scope, block: Block, buffer: Buffer) -> None:
    """Raise NotHere unless a block that reads what it writes has stored it before."""
    if any(isinstance(x, Block) and x.init is not None and buffer in writes_of(x.init) for x in everything(block)):
        return
    inside, why = Scope(scope.body, scope.signature, block), f"{block.name} goes on with what {buffer.name} held before"
    writers = writers_of(block.body, buffer)
    readers = [b for b in outermost_blocks(block.body) if buffer in reads_of(b)]
    if len(writers) != 1 or not all(comes_before(meeting(block.body, writers[0], r)) for r in readers):
        raise NotHere(why, "a block that has T.init, or reads others")
    check_covered(inside, buffer, writers[0], readers)


def _check_readers(scope: Scope, buffer: Buffer, readers: Sequence[Block]) -> None:
    blocks = list(outermost_blocks(scope.inner))
    other = next((r for r in readers if r not in blocks), None)
    if other is not None:
        raise NotHere(
            f"{other.name} is in another block", f"blocks beside one another: {', '.join(b.name for b in blocks)}"
        )
    init = scope.within.init if isinstance(scope.within, Block) else None
    if init is not None and buffer in reads_of(init) | writes_of(init):
        raise NotHere(f"{scope.within.name} stores first values of {buffer.name}", "decompose_reduction of it before")  # type: ignore[union-attr]
    if buffer in hands_out(scope.inner):
        raise NotHere(f"functions get the memory of {buffer.name}", "a buffer that is read and written by index")
    deaf = next((r for r in readers if buffer not in reads_of(r)), None)
    if deaf is not None:
        raise NotHere(f"{deaf.name} does not read {buffer.name}", "blocks that read it")


def comes_before(met: Meeting) -> bool:
    return met.sequence is not None and met.first < met.second


def _stays(inner: Any, buffer: Buffer, readers: Iterable[Block], writers: Iterable[Block]) -> None:
    """Raise NotHere unless a buffer is written after all of its readers have run."""
    for r in readers:
        for w in writers:
            met = meeting(inner, r, w)
            if not comes_before(met) or any(isinstance(s, For) for s in met.around):
                raise NotHere(f"{w.name} may write {buffer.name} before {r.name} reads it again")


def check_covered(scope: Scope, buffer: Buffer, writer: Block, readers: Iterable[Block]) -> None:
    """Raise NotHere unless what is read of a buffer that was there before is what the writer has just written."""
    if scope.owns(buffer):
        return
    for r in readers:
        met = meeting(scope.inner, writer, r)
        assert met.sequence is not None
        an, _ = surroundings(scope.body, met.sequence)
        one, other = met.sequence.stmts[met.first], met.sequence.stmts[met.second]
        stores = [a for a in accesses_below(one, writer, an) if a.buffer is buffer and a.stores]
        loads = [a for a in accesses_below(other, r, an) if a.buffer is buffer and not a.stores]
        spans = box(an, stores)
        _filled(an, buffer, stores, [x for x in everything(one) if isinstance(x, For)], spans)
        for s, n in zip(spans, box(an, loads), strict=True):
            if not (an.prove(compare("ge", n.low, s.low)) and an.prove(compare("le", n.high, s.high))):
                why = f"not all that {r.name} reads of {buffer.name} is what {writer.name} has written"
                raise NotHere(why, "a buffer that the function allocates")


def _filled(an: Analyzer, buffer: Buffer, stores: Sequence[Access], loops: Sequence[For], spans: list[Span]) -> None:
    """Raise NotHere unless some store reaches all elements of a box."""
    for a in stores:
        used: list[For] = []
        for index, s in zip(a.at, spans, strict=True):
            found = tiles(an, index, [x for x in loops if x.var in a.around])
            if found is None or a.conditional or not an.prove(compare("eq", found[1], s.width + 1)):
                break
            used += found[0]
        else:
            if len(set(used)) == len(used):
                return
    raise NotHere(f"it is not known that each element of a box of {buffer.name} is written", "stores at sums of loops")


# -- the parts -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Place:
    """Where a copy is made: in front of a statement, or behind it."""

    inside: Any  #: the statement with the writer that ends before
    at: Any
    behind: bool

    def put(self, inner: Any, copy: Any) -> Any:
        return with_other(inner, self.at, seq(self.at, copy) if self.behind else seq(copy, self.at))


def _place(inner: Any, writer: Block, readers: Sequence[Block]) -> _Place:
    """The place in front of the first reader, in all loops that the writer shares with readers; else at the end."""
    met = [meeting(inner, writer, r) for r in readers]
    if not met:
        return _Place(inner, inner, True)
    nearest = max(met, key=lambda m: len(m.around))
    if nearest.sequence is None:
        raise NotHere(f"{writer.name} and its readers are in the two branches of a condition")
    stmts, first = nearest.sequence.stmts, nearest.first
    later = [m.second for m in met if m.sequence is nearest.sequence and m.second > first]
    if not later:
        return _Place(stmts[first], stmts[first], True)
    return _Place(stmts[first], stmts[min(later)], False)


def _redirected(inner: Any, blocks: Sequence[Block], old: Buffer, new: Buffer, spans: Sequence[Span]) -> Any:
    for b in dict.fromkeys(blocks):
        inner = with_other(inner, b, relocated(b, old, new, [s.low for s in spans]))
    return inner


def _known(an: Analyzer, spans: list[Span], buffer: Buffer) -> list[Span]:
    """Spans with extents that are free of loops: of the whole buffer where they are not."""
    whole = whole_of(buffer)
    return [s if loop_free(an.poly(s.width)) else w for s, w in zip(spans, whole, strict=True)]


def _buffer(like: Buffer, name: str, scope: str, spans: Sequence[Span]) -> Buffer:
    return Buffer(name, tuple(s.extent for s in spans), like.dtype, scope)


def _copy(
    an: Analyzer, name: str, cache: Buffer, buffer: Buffer, spans: list[Span], part: list[Span], fills: bool
) -> Any:
    """Loops that copy a part of a buffer into its cache, which begins where `spans` do; or back."""
    loops, axes, guards = list[tuple[Expr, Expr]](), list[BlockAxis](), list[Expr]()
    for k, (s, extent) in enumerate(zip(part, buffer.shape, strict=True)):
        of = extent.dtype if extent.op != "const" else s.low.dtype if s.low.op != "const" else extent.dtype
        loop, axis = var(f"ax{k}", of, "loop"), var(f"v{k}", of, "loop")
        an.bind(loop, 0, s.width)
        index = an.simplify(s.low + loop)
        loops.append((loop, s.extent))
        axes.append(BlockAxis(axis, "spatial", const(0), extent, index))
        if not an.prove(compare("le", index, s.high)):
            guards.append(compare("lt", index, simplify(s.high + 1)))
    at = tuple(a.var for a in axes)
    inside = tuple(simplify(v - s.low) for v, s in zip(at, spans, strict=True))
    store = Store(cache, inside, load(buffer, *at)) if fills else Store(buffer, at, load(cache, *inside))
    made: Any = Block(name, f'with T.block("{name}")', axes, logical_and(*guards) if guards else None, body=store)
    for v, extent in reversed(loops):
        made = For(v, const(0), extent, "serial", made)
    return made
