"""Modules that look at every index before they read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autosched import build, create_schedule, te
from autosched.errors import BoundsError, UsageError
from autosched.runtime.c_compiler import find_compiler

TARGETS = ["llvm", pytest.param("c", marks=pytest.mark.skipif(find_compiler() is None, reason="no C compiler"))]

N = te.var("n")
TABLE = te.placeholder((N,), "float32", name="table")
PLACES = te.placeholder((16,), "int32", name="places")


def gather() -> te.Tensor:
    return te.compute((16,), lambda i: TABLE[PLACES[i]] * 2, name="gathered")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("marked", [False, True])
def test_an_index_outside_is_an_error_that_names_it(target: str, marked: bool) -> None:
    out = gather()
    s = create_schedule(out)
    if marked:
        outer, inner = s[out].split("i", factor=4)
        s[out].parallel(outer)
        s[out].vectorize(inner)
    module = build(s, target, args=[TABLE, PLACES, out], bounds_check=True)
    table, places = np.arange(10, dtype="float32"), np.arange(16, dtype="int32") % 10
    np.testing.assert_array_equal(module(table, places), table[places] * 2)
    for wrong in (10, -1, 2**31 - 1, -(2**31)):
        bad = places.copy()
        bad[7] = wrong
        message = f"read of table in gathered: index {wrong} of dimension 0 is outside 0..9"
        with pytest.raises(BoundsError, match=message):
            module(table, bad)
        with pytest.raises(IndexError, match="dimension 0"):
            module(table, bad, np.zeros(16, "float32"))
    np.testing.assert_array_equal(module(table, places), table[places] * 2)  # a report does not stay


@pytest.mark.parametrize("target", TARGETS)
def test_sizes_that_do_not_fit(target: str) -> None:
    out = te.compute((8,), lambda i: TABLE[i] + 1, name="out")
    module = build(create_schedule(out), target, args=[TABLE, out], bounds_check=True)
    assert module(np.zeros(8, "float32")).tolist() == [1] * 8
    with pytest.raises(BoundsError, match=r"read of table in out: index \d of dimension 0 is outside 0..5"):
        module(np.zeros(6, "float32"))


@pytest.mark.parametrize("target", TARGETS)
def test_a_read_that_a_condition_keeps_from_happening_is_none(target: str) -> None:
    k = te.reduce_axis((0, 3), "k")
    body = lambda i: te.sum(te.if_then_else(PLACES[i] + k < N, TABLE[PLACES[i] + k], 0.0), axis=k)  # noqa: E731
    out = te.compute((16,), body, name="out")
    module = build(create_schedule(out), target, args=[TABLE, PLACES, out], bounds_check=True)
    places = np.full(16, 3, "int32")
    assert module(np.ones(4, "float32"), places).tolist() == [1] * 16
    with pytest.raises(BoundsError, match="index -[12] of"):
        module(np.ones(4, "float32"), places - 5)


def test_an_index_of_an_index_is_looked_at_first() -> None:
    far = te.placeholder((4,), "int32", name="far")
    out = te.compute((16,), lambda i: TABLE[far[PLACES[i]]], name="out")
    module = build(create_schedule(out), "llvm", args=[TABLE, far, PLACES, out], bounds_check=True)
    with pytest.raises(BoundsError, match="read of far in out: index 99"):
        module(np.ones(4, "float32"), np.zeros(4, "int32"), np.full(16, 99, "int32"))
    with pytest.raises(BoundsError, match="read of table in out: index 77"):
        module(np.ones(4, "float32"), np.full(4, 77, "int32"), np.zeros(16, "int32"))


def test_what_it_is_not_for(tmp_path: Path) -> None:
    out = gather()
    s = create_schedule(out)
    with pytest.raises(UsageError, match="sanitize"):
        build(s, "opencl", args=[TABLE, PLACES, out], bounds_check=True)
    module = build(s, "llvm", args=[TABLE, PLACES, out], bounds_check=True)
    assert [p.name for p in module.signature.params] == ["table", "places", "gathered"]
    for save in (module.save, module.export_library):
        with pytest.raises(UsageError, match="build it without bounds_check"):
            save(tmp_path / "x.so")
    assert not [*tmp_path.iterdir()]
    assert len(module.time(np.zeros(4, "float32"), np.zeros(16, "int32"), number=1)) == 3
