"""Rules for CPUs that fit few programs: whole pixels, stores past the caches, borders, windows."""

from __future__ import annotations

import numpy as np
import pytest
from generated_spaces import LLVM, check, planned

from autosched import te
from autosched.codegen import compile_function
from autosched.lowering import lower_structure
from autosched.runtime.module import Module
from autosched.schedule.loop import leaf_extents
from autosched.schedule.schedule import create_schedule
from autosched.space.rules import cpu_rules, sums
from autosched.space.rules.both_ways import read_once
from autosched.space.workload import Workload
from autosched.testing.case import operations
from autosched.topi import nn


def smaller(height=11, width=34, times=2, channels=3):
    """Every `times`-th pixel of every `times`-th row, the last ones repeated; 3/2 is `times=1.5`."""
    n, d = (3, 2) if times == 1.5 else (int(times), 1)
    x = te.placeholder((height, width, channels), "uint8", name="x")

    def pixel(i, j, c):
        return x[te.min(i * n // d, height - 1), te.min(j * n // d + 1, width - 1), c] // te.const(2, "uint8")

    return x, te.compute((height * d // n + 1, width * d // n + 1, channels), pixel, name="y")


@pytest.mark.parametrize(("times", "ways"), [(2, ["vectors"]), (1.5, ["one by one", "vectors"])])
def test_pixels_of_elsewhere(times, ways):
    args = smaller(times=times)
    plan = planned(*args)
    assert plan.done[plan.s["y"]] == "whole_pixels"
    assert list(plan.s.choices_seen.get("y_pixels", ways)) == ways
    check(args)


def test_vectors_of_whole_pixels_are_loaded_in_a_pattern():
    """No lane is loaded for itself where pixels lie equally far apart; where they do not, each is."""
    from autosched.space.features import FEATURE_NAMES

    def gathered(times):
        sketch = Workload("w", smaller(width=1200, times=times)).search_space(LLVM, {}).sketches
        found = next(s for s in sketch if "one by one" not in s.name)
        return found.features(np.zeros((1, len(found.knobs)), dtype=np.int64))[0][FEATURE_NAMES.index("gathered_loads")]

    assert gathered(2) == 0 < gathered(1.5)


def test_pixels_in_place_are_whole_rows():
    plan = planned(*smaller(times=1))
    assert plan.done[plan.s["y"]] == "whole_rows"
    plan = planned(*smaller(channels=16))
    assert plan.done[plan.s["y"]] == "whole_rows"


def planes(kind):
    """Few planes of which each is made in its own way, before a row, before rows, and between them."""
    x = te.placeholder((3, 40, 70), name="x")

    def choice(k, i, j):
        r, g, b = (x[c, i, j] for c in range(3))
        return te.select(k == 0, r + g, te.if_then_else(k == 1, g - b, (r * b) / 2.0))

    if kind == "row":
        return x, te.compute((3, 70), lambda k, j: choice(k, 1, j), name="y")
    if kind == "between":
        return x, te.compute((40, 3, 70), lambda i, k, j: choice(k, i, j), name="y")
    if kind == "shared":  # rows of a plane share what they read
        near = te.compute((2, 38, 68), lambda k, i, j: te.select(k == 0, x[0, i, j + 2], x[0, i + 2, j]), name="y")
        return x, near
    return x, te.compute((3, 40, 70), choice, name="y")


@pytest.mark.parametrize("kind", ["row", "rows", "between", "shared"])
def test_planes_made_in_different_ways_are_written_out_together(kind):
    plan = planned(*planes(kind))
    assert plan.done[plan.s["y"]] == "whole_rows"
    *_, plane, lane = (loop for loop in plan.s["y"].loops if loop.kind in ("unroll", "vectorize"))
    assert (plane.name, plane.kind, lane.kind) == ("k", "unroll", "vectorize")
    check(planes(kind))


def test_planes_that_differ_by_where_their_rows_end_are_loops():
    x = te.placeholder((4, 40, 70), name="x")
    y = te.compute((4, 40, 70), lambda k, i, j: te.select(k + j < 70, x[k, i, j], 0.0), name="y")
    assert [loop.kind for loop in planned(x, y).s["y"].loops].count("unroll") == 0


def matrices(kind, n=70):
    a, v = te.placeholder((n, 3, 3), name="a"), te.placeholder((n, 4), name="v")
    if kind == "adjugate":

        def minor(m, i, j):
            (p, q), (u, w) = (((j + 1) % 3, (j + 2) % 3), ((i + 1) % 3, (i + 2) % 3))
            return a[m, p, u] * a[m, q, w] - a[m, p, w] * a[m, q, u]

        return a, te.compute((n, 3, 3), minor, name="y")
    if kind == "outer products":
        return v, te.compute((n, 4, 4), lambda m, i, j: v[m, i] * v[m, j], name="y")
    if kind == "in batches":
        b = te.placeholder((5, n, 2, 2), name="b")
        return b, te.compute(
            (5, n, 2, 2), lambda s, m, i, j: te.select(i == j, b[s, m, i, j], -b[s, m, j, i]), name="y"
        )
    return v, te.compute((n, 2, 2), lambda m, i, j: te.select(i * 2 + j == 3, v[m, 0], v[m, 1] * v[m, 2]), name="y")


@pytest.mark.parametrize("kind", ["adjugate", "outer products", "in batches", "decided"])
def test_elements_of_little_matrices_are_written_out(kind):
    plan = planned(*matrices(kind))
    assert plan.done[plan.s["y"]] == "planes_of_pixels"
    assert [loop.kind for loop in plan.s["y"].loops[-3:]] == ["unroll", "unroll", "vectorize"]
    check(matrices(kind))


def test_little_matrices_of_elements_in_place_are_rows():
    a = te.placeholder((70, 3, 3), name="a")
    y = te.compute((70, 3, 3), lambda m, i, j: a[m, i, j] * 2.0, name="y")
    plan = planned(a, y)
    assert plan.done[plan.s["y"]] == "whole_rows"


def scaled(rows, columns=512, twice=False):
    x = te.placeholder((rows, columns), name="x")
    y = te.compute((rows, columns), lambda i, j: x[i, j] * 2.0, name="y")
    return (x, y, te.compute((rows, columns), lambda i, j: y[i, j] + 1.0, name="z")) if twice else (x, y)


def streamed(plan):
    return {x.name for x in plan.s.stages if any("streaming_store" in loop.pragmas for loop in x.loops)}


def test_large_results_may_go_past_the_caches():
    """Those of more than a last-level cache, which nothing reads again."""
    assert streamed(planned(*scaled(300, 8192), y_stores="streamed")) == {"y"}
    assert not streamed(planned(*scaled(300, 8192), y_stores="kept"))
    assert "y_stores" not in planned(*scaled(200, 8192)).s.choices_seen
    both = planned(*scaled(300, 8192, twice=True), z_stores="streamed")
    assert streamed(both) == {"z"} and "y_stores" not in both.s.choices_seen
    check(scaled(300, 8193))


def window(pad=1, kernel=3, channels=2, size=18):
    x = te.placeholder((channels, size, size), name="x")
    w = te.placeholder((channels, kernel, kernel), name="w")
    padded = te.compute(
        (channels, size + 2 * pad, size + 2 * pad),
        lambda c, i, j: te.if_then_else(
            te.all(i >= pad, i < size + pad, j >= pad, j < size + pad), x[c, i - pad, j - pad], te.const(0, "float32")
        ),
        name="padded",
    )
    a, b = te.reduce_axis((0, kernel), "a"), te.reduce_axis((0, kernel), "b")
    return (
        x,
        w,
        te.compute(
            (channels, size, size), lambda c, i, j: te.sum(padded[c, i + a, j + b] * w[c, a, b], axis=[a, b]), "y"
        ),
    )


def test_a_border_may_be_filled_in_without_vectors():
    plan = planned(*window(), padded_at="task")
    assert 1 in plan.s.knobs["padded_lanes"].values
    check(window())


def test_a_small_window_is_written_out_as_a_whole():
    """No loop over it is left, nor a knob that cuts one."""
    plan = planned(*window(), y_window="written out")
    sums = plan.s["y.local"]
    assert [x.kind for x in sums.loops if x.is_reduce] == ["unroll", "unroll"]
    assert "y_steps" not in plan.s.knobs
    assert [x.kind for x in planned(*window(), y_window="one loop").s["y.local"].loops if x.is_reduce] == [
        "serial",
        "unroll",
    ]


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_a_window_are_added_up_first_where_rows_of_results_share_them(weighted):
    """Three results below each other have five rows of a window of three, whose weights must not depend on the row."""
    x, w = te.placeholder((14, 40), name="x"), te.placeholder((3, 3), name="w")
    a, b = te.reduce_axis((0, 3), "a"), te.reduce_axis((0, 3), "b")
    box = te.compute(
        (12, 38), lambda i, j: te.sum(x[i + a, j + b] * (w[a, b] if weighted else w[0, b]), axis=[a, b]), name="box"
    )
    first = [s.trace[0] for s in check([x, w, box]).sketches if s.name != "default"]
    assert first and all(i == ["inline_reduction", "box", *([] if weighted else [{"nested": True}])] for i in first)


def patches(places, height=11, width=38):
    """How far the patch of 3x3 around each pixel is from the nearest of those at some places near it."""
    x = te.placeholder((height, width), name="x")
    edge, (a, b) = te.repeat_edge(x), (te.reduce_axis((0, 3), name) for name in "ab")

    def apart(i, j, v, u):
        change = edge[i + a - 1, j + b - 1] - edge[i + a + v - 3, j + b + u - 3]
        return te.sum(change * change, axis=[a, b])

    distance = te.compute((height, width, places, places), apart, name="distance")
    v, u = te.reduce_axis((0, places), "v"), te.reduce_axis((0, places), "u")
    where = te.any(v != 2, u != 2)
    nearest = te.compute(
        (height, width), lambda i, j: te.min(distance[i, j, v, u], axis=[v, u], where=where), "nearest"
    )
    return x, nearest


@pytest.mark.parametrize(("places", "is_stored"), [(5, True), (3, False)])
def test_what_much_is_computed_of_is_stored_with_its_border(places, is_stored):
    """25 places of 26 operations each are worth a copy of each pixel, 9 are not."""
    found = Workload("w", patches(places)).search_space(LLVM, {}).sketches
    assert {"cache_padding" in [i[0] for i in s.trace] for s in found if s.name != "default"} == {is_stored}


@pytest.mark.parametrize("digits", [True, False])
def test_bytes_of_which_much_is_computed_are_stored_with_their_border(digits):
    """Operations of integers count as those of floats do. Places that are tried may be an axis, or digits of one."""
    a, b = (te.placeholder((24, 32), "uint8", name=name) for name in "ab")
    y, x, edge = te.reduce_axis((0, 8), "y"), te.reduce_axis((0, 8), "x"), te.repeat_edge(b)

    def apart(i, j, v, u):
        there = edge[i * 8 + y + v - 4, j * 8 + x + u - 4].astype("int32")
        return te.sum(te.abs(a[i * 8 + y, j * 8 + x].astype("int32") - there), axis=[y, x])

    if digits:
        sad = te.compute((3, 4, 81), lambda i, j, q: apart(i, j, q // 9, q % 9), name="sad")
    else:
        sad = te.compute((3, 4, 9, 9), apart, name="sad")
    found = check((a, b, sad)).sketches
    assert all("cache_padding" in [i[0] for i in s.trace] for s in found if s.name != "default")


def counts(height=13, width=37, values=256, dtype="uint8"):
    image, one = te.placeholder((height, width), dtype, name="image"), te.const(1, "int32")
    y, x = te.reduce_axis((0, height), name="y"), te.reduce_axis((0, width), name="x")
    return image, te.scatter_reduce((values,), lambda: (image[y, x], one), axis=[y, x], name="counts")


def test_threads_and_neighbours_count_apart():
    plan = planned(*counts())
    assert sorted(plan.done.values()) == ["private_copies"] * 3
    rows = [x.name for x in plan.s["counts.rf.rf"].loops if x.is_reduce]
    assert rows == ["y.inner", "x.outer"]  # neighbours lie side by side
    check(counts())
    single = te.placeholder((50,), "uint8", name="x"), te.reduce_axis((0, 50), name="k")
    check((single[0], te.scatter_reduce((256,), lambda: (single[0][single[1]], te.const(1, "int32")), [single[1]])))


def test_copies_that_would_not_stay_in_the_cache_are_not_made():
    plan = planned(*counts(values=1 << 16, dtype="uint16"))
    assert set(plan.done.values()) == {"leave_opaque"}  # there are fewer values than results


def entries(count=1 << 17, rows=20_000):
    """Values of a sparse matrix in any order, times a vector."""
    row, column = (te.placeholder((count,), "uint16", name=name) for name in ("row", "column"))
    value, x = te.placeholder((count,), "int32", name="value"), te.placeholder((rows,), "int32", name="x")
    p = te.reduce_axis((0, count), "p")
    return row, column, value, x, te.scatter_reduce((rows,), lambda: (row[p], value[p] * x[column[p]]), p, name="y")


def test_threads_have_copies_of_many_results_where_there_are_far_more_values():
    plan = planned(*entries())
    assert sorted(plan.done.values()) == ["copies_of_bands"] * 2
    assert plan.s["y.rf"].loops[0].kind == plan.s["y"].loops[0].kind == "parallel"
    check(entries(), most=2)
    plan = planned(*counts(height=600, width=700, values=1 << 16, dtype="uint16"))
    assert sorted(plan.done.values()) == ["copies_of_bands"] * 2
    assert [x.name for x in plan.s["counts.rf"].loops if x.is_reduce] == ["y.inner", "x"]


def sorted_rows(rows=29, n=20):
    """Each row's elements at the place that as many are smaller as."""
    x, k, j = te.placeholder((rows, n), name="x"), te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "j")

    def before(i, j):
        return te.sum(te.any(x[i, k] < x[i, j], te.all(x[i, k] == x[i, j], k < j)).astype("int32"), axis=k)

    rank = te.compute((rows, n), before, name="rank")
    return x, te.scatter_reduce((rows, n), lambda i: (rank[i, j], x[i, j]), axis=j, name="sorted")


@pytest.mark.parametrize("at", ["row", "task", "root"])
def test_threads_share_rows_into_which_data_place_values(at):
    plan = planned(*sorted_rows(), rank_at=at)
    assert plan.done[plan.s["sorted"]] == "rows_of_a_scatter"
    assert plan.s["sorted"].loops[0].kind == "parallel"
    assert plan.s["rank"].attach.kind == ("root" if at == "root" else "at")
    check(sorted_rows())


def test_few_rows_of_a_scatter_are_not_shared():
    plan = planned(*sorted_rows(2))
    assert plan.done[plan.s["sorted"]] != "rows_of_a_scatter"


def down_columns(rows=7, columns=300):
    x = te.placeholder((rows, columns), name="x")
    state = te.placeholder((rows, columns), name="state")
    first = te.compute((1, columns), lambda _, j: x[0, j], name="first")
    step = te.compute((rows, columns), lambda t, j: state[t - 1, j] + x[t, j], name="step")
    return x, te.scan(first, step, state, inputs=[x], name="sums")


def along_rows(rows=10, blocks=5, lanes=8):
    """Blocks of a row are added up by a product with a triangle; the scan adds what came before."""
    x = te.placeholder((rows, blocks * lanes), name="x")
    k = te.reduce_axis((0, lanes), "k")
    triangle = te.compute((lanes, lanes), lambda k, j: te.select(k <= j, te.const(1.0), te.const(0.0)), name="triangle")
    inside = te.compute(
        (blocks, rows, lanes), lambda t, i, j: te.sum(x[i, t * lanes + k] * triangle[k, j], axis=k), name="inside"
    )
    state = te.placeholder((blocks + 1, rows, lanes), name="before")
    nothing = te.compute((1, rows, lanes), lambda t, i, j: te.const(0.0), name="nothing")
    step = te.compute(
        (blocks + 1, rows, lanes), lambda t, i, j: inside[t - 1, i, j] + state[t - 1, i, lanes - 1], name="step"
    )
    sums = te.scan(nothing, step, state, inputs=[x], name="sums")
    return x, te.compute((rows, blocks * lanes), lambda i, j: sums[j // lanes + 1, i, j % lanes], name="out")


def one_chain(n=40):
    """Each place needs its neighbour's: nothing is independent."""
    x = te.placeholder((9, n), name="x")
    state = te.placeholder((9, n), name="state")
    first = te.compute((1, n), lambda _, j: x[0, j], name="first")
    step = te.compute((9, n), lambda t, j: state[t - 1, te.min(j + 1, n - 1)] + x[t, j], name="step")
    return x, te.scan(first, step, state, inputs=[x], name="sums")


def test_columns_of_a_scan_are_shared_out():
    plan = planned(*down_columns())
    sums, step = plan.s["sums"], plan.s["step"]
    assert [x.kind for x in sums.loops] == ["parallel", "serial", "serial"]
    assert step.loops[-1].kind == "vectorize"
    check(down_columns())


def test_a_scan_runs_where_its_rows_are_read_and_makes_its_sums_in_the_step():
    plan = planned(*along_rows(), sums_at="strip", inside_by="sums_of_a_step")
    assert plan.s["sums"].attach.stage is plan.s["out"]
    assert plan.s["inside"].attach.loop is plan.s["sums"].scan_loop
    assert plan.done[plan.s["triangle"]] == "always_inline"
    check(along_rows(), most=10)


def test_a_scan_of_one_chain_goes_step_by_step():
    plan = planned(*one_chain())
    assert plan.done[plan.s["sums"]] == "scan_in_steps"
    assert [x.kind for x in plan.s["step"].loops] == ["serial", "serial", "vectorize"]
    check(one_chain())


def pixel_sums(height=23, width=40, channels=3):
    """Sums of two pixels along rows, then of three rows."""
    image = te.placeholder((height + 2, width + 1, channels), "uint8", name="image")
    across = te.compute(
        (height + 2, width, channels),
        lambda y, x, c: image[y, x, c].astype("uint16") + image[y, x + 1, c].astype("uint16"),
        name="across",
    )
    return image, te.compute(
        (height, width, channels),
        lambda y, x, c: across[y, x, c] + across[y + 1, x, c] + across[y + 2, x, c],
        name="out",
    )


def test_a_window_slides_along_rows_and_keeps_them_for_a_task():
    plan = planned(*pixel_sums(), across_at="sliding")
    stage, host = (next(s for s in plan.s.stages if s.name == n) for n in ("across", "out"))
    places = {p.name: p.loop for p in plan.places[host]}
    assert "block" in places, "vectors along a row may have a producer, and no window slides along them"
    assert stage.attach.loop is places["strip"]
    assert stage.store.loop is places["task"]
    check(pixel_sums(), most=20)


def smoothed(n, terms):
    x, k = te.placeholder((n + terms,), name="x"), te.reduce_axis((0, terms), "k")
    return x, te.compute((n,), lambda i: te.sum(x[i + k], axis=k), name="smooth")


def test_a_long_window_is_made_in_passes():
    args = smoothed(3000, 60)
    found = settled(args)
    assert found["smooth"] == "whole_rows" and "smooth.first" in found
    check(args, most=2)
    check(smoothed(70, 60), most=6)


def softmax_of(rows, columns=1024):
    x = te.placeholder((rows, columns), name="x")
    return x, nn.softmax(x)


def test_rows_that_come_from_afar_are_asked_for_ahead():
    """Where a reduction goes over them inside a strip, once, and not where a second-level cache has all of them."""

    def prefetches(sketch):
        return sum(i[0] == "prefetch" for i in sketch.trace)

    wide = Workload("w", softmax_of(600)).search_space(LLVM, {}).sketches
    asking = [s for s in wide if prefetches(s)]
    assert asking and all(prefetches(s) == 1 and any(k.name.endswith("_ahead") for k in s.knobs) for s in asking)
    assert all("strip" in s.name for s in asking) and len(asking) < len(wide)
    small = Workload("w", softmax_of(64)).search_space(LLVM, {}).sketches
    assert not any(map(prefetches, small))
    for columns, most in ((2048, 4), (10240, 0)):  # rows of a first-level cache that may be asked for; a row of 40 KB
        values = set()
        for sketch in Workload("w", deviations(300, columns)).search_space(LLVM, {}).sketches:
            assert most or not prefetches(sketch), sketch.name
            if prefetches(sketch) and sketch.valid_points.count:
                knobs = (
                    sketch.values(row) for row in sketch.valid_points.rows(range(min(99, sketch.valid_points.count)))
                )
                values |= {k["variance_lanes"] * k["variance_ahead"] for k in knobs if "variance_ahead" in k}
        assert max(values, default=0) <= most
    check(softmax_of(600), most=3)


def test_each_rule_shows_what_it_does():
    """A picture of before and after in its docstring."""
    assert [r.name for r in cpu_rules() if "   ->   " not in (r.apply.__doc__ or "")] == []


# -- reductions that read the same input ----------------------------------------------------------
def both_ways(n=64, m=96):
    a, x, y = te.placeholder((n, m), name="a"), te.placeholder((m,), name="x"), te.placeholder((n,), name="y")
    i, j = te.reduce_axis((0, n), "i"), te.reduce_axis((0, m), "j")
    rows = te.compute((n,), lambda r: te.sum(a[r, j] * x[j], axis=j), name="rows")
    return a, x, y, rows, te.compute((m,), lambda c: te.sum(a[i, c] * y[i], axis=i), name="columns")


def test_vectors_go_along_the_rows_of_the_matrix_whatever_vectors_lie_beside_it():
    plan = planned(*both_ways(), rows_by="lanes_of_sums", columns_by="sums_of_columns")
    done = {stage.name: rule for stage, rule in plan.done.items()}
    assert done["rows"] == "lanes_of_sums" and done["columns"] == "sums_of_columns"
    check(both_ways())
    check(both_ways(61, 45))


def places(rows=6, columns=203, dtype="float32", where=False, of=te.argmax):
    x, taken = te.placeholder((rows, columns), dtype, name="x"), te.placeholder((rows,), "int32", name="taken")
    k = te.reduce_axis((0, columns), "k")
    index, value = te.compute(
        (rows,), lambda i: of(x[i, k], axis=k, where=(k != taken[i]) if where else None), name="best"
    )
    return (x, taken, index, value) if where else (x, index, value)


@pytest.mark.parametrize("of", [te.argmax, te.argmin])
@pytest.mark.parametrize("columns", [1203, 203, 64, 5])
def test_the_first_of_equals_wins_in_lanes_and_pieces(of, columns):
    w = Workload("w", places(columns=columns, of=of))
    space = w.search_space(LLVM, {})
    found = " ".join(sketch.name for sketch in space.sketches)
    assert "pieces_of_rows" in found and "lanes_of_sums" in found
    assert ("searches=True" in found) == (columns == 1203), "vectors of long pieces ask whether they change anything"
    rng = np.random.default_rng(5)
    x = rng.integers(0, 3, (6, columns)).astype("float32")
    x[1], x[2, columns // 2 :], x[3, ::2], x[4] = 0, np.nan, np.inf, -np.inf
    wanted = (np.argmax if of is te.argmax else np.argmin)(x, axis=1)
    for sketch in space.sketches:
        for number in rng.integers(sketch.valid_points.count, size=3):
            knobs = sketch.values(sketch.valid_points.rows([int(number)])[0])
            index, value = Module(compile_function(sketch.structure.bind(knobs), LLVM), LLVM)(x)
            np.testing.assert_array_equal(index, wanted, err_msg=f"{sketch.name} with {knobs}")
            np.testing.assert_array_equal(value, x[np.arange(6), wanted])


def test_vectors_of_long_rows_ask_whether_they_change_anything():
    args = places(512, 600, of=te.argmin, where=True)
    plans = {asks: planned(*args, best_searches=asks) for asks in (True, False)}
    assert {asks: p.done[p.s["best"]] for asks, p in plans.items()} == {
        True: "lanes_that_change",
        False: "lanes_of_sums",
    }
    assert "lanes_that_change" not in planned(*places(512, 500)).done.values()
    check(args)
    x = np.random.default_rng(5).integers(0, 40, (512, 600)).astype("float32")
    x[1], x[2, 300:], x[3], x[4] = 0, np.nan, np.arange(600), -np.inf
    taken = np.random.default_rng(6).integers(0, 600, 512).astype("int32")
    found = Workload("w", args).search_space(LLVM, {}).sketches[0]
    knobs = found.values(found.valid_points.rows([0])[0])
    index, _ = Module(compile_function(found.structure.bind(knobs), LLVM), LLVM)(x, taken)
    kept = np.where(np.arange(600) == taken[:, None], np.inf, x)
    np.testing.assert_array_equal(index, np.argmin(kept, axis=1))


def test_searches_of_the_same_rows_go_over_a_row_while_it_is_near():
    x, (k, m) = te.placeholder((512, 600), name="x"), (te.reduce_axis((0, 600), name) for name in "km")
    first, _ = te.compute((512,), lambda i: te.argmax(x[i, k], axis=k), name="first")
    second, _ = te.compute(
        (512,), lambda i: te.argmax((m.var, x[i, m]), axis=m, where=m.var != first[i]), name="second"
    )
    both = te.compute((512, 2), lambda i, r: te.if_then_else(r == 0, first[i], second[i]), name="both")
    plan = planned(x, both, both_searches=True)
    assert plan.s["second"].shares is plan.s["first"].loops[1]
    space = check((x, both), most=2)
    text = str(space.sketches[0].structure)
    assert text.count("parallel (") == 2 and text.index("produce first") < text.index("produce second")


def test_a_search_of_ones_own_keeps_its_order():
    """The last of equals wins: it may not be cut into lanes, but vectors may ask first."""
    x, k = te.placeholder((512, 600), name="x"), te.reduce_axis((0, 600), "k")
    last = te.comm_reducer(
        lambda a, b: (te.select(b[1] >= a[1], b[0], a[0]), te.select(b[1] >= a[1], b[1], a[1])),
        lambda i, v: (te.const(-1, i), te.const(v.min, v)),
    )
    index, value = te.compute((512,), lambda i: last((k.var, x[i, k]), axis=k), name="best")
    plan = planned(x, index, value)
    assert plan.done[plan.s["best"]] == "lanes_that_change"
    check((x, index, value))


def variances(rows=67, columns=40):
    """By a combiner of one's own (Welford's), a step of which waits for the last one for long."""
    x, k = te.placeholder((rows, columns), name="x"), te.reduce_axis((0, columns), "k")

    def combine(a, b):
        n, d = a[0] + b[0], b[1] - a[1]
        share = b[0] / te.max(n, 1.0)
        return n, a[1] + d * share, a[2] + b[2] + d * d * a[0] * share

    spread = te.comm_reducer(combine, lambda *of: tuple(te.const(0, t) for t in of), name="spread")
    one, zero = te.const(1, "float32"), te.const(0, "float32")
    n, _, squares = te.compute((rows,), lambda i: spread((one, x[i, k], zero), axis=k), name="welford")
    return x, te.compute((rows,), lambda i: squares[i] / n[i], name="variance")


def test_results_of_a_combiner_of_ones_own_are_made_side_by_side():
    """Its terms keep their order, and of several long rows none waits for another."""
    args = variances(columns=sums.IN_ORDER + 1)
    plan = planned(*args, welford_at="root")
    assert [x.kind for x in plan.s["welford"].loops] == ["parallel", "serial", "unroll"]
    assert plan.s["welford"].loops[1].is_reduce
    check(args)
    assert [x.kind for x in planned(*variances(3), welford_at="root").s["welford"].loops] == ["parallel", "serial"]


@pytest.mark.parametrize(
    ("name", "args"), [("best", places(1025, 10)), ("best", places(1025, 100, of=te.argmin)), ("welford", variances())]
)
def test_short_rows_of_several_results_are_lanes(name, args):
    """What the lanes of one row found would be combined one by one."""
    loops = planned(*args, **({} if name == "best" else {"welford_at": "root"})).s[name].loops
    assert [x.kind == "vectorize" and not x.is_reduce for x in loops] == [False, False, False, True]
    check(args)


@pytest.mark.parametrize(
    ("weight", "loops"),
    [(lambda i, j: i * 40 + j, 1), (lambda i, j: i + j, 2), (lambda i, j: j, 2), (lambda i, j: i, 2)],
)
def test_rows_whose_numbers_count_are_apart(weight, loops):
    """As one row of all, each vector would have to find out in which row it is; counted through, it need not."""
    x, i, j = te.placeholder((30, 40), name="x"), te.reduce_axis((0, 30), "i"), te.reduce_axis((0, 40), "j")
    y = te.compute((), lambda: te.sum(x[i, j] * weight(i, j).astype("float32"), axis=[i, j]), name="y")
    partial = planned(x, y, y_by="lanes_of_sums").s["y.rf"]
    assert len(partial.reduce_loops) == loops
    check((x, y))


def test_where_a_row_is_looked_up_is_no_operand():
    """Products of rows with matrices that data choose for each: no matrix is read again, so there is no tile."""
    x, w = te.placeholder((40, 24), name="x"), te.placeholder((5, 24, 32), name="w")
    which, scale = te.placeholder((40,), "int32", name="which"), te.placeholder((40,), name="scale")
    k = te.reduce_axis((0, 24), "k")
    chosen = te.compute((40, 32), lambda i, j: te.sum(x[i, k] * w[which[i], k, j], axis=k), name="chosen")
    assert "multi_level_tiling" not in planned(x, w, which, chosen).done.values()
    scaled = te.compute((40, 32), lambda i, j: te.sum(scale[i] * x[i, k] * w[0, k, j], axis=k), name="scaled")
    assert "multi_level_tiling" in planned(x, w, scale, scaled).done.values()


@pytest.mark.parametrize("words", [5000, 500])
def test_rows_of_a_large_table_are_asked_for_ahead(words):
    table, word = te.placeholder((words, 64), name="table"), te.placeholder((300, 8), "int32", name="word")
    k = te.reduce_axis((0, 8), "k")
    row = te.compute((300, 8, 64), lambda b, e, j: table[word[b, e], j], name="row")
    args = table, word, te.compute((300, 64), lambda b, j: te.sum(row[b, k, j], axis=k), name="bag")
    asked = [f.tensor.name for f in planned(*args).s["bag"].fetches]
    assert asked == (["table"] if words == 5000 else [])
    check(args, most=1)


def test_places_that_others_took_are_left_out():
    check(places(where=True))
    check(places(where=True, dtype="int8"))


def standardised(rows=40, columns=24):
    x = te.placeholder((rows, columns), name="x")
    k = te.reduce_axis((0, rows), "k")
    total = te.compute((columns,), lambda j: te.sum(x[k, j], axis=k), name="total")
    return x, te.compute((rows, columns), lambda i, j: x[i, j] - total[j] / rows, name="y")


def test_sums_of_columns_are_not_made_again_for_each_row():
    """Nor do they lose the rules of sums: at the root, rows are shared by threads."""
    for by in ("bands_of_rows", "sums_of_columns"):
        plan = planned(*standardised(), total_sums=by)
        stage = next(x for x in plan.s.stages if x.name == "total")
        assert stage.attach.kind == "root" and any(loop.kind == "parallel" for x in plan.s.stages for loop in x.loops)
        assert "total_at" not in plan.s.choices_seen
    check(standardised())


def gradient(rows=67, columns=40, dtype="float32", of=te.sum):
    """Sums of the rows of x, weighted by what each row gives all in all, as in the gradient of a regression."""
    x, w = te.placeholder((rows, columns), dtype, name="x"), te.placeholder((columns,), dtype, name="w")
    k, r = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, rows), "r")
    z = te.compute((rows,), lambda i: of(x[i, k] * w[k], axis=k), name="z")
    e = te.compute((rows,), lambda i: z[i] * 2 - 1, name="e")
    return x, w, te.compute((columns,), lambda j: te.sum(e[r] * x[r, j], axis=r), name="g")


@pytest.mark.parametrize("options", [{}, {"of": te.max}, {"dtype": "int32", "rows": 64}])
def test_bands_make_what_their_rows_need_while_these_are_near(options):
    space = check(gradient(**options), most=8)
    made = [{x.name: x.attach for x in s.schedule().stages if x.attach.kind == "at"} for s in space.sketches]
    assert any(m["z"].loop.is_reduce for m in made if "z" in m)


def test_what_only_results_choose_is_not_made_for_rows():
    """Nor are there bands of whole rows for it."""
    x, v = te.placeholder((67, 40), name="x"), te.placeholder((40,), name="v")
    r = te.reduce_axis((0, 67), "r")
    scale = te.compute((40,), lambda j: te.exp(v[j]), name="scale")
    args = x, v, te.compute((40,), lambda j: te.sum(x[r, j] * scale[j], axis=r), name="g")
    stages = [x for s in check(args, most=2).sketches for x in s.schedule().stages]
    assert not any(x.attach.kind == "at" and x.attach.loop.is_reduce for x in stages if x.name == "scale")


def stretches(rows, columns):
    """x[rows] @ a[rows, columns]: the fewest vectors of a row that are read in one go, and the most rows at a time."""
    x, a = te.placeholder((rows,), name="x"), te.placeholder((rows, columns), name="a")
    k = te.reduce_axis((0, rows), "k")
    plan = planned(x, a, te.compute((columns,), lambda j: te.sum(x[k] * a[k, j], axis=k), name="y"))
    at_once = next(knob for name, knob in plan.s.knobs.items() if name.endswith("_rows"))
    (stage,) = (x for x in plan.s.stages if any(loop.is_reduce and loop.kind == "unroll" for loop in x.loops))
    *_, vectors = (e for loop, e in leaf_extents(stage).items() if loop.kind == "serial" and not loop.is_reduce)
    knob = next((k for k in plan.s.knobs.values() if k.var is vectors), None)
    return min(knob.values) if knob is not None else int(vectors.value), max(at_once.values)


def test_a_matrix_from_memory_is_read_in_long_stretches():
    """16 KiB of a row, of vectors of 32 bytes; half of a thread's share where threads have the columns; 2 KiB of what a
    last-level cache holds."""
    assert stretches(4096, 4096) == (512, 8)
    assert stretches(2048, 8192) == (256, 8)
    assert stretches(1024, 1024) == (64, 8)


def test_a_product_with_its_own_transpose_is_packed():
    a = te.placeholder((40, 24), name="a")
    k = te.reduce_axis((0, 24), "k")
    gram = te.compute((40, 40), lambda i, j: te.sum(a[i, k] * a[j, k], axis=k), name="gram")
    plan = planned(a, gram)
    assert sum(rule == "pack" for rule in plan.done.values()) == 2  # the copy, and its layout
    check((a, gram))
    lower = te.compute((40, 40), lambda i, j: te.sum(a[i, k] * a[j, k], axis=k, where=j <= i), name="lower")
    check((a, lower))


def extremes(rows=7, columns=90, **differs):
    """X -> of each row the least, the sum, and the sum of squares; some of them other than that."""
    x, z = te.placeholder((rows, columns), name="x"), te.placeholder((rows, columns), name="z")
    k, p, m = (te.reduce_axis((0, differs.get("columns_of", {}).get(n, columns)), n) for n in "kpm")
    low = te.compute((rows,), lambda i: te.min(x[i, k], axis=k), name="low")
    total = te.compute(
        (rows,), lambda i: te.sum(x[i, p], axis=p, where=differs.get("where", lambda p: None)(p)), name="total"
    )
    squares = te.compute(
        (rows,), lambda i: te.sum(differs.get("square", lambda i, m: x[i, m] * x[i, m])(i, m), axis=m), name="squares"
    )
    return x, z, low, total, squares


def joint(args):
    s = create_schedule(list(args[2:]))
    read_once(s)
    return [x.name for x in s.stages if len(x.op.outputs) > 1 for x in s.consumers(x)]


def test_reductions_that_read_the_same_go_over_it_once():
    assert joint(extremes()) == ["low", "total", "squares"]
    check(extremes_of(extremes()))
    n = te.var("n")
    check(extremes_of(extremes(columns=n)), sizes={"n": 77})


def extremes_of(args):
    """Without the placeholder that nothing reads."""
    x, _, *results = args
    return (x, *results)


def test_reductions_of_other_points_or_inputs_stay_alone():
    assert joint(extremes(columns_of={"p": 89})) == ["low", "squares"]
    assert joint(extremes(where=lambda p: p > 2)) == ["low", "squares"]
    assert joint(extremes(square=lambda i, m: te.const(2.0) * m)) == ["low", "total"]


def test_a_reduction_that_needs_another_stays_alone():
    x = te.placeholder((6, 40), name="x")
    k, m = te.reduce_axis((0, 40), "k"), te.reduce_axis((0, 40), "m")
    total = te.compute((6,), lambda i: te.sum(x[i, k], axis=k), name="total")
    around = te.compute((6,), lambda i: te.sum((x[i, m] - total[i] / 40) * (x[i, m] - total[i] / 40), axis=m), name="v")
    assert joint((x, None, total, around)) == []
    check((x, total, around))


def deviations(rows=40, columns=600):
    """X -> the mean of each row, as a result, and the sum of squares around it."""
    x = te.placeholder((rows, columns), name="x")
    k, m = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "m")
    total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name="total")
    mean = te.compute((rows,), lambda i: total[i] / columns, name="mean")
    square = te.compute((rows, columns), lambda i, j: (x[i, j] - mean[i]) * (x[i, j] - mean[i]), name="square")
    squares = te.compute((rows,), lambda i: te.sum(square[i, m], axis=m), name="squares")
    return x, mean, te.compute((rows,), lambda i: squares[i] / columns, name="variance")


def test_an_output_is_computed_where_it_is_read():
    """A row at a time: the squares are made of what the mean was made of."""
    space = check(deviations(), most=12)
    inside = [s for s in space.sketches if "output_in_a_reader" in s.name]
    assert inside
    for sketch in inside:
        assert any(i[:2] == ["compute_at", "mean"] for i in sketch.trace)
    assert any(1 in knob.values for s in inside for knob in s.knobs if knob.name == "variance_lanes")
    n = te.var("n")
    check(deviations(columns=n), sizes={"n": 77})
    check(deviations(rows=n), sizes={"n": 77})


def test_an_output_of_which_readers_leave_some_out_has_loops_of_its_own():
    x = te.placeholder((40, 600), name="x")
    k = te.reduce_axis((0, 600), "k")
    total = te.compute((40,), lambda i: te.sum(x[i, k], axis=k), name="total")
    args = x, total, te.compute((20, 600), lambda i, j: x[2 * i, j] - total[2 * i], name="less")
    assert "output_in_a_reader" not in planned(*args).done.values()
    check(args)


def test_an_output_that_is_looked_up_has_loops_of_its_own():
    """Each reader may need any element: all of them would be computed in each iteration."""
    x, k = te.placeholder((20, 30), "int32", name="x"), te.reduce_axis((0, 30), "k")
    total = te.compute((20,), lambda i: te.sum(x[i, k], axis=k), name="total")
    args = x, total, te.compute((20,), lambda i: total[te.floormod(total[i], 20)], name="hop")
    assert "output_in_a_reader" not in planned(*args).done.values()
    check(args)


def test_an_output_is_not_computed_where_vectors_cross_its_rows():
    """Two vectors of the short rows that are joined to one need the same element of the sums."""
    x, k = te.placeholder((5, 7), name="x"), te.reduce_axis((0, 7), "k")
    power = te.compute((5, 7), lambda i, j: te.exp(x[i, j]), name="power")
    total = te.compute((5,), lambda i: te.sum(power[i, k] * power[i, k], axis=k), name="total")
    check((x, total, te.compute((5, 7), lambda i, j: power[i, 6 - j] / total[i], name="parts")), most=12)


def test_long_rows_are_added_up_in_several_chains():
    assert min(planned(*deviations()).s.knobs["total_partial"].values) == 32
    assert min(planned(*deviations(columns=200)).s.knobs["total_partial"].values) == 8


# -- natural spellings -----------------------------------------------------------------------------


def settled(args, **choices):
    """Stage -> the rule that settled it, in the first sketch."""
    sketch = Workload("w", args).search_space(LLVM, {}).sketches[0]
    return {stage: rule for stage, rule, _ in sketch.schedule().remarks}


def coloured(height=6, width=40):
    """Each channel is made of all three: brightness, and how far red and blue are from it."""
    x = te.placeholder((height, width, 3), "uint8", name="x")
    light = te.compute((height, width), lambda i, j: x[i, j, 0] / 4 + x[i, j, 1] / 2 + x[i, j, 2] / 4, name="light")

    def pixel(i, j, c):
        return te.select(c == 0, light[i, j], te.select(c == 1, x[i, j, 0] - light[i, j], x[i, j, 2] - light[i, j]))

    return x, te.compute((height, width, 3), pixel, name="y")


def test_pixels_whose_channels_differ_are_made_in_planes():
    assert settled(coloured())["y"] == "planes_of_pixels"
    check(coloured())
    x = te.placeholder((6, 40, 3), name="x")
    alike = te.compute((6, 40, 3), lambda i, j, c: x[i, j, c] * 2 + x[i, te.max(j - 1, 0), c], name="y")
    assert settled((x, alike))["y"] == "whole_rows", "lanes along a row do the same for every channel"


def test_transpositions_are_turned():
    x = te.placeholder((3, 37, 50), name="x")
    y = te.compute((3, 50, 37), lambda b, i, j: x[b, j, i] * 2, name="y")
    assert settled((x, y))["y"] == "turned_tiles"
    check((x, y))
    few = te.compute((37, 50, 3), lambda i, j, b: x[b, i, j], name="few")
    assert settled((x, few))["few"] != "turned_tiles", "squares of three columns are no squares"
    check((x, few))


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 0, 2, 1), (1, 3, 2, 0)])
def test_permutes_turn_squares(order):
    """Axes that stay together are one; the last square of a side moves back to end at the edge."""
    x = te.placeholder((7, 19, 5, 21), "uint8", name="x")

    def at(*to):
        return x[tuple(to[order.index(axis)] for axis in range(4))]

    args = (x, te.compute(tuple(x.shape[axis] for axis in order), at, name="y"))
    plan = planned(*args)
    assert plan.done[plan.s["y"]] == "turned_tiles"
    check(args)


def concatenated(axis, shape=(4, 20, 5, 18)):
    """Two tensors one after the other along an axis, then a ReLU."""
    a, b = (te.placeholder(shape, name=name) for name in "ab")
    n = shape[axis]

    def of_two(*at):
        beyond = tuple(i - n if d == axis else i for d, i in enumerate(at))
        return te.if_then_else(at[axis] < n, a[at], b[beyond])

    whole = tuple(2 * n if d == axis else m for d, m in enumerate(shape))
    joined = te.compute(whole, of_two, name="joined")
    return a, b, te.compute(whole, lambda *at: te.max(joined[at], 0.0), name="relu")


@pytest.mark.parametrize(("axis", "row"), [(1, ["at2", "at3"]), (3, ["at3"]), (2, ["at3"])])
def test_rows_of_both_sources_are_joined_where_nothing_asks_for_their_place(axis, row):
    args = concatenated(axis)
    plan = planned(*args)
    assert plan.done[plan.s["relu"]] == "whole_rows"
    lane = plan.s["relu"].loops[-1]
    assert lane.name == ".".join(row) + ".fused" * (len(row) > 1) + ".inner" and lane.kind == "vectorize"
    check(args)


def test_elements_that_data_look_up_are_no_window():
    """Rows of a sparse matrix are added up in lanes, as many as divide a short row."""
    values, x = te.placeholder((600, 12), name="values"), te.placeholder((600,), name="x")
    columns, k = te.placeholder((600, 12), "int32", name="columns"), te.reduce_axis((0, 12), "k")
    args = values, columns, x, te.compute((600,), lambda i: te.sum(values[i, k] * x[columns[i, k]], axis=k), name="y")
    plan = planned(*args)
    assert plan.done[plan.s["y"]] == "lanes_of_sums"
    assert 4 in plan.s.knobs["y_partial"].values
    check(args)


def test_what_is_read_once_for_each_element_is_inlined_however_often_it_is_read():
    """Weights that only their own pixel uses, in two sums: each is computed once, and shared."""
    x, v, u = te.placeholder((20, 40), name="x"), te.reduce_axis((0, 3), "v"), te.reduce_axis((0, 3), "u")
    edge = te.repeat_edge(x)
    weight = te.compute((20, 40, 3, 3), lambda i, j, a, b: te.exp(x[i, j] - edge[i + a - 1, j + b - 1]), name="weight")
    total = te.compute((20, 40), lambda i, j: te.sum(weight[i, j, v, u] * edge[i + v - 1, j + u - 1], [v, u]), name="t")
    weights = te.compute((20, 40), lambda i, j: te.sum(weight[i, j, v, u], axis=[v, u]), name="weights")
    y = te.compute((20, 40), lambda i, j: total[i, j] / weights[i, j], name="y")
    assert settled((x, y))["weight"] == "always_inline"
    twice = te.compute((20, 40), lambda i, j: weight[i, j, 0, 0] + weight[i, te.max(j - 1, 0), 0, 0], name="twice")
    assert settled((x, te.compute((20, 40), lambda i, j: twice[i, j] + y[i, j], name="z")))["weight"] != "always_inline"
    check((x, y))


def test_chains_of_stencils_stay_linear():
    """Inlined, six rounds of nine terms would read 13 x 13 pixels and compute half a million sums."""
    x = found = te.placeholder((24, 40), name="x")
    for at in range(6):
        v, u, edge = te.reduce_axis((0, 3), "v"), te.reduce_axis((0, 3), "u"), te.repeat_edge(found)
        box = te.compute(
            (24, 40), lambda i, j, e=edge, v=v, u=u: te.sum(e[i + v - 1, j + u - 1], axis=[v, u]), name=f"box{at}"
        )
        found = te.compute((24, 40), lambda i, j, b=box: b[i, j] * 0.1 + 0.05, name=f"dim{at}")
    space = Workload("w", (x, found)).search_space(LLVM, {})
    assert len(space.sketches) > 1, "of half a million sums no sketch could be made"
    plain = operations(lower_structure(create_schedule(found), [x, found], LLVM).function.body, {})
    for sketch in space.sketches:
        if not any(i[0] == "compute_at" for i in sketch.trace):  # tiles that overlap are for knobs to decide
            knobs = sketch.values(sketch.valid_points.rows([0])[0])
            assert operations(sketch.structure.function.body, knobs) <= 8 * plain, sketch.name


def test_a_table_that_data_look_up_is_made_once():
    x = te.placeholder((20, 40), "uint8", name="x")
    table = te.compute((256,), lambda k: te.sqrt(k.astype("float32")), name="table")
    y = te.compute((20, 40), lambda i, j: table[x[i, j].astype("int32")], name="y")
    for sketch in Workload("w", (x, y)).search_space(LLVM, {}).sketches:
        assert not any(i[:2] == ["compute_at", "table"] for i in sketch.trace)
    check((x, y))


def sums_both_ways(n, m, dtype="float32"):
    """X[n, m] -> the sums of its rows, weighted, and of its columns."""
    x, w = te.placeholder((n, m), dtype, name="x"), te.placeholder((m,), dtype, name="w")
    i, j = te.reduce_axis((0, n), "i"), te.reduce_axis((0, m), "j")
    rows = te.compute((n,), lambda r: te.sum(x[r, j] * w[j], axis=j), name="rows")
    return x, w, rows, te.compute((m,), lambda c: te.sum(x[i, c], axis=i), name="columns")


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("n", "m"), [(413, 514), (413, 777), (1003, 203)])
def test_sums_of_rows_and_of_columns_are_made_of_one_reading(n, m, turned):
    """Long rows in one loop over blocks of columns, short ones band by band, whichever is the first result."""
    x, w, rows, columns = sums_both_ways(n, m)
    args = (x, w, columns, rows) if turned else (x, w, rows, columns)
    plan = planned(*args)
    assert plan.done[plan.s["rows"]] == plan.done[plan.s["columns"]] == "rows_and_columns"
    shared = plan.s["columns.rf"].shares
    assert shared is not None
    assert shared.is_reduce == (m > 512)
    check(args, most=1)


