"""The times of a scan that are stored: a window, where only the last ones are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.ir.builder import create
from autosched.ir.expr import Expr, is_const
from autosched.ir.stmt import Allocate, walk
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

Reader = Callable[[Tensor, int], Tensor]
TIMES, PLACES = 7, 5


def _smoothed(read: Reader, back: tuple[int, ...] = (1,), init: int = 1, times: object = TIMES) -> list[Tensor]:
    """x[times, places] -> what `read` makes of states that add up neighbours, `back` steps ago each."""
    x = te.placeholder((times, PLACES), "int32", name="X")
    state = te.placeholder((times, PLACES), "int32", name="state")
    first = te.compute((init, PLACES), lambda t, i: x[t, i], name="first")

    def move(t: Expr, i: Expr) -> Expr:
        return sum((state[t - n, te.max(i - 1, 0)] for n in back), x[t, i])

    made = te.scan(first, te.compute((times, PLACES), move, name="step"), state, name="S")
    return [x, read(made, TIMES if isinstance(times, int) else times)]


def _numbers() -> np.ndarray:
    return np.random.default_rng(3).integers(-3, 4, (TIMES, PLACES)).astype("int32")


def _planes(s: Schedule, args: list[Tensor], name: str = "S", target: str = "llvm") -> object:
    body = lower_structure(s, args, target).function.body
    (found,) = [a.buffer for a in walk(body) if isinstance(a, Allocate) and a.buffer.name == name]
    return found.shape[0].value if is_const(found.shape[0]) else None


def _last(made: Tensor, n: int) -> Tensor:
    return te.compute((PLACES,), lambda i: made[n - 1, i] * 2, name="last")


def _last_two(made: Tensor, n: int) -> Tensor:
    return te.compute((2, PLACES), lambda k, i: made[n - 2 + k, i], name="last")


def _one_before(made: Tensor, n: int) -> Tensor:
    return te.compute((PLACES,), lambda i: made[n - 3, i] + made[n - 1, i], name="last")


def _all_of_them(made: Tensor, n: int) -> Tensor:
    k = te.reduce_axis((0, n), "k")
    return te.compute((PLACES,), lambda i: te.sum(made[k, i], axis=k), name="last")


def _by_way_of_another(made: Tensor, n: int) -> Tensor:
    moved = te.compute((n, PLACES), lambda t, i: made[t, i] + 1, name="moved")
    return te.compute((PLACES,), lambda i: moved[n - 1, i] - moved[0, i], name="last")


CASES = [
    (_last, (1,), 1, 2),
    (_last, (1, 3), 3, 4),
    (_last, (1,), 4, 4),
    (_last, (8,), 7, TIMES),
    (_last_two, (1,), 1, 2),
    (_last_two, (2, 1), 2, 3),
    (_one_before, (1,), 1, TIMES),
    (_one_before, (2,), 2, 3),
    (_all_of_them, (1,), 1, TIMES),
]


@pytest.mark.parametrize(("read", "back", "init", "planes"), CASES)
def test_planes(read: Reader, back: tuple[int, ...], init: int, planes: int) -> None:
    args = _smoothed(read, back, init)
    s = create_schedule(args[1])
    assert _planes(s, args) == planes
    for backend in ("interpreter", "native"):
        check_against_reference(args, s, "llvm", [_numbers()], backend)


def test_what_is_inlined_reads_for_its_readers() -> None:
    args = _smoothed(_by_way_of_another)
    s = create_schedule(args[1])
    assert _planes(s, args) == TIMES  # `moved` reads every time
    s["moved"].compute_inline()
    assert _planes(s, args) == TIMES  # the first time is still wanted
    args[1] = te.compute((PLACES,), lambda i: args[1].op.input_tensors[0][TIMES - 1, i], name="late")
    s = create_schedule(args[1])
    s["moved"].compute_inline()
    assert _planes(s, args) == 2


def test_times_of_unknown_number() -> None:
    n = te.var("n")
    args = _smoothed(_last, times=n)
    s = create_schedule(args[1])
    assert _planes(s, args) == 2
    given, *more = [[np.arange(k * PLACES, dtype="int32").reshape(k, PLACES) % 7] for k in (4, 1, 2, 9)]
    for backend in ("interpreter", "native"):
        check_against_reference(args, s, "llvm", given, backend, {}, more)


def test_each_state_has_its_own_window() -> None:
    """p goes one step back and is read at its end; q goes two steps back, and all of it is read."""
    x = te.placeholder((TIMES, PLACES), "int32", name="X")
    p, q = (te.placeholder((TIMES, PLACES), "int32", name=name) for name in "pq")
    inits = [te.compute((2, PLACES), lambda t, i: x[t, i], name=f"first_{name}") for name in "pq"]
    updates = [
        te.compute((TIMES, PLACES), lambda t, i: q[t - 2, i] - p[t - 1, i], name="new_p"),
        te.compute((TIMES, PLACES), lambda t, i: p[t - 1, PLACES - 1 - i] + q[t - 1, i], name="new_q"),
    ]
    all_p, all_q = te.scan(inits, updates, [p, q], name="S")
    last = te.compute((PLACES,), lambda i: all_p[TIMES - 1, i] + 1, name="last")
    total = _all_of_them(all_q, TIMES)
    s = create_schedule([last, total])
    args = [x, last, total]
    assert (_planes(s, args, "S.v0"), _planes(s, args, "S.v1")) == (2, TIMES)
    check_against_reference(args, s, "llvm", [np.arange(TIMES * PLACES, dtype="int32").reshape(TIMES, PLACES) % 5])


def test_what_the_caller_gets_is_whole() -> None:
    x, last = _smoothed(_last)
    s = create_schedule(last)
    made = last.op.input_tensors[0]
    params = lower_structure(s, [x, last, made], "llvm").function.params
    assert params[2].shape[0].value == TIMES
    check_against_reference([x, last, made], s, "llvm", [np.ones((TIMES, PLACES), "int32")])


@pytest.mark.parametrize("n", [TIMES, te.var("n")])
def test_a_step_that_looks_back_further_and_further(n: object) -> None:
    x, state = te.placeholder((n,), "int32", name="X"), te.placeholder((n,), "int32", name="state")
    first = te.compute((1,), lambda t: x[t], name="first")
    made = te.scan(first, te.compute((n,), lambda t: state[te.floordiv(t, 2)] + x[t], name="step"), state, name="S")
    last = te.compute((1,), lambda i: made[n - 1 + i], name="last")
    s = create_schedule(last)
    assert _planes(s, [x, last]) == (3 if isinstance(n, int) else None)  # of 7 times the last reads 3 back
    more = [] if isinstance(n, int) else [[np.arange(40, dtype="int32")]]
    check_against_reference([x, last], s, "llvm", [np.asarray([3, 0, 0, 2, 1, 0, 2], "int32")], "native", {}, more)


def test_an_output_is_whole_for_whoever_else_reads_it() -> None:
    x, last = _smoothed(_last)
    made = last.op.input_tensors[0]
    check_against_reference([x, made, last], create_schedule([made, last]), "llvm", [_numbers()])


def test_code_from_outside_gets_all_times() -> None:
    def copy(made: Tensor, n: int) -> Tensor:
        def body(ins: list[Any], outs: list[Any]) -> object:
            ib = create()
            with ib.for_range(0, PLACES) as i:
                ib.emit(outs[0].vstore([i], ins[0].vload([0, i])))
            return ib.get()

        return te.extern((PLACES,), [made], body, name="copy", dtype="int32")

    args = _smoothed(copy)
    s = create_schedule(args[1])
    assert _planes(s, args) == TIMES


def _pair_sum() -> Any:
    """An intrinsic that adds two rows at a fixed distance."""
    a, k = te.placeholder((2,), "int32", name="a"), te.reduce_axis((0, 2), "k")
    b = te.compute((1,), lambda _: te.sum(a[k], axis=k), name="b")

    def body(ins: list[Any], outs: list[Any]) -> object:
        ib = create()
        ib.emit(outs[0].vstore([0], ins[0].vload([0]) + ins[0].vload([1])))
        return ib.get()

    rows = te.decl_buffer(a.shape, a.dtype, name="rows", strides=[te.var("step")], offset_factor=1)
    return te.decl_tensor_intrin(b.op, body, name="tests.pair", binds={a: rows})


@pytest.mark.usefixtures("own_registries")
@pytest.mark.parametrize("inside", [False, True])
def test_an_intrinsic_does_not_step_over_the_end_of_the_window(inside: bool) -> None:
    x, state = (te.placeholder((TIMES, PLACES), "int32", name=name) for name in ("X", "state"))
    first = te.compute((2, PLACES), lambda t, i: x[t, i], name="first")
    k = te.reduce_axis((0, 2), "k")
    back = te.compute((TIMES, PLACES), lambda t, i: te.sum(state[t - 2 + k, i], axis=k), name="back")
    made = te.scan(first, te.compute((TIMES, PLACES), lambda t, i: back[t, i] + x[t, i], name="step"), state, name="S")
    last = te.compute((PLACES,), lambda i: te.sum(made[TIMES - 2 + k, i], axis=k), name="last")
    s = create_schedule(last)
    assert _planes(s, [x, last]) == 2
    s["back" if inside else "last"].tensorize("k", _pair_sum())
    assert _planes(s, [x, last]) == TIMES
    check_against_reference([x, last], s, "llvm", [_numbers()])


def _pair(turned: bool = False) -> list[Tensor]:
    """p and q, of which each is made of the other and of itself one step before; p's update comes first, unless
    `turned`, and reads neighbours of q. A stage of the step adds the two."""
    x = te.placeholder((TIMES, PLACES), "int32", name="X")
    p, q = (te.placeholder((TIMES, PLACES), "int32", name=name) for name in "pq")
    inits = [te.compute((1, PLACES), lambda t, i: x[t, i], name=f"first_{name}") for name in "pq"]
    both = te.compute((TIMES, PLACES), lambda t, i: p[t - 1, i] + q[t - 1, te.max(i - 1, 0)], name="both")
    new_p = te.compute((TIMES, PLACES), lambda t, i: both[t, i] - 2 * p[t - 1, i], name="new_p")
    new_q = te.compute((TIMES, PLACES), lambda t, i: q[t - 1, i] + (x[t, i] if turned else new_p[t, i]), name="new_q")
    all_p, all_q = te.scan(inits, [new_p, new_q], [p, q], name="S")
    return [x, te.compute((PLACES,), lambda i: all_p[TIMES - 1, i] - all_q[TIMES - 1, i], name="last")]


def _nothing(s: Schedule) -> None:
    pass


def _both_for_a_place(s: Schedule) -> None:
    s["both"].compute_at(s["new_p"], s["new_p"].loops[1])


def _twice(s: Schedule) -> None:
    s["new_q"].split("i", factor=3, tail="shift_inwards")


IN_PLACE: list[tuple[Callable[[Schedule], object], bool, tuple[int, int]]] = [
    (_nothing, False, (1, 1)),
    (lambda s: s["new_q"].parallel("i"), False, (1, 1)),
    (lambda s: s["new_q"].vectorize(s["new_q"].split("i", factor=4)[1]), False, (1, 1)),
    (lambda s: s["both"].compute_inline(), False, (1, 1)),  # then new_p reads q's neighbours, before new_q begins
    (_both_for_a_place, False, (2, 1)),  # each place of `both` is computed after its left one is stored
    (_twice, False, (1, 2)),  # elements of the last tile are computed twice
    (_nothing, True, (1, 1)),
]


@pytest.mark.parametrize(("change", "turned", "planes"), IN_PLACE)
def test_a_step_in_place_of_the_one_before(
    change: Callable[[Schedule], object], turned: bool, planes: tuple[int, int]
) -> None:
    args = _pair(turned)
    s = create_schedule(args[1])
    change(s)
    assert (_planes(s, args, "S.v0"), _planes(s, args, "S.v1")) == planes
    for backend in ("interpreter", "native"):
        check_against_reference(args, s, "llvm", [_numbers()], backend)


@pytest.mark.parametrize("as_tuple", [False, True])
def test_of_states_that_swap_the_last_is_in_place(as_tuple: bool) -> None:
    x = te.placeholder((TIMES, PLACES), "int32", name="X")
    states = [te.placeholder((TIMES, PLACES), "int32", name=name) for name in "pq"]
    p, q = states

    def swapped(t: Expr, i: Expr) -> tuple[Expr, Expr]:
        return q[t - 1, i] + x[t, i], p[t - 1, i] * 2

    inits = [te.compute((1, PLACES), lambda t, i, k=k: x[t, i] + k, name=f"first{k}") for k in (0, 1)]
    updates = [te.compute((TIMES, PLACES), lambda t, i, k=k: swapped(t, i)[k], name=f"new{k}") for k in (0, 1)]
    if as_tuple:
        updates = list(te.compute((TIMES, PLACES), swapped, name="new"))
    made = te.scan(inits, updates, states, name="S")
    last = te.compute((PLACES,), lambda i: made[0][TIMES - 1, i] - made[1][TIMES - 1, i], name="last")
    s = create_schedule(last)
    assert (_planes(s, [x, last], "S.v0"), _planes(s, [x, last], "S.v1")) == ((2, 2) if as_tuple else (2, 1))
    check_against_reference([x, last], s, "llvm", [_numbers()])


def test_a_sum_or_work_items_store_beside_the_time_before() -> None:
    """The sum has begun when it reads the time before; a work-item does not wait for those that still read."""
    x, state = (te.placeholder((TIMES, PLACES), "int32", name=name) for name in ("X", "state"))
    first, k = te.compute((1, PLACES), lambda t, i: x[t, i], name="first"), te.reduce_axis((1, 3), "k")
    for step in (
        te.compute((TIMES, PLACES), lambda t, i: te.sum(state[t - 1, i] * k, axis=k), name="step"),
        te.compute((TIMES, PLACES), lambda t, i: state[t - 1, i] * 3, name="step"),
    ):
        last = _last(te.scan(first, step, state, name="S"), TIMES)
        s = create_schedule(last)
        if not step.op.reduce_axis:
            assert _planes(s, [x, last]) == 1
            for name in ("first", "step"):
                s[name].bind("i", "threadIdx.x")
            s[last].bind("i", "threadIdx.x")
        assert _planes(s, [x, last], target="llvm" if step.op.reduce_axis else "opencl") == 2
        check_against_reference([x, last], s, "llvm" if step.op.reduce_axis else "opencl", [_numbers()])
