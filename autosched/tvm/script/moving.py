"""Blocks of a tree computed at loops of others: `compute_at` and `reverse_compute_at`.

A block that is moved gets loops over what one iteration needs of it, or gives it. Nothing is moved past a statement
that writes what it reads, or touches what it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from autosched.ir.expr import Expr, compare, const, is_const, logical_and, make, var, variables
from autosched.ir.ops import ACCESSES
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import Allocate, Buffer, For, Seq, Store, expressions, seq
from autosched.ir.visit import conjuncts, post_order, rewrite, substitute
from autosched.lowering.bounds import interval
from autosched.lowering.sliding import loop_free
from autosched.tvm.script.independence import apart as differs
from autosched.tvm.script.parts import Block, BlockAxis, Signature
from autosched.tvm.script.reach import (
    Access,
    Meeting,
    NotHere,
    Span,
    accesses,
    allocated,
    box,
    clipped,
    hands_out,
    meeting,
    reads_of,
    span,
    surroundings,
    tiles,
    writes_of,
)
from autosched.tvm.script.walking import everything, only, parts, path_to, with_expressions, with_other, without

_NOTHING_ELSE = "blocks that store values, and hand no memory to functions"


@dataclass(frozen=True, eq=False)
class Nest:
    """A block and the loops that are around it alone."""

    block: Block
    loops: tuple[For, ...]

    @property
    def top(self) -> Any:
        return self.loops[0] if self.loops else self.block


def nest_around(body: Any, block: Block) -> Nest:
    """A block with the loops around it that have nothing else inside."""
    loops: list[For] = []
    inner: Any = block
    for s in reversed(path_to(body, block) or []):
        if not isinstance(s, For) or only(s.body) is not inner:
            break
        loops.insert(0, s)
        inner = s
    return Nest(block, tuple(loops))


def scope_of(body: Any, target: Any) -> Block | None:
    """The block that a statement is in; None at the root."""
    return next((s for s in reversed(path_to(body, target) or []) if isinstance(s, Block)), None)


def compute_at(body: Any, signature: Signature, block: Block, loop: For, units: bool, index: int) -> Any:
    """The tree with a producer at a loop that all its consumers are in. Raises NotHere."""
    nest = nest_around(body, block)
    _same_scope(body, block, loop)
    written = _own_results(body, signature, nest)
    met = meeting(body, nest.top, loop)
    consumers = list(users(body, written, nest.top))
    outside = next((way for _, way in consumers if loop not in way), None)
    if outside is not None:
        name = loop.var.value.name
        raise NotHere(f"compute_at requires all the consumer blocks under {name}; {_called(outside)} is not")
    if met.sequence is None or met.first > met.second or not consumers:
        raise NotHere(f"{loop.var.value.name} does not come after {block.name}", "a loop around what reads its results")
    outer = _left_loops(body, met, nest)
    _leaves(met.sequence.stmts[met.first], nest, outer, signature, reads_of(nest.top) - written)
    _passes(nest, (*met.between, met.sequence.stmts[met.second]), written, consumers=True)
    an, _ = surroundings(body, loop)
    an.bind(loop.var, loop.start, loop.start + loop.extent - 1)
    found = [a for a in accesses(loop.body, an) if a.buffer in written]
    needed = {b: box(an, [a for a in found if a.buffer is b]) for b in written if any(a.buffer is b for a in found)}
    fitted = _Fit(nest, outer, an, units).loops({b: (spans, True) for b, spans in needed.items()})
    stmts = _stmts(loop.body)
    first = next(k for k, s in enumerate(stmts) if reads_of(s) & written)
    at = _position(stmts, index, nest, latest=first)
    inside = seq(*stmts[:at], fitted, *stmts[at:])
    around = [s for s in (*(path_to(body, loop) or []), loop) if s not in met.around and isinstance(s, For)]
    marked = [x for x in around if x.kind not in ("serial", "unroll")]
    if marked:
        inside = _private(inside, an, written, marked)
    return without(with_other(body, loop, replace(loop, body=inside)), nest.top)


def reverse_compute_at(body: Any, signature: Signature, block: Block, loop: For, units: bool, index: int) -> Any:
    """The tree with a consumer at a loop that its producers are in. Raises NotHere."""
    nest = nest_around(body, block)
    _same_scope(body, block, loop)
    met = meeting(body, loop, nest.top)
    reads, written = reads_of(nest.top), writes_of(nest.top)
    given = writes_of(loop) & reads
    if met.sequence is None or met.first > met.second or not given:
        raise NotHere(
            f"{block.name} reads nothing that {loop.var.value.name} computes before", "a loop around its producers"
        )
    host, home = met.sequence.stmts[met.first], met.sequence.stmts[met.second]
    outer = _left_loops(body, met, nest)
    _passes(nest, (*met.between, host), written, consumers=False, given=given)
    if outer:
        _alone_in(home, nest, reads, written, signature)
    around = [s for s in (*(path_to(body, loop) or []), loop) if s not in met.around and not isinstance(s, Seq)]
    if not all(isinstance(s, For) for s in around):
        raise NotHere(f"{loop.var.value.name} does not always run", "a loop outside of conditions")
    an, _ = surroundings(body, loop)
    for v in _needed_to_run(around) & _needed_to_run((*outer, *nest.loops)):
        an.bind(v, 1, None)  # where it is not, neither the old nest nor the new one has iterations
    an.bind(loop.var, loop.start, loop.start + loop.extent - 1)
    inner = accesses(loop.body, an)
    made = {b: box(an, [a for a in inner if a.buffer is b and a.stores]) for b in given}
    if len([a for a in accesses(host, an) if a.stores and a.buffer in given]) != sum(
        a.stores and a.buffer in given for a in inner
    ):
        raise NotHere(
            f"{loop.var.value.name} computes a part of what {block.name} reads", "a loop around all its producers"
        )
    stored = [a for a in inner if a.stores and a.buffer in given]
    if any(span(an, i, a.around) is None for a in stored for i in a.at):
        raise NotHere(f"which elements an iteration of {loop.var.value.name} computes is not known")
    shared = frozenset(x.var for x in around)
    tied = {b: {d for a in stored if a.buffer is b for d, i in enumerate(a.at) if variables(i) & shared} for b in given}
    fit = _Fit(nest, outer, an, units)
    fitted = fit.loops({b: (spans, False) for b, spans in made.items()}, tied)
    fit.check_once(around)
    stmts = _stmts(loop.body)
    last = max(k for k, s in enumerate(stmts) if writes_of(s) & given)
    at = _position(stmts, index, nest, earliest=last + 1)
    inside = seq(*stmts[:at], fitted, *stmts[at:])
    return without(with_other(body, loop, replace(loop, body=inside)), nest.top)


def _needed_to_run(loops: Sequence[For]) -> set[Expr]:
    """The sizes that are positive where these loops have iterations: n, of `n * 4` of them."""
    found = (Analyzer().poly(x.extent).terms for x in loops)
    known = [next(iter(terms.items())) for terms in found if len(terms) == 1]
    return {m[0] for m, c in known if c > 0 and len(m) == 1 and m[0].op == "var" and m[0].value.role != "loop"}


# -- what has to hold -------------------------------------------------------------------------------------


def _same_scope(body: Any, block: Block, loop: For) -> None:
    if loop in (path_to(body, block) or []):
        raise NotHere(f"{loop.var.value.name} is an ancestor of block {block.name}", "a loop around other blocks")
    if scope_of(body, block) is not scope_of(body, loop):
        why = f"{loop.var.value.name} and {block.name} are not in the same block scope"
        raise NotHere(why, "a loop of a block that stands beside it")


def _own_results(body: Any, signature: Signature, nest: Nest) -> set[Buffer]:
    """The buffers that a block writes. Raises NotHere unless it alone computes them, and can do so again."""
    block = nest.block
    written = writes_of(nest.top) - allocated(nest.top)
    if hands_out(nest.top) or not written:
        raise NotHere(f"{block.name} calls functions with memory", _NOTHING_ELSE)
    passed = next((b for b in written if b in signature.params.values()), None)
    if passed is not None:
        raise NotHere(f"{block.name} is an output block: it writes {passed.name}", "blocks that write intermediates")
    for s, way in users(body, written, nest.top):
        both = writes_of(s) & written
        if both:
            why = f"{block.name} is no complete block: {_called(way)} writes {next(iter(both)).name}, too"
            raise NotHere(why, "a buffer that one block computes")
    for x in everything(block):
        if isinstance(x, Block) and x.init is None:
            an = Analyzer()
            own = [a for a in accesses(x.body, an) if a.buffer in written and not a.stores]
            if own and not any(isinstance(c, Block) for c in everything(x.body)) and not _begins(block, own):
                raise NotHere(
                    f"{block.name} is no complete block: it goes on with what {own[0].buffer.name} held before"
                )
    return written


def _begins(block: Block, own: Sequence[Access]) -> bool:
    """Whether something in a block stores first values of what it reads."""
    begun = set[Buffer]().union(*(writes_of(x.init) for x in everything(block) if isinstance(x, Block) and x.init))
    return all(a.buffer in begun for a in own)


def users(s: Any, buffers: set[Buffer], but: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The statements that use buffers themselves, outside of one, and what each is in."""
    if s is but:
        return
    if isinstance(s, Block):
        own = [*(a.binding for a in s.axes), *([s.predicate] if s.predicate is not None else [])]
    else:
        own = [] if isinstance(s, Allocate) else list(expressions(s))
    read = {e.value for e in post_order(own) if e.op in ACCESSES}
    if (read | ({s.buffer} if isinstance(s, Store) else set())) & buffers:
        yield s, way
    for c in parts(s):
        yield from users(c, buffers, but, (*way, s))


