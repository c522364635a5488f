"""Intrinsics of expressions, lowered by rules (`ir.calls`); and of loops: `Tile` puts one in place of a nest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from autosched.errors import LowerError
from autosched.ir.buffers import row_major
from autosched.ir.calls import has_rules, intrinsic_name, lower_with_rules, targets_of
from autosched.ir.expr import Expr, compare, const, is_const, is_index, logical_and, make, var, variables
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer, If, Stmt, map_stmt, substitute_stmt
from autosched.ir.visit import rebuild, rewrite, substitute
from autosched.lowering.storage import Place, map_accesses
from autosched.schedule.stage import Loop, Stage
from autosched.target import Target
from autosched.te.reduction import REDUCTIONS
from autosched.te.tensor import IterVar, Tensor
from autosched.te.tensor_intrin import TensorIntrin

#: lowering rules applied to the result of one another
DEEPEST = 32


def lower_intrinsics(body: Stmt, target: Target) -> Stmt:
    """Intrinsics become what their rules for the target say. Raises LowerError for one that has no rule."""
    done: dict[Expr, Expr] = {}

    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        return _lowered(rebuild(e, args) if args else e, target)

    return map_stmt(body, lambda e: rewrite(e, change, done))


def _lowered(e: Expr, target: Target, depth: int = 0) -> Expr:
    found = lower_with_rules(e, target.kind) if has_rules() else None
    if found is not None:
        if depth == DEEPEST:
            raise LowerError(
                f"its rules go round in circles: after {DEEPEST} of them there is still one to apply",
                asked=f"intrinsic {intrinsic_name(e)} of type {e.dtype} for {target.kind}",
                legal="rules whose results need fewer rules than what they are for",
            )
        return rewrite(found, lambda n, args: _lowered(rebuild(n, args) if args else n, target, depth + 1))
    if e.op == "call" and e.value.kind == "intrin":
        known = targets_of(e.value.name)
        raise LowerError(
            f"no rule lowers it for {target.kind}" + (f" (rules: {', '.join(known)})" if known else ""),
            asked=f"intrinsic {e.value.name} of type {e.dtype}",
            legal=f"register_intrin_lowering({e.value.name!r}, {target.kind!r}, f=...)",
        )
    return e


_COMMUTE = frozenset(("add", "mul", "min", "max"))


@dataclass
class _Place:
    """The place of a tile in a tensor: its first element, and for each dimension of the tile that of the tensor."""

    tensor: Tensor
    start: list[Expr]
    dimensions: list[int | None]


@dataclass
class _Memory:
    """A tile in memory: indices and offset of its first element, and the stride of each dimension of the tile."""

    buffer: Buffer
    first: list[Expr]
    offset: Expr
    dimensions: list[int | None]
    strides: list[Expr | None]


@dataclass
class Tile:
    """One tensorized stage.

    values:  its axes over its loops;  extents: of its loops
    memory:  from the read of an element to its load;  stored: buffer and indices of the output's element
    """

    stage: Stage
    body: Expr
    values: dict[Expr, Expr]
    extents: dict[Loop, Expr]
    guards: Iterable[Expr]
    memory: Callable[[Expr], Expr]
    stored: tuple[Buffer, tuple[Expr, ...]]
    an: Analyzer
    loop: Loop = field(init=False)
    intrin: TensorIntrin = field(init=False)

    def __post_init__(self) -> None:
        assert self.stage.intrinsic is not None
        self.loop, self.intrin = self.stage.intrinsic
        at = self.stage.loops.index(self.loop)
        self.outside, self.inside = self.stage.loops[:at], self.stage.loops[at:]
        self.inner = frozenset(x.var for x in self.inside)

    def refuse(self, why: str, legal: str) -> LowerError:
        said = f"{self.loop.name}, {self.intrin.name}"
        asked = self.stage.schedule.earlier("tensorize", self.stage, said, self.loop.name)
        return LowerError(why, asked=asked, legal=legal)

    # -- statements ---------------------------------------------------------------------------
    def statements(self) -> tuple[Stmt, Stmt | None]:
        """The statement that computes a tile, and the one before the first reduce loop outside, if there is one.

        Raises LowerError where the tile is not what the intrinsic computes.
        """
        self._check_loops()
        base = {v: self.an.simplify(substitute(e, dict.fromkeys(self.inner, const(0)))) for v, e in self.values.items()}
        steps = self._axes()
        places = self._match(base, steps)
        output = self._output(steps)
        tiles = {self.intrin.buffers[t]: self._located(t, p) for t, p in places.items()}
        tiles[self.intrin.buffers[self.intrin.op.output_tensor]] = output
        outer = [x for x in self.outside if x.is_reduce]
        if not outer and self.stage.init is None:
            return self._placed(self.intrin.body, tiles), None
        if self.intrin.update is None:
            begins = "begins apart" if not outer else f"goes on in {outer[0].full_name}"
            raise self.refuse(
                f"the reduction {begins}, and the intrinsic has no update",
                "fcompute returns (body, reset, update); or all reduce loops inside",
            )
        update = self._placed(self.intrin.update, tiles)
        if self.stage.init is not None:
            return update, None
        if self.intrin.reset is not None:
            return update, self._placed(self.intrin.reset, tiles)
        first = logical_and(*(compare("eq", x.var, 0) for x in outer))
        return If(first, self._placed(self.intrin.body, tiles), update), None

    def _check_loops(self) -> None:
        s = self.stage.schedule
        for x in self.inside:
            for attached in (*s.attached_at(x), *s.stored_at(x)):
                raise self.refuse(f"{attached.name} is computed at {x.full_name}, inside it", "compute it further out")
        asked = next((g for g in self.guards if variables(g) & self.inner), None)
        if asked is not None:
            raise self.refuse(
                f"not all tiles are whole: elements are computed only where {asked!r}",
                "split by factors that divide the extents, or tail='round_up' of an intermediate",
            )

    def _axes(self) -> dict[IterVar, Expr]:
        """The length of each axis within a tile."""
        found: dict[IterVar, Expr] = {}
        seen: set[Expr] = set()
        for a in (*self.stage.axis, *self.stage.reduce_axis):
            p = self.an.poly(self.values[a.var])
            spans: list[tuple[int, Expr]] = []
            for x in self.inside:
                extent = self.an.simplify(self.extents[x])
                if x.var not in p.variables or is_const(extent, 1):
                    continue
                affine = p.affine_in(x.var)
                if affine is None or x.var in seen:
                    raise self.refuse(
                        f"{a.name} is {self.an.simplify(self.values[a.var])!r}, which takes {x.name} apart",
                        "split loops inside the tile, or fuse them further out",
                    )
                seen.add(x.var)
                spans.append((affine[0], extent))
            total: Expr = const(1)
            for slope, extent in sorted(spans, key=lambda s: s[0]):
                if self.an.poly(total) != self.an.poly(const(slope)):
                    raise self.refuse(
                        f"{a.name} advances by {slope} in {self.loop.name}, so a tile has gaps",
                        "tensorize the inner loop of a split",
                    )
                total = self.an.simplify(total * extent)
            found[a] = total
        return found

    # -- is it the same computation -------------------------------------------------------------
    def _match(self, base: dict[Expr, Expr], steps: dict[IterVar, Expr]) -> dict[Tensor, _Place]:
        op = self.intrin.op
        mapping: dict[Expr, Expr] = {}
        own: dict[Expr, Expr] = {}
        for mine, theirs in ((self.stage.axis, op.axis), (self.stage.reduce_axis, op.reduce_axis)):
            wide = [a for a in mine if not self._is_one(steps[a])]
            wanted = [a for a in theirs if not self._is_one(a.extent)]
            sizes, needed = ([f"{a.name}: {n!r}" for a, n in x] for x in (
                [(a, steps[a]) for a in wide], [(a, a.extent) for a in wanted]))  # fmt: skip
            same = len(wide) == len(wanted) and all(
                self.an.poly(steps[a]) == self.an.poly(b.extent) for a, b in zip(wide, wanted, strict=True)
            )
            if not same:
                kind = "reduce axes" if mine is self.stage.reduce_axis else "axes"
                raise self.refuse(
                    f"one iteration computes {kind} [{', '.join(sizes)}] and the intrinsic [{', '.join(needed)}]",
                    "split so that the loops inside are as long as the intrinsic's axes, in its order",
                )
            mapping |= {a.var: base[a.var] for a in mine}
            mapping |= {a.var: base[a.var] + b.var for a, b in zip(wide, wanted, strict=True)}
            own |= {a.var: a.min for a in theirs if a not in wanted}
        mine_all, theirs_all = substitute(self._steps_alone(), mapping), substitute(op.body[0], own)
        matcher = _Matcher(self.an, frozenset(v.var for v in (*op.axis, *op.reduce_axis)), self.intrin.scalar_params)
        if not matcher.same_value(mine_all, theirs_all):
            raise self.refuse(
                f"{self.stage.name} computes {mine_all!r}, and the intrinsic {op.body[0]!r}",
                "an intrinsic declared with the same expression, up to names and the order of operands",
            )
        self.scalars = matcher.scalars
        return matcher.places

    def _steps_alone(self) -> Expr:
        """What is computed, without first values that are set apart."""
        e = self.body
        if self.stage.init is None or e.op != "reduce":
            return e
        return make(e.op, e.dtype, e.args[: e.value.size + 1], e.value)

    def _is_one(self, extent: Expr) -> bool:
        return is_const(self.an.simplify(extent), 1)

    # -- where it lies in memory ------------------------------------------------------------------
    def _output(self, steps: dict[IterVar, Expr]) -> _Memory:
        buffer, indices = self.stored
        first = [self.an.simplify(substitute(i, dict.fromkeys(self.inner, const(0)))) for i in indices]
        wide = iter([d for d, a in enumerate(self.stage.axis) if not self._is_one(steps[a])])
        dimensions = [None if self._is_one(a.extent) else next(wide) for a in self.intrin.op.axis]
        return self._in_memory(self.intrin.op.output_tensor, buffer, first, dimensions)

    def _located(self, t: Tensor, p: _Place) -> _Memory:
        found = self.memory(make("read", p.tensor.dtype, tuple(p.start), p.tensor))
        return self._in_memory(t, found.value, [self.an.simplify(i) for i in found.args], p.dimensions)

    def _in_memory(self, t: Tensor, buffer: Buffer, first: list[Expr], dimensions: list[int | None]) -> _Memory:
        apart = list(buffer.strides) or row_major(buffer.shape, self.an.simplify)
        offset: Expr = const(0)
        for i, step in zip(first, apart, strict=True):
            offset = offset + i * step
        strides = [None if d is None else apart[d] for d in dimensions]
        declared = self.intrin.buffers[t]
        for d, (wanted, real) in enumerate(zip(declared.strides or row_major(declared.shape), strides, strict=True)):
            if real is not None and wanted.op != "var" and self.an.poly(wanted) != self.an.poly(real):
                raise self.refuse(
                    f"elements of {buffer.name} along dimension {d} of the tile lie {real!r} apart, and the intrinsic "
                    f"takes {declared.name} to have them {wanted!r} apart",
                    "a buffer with a variable as its stride there (binds=), or a packed copy: cache_read",
                )
        return _Memory(buffer, first, self.an.simplify(offset), dimensions, strides)

    def _placed(self, s: Stmt, tiles: dict[Buffer, _Memory]) -> Stmt:
        """The intrinsic's statement on the memory of this tile."""
        numbers = dict(self.scalars)
        for declared, tile in tiles.items():
            for wanted, real in zip(declared.strides or row_major(declared.shape), tile.strides, strict=True):
                if wanted.op == "var":
                    numbers[wanted] = const(1) if real is None else real

        def in_tile(b: Buffer, indices: tuple[Expr, ...], what: str) -> Place | None:
            tile = tiles.get(b)
            if tile is None:
                return None
            if what == "view" or len(indices) != len(tile.dimensions):  # an offset in memory
                return tile.buffer, (tile.offset + indices[0], *indices[1:])
            at = list(tile.first)
            for d, i in zip(tile.dimensions, indices, strict=True):
                if d is not None:
                    at[d] = at[d] + i
            return tile.buffer, tuple(at)

        return map_accesses(substitute_stmt(s, numbers), in_tile)


