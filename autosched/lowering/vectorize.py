"""Vector loops become vector expressions; unrolled loops become straight-line code."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autosched.ir import expr as E
from autosched.ir import stmt as S
from autosched.ir.calls import is_opaque
from autosched.ir.dtype import BFLOAT16, FLOAT32, INT32, INT64
from autosched.ir.expr import Expr
from autosched.ir.ops import ORDERS
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer, Stmt
from autosched.ir.visit import contains, in_place_of, post_order, rebuild, rewrite, substitute
from autosched.lowering.partition import tighten
from autosched.lowering.simplify_stmt import inside_loop, replace_exprs
from autosched.lowering.skipping import skip_lanes
from autosched.lowering.verify import check_constant

_LANE = E.var("lane", role="loop")


def split_patterns(s: Stmt) -> Stmt:
    """Vector indices at fixed distances become a scalar and a pattern, which LLVM loads by shuffles."""
    done: dict[Expr, Expr] = {}

    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        if e.op == "load" and args[0] is not e.args[0]:
            return E.make("load", e.dtype, (_place(args[0]),), e.value)
        is_pattern = e.args and e.dtype.lanes > 1 and E.is_index(e) and e.op not in ("ramp", "broadcast")
        return _split(e) if is_pattern else None

    def on_stmt(s: Stmt) -> Stmt:
        return replace(s, indices=tuple(map(_place, s.indices))) if isinstance(s, S.Store) else s

    return S.map_stmt(s, lambda e: rewrite(e, change, done), on_stmt)


def _place(index: Expr) -> Expr:
    """An index without a change of its type, which only values need."""
    return index.args[0] if index.op == "cast" and E.is_index(index) and not index.args[0].dtype.is_bool else index


def _split(e: Expr) -> Expr | None:
    """The vector as a scalar plus a vector over the number of the lane alone; None if it is no such sum."""
    lanes = e.dtype.lanes
    scalar = _one_lane(e, {})
    if scalar is None:
        return None
    an = Analyzer()
    an.bind(_LANE, 0, lanes - 1)
    moving: dict[tuple[Expr, ...], int] = {}
    rest: dict[tuple[Expr, ...], int] = {}
    for monomial, factor in an.poly(scalar).terms.items():
        mentioned = {v for atom in monomial for v in E.variables(atom)}
        if _LANE in mentioned and len(mentioned) > 1:
            return None
        (moving if _LANE in mentioned else rest)[monomial] = factor
    base = E.broadcast(Poly(rest).expr(), lanes)
    result = base + substitute(Poly(moving).expr(), {_LANE: E.ramp(0, 1, lanes)}) if moving else base
    if result.dtype == e.dtype:
        return result
    # a polynomial knows no types: what is a value keeps its own; the cast of an index is exact
    return E.make("cast", e.dtype, (result,)) if e.dtype.scalar in (INT32, INT64) else None


def _one_lane(e: Expr, done: dict[Expr, Expr | None]) -> Expr | None:
    """The vector's element in lane `_LANE`; None for operations between lanes."""
    if e.dtype.lanes == 1:
        return e
    if e not in done:
        if e.op == "broadcast":
            done[e] = e.args[0]
        elif e.op == "ramp":
            done[e] = e.args[0] + e.args[1] * _LANE
        else:
            args = [_one_lane(a, done) for a in e.args]
            known = [a for a in args if a is not None]
            simple = e.op in ("add", "sub", "mul", "floordiv", "floormod", "min", "max", "neg")
            done[e] = rebuild(e, tuple(known)) if simple and len(known) == len(args) else None
    return done[e]


#: A loop of more lanes becomes a loop of vectors with `LANES_OF_LONG`: the code would be longer than any cache.
MAX_LANES = 1024
LANES_OF_LONG = 64
#: Up to this distance between lanes, one wide load and a shuffle beat a load for each lane.
MAX_STRIDE = 4
#: Reductions whose lanes are combined, and by what; others run one by one.
COMBINED = {op: op for op in ("add", "mul", "min", "max", "bitand", "bitor", "bitxor")}
COMBINED |= {"and": "bitand", "or": "bitor"}
#: the same for truths, on which these are the same operators
_COMBINED_TRUTHS = COMBINED | {"min": "bitand", "max": "bitor"}


