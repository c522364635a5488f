"""Outputs that are computed inside their readers: whole, once, and only where all of them is needed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.errors import LowerError, ScheduleError
from autosched.lowering import lower, lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

n, m = te.var("n"), te.var("m")
LENGTHS = ((13, 7), (1, 1), (8, 40), (0, 4), (4, 0))


def centred() -> list[Tensor]:
    """A[n, m] -> M, twice the number of each row, and C = A - M."""
    a = te.placeholder((n, m), name="A")
    twice = te.compute((n,), lambda i: i.astype("float32") * 2.0, name="M")
    return [a, twice, te.compute((n, m), lambda i, j: a[i, j] - twice[i], name="C")]


def moments(rows: int = 13, columns: int = 64) -> list[Tensor]:
    """A[rows, columns] -> the mean M of each row, and V, the sum of squares around it."""
    a = te.placeholder((rows, columns), name="A")
    k, p = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "p")
    total = te.compute((rows,), lambda i: te.sum(a[i, k], axis=k), name="S")
    mean = te.compute((rows,), lambda i: total[i] / columns, name="M")
    around = te.compute((rows,), lambda i: te.sum((a[i, p] - mean[i]) * (a[i, p] - mean[i]), axis=p), name="V")
    return [a, mean, around]


def updated(size: int = 20) -> list[Tensor]:
    """A[size, size] -> U = A + 1, and P, the sums of its rows."""
    a, k = te.placeholder((size, size), name="A"), te.reduce_axis((0, size), "k")
    u = te.compute((size, size), lambda i, j: a[i, j] + 1.0, name="U")
    return [a, u, te.compute((size,), lambda i: te.sum(u[i, k], axis=k), name="P")]


def read_by(index: Callable[[te.Expr], te.Expr]) -> list[Tensor]:
    """A[10] -> B = A + 1 -> C[5], elements of B."""
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] + 1.0, name="B")
    return [a, b, te.compute((5,), lambda i: b[index(i)], name="C")]


@pytest.mark.parametrize("factor", [1, 3, 8])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_a_row_at_a_time(factor: int, lengths: tuple[int, int]) -> None:
    args = centred()
    s = create_schedule(args[1:])
    outer, _ = s["C"].split("i", factor=factor)
    s["C"].parallel(outer)
    s["M"].compute_at(s["C"], outer)
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", [np.ones(lengths, "float32")], backend)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [12, 13])
@pytest.mark.parametrize("in_lanes", [False, True])
def test_what_an_output_is_made_of_goes_along(rows: int, in_lanes: bool) -> None:
    args = moments(rows)
    s = create_schedule(args[1:])
    outer, inner = s["V"].split("i", factor=4)
    s["V"].parallel(outer)
    if in_lanes:
        s["V"].split("p", factor=8)
        s.rfactor("V", "p.inner", factor_axis=-1)
        s["V.rf"].compute_at(s["V"], inner)
    s["M"].compute_at(s["V"], outer)
    s["S"].compute_at(s["V"], outer)
    given = [np.random.default_rng(0).integers(-3, 4, (rows, 64)).astype("float32")]  # which is added up exactly
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", given, backend)  # type: ignore[arg-type]
    assert "allocate M" not in str(lower(s, args))


@pytest.mark.parametrize("cut", [3, 4, "knob"])
@pytest.mark.parametrize("size", [20, 21])
def test_columns_that_a_reduction_goes_over(cut: int | str, size: int) -> None:
    """In lanes, the places are a sum of two loops, which leave nothing out, whatever the factor is."""
    args = updated(size)
    s = create_schedule(args[1:])
    s["P"].split("k", factor=s.define_knob("cut", [2, 3]) if cut == "knob" else cut)
    s.rfactor("P", "k.inner", factor_axis=-1)
    s["P.rf"].compute_at(s["P"], "i")
    s["U"].compute_at(s["P"], "i")
    given, knobs = [np.arange(size * size, dtype="float32").reshape(size, size)], {"cut": 3} if cut == "knob" else {}
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", given, backend, knobs=knobs)  # type: ignore[arg-type]


def test_neighbours_that_share_an_element_compute_it_twice() -> None:
    a = te.placeholder((12,), name="A")
    b = te.compute((12,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((12,), lambda i: b[i] + b[te.min(i + 1, 11)], name="C")
    s = create_schedule([b, c])
    outer, _ = s[c].split("i", factor=5)
    s[b].compute_at(s[c], outer)
    for backend in ("native", "interpreter"):
        check_against_reference([a, b, c], s, "llvm", [np.arange(12, dtype="float32")], backend)  # type: ignore[arg-type]


def test_places_and_values_of_a_tuple() -> None:
    a, k = te.placeholder((9, 30), name="A"), te.reduce_axis((0, 30), "k")
    place, value = te.compute((9,), lambda i: te.argmax(a[i, k], axis=k), name="T")
    c = te.compute((9, 30), lambda i, j: te.select(j == place[i], 0.0, a[i, j] - value[i]), name="C")
    s = create_schedule([place, value, c])
    s["T"].compute_at(s[c], "i")
    given = [np.random.default_rng(1).integers(0, 5, (9, 30)).astype("float32")]
    for backend in ("native", "interpreter"):
        check_against_reference([a, place, value, c], s, "llvm", given, backend)  # type: ignore[arg-type]


def refused(args: list[Tensor], *calls: Callable[[Schedule], object]) -> str:
    s = create_schedule(args[1:])
    for call in calls:
        call(s)
    with pytest.raises(ScheduleError) as error:
        lower(s, args)
    return error.value.why


GAPS = {"every other": lambda i: i * 2, "the first half": lambda i: i, "the last ones": lambda i: 9 - i}


@pytest.mark.parametrize("index", GAPS)
def test_elements_that_nobody_needs_would_be_left_out(index: str) -> None:
    args = read_by(GAPS[index])
    assert "may not need all" in refused(args, lambda s: s["B"].compute_at(s["C"], "i"))


def test_what_a_choice_leaves_out_is_not_counted_on() -> None:
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((10,), lambda i: te.if_then_else(i > 4, b[i], 0.0), name="C")
    assert "may not need all" in refused([a, b, c], lambda s: s["B"].compute_at(s["C"], "i"))


def test_loops_over_other_axes_may_be_empty() -> None:
    """Of no columns there is no iteration, and M has rows all the same."""
    assert "may not need all" in refused(
        centred(), lambda s: s["C"].reorder("j", "i"), lambda s: s["M"].compute_at(s["C"], "j")
    )


def test_a_reader_that_is_itself_inside_another() -> None:
    """C leaves out what D does not need, and so would B."""
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((10,), lambda i: b[i] * 2.0, name="C")
    d = te.compute((5,), lambda i: c[i * 2], name="D")
    s = create_schedule([b, d])
    s[c].compute_at(s[d], "i")
    s[b].compute_at(s[d], "i")
    with pytest.raises(ScheduleError, match="may not need all"):
        lower(s, [a, b, d])


def test_on_gpus_outputs_stay_at_the_root() -> None:
    args = centred()
    s = create_schedule(args[1:])
    s["M"].compute_at(s["C"], "i")
    with pytest.raises(LowerError, match="work-items would write what others read"):
        lower_structure(s, args, "opencl")
