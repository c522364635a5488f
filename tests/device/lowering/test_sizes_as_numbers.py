"""Numbers for sizes once a schedule is chosen: they are no arguments then, and what they decide is decided."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import autosched
from autosched import te, workload
from autosched.errors import LowerError
from autosched.lowering.pipeline import lower_structure
from autosched.planning import Plan, default_plan
from autosched.runtime.device import resolve_target
from autosched.space.workload import Workload

LLVM = resolve_target("llvm")


@workload
def mirrored() -> Any:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m + 1), name="a")
    first = te.compute((n, m), lambda i, j: a[i, j] + a[i, j + 1], name="first")
    return a, te.compute((n, m), lambda i, j: first[n - 1 - i, j] * 2, name="out")


def right(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return ((a[:, 1:] + a[:, :-1]) * 2)[::-1]


A = np.random.default_rng(0).integers(0, 99, (7, 12)).astype(np.float32)


@pytest.mark.parametrize("target", ["llvm", "c", "opencl"])
@pytest.mark.parametrize("sizes", [{"n": 7, "m": 11}, {"m": 11}, {"n": 7}])
def test_a_workload_is_built_for_sizes_alone(target: str, sizes: dict[str, int], tmp_path: Any) -> None:
    module = autosched.build(mirrored(), target, sizes=sizes, specialize=True, records=str(tmp_path))
    assert set(module.signature.sizes) == {"n", "m"} - sizes.keys()
    np.testing.assert_array_equal(module(A), right(A))
    other = np.zeros((9, 9), np.float32)
    with pytest.raises(ValueError, match="should be"):
        module(other)


def plan_of(w: Workload, knob: int) -> Plan:
    """A plan whose schedule splits by a knob, of three values."""
    s = autosched.create_schedule(w.args)
    out = s[w.args[1]]
    outer, inner = out.split(out.op.axis[1], factor=s.define_knob("tile", [2, 4, 8]))
    out.vectorize(inner)
    s[out.op.input_tensors[0]].compute_at(out, outer)
    structure = lower_structure(s, w.args, LLVM, "mirrored")
    return Plan("mirrored", w.args, s, {"tile": knob}, structure, LLVM, {"kind": "schedule"})


def test_sizes_choose_among_versions() -> None:
    w = mirrored()
    n = w.size_variables()["n"]
    base = default_plan(w, LLVM, "mirrored", "")
    whole = replace(base, versions=((n < 10, plan_of(w, 4)), (n < 100, plan_of(w, 8))))
    few, many, some = (whole.at({"n": k}) for k in (7, 1000, 50))
    assert (few.knobs, few.versions) == ({"tile": 4}, ())
    assert (many.knobs, many.versions) == ({}, ())
    assert (some.knobs, some.versions) == ({"tile": 8}, ())
    open_still = whole.at({"m": 11})
    assert len(open_still.versions) == 2
    for found in (few, open_still, few.at({"m": 11})):
        np.testing.assert_array_equal(found.compile()(A), right(A))


def eights() -> Plan:
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    y = te.compute((n,), lambda i: a[i] * 2, name="y")
    s = autosched.create_schedule([a, y])
    s[y].split(y.op.axis[0], factor=8, tail="round_up")
    return Plan("eights", (a, y), s, {}, lower_structure(s, (a, y), LLVM, "eights"), LLVM, {})


def test_what_is_required_is_asked_of_the_numbers() -> None:
    module = eights().at({"n": 16}).compile()
    assert module.signature.requires == () and (module(np.ones(16, np.float32)) == 2).all()
    with pytest.raises(LowerError) as caught:
        eights().at({"n": 12})
    assert str(caught.value) == ("eights with n = 12: y.i has n iterations, which 8 has to divide\n  needed: n%8 == 0")


def test_a_version_that_the_numbers_rule_out_is_left_out() -> None:
    """What a version requires is part of its condition: where it is broken, the next one is taken."""
    special = eights()
    variable = special.structure.function.sizes[0]
    other = default_plan(Workload("eights", special.args), LLVM, "eights", "")
    both = replace(other, versions=((variable < 100, special),))
    assert both.at({"n": 12}).structure.function.requires == ()
    assert (both.at({"n": 12}).compile()(np.ones(12, np.float32)) == 2).all()
