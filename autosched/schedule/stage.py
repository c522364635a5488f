"""A stage: one tensor's loops, how they came about, and where they are computed.

Loops are a list of leaves, outermost first, and relations that made them: see `loop`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autosched.errors import ScheduleError, with_line
from autosched.ir.expr import Expr, as_expr
from autosched.ir.index_bits import without_bits
from autosched.ir.node import remembered
from autosched.ir.stmt import THREAD_TAGS
from autosched.ir.visit import reached, reads
from autosched.schedule.loop import SCOPES, TAILS, Attach, Fetch, Fuse, InitNest, Loop, Split
from autosched.schedule.primitive import PRIMITIVES
from autosched.schedule.primitives.loops import LoopPrimitives
from autosched.schedule.primitives.marks import MarkPrimitives
from autosched.schedule.primitives.new_stages import NewStagePrimitives
from autosched.schedule.primitives.place import PlacePrimitives
from autosched.schedule.primitives.storage import StoragePrimitives
from autosched.te.extern import ExternOp
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, IterVar, Operation, PlaceholderOp, Tensor
from autosched.te.tensor_intrin import TensorIntrin

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule

__all__ = ["SCOPES", "TAILS", "Attach", "Fetch", "Fuse", "InitNest", "Loop", "Split", "Stage"]

#: parts between dots that the name of a loop may have
_MOST_PARTS = 64


class Stage(LoopPrimitives, MarkPrimitives, PlacePrimitives, StoragePrimitives, NewStagePrimitives):
    """One tensor of a schedule. Its methods are the schedule primitives on it, declared in `schedule.primitives`."""

    def __init__(self, schedule: Schedule, tensor: Tensor, name: str, is_output: bool) -> None:
        self.schedule = schedule
        self.tensor = tensor
        self.name = name
        self.is_output = is_output
        self._attach = Attach()
        self._store = Attach()
        self.shares: Loop | None = None  #: a loop of another stage in which it is computed, too, by `compute_with`
        self.rolls = False  #: stored as far out as its iterations can share storage
        self.store_predicate: Expr | None = None
        self.special_cases: list[Expr] = []  #: conditions on sizes that versions of the loops are for
        self.scope = "global"
        self.scope_given = False
        self.doubled = False  #: by `double_buffer`
        self.alignments: dict[IterVar, tuple[Expr, Expr]] = {}  #: axis -> factor and offset of its stride
        op = tensor.op
        self.is_placeholder = isinstance(op, PlaceholderOp)
        self._body: tuple[Expr, ...] = ()
        self._reads: tuple[Tensor, ...] | None = None
        self.axis: tuple[IterVar, ...] = ()
        self.reduce_axis: tuple[IterVar, ...] = ()
        self.loops: list[Loop] = []
        self.relations: list[Split | Fuse] = []
        self.roots: dict[IterVar, Loop] = {}
        #: exact splits whose loops `rfactor` has replaced, with the extents that they have to divide
        self.factored: list[tuple[Split, Expr]] = []
        self.former: dict[IterVar, IterVar] = {}  #: axes that `rfactor` or `cache_write` put others in place of
        self.fetches: list[Fetch] = []
        self.intrinsic: tuple[Loop, TensorIntrin] | None = None  #: what computes the loops from that one on inwards
        self.init: InitNest | None = None  #: of a reduction that `decompose_reduction` took apart
        self._names: set[str] = set()
        if isinstance(op, ComputeOp):
            self.define(op.axis, op.reduce_axis, op.body)
        if isinstance(op, ExternOp):
            self.define((), (), op.body)
        if isinstance(op, ScanOp):
            self.define(op.axis if op.is_uniform else op.axis[:1], (), op.body)

    @property
    def body(self) -> tuple[Expr, ...]:
        """An element of each output; of an input, none."""
        return self._body

    @body.setter
    def body(self, body: tuple[Expr, ...]) -> None:
        self._body, self._reads = body, None
        self.schedule.version += 1

    @property
    def attach(self) -> Attach:
        """The place where it is computed."""
        return self._attach

    @attach.setter
    def attach(self, place: Attach) -> None:
        self.schedule.inlinings += (self._attach.kind == "inline") != (place.kind == "inline")
        before, self._attach = self._attach, place
        self.schedule._relatives.moved(self, before)

    def define(self, axis: tuple[IterVar, ...], reduce_axis: tuple[IterVar, ...], body: tuple[Expr, ...]) -> None:
        """(Re)start the stage with these root loops and element expressions."""
        self.axis, self.reduce_axis = axis, reduce_axis
        self.body = without_bits(body, [(a.var, a.min, a.extent) for a in (*axis, *reduce_axis)])
        self.loops, self.relations = [], []
        self.roots, self.init = {}, None
        self._names = set()
        for a in (*axis, *reduce_axis):
            loop = self.new_loop(a.name, a.kind == "reduce", a)
            self.roots[a] = loop
            self.loops.append(loop)

    def replace_reduction(self, axis: IterVar, body: tuple[Expr, ...], extents: dict[Loop, Expr]) -> None:
        """Replace all reduce loops by one, over `axis`, where the first one was; spatial loops stay.

        `extents` are those of the old loops; exact splits of them are remembered with these, to be checked.
        """
        at = next(i for i, loop in enumerate(self.loops) if loop.is_reduce)
        self.factored += [
            (r, extents[r.parent])
            for r in self.relations
            if isinstance(r, Split) and r.tail == "exact" and r.parent.is_reduce
        ]
        for old in self.reduce_axis:
            del self.roots[old]
        self.former |= dict.fromkeys((*self.former, *self.reduce_axis), axis)
        self.reduce_axis, self.body = (axis,), body
        self.relations = [r for r in self.relations if not r.made[-1].is_reduce]
        loop = self.new_loop(axis.name, True, axis)
        self.roots[axis] = loop
        self.loops = [x for x in self.loops if not x.is_reduce]
        self.loops.insert(at, loop)

    def new_loop(self, name: str, is_reduce: bool, root: IterVar | None = None) -> Loop:
        """A loop of that name, or one with a number where it is taken. Names of loops that were fused again and again
        would double each time: of a long one, the first and the last part stay."""
        parts = name.split(".")
        if len(parts) > _MOST_PARTS:
            name = f"{parts[0]}.{parts[-1]}"
        base, count = name, 0
        while name in self._names:
            count += 1
            name = f"{base}_{count}"
        self._names.add(name)
        return Loop(self, name, is_reduce, root)

    def decompose(self, outside: Loop) -> None:
        """Give the initial values of a reduction loops of their own, marked like those they stand for."""
        place = self.loops.index(outside)
        loops: dict[Loop, Loop] = {}
        for x in self.loops[place:]:
            if not x.is_reduce:
                loops[x] = self.new_loop(f"{x.name}.init", False)
                loops[x].kind, loops[x].thread = x.kind, x.thread
        self.init = InitNest(outside, frozenset(self.loops[:place]), loops)

    def move_loops(self, to: Stage, axes: dict[IterVar, IterVar]) -> None:
        """Give the loops with their marks to another stage; `axes` maps this stage's axes to the other's."""
        to.loops, to.relations, to.fetches, to.init = self.loops, self.relations, self.fetches, self.init
        to.roots, to._names = {axes[a]: loop for a, loop in self.roots.items()}, self._names
        for a, loop in to.roots.items():
            loop.root = a
        made = [x for r in to.relations for x in r.made]
        for loop in (*to.roots.values(), *made, *(to.init.loops.values() if to.init else ())):
            loop.stage = to
        to.factored, self.factored = self.factored, []
        to.intrinsic, self.intrinsic = self.intrinsic, None
        self.fetches = []

    def reads_of_body(self) -> tuple[Tensor, ...]:
        """The tensors that this stage reads, in order of first appearance."""
        if self._reads is None:
            self._reads = tuple(dict.fromkeys(t for e in self._body for t in _tensors_of(e)))
        return self._reads

    def exchange(self, swap: dict[Loop, Loop]) -> None:
        """Replace loops by others in all attributes of the stage."""

        def other(x: Loop) -> Loop:
            return swap.get(x, x)

        self.loops = [other(x) for x in self.loops]
        self.roots = {a: other(x) for a, x in self.roots.items()}
        self.fetches = [replace(f, loop=other(f.loop)) for f in self.fetches]
        self.relations = [
            replace(r, parent=other(r.parent), outer=other(r.outer), inner=other(r.inner))
            if isinstance(r, Split)
            else replace(r, outer=other(r.outer), inner=other(r.inner), fused=other(r.fused))
            for r in self.relations
        ]
        if self.init is not None:
            loops = {other(x): other(y) for x, y in self.init.loops.items()}
            self.init = InitNest(other(self.init.outside), frozenset(map(other, self.init.around)), loops)

    def loop_named(self, name: str, init: bool = False) -> Loop | None:
        """The live loop called `name`, or called so with the stage's name before it; with `init`, also
        one that sets the initial values of a reduction."""
        live = {loop.name: loop for loop in self.loops}
        if init and self.init is not None:
            live.update((loop.name, loop) for loop in self.init.loops.values())
        return live.get(name) or live.get(name.removeprefix(f"{self.name}."))

    @property
    def op(self) -> Operation:
        return self.tensor.op

    def name_of(self, tensor: Tensor) -> str:
        """The name of one of its tensors; where another stage computes one of that name, after that of the stage."""
        return tensor.name if self.name == self.op.name else self.name + tensor.name.removeprefix(tensor.op.name)

    @property
    def is_injective(self) -> bool:
        """Whether each element is computed from single elements, without a reduction."""
        return isinstance(self.op, ComputeOp) and not self.reduce_axis

    @property
    def first_values(self) -> tuple[Expr, ...]:
        """The first values of a reduction with `init=`."""
        if not self.body or self.body[0].op != "reduce":
            return ()
        return self.body[0].value.parts(self.body[0].args)[2]

    @property
    def scatter_axes(self) -> tuple[IterVar, ...]:
        """The axes along which data decide the place of a value."""
        if not self.body or self.body[0].op != "scatter":
            return ()
        return self.axis[len(self.axis) - len(self.body[0].args) + 2 :]

    @property
    def scatter_loops(self) -> list[Loop]:
        """The loops over `scatter_axes`, which only set elements to the combiner's identity."""
        found = self.made_of(self.roots[a] for a in self.scatter_axes)
        return [loop for loop in self.loops if loop in found]

    @property
    def spatial_loops(self) -> list[Loop]:
        """The loops over elements of the result, outermost first."""
        return [x for x in self.loops if not x.is_reduce]

    @property
    def reduce_loops(self) -> list[Loop]:
        """The loops of a reduction, outermost first."""
        return [x for x in self.loops if x.is_reduce]

    def made_of(self, loops: Iterable[Loop]) -> set[Loop]:
        """These loops and all that splits and fusions have made of them."""
        found = set(loops)
        for r in self.relations:
            found.update(r.made if found.intersection(r.parents) else ())
        return found

    @property
    def scan_loop(self) -> Loop | None:
        """The loop over time of a scan, which is never split or fused."""
        return self.roots[self.op.scan_axis] if isinstance(self.op, ScanOp) else None

    def add_singleton(self) -> Loop:
        """A loop with one iteration around all others, for a tensor that has no axes to loop over."""
        axis = IterVar("singleton", as_expr(1))
        loop = self.roots[axis] = self.new_loop("singleton", False, axis)
        self.loops.insert(0, loop)
        return loop

    @property
    def store(self) -> Attach:
        """The place of the storage: a loop of the consumer, if other than that of `attach`."""
        host, at = self.attach.stage, self.attach.loop
        if self.rolls and self._store.loop is None and host is not None and at in host.loops:
            places = host.scatter_loops  # which only set the first values
            return Attach("at", host, _outermost([x for x in host.loops if x not in places], at))
        return self._store

    @store.setter
    def store(self, place: Attach) -> None:
        self._store = place

    def former_of(self, renewed: dict[IterVar, IterVar]) -> dict[IterVar, IterVar]:
        """The axes by which the reduce loops of its cache may be named: its own, of which it has none any more."""
        return {**{old: renewed[a] for old, a in self.former.items() if a in renewed}, **renewed}

    def surroundings(self) -> tuple[Stage | None, list[Loop]]:
        """The stage inside whose loops this one is computed, and those of its loops that are around it."""
        host, at = self.attach.stage, self.attach.loop
        if host is None:
            return None, []
        if self.attach.kind == "init":
            assert host.scan_loop is not None
            return host, host.loops[: host.loops.index(host.scan_loop)]
        return host, host.loops[: host.loops.index(at) + 1] if at in host.loops else []

    def hosts(self) -> Iterator[tuple[Stage, list[Loop]]]:
        """The stages that this one is computed inside, innermost first, each with its loops around it."""
        host, loops = self.surroundings()
        while host is not None:
            yield host, loops
            host, loops = host.surroundings()

    def loops_around(self) -> list[Loop]:
        """The loops of `hosts`, those of the innermost one first."""
        return [loop for _, loops in self.hosts() for loop in loops]

    def describe(self) -> str:
        """The loops outermost first, as an error message shows them."""
        return " / ".join(loop.name + loop.mark for loop in self.loops) or "(no loops)"

    def __repr__(self) -> str:
        return f"Stage({self.name}: {self.describe()})"

    if not TYPE_CHECKING:  # which sees the methods of `schedule.primitives` alone

        def __getattr__(self, name: str) -> Any:
            """A primitive that was declared elsewhere."""
            if name not in PRIMITIVES or PRIMITIVES[name].of_schedule:
                raise AttributeError(f"a stage has no {name!r}")
            return PRIMITIVES[name].method.__get__(self)

    def env_threads(self, threads: Any) -> Stage:
        """Name the hardware axes of the kernels that a scan is computed by.

        A kernel has the axes that its loops are bound to, inside the scan or around it, so this changes
        nothing. Raises ScheduleError for a stage that is no scan and for what is no axis.
        """
        tags = [getattr(t, "thread_tag", t) for t in (threads if isinstance(threads, (list, tuple)) else [threads])]
        asked = with_line(f"{self.name}.env_threads({tags})")
        if self.scan_loop is None:
            raise ScheduleError(f"{self.name} is no scan", asked=asked, legal="bind loops of other stages")
        if not set(tags) <= set(THREAD_TAGS):
            raise ScheduleError("not all are hardware axes", asked=asked, legal=f"legal: {', '.join(THREAD_TAGS)}")
        return self


