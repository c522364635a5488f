"""Building blocks of templates for GPU-style targets: what most kernels do alike.

    bind_elements(s, s["add"])                    one work-item, one vector of the result
    bind_rows(s, s["sobel"])                      one work-item, an element of a few rows of an image
    share(fetch, items, lanes)                    a work-group copies a tile to shared memory together
    add_up_rows(s, s["row_sum"], row)             the work-items of a group add up a row together

Knobs keep their names, so blocks that a template uses twice share them; where they allow other values, the second
has the stage's name before its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Loop, Stage

#: work-items along one axis of a work-group
ITEMS = (16, 32, 64, 128, 256)


def item_knob(s: Schedule, name: str = "items") -> Any:
    """Work-items along one axis of a work-group; whole warps and wavefronts among them."""
    return s.define_knob(name, ITEMS)


def _knob(s: Schedule, stage: Stage, name: str, values: Sequence[int]) -> Any:
    """A knob that blocks share if it has the same values for all of them."""
    known = s.knobs.get(name)
    if known is not None and known.values != tuple(values):
        name = re.sub(r"\W", "_", f"{stage.name}_{name}")
    return s.define_knob(name, values)


def bind_elements(
    s: Schedule, stage: Stage, lanes: Sequence[int] = (1, 2, 4), loops: Sequence[Loop] | None = None
) -> Loop:
    """Loops of a stage, all spatial ones if not told, as one: blocks of work-items, each with a vector of neighbours.

    Neighbouring work-items read neighbouring addresses, which the memory serves at once. Returns the
    loop of work-items; reduce loops, if there are any, stay inside it.
    """
    row = stage.fuse(*(stage.spatial_loops if loops is None else loops))
    vectors, lane = stage.split(row, factor=_knob(s, stage, "lanes", lanes))
    block, item = stage.split(vectors, factor=_knob(s, stage, "items", ITEMS))
    stage.bind(block, "blockIdx.x")
    stage.bind(item, "threadIdx.x")
    stage.reorder(block, item, *stage.reduce_loops, lane)
    stage.vectorize(lane)
    return item


def bind_rows(s: Schedule, stage: Stage) -> tuple[Loop, dict[str, Any]]:
    """An image's rows in bands, and each row, its channels included, in blocks of neighbours.

    A work-item computes one element of `rows` rows, which read much the same pixels. Returns the
    innermost loop over blocks and the extents of the axes of work-items, as `share` takes them.
    """
    y, *rest = stage.op.axis  # type: ignore[attr-defined]
    row = stage.fuse(*rest)
    items = _knob(s, stage, "items", (16, 32, 64, 128))
    rows, bands = _knob(s, stage, "rows", (1, 2, 4)), _knob(s, stage, "bands", (1, 2, 4))
    return bind_patches(stage, y, row, rows, bands, items), {"threadIdx.x": items, "threadIdx.y": bands}


def bind_patches(stage: Stage, y: Any, row: Loop, rows: Any, bands: Any, items: Any, lanes: Any = 1) -> Loop:
    """Work-groups for patches of `bands` x `items` work-items, each with vectors of `rows` rows. Returns the loop over
    patches."""
    block_y, y = stage.split(y, factor=rows * bands)
    band, line = stage.split(y, factor=rows)
    row, lane = stage.split(row, factor=lanes)
    block_x, item = stage.split(row, factor=items)
    stage.reorder(block_y, block_x, band, item, line, lane)
    tags = {block_y: "blockIdx.y", block_x: "blockIdx.x", band: "threadIdx.y", item: "threadIdx.x"}
    for loop, tag in tags.items():
        stage.bind(loop, tag)
    stage.unroll(line)
    stage.vectorize(lane)
    return block_x


def share(stage: Stage, items: Mapping[str, Any], lanes: Any = 1) -> None:
    """The elements of a shared stage, copied or computed by all work-items of a group together.

    `items` gives the extent of each threadIdx axis of the kernel, x first: consecutive work-items
    take consecutive vectors of `lanes` elements, whatever the shape of the tile is.
    """
    rest, lane = stage.split(stage.fuse(*stage.op.axis), factor=lanes)  # type: ignore[attr-defined]
    for tag, extent in items.items():
        rest, item = stage.split(rest, factor=extent)
        stage.bind(item, tag)
    stage.vectorize(lane)


def add_up_rows(s: Schedule, stage: Stage, host: Stage, row: Loop, items: Any) -> None:
    """A reduction that a work-group makes together, at loop `row` of `host`, which is bound to blockIdx.

    Every work-item reduces each `items`-th element, in a register, and leaves it in shared memory; a
    few of them reduce what is there, and one the rest. The reduction has one reduce loop, and `stage`
    may be `host` itself.
    """
    few = 8
    _, item = stage.split(stage.reduce_loops[0], factor=items)
    partial = _stage_of(s, s.rfactor(stage.tensor, item, factor_axis=-1))
    _, last = stage.split(stage.loops[-1], factor=few)
    middle = _stage_of(s, s.rfactor(stage.tensor, last, factor_axis=-1))
    if stage is not host:
        stage.compute_at(host, row)
        stage.set_scope("shared")
    for part in (partial, middle):
        register = _stage_of(s, s.cache_write(list(part.op.outputs), "local"))
        part.compute_at(host, row)
        part.set_scope("shared")
        part.bind(part.loops[-1], "threadIdx.x")
        register.compute_at(part, part.loops[-1])


def _stage_of(s: Schedule, made: Any) -> Stage:
    """The stage that a primitive made; the results of a tuple are one."""
    return s[made[0] if isinstance(made, list) else made]
