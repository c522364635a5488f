"""Schedules of scans: the loops they make, that they compute what the definition says, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from roundtrip import assert_roundtrip
from scan_programs import behind_the_best, lstm, of_two_shapes, running_sum, states_at_once, two_states

import autosched
from autosched import te
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.space.default import default_schedule
from autosched.target import Target
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

Args = list[Tensor]


def given(args: Args, n: int = 6, m: int = 7) -> list[np.ndarray]:
    draw = np.random.default_rng(n * 31 + m)
    sizes = {"n": n, "m": m}
    return [
        draw.integers(-3, 4, [sizes[repr(d)] if d.op == "var" else d.value for d in t.shape]).astype(t.dtype.numpy)
        for t in args
        if isinstance(t.op, te.PlaceholderOp)
    ]


def plain() -> tuple[Args, Schedule]:
    args = running_sum()
    return args, create_schedule(args)


def columns_in_parallel() -> tuple[Args, Schedule]:
    """Each task runs the recurrence of some columns, a vector of them at a time."""
    args, s = plain()
    block, _ = s["S"].split("S.i1", factor=s.define_knob("columns", [4, 8]))
    s["S"].reorder(block, "S.idx")
    s["S"].parallel(block)
    for name in ("first", "step"):
        s[name].vectorize(s[name].split("i", factor=4)[1])
    return args, s


def threads_in_a_step() -> tuple[Args, Schedule]:
    args, s = plain()
    s["step"].parallel(s["step"].split("i", nparts=2)[0])
    return args, s


def kept_in_a_register() -> tuple[Args, Schedule]:
    """Computed at its consumer's loop, a scan needs memory for the places that are in use."""
    x, sums = running_sum()
    n, m = x.shape
    z = te.compute((m, n), lambda i, j: sums[j, i] * 2, name="Z")
    s = create_schedule(z)
    block, _ = s["Z"].split("i", factor=4)
    s["S"].compute_at(s["Z"], block)
    s.cache_read("X", "local", ["step"])
    s["X.local"].compute_at(s["S"], "S.idx")
    return [x, z], s


def through_caches() -> tuple[Args, Schedule]:
    args = two_states()
    s = create_schedule(args)
    s.cache_read("p", "local", ["mid"])
    s.cache_write("p1", "local")
    outer, _ = s["p1"].split("i", factor=3)
    s["p1.local"].compute_at(s["p1"], outer)
    s["mid"].compute_at(s["q1"], "i")
    s["mid"].compute_root()
    return args, s


def one_state_of_two() -> tuple[Args, Schedule]:
    x, _, q = two_states()
    s = create_schedule(q)
    s["mid"].compute_inline()
    return [x, q], s


def two_shapes() -> tuple[Args, Schedule]:
    args = of_two_shapes()
    s = create_schedule(args)
    s["total1"].unroll(s["total1"].split("k", factor=2)[1])
    return args, s


def reduced_in_parts() -> tuple[Args, Schedule]:
    args = of_two_shapes()
    s = create_schedule(args)
    s.rfactor("total1", s["total1"].split("k", factor=4)[1])
    return args, s


def an_unrolled_scan() -> tuple[Args, Schedule]:
    x = te.placeholder((5,), name="X")
    state = te.placeholder((5,), name="state")
    first = te.compute((1,), lambda t: x[t], name="first")
    sums = te.scan(first, te.compute((5,), lambda t: state[t - 1] + x[t], name="step"), state, name="S")
    s = create_schedule(sums)
    s["S"].unroll("S.idx")
    return [x, sums], s


def pairs_in_parallel() -> tuple[Args, Schedule]:
    """Inits and updates of two states at once, columns outside time."""
    args = states_at_once()
    s = create_schedule(args[1:])
    scan = s["PQ"]
    outer, inner = scan.split(scan.loops[1], factor=4)
    scan.reorder(outer, inner, "PQ.idx")
    scan.parallel(outer)
    return args, s


def pairs_reduced_in_parts() -> tuple[Args, Schedule]:
    args = behind_the_best()
    s = create_schedule(args[1])
    s.rfactor("best", s["best"].split("k", factor=4)[1], factor_axis=1)
    s.cache_write("best", "local")
    return args, s


MADE = (
    plain, columns_in_parallel, threads_in_a_step, kept_in_a_register, through_caches, one_state_of_two, two_shapes,
    reduced_in_parts, an_unrolled_scan, pairs_in_parallel, pairs_reduced_in_parts,
)  # fmt: skip


@pytest.mark.parametrize("make", MADE)
def test_loops(make: Callable[[], tuple[Args, Schedule]], golden: Callable[..., None]) -> None:
    args, s = make()
    golden(str(lower_structure(s, args, "llvm")), make.__name__)


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize("backend", ["interpreter", "interpreter-backwards", "native"])
def test_results(make: Callable[[], tuple[Args, Schedule]], backend: str) -> None:
    args, s = make()
    more = [given(args, n, m) for n, m in ((1, 1), (2, 9), (17, 5))]
    for knobs in [{"columns": 4}, {"columns": 8}] if s.knobs else [{}]:
        check_against_reference(args, s, "llvm", given(args), backend, knobs, more)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", MADE)
def test_traces(make: Callable[[], tuple[Args, Schedule]]) -> None:
    args, s = make()
    assert_roundtrip(s, args)


