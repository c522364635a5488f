"""The replay behind `schedule.undo`: a schedule, and beside it the same without one instruction.

For every loop of the first it is known which loops of the second stand for it (`_Group`), and for every
stage which one. There is a method for each primitive that makes loops or stages (`_split`, `_cache_write`);
the others go through `_any`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from autosched.errors import AutoschedError, ScheduleError
from autosched.ir.expr import Expr, const
from autosched.ir.simplify import simplify
from autosched.ir.visit import substitute
from autosched.schedule.schedule import Schedule, create_schedule, perform, replay
from autosched.schedule.stage import Loop, Stage
from autosched.schedule.trace import SHAPES, Instruction, Trace, argument_kinds
from autosched.te.tensor import Tensor

__all__ = ["FOR_TUNING", "Extents", "RefusedError", "Surgeon", "Undone", "named_knobs"]

#: the loops of a schedule -> how many iterations each has
Extents = Callable[[Schedule], Mapping[Any, Expr]]

#: instructions on the schedule itself, that say what tuning may try: a schedule with values needs only the knobs
FOR_TUNING = ("constrain", "among", "choose")
#: instructions that change the loops of a stage
_LOOP_STRUCTURE = ("split", "split_into", "tile", "fuse", "reorder")
#: marks that write out every iteration, or need one work-item for each: not for loops longer than these
_WRITTEN_OUT = ("vectorize", "unroll", "bind", "tensorize")
_LONGEST_WRITTEN_OUT = 64


@dataclass(frozen=True)
class Undone:
    """A trace without one of its instructions.

    at, option, way: what was undone: the instruction of that position, or one option of it; where there
                     are two ways, which of the loops it made stands for the whole (`outer`, `inner`)
    trace:           what is left; None where `refused` says why there is nothing
    origin:          for each instruction of `trace`, the position of the one that it comes from
    lost:            positions of other instructions that went along
    """

    at: int
    option: str = ""
    way: str = ""
    trace: Trace | None = None
    origin: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    refused: str = ""


def named_knobs(data: Any) -> Iterator[str]:
    """The knobs in an instruction in JSON form."""
    if isinstance(data, list) and len(data) == 2 and data[0] == "knob":
        yield data[1]
    elif isinstance(data, (list, dict)):
        for x in data.values() if isinstance(data, dict) else data:
            yield from named_knobs(x)


class RefusedError(Exception):
    """Why an instruction cannot be undone."""


@dataclass(frozen=True)
class _Group:
    """The loops of the new schedule, outermost first, that stand for one of the old; `main` is the one
    that splits and marks go to. Without loops, it is gone."""

    loops: tuple[str, ...] = ()
    main: int = 0

    @property
    def name(self) -> str:
        return self.loops[self.main]


_GONE = _Group()


class Surgeon:
    """One undoing: the old schedule, the new one, and what stands for what."""

    def __init__(
        self,
        trace: Trace,
        at: int,
        args: Sequence[Tensor],
        option: str,
        way: str,
        shunned: frozenset[int] = frozenset(),
    ) -> None:
        self.trace, self.at, self.option, self.way, self.args = trace, at, option, way, args
        self.shunned = shunned  #: positions of what goes along: marks on loops that become too long, producers
        self.old, self.new = create_schedule(list(args)), create_schedule(list(args))
        self.loops: dict[tuple[str, str], _Group] = {}  #: (stage, loop) -> what stands for it, if not its namesake
        self.stages: dict[str, str | None] = {}  #: stage -> its counterpart, if not its namesake
        self.reads_as: dict[str, str] = {}  #: a stage that is gone -> where what it held is read now
        self.readers: dict[str, list[str]] = {}  #: a stage that is gone -> what reads now what it read
        self.copies: set[str] = set()  #: stages whose loops are gone, because a cache kept theirs
        self.origin: list[int] = []
        self.lost: list[int] = []
        self.grown: list[tuple[int, str, str]] = []  #: (position, stage, loop) of marks on loops that may be longer
        self.position = 0
        self.layout = _layout_of(trace, at) if not option else frozenset()
        placed = (trace[p] for p in (at, *shunned) if not option)
        self.moved = {i.stage for i in placed if i.kind == "compute_at"}  #: stages that may compute more at a time now

    def run(self) -> Undone:
        for position, i in enumerate(self.trace):
            self.position = position
            if i.kind in FOR_TUNING:
                continue
            if i.kind == "define_knob":
                perform(self.old, i)
                self._do(i)
                continue
            if self.position == self.at and self.option:
                i = replace(i, options={k: v for k, v in i.options.items() if k != self.option})
            elif self.position in self.layout:
                perform(self.old, i)
                self.lost.append(self.position)
                continue
            self._step(i)
        try:
            self.new.verify()
        except ScheduleError as error:
            raise RefusedError(error.why) from None
        used = {name for i in self.new.trace if i.kind in SHAPES for name in named_knobs(i.to_json())}
        kept = [
            (i, p)
            for i, p in zip(self.new.trace, self.origin, strict=True)
            if i.kind != "define_knob" or i.args[0] in used
        ]
        trace, origin = Trace([i for i, _ in kept]), tuple(p for _, p in kept)
        return Undone(self.at, self.option, self.way, trace, origin, tuple(self.lost))

    # -- one instruction --------------------------------------------------------------------------
    def _step(self, i: Instruction) -> None:
        """Do it to the old schedule, and what stands for it to the new one."""
        stage = self.old.stage(i.stage)
        was = _Before([x.name for x in stage.loops], [x.name for x in stage.loops if not x.is_reduce], set(self._names))
        perform(self.old, i)
        undo = self.position == self.at and not self.option
        handler = getattr(self, f"_{i.kind}", None)
        if handler is not None:
            handler(i, was, undo)
        elif not undo:
            self._any(i)

    @property
    def _names(self) -> list[str]:
        return [x.name for x in self.old.stages]

    def _do(self, i: Instruction) -> list[str]:
        """Do something to the new schedule; the loops of the stage that are new, outermost first."""
        before = set(_names_of(self._new_stage(i.stage)))
        try:
            perform(self.new, i)
        except AutoschedError as error:
            raise RefusedError(f"{i.as_python()} needs it: {error.why}") from None
        self.origin.append(self.position)
        return [name for name in _names_of(self._new_stage(i.stage)) if name not in before]

    def _new_stage(self, name: str) -> Stage | None:
        return self.new.stage(name) if name in self.new else None

    def _lose(self) -> None:
        if self.position != self.at:
            self.lost.append(self.position)

    @cached_property
    def _last(self) -> Schedule:
        """The old schedule when all is done: where stages come to be computed."""
        return replay(Trace([i for i in self.trace if i.kind not in FOR_TUNING]), self.args)

    # -- what stands for what ---------------------------------------------------------------------
    def _stage(self, name: str) -> str | None:
        """The counterpart of a stage; None if it is gone."""
        return self.stages.get(name, name)

    def _read(self, name: str) -> str | None:
        """The stage in which what that one holds is found now."""
        found = self._stage(name)
        return self.reads_as.get(name) if found is None else found

    def _readers(self, name: str) -> list[str]:
        """The stages that read now what that one read."""
        found = self._stage(name)
        return self.readers.get(name, []) if found is None else [found]

    def _group(self, stage: str, loop: str) -> _Group:
        """The loops that stand for one of the old schedule."""
        if stage in self.copies:
            return _GONE
        if (stage, loop) in self.loops:
            return self.loops[stage, loop]
        counterpart = self._stage(stage)
        found = None if counterpart is None else self.new.stage(counterpart).loop_named(loop, init=True)
        return _GONE if found is None else _Group((found.name,))

    def _forget(self, *stages: str) -> None:
        """Their loops have started anew: namesakes stand for one another."""
        self.loops = {at: g for at, g in self.loops.items() if at[0] not in stages}

    def _share_out(self, stage: str, made: Sequence[str], group: _Group, parts: Sequence[str]) -> None:
        """The loops `made` of one for which a group stands, whose main loop became `parts`."""
        for k, (old, new) in enumerate(zip(made, parts, strict=True)):
            before = group.loops[: group.main] if k == 0 else ()
            after = group.loops[group.main + 1 :] if k == len(made) - 1 else ()
            self.loops[stage, old] = _Group((*before, new, *after), len(before))

    def _whole(self, stage: str, made: Sequence[str], group: _Group) -> None:
        """The outermost, or the innermost, of the loops that a split made stands for all; the others are gone."""
        self.loops.update(((stage, name), _GONE) for name in made)
        self.loops[stage, made[0] if self.way != "inner" else made[-1]] = group

    # -- loops -------------------------------------------------------------------------------------
    def _split(self, i: Instruction, was: _Before, undo: bool) -> None:
        made = was.made(self.old.stage(i.stage))
        group = self._group(i.stage, i.args[0])
        counterpart = self._stage(i.stage)
        if undo or counterpart is None or not group.loops:
            self._lose()
            self._whole(i.stage, made, group if undo else _GONE)
            return
        parts = self._do(replace(i, stage=counterpart, args=(group.name, *i.args[1:])))
        self._share_out(i.stage, made, group, parts)

    _split_into = _split

    def _tile(self, i: Instruction, was: _Before, undo: bool) -> None:
        """Two splits and a reorder, of which some may be left."""
        counterpart = self._stage(i.stage)
        xo, yo, xi, yi = was.made(self.old.stage(i.stage))
        groups = [self._group(i.stage, loop) for loop in i.args[:2]]
        if counterpart is None or undo:
            self._lose()
        elif all(len(g.loops) == 1 for g in groups):
            names = self._do(replace(i, stage=counterpart, args=(groups[0].name, groups[1].name, *i.args[2:])))
            self.loops.update(((i.stage, a), _Group((b,))) for a, b in zip((xo, yo, xi, yi), names, strict=True))
            return
        for group, made, factor in zip(groups, ((xo, xi), (yo, yi)), i.args[2:], strict=True):
            if undo or counterpart is None or not group.loops:
                self._whole(i.stage, made, group if undo else _GONE)
                continue
            split = Instruction("split", counterpart, (group.name,), {"factor": factor, **i.options})
            self._share_out(i.stage, made, group, self._do(split))
        if counterpart is not None and not undo:
            self._put_in_order(i.stage, (xo, yo, xi, yi))

    def _fuse(self, i: Instruction, was: _Before, undo: bool) -> None:
        made = was.made(self.old.stage(i.stage))
        counterpart = self._stage(i.stage)
        if not i.args:  # a loop for a tensor without axes
            if counterpart is None or undo:
                self._lose()
            else:
                self._do(replace(i, stage=counterpart))
            return
        groups = [self._group(i.stage, loop) for loop in i.args]
        if not made:  # of one loop, which stays
            if undo or counterpart is None or not groups[0].loops:
                self._lose()
            else:
                self._do(replace(i, stage=counterpart, args=(groups[0].name,)))
            return
        if undo:
            loops = tuple(name for g in groups for name in g.loops)
            self.loops[i.stage, made[0]] = _Group(loops, max(0, len(loops) - 1) if self.way == "inner" else 0)
            return
        self.loops[i.stage, made[0]] = self._fuse_groups(counterpart, groups) if counterpart is not None else _GONE

    def _fuse_groups(self, stage: str, groups: Sequence[_Group]) -> _Group:
        """Fuse what was not kept apart by what is undone: of (a, b) and c, b and c."""
        runs: list[list[str]] = []
        main = 0
        for g in groups:
            for k, name in enumerate(g.loops):
                if k or not runs:
                    runs.append([])
                runs[-1].append(name)
                if len(g.loops) > 1 and k == g.main:
                    main = len(runs) - 1
        if all(len(run) == 1 for run in runs):
            self._lose()
        return _Group(
            tuple(run[0] if len(run) == 1 else self._do(Instruction("fuse", stage, tuple(run)))[0] for run in runs),
            main,
        )

    def _reorder(self, i: Instruction, was: _Before, undo: bool) -> None:
        if undo or self._stage(i.stage) is None or not self._put_in_order(i.stage, i.args):
            self._lose()

    def _put_in_order(self, stage: str, loops: Sequence[str]) -> bool:
        names = [name for loop in loops for name in self._group(stage, loop).loops]
        counterpart = self._stage(stage)
        if len(names) < 2 or counterpart is None:
            return False
        self._do(Instruction("reorder", counterpart, tuple(names)))
        return True

    def _any(self, i: Instruction) -> None:
        """An instruction that makes no loops and no stages."""
        counterpart = self._stage(i.stage)
        kinds = argument_kinds(SHAPES[i.kind][0], len(i.args))
        named = [k for k, kind in enumerate(kinds) if kind == "loop"]
        groups = {k: self._group(i.stage, i.args[k]) for k in named}
        if counterpart is None or i.stage in self.copies or not all(g.loops for g in groups.values()):
            self._lose()
            return
        args = [groups[k].name if k in groups else a for k, a in enumerate(i.args)]
        if i.kind == "parallel":
            args[0] = groups[0].loops[0]
        if i.kind in _WRITTEN_OUT and not (i.kind == "bind" and not str(i.args[1]).startswith("threadIdx")):
            if self.position in self.shunned:
                self._lose()
                return
            if args[0] != i.args[0] or i.stage in self.moved:
                self.grown.append((self.position, counterpart, args[0]))
        self._do(replace(i, stage=counterpart, args=tuple(args)))

    def too_long(self, knobs: Mapping[str, int], extents: Extents) -> frozenset[int]:
        """The marks that are now on loops of too many iterations, or of nobody knows how many."""
        if not self.grown:
            return frozenset()
        values = {k.var: const(knobs[k.name]) for k in self.new.knobs.values() if k.name in knobs}
        try:
            found = extents(self.new)
        except AutoschedError as error:
            raise RefusedError(error.why) from None
        far = []
        for position, stage, name in self.grown:
            loop = self.new.stage(stage).loop_named(name)
            e = None if loop is None else simplify(substitute(found[loop], values))
            if e is not None and (e.op != "const" or e.value > _LONGEST_WRITTEN_OUT):
                far.append(position)
        return frozenset(far)

    # -- where stages are computed ------------------------------------------------------------------
    def _compute_at(self, i: Instruction, was: _Before, undo: bool) -> None:
        counterpart = self._stage(i.stage)
        if undo or counterpart is None or i.stage in self.copies or self.position in self.shunned:
            self._lose()
            return
        place = self._around(*i.args)
        if place is not None and place[0] != counterpart:
            self._do(Instruction(i.kind, counterpart, place))
            return
        self._lose()
        if i.kind == "compute_at" and self.new.stage(counterpart).attach.kind != "root":
            self._do(Instruction("compute_root", counterpart))

    _store_at = _compute_at

    def _around(self, stage: str, loop: str) -> tuple[str, str] | None:
        """The innermost loop of the new schedule that stands for this one of the old or one around it."""
        for s in (self.old, self._last):
            if stage in s:
                for where, name in _outwards(s.stage(stage), loop):
                    counterpart = self._stage(where)
                    group = self._group(where, name)
                    if group.loops and counterpart is not None:
                        return counterpart, group.loops[-1]
        return None

    def _reverse_compute_at(self, i: Instruction, was: _Before, undo: bool) -> None:
        consumer, producer = self._stage(i.stage), self._stage(i.args[0])
        gone = undo or consumer is None or producer is None or {i.stage, i.args[0]} & self.copies
        group = _GONE if gone else self._group(*i.args)
        if not group.loops:
            self._lose()
        else:
            self._do(Instruction(i.kind, str(consumer), (producer, group.loops[-1])))
        self._forget(i.stage, i.args[0])

    def _reverse_compute_inline(self, i: Instruction, was: _Before, undo: bool) -> None:
        consumer = self._stage(i.stage)
        producers = [x.name for x in self.old.reads(self.old.stage(i.stage)) if not x.is_placeholder]
        if undo or consumer is None or i.stage in self.copies:
            self._lose()
        else:
            self._do(replace(i, stage=consumer))
        self._forget(i.stage, *producers)

    # -- stages that are made, or start anew ----------------------------------------------------------
    def _made_stage(self, was: _Before) -> str:
        return next(name for name in self._names if name not in was.stages)

    def _do_making(self, i: Instruction) -> str:
        """Do what makes a stage in the new schedule, too; its name there."""
        before = {x.name for x in self.new.stages}
        self._do(i)
        return next(x.name for x in self.new.stages if x.name not in before)

    def _without(self, made: str, source: str | None, readers: Sequence[str]) -> None:
        """A stage that is not made: what it holds is found in another one, and others read for it."""
        self._lose()
        self.stages[made] = None
        self.readers[made] = list(readers)
        if source is not None:
            self.reads_as[made] = source

    def _cache_read(self, i: Instruction, was: _Before, undo: bool) -> None:
        made, source = self._made_stage(was), self._read(i.stage)
        kept = list(dict.fromkeys(x for name in i.args[1] for x in self._readers(name)))
        if undo or source is None or not kept:
            self._without(made, source, kept)
            return
        self.stages[made] = self._do_making(replace(i, stage=source, args=(i.args[0], kept)))

    def _cache_write(self, i: Instruction, was: _Before, undo: bool) -> None:
        made, counterpart = self._made_stage(was), self._stage(i.stage)
        if i.options.get("keep_loops"):
            moved = {(made, loop): g for (stage, loop), g in self.loops.items() if stage == i.stage}
            self._forget(i.stage)
            self.loops |= moved
            self.stages[made] = counterpart
            if undo or counterpart is None:
                self._lose()
                self.copies.add(i.stage)
            else:
                self.stages[made] = self._do_making(replace(i, stage=counterpart))
            return
        if undo or counterpart is None or i.stage in self.copies:
            self._without(made, self._read(i.stage), self._readers(i.stage))
            self._forget(i.stage)
            return
        leaves = [x.name for x in self.new.stage(counterpart).loops if not x.is_reduce]
        groups = [self._group(i.stage, name) for name in was.spatial]
        cache = self._do_making(replace(i, stage=counterpart))
        self.stages[made] = cache
        self._forget(i.stage)
        there = _names_of(self.new.stage(cache))
        for name, g in zip(_names_of(self.old.stage(made)), groups, strict=False):
            if g.loops:
                self.loops[made, name] = _Group(tuple(there[leaves.index(x)] for x in g.loops), g.main)

    def _rfactor(self, i: Instruction, was: _Before, undo: bool) -> None:
        made, counterpart = self._made_stage(was), self._stage(i.stage)
        group = self._group(i.stage, i.args[0])
        others = {name: self._group(i.stage, name) for name in was.loops}
        (total,) = was.made(self.old.stage(i.stage))
        if undo or counterpart is None or not group.loops:
            self._without(made, None, self._readers(i.stage))
            self.loops[i.stage, total] = group
            return
        before = {x.name for x in self.new.stages}
        (new_total,) = self._do(replace(i, stage=counterpart, args=(group.name, *i.args[1:])))
        self.stages[made] = partial = next(x.name for x in self.new.stages if x.name not in before)
        self.loops[i.stage, total] = _Group((new_total,))
        there = _names_of(self.new.stage(partial))
        for name in _names_of(self.old.stage(made)):
            if name in others:
                left = [x for x in others[name].loops if x in there]
                self.loops[made, name] = _Group(tuple(left)) if left else _GONE

    def _transform_layout(self, i: Instruction, was: _Before, undo: bool) -> None:
        counterpart = self._stage(i.stage)
        if undo or counterpart is None:
            self._lose()
        else:
            self._do(replace(i, stage=counterpart))
        self._forget(i.stage)

    # -- the rest ------------------------------------------------------------------------------------
    def _decompose_reduction(self, i: Instruction, was: _Before, undo: bool) -> None:
        counterpart = self._stage(i.stage)
        inwards = was.loops[was.loops.index(i.args[0]) :]
        groups = [g for g in (self._group(i.stage, name) for name in inwards) if g.loops]
        if undo or counterpart is None or not groups:
            self._lose()
            return
        self._do(replace(i, stage=counterpart, args=(groups[0].loops[0],)))
        old, new = self.old.stage(i.stage).init, self.new.stage(counterpart).init
        assert old is not None and new is not None
        there = {x.name: y.name for x, y in new.loops.items()}
        for x, y in old.loops.items():
            g = self._group(i.stage, x.name)
            left = tuple(there[name] for name in g.loops if name in there)
            self.loops[i.stage, y.name] = _Group(left, min(g.main, max(0, len(left) - 1)))

    def _prefetch(self, i: Instruction, was: _Before, undo: bool) -> None:
        counterpart, source = self._stage(i.stage), self._read(i.args[0])
        group = self._group(i.stage, i.args[1])
        if undo or counterpart is None or source is None or not group.loops or self.position in self.shunned:
            self._lose()
            return
        self._do(replace(i, stage=counterpart, args=(source, group.loops[-1], *i.args[2:])))

    def _set_store_predicate(self, i: Instruction, was: _Before, undo: bool) -> None:
        counterpart = self._stage(i.stage)
        names = {name: self._group(i.stage, name) for name in _loops_in(i.args[0])}
        if undo or counterpart is None or any(len(g.loops) != 1 for g in names.values()):
            self._lose()
            return
        condition = _renamed(i.args[0], {name: g.name for name, g in names.items()})
        self._do(replace(i, stage=counterpart, args=(condition,)))


@dataclass(frozen=True)
class _Before:
    """What the old schedule was before an instruction: the stage's loops, those of them that are
    spatial, and the names of all stages."""

    loops: list[str]
    spatial: list[str]
    stages: set[str]

    def made(self, stage: Stage) -> list[str]:
        """The stage's loops that are new, outermost first."""
        return [name for name in _names_of(stage) if name not in self.loops]


