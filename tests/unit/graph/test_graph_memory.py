"""Offsets of intermediates: nothing alive is overwritten, and little is wasted."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.graph.memory import ALIGNMENT, lower_bound, padded, plan, total

#: bytes, first call, calls that it lives for
_TENSORS = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 12), st.integers(0, 6)), max_size=24)


def _split(tensors: list[tuple[int, int, int]]) -> tuple[list[int], list[int], list[int]]:
    return [s for s, _, _ in tensors], [a for _, a, _ in tensors], [a + n for _, a, n in tensors]


@given(_TENSORS)
def test_no_two_living_tensors_overlap(tensors: list[tuple[int, int, int]]) -> None:
    sizes, first, last = _split(tensors)
    offsets, whole = plan(sizes, first, last)
    assert all(o % ALIGNMENT == 0 and o >= 0 for o in offsets)
    assert all(o + padded(s) <= whole for o, s in zip(offsets, sizes, strict=True) if s)
    for i, j in combinations(range(len(sizes)), 2):
        if first[i] <= last[j] and first[j] <= last[i] and sizes[i] and sizes[j]:
            assert offsets[i] + sizes[i] <= offsets[j] or offsets[j] + sizes[j] <= offsets[i]


@given(_TENSORS)
def test_the_whole_lies_between_its_bounds(tensors: list[tuple[int, int, int]]) -> None:
    sizes, first, last = _split(tensors)
    assert lower_bound(sizes, first, last) <= plan(sizes, first, last)[1] <= total(sizes)


@pytest.mark.parametrize("layers", [1, 2, 50])
def test_a_chain_needs_its_two_largest_neighbours(layers: int) -> None:
    sizes = [64 * (1 + (7 * i) % 13) for i in range(layers)]
    first = list(range(layers))
    last = [min(i + 1, layers - 1) for i in first]
    assert plan(sizes, first, last)[1] == lower_bound(sizes, first, last)
    assert lower_bound(sizes, first, last) == max(a + b for a, b in zip([0, *sizes], [*sizes, 0], strict=True))


def test_nothing_needs_no_memory() -> None:
    assert plan([], [], []) == ([], 0)
    assert plan([0, 0], [0, 0], [1, 1]) == ([0, 0], 0)
    assert lower_bound([], [], []) == total([]) == 0
