"""What campaigns of random programs found: `python -m autosched.testing.fuzz`, made smaller."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.errors import ArgumentError, LowerError, ScheduleError
from autosched.ir.builder import create
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.te.tensor import PlaceholderOp, Tensor
from autosched.testing.layouts import Layout
from autosched.testing.oracle import check_against_reference
from autosched.testing.tiles import declare

BACKENDS = ("interpreter", "interpreter-backwards", "native")


def check(s: Schedule, args: list[Tensor], target: str = "llvm", **sizes: int) -> None:
    """On every backend of the target, with small integers as inputs."""
    draw = np.random.default_rng(0)
    given = [t for t in args if isinstance(t.op, PlaceholderOp)]
    shapes = [[sizes[repr(d)] if repr(d) in sizes else int(d.value) for d in t.shape] for t in given]
    inputs = [draw.integers(-4, 5, shape).astype(t.dtype.numpy) for t, shape in zip(given, shapes, strict=True)]
    for backend in BACKENDS:
        check_against_reference(args, s, target, inputs, backend)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_rounding_up_reads_inside(n: int) -> None:
    """The region of t0 begins before the tensor does: its guard must ask about the element that is read."""
    size, r = te.var("n"), te.reduce_axis((0, 3), "r")
    a = te.placeholder((size,), "int32", "A")
    t0 = te.compute((size,), lambda i: a[size - 1 - i], name="t0")

    def window(i: te.Expr) -> te.Expr:
        return te.sum(t0[i + r - 1], axis=r, where=te.all(i + r - 1 >= 0, i + r - 1 < size))

    t1 = te.compute((size,), window, name="t1")
    s = create_schedule(t1)
    s[t0].compute_at(s[t1], r)
    s[t0].split(t0.op.axis[0], factor=2, tail="round_up")
    check(s, [a, t1], n=n)


def recurrence() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """An input, what a step goes through, its update, and the scan."""
    n = te.var("n")
    a = te.placeholder((5, n), "int32", "A")
    state = te.placeholder((5, n), "int32", "S")
    first = te.compute((1, n), lambda t, i: a[t, i], name="first")
    middle = te.compute((5, n), lambda t, i: te.min(state[t - 1, i], 8) + a[t, i], name="middle")
    update = te.compute((5, n), lambda t, i: te.max(middle[t, i], -8), name="update")
    return a, middle, update, te.scan(first, update, state, name="steps")


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_step_reads_the_part_of_a_state_that_is_kept(n: int) -> None:
    """One place of the scan at a time, of which an update's tile of four has one, and `middle` computes two."""
    a, middle, update, steps = recurrence()
    out = te.compute(steps.shape, lambda t, i: steps[t, i] * 2, name="out")
    s = create_schedule(out)
    _, within, _ = s[update].split_into(update.op.axis[1], 2, 2, None)
    outer, _ = s[update].split(within, factor=2)
    s[middle].compute_at(s[update], outer)
    s[steps].compute_at(s[out], out.op.axis[1])
    check(s, [a, out], n=n)


def test_a_shared_part_of_a_step_whose_places_are_shared_out() -> None:
    """`middle` of a tile reads the states of all of its work-items, of which none waits for the others."""
    a, middle, _, steps = recurrence()
    s = create_schedule(steps)
    time, place = steps.op.scan_axis, steps.op.spatial_axis_[0]
    s[steps].reorder(place, time)
    _, inner = s[steps].split(place, factor=2)
    s[steps].bind(inner, "threadIdx.x")
    s[middle].set_scope("shared")
    with pytest.raises(LowerError, match="nothing makes them wait for one another"):
        lower_structure(s, [a, steps], "opencl")


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_step_reads_what_the_steps_before_computed(n: int) -> None:
    """A recurrence for each place: `middle` computes two, and only one of them has a state yet."""
    a, middle, update, steps = recurrence()
    s = create_schedule(steps)
    s[steps].reorder(steps.op.spatial_axis_[0], steps.op.scan_axis)
    _, inner = s[update].split(update.op.axis[1], factor=2)
    outer, _ = s[update].split(inner, factor=2)
    s[middle].compute_at(s[update], outer)
    check(s, [a, steps], n=n)