def _left_loops(body: Any, met: Meeting, nest: Nest) -> list[For]:
    """The loops that a nest leaves, which have other statements in them, too."""
    way = [s for s in path_to(body, nest.top) or [] if s not in met.around and not isinstance(s, Seq)]
    if not all(isinstance(s, For) for s in way):
        raise NotHere(f"{nest.block.name} does not always run", "a block outside of conditions")
    return way


def _leaves(home: Any, nest: Nest, outer: Sequence[For], signature: Signature, reads: set[Buffer]) -> None:
    """Raise NotHere unless what a nest reads stays as it is until the loops that it leaves have ended."""
    for s, way in users(home, reads, nest.top):
        both = writes_of(s) & reads
        if not both:
            continue
        buffer = next(iter(both))
        met = meeting(home, s, nest.top)
        before = met.sequence is not None and met.first < met.second
        stores = [a for a in accesses(home, Analyzer()) if a.buffer is buffer and a.stores]
        known = {x.var: (x.start, x.extent) for x in everything(home) if isinstance(x, For)}
        apart = [(a.at, {v: known[v] for v in a.around if v in known}) for a in stores]
        shared = [x for x in outer if x in way]
        if not before or buffer in signature.params.values() or not all(differs(x.var, apart) for x in shared):
            raise NotHere(f"{buffer.name}, which {nest.block.name} reads, may be written again")


