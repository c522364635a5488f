"""Rules for contractions: results that share what they are made of are computed in tiles.

multi_level_tiling      for i: for j: for k:           parallel for i0, j0:             S   tasks
                          C[i,j] += A[i,k]*B[k,j]  ->    for i1, j1:                     S   tiles of a task
                                                           for k0:                       R
                                                             (for i2:)                   S   where k is cut, too
                                                               for k1:                   R
                                                                 unroll i3, vectors j3:  S   sums in registers
                                                                   T[i3, j3] += A[..] * B[..]
                                                           C[tile] = T[tile]

fuse_epilogue           C[i,j] = max(T[i,j] + bias[j], 0): what is done with finished sums is done where a
                        tile is stored, and the stage that does it is the one that is cut into tasks and tiles.

Operands may be packed: B[k, j] -> P[j // 32, k, j % 32], so that a tile reads consecutive addresses, and
what is beyond the end is zeros, over which whole tiles run. Of 8-bit integers whose products are summed up in 32 bits,
P[j // 32, k // 4, j % 32, k % 4] has four steps side by side, which instructions add up at once; of bfloat16, two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autosched.ir.expr import floordiv, is_const
from autosched.ir.visit import post_order, reads
from autosched.schedule.primitives.new_stages import BYTES, factors_of_parts
from autosched.schedule.stage import Loop, Stage
from autosched.space import analysis
from autosched.space.analysis import Access, divisors, lanes, length, powers, tiles
from autosched.space.rules.engine import Plan, fuse_all, rule
from autosched.te.tensor import IterVar, Tensor

#: Rows of a tile of sums, and vectors in each.
ROWS, VECTORS = (1, 2, 3, 4, 6, 7, 8, 12, 14, 28), (1, 2, 3, 4)
#: Fewer sums than this leave multipliers waiting for each other, where there are more to be had.
FEW_SUMS = 6
#: Reduce loops this short are written out, all together or not at all.
SHORT = 7
#: A reduction this long may be cut, so that what a task reads of the operands stays in the cache.
LONG = 512
#: A reduction this long may be the inner loop where a longer one could be, if operands are read in the order of memory.
LONG_ENOUGH = 32
#: An operand is packed only if this many tiles read it.
MANY = 4


def contraction_below(plan: Plan, stage: Stage) -> Stage | None:
    """The contraction that an element-wise stage does something with, perhaps through others like it."""
    axes = [a.var for a in stage.axis]
    at_own: dict[Tensor, bool] = {}
    for e in post_order(stage.body):
        if e.op == "read":
            is_own = len(e.args) == len(axes) and all(i is v for i, v in zip(e.args, axes, strict=True))
            at_own[e.value] = at_own.get(e.value, True) and is_own
    for tensor, is_own in at_own.items():
        source = plan.s.stage(tensor)
        if not is_own or source in plan.done or source.is_output or len(plan.s.consumers(source)) != 1:
            continue
        if analysis.is_contraction(source):
            return source if has_tiles(plan, source) else None
        if source.is_injective and analysis.uses_each_once(source) and not analysis.is_opaque(source):
            found = contraction_below(plan, source)
            if found is not None:
                return found
    return None


def has_tiles(plan: Plan, stage: Stage) -> bool:
    """Whether sums are made in tiles that an epilogue may be done in: windows are none for kernels."""
    return analysis.is_contraction(stage) and (plan.target.is_cpu or not analysis.is_window(stage))


def _is_epilogue(plan: Plan, stage: Stage) -> bool:
    return stage.is_injective and not analysis.is_opaque(stage) and contraction_below(plan, stage) is not None


@rule(when=_is_epilogue)
def fuse_epilogue(plan: Plan, stage: Stage) -> None:
    """What is done with finished sums, element by element, is done while they are in registers.

    T[i, j] = sums;  C[i, j] = max(T[i, j], 0)   ->   for each tile: T[0:4, 0:32] = sums;  C[tile] = max(T, 0)
    """
    below = contraction_below(plan, stage)
    assert below is not None
    plan.hosts[below] = stage


@dataclass(frozen=True)
class _Register:
    """The two axes of a tile of sums: vectors run along one, and the other says which vector."""

    vector: IterVar
    row: IterVar

    @property
    def name(self) -> str:
        return f"{self.row.name}_{self.vector.name}"


def _registers(stage: Stage) -> list[_Register]:
    """Shapes for a tile of sums: for each axis that vectors can run along, the best rows."""
    reads = analysis.accesses(stage)
    axes = analysis.long_axes(stage)
    found = []
    for vector in reversed(axes):
        if not all(
            not any(a.steps(vector))
            or a.is_contiguous(vector)
            or (can_pack(stage, a, vector) and _many_read(stage.axis, a))
            for a in reads
        ):
            continue
        found.append(_Register(vector, best_rows(stage, vector)))
        if vector is axes[-1] and all(not a.mentions(vector) or a.dimension(vector) is not None for a in reads):
            break  # nothing is shifted along rows: no other axis is better
    return found or [_Register(axes[-1], axes[-2])]


def best_rows(stage: Stage, vector: IterVar) -> IterVar:
    """The axis along which the rows of a tile follow each other: that which saves most loads, the innermost first."""
    reads = analysis.accesses(stage)
    rows = [a for a in reversed(analysis.long_axes(stage)) if a is not vector]
    return max(rows, key=lambda r: gain(reads, vector, r))


def gain(reads: list[Access], vector: IterVar, row: IterVar) -> int:
    """Loads that a tile saves: of vectors for further rows, of single elements for further vectors, and of what
    the windows of neighbouring rows share."""
    vectors = sum(a.mentions(vector) and not a.mentions(row) for a in reads)
    elements = sum(a.mentions(row) and not a.mentions(vector) for a in reads)
    windows = sum(a.mentions(row) and a.mentions(vector) and a.dimension(row) is None for a in reads)
    return vectors + elements + windows


def can_pack(stage: Stage, a: Access, axis: IterVar) -> bool:
    """Whether a copy of an operand, in another order along an axis of the result, may take its place."""
    source, reader = stage.schedule.stage(a.tensor), _reader(stage, a)
    if reader is None:
        return False
    found = [e.args for e in post_order(reader.body) if e.op == "read" and e.value is a.tensor]
    same = sum(b.tensor is a.tensor for b in analysis.accesses(stage))
    several = same == len(found) and a.indices in found and not factors_of_parts(stage)
    direct = (same == 1 and bool(found)) or several
    return direct and a.dimension(axis) is not None and (source.is_placeholder or not source.is_output)


def _reader(stage: Stage, a: Access) -> Stage | None:
    """The stage whose body has a read of a contraction: itself, or one that is inlined there; None where several do."""
    readers = stage.schedule.consumers(stage.schedule.stage(a.tensor))
    found = [x for x in readers if x is stage or (x.attach.kind == "inline" and stage in analysis.readers(x))]
    return found[0] if len(found) == 1 else None


def _many_read(axes: Sequence[IterVar], a: Access) -> bool:
    """Whether the operand is read for many tiles: else packing costs more than it saves."""
    return not analysis.has_fewer((axis for axis in axes if not a.mentions(axis)), MANY * FEW_SUMS)


@rule(when=lambda plan, stage: analysis.is_contraction(stage))
def multi_level_tiling(plan: Plan, stage: Stage) -> None:
    """Tiles of sums in registers, tiles of those for caches, and tasks for threads.

    for i, j, k: C[i, j] += A[i, k] * B[k, j]   ->   parallel for i0, j0: for i1, j1: (for k: T[0:4, 0:32] += ..)  C = T
    """
    _Tiling(plan, stage).apply()


class _Tiling:
    """One contraction: `host` is the stage that finished tiles are stored to, `sums` the one that adds up."""

    def __init__(self, plan: Plan, stage: Stage) -> None:
        self.plan, self.s, self.stage = plan, plan.s, stage
        found = {r.name: r for r in _registers(stage)}
        self.register = found[plan.choose(stage, "tile", list(found))]
        self.vector, self.row = (stage.axis.index(a) for a in (self.register.vector, self.register.row))
        self.reads = analysis.accesses(stage)
        self.axis = stage.axis  # which `cache_write` replaces
        depths = [length(a) or LONG for a in stage.reduce_axis]
        inner = max(range(len(depths)), key=lambda i: (*self._walks_on(i, depths), -i))
        self.depth = depths[inner]
        self.long = inner if self.depth > SHORT else None  #: the reduce axis that stays the inner loop
        self.reduce_axis = stage.reduce_axis[inner]
        self.packs = [(a, axis) for a in self.reads if (axis := self._packed_along(a)) is not None]
        self.parts = self._adds_parts()  #: products that are added up at a time, or 0
        self.places = list(reads(stage.body[0]))  #: not packed so far, in their order
        self.blocked = False

    def apply(self) -> None:
        """Sizes, storage, loops of the host, loops of the sums, operands."""
        self._sizes()
        self._separate()
        self._host_loops()
        self._sum_loops()
        self._operands()

    def knob(self, what: str, values: object) -> object:
        return self.plan.knob(self.stage, what, values)  # type: ignore[arg-type]

    def _walks_on(self, i: int, depths: Sequence[int]) -> tuple[int, int]:
        """How good the i-th reduce axis is as the inner loop: of a long one, operands that it walks through in steps of
        one element; and its length."""
        is_long = depths[i] >= min(LONG_ENOUGH, max(depths))
        return is_long * (1 + sum(a.is_contiguous(self.stage.reduce_axis[i]) for a in self.reads)), depths[i]

    def _adds_parts(self) -> int:
        """How many products are added at a time, four of bytes or two of bfloat16; 0 where they are added one by one.
        One operand, packed, has them side by side for each lane, and those that follow each other in the other one are
        for all lanes."""
        factors = [Access(e.value, e.args) for e in factors_of_parts(self.stage)]
        target = self.plan.target
        if not factors or self.long is None or target.kind != "llvm":
            return 0
        parts = 32 // factors[0].tensor.dtype.bits
        if parts == 2 and (target.strict or not target.limits.get("bfloat_pairs")):
            return 0
        k, vector = self.reduce_axis, self.register.vector
        if any(a.dimension(k) is None for a in factors) or analysis.has_fewer([vector], 4):
            return 0
        packed = [a for a, axis in self.packs if axis is vector]
        known = [a for a in factors if not a.mentions(vector)]
        near = [a for a in known if a.is_contiguous(k) or any(a.tensor is b.tensor for b, _ in self.packs)]
        return parts if len(packed) == len(near) == 1 else 0

    def _sizes(self) -> None:
        """Knobs for the size of a tile of sums."""
        stage, machine = self.stage, self.plan.machine
        n = length(self.register.row)
        rows = [r for r in ROWS if n is None or r <= n] or [1]
        whole = max(1, machine.vector_bytes // stage.tensor.dtype.bytes)
        widths = lanes(machine, stage.tensor.dtype, self.register.vector)
        if self.parts:
            widths = [w for w in widths if w % 4 == 0]
        if self._tail(self.register.vector) != "guard":  # nothing is filled up: lines that the length divides into
            # registers that are filled in part spill, and other languages than LLVM's have no vectors of 7 lanes
            has_any = self.plan.target.kind == "llvm"
            fits = divisors(self.register.vector, whole // 2, 4 * whole)
            widths += [w for w in fits if (has_any and w <= whole) or w % whole == 0]
        self.lanes = self.knob("lanes", widths)
        self.vectors = self.knob("vectors", VECTORS)
        self.rows = self.knob("rows", rows)
        vectors = self.vectors
        if max(widths) > whole:
            vectors = vectors * floordiv(self.lanes + (whole - 1), whole)  # type: ignore[operator]
        sums = self.rows * vectors  # type: ignore[operator]
        if not is_const(sums):
            self.s.constrain(sums + vectors + 1 <= machine.registers, "the sums of a tile do not fit into registers")
            if n is None or n * VECTORS[-1] >= 2 * FEW_SUMS:
                self.s.constrain(sums >= FEW_SUMS, "too few sums to keep the multipliers busy")
        self.width = self.vectors * self.lanes  # type: ignore[operator]

    def _separate(self) -> None:
        """The sums in storage of their own, with neighbouring lanes of a vector next to each other."""
        stage = self.stage
        host = self.plan.hosts.get(stage)
        natural = self.vector == len(stage.axis) - 1
        if not natural:
            rest = [a for i, a in enumerate(stage.axis) if i != self.vector]
            stage.reorder(*rest, stage.axis[self.vector])
            self.order = [i for i in range(len(stage.axis)) if i != self.vector] + [self.vector]
        else:
            self.order = list(range(len(stage.axis)))
        if host is None or not natural:
            self.sums = self.s[self.s.cache_write(stage.tensor, "local")]
            self.plan.done[self.sums] = "cache_write"
            if host is None:
                self.host = stage
                return
            stage.compute_inline()
        else:
            self.sums = stage
            stage.set_scope("local")
        self.host = host

    def _host_loops(self) -> None:
        """Tasks, tiles in a task, and the elements of a tile."""
        host, plan = self.host, self.plan
        outer, middle, row, column = self._cut_axes()
        inside = plan.choose(self.stage, "inside", ["rows", "vectors"])
        order = ("line", "vector", "row") if inside == "rows" else ("line", "row", "vector")
        walked = [middle[x] for x in order if x in middle]
        vector, lane = host.split(column, factor=self.lanes)
        transposed = (
            self.row == len(host.axis) - 1
        )  # neighbours in memory are rows: sums are transposed on their way out
        body = [vector, lane, row] if transposed else [row, vector, lane]
        host.reorder(*outer, *walked, *body)
        task = fuse_all(host, outer)
        host.parallel(task)
        *written, last = body
        if self.blocked and last is not row:
            host.split(row, factor=self.rows)
            written = [x for x in host.loops[-3:] if x is not last]
        for x in written:
            host.unroll(x)
        host.vectorize(last)
        self.sums.compute_at(host, walked[-1])
        plan.offer(host, task=task, tile=walked[-1])

    def _cut_axes(self) -> tuple[list[Loop], dict[str, Loop], Loop, Loop]:
        """The loops of the host that tasks are made of, those over the tiles of a task, and the rows and columns of
        a tile. Of the axes that a tile does not have, the innermost is cut, too."""
        host, axes = self.host, list(self.host.axis)
        panel, column = host.split(axes[self.vector], factor=self.width, tail=self._tail(self.register.vector))
        rows = self.rows
        may_block = self.depth >= LONG  # then cutting the reduction, too, may pay
        self.blocked = may_block and self.plan.choose(self.stage, "levels", ["SSRRS", "SSRSRS"]) == "SSRSRS"
        if self.blocked:
            rows = self.rows * self.knob("inner", powers(2, 16))  # type: ignore[operator]
        tile, row = host.split(axes[self.row], factor=rows, tail=self._tail(self.register.row))
        cut: dict[int, tuple[str, Any, Any]] = {
            self.row: ("row", tile, self.knob("tiles", powers(1, 64))),
            self.vector: ("vector", panel, self.knob("panels", (1, 2, 4, 8, 16))),
        }
        others = [i for i, a in enumerate(axes) if i not in cut and length(a) != 1]
        if others:
            cut[others[-1]] = ("line", axes[others[-1]], self.knob("lines", tiles(axes[others[-1]])))
        outer: list[Loop] = []
        middle: dict[str, Loop] = {}
        for i, axis in enumerate(axes):
            if i in cut:
                name, loop, factor = cut[i]
                blocks, middle[name] = host.split(loop, factor=factor)
                outer.append(blocks)
            else:
                outer.append(host.roots[axis])
        return outer, middle, row, column

    def _tail(self, axis: IterVar) -> str:
        """Whole tiles where every operand can be filled up; else the last tile moves back to end at the edge."""
        exact = all(not a.mentions(axis) or a.dimension(axis) is not None for a in self.reads)
        return "guard" if exact else "shift_inwards"

    def _sum_loops(self) -> None:
        """Reduce loops around the sums of a tile, which are written out."""
        sums = self.sums
        axes = list(sums.axis)
        vector_axis, row_axis = axes[self.order.index(self.vector)], axes[self.order.index(self.row)]
        vector, lane = sums.split(vector_axis, factor=self.lanes)
        others = [sums.roots[a] for a in axes if a is not vector_axis and a is not row_axis]
        long = None if self.long is None else sums.reduce_axis[self.long]
        short = [a for a in sums.reduce_axis if a is not long and (length(a) or SHORT + 1) <= SHORT]
        slow = [a for a in sums.reduce_axis if a is not long and a not in short]
        written: list[Loop] = []
        steps: list[Loop] = []
        reduce: list[Loop] = []
        row: Loop = sums.roots[row_axis]
        four: list[Loop] = []
        if self.blocked:
            block, k = sums.split(long, factor=self.knob("depth", powers(64, 512)))
            if self.parts:
                k, *four = sums.split(k, factor=self.parts)
            k, *steps = sums.split(k, factor=self.knob("steps", (1, 2, 4)))
            tile, row = sums.split(row, factor=self.rows)
            reduce = [*(sums.roots[a] for a in slow), block, *others, tile, k]
            others = []
        elif long is not None:
            k = long  # type: ignore[assignment]
            if self.parts:
                k, *four = sums.split(k, factor=self.parts)
            k, *steps = sums.split(k, factor=self.knob("steps", (1, 2, 4)))
            reduce = [*(sums.roots[a] for a in slow), k]
        window = [sums.roots[a] for a in short]
        if window:
            ways = ["loops", "one loop", "written out"] if len(window) > 1 else ["loops", "written out"]
            way = self.plan.choose(self.stage, "window", ways)
            written = {"loops": [], "one loop": window[-1:], "written out": window}[way]
        loops = [x for x in window if x not in written]
        sums.reorder(*reduce, *loops, *written, *steps, *others, row, vector, lane, *four)
        for x in (*written, *steps, row, vector):
            sums.unroll(x)
        for x in (lane, *four):
            sums.vectorize(x)

    def _packed_along(self, a: Access) -> IterVar | None:
        """The axis whose blocks an operand may be cut into, so that a tile reads it in one go."""
        axis = self.register.vector if a.mentions(self.register.vector) else self.register.row
        fits = can_pack(self.stage, a, axis) and _many_read(self.axis, a)
        return axis if fits else None

    def _operands(self) -> None:
        """Copies of operands in the order in which tiles read them."""
        for a, axis in self.packs:
            natural = a.is_contiguous(axis)
            if axis is self.register.row:
                ways = [False, True]
                if self.parts and not a.is_contiguous(self.reduce_axis):
                    ways = [True]
            else:
                ways = [True, False] if natural and not self.parts else [True]
            places = [e.args for e in self.places if e.value is a.tensor]
            which = f"_{places.index(a.indices)}" if len(places) > 1 else ""
            if self.plan.choose(self.stage, f"pack_{a.tensor.name}{which}", ways):
                if axis is self.register.row and self._is_cast(a):
                    self._widen(a)
                else:
                    self._pack(a, axis, self.width if axis is self.register.vector else self.rows, natural)

    def _is_cast(self, a: Access) -> bool:
        """Whether elements are floating-point numbers that become longer ones before anything is done with them: a copy
        is of those, so that each is converted once."""
        reader = _reader(self.sums, a)
        if self.parts or reader is None:
            return False
        found = [e for e in post_order(reader.body) if any(x.op == "read" and x.value is a.tensor for x in e.args)]
        return bool(found) and all(
            e.op == "cast" and e.args[0].dtype.is_float and e.dtype.is_float and e.dtype.bytes > e.args[0].dtype.bytes
            for e in found
        )

    def _widen(self, a: Access) -> None:
        """A copy of an operand in its own layout, of the type that products are made in."""
        wide = self.s[self.s.cache_read(a.tensor, "global", [_reader(self.sums, a) or self.sums], cast=True)]
        self.plan.done[wide] = "pack"
        *outer, last = (wide.roots[x] for x in wide.axis)
        block, lane = wide.split(last, factor=self.plan.machine.vector_bytes // wide.tensor.dtype.bytes)
        wide.vectorize(lane)
        wide.parallel(fuse_all(wide, outer) if outer else block)

    def _with_other_sign(self, a: Access) -> Access:
        """The operand with the sign that instructions want which multiply unsigned by signed bytes."""
        signs = {e.dtype for e in factors_of_parts(self.sums, *BYTES)}
        if len(signs) != 1 or not self.plan.target.limits.get("mixed_bytes"):
            return a
        turned, begin = map(self.s.stage, self.s.offset_bytes(self.sums.tensor, a.tensor))
        turned.compute_inline()
        self.plan.done[turned] = self.plan.done[begin] = "offset_bytes"
        (read,) = analysis.accesses(begin)
        along = next((x for x in (*begin.reduce_axis, *begin.axis) if read.is_contiguous(x)), begin.reduce_axis[0])
        block, lane = begin.split(along, factor=self.plan.machine.vector_bytes)
        tasks, steps = ([block if x is along else begin.roots[x] for x in of] for of in (begin.axis, begin.reduce_axis))
        begin.reorder(*tasks, *steps, lane)
        begin.vectorize(lane)
        if tasks:
            begin.parallel(fuse_all(begin, tasks))
        return Access(turned.tensor, a.indices)

    def _pack(self, a: Access, axis: IterVar, block: object, natural: bool) -> None:
        if self.parts and axis is self.register.vector:
            a = self._with_other_sign(a)
        s, d = self.s, a.dimension(axis)
        assert d is not None
        left = [e.args for e in self.places if e.value is a.tensor]
        only = left.index(a.indices) if len(left) > 1 else None
        reader = _reader(self.sums, a) or self.sums
        copy = s.cache_read(a.tensor, "global", [reader], only=only, cast=self._is_cast(a))
        self.places = [e for e in self.places if e.value is not a.tensor or e.args != a.indices]
        packing = s[copy]
        axes = list(packing.op.axis)  # type: ignore[attr-defined]
        spatial = {i for i, index in enumerate(a.indices) if any(index is x.var for x in self.axis)} - {d}
        leading = [x for i, x in enumerate(axes) if i in spatial]
        kept = [x for i, x in enumerate(axes) if i != d and i not in spatial]
        panel, element = packing.split(axes[d], factor=block)
        four: list[Loop] = []
        if self.parts:
            step = axes[next(i for i, index in enumerate(a.indices) if index is self.reduce_axis.var)]
            kept[kept.index(step)], *four = packing.split(step, factor=self.parts)
        packing.reorder(*leading, panel, *kept, element, *four)
        panels = s[s.cache_write(copy, "global")]
        packing.compute_inline()
        self.plan.done[packing] = self.plan.done[panels] = "pack"
        loops = list(panels.op.axis)  # type: ignore[attr-defined]
        four = [loops.pop() for _ in four]
        *outer, element = loops
        count = len(leading) + 1
        tasks, kept = outer[:count], outer[count:]
        if natural:
            vector, lane = panels.split(element, factor=self.lanes)
            panels.reorder(vector, *four, lane)
            panels.vectorize(lane)
            for x in four:
                panels.unroll(x)
        elif four:
            panels.vectorize(four[0])
        elif axis is self.register.vector and kept:
            k = fuse_all(panels, kept)
            row, column = panels.split(k, factor=self.lanes)
            vector, lane = panels.split(element, factor=self.lanes)
            panels.reorder(*tasks, vector, row, column, lane)
            # a square of lanes, turned in registers by LLVM's code; of bytes, PoCL compiles its 4096 loads for minutes
            if not self.plan.target.is_gpu_style or a.tensor.dtype.bytes >= 4:
                panels.unroll(column)
            panels.vectorize(lane)
        else:
            panels.unroll(element)
        panels.parallel(fuse_all(panels, tasks))
