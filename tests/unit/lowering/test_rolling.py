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


def _planes(s: Schedule, args: list[Tensor], name: str = "S") -> object:
    body = lower_structure(s, args, "llvm").function.body
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
    assert _planes(s, [x, last]) == (4 if isinstance(n, int) else None)  # of 7 times the last reads 3 back
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
    assert _planes(s, [x, last]) == 3
    s["back" if inside else "last"].tensorize("k", _pair_sum())
    assert _planes(s, [x, last]) == TIMES
    check_against_reference([x, last], s, "llvm", [_numbers()])
