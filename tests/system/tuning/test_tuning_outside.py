"""Programs that call functions from outside are tuned: workers load the workload's file."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
from autosched import te
from autosched.errors import MeasureError
from autosched.measure.protocol import MeasureOptions
from autosched.space.loading import find_workload
from autosched.space.workload import template, workload

FAST = MeasureOptions(min_repeat_ms=0.2, repeat=2, builders=1)

FILE = """
import numpy as np
from autosched import te, template, workload
from autosched.ir.builder import create
from autosched.ir.calls import call_packed
from autosched.runtime.registry import register_func


@register_func("tests.outside.reverse", override=True)
def reverse(data, result):
    result[...] = data[::-1]


def declare(n):
    x = te.placeholder((n,), name="x")
    y = te.compute((n,), lambda i: x[i] * 2.0, name="y")
    return te.decl_tensor_intrin(
        y.op, lambda ins, outs: outs[0].vstore(0, ins[0].vload(0, f"float32x{n}") * 2.0), name="tests.twice"
    )


TWICE = declare(16)


@workload(inputs=lambda n=64: [np.arange(n, dtype="float32")])
def backwards(n=64):
    a = te.placeholder((n,), name="A")
    b = te.extern((n,), [a], lambda ins, outs: call_packed("tests.outside.reverse", ins[0], outs[0]), name="B")
    c = te.compute((n,), lambda i: b[i] * 2.0, name="C")
    return [a, c]


@template(backwards)
def by_an_intrinsic(s):
    _, inner = s["C"].split("i", factor=16)
    s["C"].tensorize(inner, TWICE)
"""


def test_a_workload_with_a_call_back_and_an_intrinsic(tmp_path):
    (tmp_path / "backwards.py").write_text(FILE)
    found = find_workload("backwards", tmp_path)()
    assert found.files == (str(tmp_path / "backwards.py"),)
    result = autosched.tune(found, "llvm", trials=1, records=tmp_path, strategy="random", measure=FAST)
    assert result.trials == 1
    module = autosched.build(found, records=str(tmp_path))
    assert module.provenance["kind"] == "record"
    x = np.arange(64, dtype="float32")
    np.testing.assert_array_equal(module(x), 2 * x[::-1])


def test_a_worker_says_which_function_it_does_not_know(tmp_path):
    """A script's functions are not known to other processes: loading it there would run it again."""
    from autosched.ir.calls import call_packed
    from autosched.ir.functions import register_func

    register_func("tests.outside.here_only", lambda data, result: result.__setitem__(..., data), override=True)

    @workload(inputs=lambda: [np.zeros(4, "float32")])
    def copied():
        a = te.placeholder((4,), name="A")
        packed = "tests.outside.here_only"
        return [a, te.extern((4,), [a], lambda ins, outs: call_packed(packed, ins[0], outs[0]), name="B")]

    @template(copied)
    def plain(s):
        s.define_knob("unused", [1])

    with pytest.raises(MeasureError, match="no Python function is registered under that name in this process"):
        autosched.tune(copied(), "llvm", trials=1, records=tmp_path, strategy="random", measure=FAST)