def _names_of(stage: Stage | None) -> list[str]:
    return [] if stage is None else [x.name for x in stage.loops]


def _outwards(stage: Stage, loop: str) -> Iterator[tuple[str, str]]:
    """A loop and those around it, as (stage, loop), innermost first; also where the stage is computed."""
    found = stage.loop_named(loop)
    loops: list[Loop] = stage.loops[: stage.loops.index(found) + 1] if found is not None else []
    while True:
        yield from ((stage.name, x.name) for x in reversed(loops))
        host, loops = stage.surroundings()
        if host is None:
            return
        stage = host


def _layout_of(trace: Trace, at: int) -> frozenset[int]:
    """The instructions that only say how the cache is laid out that a `cache_write` makes: what was
    done to the stage's loops before, which start anew."""
    i = trace[at]
    if i.kind != "cache_write" or i.options.get("keep_loops"):
        return frozenset()
    found = []
    for p in range(at - 1, -1, -1):
        if trace[p].stage == i.stage and trace[p].kind in _LOOP_STRUCTURE:
            found.append(p)
        elif trace[p].stage == i.stage and trace[p].kind in ("cache_write", "rfactor", "transform_layout"):
            break
    return frozenset(found)


def _loops_in(predicate: Any) -> Iterator[str]:
    if isinstance(predicate, list):
        if len(predicate) == 2 and predicate[0] == "loop":
            yield predicate[1]
        else:
            for x in predicate[1:]:
                yield from _loops_in(x)


def _renamed(predicate: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(predicate, list):
        return predicate
    if len(predicate) == 2 and predicate[0] == "loop":
        return ["loop", names[predicate[1]]]
    return [predicate[0], *(_renamed(x, names) for x in predicate[1:])]
