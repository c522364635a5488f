"""From realized stages to loops: the nest of each stage, its producers inside, its conditions.

for y.outer:                       a leaf loop
  if y.outer*8 + y.inner < H:      a condition, as far out as its variables allow
    allocate A; produce A          what is computed at this loop
    ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.errors import LowerError
from autosched.ir import expr as E
from autosched.ir.expr import Expr
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import (
    THREAD_TAGS,
    VTHREAD,
    Allocate,
    Buffer,
    For,
    If,
    Produce,
    Stmt,
    Store,
    load,
    seq,
    substitute_stmt,
)
from autosched.ir.visit import rewrite, substitute
from autosched.lowering.alongside import side_by_side
from autosched.lowering.arguments import Binds
from autosched.lowering.bounds import Realization, Storage, conditions
from autosched.lowering.double_buffer import in_turns
from autosched.lowering.extern import opaque_nest
from autosched.lowering.gpu import BY_HOST, GroupReduction, ThreadLoop
from autosched.lowering.round_up import check_overlap
from autosched.lowering.scan import check_private_state, is_stepped_by_host
from autosched.lowering.stores import at_once, chosen_inside, fetching, stores_to
from autosched.lowering.tensorize import Tile
from autosched.lowering.versions import inside_threads, named, specialized
from autosched.schedule.primitives.loops import predicated
from autosched.schedule.primitives.storage import doubled_at
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Loop, Stage
from autosched.target import Target
from autosched.te.extern import ExternOp
from autosched.te.reducers import in_rising_order
from autosched.te.reduction import REDUCTIONS, Reduction
from autosched.te.scan import ScanOp
from autosched.te.tensor import Tensor


class _Builder:
    def __init__(
        self,
        s: Schedule,
        real: dict[Stage, Realization],
        target: Target,
        an: Analyzer,
        passed: frozenset[Tensor],
        binds: Binds,
    ) -> None:
        self.s, self.real, self.target, self.an, self.passed, self.binds = s, real, target, an, passed, binds
        self.buffers: dict[Tensor, Buffer] = {}
        self.by_host: set[Loop] = set()  #: loops over time whose steps are kernels
        self.names: dict[Expr, Expr] = {}
        #: loops an iteration of which has the storage of stages that are computed further inside
        self.kept: dict[Loop, list[Stage]] = {}
        for x in s.stages:
            if (loop := x.store.loop) is not None and x.attach.loop is not loop:
                self.kept.setdefault(loop, []).append(x)

    # -- buffers --------------------------------------------------------------------------------
    def buffer(self, tensor: Tensor) -> Buffer:
        tensor = self.s.scans.storage.get(tensor, tensor)
        found = self.buffers.get(tensor)
        if found is None:
            stage = self.s.stage(tensor)
            real = self.real.get(stage)
            shape = tensor.shape if real is None or tensor in self.passed else tuple(real.window(tensor).extent)
            shape = tuple(self.an.simplify(d) for d in shape)
            given = tensor.name != f"{stage.op.name}.v{tensor.value_index}"  # as `compute_together` does
            several = tensor.name if given else f"{stage.name}.v{tensor.value_index}"
            name = stage.name if stage.op.num_outputs == 1 else several
            scope, strides = self.scope(stage), self.padded(stage, shape)
            if tensor in self.passed:  # memory of the caller's, in the caller's layout
                scope, strides = "global", ()
            plain = Buffer(name, shape, tensor.dtype, scope, strides)
            found = self.buffers[tensor] = self.binds.laid_out(tensor, plain)
        return found

    def inputs(self) -> frozenset[Buffer]:
        """The buffers of inputs that are read so far."""
        return frozenset(b for t, b in self.buffers.items() if self.s.stage(t).is_placeholder)

    def window(self, tensor: Tensor) -> Storage:
        """The elements that the tensor's buffer has room for."""
        tensor = self.s.scans.storage.get(tensor, tensor)
        real = self.real.get(self.s.stage(tensor))
        return real.window(tensor) if real is not None else Storage.of(tensor)

    def padded(self, stage: Stage, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The strides by `storage_align`; none if rows lie close together."""
        if not stage.alignments:
            return ()
        strides: list[Expr] = []
        step: Expr = E.const(1)
        for axis, extent in zip(reversed(stage.axis), reversed(shape), strict=True):
            factor, offset = stage.alignments.get(axis, (E.const(1), E.const(0)))
            step = self.an.simplify(step + E.floormod(factor + offset - E.floormod(step, factor), factor))
            strides.insert(0, step)
            step = step * extent
        return tuple(strides)

    def scope(self, stage: Stage) -> str:
        """The scope given, or the default on GPU-style targets, which follows from the attach point."""
        stage = self.s.stage(self.s.scans.storage.get(stage.tensor, stage.tensor))
        if not self.target.is_gpu_style:
            return stage.scope
        if self.target.is_cpu and stage.attach.kind != "at":
            return "global"  # other kernels read it
        if stage.attach.kind != "at":
            if stage.scope != "global":
                raise LowerError(
                    f"{stage.name} is computed at the root, by a kernel of its own, and other kernels read it",
                    asked=f"{stage.scope} storage for {stage.name}",
                    legal=f"compute_at a loop of what reads {stage.name}, or set_scope('global')",
                )
            return stage.scope
        if not stage.scope_given:
            tags = [t for t in threads_around(stage) if not (t == VTHREAD and self.target.is_cpu)]
            if any(t.startswith("threadIdx") for t in tags):
                return "local"
            scope = "shared" if tags else "global"
        else:
            scope = stage.scope
        if scope == "shared" and stage.store.loop not in (None, stage.attach.loop):
            raise LowerError(
                f"{stage.name} is shared by the work-items of a group, which would have to meet between any two "
                "iterations that share its storage",
                asked=stage.schedule.earlier("store_at", stage, repr(stage.store.loop)),
                legal="set_scope('local'), or leave store_at out",
            )
        return scope

    def reads(self, e: Expr) -> Expr:
        """Reads of tensors become loads from where their buffers keep the elements."""

        def loads(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
            if e.op != "read":
                return None
            return load(self.buffer(e.value), *self.window(e.value).place([E.const(0)] * len(args), args))

        return rewrite(e, loads)

    # -- one stage ------------------------------------------------------------------------------
    def produce(self, stage: Stage) -> Stmt:
        """The loops of a stage, in a version for each of its special cases."""
        if not stage.special_cases:
            return self._produce(stage)
        nest = self._produce(stage)
        if self.target.is_gpu_style:  # no other kernels are launched: all work-items of one choose alike
            return inside_threads(nest, lambda body: specialized(body, stage.special_cases, self.names))
        return specialized(nest, stage.special_cases, self.names)

    def _produce(self, stage: Stage) -> Stmt:
        real = self.real[stage]
        if isinstance(stage.op, ExternOp):
            return opaque_nest(stage, real.body, self.buffer, self.an)
        slide = real.slide
        if slide is None:
            nest = _Nest(self, stage, real) if stage.scan_loop is None else _ScanNest(self, stage, real)
            return Produce(stage.name, nest.build())
        warm_up, steady = (_Nest(self, stage, real, part).build() for part in (slide.warm_up, slide.steady))
        zero = {v: E.const(0, v.dtype) for v in slide.loops}
        first = E.logical_and(*(E.compare("eq", v, zero[v]) for v in slide.loops))
        return seq(If(first, Produce(stage.name, substitute_stmt(warm_up, zero))), Produce(stage.name, steady))

    def allocated(self, stage: Stage, body: Stmt) -> Stmt:
        """`body` inside the allocations of this stage's tensors, but for arguments and parts of scans."""
        for tensor in reversed(stage.op.outputs):
            if tensor not in self.passed and tensor not in self.s.scans.storage:
                body = Allocate(self.buffer(tensor), body)
        return body

    def with_attached(self, loop: Loop, inner: Stmt) -> Stmt:
        """`inner` after the producers computed at this loop, inside the allocations that belong to an iteration."""
        ahead = doubled_at(self.s, loop)
        for stage in reversed([x for x in self.s.attached_at(loop) if x not in ahead]):
            inner = seq(self.produce(stage), inner)
            if stage.store.loop in (None, loop):
                inner = self.allocated(stage, inner)
        for stage in self.kept.get(loop, ()):
            inner = self.allocated(stage, inner)
        return inner

    def closed(self, loop: Loop, span: tuple[Expr, Expr], body: Stmt, guards: list[Expr]) -> Stmt:
        """The loop around its body. Double-buffered stages are computed one iteration ahead, under the same guards."""
        masked = loop.kind == "vectorize" and loop in predicated(loop.stage)
        pragmas = (*loop.pragmas, BY_HOST) if loop in self.by_host else loop.pragmas
        made = For(loop.var, *span, loop.kind, body, loop.thread, pragmas=pragmas, masked=masked)
        ahead = doubled_at(self.s, loop)
        if not ahead:
            return made
        buffers = [self.buffer(t) for stage in ahead for t in stage.op.outputs]
        return in_turns(made, _guarded(guards, seq(*map(self.produce, ahead))), buffers)


class _Nest:
    """The loops of one stage, or of a part of its region: first offset and length along the sliding dimension."""

    def __init__(
        self, builder: _Builder, stage: Stage, real: Realization, part: tuple[Expr, Expr] | None = None
    ) -> None:
        self.b, self.stage, self.real = builder, stage, real
        self.set_only = stage.scatter_loops
        self.leaves = [x for x in stage.loops if x not in self.set_only]
        self.guards = conditions(real, builder.an)  # fewer than before: it is known which guards hold around
        self.spans = {loop: (E.const(0), real.extents[loop]) for loop in stage.loops}
        if part is not None:
            self._restrict(*part)
        self.taking_part = list(self.guards)  #: without the condition of `set_store_predicate`, which is about storing
        values = {a.var: builder.an.simplify(real.value_at(i)) for i, a in enumerate(stage.axis)}
        values.update({a.var: builder.an.simplify(a.min + real.offsets[a]) for a in stage.reduce_axis})
        self.values = values
        if stage.store_predicate is not None:
            self.guards.append(builder.an.simplify(substitute(stage.store_predicate, values)))
        #: of each output its memory, and where an element is kept in it
        self.places: list[tuple[Buffer, tuple[Expr, ...]]] = []
        for tensor in stage.op.outputs:
            place = builder.window(tensor).place(real.start, [real.offsets[a] for a in stage.axis])
            self.places.append((builder.buffer(tensor), tuple(builder.an.simplify(i) for i in place)))
        self.buffer = self.places[0][0]
        if builder.target.is_gpu_style and stage.attach.kind in ("at", "init"):
            self._check_bindings()
        self.across = [loop for loop in self.leaves if loop.is_reduce and loop.thread]
        self.keep_inside = bool(self.across) or self._barriers_below(stage)

    def _restrict(self, first: Expr, length: Expr) -> None:
        """Compute a part along the sliding dimension: shorten its loop, or add guards if that was split or fused."""
        assert self.real.slide is not None
        a = self.stage.axis[self.real.slide.dimension]
        loop = self.stage.roots[a]
        if loop in self.spans:
            self.spans[loop] = (first, length)
            return
        offset = self.real.offsets[a]
        guards = (E.compare("ge", offset, first), E.compare("lt", offset, first + length))
        self.guards += [g for g in map(self.b.an.simplify, guards) if not E.is_const(g, True)]

    def _check_bindings(self) -> None:
        """Raise LowerError unless a stage inside a kernel is computed whole by a work-item, or if shared, by a group.

        Parts of a scan in main memory are left to `is_stepped_by_host`.
        """
        if self.stage.tensor in self.b.s.scans.storage and self.buffer.scope == "global":
            return
        if self.stage.attach.loop in self.b.by_host:
            return
        for loop in self.leaves:
            if loop.thread in ("", VTHREAD) or (loop.thread.startswith("threadIdx") and self.buffer.scope == "shared"):
                continue
            if loop.is_reduce and loop.thread not in threads_around(self.stage):
                continue  # every work-item gets the result of the group
            outside = loop.thread.startswith("blockIdx")
            raise LowerError(
                f"{self.stage.name} is computed inside {self.stage.attach.loop!r}, "
                + ("within one work-group" if outside else "and its storage belongs to one work-item"),
                asked=loop.marked_by,
                legal="bind threadIdx axes and set_scope('shared'), or leave the loop unbound",
            )

    def _check_overlap(self, first_reduce: int | None) -> None:
        set_at = len(self.leaves) if first_reduce is None else first_reduce
        check_overlap(self.stage, self.leaves, self.real.extents, set_at, self.b.an)

    def _barriers_below(self, stage: Stage) -> bool:
        """Return whether a stage computed inside this one has barriers, which all work-items must reach."""
        return any(
            self.b.scope(x) == "shared" or any(y.is_reduce and y.thread for y in x.loops) or self._barriers_below(x)
            for x in self.b.s.attached_at(stage)
        )

    def build(self) -> Stmt:
        first_reduce = next((i for i, loop in enumerate(self.leaves) if loop.is_reduce), None)
        if self.stage.init is not None:
            first_reduce = self.leaves.index(self.stage.init.outside)
        body = self.real.body[0]
        if self.stage.intrinsic is not None:
            return self._tiles(first_reduce)
        if body.op not in REDUCTIONS:
            values = [self.b.an.simplify(e) for e in self._loaded(self.real.body)]
            streaming = any("streaming_store" in loop.pragmas for loop in self.leaves)
            stores = [replace(x, streaming=streaming) for x in stores_to(self.places, values)]
            return self._loops(0, seq(*stores), None, self.guards)
        self._check_overlap(first_reduce)
        reduction: Reduction = body.value
        sources, condition, rest = reduction.parts(body.args)
        places = self.places
        inside: list[Expr] = []
        if body.op == "scatter":
            at, inside = self._place(rest)
            places = [(self.buffer, at)]
        if self.across:
            return self._by_the_group(reduction, sources, condition, self._loaded(rest))
        found = self._loaded(sources)
        if not rest and self._rises(found[0]):
            rising = in_rising_order(reduction.combiner)
            reduction = reduction if rising is None else replace(reduction, combiner=rising)
        update = at_once(stores_to(places, reduction.combine([load(b, *at) for b, at in places], found)))
        if inside:
            update = If(E.logical_and(*inside), update)
        update = self._where(condition, update)
        init = self._first_values()
        if first_reduce is None:  # every reduce axis has been fused away to nothing: cannot happen
            raise LowerError(f"{self.stage.name} has no reduce loop", asked=f"the loops of {self.stage.name}")
        setting = frozenset(loop.var for loop in self.set_only)
        self.guards_of_setting = [g for g in self.guards if E.variables(g) & setting]
        guards = [g for g in self.guards if not E.variables(g) & setting]
        return self._loops(0, update, (first_reduce, init), guards)

    def _rises(self, index: Expr) -> bool:
        """Whether an index is larger at each point of the reduce loops than at all points before, and not negative."""
        loops, an = [x for x in self.leaves if x.is_reduce], self.b.an
        if not E.is_index(index) or any(x.kind not in ("serial", "unroll", "vectorize") or x.thread for x in loops):
            return False
        for at, loop in enumerate(loops):
            inner = [(x.var, *self.spans[x]) for x in loops[at + 1 :]]
            last = substitute(index, {v: start + extent - 1 for v, start, extent in inner})
            following = {v: start for v, start, _ in inner} | {loop.var: loop.var + 1}
            if not an.prove_nonneg(an.poly(substitute(index, following)) - an.poly(last) - 1):
                return False
        return an.prove_nonneg(an.poly(index))

    def _first_values(self) -> Stmt:
        """The stores of a reduction's first values."""
        body = self.real.body[0]
        sources, _, rest = body.value.parts(body.args)
        begin = self._loaded(rest) if body.op == "reduce" else []
        begin = begin or list(body.value.identity([e.dtype for e in sources]))
        return seq(*stores_to(self.places, begin))

    def _tiles(self, first_reduce: int | None) -> Stmt:
        """The loops outside a tensorized one, with the intrinsic inside."""
        assert self.stage.intrinsic is not None
        body, memory = self.real.body[0], self.b.reads
        tile = Tile(self.stage, body, self.values, self.real.extents, self.guards, memory, self.places[0], self.b.an)
        statement, reset = tile.statements()
        self.leaves = tile.outside
        self.guards_of_setting = []
        if body.op in REDUCTIONS and first_reduce is not None:
            self._check_overlap(first_reduce)
            if self.stage.init is not None:
                self.set_only, reset = [x for x in tile.inside if not x.is_reduce], self._first_values()
            elif reset is None:
                reset = self._nothing_to_add(tile)
        init = None if reset is None or first_reduce is None else (first_reduce, reset)
        return self._loops(0, statement, init, self.guards)

    def _nothing_to_add(self, tile: Tile) -> Stmt | None:
        """First values of a tile that the first step of the reduce loops outside sets, if these may be empty."""
        an = self.b.an
        steps = [x for x in tile.outside if x.is_reduce]
        none = an.simplify(E.logical_or(*(E.compare("le", self.real.extents[x], 0) for x in steps)))
        if E.is_const(none, False):
            return None
        self.set_only = [x for x in tile.inside if not x.is_reduce]
        return If(none, self._first_values())

    def _by_the_group(
        self, reduction: Reduction, sources: Sequence[Expr], condition: Expr, begin: Sequence[Expr]
    ) -> Stmt:
        """A reduction with loops bound to threadIdx: see `GroupReduction`."""
        first = next(i for i, loop in enumerate(self.leaves) if loop.is_reduce)
        for loop in self.leaves:
            if not loop.is_reduce and (loop.kind == "vectorize" or loop in self.leaves[first:]):
                where = "vectorized" if loop.kind == "vectorize" else f"inside {self.leaves[first].full_name}"
                raise LowerError(
                    f"{loop.full_name} is {where}, and the work-items of a group combine one element at a time",
                    asked=self.across[0].marked_by,
                    legal=f"reorder the loops of {self.stage.name} so that reduce loops are innermost; "
                    "vectorize none of the others",
                )
        dtypes = [e.dtype for e in sources]
        # a work-item may combine one element after the other, which the group's own barriers do not account for
        repeats = self._barriers_below(self.stage) or any(x.thread not in THREAD_TAGS for x in self.leaves[:first])
        across, rows = (
            [ThreadLoop(x.thread, x.var, self.b.real[x.stage].extents[x]) for x in loops]
            for loops in (self.across, self._rows())
        )
        group = GroupReduction(self.stage.name, dtypes, reduction.combine, across, rows, repeats)
        combined = reduction.combine([load(b, *at) for b, at in group.parts], self._loaded(sources))
        update = self._where(condition, at_once(stores_to(group.parts, combined)))
        start = seq(*stores_to(group.parts, reduction.identity(dtypes)))
        found = reduction.combine(begin, group.result()) if begin else group.result()
        reduced = frozenset(loop.var for loop in self.leaves if loop.is_reduce)
        guards = [g for g in self.guards if not E.variables(g) & reduced]
        finish = _guarded(guards, seq(*stores_to(self.places, found)))
        body = group.around(seq(start, self._loops(first, update, None, self.taking_part)), finish)
        for loop in reversed(self.leaves[:first]):
            body = self._closed(loop, self.b.with_attached(loop, body), [])
        return body

    def _rows(self) -> list[Loop]:
        """The loops over work-items that compute different elements: those bound to other axes of threadIdx."""
        found: dict[str, Loop] = {}
        for loop in (*(x for x in self.leaves if not x.is_reduce), *self.stage.loops_around()):
            if loop.thread.startswith("threadIdx") and all(loop.thread != x.thread for x in self.across):
                found.setdefault(loop.thread, loop)
        return [found[tag] for tag in sorted(found, reverse=True)]

    def _loaded(self, exprs: Sequence[Expr]) -> list[Expr]:
        """The expressions at this point of the loops, with loads for reads."""
        return [self.b.reads(substitute(e, self.values)) for e in exprs]

    def _place(self, place: Sequence[Expr]) -> tuple[tuple[Expr, ...], list[Expr]]:
        """The place of a point of a scatter, and the conditions, if its type leaves any, that it is in the tensor."""
        found = self._loaded(place)
        leading = self.places[0][1][: len(self.stage.axis) - len(found)]
        at: list[Expr] = []
        inside: list[Expr] = []
        for read, a in zip(found, self.stage.axis[len(leading) :], strict=True):
            last = self.b.an.simplify(a.extent - 1)
            e, asked = chosen_inside(read, last)
            i = self.b.an.simplify(E.cast("int64", e))
            at.append(i)
            inside += [c for c in map(self.b.an.simplify, asked) if c not in inside]
            if last.op != "const" and (e.dtype.kind != "uint" or e.dtype.bits == 64):  # one comparison for both
                inside.append(E.compare("lt", E.cast("uint64", i), E.cast("uint64", a.extent)))
                continue
            if e.dtype.kind != "uint" or e.dtype.bits == 64:  # large ones are negative as int64
                inside.append(E.compare("ge", i, 0))
            if last.op != "const" or last.value < e.dtype.max:
                inside.append(E.compare("le", i, last))
        return (*leading, *at), inside

    def _where(self, condition: Expr, update: Stmt) -> Stmt:
        """The update of a reduction under its condition. Guards of ragged splits (from `rfactor`) stay marked, for
        loops to be partitioned by."""
        asked: list[Expr] = []
        ragged: list[Expr] = []
        pending = [condition]
        while pending:
            c = pending.pop()
            if c.op == "and":
                pending.extend(reversed(c.args))
                continue
            simple = self.b.an.simplify(self.b.reads(substitute(c.args[0] if c.op == "likely" else c, self.values)))
            if not E.is_const(simple, True):
                (ragged if c.op == "likely" else asked).append(simple)
        return _guarded(ragged, If(E.logical_and(*asked), update) if asked else update)

    def _loops(self, i: int, innermost: Stmt, init: tuple[int, Stmt] | None, guards: list[Expr]) -> Stmt:
        """Loop `i` and everything inside; guards whose variables are all bound there wrap its body."""
        if init is not None and init[0] == i:
            spatial = [loop for loop in self.leaves[i:] if not loop.is_reduce] + self.set_only
            before = self._init_loops(spatial, init[1], guards + self.guards_of_setting)
            return seq(before, self._loops(i, innermost, None, guards))
        if i == len(self.leaves):
            return _guarded(guards, innermost)
        loop = self.leaves[i]
        pending = frozenset(x.var for x in self.leaves[i + 1 :])
        ready = [] if self.keep_inside else [g for g in guards if not E.variables(g) & pending]
        rest = guards if self.keep_inside else [g for g in guards if E.variables(g) & pending]
        with self.b.an.assuming(E.logical_and(*ready)):
            body = self._loops(i + 1, innermost, init, rest)
            body = self.b.with_attached(loop, body)
        body = _guarded(ready, body)
        for fetch in self.stage.fetches:
            if fetch.loop is loop and not self.b.target.is_gpu_style:
                later = {loop.var: loop.var + fetch.offset}
                whole = not any(loop.var in E.variables(g) for g in self.guards)
                last = {loop.var: sum(self.spans[loop], E.const(-1))} if whole else {}
                for tensor in fetch.tensor.op.outputs:
                    body = fetching(body, self.b.buffer(tensor), later, last, self.b.inputs())
        return self._closed(loop, body, ready)

    def _closed(self, loop: Loop, body: Stmt, guards: list[Expr]) -> Stmt:
        if "debug_skip_region" in loop.pragmas:
            return seq()
        return self.b.closed(loop, self.spans[loop], body, guards)

    def _init_loops(self, spatial: list[Loop], init: Stmt, guards: list[Expr]) -> Stmt:
        """The loops that set all elements to their first values, with variables of their own."""
        own = {} if self.stage.init is None else self.stage.init.loops
        fresh = {
            loop.var: own[loop].var if loop in own else E.var(f"{loop.name}.init", role="loop") for loop in spatial
        }
        reduce_vars = frozenset(loop.var for loop in self.leaves if loop.is_reduce)
        conditions = [substitute(g, fresh) for g in guards if not (E.variables(g) & reduce_vars)]
        body = substitute_stmt(init, fresh)
        for loop in spatial:
            self.b.an.bind(fresh[loop.var], 0, self.b.an.poly(self.real.extents[loop]) - 1)
        for loop in reversed(spatial):
            ready = [c for c in conditions if self.keep_inside or fresh[loop.var] in E.variables(c)]
            conditions = [c for c in conditions if c not in set(ready)]
            body = _guarded(ready, body)
            marked = own.get(loop, loop)
            masked = marked.kind == "vectorize" and loop in predicated(self.stage)
            kind = "serial" if marked.kind == "tensorize" else marked.kind
            body = For(fresh[loop.var], *self.spans[loop], kind, body, marked.thread, masked=masked)
        return _guarded(conditions, body)


def _guarded(conditions: list[Expr], body: Stmt) -> Stmt:
    return If(E.likely(E.logical_and(*conditions)), body) if conditions else body


class _ScanNest(_Nest):
    """The loops of a scan around the one over time, its init, and that loop; the updates bring the loops inside."""

    def __init__(self, builder: _Builder, stage: Stage, real: Realization) -> None:
        assert stage.scan_loop is not None
        self.b, self.stage, self.real, self.set_only = builder, stage, real, []
        self.leaves = stage.loops[: stage.loops.index(stage.scan_loop) + 1]
        self.spans = {loop: (E.const(0), real.extents[loop]) for loop in self.leaves}
        inner = frozenset(x.var for x in stage.loops if x not in self.leaves)
        self.guards = [g for g in conditions(real, builder.an) if not E.variables(g) & inner]
        self.keep_inside = self._barriers_below(stage)
        if builder.target.is_gpu_style and builder.buffer(stage.tensor).scope == "global":
            if is_stepped_by_host(builder.s, stage, builder.real, builder.an, builder.target.is_cpu):
                builder.by_host.add(stage.scan_loop)
        elif builder.target.is_gpu_style:
            check_private_state(builder.s, stage, builder.real)

    def build(self) -> Stmt:
        return self._loops(0, seq(), None, self.guards)

    def _loops(self, i: int, innermost: Stmt, init: tuple[int, Stmt] | None, guards: list[Expr]) -> Stmt:
        steps = super()._loops(i, innermost, init, guards)
        if i != len(self.leaves) - 1:
            return steps
        first = [self.b.produce(x) for x in self.b.s.attached_at(self.stage) if x.attach.kind == "init"]
        if not self.real.blocks:
            return seq(*first, steps)
        zero = {v: E.const(0, v.dtype) for v in self.real.blocks}
        is_first = E.logical_and(*(E.compare("eq", v, z) for v, z in zero.items()))
        return seq(If(is_first, substitute_stmt(seq(*first), zero), self._carried()), steps)

    def _carried(self) -> Stmt:
        """The last times of the block before, which the first steps of this one read, in front of those of this one."""
        op, time = self.stage.op, self.stage.scan_loop
        assert isinstance(op, ScanOp) and time is not None
        moves: list[Stmt] = []
        for stage in dict.fromkeys(map(self.b.s.stage, op.update)):
            nest = _Nest(self.b, stage, self.b.real[stage])
            kept: list[Stmt] = []
            for tensor, (buffer, (_, *place)) in zip(stage.op.outputs, nest.places, strict=True):
                for k in range(op.reach[self.b.s.scans.storage[tensor].value_index] or 0):
                    last = load(buffer, self.real.extent[0] + k, *place)
                    kept.append(Store(buffer, (E.const(k), *place), last))
            guards = [g for g in nest.guards if time.var not in E.variables(g)]
            moves.append(nest._init_loops([x for x in nest.leaves if not x.is_reduce], seq(*kept), guards))
        return seq(*moves)


def threads_around(stage: Stage) -> list[str]:
    """The hardware axes of the loops around a stage's attach point."""
    return [x.thread for x in stage.loops_around() if x.thread]


def build_nests(
    s: Schedule, real: dict[Stage, Realization], target: Target, an: Analyzer, passed: frozenset[Tensor], binds: Binds
) -> tuple[dict[Tensor, Buffer], Stmt]:
    """The buffers of all tensors, and the program: root stages in order, allocated as needed.

    What is `passed` is not allocated: outputs, and intermediates that are arguments.
    """
    builder = _Builder(s, real, target, an, passed, binds)
    roots = [x for x in s.stages if x in real and x.attach.kind == "root"]
    body = named(seq(*side_by_side(s, roots, builder.produce, target, an)), builder.names)
    for stage in reversed(roots):
        body = builder.allocated(stage, body)
    return builder.buffers, body