def _alone_in(home: Any, nest: Nest, reads: set[Buffer], written: set[Buffer], signature: Signature) -> None:
    """Raise NotHere where the loops that a nest leaves write what it reads, or use what it writes before it does."""
    for s, _ in users(home, reads | written, nest.top):
        if writes_of(s) & (reads | written):
            raise NotHere(f"{next(iter(writes_of(s))).name} is written in loops around {nest.block.name}")
        used = reads_of(s) & written
        if used:
            met = meeting(home, nest.top, s)
            if met.sequence is None or met.first > met.second or used & {*signature.params.values()}:
                raise NotHere(f"{next(iter(used)).name} is used in loops around {nest.block.name}")


def _called(way: Sequence[Any]) -> str:
    blocks = [s.name for s in way if isinstance(s, Block)]
    return str(blocks[-1]) if blocks else "a store outside of blocks"


def _passes(
    nest: Nest,
    others: Sequence[Any],
    written: set[Buffer],
    consumers: bool,
    given: set[Buffer] = frozenset(),  # type: ignore[assignment]
) -> None:
    """Raise NotHere unless a nest may go past other statements."""
    reads = reads_of(nest.top) - written
    for s in others:
        spoiled = (writes_of(s) & reads) - given
        if spoiled:
            raise NotHere(f"{next(iter(spoiled)).name}, which {nest.block.name} reads, is written in between")
        touched = ((reads_of(s) | writes_of(s)) & written) if not consumers else writes_of(s) & written
        if touched:
            raise NotHere(f"{next(iter(touched)).name}, which {nest.block.name} writes, is used in between")


