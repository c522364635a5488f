"""`tir.Schedule`: the block spelling of a schedule.

    sch = tir.Schedule(create_prim_func([A, B]))
    block = sch.get_block("B")
    (i,) = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, factors=[2, 2, 2])
    sch.vectorize(i2)
    print(sch.mod.script())
    print(sch.trace.as_python())        # s["B"].split_into("i", 2, 2, 2) ..

A block is a stage, by name; a loop is the schedule's `Loop`. Every call is the te primitive of the same meaning on the
one `Schedule` underneath, and is recorded in its trace. Names and signatures are TVM's. The differences:

* Loops to which `compute_at` leaves one iteration become the outermost of their block's own, and `get_loops` shows them
  only after `preserve_unit_loops=True`. In a template, whose extents are open, it shows all.
* Without None, the first of `split`'s factors is an upper bound: no iteration runs for nothing.
* Sampling draws at random, with `seed`, unless a decision is given; in a template (a Schedule made from the template's
  `s`), it leaves a knob or a choice for the tuner.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autosched.errors import ScheduleError, UsageError, with_line
from autosched.ir.visit import pre_order
from autosched.schedule.formulas import Layout
from autosched.schedule.primitive import PRIMITIVES
from autosched.schedule.primitives.place import exchange
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Loop, Stage
from autosched.schedule.trace import Trace
from autosched.te.tensor import Tensor
from autosched.tir import factoring, rearranging, sampling
from autosched.tir.intrinsics import intrinsic, memory
from autosched.tir.module import IRModule, PrimFunc, block_names, copied
from autosched.tir.refused import Refusing
from autosched.tir.reindexing import Reindexing
from autosched.tir.related import Related
from autosched.tir.remarks import Annotations

_INIT, _UPDATE, _ROOT = "_init", "_update", "root"


@dataclass(frozen=True)
class Block:
    """A block of a schedule, by name. It stays what it is when `cache_write` puts a copy behind it."""

    name: str


class BlockSchedule(sampling.Sampling, Annotations, Related, Reindexing, Refusing):
    """A schedule of the functions of a module, in terms of blocks and loops.

    mod:                a PrimFunc, or an IRModule of them, which stays as it is; in a template, its Schedule, which is
                        scheduled in place
    seed:               seed of sampling
    debug_mask:         "all" checks the whole schedule after every call
    error_render_level: one of TVM's, which changes nothing

    Raises UsageError for a module of lowered functions: their loops are fixed.
    """

    def __init__(
        self,
        mod: PrimFunc | IRModule | Mapping[str, Any] | Schedule,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
    ) -> None:
        if error_render_level not in ("detail", "fast", "none"):
            raise UsageError(f"no level {error_render_level!r}", asked="tir.Schedule", legal="detail, fast, none")
        if debug_mask not in ("none", "all") and not isinstance(debug_mask, int):
            raise UsageError(f"no mask {debug_mask!r}", asked="tir.Schedule", legal='"none", "all" or a number')
        self._checks = debug_mask not in ("none", 0)
        self._random, self._inner = random.Random(seed), dict[str, tuple[Block, list[Loop]]]()
        self._whole: set[str] = set()  # blocks all of whose loops are shown
        self._attrs: dict[str, Any] = dict(mod.attrs) if isinstance(mod, IRModule) else {}
        self._template = mod if isinstance(mod, Schedule) else None
        self._of_template: dict[tuple[str, str], dict[str, Any]] = {}
        self._functions = {} if isinstance(mod, Schedule) else copied(mod)
        self._working = "main" if "main" in self._functions else next(iter(self._functions), "main")

    def _check(self) -> None:
        """Check the whole schedule, for the arguments of its function. Raises ScheduleError or LowerError."""
        if self._template is not None:
            self._template.check()
        else:
            f = self._functions[self._working].closed
            f.schedule.check(args=f.args)

    # -- functions ----------------------------------------------------------------------
    @property
    def schedule(self) -> Schedule:
        """The schedule underneath, of the function that is being worked on."""
        return self._template if self._template is not None else self._functions[self._working].schedule

    @property
    def _remarks(self) -> dict[tuple[str, str], dict[str, Any]]:  # type: ignore[override]
        return self._of_template if self._template is not None else self._functions[self._working].remarks

    @property
    def _first_values(self) -> dict[str, str]:
        """Block -> the name of the block that begins its reduction, where that has one of its own."""
        return {} if self._template is not None else self._functions[self._working].first_values

    @property
    def mod(self) -> IRModule:
        """The module as it is now. Later calls do not change it."""
        if self._template is not None:
            raise UsageError(
                "a template has no module", asked="sch.mod", legal="sch.schedule; or tir.Schedule of a PrimFunc"
            )
        return IRModule({name: f.snapshot() for name, f in self._functions.items()}, self._attrs)

    @property
    def trace(self) -> Trace:
        """All calls, as te primitives: see `Trace.as_python`."""
        return self.schedule.trace

    @property
    def func_working_on(self) -> str:
        return self._working

    def work_on(self, func_name: str) -> None:
        """Schedule the function of that name from now on."""
        if func_name not in self._functions:
            legal = f"functions: {', '.join(self._functions)}"
            raise UsageError(f"no function {func_name!r}", asked=f"work_on({func_name!r})", legal=legal)
        self._working = func_name

    def copy(self) -> tuple[BlockSchedule, dict[Loop, Loop]]:
        """Return a copy, and what its loops are of those of this one."""
        new = BlockSchedule(self.mod, seed=self.fork_seed(), debug_mask="all" if self._checks else "none")
        now: dict[Loop, Loop] = {}
        for name, f in self._functions.items():
            now.update(rearranging.counterparts(f.schedule, new._functions[name].schedule))
        new._working, new._whole = self._working, set(self._whole)
        for name, (block, loops) in self._inner.items():
            known = {x.name: x for x in new._stage(block).loops}
            new._inner[name] = block, [known[x.name] for loop in loops for x in rearranging.leaves(loop)]
        return new, now

    def seed(self, seed: int) -> None:
        """Set the seed of sampling."""
        self._random = random.Random(seed)

    def fork_seed(self) -> int:
        """Draw a seed for another schedule."""
        return self._random.getrandbits(31)

    def get(self, handle: Any) -> Any:
        """Return the Stage of a block; a loop or a factor as it is."""
        return self._stage(handle) if isinstance(handle, Block) else handle

    # -- blocks and loops -----------------------------------------------------------------------
    def get_block(self, name: str, func_name: str | None = None) -> Block:
        """Return the block of that name. Raises ScheduleError if there is none."""
        if func_name is not None:
            self.work_on(func_name)
        block = Block(re.sub(r"\W", "_", str(name)))
        if block.name != _ROOT:
            self._stage(block)
        return block

    def get_loops(self, block: Block | str) -> list[Loop]:
        """Return the loops around a block, outermost first, with those of its hosts."""
        stage = self._stage(block)
        loops = self._shown(stage)
        name = block.name if isinstance(block, Block) else str(block)
        if stage.init is not None and (name.endswith(_INIT) or name == self._first_values.get(self._block(stage).name)):
            parted_at = stage.init.outside
            if parted_at not in stage.loops:
                why = f"{parted_at.full_name} was split or fused away afterwards"
                self._refuse(f"get_loops({name!r})", why, "decompose_reduction last")
            outside = stage.loops[: stage.loops.index(parted_at)]
            inside = [made for x, made in stage.init.loops.items() if x in loops]
            loops = [*(x for x in outside if x in loops), *inside]
        for host, around in stage.hosts():
            loops = [*(x for x in self._shown(host) if x in around), *loops]
        outer = next((n for n, (inner, _) in self._inner.items() if name in (n, inner.name)), None)
        if outer is None:
            return loops
        at = rearranging.parted(loops, self._inner[outer][1])
        return loops[:at] if name == outer else loops[at:]

    def _shown(self, stage: Stage) -> list[Loop]:
        if stage.attach.kind != "at" or stage.name in self._whole or self._template is not None:
            return list(stage.loops)
        return rearranging.repeating(self.schedule, stage)

    def _stored(self) -> list[Stage]:
        return [x for x in self.schedule.stages if not x.is_placeholder and x.attach.kind != "inline"]

    def _block(self, stage: Stage) -> Block:
        return Block(block_names(self.schedule)[stage])

    def _stage(self, block: Block | str) -> Stage:
        name = block.name if isinstance(block, Block) else re.sub(r"\W", "_", str(block))
        if name in self._inner:
            return self._stage(self._inner[name][0])
        found = {n: x for x, n in block_names(self.schedule).items()}
        name = next((f"{n}{_INIT}" for n, first in self._first_values.items() if first == name not in found), name)
        for part in ("", _INIT, _UPDATE):
            stage = found.get(name.removesuffix(part)) if name.endswith(part) else None
            if stage is None or (part and stage.init is None):
                continue
            if stage.attach.kind == "inline":
                self._refuse(f"get_block({name!r})", f"{name} is inlined: it is no block any more")
            return stage
        return self._refuse(f"get_block({name!r})", f"no block {name!r}")

    def _refuse(self, asked: str, why: str, legal: str = "") -> Any:
        listed = ", ".join(block_names(self.schedule)[x] for x in self._stored())
        raise ScheduleError(why, asked=with_line(asked), legal=legal or f"blocks: {listed}") from None

    def _buffers(self, stage: Stage) -> list[Tensor]:
        """The tensors that a block reads, in order of first appearance (of `A[B[i]]`, A); through what is inlined."""
        found: dict[Tensor, None] = {}
        for t in (e.value for e in pre_order(stage.body) if e.op == "read"):
            host = self.schedule.stage(t)
            inner = self._buffers(host) if host.attach.kind == "inline" else [t]
            found.update(dict.fromkeys(inner))
        return list(found)

    def _do(self, stage: Stage, kind: str, *args: Any, **options: Any) -> Any:
        result = self.schedule.apply(kind, stage, *args, **options)
        if self._checks:
            self._check()
        return result

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A primitive without a spelling of its own here: its first argument is a block, or a loop of one."""
            if name not in PRIMITIVES:
                raise AttributeError(f"tir.Schedule has no {name!r}")

            def call(block_or_loop: Block | Loop, *args: Any, **options: Any) -> Any:
                of_block = isinstance(block_or_loop, Block)
                stage = self._stage(block_or_loop) if of_block else self._owner(name, [block_or_loop])
                given, named = PRIMITIVES[name].bound(args if of_block else (block_or_loop, *args), options)
                return self._do(stage, name, *given, **named)

            return call

    # -- loops ----------------------------------------------------------------------------------
    def split(
        self,
        loop: Loop,
        factors: Sequence[Any],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[Loop]:
        """See `Stage.split_into`."""
        owner = self._owner("split", [loop])
        self._unremarked("split", [loop])
        if len(factors) == 1:
            return [loop]
        guests = self._guests(loop)
        made = self.schedule.apply("split_into", owner, loop, *factors, disable_predication=disable_predication or None)
        self._follow(guests, made[-1])
        return list(made)

    def fuse(self, *loops: Loop, preserve_unit_iters: bool = True) -> Loop:
        """See `Stage.fuse`."""
        owner = self._owner("fuse", loops)
        self._unremarked("fuse", loops)
        places = [owner.loops.index(loop) for loop in loops if loop in owner.loops]
        if places != sorted(places):
            asked, why = f"fuse({', '.join(x.name for x in loops)})", "these loops are not in the order of their nest"
            self._refuse(asked, why, f"loops of {self._block(owner).name}, outermost first: {owner.describe()}")
        for loop in loops[:-1]:
            inside = self.schedule.attached_at(loop)
            if inside:
                why = f"{self._block(inside[0]).name} is computed between {loop.name} and the loops inside"
                self._refuse(f"fuse({', '.join(x.name for x in loops)})", why, "loops directly inside one another")
        guests = self._guests(loops[-1])
        fused = self.schedule.apply("fuse", owner, *loops)
        self._follow(guests, fused)
        return fused

    def _guests(self, loop: Loop) -> list[tuple[Stage, str]]:
        """The stages that are computed or stored at a loop which is about to be replaced."""
        s = self.schedule
        computed = [(x, "compute_at") for x in s.stages if x.attach.kind == "at" and x.attach.loop is loop]
        return computed + [(x, "store_at") for x in s.stages if x.store.loop is loop]

    def _follow(self, guests: Sequence[tuple[Stage, str]], loop: Loop) -> None:
        """Compute and store them at the loop that replaced it."""
        for stage, kind in guests:
            self.schedule.apply(kind, stage, loop.stage, loop)
        if self._checks:
            self._check()

    def reorder(self, *ordered_loops: Loop) -> None:
        """See `Stage.reorder`."""
        self._do(self._owner("reorder", ordered_loops), "reorder", *ordered_loops)

    def _owner(self, asked: str, loops: Sequence[Loop]) -> Stage:
        if not loops:
            self._refuse(f"{asked}()", "no loop is given", "one loop at least")
        for loop in loops:
            if not isinstance(loop, Loop):
                self._refuse(f"{asked}({loop!r})", f"{loop!r} is no loop", "loops as get_loops(block) returns them")
            if loop.stage.schedule is not self.schedule:
                why = f"{loop.full_name} is no loop of this schedule, or no longer"
                self._refuse(f"{asked}({loop.name})", why, "loops as get_loops(block) returns them")
        return loops[-1].stage

    def add_unit_loop(self, block_or_loop: Block | Loop) -> Loop:
        """Add a loop of one iteration just outside a loop, or around a block that has none."""
        if isinstance(block_or_loop, Block):
            loops = self.get_loops(block_or_loop)
            if not loops:
                return self._do(self._stage(block_or_loop), "fuse")
            block_or_loop = loops[-1]
        guests = self._guests(block_or_loop)
        owner = self._owner("add_unit_loop", [block_or_loop])
        outer, inner = self.schedule.apply("split", owner, block_or_loop, nparts=1)
        self._follow(guests, inner)
        exchange(block_or_loop, inner)
        return outer

    def parallel(self, loop: Loop) -> None:
        """See `Stage.parallel`."""
        self._do(self._owner("parallel", [loop]), "parallel", loop)

    def vectorize(self, loop: Loop) -> None:
        """See `Stage.vectorize`."""
        self._do(self._owner("vectorize", [loop]), "vectorize", loop)

    def unroll(self, loop: Loop) -> None:
        """See `Stage.unroll`."""
        self._do(self._owner("unroll", [loop]), "unroll", loop)

    def bind(self, loop: Loop, thread_axis: Any) -> None:
        """See `Stage.bind`."""
        axis = "vthread" if str(thread_axis).startswith("vthread") else thread_axis
        self._do(self._owner("bind", [loop]), "bind", loop, axis)

    # -- where blocks are computed --------------------------------------------------------------
    def compute_at(self, block: Block, loop: Loop | str, preserve_unit_loops: bool = False, index: int = -1) -> None:
        """See `Stage.compute_at`. A place of `sample_compute_location` may be "root" or "inline" instead of a loop."""
        if isinstance(loop, str):
            if loop not in sampling.PLACES:
                asked = f"compute_at({block.name}, {loop!r})"
                self._refuse(asked, f"{loop!r} is no loop", 'a loop, "root" or "inline"')
            self._do(self._stage(block), f"compute_{loop}")
            return
        stage = self._stage(block)
        self._owner("compute_at", [loop])
        self._movable(stage, loop)
        self._do(stage, "compute_at", loop.stage, loop)
        (self._whole.add if preserve_unit_loops else self._whole.discard)(stage.name)
        shown = self._shown(stage)  # directly inside one another, so that they can be fused
        order = [*(x for x in stage.loops if x not in shown), *shown]
        if order != stage.loops and stage.init is None:  # whose loops stay in the order in which they were parted
            self._do(stage, "reorder", *order)

    def _movable(self, stage: Stage, loop: Loop) -> None:
        """Raise ScheduleError for a loop of the block itself, and for a block that has no consumers to be put to."""
        name = self._block(stage).name
        asked = f"compute_at({name}, {loop.name})"
        if loop.stage is stage and loop in stage.loops:
            self._refuse(asked, f"{loop.name} is an ancestor of block {name}", "a loop of a consumer")
        if stage.is_output and not self.schedule.consumers(stage):
            why = f"{name} is an output block: nothing reads its results"
            self._refuse(asked, why, "reverse_compute_at, at a loop of a producer")

    def reverse_compute_at(self, block: Block, loop: Loop, preserve_unit_loops: bool = False, index: int = -1) -> None:
        """See `Stage.reverse_compute_at`."""
        self._owner("reverse_compute_at", [loop])
        self._do(self._stage(block), "reverse_compute_at", loop.stage, loop)

    def compute_inline(self, block: Block) -> None:
        """See `Stage.compute_inline`."""
        self._do(self._stage(block), "compute_inline")

    def reverse_compute_inline(self, block: Block) -> None:
        """See `Stage.reverse_compute_inline`. The block that it reads keeps its name, and finishes each element."""
        stage = self._stage(block)
        inside = [x for x in self.schedule.reads(stage) if x.attach.kind == "at" and x.attach.stage is stage]
        if len(inside) == 1 and not any(
            x.mark for x in inside[0].loops
        ):  # what it reads is under its own loops already
            self._do(inside[0], "compute_root")
        self._do(stage, "reverse_compute_inline")

    # -- caches, storage ------------------------------------------------------------------------
    def cache_read(
        self,
        block: Block,
        read_buffer_index: int | str | Tensor,
        storage_scope: str,
        consumer_blocks: Sequence[Block] | None = None,
    ) -> Block:
        """Copy a buffer that a block reads, for all its readers or the given blocks: `Schedule.cache_read`.

        The buffer goes by its place in the block's `T.reads`, its name or its tensor.
        """
        stage = self._stage(block)
        tensor = self._buffer(stage, self._buffers(stage), read_buffer_index, "cache_read")
        source = self.schedule.stage(tensor)
        readers = [self._stage(b) for b in consumer_blocks] if consumer_blocks else self.schedule.consumers(source)
        made = self._do(source, "cache_read", memory(storage_scope), readers, output=tensor.value_index)
        return self._block(self.schedule.stage(made))

    def cache_write(
        self,
        block: Block,
        write_buffer_index: int | str | Tensor,
        storage_scope: str,
        consumer_blocks: Sequence[Block] | None = None,
    ) -> Block:
        """Compute a block into a cache, and copy that: `Schedule.cache_write` with `keep_loops`.

        The block keeps its loops; the copy's block is returned. All readers of the result read the copy, so
        `consumer_blocks` may not be given.
        """
        if consumer_blocks is not None:
            self._refuse("cache_write(consumer_blocks=...)", "all consumers read the copy", "leave consumer_blocks out")
        stage = self._stage(block)
        self._buffer(stage, stage.op.outputs, write_buffer_index, "cache_write")
        self._do(stage, "cache_write", memory(storage_scope), keep_loops=True)
        return self._block(stage)

    def reindex(self, block: Block, buffer: tuple[str, int] | str | Tensor, *options: Any, **named: Any) -> Block:
        """Copy a buffer that a block reads, in the order of the block's axes: `Schedule.reindex`. Or compute the block
        into such a copy of what it writes, which is `cache_write`.

        buffer: ("read", 0) or ("write", 0), a name or a tensor
        """
        stage = self._stage(block)
        read, written = self._buffers(stage), [*stage.op.outputs]
        if isinstance(buffer, tuple):
            kind, which = buffer
            if kind not in ("read", "write"):
                self._refuse(f"reindex({stage.name}, {buffer!r})", f"no kind {kind!r}", '("read", 0), ("write", 0)')
            tensor = self._buffer(stage, read if kind == "read" else written, which, "reindex")
        else:
            tensor = self._buffer(stage, [*read, *written], buffer, "reindex")
        if tensor in written:
            return self.cache_write(self._block(stage), tensor, "global")
        return self._block(self.schedule.stage(self._do(stage, "reindex", tensor)))

    def _buffer(self, stage: Stage, buffers: Sequence[Tensor], which: int | str | Tensor, asked: str) -> Tensor:
        names = [t.name for t in buffers]
        if isinstance(which, Tensor) and which in buffers:
            return which
        if isinstance(which, str) and which in names:
            return buffers[names.index(which)]
        if isinstance(which, int) and 0 <= which < len(buffers):
            return buffers[which]
        legal = f"buffers: {', '.join(f'{i}: {n}' for i, n in enumerate(names)) or 'none'}"
        return self._refuse(f"{asked}({stage.name}, {which!r})", f"{stage.name} has no such buffer", legal)

    def set_scope(self, block: Block, buffer_index: int | str | Tensor, storage_scope: str) -> None:
        """See `Stage.set_scope`."""
        stage = self._stage(block)
        self._buffer(stage, stage.op.outputs, buffer_index, "set_scope")
        self._do(stage, "set_scope", memory(storage_scope))

    def storage_align(
        self, block: Block, buffer_index: int | str | Tensor, axis: int, factor: Any, offset: Any = 0
    ) -> None:
        """See `Stage.storage_align`; `axis` is a dimension of the buffer."""
        stage = self._stage(block)
        self._buffer(stage, stage.op.outputs, buffer_index, "storage_align")
        if not -len(stage.axis) <= axis < len(stage.axis):
            legal = f"0 to {len(stage.axis) - 1}"
            self._refuse(f"storage_align({stage.name}, axis={axis})", f"{stage.name} has no dimension {axis}", legal)
        self._do(stage, "storage_align", stage.roots[stage.axis[axis]].name, factor, offset)

    def rolling_buffer(self, block: Block, write_buffer_index: int | str | Tensor) -> None:
        """See `Stage.rolling_buffer`."""
        stage = self._stage(block)
        self._buffer(stage, stage.op.outputs, write_buffer_index, "rolling_buffer")
        self._do(stage, "rolling_buffer")

    def transform_layout(
        self,
        block: Block,
        buffer: tuple[str, int] | str | Tensor,
        index_map: Any,
        pad_value: Any = None,
        *,
        assume_injective_transform: bool = False,
    ) -> None:
        """Change the layout of a buffer that a block writes, or reads: see `Stage.transform_layout`.

        buffer:    `("write", 0)`, `("read", 1)`, a name or a tensor
        index_map: a function of the indices, or a `tir.IndexMap`. The block that computes the buffer keeps its loops
                   where the new indices are digits of the old ones; else it gets the loops of the new ones
        pad_value: what padding holds: a number; without it, copies of the last element
        """
        pad_value = getattr(pad_value, "value", pad_value)
        if not isinstance(pad_value, (int, float, type(None))):
            asked = "transform_layout(pad_value=..)"
            self._refuse(asked, "padding that differs from place to place is a te.compute of its own", "a number")
        stage = self._stage(block)
        which = buffer[1] if isinstance(buffer, tuple) else buffer
        reads = self._buffers(stage)
        if isinstance(buffer, tuple):
            known = {"read": reads, "write": list(stage.op.outputs)}.get(buffer[0], [])
        else:
            known = [*stage.op.outputs, *reads]
        tensor = self._buffer(stage, known, which, "transform_layout")
        mapping = index_map
        if hasattr(index_map, "map_indices"):
            mapping = lambda *indices: list(index_map.map_indices(indices))  # noqa: E731
        owner = self.schedule.stage(tensor)
        before = [x for x in owner.loops if not x.is_reduce]
        extents, plain = list(tensor.shape), before == [owner.roots[a] for a in owner.axis]
        self._do(owner, "transform_layout", mapping, pad_value=pad_value)
        if before and plain:
            rearranging.as_before(self.schedule.apply, owner, before, extents, Layout.of(mapping, len(extents)))

    def transform_block_layout(self, block: Block, index_map: Any) -> None:
        """Give a block a loop for each new index, which is a sum of its loops such as `i * 128 + j`."""
        stage = self._stage(block)
        try:
            found = rearranging.groups(stage, index_map)
        except rearranging.NoOrder as why:
            self._refuse("transform_block_layout(..)", str(why), "sums of loops, as lambda i, j: [i * 128 + j]")
        ordered = [x for group in found for x in group]
        if ordered != stage.loops:
            self._do(stage, "reorder", *ordered)
        for group in found:
            if len(group) > 1:
                self._do(stage, "fuse", *group)

    def blockize(self, target: Loop, preserve_unit_iters: bool = True) -> Block:
        """Return a name for all that a loop computes, to be tensorized or moved as one: a stage has no blocks inside.

        The loops of the new block are those outside of the loop, the loops of the old one those from it on inwards.
        """
        stage = self._owner("blockize", [target])
        inner = self._block(stage)
        outer = Block(f"{inner.name}_o")
        if outer.name in self._inner:
            self._refuse(f"blockize({target.name})", f"{outer.name} is there already", "one block around another")
        self._inner[outer.name] = inner, stage.loops[stage.loops.index(target) :]
        return outer

    def tensorize(self, block_or_loop: Block | Loop, tensor_intrin: Any, preserve_unit_iters: bool = True) -> None:
        """Replace a loop and those inside, or all loops of a block, by an intrinsic: see `Stage.tensorize`."""
        tensor_intrin = intrinsic(tensor_intrin)
        loop = block_or_loop
        if isinstance(block_or_loop, Block):
            loops = list(self._stage(block_or_loop).loops)
            if block_or_loop.name in self._inner:
                loops = loops[rearranging.parted(loops, self._inner[block_or_loop.name][1]) :]
            if not loops:
                self._refuse(f"tensorize({block_or_loop.name})", "it has no loops", "a block of one dimension at least")
            loop = loops[0]
        assert isinstance(loop, Loop)
        self._do(self._owner("tensorize", [loop]), "tensorize", loop, tensor_intrin)

    # -- reductions -----------------------------------------------------------------------------
    def rfactor(self, loop: Loop, factor_axis: int = 0) -> Block:
        """See `Schedule.rfactor`. Returns the block of the partial results, which has the loops of this one."""
        made = factoring.rfactor(self.schedule.apply, self._owner("rfactor", [loop]), loop, factor_axis)
        if self._checks:
            self._check()
        return self._block(made)

    def decompose_reduction(self, block: Block, loop: Loop) -> Block:
        """See `Stage.decompose_reduction`. Returns the block that sets initial values."""
        stage = self._stage(block)
        self._do(stage, "decompose_reduction", loop)
        return Block(self._block(stage).name + _INIT)
