"""Sketches by the batch: masks with reasons, features, and the limits that follow from the structure."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import seed_programs

from autosched import te, template, workload
from autosched.schedule import Schedule, create_schedule, replay
from autosched.space.default import default_schedule
from autosched.space.features import FEATURE_NAMES, FEATURES
from autosched.space.space import COUNTING_S, SearchSpace, Sketch, make_sketch, template_space
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.testing.oracle import check_against_reference

SIZES = {"height": 64, "width": 100}


def sketch_of(apply: Callable[[Schedule], None], target: str = "llvm", **limits: int) -> Sketch:
    """The box blur, everything inlined, and what `apply` does to it."""
    b = seed_programs.box_blur()
    s = seed_programs.inline(b)
    apply(s)
    w = Workload("box_blur", tuple(b.args))
    return make_sketch("test", w, s, Target.parse(target).with_limits(**limits), SIZES)


def every_point(sketch: Sketch) -> np.ndarray:
    return np.array(list(itertools.product(*(range(len(k.values)) for k in sketch.knobs))))


def feasible(sketch: Sketch) -> list[dict[str, int]]:
    points = every_point(sketch)
    return [sketch.values(p) for p in points[sketch.mask(points)]]


def lanes_and_rows(s: Schedule) -> None:
    blur = s["box_blur"]
    _, lane = blur.split(blur.fuse("x", "c"), factor=s.define_knob("lanes", [16, 64, 256, 1024]))
    _, line = blur.split("y", factor=s.define_knob("rows", [1, 8, 100]))
    blur.reorder("y.outer", "x.c.fused.outer", line, lane)
    blur.vectorize(lane)


# -- masks ------------------------------------------------------------------------------------------------


def test_a_mask_agrees_with_the_constraints_one_by_one() -> None:
    def apply(s: Schedule) -> None:
        lanes_and_rows(s)
        lanes, rows = (k.var for k in s.knobs.values())
        s.constrain(lanes * rows <= 2048, "a tile of more than 2048 bytes")
        s.constrain(rows <= s.size("height"), "more rows than the image has")

    sketch = sketch_of(apply)
    points = every_point(sketch)
    mask = sketch.mask(points)
    assert mask.shape == (12,)
    assert mask.dtype == bool
    for p, good in zip(points, mask, strict=True):
        v = sketch.values(p)
        assert good == (v["lanes"] * v["rows"] <= 2048 and v["rows"] <= 64 and v["lanes"] <= 512)
        assert good == (not sketch.reasons(tuple(p)))
    assert sketch.reasons((3, 2)) == [
        "a tile of more than 2048 bytes",
        "more rows than the image has",
        "a vector of more than 512 bytes",
    ]


def test_the_lanes_of_a_vector_are_limited_by_its_type() -> None:
    assert {v["lanes"] for v in feasible(sketch_of(lanes_and_rows))} == {16, 64, 256}


def test_unrolled_code_is_limited() -> None:
    def apply(s: Schedule) -> None:
        blur = s["box_blur"]
        for axis, knob in (("y", "rows"), ("x", "columns")):
            _, inner = blur.split(axis, factor=s.define_knob(knob, [4, 16, 64]))
            blur.unroll(inner)
        blur.reorder("y.outer", "x.outer", "c", "y.inner", "x.inner")

    sketch = sketch_of(apply)
    assert all(v["rows"] * v["columns"] <= 256 for v in feasible(sketch))
    assert {"rows": 16, "columns": 16} in feasible(sketch)
    assert sketch.reasons((2, 1)) == ["unrolled code of more than 256 statements"]


def groups(s: Schedule) -> None:
    blur = s["box_blur"]
    for axis, tag, knob in (("y", "y", "ty"), ("x", "x", "tx")):
        outer, inner = blur.split(axis, factor=s.define_knob(knob, [4, 16, 64]))
        blur.bind(outer, f"blockIdx.{tag}")
        blur.bind(inner, f"threadIdx.{tag}")
    blur.reorder("y.outer", "x.outer", "y.inner", "x.inner", "c")


@pytest.mark.parametrize("most", [64, 256, 1024])
def test_a_work_group_fits_the_device(most: int) -> None:
    sketch = sketch_of(groups, "opencl", max_threads_per_block=most)
    found = feasible(sketch)
    assert found == [v for v in map(sketch.values, every_point(sketch)) if v["ty"] * v["tx"] <= most]
    assert sketch.reasons((2, 2)) == [f"a work-group of more than {most} work-items"]


def test_shared_memory_fits_the_device() -> None:
    b = seed_programs.box_blur()
    s = seed_programs.default(b)
    for stage in (b.padded, b.y_blur):
        s[stage].compute_inline()
    groups(s)
    s[b.x_blur].compute_at(s[b.box_blur], "x.outer")
    w = Workload("box_blur", tuple(b.args))
    sketch = make_sketch("test", w, s, Target.parse("opencl").with_limits(shared_memory_bytes=2048), SIZES)
    for p in every_point(sketch):
        v = sketch.values(p)
        shared = 2 * (v["ty"] + 2) * v["tx"] * 3
        assert ("more than 2048 bytes of shared memory" in sketch.reasons(tuple(p))) == (shared > 2048)


def test_private_storage_is_limited() -> None:
    def apply(s: Schedule) -> None:
        blur = s["box_blur"]
        group, item = blur.split("y", factor=4)
        stretch, _ = blur.split("x", factor=s.define_knob("pixels", [8, 2000, 4000]))
        blur.bind(group, "blockIdx.y")
        blur.bind(item, "threadIdx.y")
        blur.bind(stretch, "blockIdx.x")
        s["y_blur"].compute_at(blur, stretch)  # six bytes for each pixel, for each work-item

    sketch = sketch_of(apply, "opencl")
    assert [v["pixels"] for v in feasible(sketch)] == [8, 2000]
    assert sketch.reasons((2,)) == ["private storage of a work-item"]


def test_factors_that_come_out_as_zero_are_infeasible() -> None:
    def apply(s: Schedule) -> None:
        s["box_blur"].split("y", factor=s.define_knob("rows", [1, 2, 4]) // 2)

    sketch = sketch_of(apply)
    assert [v["rows"] for v in feasible(sketch)] == [2, 4]
    assert sketch.reasons((0,)) == ["the split of box_blur.y by rows//2 is not positive"]


def test_the_points_of_a_space_are_counted_where_that_takes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = sketch_of(lanes_and_rows)
    of_two = SearchSpace(sketch.workload, sketch.target, (sketch, sketch))
    assert of_two.valid == 2 * len(feasible(sketch))
    monkeypatch.setattr("autosched.space.space.COUNTING_S", -1.0)
    assert replace(of_two).valid is None


def test_counting_ends_once_it_is_seen_to_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first of six sketches took a quarter of the time that all may take."""
    one = sketch_of(lanes_and_rows)
    six = SearchSpace(one.workload, one.target, tuple(replace(one, name=str(i)) for i in range(6)))
    clock = itertools.count()
    monkeypatch.setattr("autosched.space.space.time.thread_time", lambda: next(clock) * COUNTING_S / 4)
    assert six.valid is None
    assert [("valid_points" in s.__dict__) for s in six.sketches] == [True] + [False] * 5


