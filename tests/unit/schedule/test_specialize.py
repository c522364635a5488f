"""`specialize`: a version for some sizes asks fewer questions, and all versions compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.ir.stmt import If, Launch, walk
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference


def pipeline() -> tuple[list[Tensor], Schedule]:
    """A[n, m] -> B, computed for a row of -> C, in vectors of eight columns and tasks of two rows."""
    n, m = te.size_var("n"), te.size_var("m")
    a = te.placeholder((n, m), dtype="int32", name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] + b[i, te.max(j - 1, 0)], name="C")
    s = create_schedule(c)
    task, row = s[c].split("i", factor=2)
    s[c].parallel(task)
    s[b].compute_at(s[c], row)
    for stage in (b, c):
        _, lane = s[stage].split("j", factor=8)
        s[stage].vectorize(lane)
    return [a, c], s


CONDITIONS: dict[str, Any] = {
    "whole vectors": lambda n, m: [m % 8 == 0],
    "whole vectors and tasks": lambda n, m: [te.all(m % 8 == 0, n % 2 == 0)],
    "one width": lambda n, m: [m == 16],
    "much or little": lambda n, m: [m >= 16, m < 8],
    "several": lambda n, m: [m == 8, m % 16 == 0, m % 8 == 0],
    "never": lambda n, m: [m < 0],
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_results_stay(name: str) -> None:
    args, s = pipeline()
    for condition in CONDITIONS[name](s.size("n"), s.size("m")):
        s["C"].specialize(condition)
    assert_roundtrip(s, args)
    given = [
        [np.random.default_rng(n).integers(-9, 9, (n, m)).astype("int32")]
        for n, m in ((4, 16), (3, 16), (2, 8), (5, 13), (1, 1), (0, 8), (2, 0), (4, 32))
    ]
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", given[0], backend, more=given[1:])  # type: ignore[arg-type]


def test_the_version_asks_nothing() -> None:
    args, s = pipeline()
    s["C"].specialize(te.all(s.size("m") % 8 == 0, s.size("n") % 2 == 0))
    [choice] = [x for x in walk(lower_structure(s, args, "llvm").function.body) if isinstance(x, If)][:1]
    assert not [x for x in walk(choice.then) if isinstance(x, If)]
    assert choice.otherwise is not None
    assert [x for x in walk(choice.otherwise) if isinstance(x, If)]


def test_a_kernel_chooses_inside() -> None:
    """All its work-items run the same version: the host launches one kernel, whatever the sizes are."""
    args, s = pipeline()
    s["B"].compute_inline()
    for loop in s["C"].loops:
        loop.kind = "serial"
    s["C"].bind("i.outer", "blockIdx.x")
    s["C"].specialize(s.size("m") == 8)
    body = lower_structure(s, args, "opencl").bind().body
    (launch,) = (x for x in walk(body) if isinstance(x, Launch))
    assert any(isinstance(x, If) and repr(x.condition) == "m == 8" for x in walk(launch.body))