def test_sums_both_ways_of_what_is_near_are_made_alone():
    assert "rows_and_columns" not in planned(*sums_both_ways(40, 50)).done.values()


def test_sums_that_need_each_other_are_not_made_together():
    x, w, rows, _ = sums_both_ways(413, 514)
    i = te.reduce_axis((0, 413), "i")
    columns = te.compute((514,), lambda c: te.sum(x[i, c] * rows[i], axis=i), name="columns")
    plan = planned(x, w, rows, columns)
    assert "rows_and_columns" not in plan.done.values()


def tall_product(n, m, k):
    """X[n, k] times W[k, m], plus 1."""
    x, w, r = te.placeholder((n, k), name="x"), te.placeholder((k, m), name="w"), te.reduce_axis((0, k), "r")
    sums = te.compute((n, m), lambda i, j: te.sum(x[i, r] * w[r, j], axis=r), name="sums")
    return x, w, te.compute((n, m), lambda i, j: sums[i, j] + 1.0, name="y")


def test_a_few_sums_of_each_long_row_are_made_in_lanes():
    plan = planned(*tall_product(200, 3, 100))
    assert plan.s.knobs["sums_rows"].values == (3, 6, 12, 24)
    check(tall_product(37, 3, 100))
    for n, m, k in [(37, 5, 100), (37, 3, 20)]:
        tiled = planned(*tall_product(n, m, k))
        assert "lanes_of_sums" not in tiled.done.values()


