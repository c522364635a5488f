"""A plug-in of pytest for TVM's tests, which `tvm_suite.py` loads: where loops are not TVM's, it runs both.

Such tests compare the result of a schedule with a program that TVM's authors wrote down, node by node. Where ours is
another one, both are built for this machine's CPU and run on the same random numbers, and the failure says whether the
results are the same ones: "the same results in other loops", "OTHER RESULTS", or why there is nothing to compare.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import autosched.tvm.install  # noqa: F401
from autosched import tvm
from autosched.errors import AutoschedError
from autosched.tvm import ir
from autosched.tvm.ir import base
from autosched.tvm.testing import compare
from autosched.tvm.tir.schedule import testing

SAME, OTHER = "the same results in other loops", "OTHER RESULTS"
#: for lengths that a call knows
_LENGTH = 17

compared = base.assert_structural_equal


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """TVM's, with what running both has shown in front of its message."""
    try:
        compared(lhs, rhs, map_free_vars)
    except ValueError as error:
        raise ValueError(f"{_run_both(lhs, rhs)}: {error}") from None


def _run_both(lhs: Any, rhs: Any) -> str:
    try:
        ours, theirs = _function(lhs), _function(rhs)
        given = [_numbers(b) for b in ours.params]
        before = [x.copy() for x in given]
        results = [_results(f, before) for f in (ours, theirs)]
    except (AutoschedError, AttributeError, TypeError, ValueError) as error:
        return f"not run ({type(error).__name__})"
    if all(np.array_equal(x, y) for x, y in zip(before, results[1], strict=True)):
        return "asks for TVM's IR"  # which returns nothing to compare
    same = all(np.allclose(x, y, 1e-4, 1e-4, equal_nan=True) for x, y in zip(*results, strict=True))
    return SAME if same else OTHER


def _function(program: Any) -> Any:
    if isinstance(program, tvm.IRModule):
        (program,) = program.values()
    return program


def _numbers(of: Any) -> np.ndarray:
    b = getattr(of, "buffer", of)
    shape = [_length(d) for d in b.shape]
    return np.random.default_rng(len(shape)).integers(0, 8, shape).astype(str(b.dtype))


def _length(d: Any) -> int:
    sizes = dict.fromkeys(tvm.tir.analysis.undefined_vars(d), _LENGTH)
    return int(tvm.arith.Analyzer().simplify(tvm.tir.stmt_functor.substitute(d, sizes)).value)


def _results(f: Any, given: list[np.ndarray]) -> list[np.ndarray]:
    try:
        module = tvm.build(f, target="llvm")
    except AutoschedError:
        module = tvm.build(f, target="opencl")  # which has threads
    arrays = [x.copy() for x in given]
    module(*arrays)
    return arrays


for module in (base, ir, compare, testing):
    vars(module)["assert_structural_equal"] = assert_structural_equal