@remembered
def _tensors_of(e: Expr) -> tuple[Tensor, ...]:
    """The tensors that an expression reads, in order of first appearance."""
    return tuple(dict.fromkeys(x.value for x in reads(e)))


class Relatives:
    """The stages that read each stage of a schedule, those that it needs, and those computed inside: found once for a
    version of it, as long programs ask at every stage."""

    def __init__(self) -> None:
        self._version = -1
        self._readers: dict[Stage, list[Stage]] = {}
        self._needed: dict[Stage, set[Stage]] = {}
        self._inside: dict[Loop | Stage, list[Stage]] = {}

    def readers(self, s: Schedule, stage: Stage) -> list[Stage]:
        """The stages that read this one, in order."""
        self._refresh(s)
        return list(self._readers.get(stage, ()))

    def all_readers(self, s: Schedule, stage: Stage) -> list[Stage]:
        """The same with those that read them, and so on."""
        self._refresh(s)
        found = {*reached(self._readers.get(stage, ()), lambda x: self._readers.get(x, ()))}
        return [x for x in s.stages if x in found]

    def needed(self, s: Schedule, stage: Stage) -> set[Stage]:
        """The stages that this one reads, those that they read, and so on."""
        self._refresh(s)
        if stage not in self._needed:
            self._needed[stage] = {*reached(s.reads(stage), s.reads)}
        return self._needed[stage]

    def inside(self, s: Schedule, host: Loop | Stage) -> list[Stage]:
        """The stages that are computed at a loop, or anywhere inside a stage, in order of computation."""
        self._refresh(s)
        return list(self._inside.get(host, ()))

    def moved(self, stage: Stage, before: Attach) -> None:
        """Note that a stage is computed at another place than before."""
        s = stage.schedule
        if self._version != s.version:
            return
        for host in _hosts(before):
            self._inside[host].remove(stage)
        for host in _hosts(stage.attach):
            there = self._inside.setdefault(host, [])
            there.append(stage)
            if len(there) > 1:
                there.sort(key=s.stages.index)

    def _refresh(self, s: Schedule) -> None:
        if self._version == s.version:
            return
        self._version, self._readers, self._needed, self._inside = s.version, {}, {}, {}
        for x in s.stages:
            # a primitive may ask while tensors that it made have no stage yet
            for read in dict.fromkeys(s._stage_of[t] for t in x.reads_of_body() if t in s._stage_of):
                self._readers.setdefault(read, []).append(x)
            for host in _hosts(x.attach):
                self._inside.setdefault(host, []).append(x)


def _hosts(place: Attach) -> list[Loop | Stage]:
    return [x for x in (place.stage, place.loop) if x is not None]


def _outermost(loops: list[Loop], inner: Loop) -> Loop:
    """The outermost loop around `inner` at which all iterations in between may share storage."""
    chosen = inner
    for loop in reversed(loops[: loops.index(inner)]):
        if chosen.kind in ("parallel", "thread"):
            break
        chosen = loop
    return chosen