@pytest.mark.parametrize(("step", "shares"), [(1, True), (2, False)])
def test_rows_are_written_out_together_where_they_share_elements(step, shares):
    """Windows of two rows, two apart, have none in common."""
    x = te.placeholder((64, 96), name="x")
    y = te.compute((30, 96), lambda i, j: x[step * i, j] + x[step * i + 1, j], name="y")
    unrolled = [loop for loop in planned(x, y).s["y"].loops if loop.kind == "unroll"]
    assert bool(unrolled) == shares


def batch_norm(n=6, c=4, size=96):
    """x[n, c, size] less the mean of its channel, over its deviation."""
    x = te.placeholder((n, c, size), name="x")
    k, p, m, q = (te.reduce_axis((0, of), name) for name, of in zip("kpmq", (n, size, n, size), strict=True))
    total = te.compute((c,), lambda i: te.sum(x[k, i, p], axis=[k, p]), name="total")
    mean = te.compute((c,), lambda i: total[i] / (n * size), name="mean")
    squares = te.compute(
        (c,), lambda i: te.sum((x[m, i, q] - mean[i]) * (x[m, i, q] - mean[i]), axis=[m, q]), name="squares"
    )
    variance = te.compute((c,), lambda i: squares[i] / (n * size), name="variance")
    return x, te.compute(x.shape, lambda a, i, b: (x[a, i, b] - mean[i]) * te.rsqrt(variance[i] + 1e-5), name="y")


