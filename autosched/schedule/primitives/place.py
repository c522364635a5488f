"""Primitives for the place where a stage is computed, and where it is stored.

A stage is always computed inside its consumer. So `reverse_compute_at(C, P, loop)`, `tir.Schedule`'s way of moving a
consumer to its producer, gives C the outer loops of P down to `loop`, with their bindings, and computes P there. One
iteration of C reads one element of P along these loops, so the loops that P keeps in their places have one iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from autosched.errors import Illegal, ScheduleError
from autosched.ir.visit import post_order, reached
from autosched.schedule import kinds as K
from autosched.schedule import scans
from autosched.schedule.following import follows
from autosched.schedule.kinds import computed, leaf, outside_intrinsic
from autosched.schedule.loop import Attach, Fuse, Loop, Split, is_computed_whole
from autosched.schedule.primitive import keeps_meaning, primitive
from autosched.schedule.primitives.matching import Match, fuse_two, matching_axes, split_in_two
from autosched.te.extern import ExternOp
from autosched.te.tensor import ComputeOp

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage


def _check_attachment(s: Schedule, stage: Stage) -> None:
    """Raise ScheduleError unless all readers of a stage are inside the loop it is computed at, and no first value."""
    loop = stage.attach.loop
    if loop is None:
        return
    consumer = loop.stage
    legal = f"loops of {consumer.name}: {consumer.describe()}"
    asked = s.earlier("compute_at", stage, f"{consumer.name}, {loop.name}")
    if loop not in consumer.loops:
        why = f"{loop.full_name} was split or fused away after {stage.name} was put there"
        raise ScheduleError(why, asked=asked, legal=legal)
    if consumer.attach.kind == "inline":
        legal = f"compute {stage.name} at a stage that is stored, or compute_root {consumer.name}"
        raise ScheduleError(f"{consumer.name} is inlined: it has no loops", asked=asked, legal=legal)
    at = consumer.loops.index(loop)
    outside = [x.name for x in consumer.loops[: at + 1] if x.kind == "vectorize"]
    if outside:
        why = f"{consumer.name}.{outside[0]} is vectorized; a producer cannot be computed inside a vector lane"
        raise ScheduleError(why, asked=asked, legal=legal)
    begins = next((k for k, x in enumerate(consumer.loops) if x.is_reduce), at + 1)
    if consumer.init is not None and consumer.init.outside in consumer.loops:
        begins = consumer.loops.index(consumer.init.outside)
    if at >= begins and stage in _read_first(s, consumer):
        why = f"the reduction {consumer.name} begins with {stage.name}, outside {loop.full_name}"
        outside = [x.name for x in consumer.loops[:begins]]
        legal = f"loops outside that: {', '.join(outside) or 'none'}; or compute_root"
        raise ScheduleError(why, asked=asked, legal=legal)
    for user in users_through_inlining(s, stage):
        if not lies_under(user, consumer, loop):
            why = f"{user.name} also uses {stage.name}, and is not computed inside {loop.full_name}"
            legal = f"compute {stage.name} at the root, or {user.name} inside {loop.full_name}"
            raise ScheduleError(why, asked=asked, legal=legal)
    if stage.is_output and not is_computed_whole(s, stage):
        why = f"{stage.name} is an output, and {consumer.name} may not need all of it there"
        legal = f"compute_root, or a reader that goes over every element of {stage.name}"
        raise ScheduleError(why, asked=asked, legal=legal)


@primitive(K.HOST, K.HOST_LOOP, check=_check_attachment)
@keeps_meaning
def compute_at(s: Schedule, stage: Stage, parent: Any, scope: Any) -> Stage:
    """Compute what one iteration of a consumer's loop needs, just before it is needed.

    for y: A[y] = ..                 for y:
    for y: B[y] = g(A[y])     ->         A[y] = ..
                                         B[y] = g(A[y])

    An output may be computed there, too, on CPUs, if its readers need every element of it.
    """
    consumer, loop = _loop_of_a_consumer(s, stage, parent, scope, "compute")
    if loop.kind == "vectorize":
        outside = [x.name for x in consumer.loops if x.kind != "vectorize"]
        raise Illegal(
            f"{loop.full_name} is vectorized; a producer cannot be computed inside a vector lane",
            f"legal for {stage.name}: {', '.join(outside) or 'no loop of ' + consumer.name}\n  {consumer!r}",
        )
    stage.attach = Attach("at", consumer, loop)
    return stage


def _check_storage(s: Schedule, stage: Stage) -> None:
    """Raise ScheduleError unless a stage is stored at a loop around its computation, with no race in between."""
    outer, inner = stage.store.loop, stage.attach.loop
    if outer is None:
        return
    loops, why, legal = outer.stage.loops, "", f"loops of {outer.stage.name}: {outer.stage.describe()}"
    if inner is None or inner.stage is not outer.stage:
        where = "at the root" if inner is None else f"at {inner.full_name}"
        why = f"{stage.name} is computed {where}, not inside {outer.full_name}"
        legal = f"{stage.name}.compute_at({outer.stage.name}, ..), or store_at a loop of the same stage"
    elif outer not in loops:
        why = f"{outer.full_name} was split or fused away after {stage.name} was put there"
    elif inner in loops:  # else the attach point itself is wrong, which `compute_at` checks
        between = loops[loops.index(outer) + 1 : loops.index(inner) + 1]
        racing = next((x for x in between if x.kind in ("parallel", "thread")), None)
        if loops.index(outer) > loops.index(inner):
            why = f"{outer.full_name} is inside {inner.full_name}, where {stage.name} is computed"
        elif racing is not None:
            why = f"the iterations of {racing!r} run at the same time, and would write one copy of {stage.name}"
            legal = f"store_at {racing.name} or a loop inside it, or a serial {racing.name}"
    if why:
        asked = s.earlier("store_at", stage, f"{outer.stage.name}, {outer.name}")
        raise ScheduleError(why, asked=asked, legal=legal)


@primitive(K.HOST, K.HOST_LOOP, check=_check_storage)
@keeps_meaning
def store_at(s: Schedule, stage: Stage, parent: Any, scope: Any) -> Stage:
    """Keep what is computed through all iterations of a loop outside the one of `compute_at`.

    for t:                                 for t:
      for y:                                 allocate A: 3 rows
        allocate A: 3 rows                   for y:
        A[y - 1 .. y + 1] = ..       ->        if y == 0: A[y - 1 .. y] = ..
        B[t, y] = g(A[y - 1 .. y + 1])         A[y + 1] = ..
                                               B[t, y] = g(A[y - 1 .. y + 1])

    Where the region that is needed moves one way as the loops in between advance, an iteration
    computes only what earlier ones have not: a sliding window. Rows that are needed no more make
    room for new ones: the storage is folded to the rows of one window. The innermost dimension is
    never folded, so that vectors stay whole.

    A scan goes on where it was, if each iteration of the loops in between needs the times that come
    next: a block of times is kept, and what its first steps read of the block before.
    """
    consumer, loop = _loop_of_a_consumer(s, stage, parent, scope, "store")
    stage.store = Attach("at", consumer, loop)
    return stage


def _read_first(s: Schedule, stage: Stage) -> set[Stage]:
    """The stored stages from which the first values of a reduction are computed."""
    found: set[Stage] = set()
    waiting = list(stage.first_values)
    while waiting:
        for e in post_order(waiting.pop()):
            read = s.stage(e.value) if e.op == "read" else None
            if read is not None and read.attach.kind == "inline":
                waiting.append(read.body[e.value.value_index])
            elif read is not None:
                found.add(read)
    return found


def users_through_inlining(s: Schedule, stage: Stage) -> list[Stage]:
    """The stages that read it in loops of their own, in order."""
    found: dict[Stage, None] = {}
    seen: set[Stage] = set()
    waiting = s.consumers(stage)[::-1]
    while waiting:
        user = waiting.pop()
        if user in seen:
            continue
        seen.add(user)
        if user.attach.kind == "inline":
            waiting += s.consumers(user)[::-1]
        else:
            found[user] = None
    return list(found)


def lies_under(user: Stage, consumer: Stage, loop: Loop) -> bool:
    return user is consumer or any(host is consumer and loop in around for host, around in user.hosts())


def _loop_of_a_consumer(s: Schedule, stage: Stage, parent: Any, scope: Any, verb: str) -> tuple[Stage, Loop]:
    """The loop of a consumer that `compute_at` or `store_at` names. Raises Illegal."""
    computed(stage)
    consumer = s.stage(parent)
    scans.forbid(stage, f"{verb}_at")
    if stage.is_output and (verb == "store" or not isinstance(stage.op, ComputeOp) or stage.scatter_axes):
        raise Illegal(f"{stage.name} is an output: it is {verb}d at the root", f"{verb}_at is for intermediates")
    if consumer is stage or s.depends_on(stage, consumer):
        legal = f"legal consumers of {stage.name}: {', '.join(x.name for x in s.consumers(stage, deep=True)) or 'none'}"
        raise Illegal(f"{consumer.name} does not come after {stage.name}", legal)
    loop = leaf(consumer, scope)
    if loop in consumer.scatter_loops:
        places = [x.name for x in consumer.loops if x not in consumer.scatter_loops]
        raise Illegal(
            f"{loop.full_name} runs before any point is looked at", f"loops of {consumer.name}: {', '.join(places)}"
        )
    scans.forbid_outside(stage, consumer, loop)
    if not s.depends_on(consumer, stage):
        legal = f"legal consumers: {', '.join(x.name for x in s.consumers(stage, deep=True)) or 'none'}"
        raise Illegal(f"{consumer.name} does not use {stage.name}", legal)
    return consumer, loop


@primitive()
@keeps_meaning
def compute_inline(s: Schedule, stage: Stage) -> Stage:
    """Recompute the element wherever it is read; the tensor is never stored.

    A[i] = f(i); B[i] = g(A[i])   ->   B[i] = g(f(i))
    """
    computed(stage)
    scans.forbid(stage, "compute_inline")
    if stage.is_output:
        raise Illegal(f"{stage.name} is an output: it must be stored", "compute_inline is for intermediates")
    if stage.reduce_axis:
        raise Illegal(f"{stage.name} is a reduction: it cannot be one expression", "compute_at puts it near its use")
    opaque = next((x for x in s.consumers(stage) if isinstance(x.op, ExternOp)), None)
    if opaque is not None:
        raise Illegal(f"{opaque.name} is a te.extern, which reads memory", f"{stage.name} stays at the root")
    stage.attach, stage.store = Attach("inline"), Attach()
    return stage


@primitive()
@keeps_meaning
def compute_root(s: Schedule, stage: Stage) -> Stage:
    """Compute the whole tensor before anything that needs it: the default."""
    if not isinstance(stage.op, ExternOp):  # which is nowhere else
        computed(stage)
    stage.attach, stage.store = s.scans.home(stage), Attach()
    return stage


def _check_shared_loops(s: Schedule, stage: Stage) -> None:
    """Raise ScheduleError unless the loops that two stages share are still there, alike, and the stages independent."""
    loop = stage.shares
    if loop is None:
        return
    other, why = loop.stage, ""
    asked = s.earlier("compute_with", stage, f"{other.name}, {loop.name}")
    needed = _tied_to(s, stage, other)
    legal = f"loops of {other.name}: {other.describe()}; loops of {stage.name}: {stage.describe()}"
    moved = next((x for x in (stage, other) if x.attach.kind != "root"), None)
    if loop not in other.loops:
        why = f"{loop.full_name} was split or fused away"
    elif moved is not None:
        why, legal = f"{moved.name} is not computed at the root", "compute_with before stages of which neither moves"
    elif needed is not None:
        why, legal = f"{stage.name} and {needed.name} depend on each other", _APART
    else:
        pairs = list(shared_loops(stage))
        if len(pairs) <= other.loops.index(loop):
            why = f"{stage.name} has {len(pairs)} loops"
        for x, y in pairs:
            kinds = {x.kind, y.kind}
            if len(kinds) > 1 or not kinds <= {"serial", "parallel"}:
                why = f"{x.full_name} is {x.kind}, {y.full_name} is {y.kind}: shared loops are of one kind"
    if why:
        raise ScheduleError(why, asked=asked, legal=legal)


#: what `compute_with` is for
_APART = "stages of which none needs another, or which read what the same iteration has computed"


def _tied_to(s: Schedule, stage: Stage, other: Stage, loop: Loop | None = None) -> Stage | None:
    """A stage in the loops of `other` that needs `stage`, or that `stage` needs, and that does not go with it iteration
    by iteration. Of stages that do, the one whose loops they are comes first, and the others in their order."""
    loop = stage.shares if stage.shares is not None else loop
    group = [other, *(x for x in s.stages if x.shares is not None and x.shares.stage is other and x is not stage)]
    depth = 0 if loop is None or loop not in other.loops else other.loops.index(loop) + 1
    for x in group:
        reader, producer = (stage, x) if s.depends_on(stage, x) else (x, stage)
        if not s.depends_on(reader, producer):
            continue
        in_order = x.shares is loop if x is not other else producer is other
        if not depth or not in_order or not follows(s, reader, producer, [*group, stage], depth):
            return x
    return None


def shared_loops(stage: Stage) -> Iterator[tuple[Loop, Loop]]:
    """The pairs of loops that `compute_with` makes one, outermost first: the other stage's, and the stage's own."""
    if stage.shares is not None:
        others = stage.shares.stage.loops
        yield from zip(others[: others.index(stage.shares) + 1], stage.loops, strict=False)


@primitive(K.HOST, K.HOST_LOOP, check=_check_shared_loops)
@keeps_meaning
def compute_with(s: Schedule, stage: Stage, parent: Any, scope: Any) -> Stage:
    """Compute two stages in the same loops, down to a loop of the other one: what both read is read while it is near.

    for y: for x: A[y, x] = f(I[y, x])         for y:
    for y: for x: B[y, x] = g(I[y, x])   ->      for x: A[y, x] = f(I[y, x])
                                                 for x: B[y, x] = g(I[y, x])

    Both are computed at the root, and neither needs the other; or the first one reads what the same iteration of the
    other has computed, element by element: B[y, x] = g(A[y, x]). The loops of both, down to that one, have the same
    lengths and are serial or parallel alike. A reduction may share reduce loops, if its first values are set outside.
    It is Halide's `compute_with`.
    """
    other = s.stage(parent)
    for x in (stage, other):
        computed(x)
        scans.forbid(x, "compute_with")
        if x.scatter_axes or x.scan_loop is not None:
            raise Illegal(f"the elements of {x.name} are not computed one by one", "stages made by te.compute")
        if x.attach.kind != "root":
            raise Illegal(f"{x.name} is not computed at the root", "compute_root it first")
    loop = leaf(other, scope)
    needed = stage if other is stage else _tied_to(s, stage, other, loop)
    if needed is not None:
        raise Illegal(f"{stage.name} and {needed.name} depend on each other", _APART)
    hosts = [x.shares.stage for x in s.stages if x.shares is not None]
    if stage.shares is not None or other.shares is not None or stage in hosts:
        taken = other if other.shares is not None else stage
        raise Illegal(f"{taken.name} shares loops already", "several stages with one other, each of them once")
    if loop.kind not in ("serial", "parallel"):
        raise Illegal(f"{loop.full_name} is marked {loop.kind}", "loops that are serial or parallel")
    stage.shares = loop
    return stage


# -- a consumer at its producer -------------------------------------------------------------------
@primitive(K.HOST, K.HOST_LOOP)
@keeps_meaning
def reverse_compute_at(s: Schedule, stage: Stage, parent: Any, scope: Any) -> Stage:
    """Compute a consumer where its producer is, element by element, inside a loop of the producer.

    for i.outer: for i.inner: P[i] = ..      for i.outer:
    for i: C[i] = g(P[i])               ->       for i.inner: P[i] = ..
                                                 for i.inner: C[i] = g(P[i])

    The consumer's own loops start anew. It must read the producer at one element whose indices are
    axes of its own, or digits of them (`P[y // 4, x, y % 4]`), and be the only one that reads it.
    """
    computed(stage)
    producer = s.stage(parent)
    computed(producer)
    loop = leaf(producer, scope)
    match = matching_axes(s, stage, producer, "reverse_compute_at")
    outer = producer.loops[: producer.loops.index(loop) + 1]
    inner_to = next((x for x in outer if x.is_reduce), None)
    if inner_to is not None:
        spatial = [x.name for x in producer.loops[: producer.loops.index(inner_to)]]
        raise Illegal(
            f"{producer.name} is not finished inside its reduce loop {inner_to.name}",
            f"loops of {producer.name} outside: {', '.join(spatial) or 'none; reorder brings some there'}",
        )
    outside_intrinsic(loop, "compute at")
    lanes = next((x for x in outer if x.kind == "vectorize"), None)
    if lanes is not None:
        raise Illegal(
            f"{lanes.full_name} is vectorized; {producer.name} cannot be computed inside a vector lane",
            f"a loop outside {lanes.name} of {producer.name}: {producer.describe()}",
        )
    _take_over(s, stage, producer, outer, match)
    producer.attach, producer.store = Attach("at", stage, loop), Attach()
    return stage


@primitive()
@keeps_meaning
def reverse_compute_inline(s: Schedule, stage: Stage) -> Stage:
    """Finish each element where it is computed; the producer's tensor is never stored.

    for i.outer: for i.inner: P[i] = f(i)
    for i: C[i] = g(P[i])                    ->   for i.outer: for i.inner: C[i] = g(f(i))

    The consumer takes over the producer's loops, with all that was said of them.
    """
    computed(stage)
    producers = [x for x in s.reads(stage) if not x.is_placeholder and x.attach.kind != "inline"]
    if len(producers) != 1:
        read = ", ".join(x.name for x in producers) or "none that is computed"
        raise Illegal(f"{stage.name} has no single producer", f"one stage that is read; {stage.name} reads {read}")
    (producer,) = producers
    if producer.reduce_axis:
        raise Illegal(
            f"{producer.name} is a reduction: it cannot be one expression",
            f"reverse_compute_at a loop of {producer.name} outside its reduce loops",
        )
    for loop in producer.loops:
        outside_intrinsic(loop, "reverse_compute_at")
    match = matching_axes(s, stage, producer, "reverse_compute_inline")
    _take_over(s, stage, producer, list(producer.loops), match)
    producer.attach, producer.store = Attach("inline"), Attach()
    return stage


def _take_over(s: Schedule, stage: Stage, producer: Stage, outer: list[Loop], match: Match) -> None:
    """Restart the stage with the splits and fusions that made these loops of the producer, and put them outermost.

    The loop objects become the stage's, with their marks and the stages computed there, so that handles to them stay
    valid. The producer gets new ones in their places.
    """
    needed = set(outer)
    relations: list[Split | Fuse] = []
    for r in reversed(producer.relations):
        if needed.intersection(r.made):
            relations.insert(0, r)
            needed.update(r.parents)
    stage.define(stage.axis, stage.reduce_axis, stage.body)
    loops = match.loops(stage, {a for a, x in producer.roots.items() if x in needed})
    same = {producer.roots[a]: x for a, x in loops.items()}
    for r in relations:
        match r:
            case Split():
                names = _renamed(r.outer, r.parent, same[r.parent]), _renamed(r.inner, r.parent, same[r.parent])
                tail = r.tail if r.tail in ("exact", "predicate") else "guard"  # there is no room to round up into
                made = partial(Split, same[r.parent], factor=r.factor, nparts=r.nparts, tail=tail)
                same[r.outer], same[r.inner] = split_in_two(stage, same[r.parent], made, names)
            case Fuse():
                same[r.fused] = fuse_two(stage, same[r.outer], same[r.inner])
    taken = [same[x] for x in outer]
    stage.loops = [*taken, *(x for x in stage.loops if x not in taken)]
    for x, y in zip(outer, taken, strict=True):
        exchange(x, y)
    _let_go(producer, set(taken))
    for guest in s.stages:
        for where in ("attach", "store"):
            at = getattr(guest, where)
            if at.loop in outer:
                setattr(guest, where, Attach(at.kind, stage, at.loop))


def _renamed(x: Loop, parent: Loop, mine: Loop) -> str:
    """`i.outer` of the producer's `i` is `y.outer` of the consumer's `y`."""
    return mine.name + x.name.removeprefix(parent.name) if x.name.startswith(parent.name) else x.name


def _let_go(stage: Stage, taken: set[Loop]) -> None:
    """Remove loops that another stage has taken over; those inside run over what is left.

    If the outer loop of a split is gone, the inner one stands for the whole; an axis without any loop gets its own
    back, for its one element.
    """
    kept: list[Split | Fuse] = []
    whole: dict[Loop, Loop] = {}  # loops that another one has become
    for r in reversed(stage.relations):
        match r:
            case Split() if r.outer in taken and r.inner in taken:
                taken.add(r.parent)
            case Split() if r.outer in taken:
                whole[r.parent] = whole.get(r.inner, r.inner)
            case Fuse() if r.fused in taken:
                taken |= {r.outer, r.inner}
            case Split():
                kept.insert(0, replace(r, outer=whole.get(r.outer, r.outer), inner=whole.get(r.inner, r.inner)))
            case Fuse():
                kept.insert(0, replace(r, fused=whole.get(r.fused, r.fused)))
    stage.relations = kept
    stage.roots = {a: whole.get(x, x) for a, x in stage.roots.items()}
    for a, x in stage.roots.items():
        x.root = a
    made, used = dict.fromkeys(stage.roots.values()), set[Loop]()
    for r in kept:
        made.update(dict.fromkeys(r.made))
        used.update(r.parents)
    leaves = [x for x in made if x not in used]
    stage.loops = [*(x for x in leaves if x not in stage.loops), *(x for x in stage.loops if x in leaves)]


def exchange(x: Loop, y: Loop) -> None:
    """Swap two loops: each object gets the other's place and name, and keeps its marks."""
    swap = {x: y, y: x}
    for stage in {x.stage, y.stage}:
        stage.exchange(swap)
    for what in ("stage", "name", "root", "var", "is_reduce"):
        a, b = getattr(x, what), getattr(y, what)
        setattr(x, what, b)
        setattr(y, what, a)


