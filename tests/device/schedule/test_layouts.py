"""`transform_layout`: elements lie elsewhere, and nobody can tell but the loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import build, te
from autosched.errors import ScheduleError
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.schedule.schedule import replay
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference


def pipeline() -> tuple[list[Tensor], Any]:
    """A[n, m, 3] -> B, the sum of two rows -> C, B's neighbours; and D, sums of C's rows."""
    n, m = te.size_var("n"), te.size_var("m")
    a = te.placeholder((n, m, 3), dtype="int32", name="A")
    b = te.compute((n, m, 3), lambda y, x, c: a[y, x, c] + a[n - 1 - y, x, c], name="B")
    c = te.compute((n, m, 3), lambda y, x, c: b[y, te.max(x - 1, 0), c] - b[y, x, 2 - c], name="C")
    k = te.reduce_axis((0, m), name="k")
    d = te.compute((n, 3), lambda y, c_: te.sum(c[y, k, c_], axis=k), name="D")
    return [a, te.compute((n,), lambda y: d[y, 0] + d[y, 1] * 2 + d[y, 2] * 3, name="E")], m


MAPS: dict[str, Callable[[Any, Any, Any, Any], list[Any]]] = {
    "interleaved": lambda m, y, x, c: [y, c, x],
    "blocks": lambda m, y, x, c: [x // 4, y, c, x % 4],
    "tiles": lambda m, y, x, c: [y // 2, x // 4, c, y % 2 * 4 + x % 4],
    "rows of everything": lambda m, y, x, c: [y, x * 3 + c],
    "blocks of what was fused": lambda m, y, x, c: [(x * 3 + c) // 4, y, (x * 3 + c) % 4],
    "split twice": lambda m, y, x, c: [y, x // 6, c, x // 2 % 3, x % 2],
    "flat": lambda m, y, x, c: [(y * m + x) * 3 + c],
    "a unit more": lambda m, y, x, c: [0, x, te.AXIS_SEPARATOR, c, y],
}

SIZES = ((5, 7), (1, 1), (4, 12), (0, 3), (2, 0))


def inputs() -> list[list[np.ndarray]]:
    return [[np.random.default_rng(n).integers(-9, 9, (n, m, 3)).astype("int32")] for n, m in SIZES]


def check(args: list[Tensor], s: Schedule, target: str = "llvm") -> None:
    assert_roundtrip(s, args, target)
    given = inputs()
    for backend in ("native", "interpreter") if target == "llvm" else ("native",):
        check_against_reference(args, s, target, given[0], backend, more=given[1:])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", MAPS)
def test_results_stay(name: str) -> None:
    args, _ = pipeline()
    s = create_schedule(args)
    for stage in ("B", "C"):
        s[stage].transform_layout(lambda *i: MAPS[name](s.size("m"), *i))
    check(args, s)
    s["B"].compute_inline()
    check(args, s)


@pytest.mark.parametrize("name", ["interleaved", "blocks", "tiles", "blocks of what was fused"])
def test_what_is_computed_in_a_consumers_loop(name: str) -> None:
    args, _ = pipeline()
    s = create_schedule(args)
    axes = s["B"].transform_layout(lambda *i: MAPS[name](None, *i))
    s["B"].reorder(*reversed(axes))
    s["B"].compute_at(s["C"], "y")
    s["C"].compute_at(s["D"], "y")
    check(args, s)


def test_a_reduction_is_laid_out_too() -> None:
    args, _ = pipeline()
    s = create_schedule(args)
    y, c, lane = s["D"].transform_layout(lambda y, c: [y // 4, c, y % 4])
    assert s["D"].describe() == "axis0 / axis1 / axis2 / k"
    s["D"].reorder(y, "k", c, lane)
    s["D"].vectorize(lane)
    check(args, s)


def test_rows_for_work_items() -> None:
    args, _ = pipeline()
    s = create_schedule(args)
    blocks, rows, _, lanes = s["B"].transform_layout(lambda y, x, c: [x // 4, y, c, x % 4])
    s["B"].bind(s["B"].fuse(blocks, rows), "blockIdx.x")
    s["B"].bind(lanes, "threadIdx.x")
    for stage in "CDE":
        s[stage].bind(s[stage].loops[0], "blockIdx.x")
    check(args, s, "opencl")


def test_the_order_of_computation_is_free() -> None:
    """Seed 002: computed in the order y, x, c; stored in the order x, c, y."""
    args, _ = pipeline()
    s = create_schedule(args)
    x, c, y = s["B"].transform_layout(lambda y, x, c: [x, c, y])
    s["B"].reorder(y, x, c)
    text = str(lower_structure(s, args, "llvm"))
    assert "allocate B: int32[m, 3, n]" in text
    assert "B[axis0, axis1, axis2] = A[axis2, axis0, axis1] + A[n - axis2 - 1, axis0, axis1]" in text
    assert text.index("(axis2,") < text.index("(axis0,") < text.index("(axis1,")
    check(args, s)


def test_places_that_the_data_say() -> None:
    """An index of a narrow type is not made to wrap by the arithmetic of a layout."""
    a = te.placeholder((300,), dtype="uint8", name="A")
    b = te.compute((256,), lambda i: i * 3, name="B")
    c = te.compute((300,), lambda i: b[a[i]], name="C")
    s = create_schedule(c)
    s[b].transform_layout(lambda i: [i // 16, i % 16])
    values = np.random.default_rng(0).integers(0, 256, 300).astype("uint8")
    check_against_reference([a, c], s, "llvm", [values], "interpreter")
    check_against_reference([a, c], s, "llvm", [values])


def with_arguments(b_map: Any, pad_value: Any = None) -> tuple[Schedule, list[Tensor]]:
    """B = 2*A, where A is passed as its transpose."""
    a = te.placeholder((4, 6), dtype="int32", name="A")
    b = te.compute((4, 6), lambda i, j: a[i, j] * 2, name="B")
    s = create_schedule(b)
    assert s[a].transform_layout(lambda i, j: [j, i]) == []
    s[b].transform_layout(b_map, pad_value=pad_value)
    return s, [a, b]


A46 = np.arange(24, dtype="int32").reshape(4, 6)


@pytest.mark.parametrize(
    ("b_map", "pad_value", "expected"),
    [
        (lambda i, j: [i * 6 + j], None, A46.reshape(24) * 2),
        (lambda *i, j: [j // 3, *i, j % 3], None, (A46 * 2).reshape(4, 2, 3).transpose(1, 0, 2)),
        (lambda i, j: [i, j // 4, j % 4], 9, np.pad(A46 * 2, ((0, 0), (0, 2)), constant_values=9).reshape(4, 2, 4)),
    ],
    ids=["flat", "the last index by name", "padded"],
)
def test_arguments_are_passed_in_their_new_layout(b_map: Any, pad_value: Any, expected: np.ndarray) -> None:
    s, args = with_arguments(b_map, pad_value)
    out = np.zeros(expected.shape, "int32")
    build(s, "llvm", args=args)(np.ascontiguousarray(A46.T), out)
    np.testing.assert_array_equal(out, expected)
    assert s.arguments == tuple(args)
    again = replay(s.trace.to_json(), s.outputs)
    assert str(lower_structure(again, args, "llvm")) == str(lower_structure(s, args, "llvm"))


def test_the_padding_of_a_reduction_and_layouts_one_after_the_other() -> None:
    a = te.placeholder((6, 5), dtype="int32", name="A")
    k = te.reduce_axis((0, 5), name="k")
    c = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="C")
    s = create_schedule(c)
    s[c].transform_layout(lambda i: [i // 4, i % 4], pad_value=-7)
    s[c].transform_layout(lambda i, j: [j, i])
    cache = s.cache_write(c, "local")
    s[cache].compute_at(s[c], s[c].loops[0])
    value, out = np.arange(30, dtype="int32").reshape(6, 5), np.zeros((4, 2), "int32")
    build(s, "llvm", args=[a, c])(value, out)
    np.testing.assert_array_equal(out, np.pad(value.sum(1), (0, 2), constant_values=-7).reshape(2, 4).T)


def test_a_stored_trace_keeps_the_layouts_of_arguments() -> None:
    s, _ = with_arguments(lambda i, j: [j, i])
    with pytest.raises(ScheduleError, match="A is an input of a workload"):
        replay(s.trace, s.outputs, trusted=False)
