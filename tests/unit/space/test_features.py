"""Features: what each says of schedules whose figures are known, and that knobs may stay open."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autosched import te
from autosched.ir.simplify import Analyzer
from autosched.lowering.simplify_stmt import enter_loop
from autosched.runtime.device import with_machine
from autosched.schedule.schedule import Schedule, create_schedule
from autosched.schedule.trace import Trace
from autosched.space.features import FEATURE_NAMES, FEATURE_VERSION, FEATURES, Machine
from autosched.space.features.memory import Footprints
from autosched.space.features.names import PLAIN
from autosched.space.features.sites import nests_of
from autosched.space.gpu import share
from autosched.space.loading import find_workload
from autosched.space.space import Sketch, make_sketch, template_space
from autosched.space.workload import Workload
from autosched.target import Target

ROOT = Path(__file__).resolve().parents[3]
CPU = Target.parse("llvm -threads=4").with_limits(
    l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=16 << 20, vector_bytes=64, vector_registers=32
)
GPU = Target.parse("opencl").with_limits(work_group_multiple=32, shared_memory_bytes=32 << 10, compute_units=4)


def features(sketch: Sketch, indices: tuple[int, ...] = ()) -> dict[str, float]:
    """One candidate's features, logarithms undone."""
    (row,) = sketch.features(np.array([indices], dtype=np.int64).reshape(1, -1))
    return {n: float(v) if n in PLAIN else float(2**v - 1) for n, v in zip(FEATURE_NAMES, row, strict=True)}


