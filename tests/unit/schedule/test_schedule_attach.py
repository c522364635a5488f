"""Where stages are computed: calls come in any order, and what they leave open is checked in the end."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.errors import ScheduleError
from autosched.ir.stmt import Allocate, Store, walk
from autosched.ir.visit import post_order
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor


def chain() -> list[Tensor]:
    """A -> B -> C -> D, each a sum over pairs of rows."""
    n = te.var("n")
    tensors = [te.placeholder((n + 3, 16), name="A")]

    def pairs(before: Tensor, rows: object, name: str) -> Tensor:
        return te.compute((rows, 16), lambda i, j: before[i, j] + before[i + 1, j], name=name)

    for k, name in enumerate("BCD"):
        tensors.append(pairs(tensors[-1], n + 2 - k, name))
    return [tensors[0], tensors[3]]


def split_d(s: Schedule) -> None:
    s["D"].split("i", factor=4)


def split_c(s: Schedule) -> None:
    s["C"].split("j", factor=8)


def c_at_d(s: Schedule) -> None:
    s["C"].compute_at(s["D"], "i.outer")


def b_at_c(s: Schedule) -> None:
    s["B"].compute_at(s["C"], "i")


def b_at_d(s: Schedule) -> None:
    s["B"].compute_at(s["D"], "i.outer")


def text_after(calls: tuple[Callable[[Schedule], None], ...]) -> str:
    args = chain()
    s = create_schedule(args)
    for call in calls:
        call(s)
    assert_roundtrip(s, args)
    return str(lower_structure(s, args, "llvm"))


@pytest.mark.parametrize("steps", [(split_d, split_c, c_at_d, b_at_c), (split_d, split_c, c_at_d, b_at_d)])
def test_the_order_of_calls_makes_no_difference(steps: tuple[Callable[[Schedule], None], ...]) -> None:
    """Consumers or producers first, attached before or after splitting: one program."""
    orders = [p for p in permutations(steps) if p.index(split_d) < min(p.index(f) for f in p if f in (c_at_d, b_at_d))]
    assert len(orders) >= 8
    assert len({text_after(p) for p in orders}) == 1


def test_the_last_attachment_counts() -> None:
    assert text_after((split_d, b_at_c, c_at_d, b_at_d)) == text_after((split_d, c_at_d, b_at_d))
    assert text_after((split_d, b_at_d, lambda s: s["B"].compute_root() and None)) == text_after((split_d,))


def test_a_stage_put_inside_its_reader_after_the_fact() -> None:
    """B is read by C, at the root so far: what the first call leaves open the second one repairs."""
    args = chain()
    s = create_schedule(args)
    split_d(s)
    b_at_d(s)
    with pytest.raises(ScheduleError, match="not computed inside"):
        s.verify()
    c_at_d(s)
    s.verify()


def problem(calls: Callable[[Schedule], None]) -> ScheduleError:
    args = chain()
    s = create_schedule(args)
    calls(s)
    with pytest.raises(ScheduleError) as checked:
        s.verify()
    with pytest.raises(ScheduleError) as lowered:
        lower_structure(s, args, "llvm")
    assert str(lowered.value) == str(checked.value)
    assert checked.value.asked
    assert checked.value.legal
    return checked.value


def test_a_loop_that_was_split_away() -> None:
    def calls(s: Schedule) -> None:
        s["C"].compute_at(s["D"], "i")
        s["D"].split("i", factor=4)

    error = problem(calls)
    assert error.asked.startswith("C.compute_at(D, i)  at ")
    assert error.why == "D.i was split or fused away after C was put there"
    assert error.legal == "loops of D: i.outer / i.inner / j"


def test_a_consumer_that_was_inlined() -> None:
    def calls(s: Schedule) -> None:
        s["B"].compute_at(s["C"], "i")
        s["C"].compute_inline()

    error = problem(calls)
    assert error.asked.startswith("B.compute_at(C, i)  at ")
    assert error.why == "C is inlined: it has no loops"


def test_a_loop_that_came_inside_a_vectorized_one() -> None:
    def calls(s: Schedule) -> None:
        s["D"].split("j", factor=4)
        s["D"].vectorize("j.inner")
        s["C"].compute_at(s["D"], "j.outer")
        s["D"].reorder("j.inner", "j.outer")

    error = problem(calls)
    assert error.why == "D.j.inner is vectorized; a producer cannot be computed inside a vector lane"
    assert error.legal == "loops of D: i / j.inner (vectorize) / j.outer"


def test_another_reader_outside_the_loop() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    c = te.compute((n,), lambda i: b[i] + 1, name="C")
    d = te.compute((n,), lambda i: b[i] + c[i], name="D")
    s = create_schedule(d)
    s[b].compute_at(s[d], "i")
    with pytest.raises(ScheduleError) as raised:
        s.verify()
    assert raised.value.why == "C also uses B, and is not computed inside D.i"
    s[c].compute_inline()
    s.verify()  # C's use of B is D's now
    assert_roundtrip(s, [a, d])


def test_a_reader_at_a_loop_further_out() -> None:
    """C is computed before the loop over j starts, B inside it: C would read what is not there yet."""

    def calls(s: Schedule) -> None:
        s["B"].compute_at(s["D"], "j")
        s["C"].compute_at(s["D"], "i")

    error = problem(calls)
    assert error.why == "C also uses B, and is not computed inside D.j"
    args = chain()
    s = create_schedule(args)
    s["B"].compute_at(s["D"], "i")
    s["C"].compute_at(s["D"], "j")  # the other way round is fine
    s.verify()


def test_readers_side_by_side_under_one_loop() -> None:
    """Two readers inside the same loop: the producer belongs where both can see it."""
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    c = te.compute((n,), lambda i: b[i] + 1, name="C")
    d = te.compute((n,), lambda i: b[i] - 1, name="D")
    e = te.compute((n,), lambda i: c[i] * d[i], name="E")
    s = create_schedule(e)
    for x in (b, c, d):
        s[x].compute_at(s[e], "i")
    s.verify()
    assert_roundtrip(s, [a, e])
    s[b].compute_at(s[c], "i")
    with pytest.raises(ScheduleError, match="D also uses B"):
        s.verify()


@pytest.mark.parametrize("first", [True, False])
def test_a_loop_fused_with_one_of_a_single_iteration_is_that_loop(first: bool) -> None:
    """What is computed at a block of it needs that block, however long a knob makes it, and not all of the row."""
    shape = (1, 96) if first else (96, 1)
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda i, j: a[i, j] + 1, name="B")
    c = te.compute(shape, lambda i, j: b[i, j] * 2, name="C")
    s = create_schedule([a, c])
    block, _ = s["C"].split(s["C"].fuse("i", "j"), factor=s.define_knob("length", [8, 20]))
    s["B"].compute_at(s["C"], block)
    structure = lower_structure(s, [a, c], "llvm")
    for length in (8, 20):
        made = [x.buffer for x in walk(structure.after("simplify", {"length": length}).body) if isinstance(x, Allocate)]
        assert [str(b.elements) for b in made] == [str(length)]
    assert not any(e.op in ("floordiv", "floormod") for x in walk(structure.function.body) if isinstance(x, Store)
                   for i in x.indices for e in post_order(i))  # fmt: skip
