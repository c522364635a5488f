"""`running_reduction`: prefixes and suffixes as recurrences give what the definition says."""

from __future__ import annotations

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import build, te
from autosched.errors import ScheduleError
from autosched.schedule import create_schedule
from autosched.schedule.primitives.running import run_of
from autosched.space.default import default_schedule
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

TARGETS = [("llvm", "native"), ("llvm", "interpreter"), ("c", "native"), ("opencl", "interpreter")]
ORDERS = {
    "k <= j": lambda j, k: k <= j,
    "k < j": lambda j, k: k < j,
    "k >= j": lambda j, k: k >= j,
    "k > j": lambda j, k: j < k,
    "k - j < 1": lambda j, k: k - j < 1,
    "not j < k": lambda j, k: te.any(k < j, k == j),
}


def totals(dtype="float32", combine="sum", order="k <= j", only=False, begin=False, last=True) -> list[Tensor]:
    """X[n, m] -> what all elements up to each place, or from it on, come to, along rows or along columns."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), dtype, name="X")
    k = te.reduce_axis((0, m if last else n), name="k")

    def body(i, j):
        own, along = (i, j) if last else (j, i)
        e = x[own, k] if last else x[k, own]
        where = ORDERS[order](along, k)
        options = {"init": x[own, 0] if last else x[0, own]} if begin else {}
        return getattr(te, combine)(e, axis=k, where=te.all(where, e > 1) if only else where, **options)

    return [x, *np.atleast_1d(np.array(te.compute((n, m), body, name="T"), dtype=object))]


@pytest.mark.parametrize(("target", "backend"), TARGETS)
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"order": "k < j", "dtype": "int32"},
        {"order": "k >= j", "combine": "max"},
        {"order": "k > j", "dtype": "uint8", "only": True},
        {"order": "k - j < 1", "combine": "prod", "begin": True},
        {"combine": "argmax", "last": False},
        {"combine": "argmin", "order": "k > j", "dtype": "int32"},
        {"combine": "min", "only": True, "last": False, "order": "k < j", "begin": True},
    ],
    ids=str,
)
def test_each_goes_on_with_the_one_before(target: str, backend: str, how: dict[str, object]) -> None:
    args = totals(**how)
    s = create_schedule(args[1:])
    s.running_reduction(args[1])
    assert not any(x.reduce_axis for x in s.stages)
    assert_roundtrip(s, args, target)
    rng = np.random.default_rng(1)
    first, *more = [[rng.integers(0, 4, shape).astype(args[0].dtype)] for shape in ((5, 7), (1, 1), (9, 2))]
    check_against_reference(args, s, target, first, backend, more=more)  # type: ignore[arg-type]


def test_a_running_sum_has_the_same_bits() -> None:
    args = totals(only=True)
    x = np.random.default_rng(0).standard_normal((6, 300)).astype("float32")
    s = create_schedule(args[1:])
    wanted = build(s, "llvm", args=args)(x)
    s = create_schedule(args[1:])
    s.running_reduction("T")
    np.testing.assert_array_equal(build(s, "llvm", args=args)(x), wanted)


def prefix(where, terms=lambda a, j, k: a[k], n=20, of=20, reducer=te.sum):
    a, k = te.placeholder((of,), name="A"), te.reduce_axis((0, of), name="k")
    return te.compute((n,), lambda j: reducer(terms(a, j, k), axis=k, where=where(j, k)), name="T")


MEAN = te.comm_reducer(lambda x, y: (x + y) * 0.5, lambda t: te.const(0, t), name="mean")


@pytest.mark.parametrize(
    ("tensor", "runs"),
    [
        (prefix(lambda j, k: k <= j), True),
        (prefix(lambda j, k: k <= j + 1), False),
        (prefix(lambda j, k: te.all(k <= j, k > j - 4)), False),
        (prefix(lambda j, k: te.all(k <= j, j > 3)), False),
        (prefix(lambda j, k: k <= j, lambda a, j, k: a[te.max(j - k, 0)]), False),
        (prefix(lambda j, k: 2 * k <= j), False),
        (prefix(lambda j, k: k == j), False),
        (prefix(lambda j, k: k <= j, of=30), True),
        (prefix(lambda j, k: k <= j, of=19), False),
        (prefix(lambda j, k: k < j, of=19), True),
        (prefix(lambda j, k: k >= j, of=30), False),
        (prefix(lambda j, k: None, lambda a, j, k: te.if_then_else(k <= j, a[k], 0.0)), True),
        (prefix(lambda j, k: None, lambda a, j, k: te.if_then_else(k <= j, a[k], 1.0)), False),
        (prefix(lambda j, k: None, lambda a, j, k: te.select(k > j, 0.0, a[k])), True),
        (prefix(lambda j, k: k <= j, reducer=MEAN), True),
        (prefix(lambda j, k: k >= j, reducer=MEAN), False),
    ],
)
def test_which_reductions_run(tensor: Tensor, runs: bool) -> None:
    s = create_schedule(tensor)
    assert (run_of(s["T"]) is not None) == runs
    if not runs:
        with pytest.raises(ScheduleError, match="says how many terms"):
            s.running_reduction("T")
    (a,) = tensor.op.input_tensors
    given = np.random.default_rng(1).integers(-4, 4, int(a.shape[0].value)).astype("float32")
    check_against_reference([a, tensor], s, "llvm", [given], exact=False)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_nobody_asks_for_it(target: str) -> None:
    """Neither the default schedule nor any sketch adds up n * n / 2 terms."""
    args = totals()
    assert not any(x.reduce_axis for x in default_schedule(args, Target.parse(target)).stages)
    for sketch in Workload("w", args).search_space(Target.parse(target), {"n": 50, "m": 60}, "auto").sketches:
        assert not any(x.reduce_axis for x in sketch.schedule().stages)
