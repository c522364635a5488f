"""Loops are cut into borders and interiors: every iteration runs once, and interiors ask no questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import seed_programs

from autosched import te
from autosched.ir.dtype import dtype
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, const, maximum, var, variables
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer, For, Function, If, Stmt, Store, children, expressions, load, seq, walk
from autosched.ir.visit import post_order
from autosched.lowering import lower_structure
from autosched.lowering.partition import partition_loops
from autosched.runtime.interpreter import interpret
from autosched.schedule import Schedule, create_schedule
from autosched.testing.oracle import check_against_reference


def fused_vectorized_blur(lanes: int = 32) -> tuple[list[te.Tensor], Schedule]:
    """Everything inlined; a row's pixels and channels are one vectorized axis, two rows unrolled."""
    b = seed_programs.box_blur()
    s = seed_programs.inline(b)
    blur = s[b.box_blur]
    y, x, c = b.box_blur.op.axis
    block, lane = blur.split(blur.fuse(x, c), factor=lanes)
    band, line = blur.split(y, factor=2)
    blur.reorder(band, block, line, lane)
    blur.parallel(band)
    blur.unroll(line)
    blur.vectorize(lane)
    return b.args, s


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("kind", ["parallel", "serial"])
def test_pieces_of_a_loop_have_ranges_of_their_own(kind: str, order: int) -> None:
    """Rows that a window has from its beginning are made in a loop of their own, whose variable is that of the others:
    what holds for the one is no answer to what the other asks."""
    t, z = var("t", role="loop"), var("z", role="loop")
    a, out = Buffer("a", (const(9),), dtype("int32")), Buffer("out", (const(10),), dtype("int32"))
    row = t * 3 + z - 1
    store = Store(out, (t * 5 + z,), load(a, maximum(row, const(0))))
    pieces = [For(z, const(first), const(n), "serial", store) for first, n in ((0, 2), (2, 3))]
    made = partition_loops(For(t, const(0), const(2), kind, seq(*pieces[::order])), Analyzer())
    x, got = np.arange(9, dtype="int32") + 1, np.zeros(10, "int32")
    interpret(Function("f", (a, out), (), made, (1,)), [x, got])
    np.testing.assert_array_equal(got, x[np.maximum(np.add.outer([0, 3], np.arange(5)).ravel() - 1, 0)])


def test_a_tail_of_rows_has_no_borders_of_columns_of_its_own() -> None:
    """What strips of rows ask is asked inside the loop over blocks, whose borders are there once: two bodies
    for the interior, four on the left (the edge, vectors and what they leave, the far edge), three on the right."""
    args, s = fused_vectorized_blur()
    f = lower_structure(s, args, "llvm").bind()
    strips = [x for x in walk(f.body) if isinstance(x, For) and x.var.name.startswith("y.outer")]
    assert len(strips) == 1
    assert sum(isinstance(x, Store) for x in walk(f.body)) == 2 + 1 + 4 + 3  # the interior has two rows written out


def vector_stores(f: Function) -> Iterator[tuple[list[For], Store]]:
    """Each store of several lanes, and the loops around it."""

    def visit(s: Stmt, loops: list[For]) -> Iterator[tuple[list[For], Store]]:
        if isinstance(s, Store) and s.value.dtype.lanes > 1:
            yield loops, s
        for c in children(s):
            yield from visit(c, [*loops, s] if isinstance(s, For) else loops)

    yield from visit(f.body, [])


def test_the_steady_loop_of_a_clamped_stencil_is_clean() -> None:
    """No guard, no clamp or choice that changes along the row, contiguous vectors only."""
    args, s = fused_vectorized_blur()
    f = lower_structure(s, args, "llvm").bind()
    found = list(vector_stores(f))
    assert found
    for loops, store in found:
        if any(loop.var.name.endswith(".block") for loop in loops):  # what is left at the borders
            continue
        steady = loops[-1] if not loops[-1].var.name.startswith("y") else loops[-2]
        assert steady.var.name == "x.c.fused.outer"
        assert not any(isinstance(x, If) for x in walk(steady.body))
        nodes = post_order([*store.indices, store.value])
        assert not any(e.op in ("select", "if_then_else", "floordiv", "floormod") for e in nodes)
        assert not any(steady.var in variables(e) for e in nodes if e.op in ("min", "max"))
        for index in (*store.indices, *(e.args[0] for e in nodes if e.op == "load")):
            assert index.op == "ramp"
            assert index.args[1].op == "const"
            assert index.args[1].value == 1
            assert index.dtype.lanes == 32


