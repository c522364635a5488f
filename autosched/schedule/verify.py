"""What must hold of a finished schedule: what a later call could have repaired, seen before lowering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.errors import ScheduleError
from autosched.ir.expr import variables
from autosched.ir.visit import post_order
from autosched.schedule import scans
from autosched.schedule.loop import Fetch, Loop, Split
from autosched.schedule.stage import Stage

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule

__all__ = ["verify"]


def verify(s: Schedule) -> None:
    """Raise ScheduleError for what later calls could have repaired but did not."""
    scans.check(s)
    for stage in s.stages:
        for fetch in stage.fetches:
            _check_fetch(s, stage, fetch)
        _check_storage(s, stage)
        _check_round_up(stage)
        _check_rolling(stage)
        _check_predicate(stage)
        _check_init(stage)
        _check_attachment(s, stage)


def _check_round_up(stage: Stage) -> None:
    """Raise ScheduleError for whole tiles in storage that outlives the region they belong to."""
    outer = stage.store.loop
    padded = next((r for r in stage.relations if isinstance(r, Split) and r.tail == "round_up"), None)
    if padded is not None and outer not in (None, stage.attach.loop):
        raise ScheduleError(
            f"{stage.name} is stored at {outer!r}, where the tiles of one region would overwrite those of another",
            asked=stage.schedule.earlier("split", stage, f"{padded.parent.name}, tail='round_up'"),
            legal="tail='guard', or leave store_at out",
        )


def _check_rolling(stage: Stage) -> None:
    """Raise ScheduleError for a rolling buffer that is computed in no loop."""
    if stage.rolls and stage.attach.kind != "at":
        where = "is inlined" if stage.attach.kind == "inline" else "is computed at the root"
        raise ScheduleError(
            f"{stage.name} {where}: there is no loop for it to roll along",
            asked=stage.schedule.earlier("rolling_buffer", stage),
            legal=f"{stage.name}.compute_at a loop of what reads it",
        )


def _check_predicate(stage: Stage) -> None:
    """Raise ScheduleError where a loop that decides what is stored is gone."""
    if stage.store_predicate is None:
        return
    live = {x.var for x in stage.loops} | {a.var for a in stage.axis}
    gone = [v for v in variables(stage.store_predicate) if v.value.role == "loop" and v not in live]
    if gone:
        raise ScheduleError(
            f"{gone[0].value.name} was split or fused away after {stage.name} was made to depend on it",
            asked=stage.schedule.earlier("set_store_predicate", stage, repr(stage.store_predicate)),
            legal=f"loops of {stage.name}: {stage.describe()}",
        )


def _check_init(stage: Stage) -> None:
    """Raise ScheduleError if loops have changed since the initial values got loops of their own."""
    init = stage.init
    if init is None:
        return
    gone = [x for x in (init.outside, *init.loops) if x not in stage.loops]
    why = f"{gone[0].full_name} was split or fused away afterwards" if gone else ""
    if not gone:
        around = stage.loops[: stage.loops.index(init.outside)]
        moved = [x for x in stage.loops if (x in around) != (x in init.around)]
        why = f"{moved[0].full_name} was moved across {init.outside.name} afterwards" if moved else ""
        apart = [(x, y) for x, y in init.loops.items() if x.thread != y.thread]
        if apart and not why:
            why = f"{apart[0][0]!r} and {apart[0][1]!r} are not bound alike: others would set what is being summed"
    if why:
        asked = stage.schedule.earlier("decompose_reduction", stage, init.outside.name)
        raise ScheduleError(why, asked=asked, legal=f"decompose_reduction last; loops: {stage.describe()}")


def _check_attachment(s: Schedule, stage: Stage) -> None:
    """A stage computed at a loop is there for all that read it, and for nothing that begins before."""
    loop = stage.attach.loop
    if loop is None:
        return
    consumer = loop.stage
    legal = f"loops of {consumer.name}: {consumer.describe()}"
    asked = s.earlier("compute_at", stage, f"{consumer.name}, {loop.name}")
    if loop not in consumer.loops:
        raise ScheduleError(
            f"{loop.full_name} was split or fused away after {stage.name} was put there",
            asked=asked,
            legal=legal,
        )
    if consumer.attach.kind == "inline":
        raise ScheduleError(
            f"{consumer.name} is inlined: it has no loops",
            asked=asked,
            legal=f"compute {stage.name} at a stage that is stored, or compute_root {consumer.name}",
        )
    at = consumer.loops.index(loop)
    outside = [x.name for x in consumer.loops[: at + 1] if x.kind == "vectorize"]
    if outside:
        raise ScheduleError(
            f"{consumer.name}.{outside[0]} is vectorized; a producer cannot be computed inside a vector lane",
            asked=asked,
            legal=legal,
        )
    begins = next((k for k, x in enumerate(consumer.loops) if x.is_reduce), at + 1)
    if consumer.init is not None and consumer.init.outside in consumer.loops:
        begins = consumer.loops.index(consumer.init.outside)
    if at >= begins and stage in _read_first(s, consumer):
        outside = [x.name for x in consumer.loops[:begins]]
        raise ScheduleError(
            f"the reduction {consumer.name} begins with {stage.name}, outside {loop.full_name}",
            asked=asked,
            legal=f"loops outside that: {', '.join(outside) or 'none'}; or compute_root",
        )
    for user in _users_through_inlining(s, stage):
        if not _lies_under(user, consumer, loop):
            raise ScheduleError(
                f"{user.name} also uses {stage.name}, and is not computed inside {loop.full_name}",
                asked=asked,
                legal=f"compute {stage.name} at the root, or {user.name} inside {loop.full_name}",
            )


def _check_fetch(s: Schedule, stage: Stage, fetch: Fetch) -> None:
    source, loop = s.stage(fetch.tensor), fetch.loop
    why, legal = "", f"loops of {stage.name}: {stage.describe()}"
    users = _users_through_inlining(s, source)
    if stage.attach.kind == "inline":
        why, legal = f"{stage.name} is inlined: it has no loops", "prefetch in a stage that is stored"
    elif loop not in stage.loops:
        why = f"{loop.full_name} was split or fused away afterwards"
    elif source.attach.kind == "inline":
        why, legal = f"{source.name} is inlined: it is nowhere in memory", "prefetch what it is computed from"
    elif _lies_under(source, stage, loop):
        why, legal = f"{source.name} is computed inside {loop.full_name}", "prefetch what it is computed from"
    elif not any(_lies_under(user, stage, loop) for user in users):
        why = f"nothing inside {loop.full_name} reads {source.name}"
        legal = f"loops of the stages that do: {', '.join(x.name for x in users)}"
    if why:
        asked = s.earlier("prefetch", stage, f"{source.name}, {loop.name}")
        raise ScheduleError(why, asked=asked, legal=legal)


def _check_storage(s: Schedule, stage: Stage) -> None:
    """The storage of a stage belongs to a loop around its computation, with no race in between."""
    outer, inner = stage.store.loop, stage.attach.loop
    if outer is None:
        return
    asked = s.earlier("store_at", stage, f"{outer.stage.name}, {outer.name}")
    if inner is None or inner.stage is not outer.stage:
        where = "at the root" if inner is None else f"at {inner.full_name}"
        raise ScheduleError(
            f"{stage.name} is computed {where}, not inside {outer.full_name}",
            asked=asked,
            legal=f"{stage.name}.compute_at({outer.stage.name}, ..), or store_at a loop of the same stage",
        )
    loops = outer.stage.loops
    described = f"loops of {outer.stage.name}: {outer.stage.describe()}"
    if outer not in loops:
        raise ScheduleError(
            f"{outer.full_name} was split or fused away after {stage.name} was put there",
            asked=asked,
            legal=described,
        )
    if inner not in loops:
        return  # the attach point itself is wrong, and `check` says so
    if loops.index(outer) > loops.index(inner):
        raise ScheduleError(
            f"{outer.full_name} is inside {inner.full_name}, where {stage.name} is computed",
            asked=asked,
            legal=described,
        )
    between = loops[loops.index(outer) + 1 : loops.index(inner) + 1]
    racing = next((x for x in between if x.kind in ("parallel", "thread")), None)
    if racing is not None:
        raise ScheduleError(
            f"the iterations of {racing!r} run at the same time, and would write one copy of {stage.name}",
            asked=asked,
            legal=f"store_at {racing.name} or a loop inside it, or a serial {racing.name}",
        )


def _read_first(s: Schedule, stage: Stage) -> set[Stage]:
    """The stored stages that the first values of a reduction are computed from."""
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


def _users_through_inlining(s: Schedule, stage: Stage) -> list[Stage]:
    users: list[Stage] = []
    for user in s.consumers(stage):
        users += _users_through_inlining(s, user) if user.attach.kind == "inline" else [user]
    return users


def _lies_under(user: Stage, consumer: Stage, loop: Loop) -> bool:
    while user is not consumer:
        host, around = user.surroundings()
        if host is None:
            return False
        if host is consumer:
            return loop in around
        user = host
    return True
