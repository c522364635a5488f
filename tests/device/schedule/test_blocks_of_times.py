"""Scans that are computed at a loop of what reads them and stored outside it: they go on, block of times after block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scan_programs import running_sum, states_at_once, two_states

from autosched import te
from autosched.ir.stmt import Allocate, walk
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

Made = tuple[list[Tensor], Schedule]


def rows_of(x: Tensor, *states: Tensor) -> Tensor:
    n, m = states[0].shape
    return te.compute((m, n), lambda i, t: sum(s[t, i] for s in states[1:]) + states[0][t, i] * 2, name="Z")


def blocks(args: list[Tensor], scan: str, factor: int = 4) -> Schedule:
    s = create_schedule(args)
    strip, near = s["Z"].split("i", factor=3)
    block, time = s["Z"].split("t", factor=factor)
    s["Z"].reorder(strip, block, near, time)
    s[scan].compute_at(s["Z"], block)
    s[scan].store_at(s["Z"], strip)
    return s


def sums() -> Made:
    x, made = running_sum("int32")
    args = [x, rows_of(x, made)]
    s = blocks(args, "S")
    s["Z"].parallel(s["Z"].loops[0])
    s["step"].vectorize(s["step"].loops[-1])
    s["S"].unroll("S.idx")
    return args, s


def turned_input() -> Made:
    """What the init and the steps read is made for each block, too."""
    x = te.placeholder((te.var("m"), te.var("n")), "int32", name="X")
    m, n = x.shape
    turned = te.compute((n, m), lambda t, i: x[i, t] * 3, name="T")
    state = te.placeholder((n, m), "int32", name="state")
    first = te.compute((1, m), lambda _, i: turned[0, i], name="first")
    step = te.compute((n, m), lambda t, i: state[t - 1, i] + turned[t, i], name="step")
    args = [x, rows_of(x, te.scan(first, step, state, name="S"))]
    s = blocks(args, "S")
    s["T"].compute_at(s["Z"], s["Z"].loops[1])
    return args, s


def two_loops_of_blocks() -> Made:
    x, made = running_sum("int32")
    args = [x, rows_of(x, made)]
    s = create_schedule(args)
    block, time = s["Z"].split("t", factor=2)
    several, block = s["Z"].split(block, factor=3)
    s["Z"].reorder("i", several, block, time)
    s["S"].compute_at(s["Z"], block)
    s["S"].store_at(s["Z"], "i")
    return args, s


def two_times_back() -> Made:
    x, p, q = two_states()
    args = [x, rows_of(x, p, q)]
    return args, blocks(args, "PQ")


def at_once() -> Made:
    x, p, q = states_at_once()
    args = [x, rows_of(x, p, q)]
    return args, blocks(args, "PQ", 3)


def places_that_look_around() -> Made:
    x = te.placeholder((te.var("n"), te.var("m")), "int32", name="X")
    n, m = x.shape
    state = te.placeholder((n, m), "int32", name="state")
    first = te.compute((1, m), lambda _, i: x[0, i], name="first")
    step = te.compute((n, m), lambda t, i: te.min(state[t - 1, te.max(i - 1, 0)], 9) + x[t, i], name="step")
    args = [x, rows_of(x, te.scan(first, step, state, name="S"))]
    return args, blocks(args, "S")


def sums_in_a_step() -> Made:
    x = te.placeholder((te.var("n"), te.var("m")), "int32", name="X")
    n, m = x.shape
    state, k = te.placeholder((n, m), "int32", name="state"), te.reduce_axis((0, 3), "k")
    first = te.compute((1, m), lambda _, i: x[0, i], name="first")
    step = te.compute((n, m), lambda t, i: te.max(te.min(state[t - 1, i], 9 - k) + x[t, i], axis=k), name="step")
    args = [x, rows_of(x, te.scan(first, step, state, name="S"))]
    return args, blocks(args, "S")


def backwards() -> Made:
    """Times that do not come one after the other are computed all, in each block."""
    x, made = running_sum("int32")
    n, m = made.shape
    args = [x, te.compute((m, n), lambda i, t: made[n - 1 - t, i], name="Z")]
    return args, blocks(args, "S")


def overlapping() -> Made:
    x, made = running_sum("int32")
    n, m = made.shape
    args = [x, te.compute((m, n), lambda i, t: made[t, i] - made[te.max(t - 1, 0), i], name="Z")]
    return args, blocks(args, "S")


def the_last_block_moves_back() -> Made:
    x = te.placeholder((10, 5), "int32", name="X")
    state = te.placeholder((10, 5), "int32", name="state")
    first = te.compute((1, 5), lambda _, i: x[0, i], name="first")
    made = te.scan(first, te.compute((10, 5), lambda t, i: state[t - 1, i] + x[t, i], name="step"), state, name="S")
    z = te.compute((5, 10), lambda i, t: made[t, i], name="Z")
    s = create_schedule(z)
    block, _ = s["Z"].split("t", factor=4, tail="shift_inwards")
    s["S"].compute_at(s["Z"], block)
    s["S"].store_at(s["Z"], "i")
    return [x, z], s


def a_short_block() -> Made:
    """A block that holds less than the init goes over all times."""
    x, p, q = two_states()
    args = [x, rows_of(x, p, q)]
    return args, blocks(args, "PQ", 1)


IN_BLOCKS = (
    sums, turned_input, two_loops_of_blocks, two_times_back, at_once, places_that_look_around, sums_in_a_step,
)  # fmt: skip
AT_ONCE = (backwards, overlapping, the_last_block_moves_back, a_short_block)


def given(args: list[Tensor], n: int, m: int) -> list[np.ndarray]:
    draw, sizes = np.random.default_rng(n * 31 + m), {"n": n, "m": m}
    shape = [sizes[repr(d)] if d.op == "var" else d.value for d in args[0].shape]
    return [draw.integers(-3, 4, shape).astype("int32")]


@pytest.mark.parametrize("make", [*IN_BLOCKS, *AT_ONCE])
@pytest.mark.parametrize("backend", ["interpreter", "native"])
def test_results(make: Callable[[], Made], backend: str) -> None:
    args, s = make()
    more = [given(args, n, m) for n, m in ((2, 1), (3, 4), (9, 3), (17, 5))]
    check_against_reference(args, s, "llvm", given(args, 8, 7), backend, more=more)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [*IN_BLOCKS, *AT_ONCE])
def test_a_block_is_kept_and_what_its_first_steps_read(make: Callable[[], Made]) -> None:
    args, s = make()
    made = lower_structure(s, args, "llvm")
    text, kept = str(made), [a.buffer.shape[0] for a in walk(made.function.body) if isinstance(a, Allocate)]
    reach = {two_times_back: [2, 2], at_once: [2, 2]}.get(make, [1])
    assert (make in IN_BLOCKS) == ("else" in text), "the first block has the init, the others what they go on from"
    if make in IN_BLOCKS and make is not turned_input:
        length = {at_once: 3, two_loops_of_blocks: 2}.get(make, 4)
        assert sorted(n.value for n in kept if n.op == "const")[-len(reach) :] == [length + r for r in reach]


def test_on_kernels_they_are_made_at_once() -> None:
    args, s = two_times_back()
    check_against_reference(args, s, "opencl", given(args, 8, 7), "interpreter")