@dataclass(frozen=True)
class OnLanes:
    """What a target can do with the lanes of a vector; loops that need more become serial.

    combine: make one number of all lanes, of which there are 2, 4, 8, ..; some: of any number of them; load and store
    some of them; add products of neighbours at once
    """

    combine: bool = True
    some: bool = True

    def combines(self, lanes: int) -> bool:
        return self.combine and (self.some or lanes & (lanes - 1) == 0)


#: No more than what each lane does by itself.
NOTHING = OnLanes(combine=False, some=False)


def vectorize_loops(s: Stmt, an: Analyzer, can: OnLanes = OnLanes()) -> Stmt:
    """Vector loops become vector statements.

    Indices must be flat.
    """
    if not isinstance(s, S.For):
        return S.with_children(s, lambda c: vectorize_loops(c, an, can))
    if s.kind == "vectorize" and E.is_const(s.extent) and int(s.extent.value) > MAX_LANES:
        return vectorize_loops(_in_vectors(s), an, can)
    with inside_loop(s, an):
        loop = replace(s, body=vectorize_loops(s.body, an, can))
        if not loop.lanes:
            return _vectorize(loop, s.body, an, can) if loop.kind == "vectorize" else loop
    return _leftover(loop, an, can)  # it may not run: how many vectors there are is asked outside


def _in_vectors(loop: S.For) -> Stmt:
    """A long vector loop as a loop of vectors, and a vector of what is left."""
    whole, rest = divmod(int(loop.extent.value), LANES_OF_LONG)
    outer, lane = (E.var(f"{loop.var.name}.{part}", role="loop") for part in ("vector", "lane"))

    def of_lanes(start: Expr, lanes: int) -> S.For:
        body = replace_exprs(loop.body, {loop.var: start + lane})
        return replace(loop, var=lane, start=E.const(0), extent=E.const(lanes), body=body)

    vectors = S.For(
        outer, E.const(0), E.const(whole), "serial", of_lanes(loop.start + outer * LANES_OF_LONG, LANES_OF_LONG)
    )
    return S.seq(vectors, *([of_lanes(loop.start + whole * LANES_OF_LONG, rest)] if rest else []))


def _vectorize(loop: S.For, before: Stmt, an: Analyzer, can: OnLanes) -> Stmt:
    """The loop on all lanes; its body was `before` until vector loops inside became vectors."""
    legal = "split the loop by a constant factor and vectorize the inner loop"
    check_constant(loop, f"vectorize {loop.var.name}", legal)
    lanes = int(loop.extent.value)
    result = _Lanes(loop, loop.start, lanes, an, can).stmt(loop.body)
    if result is None and _combines_lanes(loop.body):
        result = _Lanes(loop, loop.start, lanes, an, can).stmt(S.map_stmt(before, on_stmt=_step_by_step))
    if result is None and can.combines(lanes):
        result = skip_lanes(loop, lanes, _Lanes(loop, loop.start, lanes, an).expr, an)
    return _one_by_one(loop, an) if result is None else result


def _combines_lanes(body: Stmt) -> bool:
    """Return whether there is a vector loop of a reduction in it."""
    return contains(S.all_expressions(body), "combine_lanes")


def _step_by_step(s: Stmt) -> Stmt:
    return replace(s, kind="serial", lanes=0) if isinstance(s, S.For) and (s.kind == "vectorize" or s.lanes) else s


def _one_by_one(loop: S.For, an: Analyzer) -> S.For:
    """A serial loop. A guard that the loop variable and sizes decide becomes its bound.

    Otherwise a C compiler would make masks of it.
    """
    serial = replace(loop, kind="serial", ragged=True)
    if not isinstance(loop.body, S.If):
        return serial
    others = {v for v in E.variables(loop.body.condition) if v is not loop.var and v.value.role != "size"}
    return tighten(serial, an, frozenset(others))


def _leftover(loop: S.For, an: Analyzer, can: OnLanes) -> Stmt:
    """The rest of a vector loop, in vectors of at most `loop.lanes`."""
    if any(isinstance(s, S.Allocate) for s in S.walk(loop.body)):
        return replace(loop, lanes=0, ragged=True)
    if _reads_back(loop.body, an):
        return _fewer_and_fewer(loop, an, can)
    return _overlapping(loop, an)


