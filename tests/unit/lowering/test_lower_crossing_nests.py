"""Two nests of stages that share loops and need each other: whatever order the stages are in, that is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autosched import build, create_schedule, te
from autosched.errors import LowerError

PAIRS = [("c", "a"), ("d", "b")]


def program(crossing: bool) -> tuple[te.Tensor, tuple[te.Tensor, ...]]:
    x = te.placeholder((5,), "int32", name="x")
    a = te.compute((5,), lambda i: x[i] + 1, name="a")
    b = te.compute((5,), lambda i: x[i] * 2, name="b")
    c = te.compute((5,), lambda i: (b if crossing else x)[i] * 3, name="c")
    d = te.compute((5,), lambda i: a[i] * 5, name="d")
    return x, (a, b, c, d)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
@pytest.mark.parametrize("pairs", [PAIRS, PAIRS[::-1]])
def test_nests_that_need_each_other_are_refused(order: tuple[int, ...], pairs: list[tuple[str, str]]) -> None:
    x, tensors = program(crossing=True)
    outputs = [tensors[i] for i in order]
    s = create_schedule(outputs)
    for guest, host in pairs:
        s[guest].compute_with(s[host], "i")
    with pytest.raises(LowerError, match="needs one and is needed by the other"):
        build(s, "llvm", args=[x, *outputs])


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_nest_comes_after_the_one_that_it_needs(order: tuple[int, ...]) -> None:
    x, tensors = program(crossing=False)
    outputs = [tensors[i] for i in order]
    s = create_schedule(outputs)
    for guest, host in PAIRS:
        s[guest].compute_with(s[host], "i")
    values = np.arange(5, dtype="int32")
    expected = values + 1, values * 2, values * 3, (values + 1) * 5
    for found, i in zip(build(s, "llvm", args=[x, *outputs])(values), order, strict=True):
        assert np.array_equal(found, expected[i])