def test_sums_over_batches_are_not_made_again_for_each_batch():
    plan = planned(*batch_norm(), y_stores_every=1, y_stores_at="root")
    assert {plan.s[name].attach.kind for name in ("total", "squares", "mean", "variance")} == {"root"}
    check(batch_norm())


def test_rows_that_do_not_lie_behind_each_other_are_added_up_row_by_row():
    plan = planned(*batch_norm(), y_stores_every=1, y_stores_at="root", total_sums="lanes_of_sums")
    partial = plan.s["total.rf"]
    assert [x.name for x in partial.loops if x.is_reduce] == ["k", "p.outer"]
    x, k, p = te.placeholder((4, 6, 96), name="x"), te.reduce_axis((0, 6), "k"), te.reduce_axis((0, 96), "p")
    plan = planned(
        x, te.compute((4,), lambda i: te.sum(x[i, k, p], axis=[k, p]), name="total"), total_by="lanes_of_sums"
    )
    assert [x.name for x in plan.s["total.rf"].loops if x.is_reduce] == ["k.p.fused.outer"]  # one long row


def test_the_inner_loop_of_a_contraction_goes_through_operands_in_order():
    def product(first, second):
        a, b = te.placeholder((64, 48, 40), name="a"), te.placeholder((48, 40, 64), name="b")
        j, k = te.reduce_axis((0, 48), "j"), te.reduce_axis((0, 40), "k")
        axes = {"j": j, "k": k}
        return (
            a,
            b,
            te.compute(
                (64, 64), lambda i, m: te.sum(a[i, j, k] * b[j, k, m], axis=[axes[first], axes[second]]), name="c"
            ),
        )

    for order in ("jk", "kj"):
        loops = [x.name for x in planned(*product(*order)).s["c.local"].loops if x.is_reduce]
        assert [x.partition(".")[0] for x in loops] == ["j", "k", "k"]
    check(product("j", "k"))


