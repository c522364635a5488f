"""`compact_reduction`: visiting only the points that a remainder lets take part gives what the definition says."""

from __future__ import annotations

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.errors import ScheduleError
from autosched.schedule import create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference


def transposed(stride: int, taps: int, shift: int, first: int = 0, up: bool = False) -> list[Tensor]:
    """T[i] = sum over k of X[(i + shift - k) // stride] * W[k - first] where that is whole; k counts from `first`."""
    n = te.var("n")
    x, w = te.placeholder((n,), "int32", name="X"), te.placeholder((taps,), "int32", name="W")
    edge, k = te.constant_exterior(x, 0), te.reduce_axis((first, first + taps), "k")

    def body(i: te.Expr) -> te.Expr:
        at = i + shift + k if up else i + shift - k
        return te.sum(edge[at // stride] * w[k - first], axis=k, where=at % stride == 0)

    return [x, w, te.compute((n * stride,), body, name="T")]


@pytest.mark.parametrize("stride", [2, 3, 4])
@pytest.mark.parametrize("taps", [1, 4, 5])
@pytest.mark.parametrize(("shift", "first", "up"), [(0, 0, False), (1, 0, False), (-3, 2, False), (1, 1, True)])
def test_phases_are_right(stride: int, taps: int, shift: int, first: int, up: bool) -> None:
    args = transposed(stride, taps, shift, first, up)
    s = create_schedule(args)
    ((axis, n),) = s["T"].compact_reduction()
    assert n == stride and s["T"].reduce_axis[0].extent.value == -(-taps // stride)
    _, phase = s["T"].split(axis, factor=n)
    s["T"].unroll(phase)
    assert_roundtrip(s, args)
    given = [np.arange(1, 8, dtype="int32"), np.arange(1, taps + 1, dtype="int32") ** 2]
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", given, backend)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "condition",
    [
        lambda i, k: (i - k) % 2 == 1,
        lambda i, k: (i - 2 * k) % 4 == 0,
        lambda i, k: k % 2 == 0,
        lambda i, k: i % 2 == 0,
    ],
    ids=["another remainder", "steps of two", "the same for all", "no reduce axis"],
)
def test_other_conditions_stay(condition: object) -> None:
    x, k = te.placeholder((9,), "int32", name="X"), te.reduce_axis((0, 4), "k")
    t = te.compute((6,), lambda i: te.sum(x[i + k], axis=k, where=condition(i, k)), name="T")
    with pytest.raises(ScheduleError, match="asks for a remainder"):
        create_schedule(t)["T"].compact_reduction()