def matmul(n: int) -> Workload:
    a, b = te.placeholder((n, n), name="a"), te.placeholder((n, n), name="b")
    k = te.reduce_axis((0, n), "k")
    return Workload("matmul", (a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")))


def sketch_of(w: Workload, apply, target: Target = CPU) -> Sketch:
    s = create_schedule(list(w.args))
    apply(s)
    return make_sketch("t", w, s, target, {})


def test_each_has_a_name_and_one_line() -> None:
    assert list(FEATURES) == list(FEATURE_NAMES) and set(FEATURES) >= PLAIN
    assert all(text and "\n" not in text for text in FEATURES.values())
    assert len(FEATURE_VERSION) == 12


def test_sizes_at_which_nothing_is_left() -> None:
    """Which loops are long is told with numbers for sizes that may leave none of a length: it is 0 iterations then."""
    n, width = te.var("n"), te.var("width")
    x, k = te.placeholder((n,), name="x"), te.reduce_axis((0, width), name="k")
    y = te.compute((n - width * 2 + 1,), lambda i: te.sum(x[i + k], axis=k), name="y")
    sketch = make_sketch("t", Workload("w", (x, y)), create_schedule([x, y]), CPU, {"n": 100, "width": 8})
    assert features(sketch)["iterations"] >= 84 * 8


def test_each_is_in_the_documents() -> None:
    text = (ROOT / "docs" / "features.md").read_text()
    rows = dict(line.strip("| ").split(" | ", 1) for line in text.splitlines() if line.startswith("| `"))
    assert rows == {f"`{name}`": meaning for name, meaning in FEATURES.items()}


# -- an open knob, and the same schedule with a number --------------------------------------------------------

SPACES = ["matmul", "box_blur", "conv2d_nchw", "softmax", "depthwise_conv2d"]


@functools.cache
def sketches(name: str, target: Target) -> tuple[Workload, tuple[Sketch, ...]]:
    w = find_workload(name, ROOT / "search_spaces")()
    return w, template_space(w, target, w.sizes_of(w.sample_inputs(None))).sketches


def with_numbers(w: Workload, sketch: Sketch, knobs: dict[str, int], target: Target) -> Sketch:
    """The schedule as somebody would write it without knobs."""
    made: dict[str, object] = {"te": te}
    exec(Trace.from_json(sketch.trace).as_python(knobs=knobs), made)
    s = create_schedule(list(w.args))
    made["schedule"](s)  # type: ignore[operator]
    return make_sketch("numbers", w, s, target, sketch.sizes)


#: Upper bounds while knobs are open: a number may resolve a clamp or a guard for good.
BOUNDS = {"index_arithmetic", "choices", "guards", "masked_loads"}
#: Bounds, too, and quotients of such, but close ones on a CPU: where a sketch divides or fuses by a knob.
CLOSE = {
    "traffic", "task_footprint", "inner_footprint", "row_footprint", "reuse", "reuse_distance",
    "bytes_into_l1", "bytes_into_l2", "bytes_into_l3", "l1_reuse", "l2_reuse", "l3_reuse", "l2_intensity",
    "memory_intensity", "private_bytes", "strided_loads", "gathered_loads", "side_strided_loads", "uncoalesced_loads",
    "bank_conflicts", "row_pages", "crowded_rows", "shared_by_tasks",
}  # fmt: skip


def agree(name: str, open_one: float, number: float, target: Target) -> bool:
    """Whether a sketch's feature (mostly a logarithm) is what a schedule with numbers has."""
    if name in BOUNDS:
        return open_one >= number - 1e-6
    if name in CLOSE:
        return target.is_gpu_style or abs(open_one - number) < 0.3
    return abs(open_one - number) < 1e-6


@pytest.mark.parametrize(("name", "target"), [(n, CPU) for n in SPACES] + [("matmul", GPU)], ids=str)
def test_open_knobs_give_what_numbers_give(name: str, target: Target) -> None:
    """The features of a sketch at some knobs are those of the schedule written with these numbers."""
    rng = np.random.default_rng(0)
    w, found = sketches(name, target)
    for sketch in found[:3]:
        rows = rng.integers(0, [len(k.values) for k in sketch.knobs], size=(200, len(sketch.knobs)))
        rows = rows[sketch.mask(rows)][:2]
        for row, open_ones in zip(rows, sketch.features(rows), strict=True):
            closed = with_numbers(w, sketch, sketch.values(row), target)
            (numbers,) = closed.features(np.zeros((1, 0), dtype=np.int64))
            wrong = {
                n: (a, b)
                for n, a, b in zip(FEATURE_NAMES, open_ones, numbers, strict=True)
                if not agree(n, float(a), float(b), target)
            }
            assert not wrong, f"{sketch.name} {sketch.values(row)}: {wrong}"


# -- by hand ----------------------------------------------------------------------------------------------------


def tiled(rows: int = 4, columns: int = 32) -> Sketch:
    """A matrix product in tiles that stay in registers: 4 x 2 vectors of 16 floats."""

    def apply(s: Schedule) -> None:
        c = s["c"]
        i, row = c.split("i", factor=rows)
        j, column = c.split("j", factor=columns)
        vector, lane = c.split(column, factor=16)
        c.reorder(i, j, "k", row, vector, lane)
        c.parallel(i)
        c.unroll(row)
        c.unroll(vector)
        c.vectorize(lane)

    return sketch_of(matmul(256), apply)


def test_the_registers_of_a_tile() -> None:
    found = features(tiled())
    assert found["accumulators"] == pytest.approx(8)
    # two vectors of b stay while four values of a pass by, one at a time
    assert found["live_vectors"] == pytest.approx(8 + 2 + 1)
    assert found["spilled_vectors"] == 0
    assert features(tiled(rows=16))["spilled_vectors"] == pytest.approx(32 + 3 - 32)
    # for each k: the tile's own sums, two vectors of b and four broadcasts of a
    steps = 64 * 8 * 256
    assert found["loads_for_each_store"] == pytest.approx(6 / 8)
    assert found["register_loads"] >= steps * 6
    assert found["vector_fill"] == pytest.approx(1.0)
    assert features(tiled(columns=16))["loads_for_each_store"] == pytest.approx(5 / 4)


def test_what_caches_fetch() -> None:
    """Three matrices of 81 KiB in a loop nest i, j, k; a line of b's column is used once for each j."""
    n, size = 144, 144 * 144 * 4
    plain = sketch_of(matmul(n), lambda s: s["c"].reorder("i", "j", "k"))
    found = features(plain)
    assert found["bytes_into_l2"] == found["bytes_into_l3"] == pytest.approx(3 * size)  # all fits
    # the first level holds what one (i, j) touches, but not b: b comes once for each i
    assert found["bytes_into_l1"] == pytest.approx(n * (size + 2 * n * 4))
    assert found["l2_reuse"] == pytest.approx(found["bytes_into_l1"] / (3 * size), rel=1e-6)
    assert found["memory_intensity"] == pytest.approx(2 * n**3 / (3 * size))
    # rows of 512 bytes share an eighth of the places: of 128 of them half are gone before the next column is read
    n, size = 128, 128 * 128 * 4
    crowded = features(sketch_of(matmul(n), lambda s: s["c"].reorder("i", "j", "k")))
    assert crowded["bytes_into_l1"] > n * n * n * 64 and crowded["bytes_into_l2"] == pytest.approx(3 * size)


def test_a_tile_that_fits_is_fetched_once() -> None:
    def blocked(s: Schedule) -> None:
        j, inner = s["c"].split("j", factor=16)
        s["c"].reorder(j, "i", "k", inner)

    n, size = 144, 144 * 144 * 4
    found = features(sketch_of(matmul(n), blocked))
    # a panel of b of 9 KiB stays in the first level while all rows of a pass by
    assert found["bytes_into_l1"] == pytest.approx(9 * size + size + size)


def test_a_number_that_is_taken_apart_has_no_more_values_than_it_had() -> None:
    """Of a fused loop over rows, `f // 100` and `f % 100`, whose tasks of 8 rows touch 8 rows, not all of them."""
    a = te.placeholder((64, 100, 64), name="a")
    b = te.compute((64, 100, 64), lambda i, j, k: a[i, j, k] * 2, name="b")

    def apply(s: Schedule) -> None:
        outer, _ = s["b"].split(s["b"].fuse("i", "j"), factor=8)
        s["b"].parallel(outer)

    found = features(sketch_of(Workload("t", (a, b)), apply))
    assert found["task_footprint"] == pytest.approx(2 * 8 * 64 * 4)


def test_what_is_the_same_is_computed_once() -> None:
    """What stands still in the innermost loop is computed in front of it, copies share what is the same, and lanes too."""
    n = 64
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")
    apart = te.placeholder((n, 3), name="apart")
    d = te.reduce_axis((0, n), "d")

    def computed(value) -> dict[str, float]:
        c = te.compute((n,), lambda i: te.sum(value(i, d), axis=d), name="c")

        def apply(s: Schedule) -> None:
            _, inner = s["c"].split("i", factor=16)
            s["c"].reorder("d", inner)
            s["c"].vectorize(inner)

        return features(sketch_of(Workload("t", (a, b, apart, c)), apply))

    without, still, moving = (
        computed(f)
        for f in (lambda i, d: a[i] * b[d], lambda i, d: te.exp(a[i]) * b[d], lambda i, d: te.exp(a[i] + b[d]) * b[d])
    )
    exp = (still["vector_arithmetic"] - without["vector_arithmetic"]) / (n / 16)  # once for each vector, not for each d
    assert 10 < exp < 40
    assert moving["vector_arithmetic"] == pytest.approx(without["vector_arithmetic"] + (exp + 1) * n * n / 16)
    assert computed(lambda i, d: apart[i, 1] * b[d])["strided_loads"] == pytest.approx(n)


def test_places_on_a_ring_are_as_many_as_there_are_times() -> None:
    """Of a state whose times lie in two planes, a step reads one and stores to the other."""
    a = te.placeholder((8, 64), name="a")
    state = te.placeholder((9, 8, 64), name="state")
    step = te.compute((9, 8, 64), lambda t, i, j: state[t - 1, te.max(i - 1, 0), j] + a[i, j], name="step")
    first = te.compute((1, 8, 64), lambda _, i, j: a[i, j], name="first")
    states = te.scan(first, step, state, name="states")
    last = te.compute((8, 64), lambda i, j: states[8, i, j], name="last")
    found = sketch_of(Workload("t", (a, last)), lambda s: None)
    site = next(s for s in nests_of(found.structure.function.body).sites if len(s.loops) == 3)
    an = Analyzer()
    for loop in site.loops:
        enter_loop(loop, an)
    ring = [x for x in site.accesses if x[0].name.startswith("states")]
    of_a_step = Footprints(an).distinct(ring, frozenset(x.var for x in site.loops[1:]))
    assert of_a_step.value == 2 * 8 * 64 * 4
    assert Footprints(an).distinct(ring, frozenset(x.var for x in site.loops)).value == 2 * 8 * 64 * 4


def test_a_window_has_its_border_rows_where_it_is_clamped() -> None:
    a = te.placeholder((64, 64), name="a")
    around = te.compute((64, 64), lambda i, j: a[te.max(i - 1, 0), j] + a[te.min(i + 1, 63), j], name="b")

    def apply(s: Schedule) -> None:
        s["b"].parallel(s["b"].split("i", factor=s.define_knob("rows", [8]))[0])

    found = features(sketch_of(Workload("t", (a, around)), apply), (0,))
    assert found["task_footprint"] == pytest.approx((10 + 8) * 64 * 4)


def test_rows_around_a_torus_are_those_beside_each_other() -> None:
    """Not all rows, though the last one is beside the first."""
    a = te.placeholder((64, 64), name="a")
    torus = te.repeat_image(a, axes=(0,))
    around = te.compute((64, 64), lambda i, j: torus[i - 1, j] + a[i, j] + torus[i + 1, j], name="b")

    def apply(s: Schedule) -> None:
        s["b"].parallel(s["b"].split("i", factor=s.define_knob("rows", [8]))[0])

    found = features(sketch_of(Workload("t", (a, around)), apply), (0,))
    assert found["task_footprint"] == pytest.approx((10 + 8) * 64 * 4)


def test_lanes_beyond_a_strip_are_no_lanes() -> None:
    def apply(s: Schedule) -> None:
        inner = s["b"].split("j", factor=s.define_knob("strip", [8]))[1]
        s["b"].vectorize(s["b"].split(inner, factor=s.define_knob("lanes", [32]))[1])

    assert features(sketch_of(Workload("t", _doubled()), apply), (0, 0))["lanes"] == pytest.approx(8)


def _doubled():
    a = te.placeholder((64, 64), name="a")
    return a, te.compute((64, 64), lambda i, j: a[i, j] * 2.0, name="b")


def test_reuse_distance_is_what_is_touched_in_between() -> None:
    found = features(sketch_of(matmul(128), lambda s: s["c"].reorder("i", "j", "k")))
    # b is read again with the next i: after a row of a, all of b and a row of c
    assert found["reuse_distance"] == pytest.approx(128 * 4 + 128 * 128 * 4 + 128 * 4)


def elementwise(apply, shape=(100, 60), target: Target = CPU) -> dict[str, float]:
    a = te.placeholder(shape, name="a")
    w = Workload("twice", (a, te.compute(shape, lambda i, j: a[i, j] * 2.0, name="b")))
    return features(sketch_of(w, apply, target))


def test_lanes_that_are_loaded_for_themselves() -> None:
    """Strides up to 4 come as wide loads and shuffles, columns of a matrix and looked-up elements do not."""
    a, at = te.placeholder((64, 80), name="a"), te.placeholder((16,), "int32", name="at")

    def gathered(read) -> float:
        w = Workload("t", (a, at, te.compute((16, 16), read, name="b")))
        return features(sketch_of(w, lambda s: s["b"].vectorize("j")))["gathered_loads"]

    assert gathered(lambda i, j: a[i, j] + at[i]) == gathered(lambda i, j: a[i, j * 4]) == 0
    assert gathered(lambda i, j: a[i, j * 5]) == gathered(lambda i, j: a[j, i]) == pytest.approx(256)
    assert gathered(lambda i, j: a[i, te.max(te.min(at[j], 63), 0)]) == pytest.approx(256)
    assert gathered(lambda i, j: a[i, j * 3 // 2]) == 0  # the same pattern in every vector

    def in_halves(read) -> float:
        w = Workload("t", (a, te.compute((16, 64), read, name="b")))
        return features(sketch_of(w, lambda s: s["b"].vectorize(s["b"].split("j", factor=8)[1])))["gathered_loads"]

    assert in_halves(lambda i, j: a[i // 2, te.max(j // 2 - 1, 0)]) == 0
    assert in_halves(lambda i, j: a[i, j // 3]) == pytest.approx(16 * 64)  # each vector begins elsewhere in a third
    assert gathered(lambda i, j: a[te.max(te.min(at[i], 63), 0), j]) == 0  # a row that is looked up lies together


def test_lanes_in_one_block_of_an_index() -> None:
    """`a[j//32, i]` is one element for all lanes where 32 is a multiple of them, and `p[j//32, i, j%32]` neighbours."""
    a, p = te.placeholder((8, 64), name="a"), te.placeholder((8, 64, 32), name="p")

    def apart(read, lanes: int) -> list[float]:
        w = Workload("t", (a, p, te.compute((64, 192), read, name="b")))

        def apply(s: Schedule) -> None:
            s["b"].vectorize(s["b"].split("j", factor=s.define_knob("lanes", [lanes]))[1])

        found = features(sketch_of(w, apply), (0,))
        return [found["gathered_loads"], found["strided_loads"]]

    for lanes in (8, 16, 32):
        assert apart(lambda i, j: a[j // 32, i] + p[j // 32, i, j % 32], lanes) == [0, 0]
        assert apart(lambda i, j: p[i // 8, i, 0] + a[(j + 8) // 32, i], lanes)[1] > 0  # blocks end within a vector
    assert min(apart(lambda i, j: a[j // 32, i], 24)) > 0


def test_columns_that_are_written_out_are_loaded_as_rows() -> None:
    a = te.placeholder((64, 64), name="a")
    w = Workload("t", (a, te.compute((64, 64), lambda i, j: a[j, i], name="b")))

    def gathered(rows: int) -> float:
        def apply(s: Schedule) -> None:
            s["b"].unroll(s["b"].split("i", factor=rows)[1])
            s["b"].vectorize("j")

        return features(sketch_of(w, apply))["gathered_loads"]

    assert gathered(4) == 0 < gathered(2)


def test_lanes_with_a_condition_of_their_own() -> None:
    a = te.placeholder((64, 64), name="a")

    def masked(holds) -> float:
        w = Workload(
            "t", (a, te.compute((64, 64), lambda i, j: te.if_then_else(holds(i, j), a[i, j], te.const(0)), name="b"))
        )
        return features(sketch_of(w, lambda s: s["b"].vectorize(s["b"].split("j", factor=16)[1])))["masked_loads"]

    assert masked(lambda i, j: te.any(j > 3, i > 3)) == masked(lambda i, j: j % 5 > 0) == pytest.approx(64 * 64)
    assert masked(lambda i, j: j % 2 > 0) == pytest.approx(64 * 4)  # all lanes of both sides come at once
    # loops are cut where the lanes of all vectors agree, and one masked load brings all lanes of the vector at a border
    assert masked(lambda i, j: j > 3) == pytest.approx(64)
    assert masked(lambda i, j: te.all(j > 3, j < 60, i > 3)) == pytest.approx(64 * 2)
    assert masked(lambda i, j: i > 3) == 0


def test_what_is_written_past_the_caches() -> None:
    def apply(s: Schedule) -> None:
        s["b"].vectorize("j")
        s["b"].pragma("j", "streaming_store")

    assert elementwise(apply)["streamed_bytes"] == pytest.approx(100 * 60 * 4)
    assert elementwise(lambda s: s["b"].vectorize("j"))["streamed_bytes"] == 0


def test_rows_far_apart() -> None:
    """A column of a matrix: a page for each element, and where rows are whole pages, one place for all of them."""
    wide = elementwise(lambda s: s["b"].reorder("j", "i"), shape=(32, 1024))
    assert wide["row_pages"] == wide["crowded_rows"] == pytest.approx(2 * 32)
    odd = elementwise(lambda s: s["b"].reorder("j", "i"), shape=(32, 1040))
    assert odd["row_pages"] == pytest.approx(2 * 32) and odd["crowded_rows"] == 0
    near = elementwise(lambda s: s["b"].reorder("j", "i"), shape=(32, 16))
    assert near["row_pages"] == pytest.approx(2)
    assert elementwise(lambda s: None, shape=(32, 1024))["crowded_rows"] == 0


def test_rows_that_data_look_up_are_as_many_as_look_ups() -> None:
    """Of a table far larger than the caches, each of 64 rows that are looked up is fetched once, and not the table."""
    table, at = te.placeholder((100_000, 64), name="table"), te.placeholder((64,), "int32", name="at")

    def row(i):
        return te.max(te.min(at[i], 99_999), 0)

    rows = te.compute((64, 64), lambda i, j: table[row(i), j], name="b")
    found = features(sketch_of(Workload("rows", (table, at, rows)), lambda s: None))
    assert found["bytes_into_l3"] == pytest.approx(2 * 64 * 64 * 4 + 64 * 4)
    column = te.placeholder((4096,), name="column")
    picked = te.compute((64,), lambda i: column[te.max(te.min(at[i], 4095), 0)], name="b")
    found = features(sketch_of(Workload("picked", (column, at, picked)), lambda s: None))
    assert found["bytes_into_l3"] == pytest.approx(2 * 64 * 4 + 64 * 64)  # a line for each
    image = te.placeholder((1000, 1000), name="image")
    pixels = te.compute(
        (64,), lambda i: image[te.max(te.min(at[i], 999), 0), te.max(te.min(at[i], 998) + 1, 0)], name="b"
    )
    found = features(sketch_of(Workload("pixels", (image, at, pixels)), lambda s: None))
    assert found["bytes_into_l3"] == pytest.approx(2 * 64 * 4 + 64 * 64)  # and not all columns of all rows


def test_pipes_that_take_a_register_in_parts_compute_each() -> None:
    def of(target: Target) -> float:
        return elementwise(lambda s: s["b"].vectorize("j"), (64, 16), target)["vector_arithmetic"]

    assert of(CPU.with_limits(vector_pipe_bytes=32)) == pytest.approx(2 * of(CPU))
    assert of(CPU.with_limits(vector_pipe_bytes=64)) == pytest.approx(of(CPU))


def test_updates_where_data_say_wait_unless_copies_take_turns() -> None:
    """Pixels of a histogram wait for each other in one table, fewer in four of which neighbours take turns. Of columns
    with a place that data choose, an update waits for the one a whole row before."""
    image, at = te.placeholder((64, 64), "uint8", name="image"), te.placeholder((64,), "uint8", name="at")
    y, x = te.reduce_axis((0, 64), "y"), te.reduce_axis((0, 64), "x")
    counts = te.scatter_reduce((256,), lambda: (image[y, x], te.const(1, "int32")), axis=[y, x], name="counts")

    def in_turns(s: Schedule) -> None:
        _, inner = s["counts"].split("x", factor=4)
        s["counts"].reorder("y", "x.outer", inner)
        s.rfactor("counts", inner)
        s["counts.rf"].reorder("y", "x.outer", "x.inner")

    one = Workload("one", (image, counts))
    assert features(sketch_of(one, lambda s: None))["scattered_updates"] == pytest.approx(64 * 64)
    assert features(sketch_of(one, in_turns))["scattered_updates"] == pytest.approx(64 * 64 / 4)
    rows = te.scatter_reduce((64, 256), lambda j: (at[y], image[y, j].astype("int32")), axis=y, name="rows")
    by_rows = sketch_of(Workload("rows", (at, image, rows)), lambda s: s["rows"].reorder("y", s["rows"].axis[0]))
    assert features(by_rows)["scattered_updates"] == pytest.approx(64)
    assert elementwise(lambda s: None)["scattered_updates"] == 0


def test_vectors_that_end_before_their_last_lane() -> None:
    """At sizes that only the call tells, and only there: a constant rest is a few shorter vectors."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="a")
    twice = Workload("twice", (a, te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="b")))
    k = te.reduce_axis((0, m), "k")
    sums = Workload("sums", (a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="b")))

    def in_vectors(s: Schedule) -> None:
        s["b"].vectorize(s["b"].split("j", factor=16)[1])

    def by_lanes(s: Schedule) -> None:
        s["b"].split("k", factor=16)
        s.rfactor("b", "k.inner", factor_axis=-1)
        s["b.rf"].reorder("i", "k.outer", "k.inner")
        s["b.rf"].vectorize("k.inner")

    def cut(w: Workload, apply: Callable[[Schedule], None], rows: int, columns: int) -> float:
        s = create_schedule(list(w.args))
        apply(s)
        return features(make_sketch("t", w, s, CPU, {"n": rows, "m": columns}))["cut_vectors"]

    assert cut(twice, in_vectors, 100, 64) == 0
    assert cut(twice, in_vectors, 100, 65) == cut(twice, in_vectors, 100, 3) == pytest.approx(100)
    assert cut(sums, by_lanes, 100, 3) >= 3 * 100 and cut(sums, by_lanes, 100, 48) == 0, "lanes are added up at once"
    assert elementwise(in_vectors)["cut_vectors"] == 0
    assert cut(twice, lambda s: None, 100, 3) == 0


def test_what_is_asked_for_ahead() -> None:
    def ahead(by: int) -> float:
        return elementwise(lambda s: s["b"].prefetch("a", "i", by))["prefetch_distance"]

    assert ahead(3) == pytest.approx(3 * 60 * 4) and ahead(1) < ahead(2) < ahead(3)
    assert elementwise(lambda s: None)["prefetch_distance"] == 0


def test_sums_that_do_not_wait_for_each_other() -> None:
    """A column at a time is one chain; with columns inside, each element has a sum of its own."""
    a, k = te.placeholder((64, 48), name="a"), te.reduce_axis((0, 64), "k")
    w = Workload("t", (a, te.compute((48,), lambda j: te.sum(a[k, j], axis=k), name="b")))
    assert features(sketch_of(w, lambda s: s["b"].reorder("j", "k")))["independent_sums"] == pytest.approx(1)
    assert features(sketch_of(w, lambda s: s["b"].reorder("k", "j")))["independent_sums"] == pytest.approx(48)


def test_windows_of_neighbouring_copies_share_loads() -> None:
    """Four rows with windows of three: six different ones."""
    a, k = te.placeholder((66, 64), name="a"), te.reduce_axis((0, 3), "k")
    w = Workload("t", (a, te.compute((64, 64), lambda i, j: te.sum(a[i + k, j], axis=k), name="b")))

    def apply(s: Schedule) -> None:
        b = s["b"]
        tile, row = b.split("i", factor=4)
        b.reorder(tile, "k", row, "j")
        b.unroll("k")
        b.unroll(row)
        b.vectorize(b.split("j", factor=16)[1])

    assert features(sketch_of(w, apply))["loads_for_each_store"] == pytest.approx(6 / 4)


def test_windows_of_a_group_of_channels_share_registers() -> None:
    """Four neighbours with three taps each read six elements, whichever group the quotient says."""
    a, w3 = te.placeholder((4, 34), name="a"), te.placeholder((3, 64), name="w")
    k = te.reduce_axis((0, 3), "k")
    total = te.compute((32, 64), lambda x, o: te.sum(a[o // 32, x + k] * w3[k, o], axis=k), name="b")

    def apply(s: Schedule) -> None:
        _, row = s["b"].split("x", factor=4)
        block, lane = s["b"].split("o", factor=16)
        block, vector = s["b"].split(block, factor=s.define_knob("vectors", [1]))
        s["b"].reorder("x.outer", block, "k", row, vector, lane)
        for loop in ("k", row, vector):
            s["b"].unroll(loop)
        s["b"].vectorize(lane)

    found = features(sketch_of(Workload("t", (a, w3, total)), apply), (0,))
    assert found["loads_for_each_store"] == pytest.approx((6 + 3) / 4)


def test_tails_and_tasks() -> None:
    def apply(s: Schedule) -> None:
        i, _ = s["b"].split("i", factor=20)
        _, lane = s["b"].split("j", factor=16)
        s["b"].parallel(i)
        s["b"].vectorize(lane)

    found = elementwise(apply)
    assert found["tasks"] == pytest.approx(5) and found["regions"] == pytest.approx(1)
    assert found["imbalance"] == pytest.approx(8 / 5)  # four threads, two rounds
    assert found["row_waste"] == found["axis_waste"] == found["waste"] == pytest.approx(64 / 60)
    assert elementwise(lambda s: s["b"].parallel("j"))["regions"] == pytest.approx(100)


@pytest.mark.parametrize(("where", "last"), [("below", 1.0), ("from", 0.0), ("across", 0.0)])
def test_tasks_of_a_triangle(where: str, last: float) -> None:
    """Half of the last of so many tasks is done by one unit of four alone; at a border, tasks are alike."""
    a = te.placeholder((64, 64), name="a")
    k = te.reduce_axis((0, 64), "k")

    def total(i, j):
        condition = {"below": k <= i, "from": i + k >= 2, "across": k <= j}[where]
        return te.sum(a[i, k] * a[k, j], axis=k, where=condition)

    w = Workload("t", (a, te.compute((64, 64), total, name="b")))

    def apply(s: Schedule) -> None:
        s["b"].parallel(s["b"].split("i", factor=s.define_knob("rows", [8, 1]))[0])

    found = [features(sketch_of(w, apply), (n,))["imbalance"] for n in (0, 1)]
    assert found == pytest.approx([1 + last * 3 / tasks for tasks in (8, 64)])


def test_rows_that_are_no_whole_lines() -> None:
    """A column of a matrix with rows of 240 bytes: a line for each element."""
    found = elementwise(lambda s: s["b"].reorder("j", "i"), shape=(1000, 60))
    assert found["bytes_into_l2"] == pytest.approx(2 * 240_000)
    assert found["bytes_into_l1"] == pytest.approx(60 * 2 * 1000 * 64)


def test_work_groups() -> None:
    def apply(s: Schedule) -> None:
        block, item = s["b"].split("i", factor=48)
        s["b"].bind(block, "blockIdx.x")
        s["b"].bind(item, "threadIdx.x")

    found = elementwise(apply, shape=(96, 64), target=GPU)
    assert found["threads"] == found["threads_x"] == pytest.approx(48)
    assert found["warp_fill"] == pytest.approx(48 / 64)
    assert found["uncoalesced_loads"] == pytest.approx(96 * 64)  # a row apart
    assert found["tasks"] == pytest.approx(2) and found["regions"] == pytest.approx(1)
    assert elementwise(lambda s: s["b"].bind("j", "threadIdx.x"), target=GPU)["uncoalesced_loads"] == 0


@pytest.mark.parametrize(("width", "queue"), [(32, 32), (33, 1), (8, 8)])
def test_banks_of_shared_memory(width: int, queue: int) -> None:
    """Work-items that read down a column of a shared tile meet in one bank, unless its rows are odd."""

    def apply(s: Schedule) -> None:
        shared = s[s.cache_read("a", "shared", [s["b"]])]
        b = s["b"]
        block, i = b.split("i", factor=32)
        b.bind(block, "blockIdx.x")
        b.bind(i, "threadIdx.x")
        shared.compute_at(b, block)

    found = elementwise(apply, shape=(64, width), target=GPU)
    assert found["shared_bytes"] == pytest.approx(32 * width * 4)
    assert found["bank_conflicts"] == pytest.approx(64 * width * queue)
    assert found["resident_groups"] == pytest.approx(min(32, (32 << 10) // (32 * width * 4)))


def test_what_packing_costs_stands_aside() -> None:
    def packed(s: Schedule) -> None:
        copy = s[s.cache_read("b", "global", ["c"])]
        copy.parallel(copy.op.axis[0])

    found = features(sketch_of(matmul(64), packed))
    assert found["side_iterations"] == pytest.approx(64 * 64)
    assert found["side_bytes"] == pytest.approx(2 * 4 * 64 * 64)
    assert found["side_task_iterations"] == pytest.approx(64)
    assert features(sketch_of(matmul(64), lambda s: None))["side_iterations"] == 0


def test_the_machine() -> None:
    assert Machine.of(CPU) == Machine(32 << 10, 1 << 20, 16 << 20, 64, 32, 4, 1)
    assert Machine.of(GPU).units == 4 and Machine.of(GPU).warp == 32
    assert Machine.of(Target.parse("llvm -threads=3")).units == 3


def test_this_machine() -> None:
    target = with_machine(Target.parse("llvm -threads=2"))
    machine = Machine.of(target)
    assert str(target) == "llvm -threads=2"
    assert 1024 < machine.l1 <= machine.l2 <= machine.l3
    assert machine.vector_bytes in (16, 32, 64) and machine.registers in (16, 32)
    narrow = with_machine(Target.parse("llvm -mattr=-avx512f"))
    assert Machine.of(narrow).vector_bytes <= 32
    assert with_machine(GPU) is GPU


def test_operands_that_a_group_fetches_together_count_once() -> None:
    """The loops over work-items of a copy to shared memory stand inside those of the sums, and are the same ones."""

    def tiles(s: Schedule) -> None:
        c = s["c"]
        sums = s[s.cache_write("c", "local")]
        by, ty = c.split("i", factor=8)
        bx, tx = c.split("j", factor=8)
        c.reorder(by, bx, ty, tx)
        for loop, tag in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y"), (tx, "threadIdx.x")):
            c.bind(loop, tag)
        sums.compute_at(c, tx)
        outer, inner = sums.split(sums.reduce_axis[0], factor=16)
        sums.reorder(outer, inner, *(sums.roots[a] for a in sums.axis))
        for name in ("a", "b"):
            copy = s[s.cache_read(name, "shared", [sums])]
            copy.compute_at(sums, outer)
            share(copy, {"threadIdx.x": 8, "threadIdx.y": 8})

    found = features(sketch_of(matmul(64), tiles, GPU))
    assert found["threads"] == 64 and found["tasks"] == 64
    products, copied, started = 64**3, 2 * 64 * 4 * 8 * 16, 2 * 64 * 64
    assert found["iterations"] == pytest.approx(products + copied + started)
    assert found["bytes_loaded"] == pytest.approx(4 * (3 * products + copied + 64 * 64))
    assert found["shared_bytes"] == pytest.approx(4 * 2 * 8 * 16)
    assert found["bytes_into_l1"] <= found["bytes_loaded"] + found["bytes_stored"]


@pytest.mark.parametrize("guarded", [False, True])
def test_lanes_that_seldom_change_a_result_do_not_wait(guarded: bool) -> None:
    """Those of an arg-max, in vectors that are asked as a whole; not those of a sum, nor of shorter vectors."""
    x, k = te.placeholder((9, 250 if guarded else 256), name="x"), te.reduce_axis((0, 250 if guarded else 256), "k")
    largest = Workload("largest", (x, *te.compute((9,), lambda i: te.argmax(x[i, k], axis=k), name="largest")))
    total = Workload("total", (x, te.compute((9,), lambda i: te.sum(x[i, k], axis=k), name="total")))

    def independent(w: Workload, lanes: int) -> float:
        def in_lanes(s: Schedule) -> None:
            stage = s[w.name]
            stage.vectorize(stage.split(stage.loops[-1], factor=lanes)[1])

        return features(sketch_of(w, in_lanes))["independent_sums"]

    assert [independent(largest, n) for n in (4, 32, 64)] == pytest.approx([1, 32, 64])
    assert independent(total, 32) < 32


@pytest.mark.parametrize(
    ("combine", "steps"),
    [
        (lambda a, b: (a[0] + b[0], te.max(a[1], b[1])), 1),
        (lambda a, b: (a[0] + b[0], a[1] + (b[1] - a[1]) * b[0]), 3),  # all of it is made of what the step before left
        (lambda a, b: (a[0] + b[0], a[1] + b[1] * b[0] / 3.0), 1),  # nothing waits but the sum
        (lambda a, b: (a[0] + b[0], b[1] / te.max(a[0] + b[0], 1.0)), 5),  # of the other result
        (lambda a, b: (te.select(a[0] < b[0], b[0], a[0]), te.select(a[0] < b[0], b[1], a[1])), 1),
    ],
)
def test_operations_of_a_combiner_that_wait_for_each_other(combine, steps) -> None:
    x, k = te.placeholder((8, 64), name="x"), te.reduce_axis((0, 64), "k")
    of = te.comm_reducer(combine, lambda p, q: (te.const(0, p), te.const(0, q)), "of")
    y, _ = te.compute((8,), lambda i: of((x[i, k], x[i, k] * 2.0), axis=k), name="y")
    found = features(sketch_of(Workload("w", (x, *y.op.outputs)), lambda s: None))
    assert found["independent_sums"] * steps == pytest.approx(found["accumulators"])


def test_the_code_of_nests_that_run_one_after_the_other_is_that_of_the_longest() -> None:
    def chain(copies: dict[str, int]) -> float:
        A = te.placeholder((4096,), name="A")
        B = te.compute((4096,), lambda i: A[i] * 2 + 1, name="B")
        C = te.compute((4096,), lambda i: B[4095 - i] * 2 + 1, name="C")

        def apply(s: Schedule) -> None:
            for name, factor in copies.items():
                s[name].unroll(s[name].split("i", factor=factor)[1])

        return features(sketch_of(Workload("chain", (A, C)), apply))["code_size"]

    assert chain({"B": 8, "C": 4}) == chain({"B": 8}) > 16
    assert chain({"B": 4, "C": 4}) == pytest.approx(chain({"B": 8}) / 2)


def test_sums_beside_the_main_store_that_wait() -> None:
    def waits(dtype: str, apply: Callable[[Schedule], object] = lambda s: None) -> float:
        A, B = te.placeholder((64, 512), dtype, name="A"), te.placeholder((512, 64), dtype, name="B")
        k, r = (te.reduce_axis((0, 512), name) for name in "kr")
        R = te.compute((64,), lambda i: te.sum(A[i, k], axis=k), name="R")
        C = te.compute((64, 64), lambda i, j: te.sum(A[i, r] * B[r, j] * R[i], axis=r), name="C")
        return features(sketch_of(Workload("w", (A, B, C)), apply))["side_waits"]

    def four_at_a_time(s: Schedule) -> None:
        row, few = s["R"].split("i", factor=4)
        s["R"].reorder(row, "k", few)
        s["R"].unroll(few)

    assert waits("float32") == pytest.approx(64 * 512)
    assert waits("float32", four_at_a_time) == pytest.approx(64 * 512 / 4)
    assert waits("int32") == 0  # compilers add them in any order


def test_a_search_whose_lanes_ask_together_does_not_wait() -> None:
    def waits(lanes: int) -> float:
        x, y = (te.placeholder((64, 512), name=name) for name in "xy")
        k, r = (te.reduce_axis((0, 512), name) for name in "kr")
        top = te.compute((64,), lambda i: te.max(x[i, k], axis=k), name="top")
        out = te.compute((64, 64), lambda i, j: te.sum(x[i, r] * y[j, r] * top[i], axis=r), name="out")

        def apply(s: Schedule) -> None:
            s["top"].vectorize(s["top"].split("k", factor=lanes)[1])

        return features(sketch_of(Workload("w", (x, y, out)), apply))["side_waits"]

    assert waits(32) < waits(2) / 100
