"""Reads outside of tensors: refused where they certainly happen, listed where nothing rules them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import build, create_schedule, lower, te
from autosched.errors import BoundsError, BuildError, LowerError
from autosched.schedule import Schedule
from autosched.te.tensor import Tensor


def lowered(out: Tensor, prepare: Callable[[Schedule], Any] = lambda s: None, target: str = "llvm") -> Schedule:
    s = create_schedule(out)
    prepare(s)
    lower(s, s.arguments, target=target)
    return s


def doubts(s: Schedule) -> list[str]:
    return [f"{x.where}: {x.why}" for x in s.check() if x.kind == "bounds"]


N = te.var("n")
A8, AN = te.placeholder((8,), name="A"), te.placeholder((N,), name="A")
IDX = te.placeholder((8,), "int32", name="idx")
K9 = te.reduce_axis((0, 9), "k")

WRONG: dict[str, tuple[Callable[[], Tensor], str]] = {
    "past the end": (lambda: te.compute((8,), lambda i: A8[i] + A8[i + 1], name="B"), "index 8 .* outside 0..7"),
    "far before": (lambda: te.compute((8,), lambda i: A8[i - 10**8], name="B"), "index -100000000 .* outside 0..7"),
    "guard too wide": (
        lambda: te.compute((8,), lambda i: te.if_then_else(i < 8, A8[i + 1], 0.0), name="B"),
        "index 8 of dimension 0",
    ),
    "all sizes": (
        lambda: te.compute((N,), lambda i: AN[i + 1], name="B"),
        "index n of dimension 0 is outside 0..n - 1",
    ),
    "one row more": (lambda: te.compute((N + 1,), lambda i: AN[i], name="B"), "index n of dimension 0"),
    "reduction": (lambda: te.compute((1,), lambda i: te.sum(A8[K9], axis=K9), name="B"), "index 8 of dimension 0"),
    "in an index": (lambda: te.compute((9,), lambda i: A8[te.min(te.max(IDX[i], 0), 7)], name="B"), "read of idx in B"),
    "second dimension": (
        lambda: te.compute((N, 8), lambda i, j: te.placeholder((N, 8), name="M")[i, j * 2], name="B"),
        "read of M in B.*index 14 of dimension 1",
    ),
    "a large domain": (
        lambda: te.compute((999, 999), lambda i, j: te.placeholder((998001,), name="M")[i * 999 + j + 1], name="B"),
        "index 998001 of dimension 0",
    ),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("target", ["llvm", "c", "opencl"])
def test_a_read_that_certainly_leaves_its_tensor_is_refused(case: str, target: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(BoundsError, match=f"(?s){message}") as caught:
        lowered(make(), target=target)
    assert "if_then_else" in caught.value.legal and "test_reads.py" in caught.value.asked


def test_it_is_refused_by_build_with_what_the_reference_says() -> None:
    b = te.compute((8,), lambda i: A8[i] + A8[i + 1], name="B")
    with pytest.raises(BoundsError) as built:
        build(create_schedule(b), "llvm", args=[A8, b])
    with pytest.raises(BoundsError) as referred:
        te.reference([A8, b], [np.zeros(8, "float32")])
    assert built.value.why == referred.value.why == "index 8 of dimension 0 is outside 0..7"
    assert all(isinstance(built.value, kind) for kind in (BuildError, LowerError, IndexError))


RIGHT: dict[str, Callable[[], Tensor]] = {
    "if_then_else": lambda: te.compute((8,), lambda i: te.if_then_else(i < 7, A8[i + 1], 0.0), name="B"),
    "select": lambda: te.compute((8,), lambda i: te.select(i < 7, A8[i + 1], 0.0), name="B"),
    "and": lambda: te.compute((8,), lambda i: te.all(i < 7, A8[i + 1] > 0), name="B"),
    "where": lambda: te.compute((1,), lambda i: te.sum(A8[K9], axis=K9, where=K9 < 8), name="B"),
    "empty": lambda: te.compute((0,), lambda i: A8[i + 9], name="B"),
    "empty sum": lambda: _sum_of_nothing(),
    "init of a sum": lambda: te.compute((8,), lambda i: te.sum(A8[K9 % 8], axis=K9), name="B"),
    "gather": lambda: te.compute((8,), lambda i: A8[IDX[i]], name="B"),
    "other sizes": lambda: te.compute((8,), lambda i: AN[i], name="B"),
    "narrow arithmetic": lambda: te.compute((8,), lambda i: A8[(i.astype("uint8") + 250) // 32], name="B"),
    "condition on data": lambda: te.compute((8,), lambda i: te.if_then_else(IDX[i] > 0, A8[i + 1], 0.0), name="B"),
    "one point of many": lambda: te.compute(
        (64, 64), lambda i, j: te.placeholder((10,), name="M")[te.max(i + j - 117, 0)], name="B"
    ),
    "digits": lambda: te.compute(
        (64,), lambda f: te.placeholder((4, 16), name="M")[te.floordiv(f, 16), te.floormod(f, 16)], name="B"
    ),
    "triangle": lambda: te.compute((8,), lambda i: te.if_then_else(i > 0, A8[i - 1], A8[i]), name="B"),
    "scatter": lambda: te.scatter_reduce((4,), lambda: (IDX[K9 % 8], A8[K9 % 8]), axis=K9, name="B"),
}


def _sum_of_nothing() -> Tensor:
    k = te.reduce_axis((0, 0), "k")
    return te.compute((8,), lambda i: te.sum(A8[i + k + 8], axis=k), name="B")


@pytest.mark.parametrize("case", RIGHT)
def test_what_may_be_right_is_not_refused(case: str) -> None:
    lowered(RIGHT[case]())


@pytest.mark.parametrize("view", [te.repeat_edge, te.mirror_image, te.mirror_interior, te.repeat_image,
                                  te.constant_exterior])  # fmt: skip
@pytest.mark.parametrize("size", [1, 2, 5, N])
def test_boundary_conditions_are_inside(view: Callable[[Tensor], Any], size: Any) -> None:
    a = te.placeholder((size,), name="A")
    edge = view(a)
    assert doubts(lowered(te.compute((size + 4,), lambda i: edge[i - 2] + edge[i + 9], name="B"))) == []


def test_what_is_not_computed_is_not_read() -> None:
    b = te.compute((8,), lambda i: A8[i + 1], name="B")
    c = te.compute((7,), lambda i: b[i], name="C")
    assert doubts(lowered(c, lambda s: s[b].compute_inline())) == []
    assert doubts(lowered(c, lambda s: s[b].compute_at(s[c], s[c].op.axis[0]))) == []
    with pytest.raises(BoundsError, match="read of A in B"):
        lowered(c)  # all of B is computed
    whole = te.compute((8,), lambda i: b[i], name="C")
    for prepare in (lambda s: s[b].compute_inline(), lambda s: s[b].compute_at(s[whole], s[whole].op.axis[0])):
        with pytest.raises(BoundsError, match="read of A in B"):
            lowered(whole, prepare)


def test_tails_and_masks_are_no_reads_of_the_program() -> None:
    a, n = te.placeholder((13,), name="A"), 13
    for tail in ("guard", "shift_inwards", "predicate"):
        b = te.compute((n,), lambda i: a[i] * 2, name="B")
        s = create_schedule(b)
        _, inner = s[b].split("i", factor=4, tail=tail)
        s[b].vectorize(inner)
        assert doubts(s) == []


def test_steps_of_a_scan_read_from_their_begin_on() -> None:
    t, w = 6, 3
    x, state = te.placeholder((t, w), name="X"), te.placeholder((t, w), name="state")
    init = te.compute((2, w), lambda i, j: x[i, j], name="init")
    step = te.compute((t, w), lambda i, j: state[i - 2, j] + x[i, j], name="step")
    assert doubts(lowered(te.scan(init, step, state, inputs=[x], name="sums"))) == []
    total = te.scan(init, step, state, inputs=[x], name="sums")
    last = te.compute((t, w), lambda i, j: total[i, j] * 2, name="last")
    inner = lambda s: s[total].compute_at(s[last], s[last].split("j", factor=2)[0])  # noqa: E731
    assert doubts(lowered(last, lambda s: (s[last].reorder("j", "i"), inner(s)))) == []
    early = te.compute((t, w), lambda i, j: state[i - 3, j] + x[i, j], name="step")
    with pytest.raises(BoundsError, match="index -1 of dimension 0"):
        lowered(te.scan(te.compute((2, w), lambda i, j: x[i, j], name="init"), early, state, inputs=[x], name="sums"))


def test_check_lists_what_nothing_rules_out() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    gathered = te.compute((8,), lambda i: a[IDX[i]], name="B")
    assert doubts(create_schedule(gathered)) == [
        "B, which reads A: nothing shows that the index idx[i] of dimension 0 is in 0..n - 1"
    ]
    table = te.placeholder((256,), name="table")
    pixels = te.placeholder((9,), "uint8", name="pixels")
    assert doubts(create_schedule(te.compute((9,), lambda i: table[pixels[i]], name="B"))) == []
    assert doubts(create_schedule(te.compute((8,), lambda i: a[i], name="B")))  # true where n >= 8
    selected = te.compute((8,), lambda i: te.select(i < 7, A8[i + 1], 0.0), name="B")
    assert len(doubts(create_schedule(selected))) == 1  # both sides are evaluated
