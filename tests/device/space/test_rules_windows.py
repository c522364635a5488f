"""Rules for windows of many points, for rows that lie in blocks, and for sums of rows that something is read for."""

from __future__ import annotations

import numpy as np
import pytest
from generated_spaces import LLVM, check, planned

from autosched import te
from autosched.ir.printer import format_function
from autosched.schedule import create_schedule
from autosched.space import analysis
from autosched.space.features import FEATURE_NAMES
from autosched.space.workload import Workload


def schedules(space):
    """Those of all sketches but the default."""
    return [x.schedule() for x in space.sketches if x.name != "default"]


def rule_for(space, stage):
    """The rule that settled a stage in the first sketch, or None where there is no such stage."""
    return next((by for name, by, _ in space.sketches[0].schedule().remarks if name == stage), None)


def window(combine="sum", dtype="float32", size=(9, 9), step=1, clamped=False, read=True, n=37):
    """Windows of an image, which another stage reads, or none."""
    x = te.placeholder((n, n) if clamped else (n * step + size[0], n * step + size[1]), dtype, name="x")
    p, q = te.reduce_axis((0, size[0]), "p"), te.reduce_axis((0, size[1]), "q")

    def place(i, k, length):
        return te.max(te.min(i + k - length // 2, n - 1), 0) if clamped else i * step + k

    def term(i, j):
        found = x[place(i, p, size[0]), place(j, q, size[1])]
        return found.astype("int32") if dtype == "uint8" else found

    w = te.compute((n, n), lambda i, j: getattr(te, combine)(term(i, j), axis=[p, q]), name="w")
    return (
        (x, te.compute((n, n), lambda i, j: w[i, j] // 3 if dtype == "uint8" else w[i, j] * 2.0, "y"))
        if read
        else (x, w)
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"combine": "max", "read": False},
        {"dtype": "uint8", "clamped": True},
        {"size": (12, 8), "step": 2, "n": 11},
    ],
)
def test_windows_of_many_points_are_reduced_along_one_axis_after_the_other(options):
    space = check(window(**options), most=2)
    assert rule_for(space, "w.first")
    assert not any(x.reduce_axis for s in schedules(space) for x in s.stages)  # and short ones are written out


@pytest.mark.parametrize("options", [{"size": (5, 5)}, {"size": (5, 5), "combine": "min", "dtype": "uint8"}])
def test_windows_that_are_written_out_have_two_passes_as_well(options):
    assert rule_for(check(window(**options), most=2), "w.first")


def test_what_is_made_of_the_same_elements_is_one_stage():
    """Two gradients, of whose products sums are made, and two results of these."""
    n = 21
    a, k, m = te.placeholder((n, n), name="a"), te.reduce_axis((0, 3), "k"), te.reduce_axis((0, 3), "m")
    edge = te.repeat_edge(a)
    gx = te.compute((n, n), lambda y, x: edge[y, x + 1] + edge[y + 1, x] - edge[y, x - 1], name="gx")
    gy = te.compute((n, n), lambda y, x: edge[y + 1, x] + edge[y, x + 1] - edge[y - 1, x], name="gy")
    far = te.compute((n, n), lambda y, x: gx[y, x] * gy[y, x], name="far")
    near = te.compute((n, n), lambda y, x: gx[y, x] * gx[y, x], name="near")
    xy = te.compute((n, n - 2), lambda y, x: te.sum(far[y, x + k], axis=k), name="xy")
    xx = te.compute((n, n - 2), lambda y, x: te.sum(near[y, x + m], axis=m), name="xx")
    u = te.compute((n, n - 2), lambda y, x: te.sqrt(xx[y, x]) * xy[y, x], name="u")
    v = te.compute((n, n - 2), lambda y, x: te.sqrt(xx[y, x]) - xy[y, x], name="v")
    for s in schedules(check((a, u, v), most=2)):
        together = [(x.name, len(x.body), x.is_output) for x in s.stages if len(x.body) > 1]
        assert together == [("gx.all", 2, False), ("xx.all", 2, False), ("u.all", 2, True)]


@pytest.mark.parametrize("shared", [0, 1, 2])
def test_what_is_made_of_other_elements_stays_apart(shared):
    """Coefficients for a whole row do not count, nor does what needs another result."""
    n = 34
    a, b, row = (te.placeholder(shape, name=name) for shape, name in (((n, n), "a"), ((n, n), "b"), ((n,), "row")))
    c = te.compute((n, n), lambda i, j: a[i, j] * row[i] + (b[i, j] if shared == 1 else 0.0), name="c")
    d = te.compute((n, n), lambda i, j: b[i, j] * row[i] + (c[i, j] * a[i, j] if shared == 2 else 0.0), name="d")
    found = [x.name for x in check((a, b, row, c, d), most=2).sketches[0].schedule().stages if len(x.body) > 1]
    assert found == (["c.all"] if shared == 1 else [])


@pytest.mark.parametrize("combine", ["max", "sum"])
def test_long_windows_along_a_row_are_made_of_pieces(combine):
    x, k = te.placeholder((5, 130), name="x"), te.reduce_axis((0, 31), "k")
    w = te.compute((5, 100), lambda i, j: getattr(te, combine)(x[i, j + k], axis=k), name="w")
    (first,) = (s for s in check((x, w), most=2).sketches[0].schedule().stages if s.name == "w.first")
    assert not first.reduce_axis  # written out


@pytest.mark.parametrize("options", [{"size": (3, 3)}, {"size": (9, 9), "step": 9, "n": 5}])
def test_windows_that_share_nothing_or_little_stay_whole(options):
    assert rule_for(Workload("w", window(**options)).search_space(LLVM, {}), "w.first") is None


def test_three_axes_of_a_window_are_three_passes():
    x = te.placeholder((16, 17, 42), name="x")
    axes = [te.reduce_axis((0, 8), name) for name in "pqr"]
    p, q, r = axes
    y = te.compute((9, 10, 35), lambda i, j, k: te.max(x[i + p, j + q, k + r], axis=axes), name="y")
    assert rule_for(check((x, y), most=1), "y.first.first")


def along(shape, axis, points, read=True, apart=False):
    """Sums of so many neighbours along an axis, or of how far they are from the first one."""
    x = te.placeholder([n + points - 1 if d == axis else n for d, n in enumerate(shape)], name="x")
    k = te.reduce_axis((0, points), "k")

    def term(*at):
        found = x[tuple(i + k if d == axis else i for d, i in enumerate(at))]
        return te.sum(te.abs(found - x[at]) if apart else found, axis=k)

    w = te.compute(shape, term, "w")
    return (x, te.compute(shape, lambda *at: w[at] / points, name="y")) if read else (x, w)


@pytest.mark.parametrize("args", [along((9, 70), 1, 61), along((9, 30), 0, 99, read=False), along((700,), 0, 61)])
def test_long_windows_of_one_axis_are_reduced_in_pieces(args):
    space = check(args, most=2)
    assert rule_for(space, "w.first")
    assert not any(x.reduce_axis for s in schedules(space) for x in s.stages)


def test_what_is_made_of_many_rows_a_page_apart_is_made_row_by_row():
    """From vector to vector, the rows would drive each other out of the cache."""
    for columns, may in ((1024, False), (1000, True)):
        space = Workload("w", along((64, columns), 0, 81)).search_space(LLVM, {})
        made_at = {x.attach.loop.name for s in schedules(space) for x in s.stages if x.attach.loop}
        assert ("at1.outer" in made_at) == may


@pytest.mark.parametrize(
    ("args", "rule"),
    [
        (along((20, 70), 1, 61, apart=True), "multi_level_tiling"),
        (along((20, 70), 0, 61, read=False, apart=True), "multi_level_tiling"),
        (along((700,), 0, 61, apart=True), "compute_location"),
        (along((700,), 0, 61, read=False, apart=True), "bands_of_rows"),
    ],
)
def test_vectors_of_long_windows_go_along_rows_of_results(args, rule):
    space = check(args, most=2)
    assert rule_for(space, "w") == rule
    assert rule_for(space, "w.rf") != "lanes_of_sums"


def test_partial_results_are_no_windows():
    """Lanes of a row, at k.outer*16 + k.inner, share nothing: what they are made of is still computed where they are."""
    x, y = te.placeholder((40, 96), name="x"), te.placeholder((30, 96), name="y")
    k = te.reduce_axis((0, 96), "k")
    apart = te.compute((40, 30, 96), lambda i, j, k: x[i, k] - y[j, k], name="apart")
    w = te.compute((40, 30), lambda i, j: te.sum(apart[i, j, k] * apart[i, j, k], axis=k), name="w")
    space = Workload("w", (x, y, w)).search_space(LLVM, {})
    assert all(s["apart"].attach.kind == "inline" for s in schedules(space))


@pytest.mark.parametrize(("results", "rule"), [(2000, "bands_of_rows"), (100, "pieces_of_rows")])
def test_windows_of_any_length(results, rule):
    m = te.var("m")
    x, k = te.placeholder((m + results,), name="x"), te.reduce_axis((0, m), "k")
    args = x, te.compute((results,), lambda i: te.sum(x[i + k], axis=k), name="w")
    assert rule_for(check(args, most=2, sizes={"m": 70}), "w") == rule


def kronecker(n, m):
    a, b = te.placeholder((n, n), name="a"), te.placeholder((m, m), name="b")
    return a, b, te.compute((n * m, n * m), lambda i, j: a[i // m, j // m] * b[i % m, j % m], name="y")


def shuffled(r, offset=0):
    x = te.placeholder((r * r + offset, 9, 40), name="x")
    return x, te.compute((9 * r, 40 * r), lambda i, j: x[i % r * r + j % r + offset, i // r, j // r] + 1.0, name="y")


def resampled(taps):
    x, h, k = te.placeholder((400,), name="x"), te.placeholder((3 * taps,), name="h"), te.reduce_axis((0, taps), "k")
    return x, h, te.compute((540,), lambda i: te.sum(h[i * 2 % 3 + 3 * k] * x[i * 2 // 3 + k], axis=k), name="y")


def scaled(n, m, block):
    x, w = te.placeholder((n, m), "uint8", name="x"), te.placeholder((n, m // block), name="w")
    return x, w, te.compute((n, m), lambda i, j: x[i, j].astype("float32") * w[i, j // block], name="y")


@pytest.mark.parametrize(
    "args", [kronecker(3, 20), kronecker(11, 5), shuffled(3), shuffled(2, offset=3), resampled(6), scaled(9, 120, 30)]
)
def test_rows_in_blocks(args):
    """Vectors end where a block does, or go from block to block: no lane is loaded for itself."""
    space = check(args, most=1)
    assert rule_for(space, "y") == "blocks_of_rows"
    found = next(s for s in space.sketches if s.name != "default")
    features = found.features(np.zeros((1, len(found.knobs)), dtype=np.int64))[0]
    assert features[FEATURE_NAMES.index("gathered_loads")] == 0


def dithered(n, m, period):
    x, t = te.placeholder((n, m), "uint8", name="x"), te.placeholder((8, period), "uint8", name="t")
    bright, dark = te.const(255, "uint8"), te.const(0, "uint8")
    y = te.compute((n, m), lambda i, j: te.select(x[i, j] > t[i % 8, j % period], bright, dark), name="y")
    return x, t, y


@pytest.mark.parametrize(("m", "period"), [(240, 8), (240, 3), (120, 5), (1000, 8)])
def test_what_repeats_along_a_row_is_a_pattern_of_lanes(m, period):
    """Everything else is read as it lies, and so is what is stored: no vector steps from period to period."""
    space = check(dithered(9, m, period), most=1)
    assert rule_for(space, "y") == "blocks_of_rows"
    sketch = next(s for s in space.sketches if s.name != "default")
    lowered = format_function(sketch.structure.bind({k.name: k.values[0] for k in sketch.knobs}))
    stores = [line for line in lowered.splitlines() if " = select(" in line and "ramp(" in line]
    assert stores
    assert not any(f":{period}, " in line for line in stores), stores[0]


def test_rows_whose_blocks_do_not_fit_are_whole():
    """13 is no multiple of 4; a row of symbolic length may end anywhere."""
    n = te.var("n")
    for size in (13, n):
        x = te.placeholder((8, 20), name="x")
        y = te.compute((8, size), lambda i, j: x[i, j // 4] + x[i, j % 4], name="y")  # noqa: B023
        space = Workload("w", (x, y)).search_space(LLVM, {"n": 20} if size is n else {})
        assert rule_for(space, "y") == "whole_rows"


def test_rows_of_what_may_be_inlined_are_whole():
    """Halves of a row of which each has another part turned: only the rule for the turned row knows how it is read."""
    x, c = te.placeholder((8, 64), name="x"), te.placeholder((8, 32), name="c")
    half = te.compute(
        (8, 64), lambda i, j: te.if_then_else(j < 32, -x[i, te.min(j + 32, 63)], x[i, te.max(j - 32, 0)]), name="half"
    )
    y = te.compute((8, 64), lambda i, j: x[i, j] * c[i, j % 32] + half[i, j], name="y")
    assert rule_for(check((x, c, y), most=1), "y") == "whole_rows"


def rows_beside(results, n, m, combine="sum"):
    """x[i] * a[i, j] * y[j], over both axes."""
    x, a, y = te.placeholder((results, n), name="x"), te.placeholder((n, m), name="a"), te.placeholder((m,), name="y")
    i, j = te.reduce_axis((0, n), "i"), te.reduce_axis((0, m), "j")
    return x, a, y, te.compute((results,), lambda s: getattr(te, combine)(x[s, i] * a[i, j] * y[j], axis=[i, j]), "w")


@pytest.mark.parametrize(
    ("args", "fused"),
    [(rows_beside(6, 30, 41), False), (rows_beside(3, 20, 16, "max"), False), (rows_beside(5, 40, 3), True)],
)
def test_rows_that_something_is_read_for_stay_rows(args, fused):
    """Vectors do not cross the ends of rows that fill them: else each lane would have to ask which row it is in."""
    for s in schedules(check(args)):
        assert any("i.j.fused" in x.name for stage in s.stages for x in stage.loops) == fused


def test_lanes_of_rows_leave_none_idle():
    plan = planned(*rows_beside(64, 30, 41), w_by="lanes_of_sums")
    assert max(plan.s.knobs["w_partial"].values) == 32


def test_sums_that_are_read_elsewhere_too_are_no_part_of_a_tile_of_their_reader():
    """Which rows a tile needs, only data say: all of them, for each tile."""
    n = te.var("n")
    x, w = (te.placeholder((n, n), "int32", name) for name in "xw")
    k = te.reduce_axis((0, n), "k")
    sums = te.compute((n, n), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="sums")
    found = te.compute((n, n), lambda i, j: sums[te.max(te.min(sums[i, j], n - 1), 0), j], name="found")
    space = check((x, w, found), sizes={"n": 29})
    assert all(s[sums].attach.kind == "root" for s in schedules(space))


@pytest.mark.parametrize(
    ("place", "period", "same"),
    [
        (lambda j: j % 8, 8, True),
        (lambda j: j % 8, 4, False),
        (lambda j: j % 3, 3, True),
        (lambda j: j // 3, 3, False),
        (lambda j: j + j % 3, 3, False),
    ],
)
def test_what_repeats_is_the_same_after_a_period(place, period, same):
    x = te.placeholder((200,), name="x")
    stage = create_schedule(te.compute((96,), lambda j: x[place(j)] + x[j], name="y"))["y"]
    assert analysis.repeats(stage, stage.axis[-1], period) == same


def pooled(n=24, c=3, size=2, step=2, dtype="float32", split=True):
    """The largest of each window, and where it is."""
    k, i, j = (te.reduce_axis((0, e), name) for e, name in ((size * size, "k"), (size, "i"), (size, "j")))
    x = te.placeholder((c, (n - 1) * step + size, (n - 1) * step + size), dtype, name="x")
    if split:
        found = te.compute(
            (c, n, n),
            lambda b, y, z: te.argmax((k, x[b, y * step + k // size, z * step + k % size]), axis=k),
            name="at",
        )
    else:
        found = te.compute(
            (c, n, n),
            lambda b, y, z: te.argmax((i * size + j, x[b, y * step + i, z * step + j]), axis=[i, j]),
            name="at",
        )
    return [x, *found]


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize(
    ("size", "dtype", "n"), [(2, "float32", 24), (3, "float32", 31), (2, "uint8", 100), (3, "int16", 33)]
)
def test_windows_of_which_the_largest_is_looked_for_lie_in_lanes(split, size, dtype, n):
    """Their points lie apart in memory. Rows of results are no one row: lanes end where one does."""
    args = pooled(n, 3, size, 2, dtype, split)
    plan = planned(*args)
    assert plan.done[plan.s["at"]] == "rows_in_lanes"
    assert [x.name for x in plan.s["at"].loops if x.kind == "vectorize"] == ["z.inner"]
    check(args)


@pytest.mark.parametrize("n", [1, 5, 100])
def test_little_matrices_that_are_divided_by_their_determinant(n):
    """A quotient of each element alone, but what it is made of differs from element to element: all of a matrix are made
    together, in lanes of matrices."""
    a, k = te.placeholder((n, 3, 3), name="a"), te.reduce_axis((0, 3), "k")

    def minor(q, i, j):
        one, two = lambda i: (i + 1) % 3, lambda i: (i + 2) % 3
        return a[q, one(j), one(i)] * a[q, two(j), two(i)] - a[q, one(j), two(i)] * a[q, two(j), one(i)]

    adjugate = te.compute((n, 3, 3), minor, name="adjugate")
    determinant = te.compute((n,), lambda q: te.sum(a[q, 0, k] * adjugate[q, k, 0], axis=k), name="determinant")
    inverse = te.compute((n, 3, 3), lambda q, i, j: adjugate[q, i, j] / (determinant[q] + 0.5), name="inverse")
    space = check([a, inverse])
    assert rule_for(space, "inverse") == "planes_of_pixels"
    assert any("_at=block" in x.name for x in space.sketches)