def test_no_times_at_all() -> None:
    args, s = plain()
    check_against_reference(args, s, "llvm", given(args, 0, 3), "interpreter")
    check_against_reference(args, s, "llvm", given(args, 0, 3))


# -- GPU-style targets ---------------------------------------------------------------------------------


def one_work_item_for_each_column() -> tuple[Args, Schedule]:
    """As TVM's scan tutorial binds them: init and update alike, time inside the kernel."""
    args, s = plain()
    for name in ("first", "step"):
        group, item = s[name].split("i", factor=4)
        s[name].bind(group, "blockIdx.x")
        s[name].bind(item, "threadIdx.x")
    return args, s


def columns_of_work_groups() -> tuple[Args, Schedule]:
    args, s = plain()
    group, item = s["S"].split("S.i1", factor=4)
    s["S"].reorder(group, item, "S.idx")
    s["S"].bind(group, "blockIdx.x")
    s["S"].bind(item, "threadIdx.x")
    return args, s


def in_shared_memory() -> tuple[Args, Schedule]:
    """A step looks aside, so all work-items of the group meet at a barrier after each."""
    x = te.placeholder((3, 5, 8), "int32", name="X")
    state = te.placeholder((5, 3, 8), "int32", name="state")
    first = te.compute((1, 3, 8), lambda _, b, i: x[b, 0, i], name="first")
    step = te.compute((5, 3, 8), lambda t, b, i: state[t - 1, b, 7 - i] + x[b, t, i], name="step")
    mixed = te.scan(first, step, state, name="S")
    z = te.compute((3, 5, 8), lambda b, t, i: mixed[t, b, i], name="Z")
    s = create_schedule(z)
    s["Z"].bind("b", "blockIdx.x")
    s["Z"].bind("i", "threadIdx.x")
    s["Z"].reorder("b", "t", "i")
    s["S"].compute_at(s["Z"], "b")
    for name in ("first", "step"):
        s[name].bind("i", "threadIdx.x")
    return [x, z], s


ON_DEVICES = (one_work_item_for_each_column, columns_of_work_groups, in_shared_memory)


@pytest.mark.parametrize("make", ON_DEVICES)
def test_kernels(make: Callable[[], tuple[Args, Schedule]], golden: Callable[..., None]) -> None:
    args, s = make()
    golden(str(lower_structure(s, args, "opencl")), make.__name__)
    check_against_reference(args, s, "opencl", given(args), "interpreter")
    check_against_reference(args, s, "opencl", given(args))


@pytest.mark.parametrize("program", [running_sum, two_states, states_at_once, behind_the_best, of_two_shapes])
@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_default_schedules(program: Callable[[], Args], target: str) -> None:
    args = program()
    s = default_schedule(args, Target.parse(target))
    check_against_reference(args, s, target, given(args), "interpreter")
    check_against_reference(args, s, target, given(args), more=[given(args, 3, 130)])


def gates_inlined(args: Args) -> Schedule:
    s = create_schedule(args)
    for name in ("gates", "in_gate", "in_transform", "forget_gate", "out_gate"):
        s[name].compute_inline()
    s["h2h"].reorder("k", "j")
    return s


@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_an_lstm_cell(target: str) -> None:
    """Compared with a tolerance, because exp and tanh are approximations."""
    args = lstm()
    s = gates_inlined(args) if target == "llvm" else default_schedule(args, Target.parse(target))
    draw = np.random.default_rng(5)
    x, w = draw.normal(size=(5, 3, 4, 4)).astype("float32"), draw.normal(size=(4, 4, 4)).astype("float32")
    h, c = np.empty((2, 5, 3, 4), np.float32)
    autosched.build(s, target, args=args)(x, w, h, c)
    for found, wanted in zip((h, c), te.reference(args, [x, w]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", ["interpreter", "native"])
def test_work_items_that_read_what_one_of_them_has_stored_meet_before(backend: str) -> None:
    """The update stores by one work-item, and the stage inside it is computed by all of them."""
    a = te.placeholder((6, 8), "int32", name="A")
    state = te.placeholder((6, 8), "int32", name="state")
    first = te.compute((1, 8), lambda _, i: a[0, i], name="first")
    turned = te.compute((6, 8), lambda t, i: state[t - 1, 7 - i] + a[t, i], name="turned")
    step = te.compute((6, 8), lambda t, i: turned[t, i] % 100, name="step")
    c = te.scan(first, step, state, name="C")
    s = create_schedule(c)
    s[turned].compute_at(s[step], s[step].op.axis[0])
    s[turned].set_scope("shared")
    s[turned].bind("i", "threadIdx.x")
    values = np.random.default_rng(0).integers(0, 50, (6, 8)).astype(np.int32)
    check_against_reference([a, c], s, "opencl", [values], backend)


def test_the_first_values_of_no_steps_are_not_computed_into_a_cache() -> None:
    n, m = te.var("n"), te.var("m")
    a, state = te.placeholder((n, m), "int32", name="A"), te.placeholder((n, m), "int32", name="state")
    first = te.compute((1, m), lambda t, j: a[0, j], name="first")
    step = te.compute((n, m), lambda t, j: state[t - 1, j] + a[t, j], name="step")
    total = te.scan(first, step, state, inputs=[a], name="total")
    s = create_schedule(total)
    s.cache_write(first, "local")
    given = [[np.arange(k * 3, dtype="int32").reshape(k, 3)] for k in (0, 1, 4)]
    check_against_reference([a, total], s, "llvm", given[0], "interpreter", more=given[1:])