def _stmts(s: Any) -> tuple[Any, ...]:
    return s.stmts if isinstance(s, Seq) else (s,)


def _position(stmts: Sequence[Any], index: int, nest: Nest, earliest: int = 0, latest: int | None = None) -> int:
    """Where among the statements of a loop: -1 is the last place possible, -2 the first, others count from 0."""
    latest = len(stmts) if latest is None else latest
    if index in (-1, -2):
        return latest if index == -1 else earliest
    if not earliest <= index <= latest:
        raise NotHere(f"{nest.block.name} cannot be at position {index}", f"{earliest} to {latest}, -1 or -2")
    return index


def may_own(kind: str, thread: str, buffer: Buffer) -> bool:
    """Whether an iteration of a marked loop may have memory of its own, in the scope of a buffer."""
    scopes = {"parallel": ("global", "local"), "thread": ("local", "shared") if "blockIdx" in thread else ("local",)}
    return buffer.scope in scopes.get(kind, ())


def _private(inside: Any, an: Analyzer, written: set[Buffer], marked: Sequence[For]) -> Any:
    """Statements of a loop with memory of their own for what they compute and use."""
    found = accesses(inside, an)
    for b in written:
        spans = box(an, [a for a in found if a.buffer is b])
        owned = all(may_own(x.kind, x.thread, b) for x in marked)
        if not owned or not all(loop_free(an.poly(s.width)) for s in spans):
            raise NotHere(f"iterations that run at the same time would share {b.name}", "mark the loop afterwards")
        own = Buffer(b.name, tuple(s.extent for s in spans), b.dtype, b.scope)
        inside = Allocate(own, relocated(inside, b, own, [s.low for s in spans]))
    return inside


def relocated(s: Any, old: Buffer, new: Buffer, low: Sequence[Expr]) -> Any:
    """A tree that uses another buffer, whose first element is the one at `low`."""
    return placed(s, old, new, lambda at: tuple(simplify(i - a) for i, a in zip(at, low, strict=True)))


def placed(s: Any, old: Buffer, new: Buffer, place: Callable[[Sequence[Expr]], tuple[Expr, ...]]) -> Any:
    """A tree that uses another buffer, where each element is at the indices that `place` makes of its own."""

    def change(e: Expr) -> Expr:
        return rewrite(
            e, lambda n, args: make(n.op, n.dtype, place(args), new) if n.op == "load" and n.value is old else None
        )

    return with_expressions(
        s, change, lambda x: replace(x, buffer=new, indices=place(x.indices)) if x.buffer is old else x
    )


# -- the loops of a block that was moved ----------------------------------------------------------------------


