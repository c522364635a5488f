"""Legal next steps of a schedule: one call of each primitive on each stage.

Arguments of a new primitive are drawn by their kinds (`_DRAWN`), and an illegal call is dropped. Only a proposer of its
own finds out that a primitive refuses too much: a function of the schedule, a stage and a `Draw`, which returns a
`Step` that is legal now, or None.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from autosched.errors import Illegal, ScheduleError
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, const, variables
from autosched.ir.stmt import VTHREAD
from autosched.ir.visit import reads
from autosched.schedule import kinds as K
from autosched.schedule.loop import leaf_extents
from autosched.schedule.primitive import PRIMITIVES, Primitive
from autosched.schedule.primitives.loops import GUARDED, has_room
from autosched.schedule.primitives.matching import matching_axes
from autosched.schedule.primitives.new_stages import BYTES, factors_of_parts, type_of_casts
from autosched.schedule.primitives.place import Group
from autosched.schedule.schedule import Schedule, replay
from autosched.schedule.stage import Loop, Split, Stage
from autosched.target import Target
from autosched.te.extern import ExternOp
from autosched.te.tensor import ComputeOp
from autosched.testing.step import Draw, OpenFactor, Step
from autosched.testing.tiles import PARTS, declare, name_of, types_of

FACTORS = (1, 2, 3, 4, 5, 8, 16)
#: Rows, columns and terms of the tiles of products.
TILES = ((1, 1, 2, 4), (1, 2, 4, 8), (1, 2, 4, 12))
#: Lanes of vector loops and copies of unrolled ones, at most.
MAX_LANES, MAX_COPIES = 32, 9
#: Loops of a stage that may be split, and stages of a schedule that may be cached, at most.
MAX_LOOPS, MAX_STAGES = 6, 9


# -- what a stage allows ----------------------------------------------------------------------------


def _whole(stage: Stage) -> list[Loop]:
    """The loops that no intrinsic replaces."""
    return stage.loops if stage.intrinsic is None else stage.loops[: stage.loops.index(stage.intrinsic[0])]


def _serial(stage: Stage) -> list[Loop]:
    return [loop for loop in _whole(stage) if loop.kind == "serial" and not loop.pragmas]


def _free(stage: Stage) -> list[Loop]:
    """Serial loops that may be split: not the time of a scan or of its steps."""
    scans = stage.schedule.scans
    loops = [loop for loop in _serial(stage) if loop is not stage.scan_loop]
    return [loop for loop in loops if loop.root is None or not scans.follows_time(stage, loop.root)]


def alone(stage: Stage) -> list[Loop]:
    """The loops of `_free` whose iterations are independent."""
    return [x for x in _free(stage) if not x.is_reduce and x not in stage.scatter_loops]


def is_part(s: Schedule, stage: Stage) -> bool:
    """Whether a scan decides the place and the storage of the stage."""
    return s.scans.part(stage) in ("init", "update")


def _at_most(extent: Expr, limit: int) -> bool:
    """Whether an extent is a number or a knob within the limit."""
    if extent.op == "const":
        return int(extent.value) <= limit
    return extent.op == "var" and extent.value.role == "knob" and extent.value.upper <= limit


def fixed(stage: Stage, limit: int) -> list[Loop]:
    """Serial loops whose extent is a number whatever region the stage computes."""
    inner = {r.inner for r in stage.relations if isinstance(r, Split) and r.factor is not None}
    extents = leaf_extents(stage)
    whole = stage.attach.kind == "root"
    return [
        loop for loop in _serial(stage) if (whole or loop.is_reduce or loop in inner) and _at_most(extents[loop], limit)
    ]


def _is_divided(stage: Stage, loop: Loop, amount: Any, draw: Draw) -> bool:
    """Whether a split leaves no remainder at any call, so that it may promise that."""
    if not isinstance(amount, int) or not (loop.is_reduce or (stage.is_output and stage.attach.kind == "root")):
        return False
    extent = leaf_extents(stage)[loop]
    known = {v: draw.sizes[v.name] for v in variables(extent) if v.name in draw.sizes}
    return len(known) == len(variables(extent)) and int(evaluate([extent], known)[0]) % amount == 0


def _hosted(s: Schedule, stage: Stage) -> list[Stage]:
    """The stages computed at a loop of this one."""
    return [x for x in s.stages if x.attach.stage is stage]


# -- proposals: one legal call of each primitive on a stage, or None --------------------------------


def _split(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    loop = draw.one(_free(stage))
    if loop is None or len(stage.loops) > MAX_LOOPS:
        return None
    amount: Any = draw.rng.choice(FACTORS)
    if draw.knobs and len(s.knobs) < 3 and draw.rng.random() < 0.6:
        amount = OpenFactor(f"k{len(s.knobs)}", tuple(sorted(draw.rng.sample(FACTORS, 3))))
    options: dict[str, Any] = {draw.rng.choice(("factor", "factor", "nparts")): amount}
    if draw.rng.random() < 0.5 and _is_divided(stage, loop, amount, draw):
        options |= draw.rng.choice(({"tail": "round_up"}, {"disable_predication": True}))
    elif draw.rng.random() < 0.2 and _may_shift(stage, loop):
        options["tail"] = "shift_inwards"
    elif draw.rng.random() < 0.15:
        options["tail"] = "auto"
    elif draw.rng.random() < 0.3 and not loop.is_reduce:
        options["tail"] = "predicate"
    elif draw.rng.random() < 0.3 and has_room(s, stage, loop):
        options["tail"] = "round_up"
    return Step("split", stage.name, (loop.name,), options)


def _split_into(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    loop = draw.one(_free(stage))
    if loop is None or len(stage.loops) > MAX_LOOPS - 1:
        return None
    parts: list[int | None] = [draw.rng.choice(FACTORS[:5]) for _ in range(draw.rng.randint(2, 3))]
    parts[draw.rng.randrange(len(parts))] = None
    whole = _is_divided(stage, loop, math.prod(p for p in parts if p), draw) and draw.rng.random() < 0.5
    return Step("split_into", stage.name, (loop.name, *parts), {"disable_predication": True} if whole else {})


def _may_shift(stage: Stage, *loops: Loop) -> bool:
    """Whether elements may be computed twice; where sums would be added to twice, only lowering knows."""
    axes = all(x.root is not None and not x.is_reduce for x in loops)
    return axes and not stage.scatter_axes and stage.scan_loop is None


def _tile(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    loops = _free(stage)
    if len(loops) < 2 or len(stage.loops) > MAX_LOOPS:
        return None
    x, y = draw.rng.sample(loops, 2)
    shift = draw.rng.random() < 0.15 and _may_shift(stage, x, y)
    factors = (draw.rng.choice(FACTORS), draw.rng.choice(FACTORS))
    return Step("tile", stage.name, (x.name, y.name, *factors), {"tail": "shift_inwards"} if shift else {})


def _fuse(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    free = _free(stage)
    pairs = [
        (a, b)
        for a, b in zip(stage.loops, stage.loops[1:], strict=False)
        if a in free
        and b in free
        and a.is_reduce == b.is_reduce
        and (a in stage.scatter_loops) == (b in stage.scatter_loops)
    ]
    pair = draw.one(pairs)
    return None if pair is None else Step("fuse", stage.name, tuple(loop.name for loop in pair))


def _reorder(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    if len(stage.loops) < 2 or stage.intrinsic is not None:
        return None
    chosen = draw.rng.sample(stage.loops, draw.rng.randint(2, len(stage.loops)))
    return Step("reorder", stage.name, tuple(loop.name for loop in chosen))


def _parallel(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    loop = draw.one(alone(stage))
    return Step("parallel", stage.name, (loop.name,)) if loop is not None and draw.target.is_cpu else None


def _vectorize(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    usable = [x for x in fixed(stage, MAX_LANES) if not s.attached_at(x)] if stage.scan_loop is None else []
    loop = draw.one([x for x in usable if not (x.is_reduce and stage.scatter_axes)])
    return None if loop is None else Step("vectorize", stage.name, (loop.name,))


def _unroll(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    if sum(x.kind == "unroll" for y in s.stages for x in y.loops) >= 2:
        return None
    loop = draw.one(fixed(stage, MAX_COPIES))
    return None if loop is None else Step("unroll", stage.name, (loop.name,))


def _pragma(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    loop = draw.one(_whole(stage))
    if loop is None or stage.scan_loop is not None:
        return None
    kind = draw.rng.choice(("streaming_store", "streaming_store", "auto_unroll_max_step", "loop_partition_hint"))
    if kind == "streaming_store":
        return None if stage.reduce_axis else Step("pragma", stage.name, (loop.name, kind))
    value = draw.rng.choice((0, 4, 16)) if kind == "auto_unroll_max_step" else draw.rng.choice((0, 1))
    return Step("pragma", stage.name, (loop.name, kind), {"pragma_value": value})


def _prefetch(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    read = [x for x in s.stages if x is not stage and x.attach.kind == "root" and s.depends_on(stage, x)]
    if not read or not _whole(stage) or any(x.fetches for x in s.stages):
        return None
    return Step("prefetch", stage.name, (draw.one(read).name, draw.one(_whole(stage)).name, draw.rng.choice(FACTORS)))


def _hosts(s: Schedule, stage: Stage, draw: Draw) -> list[Stage]:
    """The stages at whose loops this one may be computed."""
    hosts = [x for x in s.consumers(stage, deep=True) if x.attach.kind != "inline" and x.loops]
    scan = s.scans.step_of(stage)
    inner = {r.inner for r in stage.relations if isinstance(r, Split) and r.factor is not None}
    whole = any(x.kind in ("vectorize", "unroll") and x not in inner for x in stage.loops)
    promised = not {r.tail for r in stage.relations if isinstance(r, Split)}.isdisjoint({"exact", "round_up"})
    is_plain = isinstance(stage.op, ComputeOp) and not (stage.scatter_axes or promised or not draw.target.is_cpu)
    fixed_ = (stage.is_output and not is_plain) or is_part(s, stage) or isinstance(stage.op, ExternOp)
    is_free = not (fixed_ or whole or stage.intrinsic is not None)
    return [x for x in hosts if scan is None or s.scans.step_of(x) is scan] if is_free else []


def _place(host: Stage, draw: Draw) -> tuple[str, str] | None:
    loop = draw.one([x for x in _whole(host) if x not in host.scatter_loops])
    return None if loop is None or loop.kind == "vectorize" else (host.name, loop.name)


def _compute_at(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    host = draw.one(_hosts(s, stage, draw))
    place = None if host is None else _place(host, draw)
    return None if place is None else Step("compute_at", stage.name, place)


def _create_group(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    """A stage and some of what it is computed from, all at one loop."""
    host = draw.one(_hosts(s, stage, draw))
    place = None if host is None else _place(host, draw)
    above = [x for x in s.stages if s.depends_on(stage, x)]
    inputs = draw.rng.sample(above, min(len(above), draw.rng.randint(0, 2)))
    moved = [x for x in Group(s, [stage], inputs, False).stages if x.attach.kind == "root"]
    if place is None or stage not in moved or not all(host in _hosts(s, x, draw) for x in moved):
        return None
    return Step("create_group", stage.name, place, {"inputs": [x.name for x in inputs]})


def _store_at(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    inner = stage.attach.loop
    fixed_ = stage.is_output or is_part(s, stage) or stage.store.loop is not None
    if inner is None or inner not in inner.stage.loops or fixed_:
        return None
    loops = inner.stage.loops
    usable = [x for x in loops[: max(loops.index(inner), 1)] if x not in inner.stage.scatter_loops]
    scan = s.scans.step_of(stage)
    if scan is not None and inner.stage is scan:  # what a step computes is gone with it
        usable = [x for x in usable if x is inner]
    loop = draw.one(usable)
    return None if loop is None else Step("store_at", stage.name, (inner.stage.name, loop.name))


def _reverse_compute_at(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    pairs = [
        (x, loop)
        for x in s.reads(stage)
        if not x.is_placeholder and _follows(s, stage, x, "reverse_compute_at")
        for loop in itertools.takewhile(lambda y: not y.is_reduce and y.kind != "vectorize", _whole(x))
    ]
    if not pairs or stage.attach.kind != "root" or stage.intrinsic is not None:
        return None
    producer, loop = draw.rng.choice(pairs)
    return Step("reverse_compute_at", stage.name, (producer.name, loop.name))


def _reverse_compute_inline(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    read = [x for x in s.reads(stage) if not x.is_placeholder and x.attach.kind != "inline"]
    if len(read) != 1 or read[0].reduce_axis or stage.attach.kind != "root" or read[0].attach.kind != "root":
        return None
    legal = stage.intrinsic is None and _follows(s, stage, read[0], "reverse_compute_inline")
    return Step("reverse_compute_inline", stage.name) if legal else None


def _follows(s: Schedule, stage: Stage, producer: Stage, action: str) -> bool:
    try:
        matching_axes(s, stage, producer, action)
    except Illegal:
        return False
    return True


def _decompose_reduction(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    if not stage.reduce_axis or stage.scatter_axes or is_part(s, stage) or stage.init is not None or stage.intrinsic:
        return None
    first = next(i for i, x in enumerate(stage.loops) if x.is_reduce)
    _, _, begin = stage.body[0].value.parts(stage.body[0].args)
    outermost = first if begin else 0  # initial values may be read from what is computed at a loop
    return Step("decompose_reduction", stage.name, (draw.rng.choice(stage.loops[outermost : first + 1]).name,))


def _compute_inline(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    allowed = not stage.is_output and not stage.reduce_axis and not _hosted(s, stage)
    allowed = allowed and stage.scan_loop is None and not is_part(s, stage) and isinstance(stage.op, ComputeOp)
    allowed = allowed and all(isinstance(x.op, ComputeOp) and x.intrinsic is None for x in s.consumers(stage))
    return Step("compute_inline", stage.name) if allowed else None


def _compute_root(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    return None if stage.attach.kind == "root" else Step("compute_root", stage.name)


def _cache_write(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    if stage.scan_loop is not None or stage.scatter_axes or len(s.stages) >= MAX_STAGES or not stage.loops:
        return None
    whole = stage.attach.kind == "root" and s.scans.step_of(stage) is None and not is_part(s, stage)
    if whole and draw.rng.random() < 0.3:
        return Step("cache_write", stage.name, ("local",), {"keep_loops": True})
    marked = any(loop.kind != "serial" or loop.pragmas for loop in stage.loops)
    cut = any(loop.is_reduce and loop.root is None for loop in stage.loops)
    shifted = any(isinstance(r, Split) and r.tail not in GUARDED for r in stage.relations)
    if marked or cut or shifted or _hosted(s, stage) or stage.init is not None:
        return None
    return Step("cache_write", stage.name, ("local",))


def _cache_read(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    tensor = draw.rng.choice(stage.op.outputs)
    readers = [x.name for x in s.readers(tensor) if x.scan_loop is None]
    if not readers or len(s.stages) >= MAX_STAGES:
        return None
    chosen = draw.rng.sample(readers, draw.rng.randint(1, len(readers)))
    options: dict[str, Any] = {"output": tensor.value_index}
    bodies = [e for name in chosen for e in s.stage(name).body]
    found = frozenset(e for body in bodies for e in reads(body) if e.value is tensor)
    if type_of_casts(bodies, found) and all(s.stage(name).intrinsic is None for name in chosen):
        options["cast"] = True
    return Step("cache_read", stage.name, ("local", chosen), options)


def _rfactor(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    loops = stage.reduce_loops
    if not loops or stage.init is not None or stage.intrinsic is not None or len(s.stages) >= MAX_STAGES:
        return None
    if any(x.kind != "serial" or s.attached_at(x) for x in loops):
        return None
    rank = len(stage.axis) - len(stage.scatter_axes)
    options = {"factor_axis": draw.rng.randint(-rank - 1, rank)}
    return Step("rfactor", stage.name, (draw.rng.choice(loops).name,), options)


def _set_scope(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    fixed = stage.is_output or is_part(s, stage)
    return None if fixed else Step("set_scope", stage.name, (draw.rng.choice(("global", "local")),))


def _storage_align(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    if stage.is_output or not stage.axis or stage.scan_loop is not None or s.scans.part(stage):
        return None
    axis = stage.roots[draw.rng.choice(stage.axis)].name
    return Step("storage_align", stage.name, (axis, draw.rng.choice(FACTORS), draw.rng.choice((0, 0, 1, 3))))


_LAYOUTS: tuple[Callable[..., list[Any]], ...] = (
    lambda *i: list(reversed(i)),
    lambda *i: [i[0] // 3, *i[1:], i[0] % 3],
    lambda *i: [i[-1] // 4, *i[:-1], i[-1] % 4],
)


def _transform_layout(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    untouched = not stage.relations and not any(x.mark for x in stage.loops) and not stage.alignments
    if stage.is_output or not stage.axis or not untouched or stage.fetches or _hosted(s, stage):
        return None
    plain = isinstance(stage.op, ComputeOp) and not stage.scatter_axes and not is_part(s, stage)
    readers = s.consumers(stage)
    plain = plain and all(isinstance(x.op, ComputeOp) and x.intrinsic is None for x in readers)
    if not plain or len(stage.axis) > 3:
        return None
    return Step("transform_layout", stage.name, (draw.one(_LAYOUTS),))


def _double_buffer(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    fixed_ = stage.is_output or stage.scan_loop is not None or is_part(s, stage) or stage.doubled
    return None if fixed_ or stage.attach.kind != "at" else Step("double_buffer", stage.name)


def _rolling_buffer(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    """As `store_at`, where no tile outlives its region."""
    if stage.rolls or stage.scan_loop or s.scans.step_of(stage) or _store_at(s, stage, draw) is None:
        return None
    return Step("rolling_buffer", stage.name)


def _specialize(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    if not isinstance(stage.op, ComputeOp) or not s.sizes():
        return None
    if sum(len(x.special_cases) for x in s.stages) >= 2:
        return None
    name = draw.rng.choice(sorted(s.sizes()))
    size, own = ["size", name], draw.sizes.get(name, 0)  # the size's own number: a call runs that version
    factor = own if own > 1 and draw.rng.random() < 0.5 else draw.rng.choice(FACTORS[1:])
    conditions: list[Any] = [
        ["eq", ["floormod", size, factor], 0],
        ["eq", size, factor],
        ["and", ["ge", size, factor], ["eq", ["floormod", size, 2], 0]],
        ["gt", size, factor],
    ]
    return Step("specialize", stage.name, (draw.rng.choice(conditions),))


def _set_store_predicate(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    """A condition that always holds, which passes recognise to different degrees."""
    if not isinstance(stage.op, ComputeOp) or stage.scatter_axes or stage.intrinsic is not None:
        return None
    if stage.store_predicate is not None or stage.scan_loop is not None or not stage.loops or not stage.axis:
        return None
    loop, axis = ["loop", draw.one(stage.loops).name], ["axis", str(draw.rng.randrange(len(stage.axis)))]
    k = draw.rng.choice(FACTORS)
    conditions: list[Any] = [
        ["ge", loop, 0],
        ["or", ["lt", loop, k], ["ge", loop, 2]] if k > 1 else ["ge", axis, 0],
        ["eq", ["add", ["mul", ["floordiv", axis, k], k], ["floormod", axis, k]], axis],
        ["lt", ["floormod", axis, k], k],
    ]
    return Step("set_store_predicate", stage.name, (draw.rng.choice(conditions),))


def _tensorize(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    """Tiles of a product of mixed precision by a micro-kernel, with loops split to fit."""
    types = types_of(stage)
    read = [x for x in s.reads(stage) if x.attach.kind == "inline" or x.op.output_tensor is not x.tensor]
    plain = not stage.relations and not any(x.mark for x in stage.loops) and stage.attach.kind == "root"
    if types is None or read or not plain or stage.store_predicate is not None or stage.init or _hosted(s, stage):
        return None
    sizes, steps, names = [], [], []
    for loop, amounts in zip((stage.roots[a] for a in (*stage.axis, *stage.reduce_axis)), TILES, strict=True):
        exact = [n for n in amounts if _is_divided(stage, loop, n, draw)]
        tail = "round_up" if has_room(s, stage, loop) else "shift_inwards" if _may_shift(stage, loop) else ""
        amount = draw.one(exact or (amounts if tail else ()))
        if amount is None:
            return None
        sizes.append(amount)
        if not loop.is_reduce or leaf_extents(stage)[loop] is not const(amount):
            how = {"disable_predication": True} if exact else {"tail": tail}
            steps.append(Step("split", stage.name, (loop.name,), {"factor": amount, **how}))
        names.append(loop.name)
    outer = [f"{x}.outer" for x in names[: len(steps)]]
    inner = [f"{x}.inner" if k < len(steps) else x for k, x in enumerate(names)]
    name = name_of(types, sizes, draw.rng.choice(PARTS[:2] if len(steps) == 3 else PARTS))
    declare(name)
    order = (*draw.rng.sample(outer, len(outer)), *inner)
    steps += [Step("reorder", stage.name, order), Step("tensorize", stage.name, (inner[0], name))]
    return replace(steps[0], then=tuple(steps[1:]))


def _four_at_a_time(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    """Products of bytes in lanes, four at a time; a copy of one operand has those of each lane side by side."""
    factors = factors_of_parts(stage, *BYTES) if types_of(stage) else ()
    names = [s.stage(e.value).name for e in factors if s.stage(e.value).attach.kind == "root"]
    touched = stage.relations or any(x.mark for x in stage.loops) or stage.attach.kind != "root" or stage.init
    if len(names) < 2 or touched or _hosted(s, stage) or len(s.stages) >= MAX_STAGES:
        return None
    right = draw.rng.choice((names[1], f"{names[1]}.offset"))
    if {f"{right}.global", f"{names[1]}.offset"} & {x.name for x in s.stages}:
        return None
    i, j, k = (stage.roots[a].name for a in (*stage.axis, *stage.reduce_axis))
    steps = [
        Step("offset_bytes", stage.name, (names[1],)),
        Step("cache_read", right, ("global", [stage.name])),
        Step("transform_layout", f"{right}.global", (_LAYOUTS[2],)),
        Step("split", stage.name, (j,), {"factor": draw.rng.choice((2, 4, 8, 16))}),
        Step("split", stage.name, (k,), {"factor": 4}),
        Step("reorder", stage.name, (i, f"{j}.outer", f"{k}.outer", f"{j}.inner", f"{k}.inner")),
        *(Step("vectorize", stage.name, (f"{x}.inner",)) for x in (j, k)),
    ][right == names[1] :]
    return replace(steps[0], then=tuple(steps[1:]))


def _bind(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
    if sum(x.thread == VTHREAD for y in s.stages for x in y.loops) >= 3:
        return None
    free = alone(stage)
    loop = draw.one([x for x in fixed(stage, 4) if x in free])
    return None if loop is None else Step("bind", stage.name, (loop.name, VTHREAD))


Proposer = Callable[[Schedule, Stage, Draw], Step | None]
_ON_INPUTS: tuple[Proposer, ...] = (_cache_read,)
_ON_STAGES: tuple[Proposer, ...] = (
    _split, _split, _split, _split_into, _tile, _tile, _fuse, _reorder, _parallel, _vectorize, _vectorize, _unroll,
    _pragma, _store_at, _store_at, _store_at, _store_at, _store_at,
    _prefetch, _compute_at, _compute_at, _compute_at, _compute_at, _compute_inline, _compute_root, _compute_root,
    _cache_write, _cache_read, _rfactor, _rfactor, _rfactor, _rfactor, _set_scope, _storage_align,
    _bind, *(_reverse_compute_at, _reverse_compute_inline) * 4, *(_decompose_reduction,) * 2,
    _transform_layout, _double_buffer, _double_buffer, *(_rolling_buffer,) * 5,
    *(_specialize, _create_group) * 2, _set_store_predicate, *(_tensorize,) * 16, *(_four_at_a_time,) * 24,
)  # fmt: skip


#: kind of argument -> a value for it; None where there is none
_DRAWN: dict[K.Kind, Callable[[Stage, Draw], Any]] = {
    **dict.fromkeys(
        (K.LOOP, K.JOINED_LOOP, K.SHARED_LOOP, K.LOOP_AROUND, K.LOOP_INSIDE),
        lambda stage, draw: getattr(draw.one(_free(stage)), "name", None),
    ),
    **dict.fromkeys((K.FACTOR, K.PART), lambda stage, draw: draw.one(FACTORS)),
    K.AXIS: lambda stage, draw: getattr(draw.one(stage.axis), "name", None),
    K.FLAG: lambda stage, draw: draw.one((True, False)),
    K.STAGES: lambda stage, draw: [draw.one([x.name for x in stage.schedule.stages])],
    K.TENSOR: lambda stage, draw: getattr(draw.one(stage.schedule.reads(stage)), "name", None),
}


def _by_kinds(known: Primitive) -> Proposer:
    """The proposer of a primitive that has none above: arguments drawn by their kinds, where that is legal."""

    def propose(s: Schedule, stage: Stage, draw: Draw) -> Step | None:
        if len(stage.loops) > MAX_LOOPS:
            return None
        args = tuple(_DRAWN[kind](stage, draw) for kind in known.kinds)
        drawn = {k: _DRAWN[kind](stage, draw) for k, kind in known.options.items() if kind in _DRAWN}
        step = Step(known.name, stage.name, args, {k: v for k, v in drawn.items() if draw.rng.random() < 0.5})
        try:
            step.apply(replay(s.trace, s.outputs))
        except ScheduleError:
            return None
        return step

    return propose


def legal_steps(
    s: Schedule,
    rng: random.Random,
    target: Target | str = "llvm",
    knobs: bool = False,
    sizes: Mapping[str, int] | None = None,
) -> Iterator[Step]:
    """Calls that are legal now, in random order: up to one of each primitive on each stage.

    A legal call raises no error and leaves the schedule consistent (`Schedule.verify`). With `knobs`, some factors are
    left open. Promises about sizes hold for `sizes`, those of calls.
    """
    draw = Draw(rng, Target.parse(target), knobs, sizes or {})
    known = {f.__name__[1:] for f in (*_ON_INPUTS, *_ON_STAGES)}
    others = (p for p in PRIMITIVES.values() if p.name not in known and _DRAWN.keys() >= {*p.kinds})
    on_stages = (*_ON_STAGES, *map(_by_kinds, others))
    pairs = [(x, p) for x in s.stages for p in (_ON_INPUTS if x.is_placeholder else on_stages)]
    rng.shuffle(pairs)
    for stage, propose in pairs:
        step = propose(s, stage, draw)
        if step is not None and stays_consistent(s, step):
            yield step


def stays_consistent(s: Schedule, step: Step) -> bool:
    trial = replay(s.trace, s.outputs)
    step.apply(trial)
    with suppress(ScheduleError):
        trial.verify()
        return True
    return False
