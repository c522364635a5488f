"""A `PrimFunc` as TVMScript-like text: loops around blocks, one for each stage that is computed.

    for i0_0, i0_1 in T.grid(2, 4):
        with T.block("B"):
            i0 = T.axis.spatial(8, i0_0 * 4 + i0_1)
            T.reads(A[i0])
            T.writes(B[i0])
            B[i0] = A[i0] + T.float32(1)

It is written from the schedule's stages and their inferred regions. A block's body is the definition of its tensor, and
its axes say which element; storage is not compacted yet, and sliding windows are not taken apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from autosched.ir.expr import Expr, is_const, logical_and, make, variables
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer
from autosched.ir.visit import post_order, pre_order, rewrite, substitute
from autosched.lowering.bounds import Realization, infer_bounds
from autosched.lowering.extern import opaque_nest
from autosched.lowering.inline import inline_stages
from autosched.schedule.loop import values_of_leaves
from autosched.schedule.stage import Loop, Stage
from autosched.te.extern import ExternOp
from autosched.te.reduction import REDUCTIONS, Reduction
from autosched.te.tensor import IterVar, Tensor
from autosched.tir.module import PrimFunc, block_names
from autosched.tir.script import RANGES, Statements, script


@script.register
def print_blocks(f: PrimFunc) -> str:
    """Return the text of one function, from `@T.prim_func` on."""
    return _Blocks(f).prim_func()


class _Blocks(Statements):
    def __init__(self, f: PrimFunc) -> None:
        super().__init__()
        f = f.closed
        self.f, self.s, self.an = f, f.schedule, Analyzer()
        self.s.check(args=f.args)
        self.real: dict[Stage, Realization] = infer_bounds(self.s, inline_stages(self.s), self.an)
        self.blocks = block_names(self.s)

    def prim_func(self) -> str:
        sizes = tuple(self.s.sizes().values())
        params = tuple(self.s.passed(a) if isinstance(a, Tensor) else a for a in self.f.args)
        self.parameters(self.f.name, params, sizes, self.f.attrs)
        self.line('# with T.block("root"):')
        passed = set(params)
        for stage in self.real:
            for t in stage.op.outputs:
                if t not in passed and t not in self.s.scans.storage:
                    scope = "" if stage.scope == "global" else f', scope="{stage.scope}"'
                    called = self.names.reserve(t, stage.name if t.name == stage.op.name else t.name)
                    self.line(f"{called} = T.alloc_buffer({self.layout(t)}{scope})")
        for stage in self.s.stages:
            if stage in self.real and stage.attach.kind == "root":
                self.nest(stage, 0)
        return self.end()

    # -- loops ----------------------------------------------------------------------------------
    def nest(self, stage: Stage, at: int) -> None:
        """Write the loops of a stage from one on, the stages computed at them, and the block inside."""
        leaves = [x for x in stage.loops if x not in stage.scatter_loops]
        if stage.scan_loop is not None:  # what is inside the loop over time is the updates' own
            leaves = stage.loops[: stage.loops.index(stage.scan_loop) + 1]
        first = next((i for i, x in enumerate(leaves) if stage.init is not None and x is stage.init.outside), None)
        if at == 0 and stage.scatter_axes:
            first = next(i for i, x in enumerate(leaves) if x.is_reduce)
        if first is not None and at == first:
            self._initial(stage, leaves[at:])
        if at == len(leaves):
            self.block_of(stage)
            return
        if leaves[at] is stage.scan_loop:
            for x in self.s.stages:
                if x.attach.kind == "init" and x.attach.stage is stage:
                    self.nest(x, 0)
        end = at + 1
        plain = [self._plain(stage, x) for x in leaves]
        while plain[end - 1] and end < len(leaves) and plain[end] and end != first:
            if self.s.attached_at(leaves[end - 1]) or leaves[end] is stage.scan_loop:
                break
            end += 1
        with ExitStack() as scope:
            self._open(scope, stage, leaves[at:end])
            for guest in self.s.attached_at(leaves[end - 1]):
                self.nest(guest, 0)
            self.nest(stage, end)

    def _open(self, scope: ExitStack, stage: Stage, loops: list[Loop], extents: dict[Loop, Expr] | None = None) -> None:
        """`for i, j in ..:` with the block of lines inside."""
        known = extents or self.real[stage].extents
        spans = [self.text(self.an.simplify(known[x])) for x in loops]
        named = [scope.enter_context(self.names.inside(x.var, x.name)) for x in loops]
        last = loops[-1]
        made = f"T.grid({', '.join(spans)})"
        if len(loops) == 1:
            remarks, spelled = self._remarks(stage, last), RANGES.get(last.kind, "T.thread_binding")
            if stage.intrinsic is not None and stage.intrinsic[0] is last:  # it is read as the loops that it stands for
                remarks, spelled = {**remarks, "tensorize": stage.intrinsic[1].name}, RANGES["serial"]
            made = f"{spelled}({spans[0]}{_options(last, remarks)})"
        scope.enter_context(self.block(f"for {', '.join(named)} in {made}"))

    def _plain(self, stage: Stage, loop: Loop) -> bool:
        return loop.kind == "serial" and not loop.pragmas and not self._remarks(stage, loop)

    def _remarks(self, stage: Stage, loop: Loop | None = None) -> dict[str, Any]:
        """Annotations that are kept for a block, or a loop of it."""
        return self.f.remarks.get((self.blocks[stage], "" if loop is None else loop.name), {})

    def _initial(self, stage: Stage, inside: list[Loop]) -> None:
        """Write the loops and the block that initialise a reduction."""
        own = {} if stage.init is None else stage.init.loops
        spatial = [x for x in inside if not x.is_reduce] + stage.scatter_loops
        real = self.real[stage]
        extents = {own.get(x, x): real.extents[x] for x in spatial}
        with ExitStack() as scope:
            for x in spatial:
                self._open(scope, stage, [own.get(x, x)], extents)
            here = {x.var: own.get(x, x).var for x in spatial}
            self.block_of(stage, "_init", here)

    # -- blocks ---------------------------------------------------------------------------------
    def block_of(self, stage: Stage, part: str = "", here: dict[Expr, Expr] | None = None) -> None:
        """Write the block of a stage; `part` is `_init` for the one that sets initial values."""
        if stage.scan_loop is not None:
            return  # its updates are blocks of their own
        if isinstance(stage.op, ExternOp):
            self._opaque(stage, stage.op)
            return
        real = self.real[stage]
        body = real.body[0]
        apart = stage.init is not None or bool(stage.scatter_axes)
        label, first = self.blocks[stage], self.f.first_values.get(self.blocks[stage])
        if first is None:
            label += part or ("_update" if apart else "")
        elif part:
            label = first
        reduced = body.op in REDUCTIONS
        shown = [a for a in stage.axis if part or a not in stage.scatter_axes]
        with ExitStack() as scope:
            scope.enter_context(self.block(f'with T.block("{label}")'))
            self._axes(scope, stage, [*shown, *(() if part else stage.reduce_axis)], here or {})
            if not reduced:
                self._accesses(real.body, self._places(stage))
                for place, e in zip(self._places(stage), real.body, strict=True):
                    self._store(place, e)
                return
            sources, condition, rest = body.value.parts(body.args)
            places = self._places(stage)
            begin = rest if rest and body.op != "scatter" else body.value.identity([e.dtype for e in sources])
            if part:
                self._accesses(begin, places)
                for place, e in zip(places, begin, strict=True):
                    self._store(place, e)
                return
            if body.op == "scatter":
                kept = stage.axis[: len(stage.axis) - len(rest)]
                places = [(places[0][0], (*(a.var for a in kept), *rest))]
            self._accesses((*sources, condition, *rest), places)
            if not apart:
                with self.block("with T.init()"):
                    for place, e in zip(places, begin, strict=True):
                        self._store(place, e)
            self._update(body.value, sources, condition, places)

    def _opaque(self, stage: Stage, op: ExternOp) -> None:
        """The block of an operation that is a statement."""
        buffers: dict[Tensor, Buffer] = {}

        def buffer(t: Tensor) -> Buffer:
            home = self._home(t)
            if home not in buffers:
                buffers[home] = Buffer(home.name, home.shape, home.dtype)
                self.names.alias(buffers[home], home)
            return buffers[home]

        statement = opaque_nest(stage, self.real[stage].body, buffer, self.an)
        with self.block(f'with T.block("{self.blocks[stage]}")'):
            for what, tensors in (("reads", stage.reads_of_body()), ("writes", op.outputs)):
                spans = [(t, ", ".join(f"0:{self.text(d)}" for d in t.shape)) for t in tensors]
                whole = (f"{self.names(self._home(t))}[{span}]" for t, span in spans)
                self.line(f"T.{what}({', '.join(whole)})")
            self.emit(statement, True)

    def _axes(self, scope: ExitStack, stage: Stage, axes: Sequence[IterVar], here: dict[Expr, Expr]) -> None:
        """`i = T.axis.spatial(8, i_0 * 4 + i_1)`, and the condition that it is one of them."""
        real = self.real[stage]
        values = values_of_leaves(stage, real.extents)
        lines = []
        for a in axes:
            start = real.start[stage.axis.index(a)] if a in stage.axis else a.min
            value = self.an.simplify(substitute(start + values[stage.roots[a]], here))
            extent = self.text(a.extent if is_const(a.min, 0) else a.min + a.extent)
            of = extent if is_const(a.min, 0) else f"({self.text(a.min)}, {extent})"
            kind = "reduce" if a.kind == "reduce" else "spatial"
            lines.append((a, f"T.axis.{kind}({of}, {self.text(value)})"))
        other = [x for x in stage.loops if x.is_reduce] if here else stage.scatter_loops
        hidden = frozenset(x.var for x in other)  # the loops of the stage's other block
        guards = [g for g in real.guards if not variables(g) & hidden]
        where = self.text(logical_and(*(substitute(_bare(g), here) for g in guards))) if guards else ""
        for a, made in lines:
            self.line(f"{scope.enter_context(self.names.inside(a.var, a.name))} = {made}")
        if where:
            self.line(f"T.where({where})")
        said = [f'"{key}": {value!r}' for key, value in self._remarks(stage).items()]
        pads = list(stage.alignments.items())
        if pads:
            rows = (f"[0, {stage.axis.index(a)}, {self.text(n)}, {self.text(m)}]" for a, (n, m) in pads)
            said.insert(0, f'"buffer_dim_align": [{", ".join(rows)}]')
        if said:
            self.line(f"T.block_attr({{{', '.join(said)}}})")

    def _places(self, stage: Stage) -> list[tuple[Tensor, tuple[Expr, ...]]]:
        return [(self._home(t), tuple(a.var for a in stage.axis)) for t in stage.op.outputs]

    def _home(self, t: Tensor) -> Tensor:
        return self.s.scans.storage.get(t, t)

    def _reads(self, e: Expr) -> Expr:
        """The parts of a scan are stored with it."""

        def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
            return make("read", e.dtype, args, self._home(e.value)) if e.op == "read" else None

        return rewrite(e, change)

    def _store(self, place: tuple[Tensor, tuple[Expr, ...]], value: Expr) -> None:
        self.line(f"{self.access(*place)} = {self.text(self._reads(value))}")

    def _update(
        self,
        reduction: Reduction,
        sources: Sequence[Expr],
        condition: Expr,
        places: Sequence[tuple[Tensor, tuple[Expr, ...]]],
    ) -> None:
        before = [make("read", t.dtype, at, t) for t, at in places]
        combined = reduction.combine(before, [self._reads(e) for e in sources])
        with ExitStack() as scope:
            if not is_const(condition, True):
                scope.enter_context(self.block(f"if {self.text(self._reads(condition))}"))
            if len(combined) == 1:
                self._store(places[0], combined[0])
                return
            named = [f"v_{self.names(t)}" for t, _ in places]  # all are computed before one is stored
            for name, (t, _), e in zip(named, places, combined, strict=True):
                self.line(f"{name}: T.{t.dtype} = {self.text(e)}")
            for name, place in zip(named, places, strict=True):
                self.line(f"{self.access(*place)} = {name}")

    def _accesses(self, values: Sequence[Expr], places: Sequence[tuple[Tensor, tuple[Expr, ...]]]) -> None:
        """`T.reads` and `T.writes`: the smallest boxes around what is read and written."""
        read: dict[Tensor, list[tuple[Expr, ...]]] = {}
        for e in values:
            for node in pre_order(e):
                if node.op == "read":
                    read.setdefault(self._home(node.value), []).append(node.args)
        self.line(f"T.reads({', '.join(self._box(t, at) for t, at in read.items())})")
        self.line(f"T.writes({', '.join(self._box(t, [at]) for t, at in places)})")

    def _box(self, t: Tensor, places: Sequence[tuple[Expr, ...]]) -> str:
        spans = []
        for d, extent in enumerate(t.shape):
            indices = list(dict.fromkeys(p[d] for p in places))
            steps = [self.an.simplify(i - indices[0]) for i in indices]
            if any(n.op == "read" for i in indices for n in post_order(i)) or any(x.op != "const" for x in steps):
                spans.append(f"0:{self.text(extent)}")
                continue
            low = indices[steps.index(min(steps, key=lambda x: x.value))]
            width = max(x.value for x in steps) - min(x.value for x in steps) + 1
            spans.append(self.text(low) + (f":{self.text(self.an.simplify(low + width))}" if width > 1 else ""))
        return f"{self.names(t)}[{', '.join(spans) or '()'}]"


def _bare(condition: Expr) -> Expr:
    """Without `likely`: a block's condition is one of its axes."""
    return rewrite(condition, lambda e, args: args[0] if e.op == "likely" else None)


def _options(loop: Loop, remarks: dict[str, Any]) -> str:
    parts = [f'thread="{loop.thread}"'] if loop.thread else []
    said = [*(f'"pragma_{p}": 1' for p in loop.pragmas), *(f'"{key}": {value!r}' for key, value in remarks.items())]
    if said:
        parts.append(f"annotations={{{', '.join(said)}}}")
    return "".join(f", {p}" for p in parts)
