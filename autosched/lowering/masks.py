"""Masks: loops skip what a condition over indices rules out, and ask nothing where it surely holds.

    for k in 64: if k <= i + r: f(r, k)     ->     for k in [0, i):           f(r, k)             r in [0, 8)
      (unrolled r)                                 for k in [i, min(i + 8, 64)): if k <= i + r: f(r, k)

Such conditions come from `where=`: sums over triangles and bands. `partition` settles the questions of borders, which
are rare; a mask leaves out half of all work. All that a loop does must lie under the condition. What is left of it is
asked for each lane of a vector, whose sums are then chosen, and not computed one by one.

Data may say where a loop ends, too: `indptr[i + 1] - indptr[i]`, of a row of a sparse matrix, is read before the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autosched.ir.calls import is_opaque
from autosched.ir.dtype import DType
from autosched.ir.expr import Expr, compare, const, is_const, is_index, logical_and, select, var, variables
from autosched.ir.ops import ORDERS
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import (
    Allocate,
    Buffer,
    For,
    If,
    Let,
    Prefetch,
    Produce,
    Seq,
    Stmt,
    Store,
    all_expressions,
    expressions,
    load,
    map_stmt,
    seq,
    walk,
    with_children,
)
from autosched.ir.visit import conjuncts, contains, post_order
from autosched.lowering.interior import Span, limits, solve
from autosched.lowering.simplify_stmt import bind_loop, enter_loop, inside_loop, replace_exprs, simplify_stmt

#: Statements that cutting may add to a program.
MAX_STATEMENTS = 2000
#: Depth of divisions, minima and maxima in a condition that is solved.
DEPTH = 4
#: Bytes of sums that a first-level cache holds: farther away, what a jump leaves out is dearer than the jump.
CLOSE = 32768
#: A loop of no more iterations than this is asked in each of them: cutting it gains little, and doubles what it does.
FEW = 4


@dataclass
class _Room:
    statements: int = MAX_STATEMENTS


def cut_masks(s: Stmt, an: Analyzer) -> Stmt:
    """Loops visit only what their masks let through, and ask only where some of it is left out."""
    return _cut(s, an, _Room())


def _cut(s: Stmt, an: Analyzer, room: _Room) -> Stmt:
    if isinstance(s, If):
        with an.assuming(s.condition):
            then = _cut(s.then, an, room)
        return If(s.condition, then, None if s.otherwise is None else _cut(s.otherwise, an, room))
    if not isinstance(s, For):
        return with_children(s, lambda c: _cut(c, an, room))
    if s.kind == "serial" and not s.thread:
        loop, ends, exact = _with_ends(s, an)
        pieces = _pieces(loop, an, room)
        if pieces is not None:
            if exact:
                pieces = If(logical_and(*exact), pieces, _inside(s, an, room))
            for v, value in ends.items():
                pieces = Let(v, value, pieces)
            return pieces
    return _inside(s, an, room)


def _with_ends(loop: For, an: Analyzer) -> tuple[For, dict[Expr, Expr], list[Expr]]:
    """The loop with names for those sides of its masks that are the same data in every iteration, and what these are.

    They are read whether or not the loop runs, so they must be inside their buffers in any case. A side may be such
    data and an index, as `indptr[i] + k` is, which wraps in its type. With a name in it, it is exact: the conditions
    under which that is the same come third.
    """
    stored = {x.buffer for x in walk(loop.body) if isinstance(x, Store)}
    inner = {loop.var} | {x.var for x in walk(loop.body) if isinstance(x, (For, Let))}
    names: dict[Expr, Expr] = {}
    named: dict[Expr, Expr] = {}
    exact: dict[Expr, None] = {}

    def told(e: Expr) -> bool:
        fits = e.dtype.is_integer and str(e.dtype) != "uint64"  # of which names would be negative
        return fits and not is_index(e) and _is_fixed(e, stored, inner, an)

    def name_of(e: Expr) -> Expr:
        return names.setdefault(e, var(f"{loop.var.name}.end", e.dtype, "let"))

    for c in sorted(_masks(loop.body) or (), key=repr):
        sides: list[Expr] = []
        for x in c.args if c.op in ORDERS else ():
            if told(x):
                sides.append(name_of(x))
            elif not is_index(x) and x.op == "add" and (data := next(filter(told, x.args), None)) is not None:
                (offset,) = (a for a in x.args if a is not data)
                stays = _stays_in_type(name_of(data), offset, x.dtype, loop, an) if is_index(offset) else None
                sides.append(x if stays is None else name_of(data) + offset)
                exact.update(dict.fromkeys(stays or ()))
            else:
                sides.append(x)
        if any(a is not b for a, b in zip(sides, c.args, strict=False)) and all(map(is_index, sides)):
            named[c] = compare(c.op, *sides)
            exact.update(dict.fromkeys(x for v in sides if v in names.values() for x in _far_from_ends(v)))
    if not named or any(map(is_opaque, all_expressions(loop.body))):
        return loop, {}, []
    used = {v for c in (*named.values(), *exact) for v in variables(c)}
    body = replace_exprs(loop.body, named)
    return replace(loop, body=body), {v: x for x, v in names.items() if v in used}, list(exact)


def _stays_in_type(name: Expr, offset: Expr, dtype: DType, loop: For, an: Analyzer) -> list[Expr] | None:
    """The conditions under which `name + offset` is in its type in all iterations; None where that is not known."""
    with an.tightened({}):
        enter_loop(loop, an)
        inner = _enter_inner(loop, an)
        if inner is None:
            return None
        least, most = (an.extreme(an.poly(offset), [loop.var, *inner], largest=x) for x in (False, True))
    if least is None or most is None or (least.variables | most.variables) & (inner | {loop.var}):
        return None
    if dtype.bits == 64:
        return _far_from_ends(name) if dtype.kind == "int" else None
    falls = [] if an.prove_nonneg(least) else [compare("ge", name + least.expr(), int(dtype.min))]
    return [*falls, *([] if an.prove_nonneg(-most) else [compare("le", name + most.expr(), int(dtype.max))])]


def _far_from_ends(name: Expr) -> list[Expr]:
    """The conditions under which sums and differences of names and lengths fit into 64 bits."""
    return [] if name.dtype.bits < 64 else [compare("ge", name, -(1 << 62)), compare("le", name, 1 << 62)]


def _is_fixed(e: Expr, stored: set[Buffer], inner: set[Expr], an: Analyzer) -> bool:
    """Whether an expression is the same for all `inner` variables, and may be evaluated where nobody asks for it."""
    for x in post_order(e):
        if x.op == "load":
            if x.value in stored or not _is_inside(x.value, x.args, an):
                return False
        elif x in inner or x.op == "call" or _may_fail(x, an):
            return False
    return True


def _masks(s: Stmt) -> frozenset[Expr] | None:
    """The conditions under which a statement does all that it does; None if it does nothing."""
    match s:
        case If(otherwise=None):
            inner = _masks(s.then)
            return None if inner is None else inner | frozenset(_parts(s.condition))
        case For() | Produce() | Allocate():
            return _masks(s.body)
        case Let():
            inner = _masks(s.body)
            return None if inner is None else frozenset(c for c in inner if s.var not in variables(c))
        case Seq():
            found = [x for x in map(_masks, s.stmts) if x is not None]
            return frozenset.intersection(*found) if found else None
        case Prefetch():
            return None
    return frozenset()


def _parts(condition: Expr) -> list[Expr]:
    """The parts of a conjunction, which may be asked together as a minimum of truths, without those that are about
    borders: they hold nearly always."""
    if condition.op == "and" or (condition.op == "min" and condition.dtype.is_bool):
        return [c for a in condition.args for c in _parts(a)]
    return [] if condition.op == "likely" else [condition]


def _pieces(loop: For, an: Analyzer, room: _Room) -> Stmt | None:
    """The loop where some mask may hold: where all do, without them. None where there is nothing to gain."""
    masks = [c for c in _masks(loop.body) or () if is_index(c.args[0] if c.args else c) and c.op in ORDERS]
    some, all_ = Span(), Span()
    around: list[Expr] = []  #: without which the loop does nothing
    with an.tightened({}):
        if not masks or an.memory.left <= 0 or an.prove_nonneg(-an.poly(loop.extent) + FEW):
            return None
        enter_loop(loop, an)
        inner = _enter_inner(loop, an)
        if inner is None:
            return None
        for c in sorted(masks, key=repr):
            if _reads(c):
                continue
            around += _solved(c, loop, inner, an, some, all_)
    size = sum(1 for _ in walk(loop.body)) * (2 if all_.provided else 1)
    if not all_.answers or size > room.statements:
        return None
    room.statements -= size
    return _joined(loop, some, all_, around, an, room)


def _enter_inner(loop: For, an: Analyzer) -> frozenset[Expr] | None:
    """The variables of the loops inside, whose ranges are known from here on, but not that they run. None where pieces
    of a loop share their variable: each has a range of its own."""
    found = [s for s in walk(loop.body) if isinstance(s, For)]
    if len({s.var for s in found}) < len(found):
        return None
    for s in found:
        bind_loop(s, an)
    return frozenset(s.var for s in found)


def _solved(c: Expr, loop: For, inner: frozenset[Expr], an: Analyzer, some: Span, all_: Span) -> list[Expr]:
    """Add to `some` the iterations in which a mask holds for any of the iterations inside, and to `all_` those in which
    it holds for all of them. Returns what else must be so for the loop to do anything."""
    around = []
    for p in an.inequalities(c) or ():
        over = [x for x in inner if x in p.variables]
        best, worst = (an.extreme(p, over, largest=largest) for largest in (True, False))
        if best is None or worst is None or (best.variables | worst.variables) & inner:
            return []
        trial = Span()
        if not solve(worst, loop.var, frozenset(), an, trial, DEPTH):
            return []
        all_.low += trial.low
        all_.high += trial.high
        all_.provided += trial.provided
        all_.answers[c] = const(True)
        trial = Span()
        if loop.var in best.variables:
            if solve(best, loop.var, frozenset(), an, trial, DEPTH, exact=True):
                some.low += trial.low
                some.high += trial.high
        elif not an.prove_nonneg(best):
            around.append(compare("ge", best.expr(), 0))
    return around


def _joined(loop: For, some: Span, all_: Span, around: list[Expr], an: Analyzer, room: _Room) -> Stmt:
    """The loop in pieces: masked, free of masks, masked; masked as a whole where `all_` does not hold anywhere."""
    low, high = limits(loop, some, an)
    tight = replace(loop, start=low, extent=an.simplify(high - low))
    ends = [[*map(id, x)] for x in (some.low, all_.low, some.high, all_.high)]
    alike = ends[0] == ends[1] and ends[2] == ends[3]  # no loop inside has a say
    first, last = (low, high) if alike else limits(tight, replace(all_, provided=[]), an)
    clean = simplify_stmt(replace_exprs(loop.body, all_.answers), an)

    def piece(start: Expr, stop: Expr, body: Stmt) -> Stmt:
        made = replace(loop, start=start, extent=an.simplify(stop - start), body=body)
        return simplify_stmt(made, an)

    parts = [piece(low, first, loop.body), piece(first, last, clean), piece(last, high, loop.body)]
    made = seq(*(_inside(p, an, room) for p in parts))
    if all_.provided:
        whole = _inside(piece(low, high, loop.body), an, room)
        made = simplify_stmt(If(an.simplify(logical_and(*all_.provided)), made, whole), an)
    condition = an.simplify(logical_and(*around)) if around else const(True)
    return made if is_const(condition, True) else If(condition, made)


def _inside(s: Stmt, an: Analyzer, room: _Room) -> Stmt:
    """The loops inside a piece, which may be cut in turn."""
    if not isinstance(s, For):
        return s
    with inside_loop(s, an):
        return replace(s, body=_cut(s.body, an, room))


# -- masks of whole loops -------------------------------------------------------------------------


def lift_conditions(s: Stmt) -> Stmt:
    """A condition that a loop does not change is asked once, around the loop.

    for x in 16: if (k + i)%3 != 1 and x < n: f(x)   ->   if (k + i)%3 != 1: for x in 16: if x < n: f(x)

    Written out, a loop would ask in each copy, and compilers of what is written out take long over each question.
    """
    s = with_children(s, lift_conditions)
    if not isinstance(s, For) or s.kind == "parallel" or s.thread or not isinstance(s.body, If) or s.body.otherwise:
        return s
    parts = conjuncts(s.body.condition)
    lifted = [c for c in parts if s.var not in variables(c) and not _reads(c)]
    if not lifted or contains(s.body.condition, "likely"):
        return s
    left = [c for c in parts if c not in lifted]
    inner = If(logical_and(*left), s.body.then) if left else s.body.then
    return If(logical_and(*lifted), replace(s, body=inner))


def _reads(condition: Expr) -> bool:
    """Whether it reads memory, which the loop may change, or calls what may be called only where the loop runs."""
    return contains(condition, "load", "call")


# -- masks in vectors -----------------------------------------------------------------------------


def choose_lanes(s: Stmt, an: Analyzer) -> Stmt:
    """In vector loops, a condition that lanes do not agree about chooses between the old value and the new one.

    for x in 16 lanes: if x < n: T[x] = T[x] + A[x]   ->   for x in 16 lanes: T[x] = select(x < n, T[x] + A[x], T[x])

    So does what data say for all lanes, in each step of sums that lie close by: jumps would be taken wrong. Only
    where everything may be read whether the condition holds or not, and no other task writes there.
    """
    return _choose(s, an, _Around())


@dataclass(frozen=True)
class _Around:
    """What is around a statement."""

    own: frozenset[Buffer] = frozenset()  #: buffers that no other task knows of
    lanes: frozenset[Expr] = frozenset()  #: variables of vector loops
    step: Expr | None = None  #: the variable of the innermost serial loop
    tasks: tuple[For, ...] = ()  #: loops whose iterations run at once

    def inside(self, s: Stmt) -> _Around:
        match s:
            case Allocate(buffer=buffer) if buffer.scope != "shared":
                return replace(self, own=self.own | {buffer})
            case For(kind="vectorize", masked=False):
                return replace(self, lanes=self.lanes | {s.var})
            case For() if s.kind == "parallel" or s.thread:
                return replace(self, own=frozenset(), step=None, tasks=(*self.tasks, s))
            case For(kind="serial"):
                return replace(self, step=s.var)
        return self

    def chooses(self, s: If) -> bool:
        """Whether to choose beats jumping."""
        asked = variables(s.condition)
        if not self.lanes.isdisjoint(asked):
            return True
        if not self.lanes or self.step not in asked or not contains(s.condition, "load"):
            return False
        return all(x.buffer in self.own and _is_small(x.buffer) for x in walk(s.then) if isinstance(x, Store))


def _is_small(buffer: Buffer) -> bool:
    size = buffer.elements * buffer.dtype.bytes
    return is_const(size) and int(size.value) <= CLOSE


def _choose(s: Stmt, an: Analyzer, around: _Around) -> Stmt:
    inside = around.inside(s)
    match s:
        case For():
            with inside_loop(s, an):
                if s.extent.op == "max" and is_const(s.extent.args[1], 0):  # it runs, so 0 is not the larger one
                    an.bind(s.var, an.poly(s.start), an.poly(s.start) + an.poly(s.extent.args[0]) - 1)
                return replace(s, body=_choose(s.body, an, inside))
        case If():
            chooses = s.otherwise is None and around.chooses(s)
            if chooses and _are_of_this_task(s.then, around, an) and may_run_anyway(s, an):
                condition = logical_and(*conjuncts(s.condition))
                return map_stmt(s.then, on_stmt=lambda x: _chosen(x, condition) if isinstance(x, Store) else x)
            with an.assuming(s.condition):
                then = _choose(s.then, an, around)
            return If(s.condition, then, s.otherwise and _choose(s.otherwise, an, around))
    return with_children(s, lambda c: _choose(c, an, inside))


def _are_of_this_task(s: Stmt, around: _Around, an: Analyzer) -> bool:
    """Whether no other task stores where the statement does."""
    stores = [x for x in walk(s) if isinstance(x, Store) and x.buffer not in around.own]
    return all(any(_is_apart(i, loop, an) for i in x.indices) for x in stores for loop in around.tasks)


def _is_apart(index: Expr, loop: For, an: Analyzer) -> bool:
    """Whether no two iterations of the loop share an index: `16*task + x` for x in [0, 16), whatever is outside."""
    slope, rest = an.poly(index).affine_in(loop.var) or (0, Poly({}))
    bound = {x.var for x in walk(loop.body) if isinstance(x, (For, Let))}
    within = Poly({m: c for m, c in rest.terms.items() if not bound.isdisjoint(Poly({m: 1}).variables)})
    return an.prove_nonneg(within) and an.prove_nonneg(Poly.of(abs(slope) - 1) - within)


def _chosen(s: Store, condition: Expr) -> Store:
    return replace(s, value=select(condition, s.value, load(s.buffer, *s.indices)))


def may_run_anyway(s: If, an: Analyzer) -> bool:
    """Whether the statement may be evaluated where its condition does not hold: nothing is read outside of a buffer,
    divided by what may be 0, or called; what is stored to was set before, and the condition does not read it."""
    parts = list(walk(s.then))
    if contains(s.condition, "likely"):
        return False  # beyond a ragged end nothing was set before
    if not all(isinstance(x, (Store, Seq, Let, Prefetch)) for x in parts):
        return False
    stored = {x.buffer for x in parts if isinstance(x, Store)}
    if any(isinstance(x, Store) and x.streaming for x in parts):
        return False
    if any(e.op == "load" and e.value in stored for e in post_order(s.condition)):
        return False
    for x in parts:
        places = [(x.buffer, x.indices)] if isinstance(x, Store) else []
        for e in post_order(expressions(x)):
            if e.op == "load":
                places.append((e.value, e.args))
            elif _may_fail(e, an) or is_opaque(e):
                return False
        if not all(_is_inside(buffer, indices, an) for buffer, indices in places):
            return False
    return True


def _may_fail(e: Expr, an: Analyzer) -> bool:
    if e.op not in _DIVISIONS or e.dtype.is_float:
        return False
    by = e.args[1]
    return not (by.value if is_const(by) else is_index(by) and an.prove_nonneg(an.poly(by) - 1))


_DIVISIONS = ("div", "floordiv", "floormod", "truncdiv", "truncmod")


def _is_inside(buffer: Buffer, indices: Sequence[Expr], an: Analyzer) -> bool:
    sizes = buffer.shape if len(indices) == len(buffer.shape) else (buffer.elements,)  # flat, of several dimensions
    return len(indices) == len(sizes) and all(is_index(i) for i in indices) and all(map(an.is_within, indices, sizes))