def element_counts(f: Function, sizes: dict[str, int]) -> tuple[int, int]:
    """How many elements vector statements and scalar ones store, loops and conditions evaluated."""
    counts = [0, 0]

    def value(e: Expr, env: dict[Expr, int]) -> int:
        return int(evaluate([e], env)[0])

    def run(s: Stmt, env: dict[Expr, int]) -> None:
        match s:
            case Store():
                counts[s.value.dtype.lanes == 1] += s.value.dtype.lanes
            case For():
                start = value(s.start, env)
                for i in range(start, start + value(s.extent, env)):
                    run(s.body, {**env, s.var: i})
            case If():
                branch = s.then if value(s.condition, env) else s.otherwise
                if branch is not None:
                    run(branch, env)
            case _:
                for c in children(s):
                    run(c, env)

    run(f.body, {v: sizes[v.name] for v in f.sizes})
    return counts[0], counts[1]


@pytest.mark.parametrize(("height", "width"), [(20, 100), (7, 64), (1, 40), (3, 1)])
def test_vectors_store_all_but_the_clamped_ends_of_a_row_and_overlap_little(height: int, width: int) -> None:
    args, s = fused_vectorized_blur()
    f = lower_structure(s, args, "llvm").bind()
    vectors, scalars = element_counts(f, {"height": height, "width": width})
    elements = height * width * 3
    assert elements <= vectors + scalars < elements + 32 * height
    if width >= 40:
        assert scalars < 24 * height  # three at each end are clamped; a rest shorter than a vector joins them


@pytest.mark.parametrize("width", [1, 2, 10, 11, 12, 21, 22, 33])
def test_the_vectorized_blur_on_rows_around_a_vectors_length(width: int) -> None:
    args, s = fused_vectorized_blur()
    image = np.random.default_rng(width).integers(0, 256, (5, width, 3), dtype=np.uint8)
    check_against_reference(args, s, "llvm", [image])
    if width in (2, 11, 22):
        check_against_reference(args, s, "llvm", [image], "interpreter-backwards")


def sliding(n: Expr, tail: str, kind: str, factor: int) -> tuple[list[te.Tensor], Schedule]:
    """B[i] = A[i - 2] + A[i + 3], borders repeated: clamps at both ends, and a ragged split."""
    a = te.placeholder((n,), "int32", name="A")

    def at(i: Expr) -> Expr:
        return a[te.max(te.min(i, n - 1), 0)]

    b = te.compute((n,), lambda i: at(i - 2) + at(i + 3), name="B")
    s = create_schedule(b)
    outer, inner = s[b].split("i", factor=factor, tail=tail)
    if kind == "vectorize":
        s[b].vectorize(inner)
    elif kind == "parallel":
        s[b].parallel(outer)
    elif kind == "unroll":
        s[b].unroll(inner)
    return [a, b], s


@pytest.mark.parametrize("tail", ["guard", "shift_inwards"])
@pytest.mark.parametrize("kind", ["serial", "vectorize", "parallel", "unroll"])
@pytest.mark.parametrize("factor", [1, 4])
def test_all_lengths(tail: str, kind: str, factor: int) -> None:
    """From no element at all to several blocks, borders overlapping or apart."""
    args, s = sliding(te.var("n"), tail, kind, factor)
    for n in (0, 1, 2, 3, 4, 5, 6, 8, 13, 29):
        check_against_reference(args, s, "llvm", [np.arange(n, dtype=np.int32) * 3], "interpreter")
    for n in (0, 1, 6, 200):
        check_against_reference(args, s, "llvm", [np.arange(n, dtype=np.int32) * 3])


def test_a_guard_around_the_whole_body_becomes_the_loops_bound() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    s = create_schedule(b)
    s[b].split("i", factor=8)
    f = lower_structure(s, [a, b], "llvm").after("partition")
    assert not any(isinstance(x, If) for x in walk(f.body))


