"""`reverse_compute_at` and `reverse_compute_inline` of a stage whose indices are cast, or digits of its axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.errors import ScheduleError
from autosched.schedule import create_schedule
from autosched.testing.oracle import check_against_reference


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("inline", [True, False])
def test_indices_of_another_type(target: str, inline: bool) -> None:
    a = te.placeholder((8, 6), name="A")
    b = te.compute((8, 6), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((8, 6), lambda i, j: b[i.astype("int64"), j.astype("int64")] * 2, name="C")
    s = create_schedule(c)
    s["B"].split("i", factor=4)
    if inline:
        s["C"].reverse_compute_inline()
    else:
        s["C"].reverse_compute_at(s["B"], "i.outer")
    assert [x.name for x in s["C"].loops] == ["i.outer", "i.inner", "j"]
    assert_roundtrip(s, [a, c], target)
    given = np.arange(48, dtype="float32").reshape(8, 6)
    check_against_reference([a, c], s, target, [given], "native")  # type: ignore[arg-type]


Index = Callable[..., tuple[Any, ...]]

#: lengths of the producer and of the consumer, where an element is read, the loops of the one that become those of the other
MAPS: tuple[tuple[tuple[int, ...], tuple[int, ...], Index, str], ...] = (
    ((8, 6), (48,), lambda n: (n // 6, n % 6), "i0.outer / i0.inner"),
    ((48,), (8, 6), lambda i, j: (i * 6 + j,), "i0.i1.fused"),
    ((6, 5, 4), (24, 5), lambda y, x: (y // 4, x, y % 4), "i0.outer / i1 / i0.inner"),
    ((6, 4), (4, 6), lambda i, j: ((i * 6 + j) // 4, (i * 6 + j) % 4), "i0.i1.fused.outer / i0.i1.fused.inner"),
    ((1, 6, 5), (6, 5), lambda i, j: (0, i, j), "i0.outer / i0.inner / i1"),
    ((6, 8), (6, 1, 5), lambda i, u, j: (i, j), "i0 / i2 / i1"),
    ((12, 5), (5, 4, 3), lambda i, j, k: (j * 3 + k, i), "i1.i2.fused / i0"),
    ((2, 3, 2, 4, 3), (12, 12), lambda i, j: (i // 6, i % 3, i % 6 // 3, j // 3, j % 3),
     "i0.outer / i0.inner.inner / i0.inner.outer / i1.outer / i1.inner"),
    ((8, 16), (5, 12), lambda i, j: (i, j // 4 + j % 4 * 3), "i0 / i1.inner.i1.outer.fused"),
)  # fmt: skip


@pytest.mark.parametrize("case", range(len(MAPS)))
@pytest.mark.parametrize("inline", [True, False])
def test_digits_of_axes(case: int, inline: bool) -> None:
    produced, consumed, index, loops = MAPS[case]
    a = te.placeholder(produced, name="A")
    b = te.compute(produced, lambda *i: a[i] + 1, name="B")
    c = te.compute(consumed, lambda *i: b(*index(*i)) * 2, name="C")
    s = create_schedule(c)
    if inline:
        s["C"].reverse_compute_inline()
        assert s["C"].describe() == loops
    else:
        outer, _ = s["B"].split("i0", factor=3)
        s["C"].reverse_compute_at(s["B"], outer)
        assert s["C"].loops[0] is outer
    assert_roundtrip(s, [a, c], "llvm")
    given = np.arange(np.prod(produced), dtype="float32").reshape(produced)
    check_against_reference([a, c], s, "llvm", [given], "native")  # type: ignore[arg-type]


@pytest.mark.parametrize("index", [lambda i: i // 2, lambda i: i % 8, lambda i: 15 - i, lambda i: i * 2 % 16])
def test_what_are_no_digits(index: Callable[[Any], Any]) -> None:
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: a[i] + 1, name="B")
    s = create_schedule(te.compute((16,), lambda i: b[index(i)] * 2, name="C"))
    with pytest.raises(ScheduleError, match="an iteration needs more than one element, or in another order"):
        s["C"].reverse_compute_inline()


def test_a_sum_in_blocks_is_finished_in_blocks() -> None:
    """A matrix product whose result is laid out in blocks of rows, read by what brings it into plain order."""
    a, b = te.placeholder((16, 12), name="A"), te.placeholder((12, 8), name="B")
    k = te.reduce_axis((0, 12), name="k")
    p = te.compute((4, 8, 4), lambda o, j, i: te.sum(a[o * 4 + i, k] * b[k, j], axis=k), name="P")
    c = te.compute((16, 8), lambda y, x: te.max(p[y // 4, x, y % 4], 0.0), name="C")
    s = create_schedule(c)
    s["P"].reorder("o", "k", "j", "i")
    s["P"].vectorize("i")
    s["C"].reverse_compute_at(s["P"], "o")
    assert s["P"].describe() == "o / k / j / i (vectorize)"
    assert_roundtrip(s, [a, b, c], "llvm")
    rng = np.random.default_rng(3)
    given = [rng.integers(-9, 9, n).astype("float32") for n in ((16, 12), (12, 8))]
    check_against_reference([a, b, c], s, "llvm", given, "native")  # type: ignore[arg-type]