def test_a_sketch_without_knobs_is_one_point() -> None:
    sketch = sketch_of(lambda s: s["box_blur"].parallel("y"))
    assert sketch.size == 1
    empty = np.zeros((3, 0), dtype=np.int64)
    assert sketch.mask(empty).tolist() == [True] * 3
    assert sketch.features(empty).shape == (3, len(FEATURE_NAMES))


# -- features ---------------------------------------------------------------------------------------------


def test_features_are_one_row_for_each_candidate() -> None:
    sketch = sketch_of(lanes_and_rows)
    points = every_point(sketch)
    table = sketch.features(points)
    assert table.shape == (len(points), len(FEATURE_NAMES))
    assert table.dtype == np.float64
    assert np.isfinite(table).all()
    assert np.array_equal(table[[5]], sketch.features(points[[5]]))
    assert np.array_equal(table[::-1], sketch.features(points[::-1]))
    # rows of 100 of an image that has fewer, in one vector each: the code of rows one by one
    assert len({tuple(row) for row in table}) == len(points) - 1


def test_every_feature_is_explained() -> None:
    assert list(FEATURES) == list(FEATURE_NAMES)
    assert all(FEATURES.values())


def column(sketch: Sketch, name: str, indices: tuple[int, ...]) -> float:
    """The feature itself, logarithm undone."""
    value = sketch.features(np.array([indices], dtype=np.int64))[0, FEATURE_NAMES.index(name)]
    return float(value) if name in ("loops", "main_stage_share") else float(2**value - 1)


def test_features_of_a_plain_schedule_by_hand() -> None:
    """One statement for each of 64 x 100 x 3 bytes, nine loads each, y in parallel."""
    sketch = sketch_of(lambda s: s["box_blur"].parallel("y"))
    elements = 64 * 100 * 3
    expected = {
        "iterations": elements, "bytes_loaded": 9 * elements, "bytes_stored": elements, "tasks": 64,
        "task_iterations": 300, "threads": 1, "lanes": 1, "unrolled": 1, "innermost_extent": 3, "loops": 2,
        "traffic": 2 * elements, "waste": 1, "recomputation": 0, "private_bytes": 0, "main_stage_share": 1,
    }  # fmt: skip
    for name, value in expected.items():
        assert column(sketch, name, ()) == pytest.approx(value), name