class _Matcher:
    """Compares a stage's expression with an intrinsic's, and records the tensors and scalars that correspond."""

    def __init__(self, an: Analyzer, axes: frozenset[Expr], scalars: tuple[Expr, ...]) -> None:
        self.an, self.axes, self.parameters = an, axes, scalars
        self.places: dict[Tensor, _Place] = {}
        self.scalars: dict[Expr, Expr] = {}

    def same_value(self, a: Expr, b: Expr) -> bool:
        if any(b is p for p in self.parameters):  # `in` would ask for equal values: float32(v) == v
            known = self.scalars.setdefault(b, a)
            return known is a and not variables(a) & self.axes
        if b.op == "read":
            return self._same_read(a, b)
        if is_index(a) and is_index(b) and a.dtype.is_integer and b.dtype.is_integer:
            return a.dtype == b.dtype and self.an.poly(a) == self.an.poly(b)
        if a.op != b.op or a.dtype != b.dtype or len(a.args) != len(b.args) or not _same_kind(a, b):
            return False
        if not a.args:
            return a is b
        before = dict(self.places), dict(self.scalars)
        if all(self.same_value(x, y) for x, y in zip(a.args, b.args, strict=True)):
            return True
        if a.op not in _COMMUTE:
            return False
        self.places, self.scalars = before
        return all(self.same_value(x, y) for x, y in zip(a.args[::-1], b.args, strict=True))

    def _same_read(self, a: Expr, b: Expr) -> bool:
        if a.op != "read" or a.dtype != b.dtype:
            return False
        start = list(a.args)
        dimensions: list[int | None] = []
        free = list(range(len(start)))
        for index in b.args:
            if not variables(index) & self.axes:
                dimensions.append(None)
                if self.an.poly(index).constant != 0:
                    return False
                continue
            fits = (d for d in free if not (self.an.poly(start[d]) - self.an.poly(index)).variables & self.axes)
            d = next(fits, -1)
            if d < 0 or not variables(start[d]) & self.axes:
                return False
            free.remove(d)
            start[d] = (self.an.poly(start[d]) - self.an.poly(index)).expr()
            dimensions.append(d)
        if any(variables(i) & self.axes for i in start):
            return False
        known = self.places.setdefault(b.value, _Place(a.value, start, dimensions))
        return (
            known.tensor is a.value
            and known.dimensions == dimensions
            and all(self.an.poly(x) == self.an.poly(y) for x, y in zip(known.start, start, strict=True))
        )


def _same_kind(a: Expr, b: Expr) -> bool:
    """Return whether the parts that are no arguments agree: a number, a combiner, a function."""
    if a.op in REDUCTIONS:
        return a.op == "reduce" and _same_combiner(a, b)
    if a.op in ("read", "cast", "broadcast"):  # the last two keep their operand, which is compared as an argument
        return True
    return a.value is b.value or a.value == b.value


def _same_combiner(a: Expr, b: Expr) -> bool:
    """Return whether two reductions have the same combiner and identity, by name or by formula."""
    if a.value.size != b.value.size or a.value.value_index != b.value.value_index:
        return False
    dtypes = [e.dtype for e in a.value.parts(a.args)[0]]
    if dtypes != [e.dtype for e in b.value.parts(b.args)[0]]:
        return False
    left, right = ([var(name, of) for of in dtypes] for name in ("left", "right"))
    pairs = [
        *zip(a.value.combine(left, right), b.value.combine(left, right), strict=True),
        *zip(a.value.identity(dtypes), b.value.identity(dtypes), strict=True),
    ]
    return all(x is y for x, y in pairs)