@pytest.mark.parametrize("k", [0, 1, 5])
def test_a_group_combines_nothing(k: int) -> None:
    """Somebody has to store that the sum of nothing is 0."""
    size = te.var("k")
    for depth in (k, size):
        a = te.placeholder((3, depth), "int32", "A")
        r = te.reduce_axis((0, depth), "r")
        b = te.compute((3,), lambda i: te.sum(a[i, r], axis=r), name="B")  # noqa: B023
        s = create_schedule(b)
        outer, _ = s[b].split(r, nparts=2) if depth is size else s[b].split(r, factor=2)
        s[b].bind(outer, "threadIdx.x")
        check(s, [a, b], "opencl", k=k)


def test_what_is_computed_fits_where_it_is_stored() -> None:
    """A tile of two rows where one is stored: both begin at the same row."""
    a = te.placeholder((3, 4), "int32", "A")
    b = te.compute((3, 4), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((3, 4), lambda i, j: b[i, j] * 2, name="C")
    s = create_schedule(c)
    outer, inner = s[c].split(c.op.axis[0], nparts=4)
    tiles, _ = s[c].split(inner, factor=2)
    s[b].compute_at(s[c], tiles)
    s[b].store_at(s[c], outer)
    check(s, [a, c])


@pytest.mark.parametrize("thread", ["vthread", "threadIdx.x"])
def test_a_shared_part_of_a_step_whose_state_is_private(thread: str) -> None:
    """There is a state for one place in each work-item, and `middle` would need those of the group."""
    a, middle, _, steps = recurrence()
    out = te.compute(steps.shape, lambda t, i: steps[t, i] * 2, name="out")
    s = create_schedule(out)
    _, inner = s[out].split(out.op.axis[1], factor=2)
    s[out].bind(inner, thread)
    s[steps].compute_at(s[out], inner)
    s[middle].set_scope("shared")
    with pytest.raises(LowerError, match="belongs to one work-item of the group"):
        lower_structure(s, [a, out], "opencl")
    s[middle].set_scope("local")
    check(s, [a, out], "opencl", n=5)


def test_conditions_of_vectors_are_compared() -> None:
    """Two vector loops of one axis, both ragged: their conditions meet in one `if`."""
    m = te.var("m")
    a = te.placeholder((m,), "int32", "A")
    b = te.compute((m,), lambda i: a[i] + 1, name="B")
    s = create_schedule(b)
    outer, inner = s[b].split(b.op.axis[0], nparts=4, tail="predicate")
    far, near = s[b].split(outer, nparts=8, tail="predicate")
    s[b].vectorize(near)
    s[b].vectorize(far)
    s[b].reorder(inner, near, far)
    check(s, [a, b], m=13)


def test_buffers_of_several_types_in_one_workspace() -> None:
    """gcc 12 with -O3 lost the stores of the partial results, unless told not to think of types."""
    n, k = te.var("n"), te.reduce_axis((0, 1), "k")
    a = te.placeholder((n, 1, 16), "uint16", "A")
    _, least = te.compute((n, 16), lambda i, j: te.argmin((k.var, a[i, k, j]), axis=k), name="T")
    s = create_schedule(least)
    s["T"].fuse("i", "j")
    s["T"].tile("k", "i.j.fused", 5, 2)
    s["T"].split_into("k.inner", 1, None, 3)
    s.rfactor("T", "k.inner.0", factor_axis=-2)
    s.rfactor("T.rf", "k.inner.2", factor_axis=-3)
    given = np.random.default_rng(0).integers(0, 5, (1, 1, 16)).astype(np.uint16)
    check_against_reference([a, least], s, "c", [given])


@pytest.mark.parametrize("n", [1, 4, 5])
def test_a_specialized_stage_inside_a_loop(n: int) -> None:
    """The border of the loop outside comes from the version for even sizes, and mentions half of n."""
    size = te.var("n")
    a = te.placeholder((size, 4), "int32", "A")
    edge = te.compute((size + 2, 4), lambda i, j: a[te.max(te.min(i - 1, size - 1), 0), j], name="edge")
    out = te.compute((size, 4), lambda i, j: edge[i, j] + edge[i + 1, j] + edge[i + 2, j], name="out")
    s = create_schedule(out)
    s[edge].compute_at(s[out], "i")
    s[edge].specialize(te.floormod(size, 2) == 0)
    check(s, [a, out], n=n)


def test_shared_memory_of_a_product_with_no_rows() -> None:
    """The tile of a loop that never runs has a negative extent: the interpreter reserves nothing for it."""
    a = te.placeholder((0, 5), "float64", "A")
    k = te.reduce_axis((0, 5), "k")
    b = te.compute((0,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = create_schedule(b)
    outer, inner = s[b].split("i", factor=2)
    first, *_ = s[b].tile(inner, outer, 1, 2)
    copy = s.cache_read(a, "local", [b])
    s[copy].compute_at(s[b], first)
    s[copy].set_scope("shared")
    check_against_reference([a, b], s, "opencl", [np.zeros((0, 5))], "interpreter")


def test_pieces_of_nested_loops_have_room_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops that lie in one another, each cut in three, would make 27 bodies of three loops. What the outer
    ones ask of their tails is asked once, in the innermost: it makes less than twice the text."""
    n = te.var("n")
    a = te.placeholder((n,) * 3, "int32", "A")
    b = te.compute((n,) * 3, lambda i, j, k: a[te.max(i - 1, 0), te.max(j - 1, 0), te.min(k + 1, n - 1)], name="B")
    s = create_schedule(b)
    outer, inner = zip(*(s[b].split(axis, factor=2) for axis in b.op.axis), strict=True)
    s[b].reorder(*outer, *inner)
    for loop in inner:
        s[b].unroll(loop)
    lengths = []
    for room in (0, 60, 3000):
        monkeypatch.setattr("autosched.lowering.partition.MAX_STATEMENTS", room)
        lengths.append(len(str(lower_structure(s, [a, b], Target("llvm"), "f").bind({}).body)))
        check(s, [a, b], n=7)
    assert lengths[0] < lengths[2] < 2 * lengths[0]


@pytest.mark.parametrize("n", [1, 3])
def test_a_scan_in_shared_memory_keeps_its_steps_together(n: int) -> None:
    """Steps at either border had barriers of their own, and PoCL let the first work-item decide for all."""
    m = te.var("n")
    a = te.placeholder((9, m, 4), "uint8", "A")

    def edge(t: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        return a[te.min(t + 1, 8), te.max(i - 2, 0), j] + a[te.max(t - 2, 0), i, j]

    t0 = te.compute((9, m, 4), edge, name="t0")
    first = te.compute((1, m, 4), lambda t, i, j: t0[t, i, j], name="first")
    state = te.placeholder((9, m, 4), "uint8", "S")
    middle = te.compute((9, m, 4), lambda t, i, j: te.min(state[t - 1, i, 3 - j], 8) + t0[t, i, j], name="middle")
    update = te.compute((9, m, 4), lambda t, i, j: te.max(middle[t, i, j], 1), name="update")
    steps = te.scan(first, update, state, name="steps")
    out = te.compute((9, m, 4), lambda t, i, j: steps[8 - t, i, j], name="out")
    s = create_schedule(out)
    s[t0].compute_inline()
    s[steps].compute_at(s[out], out.op.axis[2])
    s[steps].set_scope("shared")
    s[out].bind(out.op.axis[2], te.thread_axis("threadIdx.x"))
    check(s, [a, out], target="opencl", n=n)


def test_a_short_loop_of_varying_length_reads_no_further() -> None:
    """A C compiler writes the steps out, each under a condition. gcc 12 with AVX-512VL then loaded 32 bytes for the one
    element that is there, past the end of the input: a crash."""
    a = te.placeholder((5, 2), "float64", "A")
    t1 = te.compute((5, 2), lambda i, j: a[i, j], name="t1")

    def near(i: te.Expr, j: te.Expr, back: int) -> te.Expr:
        return te.max(te.min(t1[i, te.max(te.min(j - back, 1), 0)], 8.0), -8.0)

    t2 = te.compute((5, 2), lambda i, j: near(i, j, 1) + near(i, j, 2) + near(i, j, 2), name="t2")
    s = create_schedule(t2)
    s[t1].transform_layout(lambda i, j: [j // 4, i, j % 4])
    s[t1].split_into("axis2", 5, 2, None)
    s[t1].compute_at(s[t2], t2.op.axis[1])
    check(s, [a, t2], target="c")


# -- intermediates among the arguments ------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("backend", ["interpreter", "native"])
def test_a_scan_among_the_arguments_that_is_computed_at_a_loop(backend: str, at: int) -> None:
    """Each column went to the first one of the argument, where a buffer for one column has it."""
    a, _, _, steps = recurrence()
    out = te.compute(steps.shape, lambda t, i: steps[t, i] * 2, name="out")
    s = create_schedule(out)
    s[steps].compute_at(s[out], out.op.axis[at])
    given = np.random.default_rng(0).integers(-4, 5, (5, 3)).astype("int32")
    check_against_reference([a, out], s, "llvm", [given], backend, passed=[steps])  # type: ignore[arg-type]


def row_sums(shift: int) -> tuple[Tensor, Tensor, Tensor, Schedule]:
    """Sums of rows, computed at a parallel loop over four of their readers."""
    n, k = te.var("n"), te.reduce_axis((0, 3), "k")
    a = te.placeholder((n, 3), "int32", "A")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((n,), lambda i: b[i] + b[te.max(i - shift, 0)], name="C")
    s = create_schedule(c)
    outer, _ = s[c].split("i", factor=4)
    s[c].parallel(outer)
    s[b].compute_at(s[c], outer)
    return a, b, c, s


def test_no_two_iterations_sum_up_one_element_of_an_argument() -> None:
    """An iteration set the element to zero that another one was reading."""
    a, b, c, s = row_sums(1)
    with pytest.raises(LowerError, match="would all sum it up in the argument"):
        lower_structure(s, [a, b, c], "llvm")
    check(s, [a, c], n=6)
    a, b, c, s = row_sums(0)
    check_against_reference([a, c], s, "llvm", [np.ones((6, 3), "int32")], passed=[b])


def test_what_a_step_of_a_scan_goes_through_has_no_reference() -> None:
    a, middle, _, steps = recurrence()
    with pytest.raises(ArgumentError, match="middle is computed inside a scan"):
        te.reference([a, middle, steps], [np.ones((5, 3), "int32")])


# -- memory ---------------------------------------------------------------------------------------------


def test_the_stride_of_an_intermediate_that_no_argument_shows() -> None:
    """It was reported as a defect of lowering."""
    a = te.placeholder((4, 4), "int32", "A")
    b = te.compute((4, 4), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((4, 4), lambda i, j: b[j, i], name="C")
    row = te.var("row")
    declared = {b: te.decl_buffer((4, 4), "int32", "B", strides=[row, 1])}
    with pytest.raises(LowerError, match="nothing says what row is: B is no argument"):
        lower_structure(create_schedule(c), [a, c], "llvm", binds=declared)
    declared[a] = te.decl_buffer((4, 4), "int32", "A", strides=[row, 1])
    lower_structure(create_schedule(c), [a, c], "llvm", binds=declared)


# -- opaque operations and intrinsics -------------------------------------------------------------------


def test_nothing_is_finished_inside_an_opaque_operation() -> None:
    """A raw ValueError: an opaque operation has no axes to match."""
    a = te.placeholder((4,), "int32", "A")

    def body(ins: list[te.Buffer], outs: list[te.Buffer]) -> object:
        ib = create()
        with ib.for_range(0, 4) as i:
            ib.buffer_ptr(outs[0])[i] = ib.buffer_ptr(ins[0])[i]
        return ib.get()

    b = te.extern((4,), [a], body, name="B")
    c = te.compute((4,), lambda i: b[i] + 1, name="C")
    with pytest.raises(ScheduleError, match=r"B is a te\.extern"):
        create_schedule(c)[c].reverse_compute_inline()


def product() -> tuple[Tensor, Tensor, Tensor, Schedule]:
    """Tiles of four columns by an intrinsic."""
    k = te.reduce_axis((0, 6), "k")
    a, b = te.placeholder((3, 6), "int8", "A"), te.placeholder((8, 6), "uint8", "B")
    c = te.compute((3, 8), lambda i, j: te.sum(a[i, k].astype("int32") * b[j, k].astype("int32"), axis=k), name="C")
    s = create_schedule(c)
    _, inner = s[c].split("j", factor=4)
    s[c].tensorize(inner, declare("dot.int8.uint8.int32.1x4x6.all"))
    return a, b, c, s


def test_a_cache_that_keeps_tensorized_loops() -> None:
    """The intrinsic goes with the loops; a raw ValueError before."""
    a, b, c, s = product()
    s.apply("cache_write", s[c], "local", keep_loops=True)
    inputs = [np.full((3, 6), -3, "int8"), np.full((8, 6), 200, "uint8")]
    for backend in BACKENDS:
        check_against_reference([a, b, c], s, "llvm", inputs, backend)


def test_nothing_is_computed_inside_an_intrinsic() -> None:
    c = product()[2]
    out = te.compute((3, 8), lambda i, j: c[i, j] * 2, name="out")
    for primitive, named in (("vectorize", "j.inner"), ("unroll", "k"), ("bind", "k")):
        s = create_schedule(out)
        _, inner = s[c].split("j", factor=4)
        s[c].tensorize(inner, declare("dot.int8.uint8.int32.1x4x6.all"))
        with pytest.raises(ScheduleError, match=f"C.{named} is computed by the intrinsic"):
            s.apply(primitive, s[c], named, *(["threadIdx.x"] if primitive == "bind" else []))
        with pytest.raises(ScheduleError, match=r"C.j.inner is computed by the intrinsic"):
            s[out].reverse_compute_at(s[c], inner)


def test_what_an_intrinsic_computes_is_not_inlined_backwards() -> None:
    """The loops went over, and the intrinsic that they stood for was lost."""
    a = te.placeholder((8,), "int32", "A")
    b = te.compute((8,), lambda i: a[i] * 2, name="B")
    c = te.compute((8,), lambda i: b[i] + 1, name="C")
    x = te.placeholder((4,), "int32", "x")
    y = te.compute((4,), lambda i: x[i] * 2, name="y")

    def statement(ins: list[te.Buffer], outs: list[te.Buffer]) -> object:
        ib = create()
        with ib.for_range(0, 4) as i:
            ib.buffer_ptr(outs[0])[i] = ib.buffer_ptr(ins[0])[i] * 2
        return ib.get()

    s = create_schedule(c)
    _, inner = s[b].split("i", factor=4)
    s[b].tensorize(inner, te.decl_tensor_intrin(y.op, statement, name="fuzz.twice"))
    with pytest.raises(ScheduleError, match="B.i.inner is computed by the intrinsic fuzz.twice"):
        s[c].reverse_compute_inline()
    check(s, [a, c])


def test_a_strided_argument_is_no_larger_than_its_strides_reach() -> None:
    """LLVM was told that there is memory for all elements, and read rows outside of the window, which the condition
    leaves out, ahead of it: a crash where one row is read again and again."""
    r = te.reduce_axis((0, 3), "r")
    a = te.placeholder((3, 4), "float32", "A")
    b = te.placeholder((3, 4), "float32", "B")

    def near(i: te.Expr, j: te.Expr) -> te.Expr:
        return te.sum(a[i + r - 1, j] * a[i, j], axis=r, where=te.all(i + r - 1 >= 0, i + r - 1 < 3))

    (c,) = te.gradient(te.compute((3, 4), near, name="C"), [a], b)
    layouts = {"A": Layout((1, 0), (0, 0), is_open=True, repeated=(0,))}
    inputs = [np.ones((3, 4), "float32"), np.ones((3, 4), "float32")]
    for at_end in (True, False):
        check_against_reference([a, b, c], create_schedule(c), "llvm", inputs, at_end=at_end, layouts=layouts)


def test_rules_for_kernels_do_not_inline_what_an_opaque_operation_reads() -> None:
    """`--space auto` on a GPU-style target had no sketch."""
    a = te.placeholder((8, 8), "int32", "A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1, name="B")

    def body(ins: list[te.Buffer], outs: list[te.Buffer]) -> object:
        ib = create()
        bx = te.thread_axis("blockIdx.x")
        with ib.scope_attr(bx, "thread_extent", 8), ib.for_range(0, 8) as j:
            ib.buffer_ptr(outs[0])[bx.var, j] = ib.buffer_ptr(ins[0])[bx.var, 7 - j]
        return ib.get()

    c = te.extern((8, 8), [b], body, name="C")
    d = te.compute((8, 8), lambda i, j: c[i, j] * 2, name="D")
    space = Workload("opaque", [a, d]).search_space(Target("opencl"), {}, "auto")
    assert space.sketches
    assert not space.untraced


def test_no_two_lanes_sum_up_one_element() -> None:
    """The last block begins before the one before it ends; as lanes of one vector both added to what they share."""
    k = te.reduce_axis((0, 6), "k")
    a = te.placeholder((16, 6), "int32", "A")
    b = te.compute((16,), lambda i: te.sum(a[i, k], axis=k), name="B")
    for kind, message in (("vectorize", "it is vectorized"), ("parallel", "it is parallel")):
        s = create_schedule(b)
        outer, _ = s[b].split("i", factor=3, tail="shift_inwards")
        s.apply(kind, s[b], outer)
        with pytest.raises(LowerError, match=f"sums would be added to twice: {message}"):
            lower_structure(s, [a, b], "llvm")
    s = create_schedule(b)
    outer, inner = s[b].split("i", factor=3, tail="shift_inwards")
    s[b].vectorize(inner)
    check(s, [a, b])


def test_no_two_workers_sum_up_one_element() -> None:
    """A worker for each place of all blocks, too: one went on to the last block while another was at the one before."""
    k = te.reduce_axis((0, 6), "k")
    a = te.placeholder((16, 6), "int32", "A")
    b = te.compute((16,), lambda i: te.sum(a[i, k], axis=k), name="B")

    def of_places(factor: int, tag: str = "") -> Schedule:
        s = create_schedule(b)
        outer, inner = s[b].split("i", factor=factor, tail="shift_inwards")
        if tag:
            s[b].bind(inner, tag)
        else:
            s[b].reorder(inner, outer)
            s[b].parallel(inner)
        return s

    for tag in ("threadIdx.x", "blockIdx.x"):
        with pytest.raises(LowerError, match=f"sums would be added to twice: it is {tag}"):
            lower_structure(of_places(3, tag), [a, b], "opencl")
    with pytest.raises(LowerError, match="sums would be added to twice: it is parallel"):
        lower_structure(of_places(3), [a, b], "llvm")
    check(of_places(4), [a, b])  # no block overlaps another
    check_against_reference([a, b], of_places(4, "threadIdx.x"), "opencl", [np.ones((16, 6), "int32")], "interpreter")
    s = create_schedule(b)
    _, inner = s[b].split("i", factor=3, tail="shift_inwards")
    s[b].parallel(inner)  # each block waits for the one before
    check(s, [a, b])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_conditional_reads_side_by_side(dtype: str) -> None:
    """gcc 12 with AVX loaded the wrong elements for three colours, or seven columns, under one condition."""
    n, r = te.var("n"), te.reduce_axis((0, 3), "r")
    for columns in (3, 7):
        a = te.placeholder((n, columns), dtype, "A")

        def near(i: te.Expr, j: te.Expr, a: Tensor = a) -> te.Expr:
            return te.sum(a[i - r + 1, j], axis=r, where=te.all(i - r + 1 >= 0, i - r + 1 < n))

        b = te.compute((n, columns), near, name="B")
        c = te.compute((n, columns), lambda i, j, b=b: b[i, j] + 1, name="C")
        s = create_schedule(c)
        s[b].compute_at(s[c], "j")
        s[c].unroll("j")
        check(s, [a, c], target="c", n=33)


def test_an_empty_output_with_strides() -> None:
    """It has no two elements in one place."""
    a = te.placeholder((0, 8), "int32", "A")
    b = te.compute((0, 8), lambda i, j: a[i, j] + 1, name="B")
    layouts = {"B": Layout((0, 1), (0, 0), is_open=True)}
    check_against_reference([a, b], create_schedule(b), "llvm", [np.zeros((0, 8), "int32")], layouts=layouts)


def test_a_rolling_buffer_inside_a_scatter() -> None:
    """Its outermost loops only set the first values: what was stored there had no memory."""
    a = te.placeholder((5, 8), "uint8", "A")
    b = te.compute((5, 8), lambda i, j: a[i, j] + 1, name="B")
    r = [te.reduce_axis((0, n), f"r{n}") for n in (5, 8)]
    c = te.scatter_reduce((11,), lambda: (b[r[0], r[1]], r[1].var + 1), r, "sum", name="C")
    s = create_schedule(c)
    s[b].compute_at(s[c], r[1])
    s[b].rolling_buffer()
    inputs = [np.random.default_rng(0).integers(0, 9, (5, 8)).astype("uint8")]
    for backend in BACKENDS:
        check_against_reference([a, c], s, "llvm", inputs, backend)


@pytest.mark.parametrize("n", [1, 3])
def test_conditions_of_items_and_of_groups_are_kept_apart(n: int) -> None:
    """The first work-item stores the sum, and the next copy of `t1` is filled if there is one. PoCL 3.0 lost the store
    where no barrier stood between them."""
    size = te.var("n")
    a, b = te.placeholder((size, 4), "int8", "A"), te.placeholder((6, 4), "uint8", "B")
    t1 = te.compute((size, 4), lambda i, k: a[i, 3 - k], name="t1")
    k = te.reduce_axis((0, 4), "k")
    t2 = te.compute(
        (size, 6), lambda i, j: te.sum(t1[i, k].astype("int32") * b[j, k].astype("int32"), axis=k), name="t2"
    )
    s = create_schedule(t2)
    s[t1].compute_at(s[t2], t2.op.axis[1])
    s[t1].double_buffer()
    s[t2].bind(k, te.thread_axis("threadIdx.y"))
    check(s, [a, b, t2], target="opencl", n=n)


def test_a_window_where_all_loops_are_short() -> None:
    """A C compiler writes all of it out. gcc 12 with AVX made vectors of the conditional loads, of wrong elements."""
    a, b, g = (te.placeholder((3, 3), "float64", name) for name in "ABG")
    r = te.reduce_axis((0, 3), "r")

    def product(i: te.Expr, j: te.Expr) -> te.Expr:
        inside = te.all(i - r + 1 >= 0, i - r + 1 < 3)
        return te.sum(b[i - r + 1, j] * a[i - r + 1, j], axis=r, where=inside)

    c = te.compute((3, 3), product, name="C")
    d = te.compute((3, 3), lambda i, j: g[i, j] + c[i, j], name="D")
    s = create_schedule(d)
    s[c].compute_at(s[d], d.op.axis[1])
    check(s, [a, b, g, d], target="c")


def test_arrays_a_constant_distance_apart() -> None:
    """gcc 12 loaded what lies between the rows of `in0`, and behind the last one."""
    a = te.placeholder((4, 17), "uint8", "in0")
    k = te.reduce_axis((0, 17), "k")
    t0 = te.compute((4,), lambda i: te.argmin((k, a[i, k]), axis=k), name="t0")
    s = create_schedule([*t0])
    s[t0[0]].split_into("i", 2, None, 3)
    part = s.rfactor(t0[0], k, factor_axis=1)[0]
    s[part].bind("i", te.thread_axis("vthread"))
    s[part].parallel("k")
    s[part].compute_at(s[t0[0]], "i.1")
    check(s, [a, *t0], target="c")


def test_columns_that_are_converted() -> None:
    """gcc 12 loaded 16 floats for one of them, behind the last row, too."""
    a, b = te.placeholder((7, 12), "float32", "A"), te.placeholder((16, 12), "float32", "B")
    k = te.reduce_axis((0, 12), "k")
    c = te.compute(
        (7, 16), lambda i, j: te.sum(a[i, k].astype("float64") * b[j, k].astype("float64"), axis=k), name="C"
    )
    s = create_schedule(c)
    s.rfactor(c, k, factor_axis=-3)
    s.rfactor(c, "k.v", factor_axis=1)
    check(s, [a, b, c], target="c")


def test_groups_of_columns_that_are_converted() -> None:
    a, b = te.placeholder((7, 6), "float32", "A"), te.placeholder((4, 6), "float32", "B")
    k = te.reduce_axis((0, 6), "k")
    c = te.compute((7, 4), lambda i, j: te.sum(a[i, k].astype("float64") * b[j, k].astype("float64"), axis=k), name="C")
    s = create_schedule(c)
    part = s.rfactor(c, k)
    s[part].transform_layout(lambda i, j, k: [i // 3, j, k, i % 3])
    check(s, [a, b, c], target="c")


def test_a_place_beyond_the_largest_signed_integer() -> None:
    """As int64, which addresses are, it is negative."""
    a = te.placeholder((5,), "uint64", "A")
    i = te.reduce_axis((0, 5), "i")
    c = te.scatter_reduce((4,), lambda: (a[i], te.const(1, "int32")), axis=i, name="C")
    values = [np.array([0, 3, 2**63, 2**64 - 1, 3], "uint64")]
    for backend in BACKENDS:
        check_against_reference([a, c], create_schedule(c), "llvm", values, backend)


def test_the_storage_of_an_empty_nest() -> None:
    """The extent of the copy divides by the number of columns."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), "int32", "A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2, name="C")
    s = create_schedule(c)
    fused = s[c].fuse("i", "j")
    _, each = s[c].split(fused, nparts=1)
    s[b].compute_at(s[c], each)
    s[b].rolling_buffer()
    check(s, [a, c], n=0, m=0)
    check(s, [a, c], n=3, m=2)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_an_element_that_a_condition_chooses(dtype: str) -> None:
    """gcc 12 took another one, at -O2 and for elements of every type."""
    a = te.placeholder((64,), dtype, "A")
    zero = te.const(0, dtype)
    b = te.compute((64,), lambda i: a[(a[i] > zero).astype("int32") * 2 + 1], name="B")
    c = te.compute((64,), lambda i: a[te.select(a[i] > zero, 1, 0)], name="C")
    check(create_schedule([b, c]), [a, b, c], target="c")


def test_a_barrier_of_shared_memory_orders_no_main_memory() -> None:
    """Each work-item reads the state for `before`; one stores the update there, two barriers for shared memory later."""
    a, state = te.placeholder((8,), "int32", "A"), te.placeholder((5, 8), "int32", "state")
    first = te.compute((1, 8), lambda _, i: a[i], name="first")
    before = te.compute((5, 8), lambda t, i: state[t - 1, 7 - i] + 1, name="before")
    shared = te.compute((5, 8), lambda t, i: before[t, i] * 2, name="shared")
    again = te.compute((5, 8), lambda t, i: shared[t, 7 - i] + 3, name="again")
    update = te.compute((5, 8), lambda t, i: again[t, 7 - i] - before[t, i], name="update")
    steps = te.scan(first, update, state, name="steps")
    last = te.compute((8,), lambda i: steps[4, i], name="last")
    s = create_schedule(last)
    for stage in (s[shared], s[again]):
        stage.set_scope("shared")
        stage.bind("i", "threadIdx.x")
    check_against_reference([a, last], s, "opencl", [np.arange(8, dtype="int32")], "interpreter")


def test_lanes_that_a_condition_leaves_out_may_read_what_is_not_written_yet() -> None:
    """Times that are still to come are in the buffer, and nobody uses what was read there."""
    a, state = te.placeholder((7, 2), "int32", "A"), te.placeholder((7, 2), "int32", "state")
    first = te.compute((1, 2), lambda _, i: a[0, i], name="first")
    k = te.reduce_axis((0, 7), "k")
    past = te.compute((7, 2), lambda t, i: te.sum(state[te.min(k, t - 1), i], axis=k, where=k < t), name="past")
    update = te.compute((7, 2), lambda t, i: te.min(past[t, i], 8) + a[t, i], name="update")
    b = te.scan(first, update, state, name="B")
    s = create_schedule(b)
    s[past].vectorize(s[past].op.reduce_axis[0])
    check_against_reference([a, b], s, "llvm", [np.arange(14, dtype="int32").reshape(7, 2)], "interpreter")
    check(s, [a, b])


@pytest.mark.parametrize("between", ["vthread", "hint", "parallel", "serial"])
@pytest.mark.parametrize("inner", ["unroll", "vectorize"])
def test_a_border_of_several_tiles_of_which_some_are_whole(between: str, inner: str) -> None:
    """17 = 2 * 6 + 5: of the last two tiles of 3, the first is whole."""
    a = te.placeholder((5, 17), "int32", "A")
    b = te.compute((5, 17), lambda i, j: a[i, j] + 1, name="B")
    s = create_schedule(b)
    tile, lane = s[b].split("j", factor=3)
    _, middle = s[b].split(tile, factor=2)
    getattr(s[b], inner)(lane)
    if between == "vthread":
        s[b].bind(middle, "vthread")
    elif between == "hint":
        s[b].pragma(middle, "loop_partition_hint", pragma_value=0)
    elif between == "parallel":
        s[b].parallel(middle)
    check(s, [a, b])


@pytest.mark.parametrize("factors", [(8, 4), (9, 4), (32, 9)])
def test_points_beyond_the_end_of_a_factored_reduction_ask_no_data(factors: tuple[int, int]) -> None:
    """`where=` reads the element, which is inside only where the split's guard holds."""
    a = te.placeholder((256,), "int32", "A")
    k = te.reduce_axis((0, 256), "k")
    b = te.compute((), lambda: te.min(te.select(a[k] > 0, k, 999), axis=k, where=a[k] > 0), name="B")
    s = create_schedule(b)
    _, inner = s[b].split(k, factor=factors[0])
    partial = s.rfactor(b, inner)
    outer, _ = s[partial].split(next(x for x in s[partial].loops if x.is_reduce), factor=factors[1])
    s.rfactor(partial, outer)
    check(s, [a, b])