def _fewer_and_fewer(loop: S.For, an: Analyzer, can: OnLanes) -> Stmt:
    """As many whole vectors as there are, then narrower ones, and the last few elements one by one:

    for i in [a, a + n): f(i)   ->   for j in n//V: f(a + j*V + 0..V-1)
                                     for i in [a + n//V*V, a + n): f(i), with a quarter of the lanes
    """
    one_by_one = replace(loop, lanes=0, ragged=True)
    if loop.lanes < 4:
        return one_by_one
    block = E.var(f"{loop.var.name}.block", role="loop")
    start = loop.start + block * loop.lanes
    lanes = _Lanes(loop, start, loop.lanes, an, can)
    with an.assuming(loop.extent >= loop.lanes):
        body = lanes.stmt(loop.body)
        if body is None and can.combines(loop.lanes):
            body = skip_lanes(replace(loop, start=start, extent=E.const(loop.lanes)), loop.lanes, lanes.expr, an)
    if body is None or lanes.is_scattered:
        return one_by_one
    count = an.simplify(E.floordiv(E.maximum(loop.extent, 0), loop.lanes))
    start, extent = an.simplify(loop.start + count * loop.lanes), an.simplify(loop.extent - count * loop.lanes)
    rest = replace(loop, start=start, extent=extent, lanes=loop.lanes // 4)
    return S.seq(S.For(block, E.const(0), count, "serial", body, ragged=True), _fewer_and_fewer(rest, an, can))


def _overlapping(loop: S.For, an: Analyzer) -> Stmt:
    """Whole vectors, of which the last moves back to end at the edge:

    for i in [a, a + n): f(i)   ->   if n >= V: for j in ceil(n/V): f(a + min(j*V, n - V) + 0..V-1)
                                     else:      for i in [a, a + n): f(i)

    Elements in the overlap are computed twice, which a store that does not read what it writes
    does not mind. Accesses that are far apart run one by one.
    """
    one_by_one = replace(loop, lanes=0, ragged=True)
    block = E.var(f"{loop.var.name}.block", role="loop")
    start = loop.start + E.minimum(block * loop.lanes, loop.extent - loop.lanes)
    lanes = _Lanes(loop, start, loop.lanes, an)
    with an.assuming(loop.extent >= loop.lanes):
        body = lanes.stmt(loop.body)
    if body is None or lanes.is_scattered:
        return one_by_one
    blocks = S.For(block, E.const(0), an.simplify(E.ceildiv(loop.extent, loop.lanes)), "serial", body, ragged=True)
    enough = an.simplify(loop.extent >= loop.lanes)
    if enough.op == "const":
        return blocks if enough.value else one_by_one
    return S.If(enough, blocks, one_by_one)


def _reads_back(body: Stmt, an: Analyzer) -> bool:
    """Return whether the body reads what it stores, so that running an iteration twice gives another result."""
    later: dict[Buffer, list[Expr]] = {}
    for s in reversed(list(S.walk(body))):
        if isinstance(s, S.Store):
            later.setdefault(s.buffer, []).append(s.indices[0])
        for e in post_order(S.expressions(s)):
            if e.op == "load" and not all(_are_apart(e.args[0], i, e.value, an) for i in later.get(e.value, ())):
                return True
    return False


def _are_apart(a: Expr, b: Expr, buffer: Buffer, an: Analyzer) -> bool:
    """Whether two indices are in different planes of a buffer in which times take turns, as t % 2 and (t + 1) % 2."""
    (n, planes), (m, others) = (_plane(i, buffer, an) for i in (a, b))
    distance = an.simplify(n - m)
    return planes == others > 1 and E.is_const(distance) and distance.value % planes != 0


def _plane(index: Expr, buffer: Buffer, an: Analyzer) -> tuple[Expr, int]:
    """(t, n) where the index is in plane t % n of the n that the buffer consists of; n is 1 where it has no such."""
    if not buffer.shape:
        return E.const(0), 1
    size, whole = an.poly(buffer.shape[0]), an.poly(index)
    for factors, c in whole.terms.items():  # t % n * (size / n) is t * (size / n) - t // n * size
        for f in factors:
            n = int(f.args[1].value) if f.op == "floordiv" and E.is_const(f.args[1]) else 0
            rest = tuple(x for x in factors if x is not f)
            if n > 1 and c % n == 0 and Poly({rest: -c}) == size:
                within = whole - Poly({factors: c}) - Poly({rest: -c // n}) * an.poly(f.args[0])
                if not E.variables(within.expr()) & E.variables(f.args[0]):
                    return f.args[0], n
    return E.const(0), 1


class _Lanes:
    """One vector loop: its variable becomes `start + (0, 1, ..., lanes - 1)`."""

    def __init__(self, loop: S.For, start: Expr, lanes: int, an: Analyzer, can: OnLanes = NOTHING) -> None:
        self.v, self.start, self.lanes, self.an, self.can = loop.var, start, lanes, an, can
        self.stored = {s.buffer for s in S.walk(loop.body) if isinstance(s, S.Store)}
        self.varying = {loop.var}  #: what has a value of its own in each lane: also what is let be such a value
        self.masked, self.under_mask = loop.masked and can.some, False
        self.is_scattered = False  #: some access is worth no vector: a load from afar, a store not to neighbours
        self._done: dict[Expr, Expr] = {}  #: under the ranges of the loops around: see `stmt`

    def stmt(self, s: Stmt) -> Stmt | None:
        """The statement on all lanes; None if it cannot be a vector statement as a whole."""
        match s:
            case S.Store():
                if any(e.dtype.lanes > 1 for e in post_order((*s.indices, s.value))):
                    return self.dot(s)  # a vector loop inside this one
                if any(map(is_opaque, (*s.indices, s.value))):
                    return None  # a call for each lane
                if self.lanes > 1 and not self.varies(s.indices[0]):
                    return None if self.under_mask else self.combined(s)
                value = self.expr(s.value)
                index = self.index(s.indices[0])
                self.is_scattered |= index.op == "ramp" and not E.is_const(index.args[1], 1)
                return S.Store(s.buffer, (index,), E.broadcast(value, self.lanes), s.streaming)
            case S.Prefetch():
                return S.Prefetch(s.buffer, tuple(self.expr(i) for i in s.indices))
            case S.Seq():
                parts = [self.stmt(c) for c in s.stmts]
                return None if None in parts else S.seq(*parts)
            case S.Let():
                is_vector = any(e.dtype.lanes > 1 for e in post_order(s.value))
                return None if is_vector or is_opaque(s.value) else self.let(s)
            case S.If() if not self.varies(condition := self.agreed(s.condition)):
                then = self.stmt(s.then)
                otherwise = None if s.otherwise is None else self.stmt(s.otherwise)
                if then is None or (otherwise is None and s.otherwise is not None):
                    return None
                return S.If(condition, then, otherwise)
            case S.If(otherwise=None) if s.condition.op == "likely" and self.masked:
                return self.some_lanes(s)
            case S.For() if not self.varies(s.start) and not self.varies(s.extent):
                outside, self._done = self._done, dict(self._done)  # loops that were one share their variable
                with inside_loop(s, self.an):
                    body = self.stmt(s.body)
                self._done = outside
                return None if body is None else replace(s, body=body)
            case S.Produce():
                body = self.stmt(s.body)
                return None if body is None else S.Produce(s.name, body)
            case _:
                return None

    def varies(self, e: Expr) -> bool:
        """Return whether `e` differs between lanes."""
        return not self.varying.isdisjoint(E.variables(e))

    def agreed(self, condition: Expr) -> Expr:
        """The condition without the lanes if all agree: for whole vectors, `8*x + lane < 56` is `8*x < 56`."""
        if condition.op in ("and", "likely"):
            return rebuild(condition, tuple(self.agreed(c) for c in condition.args))
        if condition.op not in ORDERS or not E.is_index(condition.args[0]):
            return condition
        low, high = condition.args if condition.op in ("lt", "le") else reversed(condition.args)
        least = self.an.poly(low - high) - (condition.op in ("le", "ge"))  # the condition is that this is less than 0
        if not E.variables(condition).isdisjoint(self.varying - {self.v}):
            return condition
        affine = least.affine_in(self.v)
        if affine is None or affine[0] not in (1, -1):
            return condition
        slope, rest = affine
        first = rest + self.an.poly(self.start) * slope  # in the first lane
        whole = first if slope == 1 else first + 1
        if any(c % self.lanes for c in whole.terms.values()):
            return condition
        return E.compare("lt", first.expr(), 0)

    def let(self, s: S.Let) -> Stmt | None:
        value, v = self.expr(s.value), s.var
        if value.dtype.lanes > 1:
            v = E.var(s.var.name, value.dtype, "let")
            self.varying.add(s.var)
            self._done[s.var] = v
        body = self.stmt(s.body)
        return None if body is None else S.Let(v, value, body)

    def some_lanes(self, s: S.If) -> Stmt | None:
        """Run a guarded statement on the lanes for which the guard holds."""
        outside, self.under_mask = self.under_mask, True
        then = self.stmt(s.then)
        self.under_mask = outside
        return None if then is None else S.If(self.expr(s.condition.args[0]), then)

    def combined(self, s: S.Store) -> Stmt | None:
        """A store of all lanes to one element: a step of a reduction, or None.

        B[i] = B[i] + f(v)   ->   B[i] = B[i] + combine_lanes(add, f(0, 1, ..., lanes - 1))
        """
        old = E.make("load", s.buffer.dtype, s.indices, s.buffer)
        is_step = s.value.op in COMBINED and len(s.value.args) == 2 and any(a is old for a in s.value.args)
        if not self.can.combines(self.lanes) or not is_step:
            return None
        left, right = s.value.args
        step = right if left is old else left
        if not self.varies(step) or any(e.op == "load" and e.value in self.stored for e in post_order(step)):
            return None
        combined = (_COMBINED_TRUTHS if old.dtype.is_bool else COMBINED)[s.value.op]
        return S.Store(s.buffer, s.indices, rebuild(s.value, (old, E.combine_lanes(combined, self.expr(step)))))

    def dot(self, s: S.Store) -> Stmt | None:
        """Sums in lanes, to which products of neighbours are added at once, or None: four of 8-bit integers, or two of
        bfloat16.

        C[v] = C[v] + combine_lanes(add, int32(A[0..3]) * int32(B[4*v + 0..3]))
        ->   C[0..] = dot(C[0..], A[0..3], B[0..])
        """
        old = E.make("load", s.buffer.dtype, s.indices, s.buffer)
        if self.under_mask or not self.can.some or s.buffer.dtype.scalar not in (INT32, FLOAT32) or s.value.op != "add":
            return None
        if all(a is not old for a in s.value.args):
            return None
        step = s.value.args[1 if s.value.args[0] is old else 0]
        product = step.args[0] if step.op == "combine_lanes" and step.value == "add" else step
        count = 4 if s.buffer.dtype.is_integer else 2
        if product.op != "mul" or product.dtype.lanes != count:
            return None
        factors = [self.neighbours(e, count) for e in product.args]
        to = self.index(s.indices[0])
        whole = [f for f in factors if f is not None and f.dtype.lanes > count]
        if None in factors or not whole or to.op != "ramp" or not E.is_const(to.args[1], 1):
            return None
        total = E.make("load", s.buffer.dtype.with_lanes(self.lanes), (to,), s.buffer)
        return S.Store(s.buffer, (to,), E.dot(total, *factors))  # type: ignore[arg-type]

    def neighbours(self, e: Expr, count: int) -> Expr | None:
        """What a factor is made of, where that is neighbours in memory: so many of each lane, or that all share."""
        load = e.args[0] if e.op == "cast" else e
        if load.op != "load" or load.dtype.scalar not in (("int8", "uint8") if count == 4 else (BFLOAT16,)):
            return None
        (at,) = load.args
        if load.value in self.stored or at.op != "ramp" or not E.is_const(at.args[1], 1):
            return None
        first = self.index(at.args[0])
        if first.op == "ramp" and not E.is_const(first.args[1], count):
            return None
        if first.dtype.lanes > 1 and first.op != "ramp":
            return None
        lanes, first = (count * self.lanes, first.args[0]) if first.op == "ramp" else (count, first)
        return E.make("load", load.dtype.with_lanes(lanes), (E.ramp(first, 1, lanes),), load.value)

    def index(self, i: Expr) -> Expr:
        """A ramp where the lanes advance by a constant, any vector otherwise, a scalar where they agree."""
        p = self.an.poly(i)
        affine = p.affine_in(self.v) if E.variables(i).isdisjoint(self.varying - {self.v}) else None
        if affine is not None:
            slope, rest = affine
            base = (rest + self.an.poly(self.start) * slope).expr()
            self.is_scattered |= abs(slope) > MAX_STRIDE
            return E.ramp(base, slope, self.lanes) if slope else base
        self.is_scattered = True
        return self.expr(i)

    def expr(self, e: Expr) -> Expr:
        if not self.varies(e):
            return e
        if e is self.v:
            return E.ramp(in_place_of(self.v, self.start), 1, self.lanes)
        found = self._done.get(e)
        if found is None:
            if e.op == "load":
                index = self.index(e.args[0])
                found = E.make("load", e.dtype.scalar.with_lanes(index.dtype.lanes), (index,), e.value)
            else:
                found = rebuild(e, tuple([self.expr(a) for a in e.args]))
            self._done[e] = found
        return found
