"""TVM's passes over schedules: inlining by rule, and checking."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.schedule import Schedule
from autosched.testing.oracle import check_against_reference
from autosched.tvm.te.schedule import AutoInlineBroadcast, AutoInlineElemWise, AutoInlineInjective, create_schedule


def stencils() -> list[te.Tensor]:
    """A[6, 5] -> B, element by element -> C, over two rows -> D, transposed -> E, plus a row of A, repeated."""
    a = te.placeholder((6, 5), dtype="int32", name="A")
    b = te.compute((6, 5), lambda i, j: a[i, j] * 2, name="B")
    c = te.compute((6, 5), lambda i, j: b[te.max(i - 1, 0), j] + b[i, j], name="C")
    d = te.compute((5, 6), lambda j, i: c[i, j] + 1, name="D")
    row = te.compute((5,), lambda j: a[0, j] + 1, name="R")
    wide = te.compute((5, 6), lambda j, i: row[j], name="W")
    return [a, te.compute((5, 6), lambda j, i: d[j, i] + wide[j, i], name="E")]


@pytest.mark.parametrize(
    ("rule", "inlined"), [(AutoInlineElemWise, "B"), (AutoInlineBroadcast, "BW"), (AutoInlineInjective, "BCDRW")]
)
def test_rules_of_inlining(rule: Callable[[Schedule], None], inlined: str) -> None:
    args = stencils()
    s = create_schedule(args[-1])
    rule(s)
    assert "".join(sorted(x.name for x in s.stages if x.attach.kind == "inline")) == inlined
    check_against_reference(args, s, "llvm", [np.arange(30, dtype="int32").reshape(6, 5)])


def test_what_was_scheduled_is_left_alone() -> None:
    s = create_schedule(stencils()[-1])
    s["B"].compute_at(s["C"], "i")
    s["D"].parallel("j")
    s["R"].split("j", factor=2)
    AutoInlineInjective(s)
    assert [x.name for x in s.stages if x.attach.kind == "inline"] == ["W"]


def test_schedules_are_normal() -> None:
    s = create_schedule(stencils()[-1])
    assert s.normalize() is s
