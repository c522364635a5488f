"""What campaigns of random programs found: `python -m autosched.testing.fuzz`, made smaller."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.errors import LowerError
from autosched.lower import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.target import Target
from autosched.te.tensor import PlaceholderOp, Tensor
from autosched.testing.oracle import check_against_reference

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
        monkeypatch.setattr("autosched.lower.partition.MAX_STATEMENTS", room)
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