def test_a_few_rows_are_combined_in_registers():
    def places(rows):
        x, k = te.placeholder((rows, 3000), name="x"), te.reduce_axis((0, rows), "k")
        return x, te.compute((3000,), lambda j: te.argmax((k.var, x[k, j]), axis=k), name="at")[0]

    plan = planned(*places(4), at_by="sums_of_columns")
    assert [x.kind for x in plan.s["at"].loops if x.is_reduce] == ["unroll"]
    assert [x.kind for x in planned(*places(400), at_by="sums_of_columns").s["at"].loops if x.is_reduce] == [
        "serial",
        "unroll",
    ]
    check(places(4))


def test_products_of_matrices_and_a_vector_are_no_contraction():
    """The vector alone is read again: rows are added up in lanes, a few together."""
    a, x, k = te.placeholder((4, 40, 64), name="a"), te.placeholder((4, 64), name="x"), te.reduce_axis((0, 64), "k")
    args = a, x, te.compute((4, 40), lambda b, i: te.sum(a[b, i, k] * x[b, k], axis=k), name="y")
    plan = planned(*args, y_by="lanes_of_sums")
    assert plan.done[plan.s["y"]] == "lanes_of_sums"
    assert [x.name for x in plan.s["y"].loops if x.kind == "unroll"] == ["i.inner"]  # rows of one matrix
    check(args)


def test_lanes_lie_along_rows_after_a_sum_was_cut_into_pieces():
    """What `rfactor` leaves of the first axis comes last, and its elements lie far apart."""
    x, k, p = te.placeholder((64, 3, 96), name="x"), te.reduce_axis((0, 64), "k"), te.reduce_axis((0, 96), "p")
    args = x, te.compute((3,), lambda i: te.sum(x[k, i, p], axis=[k, p]), name="total")
    plan = planned(*args, total_by="pieces_of_rows")
    (lane,) = (x for x in plan.s["total.rf.rf"].loops if x.kind == "vectorize")
    assert lane.name == "p.inner"
    check(args)
