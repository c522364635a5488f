"""`inline_reduction`: short reductions as expressions give what the definition says."""

from __future__ import annotations

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.schedule import create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

TARGETS = [("llvm", "native"), ("llvm", "interpreter"), ("c", "native"), ("opencl", "interpreter")]


def window(combine: object, dtype: str, **options: object) -> list[Tensor]:
    """W[i, j] = combine of A[i + 1 + dy, j + dx], where dy + dx is even; and the difference of neighbours in W."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n + 3, m + 2), dtype, name="A")
    dy, dx = te.reduce_axis((1, 4), "dy"), te.reduce_axis((0, 2), "dx")
    where = (dy + dx) % 2 == 0
    w = te.compute(
        (n, m + 1), lambda i, j: combine(a[i + dy - 1, j + dx], axis=[dy, dx], where=where, **options), name="W"
    )
    return [a, te.compute((n, m), lambda i, j: w[i, j] - w[i, j + 1], name="D")]


@pytest.mark.parametrize(("target", "backend"), TARGETS)
@pytest.mark.parametrize("combine", [te.sum, te.prod, te.min, te.max], ids=lambda f: f.__name__)
@pytest.mark.parametrize(("dtype", "nested"), [("float32", False), ("uint8", False), ("uint8", True)])
def test_a_window_is_inlined(target: str, backend: str, combine: object, dtype: str, nested: bool) -> None:
    args = window(combine, dtype, init=3)
    s = create_schedule(args)
    s["W"].inline_reduction(nested).compute_inline()
    assert_roundtrip(s, args, target)
    given = np.random.default_rng(0).integers(0 if dtype == "uint8" else -3, 4, (8, 9)).astype(dtype)
    check_against_reference(args, s, target, [given], backend)  # type: ignore[arg-type]


def test_every_term_of_several_results_is_combined_in_order() -> None:
    """The first of equal values wins an arg-max, as it does in loops."""
    a, k = te.placeholder((5, 7), "int32", name="A"), te.reduce_axis((0, 3), "k")
    at, best = te.compute((5,), lambda i: te.argmax(a[i, 2 * k], axis=k), name="M")
    out = te.compute((5,), lambda i: at[i] * 100 + best[i], name="out")
    s = create_schedule(out)
    s["M"].inline_reduction().compute_inline()
    given = np.random.default_rng(0).integers(0, 2, (5, 7)).astype("int32")
    check_against_reference([a, out], s, "llvm", [given])


def test_a_row_in_vectors() -> None:
    """Without its reduce loops a stage is scheduled like any other."""
    args = window(te.sum, "float32")
    s = create_schedule(args)
    s["W"].inline_reduction()
    s["W"].compute_at(s["D"], s["D"].split("j", factor=8)[0])
    s["D"].vectorize("j.inner")
    s["W"].vectorize("j")
    given = np.random.default_rng(0).integers(-9, 9, (9, 40)).astype("float32")
    check_against_reference(args, s, "llvm", [given], "native", more=[[given[:4, :5]]])


@pytest.mark.parametrize("axes", [("dy", "dx"), ("dx", "dy")])
def test_rows_of_a_window_are_added_up_first(axes: tuple[str, str]) -> None:
    """Whatever the order of the reduce axes, the rows are those along the innermost axis of the results."""
    a = te.placeholder((9, 12), name="A")
    d = {name: te.reduce_axis((0, 3), name) for name in ("dy", "dx")}
    w = te.compute((7, 10), lambda i, j: te.sum(a[i + d["dy"], j + d["dx"]], axis=[d[n] for n in axes]), name="W")
    s = create_schedule(w)
    s[w].inline_reduction(nested=True)
    (i, j), (e,) = (x.var for x in s[w].axis), s[w].body
    rows = [(a[i + k, j] + a[i + k, j + 1]) + a[i + k, j + 2] for k in range(3)]
    assert e is (rows[0] + rows[1]) + rows[2]
    assert_roundtrip(s, [a, w], "llvm")
    check_against_reference([a, w], s, "llvm", [np.random.default_rng(0).integers(-9, 9, (9, 12)).astype("float32")])
