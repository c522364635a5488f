"""What campaigns of random programs found: `python -m autosched.testing.fuzz`, made smaller."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.errors import LowerError
from autosched.lower import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te.tensor import PlaceholderOp, Tensor
from autosched.testing.oracle import check_against_reference

BACKENDS = ("interpreter", "interpreter-backwards", "native")


def check(s: Schedule, args: list[Tensor], target: str = "llvm", **sizes: int) -> None:
    """On every backend of the target, with small integers as inputs."""
    draw = np.random.default_rng(0)
    shapes = [[sizes.get(repr(d)) or int(d.value) for d in t.shape] for t in args if isinstance(t.op, PlaceholderOp)]
    dtypes = [t.dtype.numpy for t in args if isinstance(t.op, PlaceholderOp)]
    inputs = [draw.integers(-4, 5, shape).astype(dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
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