def test_padding_needs_no_choice_inside() -> None:
    """`if_then_else` at the borders only; in the interior, the read it protects."""
    n = te.var("n")
    a = te.placeholder((n,), "int32", name="A")
    b = te.compute((n + 4,), lambda i: te.if_then_else(te.all(i >= 2, i < n + 2), a[i - 2], 0), name="B")
    s = create_schedule(b)
    f = lower_structure(s, [a, b], "llvm").bind()
    stores = [x for x in walk(f.body) if isinstance(x, Store)]
    assert any(x.value.op == "load" for x in stores)
    for length in range(8):
        check_against_reference([a, b], s, "llvm", [np.arange(length, dtype=np.int32)], "interpreter")


def test_borders_longer_than_the_loop() -> None:
    """Found by random programs: an interior that must not run began after the loop's end."""
    m = te.var("m")
    a = te.placeholder((m,), "int32", name="A")
    shift = [te.compute((m,), lambda i: a[te.max(te.min(i + 1, m - 1), 0)], name="right")]
    shift.append(te.compute((m,), lambda i: shift[0][te.max(te.min(i - 2, m - 1), 0)], name="left"))
    shift.append(
        te.compute(
            (m,),
            lambda i: shift[0][te.max(te.min(i + 2, m - 1), 0)] + shift[1][te.max(te.min(i - 2, m - 1), 0)],
            name="both",
        )
    )
    s = create_schedule(shift[-1])
    s["right"].compute_inline()
    s["left"].compute_inline()
    for length in range(9):
        check_against_reference([a, shift[-1]], s, "llvm", [np.arange(length, dtype=np.int32)], "interpreter")


