"""`block_time`: several steps of a scan in one give what the definition says, however many there are."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import lower, te
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference
from autosched.testing.schedules import random_schedule

TARGETS = [("llvm", "native"), ("llvm", "interpreter"), ("c", "native")]


def spread(n: te.Expr | int, times: te.Expr | int) -> list[Tensor]:
    """A row of which every element becomes the sum of its neighbours and of what the time adds, modulo 7."""
    row, more = te.placeholder((n,), "int32", name="row"), te.placeholder((times,), "int32", name="more")
    state = te.placeholder((times, n), "int32", name="state")
    first = te.compute((1, n), lambda _, i: row[i], name="first")

    def step(t: te.Expr, i: te.Expr) -> te.Expr:
        around = state[t - 1, te.max(i - 1, 0)] + state[t - 1, te.min(i + 1, n - 1)]
        return (around + state[t - 1, i] * t + more[t]) % 7

    all_times = te.scan(first, te.compute((times, n), step, name="step"), state, name="all")
    return [row, more, te.compute((n,), lambda i: all_times[times - 1, i], name="last")]


def flows(n: te.Expr | int, times: te.Expr | int) -> list[Tensor]:
    """Two states; a step goes through flows, which are computed for the time before it, along their second axis."""
    row, more = te.placeholder((n,), "int32", name="row"), te.placeholder((times,), "int32", name="more")
    p, q = (te.placeholder((times, n), "int32", name=name) for name in "pq")
    first = te.compute((1, n), lambda _, i: (row[i], row[n - 1 - i]), name="first")
    flow = te.compute((n, times), lambda i, t: p[t, te.min(i + 1, n - 1)] - q[t, i], name="flow")
    new_p = te.compute((times, n), lambda t, i: (p[t - 1, i] + flow[i, t - 1] + more[t]) % 5, name="new_p")
    new_q = te.compute((times, n), lambda t, i: new_p[t, n - 1 - i] - q[t - 1, i], name="new_q")
    ends = te.scan(list(first), [new_p, new_q], [p, q], name="both")
    return [row, more, te.compute((n,), lambda i: ends[0][times - 1, i] + 3 * ends[1][times - 1, i], name="last")]


def shares(n: te.Expr | int, times: te.Expr | int) -> list[Tensor]:
    """What everybody has, less the mean of all: a step reduces a row."""
    row, more = te.placeholder((n,), "int32", name="row"), te.placeholder((times,), "int32", name="more")
    state, k = te.placeholder((times, n), "int32", name="state"), te.reduce_axis((0, n), "k")
    first = te.compute((1, n), lambda _, i: row[i], name="first")
    total = te.compute((times,), lambda t: te.sum(state[t - 1, k], axis=k), name="total")
    step = te.compute((times, n), lambda t, i: (state[t - 1, i] * more[t] - total[t]) % 11, name="step")
    all_times = te.scan(first, step, state, name="all")
    return [row, more, te.compute((n,), lambda i: all_times[times - 1, i], name="last")]


def given(args: list[Tensor], n: int, times: int) -> list[np.ndarray]:
    lengths = {"row": n, "more": times}
    inputs = [a for a in args if not a.op.input_tensors]
    return [np.random.default_rng(0).integers(-9, 9, lengths[a.name]).astype("int32") for a in inputs]


def scan_of(s: Schedule) -> Tensor:
    return next(x.tensor for x in s.stages if x.scan_loop is not None)


@pytest.mark.parametrize(("target", "backend"), TARGETS)
@pytest.mark.parametrize("program", [spread, flows, shares])
@pytest.mark.parametrize(("times", "factor"), [(7, 2), (7, 3), (8, 3), (4, 3), (None, 2)])
def test_blocks_of_steps(
    target: str, backend: str, program: Callable[..., list[Tensor]], times: int | None, factor: int
) -> None:
    """Where the number of steps is no multiple of the block's, or is not known, the last block stops early."""
    n = te.var("n")
    args = program(n, te.var("times") if times is None else times)
    s = create_schedule(args)
    count = len(s.stages)
    made = s.block_time(scan_of(s), factor)
    assert len(s.stages) - count == len({t.op for t in made})
    assert_roundtrip(s, args, target)
    for length in [times] if times is not None else [1, 2, 3, 6]:
        if times is None and program is flows and length == 1:
            continue  # its flows read a time that is not there
        check_against_reference(args, s, target, given(args, 13, length), backend)  # type: ignore[arg-type]


@pytest.mark.parametrize(("target", "backend"), TARGETS)
@pytest.mark.parametrize("factor", [2, 3, 4])
def test_tiles_go_through_a_block(target: str, backend: str, factor: int) -> None:
    """Early steps at a loop over tiles of the last: what neighbours need of each other is computed twice."""
    args = spread(50, 13)
    s = create_schedule(args)
    early = s.block_time(scan_of(s), factor)
    tile, inside = s["step"].split("i", factor=16)
    lanes = s["step"].split(inside, factor=4)[1]
    s["step"].parallel(tile)
    s["step"].vectorize(lanes)
    for t in early:
        s[t].compute_at(s["step"], tile)
        s[t].vectorize(s[t].split("i", factor=4)[1])
    assert_roundtrip(s, args, target)
    check_against_reference(args, s, target, given(args, 50, 13), backend)  # type: ignore[arg-type]


def test_a_window_of_blocks_is_stored() -> None:
    """Of the new scan, too, only the last time is kept."""
    args = spread(50, 13)
    s = create_schedule(args)
    s.block_time(scan_of(s), 4)
    assert "allocate all: int32[1, 50]" in str(lower(s, args))


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("program", [spread, flows, shares])
@pytest.mark.parametrize("seed", range(4))
def test_any_schedule_of_blocks(target: str, program: Callable[..., list[Tensor]], seed: int) -> None:
    args = program(13, 7)
    s = random_schedule(args, random.Random(seed), target)
    check_against_reference(args, s, target, given(args, 13, 7), "native")
