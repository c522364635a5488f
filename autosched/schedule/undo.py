"""Taking one instruction back out of a trace, and keeping all others that can stay.

    for u in ways_to_undo(trace, at, args):
        u.trace or u.refused                # what is left, or why that is not possible

The trace is replayed twice, side by side: as it is, and without the instruction. For every loop of the
first schedule it is known which loops of the second stand for it, so each instruction that follows is
rewritten to name those:

    split("y", factor=8)                    -
    reorder("y.outer", "x", "y.inner")      reorder("y", "x")
    parallel("y.outer")                     parallel("y")
    unroll("y.inner")                       -

An instruction whose loop or stage is gone (here the loop `y.inner`; the stage of a cache) goes along, and is listed in
`lost`. A stage computed at a loop that is gone is computed at the next loop outside. If an instruction whose loops
still exist becomes illegal, nothing is undone, and `refused` names it. Only an instruction that places a stage takes
those of the stage's producers along, if it cannot go alone. The result computes the same tensors, as every schedule.

Neutral instructions (a split by 1 in place of a split) would keep all names valid without bookkeeping. But there is
none for `fuse`, `cache_write` and `rfactor`, and the shortest schedule would be full of splits by 1.

No primitive is treated by name. The kinds of its arguments say what they name, and the first schedule before and after
it (`_Seen`) shows its effect: loops taken apart, joined or started anew, and stages made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autosched.errors import AutoschedError, RecordError, ScheduleError
from autosched.ir.expr import Expr, const
from autosched.ir.simplify import simplify
from autosched.ir.visit import substitute
from autosched.schedule import formulas
from autosched.schedule import kinds as K
from autosched.schedule.loop import leaf_extents
from autosched.schedule.primitive import PRIMITIVES
from autosched.schedule.schedule import Schedule, create_schedule, perform
from autosched.schedule.stage import Loop, Stage
from autosched.schedule.trace import FOR_TUNING, Instruction, Trace
from autosched.te.tensor import Tensor

#: the loops of a schedule -> how many iterations each has
Extents = Callable[[Schedule], Mapping[Any, Expr]]
#: Iterations that may be written out, or run side by side, where a loop has become longer.
_LONGEST_WRITTEN_OUT = 64


@dataclass(frozen=True)
class Undone:
    """A trace without one of its instructions.

    at, option, way: the position of the undone instruction; its option, if only that was undone; if there are two
                     ways, the loop made by it that stands for the whole (`outer`, `inner`)
    trace:           the rest; None if `refused` gives a reason
    origin:          for each instruction of `trace`, the position of the one it comes from
    lost:            positions of other instructions that went along
    """

    at: int
    option: str = ""
    way: str = ""
    trace: Trace | None = None
    origin: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    refused: str = ""


def undoable(trace: Trace) -> list[tuple[int, str]]:
    """The candidates for undoing: (position, "") for an instruction, (position, option) for an option of it."""
    found = []
    for at, i in enumerate(trace):
        if i.kind in PRIMITIVES:
            alone = (name for name, kind in PRIMITIVES[i.kind].options.items() if kind.neutral and name in i.options)
            found += [(at, ""), *((at, option) for option in alone)]
    return found


def ways_to_undo(
    trace: Trace,
    at: int,
    args: Sequence[Tensor],
    knobs: Mapping[str, int] | None = None,
    option: str = "",
    extents: Extents | None = None,
) -> Iterator[Undone]:
    """The trace without the instruction at a position, or without an option of it, in every way there is.

    args:    the tensors of the graph that the trace is for
    knobs:   values of the trace's knobs
    extents: how many iterations the loops of a schedule have where its stages are computed (lowering
             knows); without it, as many as for whole tensors. A loop that is vectorized, unrolled or
             bound and would become longer than `_LONGEST_WRITTEN_OUT` loses that mark

    Constraints and choices are left out of what comes out. Raises IndexError for a position that the
    trace does not have, RecordError and ScheduleError for a trace that does not replay.
    """
    asked = _Question(trace, at, option, tuple(args), knobs or {}, extents or _whole_extents)
    for way in ("outer", "inner") if asked.has_ways else ("",):
        refused = ""
        for others in (frozenset, asked.producers):
            try:
                yield replace(_Undoing(asked, way, others()).settled(), way=way)
                break
            except _RefusedError as no:
                refused = refused or str(no)
        else:
            yield Undone(at, option, way, refused=refused)


def knobs_of(trace: Trace) -> dict[str, list[int]]:
    """The knobs that a trace defines, each with the positions of the instructions that use it."""
    found: dict[str, list[int]] = {i.args[0]: [] for i in trace if i.kind == "define_knob"}
    for at, i in enumerate(trace):
        for name in i.knobs:
            found.get(name, []).append(at)
    return found


def undo_knob(trace: Trace, name: str, args: Sequence[Tensor], value: int = 1) -> Undone:
    """The trace with a number in place of a knob; 1 makes whatever is as long as the knob says one long."""
    at = next(p for p, i in enumerate(trace) if i.kind == "define_knob" and i.args[0] == name)
    kept = [(p, i) for p, i in enumerate(trace) if p != at and i.kind not in FOR_TUNING]
    others = {k: ["knob", k] for k in knobs_of(trace)}
    try:
        changed = Trace.from_json([i.at({**others, name: value}).to_json() for _, i in kept])
        s = create_schedule(list(args))
        for i in changed:
            perform(s, i)
        s.verify()
    except (RecordError, ScheduleError) as error:
        return Undone(at, refused=error.why)
    return Undone(at, trace=changed, origin=tuple(p for p, _ in kept))


def _whole_extents(s: Schedule) -> dict[Loop, Expr]:
    return {loop: e for x in s.stages for loop, e in leaf_extents(x).items()}


class _RefusedError(Exception):
    """Raised with the reason why an instruction cannot be undone."""


@dataclass(frozen=True)
class _Group:
    """The loops of the new schedule, outermost first, that stand for an old one; none if it is gone. Splits and marks
    go to number `main`."""

    loops: tuple[str, ...] = ()
    main: int = 0

    @staticmethod
    def joined(groups: Sequence[_Group], inner: bool) -> _Group:
        """All groups in one, whose main loop is the innermost or the outermost."""
        alive = [g for g in groups if g.loops]
        loops = tuple(x for g in alive for x in g.loops)
        return alive[0] if len(alive) == 1 else _Group(loops, max(0, len(loops) - 1) if inner else 0)


_GONE = _Group()


class _Seen:
    """The effect of an instruction on a schedule, observed.

    loops:     the loops of its stage before
    made:      the new loops of the stage, each with the old ones that it came from
    stages:    the stages it made; `heir` is the one that took over the loops
    restarted: the stages whose loops started anew
    """

    def __init__(self, s: Schedule, i: Instruction) -> None:
        stage, before = s.stage(i.stage), list(s.stages)
        self.loops = [x.name for x in stage.loops]
        leaves = {x: list(x.loops) for x in before}
        roots, known = {x: (x.axis, dict(x.roots)) for x in before}, list(stage.relations)
        perform(s, i)
        new = [x for x in s.stages if x not in before]
        self.stages = [x.name for x in new]
        self.heir = next((x.name for x in new if set(x.loops) & set(leaves[stage])), None)
        moved = [x for x in before if x is not stage and x.loops != leaves[x]]
        self.restarted = [x.name for x in before if x in moved or _is_restarted(x, *roots[x])]
        came_of: dict[Loop, list[str]] = {x: [x.name] for x in leaves[stage]}
        for r in stage.relations:
            if r not in known:
                of = [name for p in r.parents for name in came_of.get(p, ())]
                came_of.update((x, of) for x in r.made)
        again = stage.name in self.restarted
        self.made = {x.name: came_of.get(x, []) for x in stage.loops if x.name not in self.loops and not again}
        self.is_structure = not new and not again and leaves[stage] != stage.loops


def _is_restarted(stage: Stage, axis: Any, roots: Mapping[Any, Loop]) -> bool:
    return stage.axis != axis or any(roots[a] is not stage.roots[a] for a in roots if a in stage.roots)


class _Question:
    """The instruction to be undone, in the context of the whole trace.

    schedule: the old schedule, complete
    parts:    for each position, the primitives that its instruction called
    has_ways: whether several of the loops made could stand for the whole
    """

    def __init__(
        self, trace: Trace, at: int, option: str, args: tuple[Tensor, ...], knobs: Mapping[str, int], extents: Extents
    ) -> None:
        self.trace, self.at, self.option, self.args, self.knobs, self.extents = trace, at, option, args, knobs, extents
        self.stage = trace[at].stage
        self.schedule, self.has_ways = create_schedule(args), False
        self.parts: dict[int, list[Instruction]] = {}
        for p, i in enumerate(trace):
            if i.kind in PRIMITIVES:
                seen, self.parts[p] = _Seen(self.schedule, i), self.schedule.parts
                self.has_ways |= p == at and not option and any(seen.made.values())
            elif i.kind not in FOR_TUNING:
                perform(self.schedule, i)

    def places(self, position: int) -> bool:
        """Return whether an instruction places a stage or its storage at a loop."""
        i = self.trace[position]
        return i.kind in PRIMITIVES and K.HOST_LOOP in i.kinds

    def producers(self) -> frozenset[int]:
        """The positions of instructions that place producers of the stage, or prefetch them: a stage at the root needs
        these at the root, too. Raises _RefusedError if the instruction places no stage."""
        trace, s = self.trace, self.schedule
        if not self.places(self.at):
            raise _RefusedError
        needed = {x.name for x in s.stages if s.depends_on(s.stage(self.stage), x)}
        more = set()
        for p in self.parts:
            read = zip(trace[p].args, trace[p].kinds, strict=True)
            if any(k is K.TENSOR and a in needed for a, k in read) or (self.places(p) and trace[p].stage in needed):
                more.add(p)
        return frozenset(more)


class _Undoing:
    """One way of undoing: the old schedule, the new one, and what stands for what."""

    def __init__(self, asked: _Question, way: str, without: frozenset[int]) -> None:
        self.asked, self.way = asked, way
        self.without = without  #: positions of what goes along: marks on loops that become too long, producers
        self.old, self.new = create_schedule(asked.args), create_schedule(asked.args)
        self.loops: dict[tuple[str, str], _Group] = {}  #: (stage, loop) -> what stands for it, if not its namesake
        self.stages: dict[str, str | None] = {}  #: stage -> its counterpart, if not its namesake
        self.reads_as: dict[str, str | None] = {}  #: a stage that is gone -> where what it held is read now
        self.readers: dict[str, list[str]] = {}  #: a stage that is gone -> what reads now what it read
        self.copies: set[str] = set()  #: stages whose loops are gone, because a cache kept theirs
        self.structure: dict[str, list[int]] = {}  #: stage -> positions of what was done to its loops so far
        self.layout: frozenset[int] = frozenset()  #: those that only say how the cache is laid out that is undone
        self.origin: list[int] = []
        self.lost: list[int] = []
        self.grown: list[tuple[int, str, str]] = []  #: (position, stage, loop) of marks on loops that may be longer
        self.position = 0
        #: stages that may compute more at a time now
        self.moved = {asked.trace[p].stage for p in (asked.at, *without) if not asked.option and asked.places(p)}

    def settled(self) -> Undone:
        """Undo it; then also marks on loops that have become too long. Raises _RefusedError."""
        found = self.run()
        more = self.layout - self.without or self.too_long()
        return _Undoing(self.asked, self.way, self.without | more).settled() if more else found

    def run(self) -> Undone:
        """Replay both. Raises _RefusedError."""
        for position, i in enumerate(self.asked.trace):
            self.position = position
            if i.kind in FOR_TUNING:
                continue
            if i.kind == "define_knob":
                perform(self.old, i)
                self._do(i)
                continue
            if position == self.asked.at:
                i = replace(i, options={k: v for k, v in i.options.items() if k != self.asked.option})
            parts = self.asked.parts[position]
            whole = not parts or self._goes or all(len(g.loops) == 1 for g in self._groups(i))
            for part in (i,) if whole else parts:
                self._step(part)
        try:
            self.new.verify()
        except ScheduleError as error:
            raise _RefusedError(error.why) from None
        used = {name for i in self.new.trace for name in i.knobs}
        made = zip(self.new.trace, self.origin, strict=True)
        kept = [(i, p) for i, p in made if i.kind != "define_knob" or i.args[0] in used]
        trace, origin = Trace([i for i, _ in kept]), tuple(p for _, p in kept)
        return Undone(
            self.asked.at,
            self.asked.option,
            "",
            trace,
            origin,
            tuple(p for p in dict.fromkeys(self.lost) if p not in origin),
        )

    # -- one instruction --------------------------------------------------------------------------
    @property
    def _goes(self) -> bool:
        """Return whether the current instruction is the one undone, or goes along."""
        return (self.position == self.asked.at and not self.asked.option) or self.position in self.without

    def _step(self, i: Instruction) -> None:
        """Do it to the old schedule, and what stands for it to the new one."""
        changed = None if self._goes else self._translated(i)
        seen = _Seen(self.old, i)
        if changed is None:
            self._leave_out(i, seen, self.position == self.asked.at)
        else:
            self._keep(i, seen, changed)
        for name in seen.restarted:  # namesakes stand for one another
            self.loops = {at: g for at, g in self.loops.items() if at[0] not in seen.restarted}
            self.structure.pop(name, None)
        if seen.is_structure:
            self.structure.setdefault(i.stage, []).append(self.position)

    def _do(self, i: Instruction) -> tuple[list[str], list[str]]:
        """Perform an instruction on the new schedule. Returns the new loops of its stage, and new stages."""
        names, stages = _names_of(self.new, i.stage), [x.name for x in self.new.stages]
        try:
            perform(self.new, i)
        except AutoschedError as error:
            raise _RefusedError(f"{i.as_python()} needs it: {error.why}") from None
        self.origin.append(self.position)
        made = [name for name in _names_of(self.new, i.stage) if name not in names]
        return made, [x.name for x in self.new.stages if x.name not in stages]

    # -- what stands for what ---------------------------------------------------------------------
    def _stage(self, name: str) -> str | None:
        """The counterpart of a stage; None if it is gone."""
        return self.stages.get(name, name)

    def _read(self, name: str) -> str | None:
        """The stage that now holds the elements of that one."""
        found = self._stage(name)
        return self.reads_as.get(name) if found is None else found

    def _readers(self, name: str) -> list[str]:
        """The stages that now read the inputs of that one."""
        found = self._stage(name)
        return self.readers.get(name, []) if found is None else [found]

    def _group(self, stage: str, loop: str) -> _Group:
        """The loops that stand for one of the old schedule."""
        if stage in self.copies:
            return _GONE
        if (stage, loop) in self.loops:
            return self.loops[stage, loop]
        base, _, kind = loop.rpartition(".")
        if kind == "init" and (stage, base) in self.loops:  # which sets what that one sums
            return self._renamed(self.loops[stage, base], ".init", self._stage(stage))
        counterpart = self._stage(stage)
        found = None if counterpart is None else self.new.stage(counterpart).loop_named(loop, init=True)
        return _GONE if found is None else _Group((found.name,))

    def _renamed(self, group: _Group, suffix: str, counterpart: str | None) -> _Group:
        """The loops of a stage that have the names of a group's, with a suffix."""
        stage = None if counterpart is None else self.new.stage(counterpart)
        left = [x + suffix for x in group.loops if stage is not None and stage.loop_named(x + suffix, init=True)]
        return _Group(tuple(left), min(group.main, max(0, len(left) - 1)))

    def _groups(self, i: Instruction) -> list[_Group]:
        """The counterparts of the loops of its stage that an instruction names."""
        return [
            self._group(i.stage, a)
            for a, k in zip(i.args, i.kinds, strict=True)
            if k.name == "loop" and k is not K.HOST_LOOP
        ]

    def _around(self, stage: str, loop: str) -> tuple[str, str] | None:
        """The innermost loop of the new schedule that stands for this one of the old or one around it."""
        for s in (self.old, self.asked.schedule):
            if stage in s:
                for where, name in _outwards(s.stage(stage), loop):
                    counterpart = self._stage(where)
                    group = self._group(where, name)
                    if group.loops and counterpart is not None:
                        return counterpart, group.loops[-1]
        return None

    # -- an instruction in terms of the new schedule ------------------------------------------------
    def _translated(self, i: Instruction) -> Instruction | None:
        """The instruction in terms of the new schedule; None if its subject is gone."""
        kinds = i.kinds
        stage = self._read(i.stage) if K.READERS in kinds else self._stage(i.stage)
        if stage is None or (i.stage in self.copies and K.READERS not in kinds):
            return None
        called = PRIMITIVES[i.kind]
        if called.any_number and called.kinds[-1].name == "loop":
            return self._of_many(i, stage)
        args = []
        for k, (a, kind) in enumerate(zip(i.args, kinds, strict=True)):
            made = self._argument(i, k, a, kind, stage)
            if made is None and a is not None:
                return None
            args.append(made)
        if called.copies(i):
            at = next(k for k, kind in enumerate(kinds) if kind.name == "loop")
            if args[at] != i.args[at] or i.stage in self.moved:
                self.grown.append((self.position, stage, args[at]))
        return replace(i, stage=stage, args=tuple(args))

    def _argument(self, i: Instruction, k: int, a: Any, kind: K.Kind, stage: str) -> Any:
        """An argument in terms of the new schedule; None if it is gone."""
        if kind in (K.HOST, K.HOST_LOOP):
            at = k if kind is K.HOST else k - 1
            place = self._around(*i.args[at : at + 2])
            return None if place is None or place[0] == stage else place[k - at]
        if kind is K.TENSOR:
            return self._read(a)
        if kind is K.READERS:
            return [x for x in dict.fromkeys(r for name in a for r in self._readers(name)) if x != stage] or None
        if kind is K.PREDICATE:
            groups = {name: self._group(i.stage, name) for name in formulas.named(a, "loop")}
            whole = all(len(g.loops) == 1 for g in groups.values())
            return formulas.replaced(a, "loop", lambda name: ["loop", groups[name].loops[0]]) if whole else None
        if kind.name != "loop":
            return a
        group = self._group(i.stage, a)
        if not group.loops and kind is K.LOOP_INSIDE:
            names = _names_of(self.old, i.stage)
            inside = (self._group(i.stage, x) for x in names[names.index(a) :])
            group = next((g for g in inside if g.loops), _GONE)
        return group.loops[group.main if kind.which is None else kind.which] if group.loops else None

    def _of_many(self, i: Instruction, stage: str) -> Instruction | None:
        """A call on any number of loops, with those that are left; None for loops to be joined that are apart now."""
        groups = [g for g in self._groups(i) if g.loops]
        names = [x for g in groups for x in g.loops]
        if PRIMITIVES[i.kind].kinds[-1] is K.JOINED_LOOP:
            names = [g.loops[-1 if k == 0 < len(groups) - 1 else 0] for k, g in enumerate(groups)]
            if any(len(g.loops) > 1 for g in groups[1:-1]):
                return None
        return replace(i, stage=stage, args=tuple(names)) if len(names) >= min(2, len(i.args)) else None

    # -- what came of it ----------------------------------------------------------------------------
    def _leave_out(self, i: Instruction, seen: _Seen, undone: bool) -> None:
        """Record what stands for the loops and stages made by an instruction that is left out."""
        if not undone:
            self.lost.append(self.position)
        groups = self._groups(i)
        before = {name: self._group(i.stage, name) for name in seen.loops}
        inner = self.way == "inner"
        for name, of in seen.made.items():
            chosen = [x for x in of if name == [m for m, o in seen.made.items() if x in o][-1 if inner else 0]]
            found = _Group.joined([before[x] for x in chosen], inner)
            self.loops[i.stage, name] = found if of else groups[0] if groups else _GONE
        if undone and seen.stages and i.stage in seen.restarted and seen.heir is None:
            self.layout = frozenset(self.structure.get(i.stage, ()))
        for made in seen.stages:
            users = self.old.consumers(self.old.stage(made))
            self.reads_as[made] = self._read(i.stage)
            self.readers[made] = list(dict.fromkeys(r for x in users for r in self._readers(x.name)))
            self.stages[made] = None
        if seen.heir is not None:
            self._inherit(i.stage, seen.heir, self._stage(i.stage))
            self.copies.add(i.stage)

    def _inherit(self, stage: str, heir: str, counterpart: str | None) -> None:
        """Record that the loops of a stage have passed to another one."""
        self.loops |= {(heir, loop): g for (x, loop), g in self.loops.items() if x == stage}
        self.stages[heir] = counterpart
        self.structure[heir] = self.structure.pop(stage, [])

    def _keep(self, i: Instruction, seen: _Seen, changed: Instruction) -> None:
        """Perform the translated instruction: its loops and stages stand for those of the original."""
        before = {name: self._group(i.stage, name) for name in seen.loops}
        made, stages = self._do(changed)
        self.stages |= dict(zip(seen.stages, stages, strict=True))
        if seen.heir is not None:
            self._inherit(i.stage, seen.heir, stages[0])
        for old in (x for x in seen.stages if x != seen.heir):
            for name in _names_of(self.old, old):
                for suffix in ("", ".c"):  # the axes of a new stage have the names of loops
                    base = name.removesuffix(suffix)
                    if name.endswith(suffix) and (i.stage, base) in self.loops:
                        self.loops[old, name] = self._renamed(before[base], suffix, self.stages[old])
        if len(made) != len(seen.made):
            self.loops.update(((i.stage, name), _GONE) for name in seen.made)
            return
        for (name, of), new in zip(seen.made.items(), made, strict=True):
            around: list[str] = []  # and inside: loops that also stood for what it came of, and that stay apart
            inside: list[str] = []
            for x in of:
                mine, loops = [m for m, o in seen.made.items() if x in o], before[x].loops
                at = next((k for k, loop in enumerate(loops) if loop in changed.args), before[x].main)
                around += loops[:at] if name == mine[0] else ()
                inside += loops[at + 1 :] if name == mine[-1] else ()
            self.loops[i.stage, name] = _Group((*around, new, *inside), len(around))

    def too_long(self) -> frozenset[int]:
        """The positions of marks that are now on loops of too many, or unknown, iterations."""
        if not self.grown:
            return frozenset()
        values = {k.var: const(self.asked.knobs[k.name]) for k in self.new.knobs.values() if k.name in self.asked.knobs}
        try:
            found = self.asked.extents(self.new)
        except AutoschedError as error:
            raise _RefusedError(error.why) from None
        far = []
        for position, stage, name in self.grown:
            loop = self.new.stage(stage).loop_named(name)
            # a stage that was inlined after the mark has no extents, and nothing is written out
            e = simplify(substitute(found[loop], values)) if loop in found else None
            if e is not None and (e.op != "const" or e.value > _LONGEST_WRITTEN_OUT):
                far.append(position)
        return frozenset(far)


def _names_of(s: Schedule, stage: str) -> list[str]:
    return [x.name for x in s.stage(stage).loops] if stage in s else []


def _outwards(stage: Stage, loop: str) -> Iterator[tuple[str, str]]:
    """A loop and those around it, as (stage, loop), innermost first; also where the stage is computed."""
    found = stage.loop_named(loop)
    loops = stage.loops[: stage.loops.index(found) + 1] if found is not None else []
    for host, around in ((stage, loops), *stage.hosts()):
        yield from ((host.name, x.name) for x in reversed(around))