class _Fit:
    """Loops for a block over parts of its domain."""

    def __init__(self, nest: Nest, outer: Sequence[For], an: Analyzer, units: bool) -> None:
        self.nest, self.block, self.an, self.units = nest, nest.block, an, units
        self.left = (*outer, *nest.loops)
        for x in self.left:
            an.bind(x.var, x.start, x.start + x.extent - 1)
        self.inside = frozenset(x.var for x in self.left)
        self.domain = {a.var: self._domain(a) for a in self.block.axes}
        self._predicate()
        self.made: list[For] = []

    def _domain(self, a: BlockAxis) -> Span:
        found = span(self.an, a.binding, self.inside)
        declared = Span(a.start, simplify(a.stop - 1), simplify(a.stop - a.start - 1))
        if found is None:
            return declared
        return clipped(self.an, found, declared)

    def _predicate(self) -> None:
        """Raise NotHere for a condition that is about more than the ends of axes."""
        for c in conjuncts(self.block.predicate) if self.block.predicate is not None else ():
            ends = (compare("lt", a.binding, a.stop) for a in self.block.axes)
            if not any(
                self.an.prove(compare("eq", simplify(c), simplify(e))) or simplify(c) is simplify(e) for e in ends
            ):
                raise NotHere(f"T.where({c!r}) of {self.block.name} is not about the ends of its axes")

    def loops(
        self, parts: dict[Buffer, tuple[list[Span], bool]], tied: Mapping[Buffer, Collection[int]] | None = None
    ) -> Any:
        """The block in loops over what touches these boxes, or (`False`) lies inside of them.

        Along dimensions that are `tied`, which elements are in a box depends on the iteration: axes have to follow.
        """
        solved: dict[Expr, Span] = {}
        for v, d in self.domain.items():
            self.an.bind(v, d.low, d.high)
        found = accesses(self.block.body, self.an)
        for b, (spans, touching) in parts.items():
            for a in found:
                if a.buffer is b and (a.stores if touching else not a.stores):
                    self._solve(solved, a, spans, touching, (tied or {}).get(b, ()))
        return self._nest(solved)

    def _solve(
        self, solved: dict[Expr, Span], a: Access, spans: Sequence[Span], touching: bool, tied: Collection[int]
    ) -> None:
        """Narrow the axes that the indices of one access follow; several accesses need the union, or intersection."""
        here: dict[Expr, Span] = {}
        for d, (index, s) in enumerate(zip(a.at, spans, strict=True)):
            found = self._followed(index, a.around)
            if found is not None and found[0] not in here:
                here[found[0]] = self._values(s, *found[1:], touching)
            elif d in tied:
                raise NotHere(f"{self.block.name} reads {a.buffer.name} at {index!r}, which is no axis and a number")
        for x in self.block.axes:
            one = here.get(x.var, self.domain[x.var])
            before = solved.get(x.var)
            solved[x.var] = one if before is None else self._joined(before, one, touching)

    def _followed(self, index: Expr, around: Sequence[Expr]) -> tuple[Expr, Expr, Expr, int] | None:
        """The axis v of an index `v*step + base .. v*step + base + wide`, with base, wide and step."""
        reach = span(self.an, index, around)
        if reach is None:
            return None
        p = self.an.poly(reach.low)
        axes = [x.var for x in self.block.axes if x.var in p.variables]
        if len(axes) != 1:
            return None
        (v,) = axes
        step, wide = p.terms.get((v,), 0), self.an.simplify(reach.high - reach.low)
        rest = p - Poly.of(v) * step
        if step < 1 or v in rest.variables or v in variables(wide):
            return None
        return v, self.an.expr(rest), wide, step

    def _values(self, s: Span, base: Expr, wide: Expr, step: int, touching: bool) -> Span:
        """The values v of an axis for which [v*step + base, v*step + base + wide] touches a span, or lies inside."""
        below, above = (s.low - base - wide, s.high - base) if touching else (s.low - base, s.high - base - wide)
        room = s.width + wide if touching else s.width - wide
        low = self.an.simplify((below + (step - 1)) // step)
        high = self.an.simplify(above // step)
        exact = self.an.simplify(high - low)
        return Span(low, high, exact if loop_free(self.an.poly(exact)) else self.an.simplify(room // step))

    def _joined(self, a: Span, b: Span, touching: bool) -> Span:
        an = self.an
        if an.prove(compare("eq", a.low, b.low)) and an.prove(compare("eq", a.high, b.high)):
            return a
        first, last = ("min", "max") if touching else ("max", "min")
        low = an.expr(an.extremum(first, an.poly(a.low), an.poly(b.low)))
        high = an.expr(an.extremum(last, an.poly(a.high), an.poly(b.high)))
        return Span(low, high, an.simplify(high - low))

    def _nest(self, solved: dict[Expr, Span]) -> Any:
        an, axes, guards, made = self.an, list[BlockAxis](), list[Expr](), list[tuple[Expr, Expr]]()
        for k, a in enumerate(self.block.axes):
            whole = self.domain[a.var]
            one = whole if a.kind == "reduce" and a.var not in solved else solved.get(a.var, whole)
            part = clipped(an, one, whole)
            index, extent = part.low, part.extent
            if self.units or not is_const(extent, 1):
                v = var(f"ax{k}", a.var.dtype, "loop")
                an.bind(v, 0, extent - 1)
                made.append((v, extent))
                index = part.low + v
            index = an.simplify(index)
            axes.append(replace(a, binding=index))
            if not an.prove(compare("le", index, whole.high)):
                guards.append(an.simplify(compare("lt", index, whole.high + 1)))
        block = replace(self.block, axes=axes, predicate=logical_and(*guards) if guards else None)
        result: Any = block
        for v, extent in reversed(made):
            result = For(v, const(0), extent, "serial", result)
            self.made.insert(0, result)
        self.placed = block
        return result

    def check_once(self, around: Sequence[For]) -> None:
        """Raise NotHere unless each iteration of the old nest is one of the new, in its order where it reduces."""
        loops = [*around, *self.made]
        _, together_before = self._digits(self.block.axes, self.left)
        used, together = self._digits(self.placed.axes, loops)
        together &= together_before
        for old, new in zip(self.block.axes, self.placed.axes, strict=True):
            whole, before = self.domain[old.var], tiles(self.an, old.binding, self.left)
            after = tiles(self.an, new.binding, loops)
            name = old.var.value.name
            if before is None or after is None:
                if name not in together:
                    raise NotHere(f"parts of {name} that iterations would compute overlap, or leave gaps")
                continue
            least = _least(self.an, new.binding, loops)
            reached = self.an.simplify(least + after[1] - 1)
            if not self.an.prove(compare("eq", least, whole.low)) or not self.an.prove(
                compare("ge", reached, whole.high)
            ):
                raise NotHere(
                    f"not all of {name} is computed there", "a loop whose iterations compute all that it reads"
                )
            if old.kind == "reduce" and any(x.kind != "serial" for x in after[0]):
                raise NotHere(f"iterations that run at the same time would share {name}")
            order = [x for x in loops if x in after[0]]
            if old.kind == "reduce" and order != after[0]:
                raise NotHere(f"{name} would run in another order")
            used += after[0]
        twice = next((x for x in loops if used.count(x) > 1), None)
        idle = next((x for x in loops if x not in used and not is_const(x.extent, 1)), None)
        if twice is not None or idle is not None:
            name = (twice or idle).var.value.name  # type: ignore[union-attr]
            raise NotHere(f"several iterations of {name} would compute the same of {self.block.name}")

    def _digits(self, axes: Sequence[BlockAxis], loops: Sequence[For]) -> tuple[list[For], set[str]]:
        """The loops of which axes together are the digits, as `f // n` and `f % n`, and the names of these axes."""
        used, found = list[For](), set[str]()
        once = {x.var: x.start for x in loops if is_const(x.extent, 1)}
        longer = {x.var for x in loops if x.var not in once}
        told = [replace(a, binding=substitute(a.binding, once)) for a in axes if a.kind == "spatial"]
        for x in loops:
            own = [a for a in told if variables(a.binding) & longer == {x.var}]
            if 1 < len(own) < 5 and any(self._is_made_of(x, order) for order in permutations(own)):
                used.append(x)
                found |= {a.var.value.name for a in own}
        return used, found

    def _is_made_of(self, loop: For, digits: Sequence[BlockAxis]) -> bool:
        value, total = const(0), const(1)
        for a in digits:
            whole = self.domain[a.var]
            if not is_const(self.an.simplify(whole.low), 0):
                return False
            value, total = value * whole.extent + a.binding, total * whole.extent
        an = self.an
        return is_const(an.simplify(value - loop.var), 0) and is_const(an.simplify(total - loop.extent), 0)


def _least(an: Analyzer, index: Expr, loops: Sequence[For]) -> Expr:
    found = interval(an.simplify(index), frozenset(x.var for x in loops), an)
    return an.expr(found.low) if found is not None else index