def test_features_see_vectors_and_waste() -> None:
    sketch = sketch_of(lanes_and_rows)
    assert column(sketch, "lanes", (1, 0)) == pytest.approx(64)
    assert column(sketch, "vector_bytes", (1, 0)) == pytest.approx(64)
    padded = 64 * 320  # a row of 300 bytes in blocks of 64
    assert column(sketch, "waste", (1, 0)) == pytest.approx(padded / (64 * 300))
    assert column(sketch, "vector_loads", (1, 0)) == pytest.approx(9 * padded / 64)


def test_a_loop_that_runs_once_is_no_loop() -> None:
    sketch = sketch_of(lanes_and_rows)
    assert column(sketch, "loops", (1, 0)) == column(sketch, "loops", (1, 1)) - 1


def test_the_innermost_loop_is_the_last_that_runs_more_than_once() -> None:
    def apply(s: Schedule) -> None:
        outer, inner = s["box_blur"].split("y", factor=s.define_knob("rows", [1, 8]))
        s["box_blur"].reorder(outer, "x", "c", inner)

    sketch = sketch_of(apply)
    assert column(sketch, "innermost_extent", (0,)) == pytest.approx(3)  # the channels
    assert column(sketch, "innermost_extent", (1,)) == pytest.approx(8)
    # what one element touches, and a row of three or of eight
    assert column(sketch, "inner_footprint", (0,)) < column(sketch, "row_footprint", (0,))
    assert column(sketch, "row_footprint", (0,)) < column(sketch, "row_footprint", (1,))


def test_strided_loads_are_those_whose_lanes_lie_apart() -> None:
    def sketch(order: str) -> Sketch:
        n = te.var("height")
        a = te.placeholder((n, 64), "float32", name="A")
        b = te.compute((64, n), lambda i, j: a[te.min(j + 1, n - 1), i] + a[j, i], name="B")
        w = Workload("transpose", (a, b))
        s = create_schedule(b)
        s["B"].reorder(*order)
        return make_sketch("t", w, s, Target.parse("llvm"), {"height": 64})

    assert column(sketch("ij"), "strided_loads", ()) == pytest.approx(2 * 64 * 64)
    assert column(sketch("ji"), "strided_loads", ()) == pytest.approx(0)


def test_intermediates_are_counted_where_they_are_kept() -> None:
    b = seed_programs.box_blur()
    w = Workload("box_blur", tuple(b.args))
    everything = make_sketch("t", w, seed_programs.default(b), Target.parse("llvm"), SIZES)
    padded, x_blur, y_blur = 66 * 102 * 3, 66 * 100 * 3, 64 * 100 * 3
    assert column(everything, "global_intermediate_bytes", ()) == pytest.approx(2 * (padded + x_blur + y_blur))
    assert column(everything, "recomputation", ()) == pytest.approx((padded + x_blur + y_blur) / y_blur)
    b = seed_programs.box_blur()
    w = Workload("box_blur", tuple(b.args))
    rows = make_sketch("t", w, seed_programs.compute_at(b), Target.parse("llvm"), SIZES)
    assert column(rows, "private_bytes", ()) == pytest.approx(2 * 300)
    assert column(rows, "global_intermediate_bytes", ()) == pytest.approx(0)


# -- the default schedule, and sketches from records ----------------------------------------------------------


def test_the_default_schedule_of_a_gpu_gives_every_element_a_work_item() -> None:
    b = seed_programs.box_blur()
    s = default_schedule(b.args, Target.parse("opencl"))
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    check_against_reference(b.args, s, "opencl", [image], "interpreter")
    assert s["box_blur"].describe() == "y.x.fused.c.fused.outer (blockIdx.x) / y.x.fused.c.fused.inner (threadIdx.x)"


def test_the_default_schedule_of_a_reduction_on_a_gpu() -> None:
    a = te.placeholder((3, 5), "int32", name="A")
    k = te.reduce_axis((0, 5), name="k")
    rows = te.compute((3,), lambda i: te.sum(a[i, k], axis=k), name="rows")
    whole = te.compute((), lambda: te.sum(a[0, k], axis=k), name="whole")
    args = [a, rows, whole]
    s = default_schedule(args, Target.parse("opencl"))
    check_against_reference(args, s, "opencl", [np.arange(15, dtype=np.int32).reshape(3, 5)], "interpreter")


def test_a_stored_trace_is_the_same_sketch() -> None:
    @workload
    def blur() -> object:
        return tuple(seed_programs.box_blur().args)

    @template(blur, target="llvm")
    def inlined(s: Schedule) -> None:
        for stage in ("padded", "x_blur", "y_blur"):
            s[stage].compute_inline()
        lanes_and_rows(s)

    w, target = blur(), Target.parse("llvm")
    (first,) = template_space(w, target, SIZES).sketches
    again = make_sketch("stored", w, replay(first.trace, w.args), target, SIZES)
    points = every_point(first)
    assert again.trace == first.trace
    assert np.array_equal(again.features(points), first.features(points))
    assert np.array_equal(again.mask(points), first.mask(points))
