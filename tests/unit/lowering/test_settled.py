"""Loops over time that stop where no state changes any more; and those that may not."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.ir.expr import Expr
from autosched.ir.stmt import Allocate, walk
from autosched.lowering import lower_structure
from autosched.runtime.interpreter import interpret
from autosched.schedule import Schedule, create_schedule
from autosched.target import Target
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

TIMES, PLACES = 23, 16
Step = Callable[[Callable[[str], Expr], Expr, Expr, Tensor], Expr]


def _grows(read: Callable[[str], Expr], t: Expr, i: Expr, x: Tensor) -> Expr:
    return te.select(read("z") <= 100.0, read("z") * 2.0 + x[0, i], read("z"))


def _counts(read: Callable[[str], Expr], t: Expr, i: Expr, x: Tensor) -> Expr:
    return read("n") + (read("z") <= 100.0).astype("int32")


def _scan(grows: Step = _grows, counts: Step = _counts, times: object = TIMES) -> list[Tensor]:
    """x[times, places] -> how often states grew, and what they are in the end."""
    x = te.placeholder((times, PLACES), name="X")
    z = te.placeholder((times, PLACES), name="z")
    n = te.placeholder((times, PLACES), "int32", name="n")
    firsts = [
        te.compute((1, PLACES), lambda _, i: x[0, i] - 1.0, name="first"),
        te.compute((1, PLACES), lambda _, i: te.const(0, "int32"), name="none"),
    ]

    def step(of: Step, name: str) -> Tensor:
        def element(t: Expr, i: Expr) -> Expr:
            return of(lambda state: {"z": z, "n": n}[state][t - 1, i], t, i, x)

        return te.compute((times, PLACES), element, name=name)

    states, counted = te.scan(firsts, [step(grows, "grow"), step(counts, "count")], [z, n], name="S")
    return [
        x,
        te.compute((PLACES,), lambda i: counted[times - 1, i], name="often"),
        te.compute((PLACES,), lambda i: states[times - 1, i], name="last"),
    ]


def _scheduled(args: list[Tensor], lanes: int = 8) -> Schedule:
    """Blocks of places, each through all times, in vectors."""
    s = create_schedule(args)
    by = {x.name: x for x in s.stages}
    block, lane = by["S"].split(by["S"].loops[1], factor=lanes)
    by["S"].reorder(block, by["S"].scan_loop, lane)
    for name in ("first", "none", "grow", "count"):
        by[name].vectorize(by[name].loops[-1])
    return s


def _stops(s: Schedule, args: list[Tensor], target: str | Target = "llvm") -> bool:
    body = lower_structure(s, args, target).bind().body
    return any(isinstance(x, Allocate) and x.buffer.name.endswith(".going") for x in walk(body))


def _numbers(times: int = TIMES) -> np.ndarray:
    """Places that leave at once, late and never, and one that is NaN."""
    x = np.random.default_rng(5).normal(size=(times, PLACES)).astype("float32")
    x[0, :4] = 500.0, 0.25, 0.0, np.nan
    return x


def _twice(read: Callable[[str], Expr], t: Expr, i: Expr, x: Tensor) -> Expr:
    """Which stays for either of two reasons, of which one is known before."""
    kept = te.select(read("z") <= 100.0, read("z") * 2.0 + x[t, i], read("z"))
    return te.select(x[0, i] > 400.0, read("z"), kept)


def _halves(read: Callable[[str], Expr], t: Expr, i: Expr, x: Tensor) -> Expr:
    return te.select(read("z") <= 1.0, read("z"), read("z") * 0.5)


def _by_choice(read: Callable[[str], Expr], t: Expr, i: Expr, x: Tensor) -> Expr:
    return read("n") - te.select(te.all(read("z") <= 100.0, read("n") > -9), te.const(3, "int32"), 0)


@pytest.mark.parametrize(
    ("grows", "counts"),
    [(_grows, _counts), (_twice, _by_choice), (_halves, _counts), (_grows, lambda read, t, i, x: read("n"))],
)
@pytest.mark.parametrize("times", [TIMES, 9, te.var("times")], ids=str)
def test_states_that_stay(grows: Step, counts: Step, times: object) -> None:
    args = _scan(grows, counts, times)
    s = _scheduled(args)
    assert _stops(s, args)
    inputs = [[_numbers(n)] for n in ((TIMES, 2, 9) if isinstance(times, Expr) else (times,))]
    check_against_reference(args, s, "llvm", inputs[0], more=inputs[1:], exact=False)


def test_later_steps_do_nothing() -> None:
    """Where all places of a vector have left, nothing is stored any more."""
    args = _scan()
    function = lower_structure(_scheduled(args), args, "llvm").bind()

    def stores(x: np.ndarray) -> int:
        found = []
        outputs = [np.empty(PLACES, t.dtype.numpy) for t in args[1:]]
        interpret(function, [x, *outputs], watch=lambda *what: found.append(what))
        return len(found)

    x = np.full((TIMES, PLACES), 500.0, "float32")
    all_leave = stores(x)
    x[0, 0] = 0.0  # this one never leaves
    assert all_leave < stores(x) / 1.5


@pytest.mark.parametrize(
    "grows",
    [
        lambda read, t, i, x: te.select(x[t, i] > 0.0, read("z") + 1.0, read("z")),  # asks what comes with the time
        lambda read, t, i, x: te.select(t % 5 > 0, read("z") + 1.0, read("z")),  # asks the time
        lambda read, t, i, x: read("z") * 0.5 + x[t, i],  # always changes
        lambda read, t, i, x: read("z") + (read("z") <= 9.0).astype("float32"),  # -0.0 + 0.0 is another zero
    ],
)
def test_states_that_may_change_again(grows: Step) -> None:
    args = _scan(grows)
    s = _scheduled(args)
    assert not _stops(s, args)
    check_against_reference(args, s, "llvm", [_numbers()], "interpreter")


def _drawn(seed: int, times: int) -> list[Tensor]:
    """Two to three states of integers, each of which is kept, or changed, by some choices between random values."""
    draw = random.Random(seed)
    x = te.placeholder((times, PLACES), "int32", name="X")
    names = ["a", "b", "c"][: draw.randint(2, 3)]
    states = [te.placeholder((times, PLACES), "int32", name=name) for name in names]
    may_ask_time = draw.random() < 0.3

    def value(own: Tensor, t: Expr, i: Expr, depth: int) -> Expr:
        kind = draw.random()
        if depth == 0 or kind < 0.2:
            return own[t - 1, i]
        if kind < 0.6:
            of = draw.choice(states)[t - 1, i]
            asked = [of < draw.randint(-4, 9), te.all(of > -3, x[0, i] > 0), x[t if may_ask_time else 0, i] > 1]
            sides = [value(own, t, i, depth - 1), value(own, t, i, depth - 1)]
            return te.select(draw.choice(asked), *sides)
        if kind < 0.8:
            return own[t - 1, i] + (draw.choice(states)[t - 1, i] < draw.randint(0, 9)).astype("int32")
        return te.max(te.min(draw.choice(states)[t - 1, i] + x[t, i], 20), -20)

    steps = []
    for state in states:
        depth = draw.randint(1, 3)
        step = te.compute((times, PLACES), lambda t, i, s=state, d=depth: value(s, t, i, d), name=f"{state.name}_next")
        steps.append(step)
    firsts = [te.compute((1, PLACES), lambda _, i, k=k: x[k, i], name=f"first{k}") for k in range(len(names))]
    made = te.scan(firsts, steps, states, name="S")
    return [x, *(te.compute((PLACES,), lambda i, m=m: m[times - 1, i], name=f"last{k}") for k, m in enumerate(made))]


def _run_drawn(seed: int, backend: str) -> bool:
    """Whether some loop stops; raises AssertionError where results differ."""
    args = _drawn(seed, times=8 + seed % 7)
    s = create_schedule(args)
    by = {x.name: x for x in s.stages}
    lanes = (1, 4, 16)[seed % 3]
    block, lane = by["S"].split(by["S"].loops[1], factor=lanes)
    by["S"].reorder(block, by["S"].scan_loop, lane)
    for name, stage in by.items():
        if lanes > 1 and (name.startswith("first") or name.endswith("_next")):
            stage.vectorize(stage.loops[-1])
    x = np.random.default_rng(seed).integers(-4, 5, (8 + seed % 7, PLACES)).astype("int32")
    check_against_reference(args, s, "llvm", [x], backend)
    return _stops(s, args)


def test_random_states() -> None:
    stopped = [_run_drawn(seed, "native") for seed in range(7)]
    assert True in stopped


@pytest.mark.parametrize("target", ["llvm", "opencl", "cuda", "c"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_every_target_asks_what_it_can_ask(target: str, lanes: int) -> None:
    """Of whole vectors, only CPUs ask all lanes together."""
    args = _scan()
    to = Target.parse(target).with_limits(is_cpu=target in ("llvm", "opencl", "c"))
    stops = lanes == 1 or target != "cuda"
    assert _stops(_scheduled(args, lanes), args, to) == stops
    if target != "cuda":
        check_against_reference(args, _scheduled(args, lanes), to, [_numbers()])