# -- several stages at once -----------------------------------------------------------------------
class Group:
    """The stages between some inputs and outputs, including those made later.

    A trace keeps the calls on each stage, so a group is not part of it.
    """

    def __init__(self, s: Schedule, outputs: Sequence[Stage], inputs: Sequence[Stage], include_inputs: bool) -> None:
        self._schedule, self._outputs, self._inputs = s, tuple(outputs), tuple(inputs)
        self._include_inputs = include_inputs
        self._moved: set[Stage] = set()
        self.attach_stage: Stage | None = None  #: that it was moved into

    @property
    def stages(self) -> list[Stage]:
        """The members, producers first: what the outputs need, down to the inputs."""
        s = self._schedule
        found = {*reached(self._outputs, lambda x: () if x in self._inputs else s.reads(x))}
        found -= set() if self._include_inputs else {*self._inputs}
        return [x for x in s.stages if x in found and not x.is_placeholder]

    def compute_at(self, parent: Any, scope: Any) -> Group:
        """Compute all members at a loop of a consumer: those at the root, and those that this group, or another
        one around it, put elsewhere before. What is computed at a loop of a member, or inlined, stays so. Raises
        ScheduleError as `Stage.compute_at` does.
        """
        for stage in reversed(self._loose()):
            stage.compute_at(parent, scope)
            self._moved.add(stage)
        self.attach_stage = self._schedule[parent]
        return self

    def compute_root(self) -> Group:
        """Undo `compute_at`."""
        for stage in self._loose():
            stage.compute_root()
        self._moved.clear()
        self.attach_stage = None
        return self

    def _loose(self) -> list[Stage]:
        """The members that are where they were at first, or where a group has put them, outside of this one."""
        s, members = self._schedule, self.stages
        by_groups = {x for g in s.groups for x in g._moved}
        found = []
        for x in members:
            home = s.scans.home(x)
            is_at_first = x.attach.kind == home.kind and x.attach.loop is home.loop
            moves = x.attach.kind == "at" and x.attach.stage not in members and s.scans.part(x) != "update"
            if x.attach.kind == "root" or (moves and (is_at_first or x in by_groups)):
                found.append(x)
        return found

    def __repr__(self) -> str:
        return f"Group({', '.join(x.name for x in self.stages)})"


class PlacePrimitives:
    """Methods of a stage."""

    compute_at = compute_at
    store_at = store_at
    compute_inline = compute_inline
    compute_root = compute_root
    compute_with = compute_with
    reverse_compute_at = reverse_compute_at
    reverse_compute_inline = reverse_compute_inline