def test_loop_bounds_are_the_same_for_all_work_items_of_a_barrier() -> None:
    """A ragged loop with a shared stage in it is not cut where the cut depends on the work-item."""
    n = te.var("n")
    a = te.placeholder((n, 4), "int32", name="A")
    b = te.compute((n, 4), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((n, 4), lambda i, j: b[i, j] * 2, name="C")
    s = create_schedule(c)
    block, rest = s[c].split("i", factor=6)
    item, line = s[c].split(rest, nparts=4)
    s[c].bind(block, "blockIdx.x")
    s[c].bind(item, "threadIdx.x")
    s[b].compute_at(s[c], line)
    s[b].set_scope("shared")
    for n_ in (1, 5, 6, 13):
        check_against_reference([a, c], s, "opencl", [np.arange(n_ * 4, dtype=np.int32).reshape(n_, 4)], "interpreter")


def test_no_variable_is_left_over() -> None:
    """What partitioning moves about stays inside the loops that define it."""
    args, s = fused_vectorized_blur()
    f = lower_structure(s, args, "llvm").bind()
    known = set(f.sizes)

    def visit(x: Stmt, bound: set[Expr]) -> None:
        for e in expressions(x):
            assert variables(e) <= bound
        for c in children(x):
            visit(c, bound | {x.var} if isinstance(x, For) else bound)

    visit(f.body, known)


def test_a_reduction_may_shift_inwards_outside_its_reduce_loops() -> None:
    """The last block starts its sums afresh, so elements computed twice come out the same."""
    n = te.var("n")
    a = te.placeholder((n, 3), "int32", name="A")
    k = te.reduce_axis((0, 3), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = create_schedule(b)
    _, inner = s[b].split("i", factor=4, tail="shift_inwards")
    s[b].reorder("k", inner)
    for length in (0, 1, 3, 4, 6):
        values = np.arange(length * 3, dtype=np.int32).reshape(length, 3)
        check_against_reference([a, b], s, "llvm", [values], "interpreter")


def test_blocks_as_long_as_another_dimension() -> None:
    """A factor that is a size: the blocks of an empty size are taken as one long."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), "int32", name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    s = create_schedule(b)
    s[b].split("j", factor=s.size("n"))
    s[b].split("i", nparts=s.size("m"))
    for shape in ((3, 5), (5, 3), (1, 4), (0, 3), (3, 0)):
        values = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
        for backend in ("native", "interpreter"):
            check_against_reference([a, b], s, "llvm", [values], backend)  # type: ignore[arg-type]


def tiled_matmul(m: int, n: int, k: int) -> tuple[list[te.Tensor], Schedule]:
    """Tiles of 3 x 8 sums over panels of b, 8 columns wide and filled up with zeros."""
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")
    s = create_schedule(c)
    copy = s.cache_read(b, "global", [c])
    panel, column = s[copy].split(s[copy].op.axis[1], factor=8)
    s[copy].reorder(panel, s[copy].op.axis[0], column)
    s.cache_write(copy, "global")
    s[copy].compute_inline()
    sums = s.cache_write(c, "local")
    _, panel, row, column = s[c].tile(*s[c].op.axis, 3, 8)
    s[c].unroll(row)
    s[c].vectorize(column)
    s[sums].compute_at(s[c], panel)
    row, column = s[sums].op.axis
    s[sums].reorder(*s[sums].op.reduce_axis, row, column)
    s[sums].unroll(row)
    s[sums].vectorize(column)
    return [a, b, c], s


def test_whole_tiles_are_summed_where_operands_are_padded() -> None:
    """The last panel is summed whole, and only storing the tile asks where the matrix ends: the loop
    over k is not written down a second time for the border of j."""
    args, s = tiled_matmul(6, 13, 40)
    f = lower_structure(s, args, "llvm").after("partition")
    long = [x for x in walk(f.body) if isinstance(x, For) and x.var.name == "k.c"]
    assert len(long) == 1
    assert not any(isinstance(x, If) for x in walk(long[0].body))
    assert any(isinstance(x, If) for x in walk(f.body))


@pytest.mark.parametrize("backend", ["native", "interpreter"])
@pytest.mark.parametrize(("m", "n", "k"), [(6, 16, 9), (7, 13, 5), (1, 1, 1), (2, 9, 33), (5, 5, 5)])
def test_tiles_at_borders(m: int, n: int, k: int, backend: str) -> None:
    args, s = tiled_matmul(m, n, k)
    rng = np.random.default_rng(m + n + k)
    inputs = [rng.integers(-8, 9, shape).astype("float32") for shape in ((m, k), (k, n))]
    check_against_reference(args, s, "llvm", inputs, backend=backend)


@pytest.mark.parametrize("make", [lambda i: i.astype("uint8"), lambda i: (i * 3).astype("int8").astype("int32") + 128])
def test_an_index_that_wraps_in_a_narrow_type(make: Callable[[Expr], Expr]) -> None:
    """Its range is not what arithmetic on integers says: the producer is computed whole."""
    a = te.placeholder((256,), "int32", name="a")
    b = te.compute((256,), lambda i: a[i] + 1, name="b")
    c = te.compute((600,), lambda i: b[make(i)], name="c")
    s = create_schedule(c)
    outer, _ = s[c].split("i", factor=50)
    s[b].compute_at(s[c], outer)
    for backend in ("native", "interpreter"):
        check_against_reference([a, c], s, "llvm", [np.arange(256, dtype="int32")], backend=backend)


@pytest.mark.parametrize("n", [16, 22, 61])
def test_a_fused_parallel_loop_tries_what_it_cannot_solve(n: int) -> None:
    """`f % panels` cannot be solved for f: the vectors of a block are tried before they are computed,
    and only the last block of a row falls back to what is left."""
    a = te.placeholder((6, n), "int32", name="a")
    b = te.compute((6, n), lambda i, j: a[i, j] * 3, name="b")
    s = create_schedule(b)
    panel, lane = s[b].split("j", factor=8)
    s[b].parallel(s[b].fuse("i", panel))
    s[b].vectorize(lane)
    f = lower_structure(s, [a, b], "llvm").bind()
    assert any(store.value.dtype.lanes == 8 for _, store in vector_stores(f))
    check_against_reference([a, b], s, "llvm", [np.arange(6 * n, dtype="int32").reshape(6, n)])


def tiled_product(n: int, m: int, k: int, tasks: bool) -> tuple[list[te.Tensor], Schedule]:
    """C[n, m] = A[n, k] @ B[k, m] in tiles of 4 rows of two vectors of 8, written out."""
    a, b, r = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B"), te.reduce_axis((0, k), "k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    s = create_schedule(c)
    sums = s[s.cache_write(c, "local")]
    y, x, i, j = s[c].tile("i", "j", 4, 16)
    vector, lane = s[c].split(j, factor=8)
    s[c].unroll(i)
    s[c].unroll(vector)
    s[c].vectorize(lane)
    if tasks:
        s[c].parallel(s[c].fuse(y, x))
    sums.compute_at(s[c], s[c].loops[-4])
    i, j, r = sums.loops
    vector, lane = sums.split(j, factor=8)
    outer, r = sums.split(r, factor=2)
    sums.reorder(outer, r, i, vector, lane)
    for loop in (r, i, vector):
        sums.unroll(loop)
    sums.vectorize(lane)
    return [a, b, c], s


@pytest.mark.parametrize("tasks", [False, True])
@pytest.mark.parametrize("sizes", [(3, 5, 4), (8, 28, 3), (9, 33, 5), (7, 47, 1)])
def test_a_last_tile_of_known_size_is_written_out_in_vectors(sizes: tuple[int, int, int], tasks: bool) -> None:
    """No lane asks whether it is there, and none is left for a loop."""
    args, s = tiled_product(*sizes, tasks)
    f = lower_structure(s, args, "llvm").bind()
    stores = [x for x in walk(f.body) if isinstance(x, Store)]
    columns = sizes[1] % 16 % 8
    assert {x.value.dtype.lanes for x in stores} <= {1, 8, columns} - ({1} if columns != 1 else set())
    draw = np.random.default_rng(0)
    inputs = [draw.integers(-4, 5, [int(d.value) for d in t.shape]).astype("float32") for t in args[:2]]
    for target, backend in (("llvm", "native"), ("llvm", "interpreter"), ("c", "native")):
        check_against_reference(args, s, target, inputs, backend)  # type: ignore[arg-type]


def test_questions_about_other_tiles_are_asked_one_by_one() -> None:
    """Two guards fail at different places: which tile is the last says nothing about the other."""
    a = te.placeholder((20,), "int32", name="A")
    wide = te.compute((20,), lambda i: a[i] + 1, name="wide")
    b = te.compute((20,), lambda i: wide[i] + wide[te.min(i + 3, 19)], name="B")
    s = create_schedule(b)
    outer, inner = s[b].split("i", factor=8)
    s[b].vectorize(inner)
    s[wide].compute_at(s[b], outer)
    x, y = s[wide].split("i", factor=4)
    s[wide].unroll(x)
    s[wide].vectorize(y)
    for backend in ("native", "interpreter"):
        check_against_reference([a, b], s, "llvm", [np.arange(20, dtype="int32")], backend)


def test_a_choice_that_lanes_do_not_differ_in_leaves_vectors_whole() -> None:
    """Rows of one source or of the other: each is copied in vectors, not only those of the first."""
    a, b = (te.placeholder((5, 32), name=name) for name in "ab")
    rows = te.compute((10, 32), lambda i, j: te.if_then_else(i < 5, a[i, j], b[i - 5, j]), name="rows")
    s = create_schedule(rows)
    s[rows].vectorize(s[rows].split("j", factor=8)[1])
    f = lower_structure(s, [a, b, rows], "llvm").bind()
    stores = [x for x in walk(f.body) if isinstance(x, Store)]
    assert stores and all(x.value.dtype.lanes == 8 for x in stores)
    data = [np.arange(160, dtype="float32").reshape(5, 32) * k for k in (1, -1)]
    check_against_reference([a, b, rows], s, "llvm", data)


def ring(n: int | Expr, left: int, right: int) -> tuple[list[te.Tensor], Schedule]:
    """What lies to both sides on a ring, spelled with remainders."""
    a = te.placeholder((3, n), "int32", name="a")
    out = te.compute((3, n), lambda y, x: a[y, (x + n - left) % n] - a[(y + 1) % 3, (x + right) % n] * 2, name="out")
    return [a, out], create_schedule(out)


@pytest.mark.parametrize("n", [1, 5, 16, 17, 100, 333])
@pytest.mark.parametrize(("left", "right"), [(1, 1), (0, 3), (1, 7), (2, 60)])
@pytest.mark.parametrize("lanes", [1, 8])
def test_places_on_a_ring(n: int, left: int, right: int, lanes: int) -> None:
    args, s = ring(n, min(left, n), right)
    if lanes > 1:
        s["out"].vectorize(s["out"].split("x", factor=lanes)[1])
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", [np.arange(3 * n, dtype=np.int32).reshape(3, n)], backend)


def test_places_on_a_ring_of_any_length() -> None:
    args, s = ring(te.var("n"), 1, 1)
    s["out"].vectorize(s["out"].split("x", factor=8)[1])
    for n in (1, 2, 7, 8, 40, 77):
        check_against_reference(args, s, "llvm", [np.arange(3 * n, dtype=np.int32).reshape(3, n)])


def test_the_interior_of_a_ring_takes_no_remainder() -> None:
    """Loads of whole vectors but at both ends; places that go round more than once keep their remainder."""
    args, s = ring(256, 1, 1)
    s["out"].vectorize(s["out"].split("x", factor=16)[1])
    f = lower_structure(s, args, "llvm").bind()
    (steady,) = [x for x in walk(f.body) if isinstance(x, For) and x.var.name == "x.outer"]
    nodes = post_order([e for x in walk(steady.body) for e in expressions(x)])
    assert sum(e.op == "load" for e in nodes) == 2
    assert all(i.op == "ramp" for e in nodes if e.op == "load" for i in e.args)
    a = te.placeholder((100,), name="a")
    out = te.compute((1000,), lambda i: a[(i + 1) % 100], name="out")
    found = lower_structure(create_schedule(out), [a, out], "llvm").bind()
    assert any(e.op == "floormod" for x in walk(found.body) for e in post_order(expressions(x)))


def upsampled(n: int, lanes: int) -> tuple[list[te.Tensor], Schedule]:
    """out[i] between a[i // 2] and its neighbour on the side of i, the last of which is read again beyond the ends."""
    a = te.placeholder((n // 2,), name="a")
    edge = te.repeat_edge(a)
    out = te.compute((n,), lambda i: edge[i // 2] * 0.75 + edge[i // 2 - 1 + 2 * (i % 2)] * 0.25, name="out")
    s = create_schedule(out)
    _, lane = s[out].split("i", factor=lanes)
    s[out].vectorize(lane)
    return [a, out], s


@pytest.mark.parametrize("lanes", [8, 32])
def test_a_place_and_its_half_leave_one_block_of_border(lanes: int) -> None:
    """What `2*i - 3*(i//2)` comes to is known for both terms together: blocks inside ask nothing."""
    args, s = upsampled(320, lanes)
    f = lower_structure(s, args, "c").after("partition")
    clean = [x for x in walk(f.body) if isinstance(x, For) and x.kind == "vectorize"]
    blocks = [x for x in walk(f.body) if isinstance(x, For) and clean[0] in walk(x.body)]
    assert [(x.start.value, x.extent.value) for x in blocks] == [(1, 320 // lanes - 2)]
    assert not any(e.op in ("min", "max") for e in post_order(expressions(next(walk(clean[0].body)))))
    check_against_reference(args, s, "llvm", [np.arange(160, dtype="float32") ** 2])


@pytest.mark.parametrize("lanes", [8, 32])
def test_blocks_at_both_ends_keep_their_vectors(lanes: int) -> None:
    """LLVM loads lanes at known places by shuffles; other targets take the elements of a border one by one."""
    args, s = upsampled(320, lanes)
    widths = {kind: [x.value.dtype.lanes for x in stores(s, args, kind)] for kind in ("llvm", "c")}
    assert set(widths["llvm"]) == {lanes}
    assert 1 in widths["c"]


def stores(s: Schedule, args: list[te.Tensor], kind: str) -> list[Store]:
    return [x for x in walk(lower_structure(s, args, kind).bind().body) if isinstance(x, Store)]


def test_ends_of_a_choice_keep_their_vectors() -> None:
    """Rows are made in the loop over blocks, whose body asks in one place: each end has vectors of its own."""
    a = te.placeholder((6, 64), name="a")
    down, edge = te.compute((6, 64), lambda y, x: a[y, x] * 2, name="down"), te.repeat_edge
    out = te.compute((6, 64), lambda y, x: edge(down)[y, x - 1] + edge(down)[y, x + 1], name="out")
    s = create_schedule(out)
    block, lane = s[out].split("x", factor=16)
    s[out].vectorize(lane)
    s[down].compute_at(s[out], block)
    found = [x for x in stores(s, [a, out], "llvm") if x.buffer.name == "out"]
    assert [x.value.dtype.lanes for x in found] == [16, 16, 16]
    check_against_reference([a, out], s, "llvm", [np.random.default_rng(1).random((6, 64), "float32")])


@pytest.mark.parametrize("n", [96, te.var("n")], ids=str)
@pytest.mark.parametrize("lanes", [8, 16])
def test_what_depends_on_the_distance_to_a_border_keeps_its_vectors(n: int | Expr, lanes: int) -> None:
    """The nearest border may be one of rows or of columns: which is no border of a loop. Where both are far, nothing
    depends on them, and near one, lanes have values of their own, but load neighbours."""
    a = te.placeholder((n, n), name="a")

    def sponge(y: Expr, x: Expr) -> Expr:
        away = te.min(te.min(y, n - 1 - y), te.min(x, n - 1 - x))
        return a[y, x] * te.max(4 - away, 0).astype("float32")

    out = te.compute((n, n), sponge, name="out")
    s = create_schedule(out)
    band, _ = s[out].split("y", factor=4)
    s[out].vectorize(s[out].split("x", factor=lanes, tail="shift_inwards")[1])
    s[out].parallel(band)
    found = stores(s, [a, out], "llvm")
    if n == 96:  # of any length, a row may be shorter than a vector
        assert {x.value.dtype.lanes for x in found} == {lanes}
    assert any("cast" not in {e.op for e in post_order(x.value)} for x in found)
    check_against_reference([a, out], s, "llvm", [np.random.default_rng(1).random((96, 96), "float32")])


def test_a_loop_that_turns_out_to_run_once_leaves_its_guards_to_numbers() -> None:
    """There is one block of columns where up to 4 are asked for. With its number known, so are the lanes of the last
    tile, and no vector is taken apart."""
    a = te.placeholder((24, 33), name="a")
    b = te.compute((24, 33), lambda i, j: a[i, j] * 2, name="b")
    s = create_schedule(b)
    i, j = b.op.axis
    panel, part = s[b].split(j, factor=48)
    strip, row = s[b].split(i, factor=6)
    panels, panel = s[b].split(panel, factor=4)
    vector, lane = s[b].split(part, factor=16)
    s[b].reorder(strip, panels, panel, row, vector, lane)
    s[b].parallel(s[b].fuse(strip, panels))
    s[b].unroll(row)
    s[b].unroll(vector)
    s[b].vectorize(lane)
    f = lower_structure(s, [a, b], "llvm").bind()
    assert not any(isinstance(x, If) for x in walk(f.body))
    assert sorted({x.value.dtype.lanes for x in walk(f.body) if isinstance(x, Store)}) == [1, 16]
    check_against_reference([a, b], s, "llvm", [np.arange(792, dtype="float32").reshape(24, 33)])


def test_a_clamp_of_two_loops_beside_that_of_a_third_is_asked_in_each_place() -> None:
    """Where the third one is the smaller lies anywhere in the two: a loop cut there would be cut diagonally."""
    a = te.placeholder((64, 64), name="a")
    out = te.compute((16, 32, 32), lambda z, y, x: a[te.min(y + x, z * 3), x], name="out")
    s = create_schedule(out)
    body = lower_structure(s, [a, out], "llvm").after("partition").body
    assert sum(isinstance(part, Store) for part in walk(body)) == 1
    check_against_reference([a, out], s, "llvm", [np.random.default_rng(1).random((64, 64), "float32")])


def test_first_values_are_set_where_there_are_elements() -> None:
    """A guard about the place of a vector bounds the loop over vectors, not what each of them does."""
    n, k = te.var("n"), te.reduce_axis((0, 5), "k")
    a = te.placeholder((5, n), name="a")
    out = te.compute((n,), lambda i: te.sum(a[k, i], axis=k), name="out")
    s = create_schedule(out)
    vectors, lane = s[out].split("i", factor=8)
    task, vectors = s[out].split(vectors, factor=64)
    s[out].reorder(task, k, vectors, lane)
    s[out].vectorize(lane)
    body = lower_structure(s, [a, out], "llvm").after("partition").body
    first = [x for x in walk(body) if isinstance(x, For) and x.var.name == "i.outer.inner.init"]
    assert first and not any(x.extent.op == "const" or "64 -" in repr(x.extent) for x in first)
    check_against_reference([a, out], s, "llvm", [np.arange(385, dtype="float32").reshape(5, 77)])
