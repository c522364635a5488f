"""`compute_with`: stages in the same loops give what each gives alone, or are refused."""

from __future__ import annotations

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import lower, te
from autosched.errors import LowerError, ScheduleError
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

TARGETS = [("llvm", "native"), ("llvm", "interpreter"), ("c", "native")]


def both_ways(n: int | None = None, m: int | None = None) -> list[Tensor]:
    """X[n, m] -> rows[n] and columns[m], sums of each, and double[n, m]."""
    rows, columns = n or te.var("n"), m or te.var("m")
    x = te.placeholder((rows, columns), name="X")
    i, j = te.reduce_axis((0, rows), "i"), te.reduce_axis((0, columns), "j")
    r = te.compute((rows,), lambda y: te.sum(x[y, j], axis=j), name="rows")
    c = te.compute((columns,), lambda z: te.sum(x[i, z], axis=i), name="columns")
    return [x, r, c, te.compute((rows, columns), lambda y, z: x[y, z] * 2.0, name="double")]


def shared(args: list[Tensor]) -> Schedule:
    """Bands of rows, of which rows and columns are added up, and what is doubled."""
    s = create_schedule(args[1:])
    s["columns"].reorder("i", "z")
    bands = {"columns": "i", "rows": "y", "double": "y"}
    for name, loop in bands.items():
        s[name].split(loop, factor=4)
    s["columns"].compute_with("rows", "y.outer")
    s["double"].compute_with("rows", "y.inner")
    s["double"].vectorize("z") if args[0].shape[1].op == "const" else None
    return s


@pytest.mark.parametrize(("target", "backend"), TARGETS)
@pytest.mark.parametrize("sizes", [(None, None), (10, 8)], ids=["symbolic", "numbers"])
def test_sums_both_ways(target: str, backend: str, sizes: tuple[int | None, int | None]) -> None:
    args = both_ways(*sizes)
    s = shared(args)
    assert_roundtrip(s, args, target)
    given = np.random.default_rng(0).integers(-9, 9, (10, 8)).astype("float32")
    check_against_reference(args, s, target, [given], backend)  # type: ignore[arg-type]


def test_the_first_values_are_set_before_the_loops() -> None:
    args = both_ways(8, 8)
    text = str(lower(shared(args), args))
    assert text.index("columns[z.init] = 0.0f") < text.index("for (y.outer") < text.index("rows[")
    assert text.count("for (y.outer") == 1 and text.count("for (y.inner") == 1


def test_in_parallel() -> None:
    args = both_ways(12, 16)
    s = create_schedule(args[1:])
    for name in ("rows", "double"):
        s[name].parallel("y")
    s["double"].compute_with("rows", "y")
    text = str(lower(s, args))
    assert text.count("parallel") == 1
    given = np.random.default_rng(0).integers(-9, 9, (12, 16)).astype("float32")
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", [given], backend)


def a_chain() -> list[Tensor]:
    """A[8] -> B -> C -> D; E of A."""
    a = te.placeholder((8,), name="A")
    made = [a]
    for name in "BCD":
        made.append(te.compute((8,), lambda i: made[-1][i] + 1.0, name=name))
    return [*made, te.compute((8,), lambda i: a[i] * 3.0, name="E")]


@pytest.mark.parametrize("host", ["B", "C", "D"])
def test_each_runs_when_what_it_needs_is_there(host: str) -> None:
    args = a_chain()
    s = create_schedule([args[-1], args[-2]])
    s["E"].compute_with(host, "i")
    check_against_reference([args[0], args[-2], args[-1]], s, "llvm", [np.arange(8, dtype="float32")], "native")


def crossed() -> tuple[list[Tensor], Schedule]:
    """B reads A, and D reads C, which lies between: neither pair may wait for the other."""
    x = te.placeholder((8,), name="X")
    a = te.compute((8,), lambda i: x[i] + 1.0, name="A")
    b = te.compute((8,), lambda i: a[7 - i], name="B")
    d = te.compute((8,), lambda i: b[7 - i] * 2.0, name="D")
    return [x, d], create_schedule([d])


def other_lengths() -> tuple[list[Tensor], Schedule]:
    args = both_ways(8, 6)
    s = create_schedule(args[1:])
    s["columns"].compute_with("rows", "y")
    return args, s


def under_a_condition() -> tuple[list[Tensor], Schedule]:
    args = both_ways(10, 8)
    s = create_schedule(args[1:])
    for name in ("rows", "double"):
        outer, inner = s[name].split("y", factor=4)
        s[name].reorder(inner, outer) if name == "rows" else None
    s["double"].compute_with("rows", "y.outer")
    return args, s


def on_a_gpu() -> tuple[list[Tensor], Schedule]:
    args = both_ways(8, 8)
    s = create_schedule(args[1:])
    s["double"].compute_with("rows", "y")
    return args, s


@pytest.mark.parametrize(
    ("made", "target", "why"),
    [
        (other_lengths, "llvm", "8 iterations, columns.z 6"),
        (under_a_condition, "llvm", "4 iterations"),
        (on_a_gpu, "opencl", "a kernel of its own"),
    ],
)
def test_refusals(made, target: str, why: str) -> None:
    args, s = made()
    with pytest.raises(LowerError, match=why):
        lower(s, args, target=target)


def test_what_moves_later_is_found() -> None:
    args = both_ways(8, 8)
    s = create_schedule(args[1:])
    s["double"].compute_with("rows", "y")
    s["rows"].split("y", factor=2)
    with pytest.raises(ScheduleError, match="split or fused away"):
        lower(s, args)


