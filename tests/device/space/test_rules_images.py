"""Rules for CPUs on pipelines of images: what a pixel's channels share, strips of rows, rows a page apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from generated_spaces import LLVM, check_point, planned

from autosched import te
from autosched.space.workload import Workload
from autosched.te import Tensor


def check(args: list[Tensor], names: tuple[str, ...]) -> None:
    """Some points of the sketches with these words in their names, against the reference."""
    w = Workload("w", args)
    inputs = w.sample_inputs({})
    wanted = w.reference(inputs)
    rng = np.random.default_rng(3)
    sketches = [x for x in w.search_space(LLVM, {}).sketches if any(n in x.name for n in names)]
    assert len(sketches) >= len(names)
    for sketch in sketches:
        for _ in range(2):
            check_point(sketch, rng, inputs, wanted)


def mosaic(height: int = 22, width: int = 40) -> list[Tensor]:
    """A raw image, mirrored at its borders -> three channels of neighbours, a look-up in a table, and a blur."""
    raw = te.placeholder((height, width), "uint8", name="raw")
    wide = te.compute((height, width), lambda y, x: raw[y, x].astype("int32") * 3 >> 1, name="wide")
    far = te.mirror_interior(wide)
    clean = te.compute(
        (height, width), lambda y, x: te.min(te.max(far[y - 2, x], far[y, x + 2]), far[y, x]) & 255, name="clean"
    )
    near = te.mirror_interior(clean)
    side = te.compute((height, width), lambda y, x: near[y, x - 1] + near[y, x + 1] >> 1, name="side")
    tall = te.compute((height, width), lambda y, x: near[y - 1, x] + near[y + 1, x] >> 1, name="tall")

    def channel(y: te.Expr, x: te.Expr, c: te.Expr) -> te.Expr:
        even = te.if_then_else((y + x) % 2 == 0, side[y, x], tall[y, x])
        return te.if_then_else(c == 0, even, te.if_then_else(c == 1, near[y, x], side[y, x]))

    rgb = te.compute((height, width, 3), channel, name="rgb")
    curve = te.compute((256,), lambda i: i * i >> 8, name="curve")
    curved = te.compute((height, width, 3), lambda y, x, c: curve[rgb[y, x, c]], name="curved")
    e = te.repeat_edge(curved)
    blurred = te.compute(
        (height, width, 3), lambda y, x, c: e[y - 1, x, c] + 2 * e[y, x, c] + e[y + 1, x, c], name="blurred"
    )
    b = te.repeat_edge(blurred)
    return [raw, te.compute((height, width, 3), lambda y, x, c: b[y, x - 1, c] + b[y, x + 1, c], name="out")]


STORED = {"blurred_at": "strip", "curved_at": "task", "clean_at": "task"}


def test_what_channels_of_a_pixel_share_is_computed_once_where_it_is_used() -> None:
    plan = planned(*mosaic(), **STORED)
    found = {stage.name: rule for stage, rule in plan.done.items()}
    assert {found[n] for n in ("side", "tall", "rgb")} == {"always_inline"}
    made = plan.s["curved"]
    assert [x.kind for x in made.loops[-2:]] == ["unroll", "vectorize"], "channels inside, so that they share"


def test_pixels_that_are_stored_are_rows_for_who_reads_them() -> None:
    """Of the channels that differ, in a stage that is not inlined, `out` knows nothing."""
    found = {stage.name: rule for stage, rule in planned(*mosaic()).done.items()}
    assert found["out"] == "whole_rows"


def test_sketches_of_a_mosaic_are_right() -> None:
    check(
        mosaic(),
        ("[blurred_at=strip, curved_at=task, clean_at=task]", "[blurred_at=root, curved_at=root, clean_at=root]"),
    )


def test_integers_that_are_computed_are_no_padding() -> None:
    """Lanes of one are for borders that are copied and filled in."""
    plan = planned(*mosaic(), **STORED)
    assert 1 not in plan.s.knobs["clean_lanes"].values


def blurs(height: int, width: int, times: int = 5) -> list[Tensor]:
    x = found = te.placeholder((height, width), name="x")
    for i in range(times):
        e = te.repeat_edge(found)
        found = te.compute(
            (height, width),
            lambda y, x, e=e: (e[y - 1, x] + e[y, x - 1] + e[y, x + 1] + e[y + 1, x]) * 0.25,
            name=f"b{i}",
        )
    return [x, found]


def test_stages_before_their_readers_have_rows_written_out() -> None:
    plan = planned(*blurs(40, 48), b4_stores_every=1, b4_stores_at="root")
    assert [x.kind for x in plan.s["b0"].loops] == ["parallel", "serial", "serial", "unroll", "vectorize"]


def test_each_task_of_a_long_pipeline_makes_the_rows_that_it_needs() -> None:
    plan = planned(*blurs(40, 48), b4_stores_every=1, b4_stores_at="task")
    task = next(p.loop for p in plan.places[plan.s["b4"]] if p.name == "task")
    assert [plan.s[f"b{i}"].attach.loop for i in range(4)] == [task] * 4


def halvings(n: int, times: int = 3) -> list[Tensor]:
    """x[n, n] halved a few times, each time filtered along columns, then along rows."""

    def five(at: Callable[[int], te.Expr]) -> te.Expr:
        return (at(-2) + at(2)) * 0.125 + (at(-1) + at(1)) * 0.25 + at(0) * 0.25

    x = found = te.placeholder((n, n), name="x")
    for i in range(times):
        e, side = te.repeat_edge(found), n >> (i + 1)
        down = te.compute(found.shape, lambda y, x, e=e: five(lambda k: e[y + k, x]), name=f"down{i}")
        d = te.repeat_edge(down)
        found = te.compute((side, side), lambda y, x, d=d: five(lambda k: d[2 * y, 2 * x + k]), name=f"half{i}")
    return [x, found]


def test_what_one_row_is_made_of_is_made_row_by_row() -> None:
    """For stages before their readers, too: of `down`, every second row is needed."""
    plan = planned(*halvings(256), half2_stores_every=1, half2_stores_at="root")
    s = plan.s
    assert [s[f"half{i}"].attach.kind for i in range(2)] == ["root"] * 2
    assert [s[f"down{i}"].attach.stage for i in range(3)] == [s[f"half{i}"] for i in range(3)]
    check(halvings(72), ("every=1, half2_stores_at=root",))


def test_sketches_of_a_long_pipeline_are_right() -> None:
    check(blurs(13, 40), ("every=1, b4_stores_at=root", "every=1, b4_stores_at=task", "every=2, b4_stores_at=task"))


@pytest.mark.parametrize(("width", "most"), [(1000, 12), (1024, 3), (2048, 3)])
def test_rows_a_page_apart_are_few(width: int, most: int) -> None:
    """Three rows that are read and one that is stored, all in the same lines of a cache of 8 ways."""
    w = Workload("w", blurs(64, width, 1))
    found: set[int] = set()
    for sketch in w.search_space(LLVM, {}).sketches:
        at = [k.name for k in sketch.knobs]
        if "b0_rows" in at:
            points = sketch.valid_points
            found |= {sketch.values(r)["b0_rows"] for r in points.rows(range(0, points.count, 1))}
    assert max(found) == most or (most == 12 and max(found) > 8)