def test_stages_in_the_same_loops_do_not_need_each_other() -> None:
    *_, d, e = a_chain()
    s = create_schedule([d, e])
    s["B"].compute_with("E", "i")
    with pytest.raises(ScheduleError, match="D and B depend on each other"):
        s["D"].compute_with("E", "i")


def test_dependent_stages_are_refused() -> None:
    _, s = crossed()
    with pytest.raises(ScheduleError, match="depend on each other"):
        s["D"].compute_with("A", "i")


def test_lengths_that_knobs_decide_are_refused_unless_they_are_the_same() -> None:
    args = both_ways(8, 8)
    for same in (True, False):
        s = create_schedule(args[1:])
        t, u = s.define_knob("t", [2, 4]), s.define_knob("u", [2, 4])
        s["rows"].split("y", factor=t)
        s["double"].split("y", factor=t if same else u)
        s["double"].compute_with("rows", "y.outer")
        if same:
            assert str(lower(s, args)).count("for (y.outer") == 1
        else:
            with pytest.raises(LowerError, match="iterations"):
                lower(s, args)


def one_after_another(n: int | None = None, of: int = 0) -> list[Tensor]:
    """X[n, 8] -> the sums of its rows; of squares of what is above them; of both sums, `of` rows further on."""
    rows = n or te.var("n")
    x = te.placeholder((rows, 8), name="X")
    k, m = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 8), "m")
    a = te.compute((rows,), lambda y: te.sum(x[y, k], axis=k), name="A")
    b = te.compute((rows,), lambda y: te.sum(te.max(x[y, m] - a[y], 0.0), axis=m), name="B")
    return [x, a, b, te.compute((rows,), lambda y: a[te.min(y + of, rows - 1) if of else y] * b[y], name="C")]


def in_rows(s: Schedule, *names: str, factor: int = 4) -> None:
    for name in names:
        s[name].parallel(s[name].split("y", factor=factor)[0])


@pytest.mark.parametrize("factor", ["t", "u", 2])
def test_loops_of_a_stage_that_reads_the_other_are_cut_by_the_same_knob(factor: str | int) -> None:
    args = one_after_another(8)
    s = create_schedule(args[1:])
    knobs = {name: s.define_knob(name, [2, 4]) for name in "tu"}
    s["A"].split("y", factor=knobs["t"])
    s["B"].split("y", factor=knobs.get(factor, factor))
    if factor == "t":
        s["B"].compute_with("A", "y.inner")
        assert str(lower(s, args)).count("for (y.outer") == 1
    else:
        with pytest.raises(ScheduleError, match="depend on each other"):
            s["B"].compute_with("A", "y.inner")


@pytest.mark.parametrize(("target", "backend"), TARGETS)
@pytest.mark.parametrize("n", [None, 10, 8])
def test_a_stage_reads_what_its_iteration_has_computed(target: str, backend: str, n: int | None) -> None:
    args = one_after_another(n)
    s = create_schedule(args[1:])
    in_rows(s, "A", "B", "C")
    s["B"].compute_with("A", "y.inner")
    s["C"].compute_with("A", "y.inner")
    assert_roundtrip(s, args, target)
    text = str(lower(s, args))
    assert text.count("parallel (y.outer") == 1 and text.index("produce B") < text.index("produce C")
    given = np.random.default_rng(0).integers(-9, 9, (n or 11, 8)).astype("float32")
    check_against_reference(args, s, target, [given], backend)  # type: ignore[arg-type]


def test_blocks_of_rows_are_read_whole() -> None:
    args = one_after_another(10)
    s = create_schedule(args[1:])
    in_rows(s, "A", "B", "C")
    for name in ("B", "C"):
        s[name].compute_with("A", "y.outer")
    check_against_reference(args, s, "llvm", [np.arange(80, dtype="float32").reshape(10, 8) % 7])


def _other_rows(s: Schedule) -> None:
    s["B"].compute_with("A", "y")
    s["C"].compute_with("A", "y")


def _other_blocks(s: Schedule) -> None:
    in_rows(s, "A", factor=2)
    in_rows(s, "B", factor=5)
    s["B"].compute_with("A", "y.outer")


def _before_the_sum(s: Schedule) -> None:
    s["A"].reorder("k", "y")
    s["B"].reorder("m", "y")
    s["B"].compute_with("A", "k")


def _the_reader_first(s: Schedule) -> None:
    s["A"].compute_with("B", "y")


def _in_fewer_loops(s: Schedule) -> None:
    in_rows(s, "A", "B", "C")
    s["B"].compute_with("A", "y.outer")
    s["C"].compute_with("A", "y.inner")


def _through_another(s: Schedule) -> None:
    s["C"].compute_with("A", "y")


@pytest.mark.parametrize(
    ("share", "of"),
    [
        (_other_rows, 1),
        (_other_blocks, 0),
        (_before_the_sum, 0),
        (_the_reader_first, 0),
        (_in_fewer_loops, 0),
        (_through_another, 0),
    ],
)
def test_elements_of_other_iterations_are_refused(share, of: int) -> None:
    s = create_schedule(one_after_another(10, of)[1:])
    with pytest.raises(ScheduleError, match="depend on each other"):
        share(s)


def test_loops_that_are_cut_later_are_looked_at_again() -> None:
    args = one_after_another(10)
    s = create_schedule(args[1:])
    in_rows(s, "A", "B")
    s["B"].compute_with("A", "y.outer")
    s["A"].split("y.inner", factor=2)
    lower(s, args)
    s["B"].reorder("m", "y.outer", "y.inner")
    with pytest.raises(ScheduleError, match="depend on each other"):
        lower(s, args)
