"""Functions that a target brings, as TVM's guide to intrinsics shows: by their C name, unified, and with rules
of one's own."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autosched import tvm
from autosched.tvm import te


def on_opencl(make):
    """The source and the result of an element-wise function on OpenCL, and on what it was applied to."""
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute(a.shape, lambda i: make(a[i]), name="B")
    s = te.create_schedule(b.op)
    bx, tx = s[b].split(b.op.axis[0], factor=64)
    s[b].bind(bx, te.thread_axis("blockIdx.x"))
    s[b].bind(tx, te.thread_axis("threadIdx.x"))
    module = tvm.build(s, [a, b], "opencl", name="mine")
    x = np.linspace(0.5, 3, 100, dtype="float32")
    out = np.zeros_like(x)
    module(x, out)
    return module.source, x, out


def test_a_function_of_the_target_by_its_name() -> None:
    source, x, out = on_opencl(lambda v: tvm.tir.call_pure_extern("float32", "exp10", v))
    assert "exp10(" in source
    tvm.testing.assert_allclose(out, 10**x, rtol=1e-5)


def test_a_function_of_the_c_library_on_the_cpu() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: tvm.tir.call_pure_extern("float32", "cbrtf", a[i]), name="B")
    x = np.arange(8, dtype="float32")
    out = np.zeros_like(x)
    tvm.build(te.create_schedule(b.op), [a, b], "llvm")(x, out)
    tvm.testing.assert_allclose(out, np.cbrt(x), rtol=1e-6)


def test_a_unified_function() -> None:
    source, x, out = on_opencl(te.exp)
    assert "exp(" in source
    tvm.testing.assert_allclose(out, np.exp(x), rtol=1e-5)


def test_an_intrinsic_of_one_s_own() -> None:
    def rule(op):
        return tvm.tir.call_pure_extern("float32", "log1p", op.args[0]) if op.dtype == "float32" else op

    tvm.ir.register_op_attr("tir.guide_log1p", "TCallEffectKind", tvm.tir.CallEffectKind.Pure)
    tvm.ir.register_intrin_lowering("tir.guide_log1p", target="opencl", f=rule, level=99)
    assert tvm.ir.Op.get("tir.guide_log1p").get_attr("TCallEffectKind") == tvm.tir.CallEffectKind.Pure
    source, x, out = on_opencl(lambda v: tvm.tir.call_intrin("float32", "tir.guide_log1p", v))
    assert "log1p(" in source
    tvm.testing.assert_allclose(out, np.log1p(x), rtol=1e-5)


def test_an_intrinsic_without_a_rule_for_the_target() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: tvm.tir.call_intrin("float32", "tir.nobody_knows", a[i]), name="B")
    with pytest.raises(tvm.TVMError, match=r"tir\.nobody_knows"):
        tvm.build(te.create_schedule(b.op), [a, b], "llvm")


def test_a_python_function_by_name() -> None:
    @tvm.register_func("guide.halve", override=True)
    def halve(x: float) -> float:
        return math.floor(x / 2)

    assert tvm.get_global_func("guide.halve")(9) == 4
    a = te.placeholder((6,), name="A")
    b = te.compute((6,), lambda i: tvm.tir.call_packed("guide.halve", a[i], dtype="float32"), name="B")
    x = np.arange(6, dtype="float32")
    out = np.zeros_like(x)
    tvm.build(te.create_schedule(b.op), [a, b], "llvm")(x, out)
    assert np.array_equal(out, x // 2)


def test_calls_are_nodes() -> None:
    x = te.var("x", "float32")
    call = tvm.tir.call_pure_extern("float32", "log", x)
    assert isinstance(call, tvm.tir.Call) and call.args[0] is x
    assert isinstance(tvm.tir.Call("float32", "tir.exp", [x]), tvm.tir.Call)
    assert isinstance(tvm.tir.Evaluate(call), tvm.tir.Evaluate)
    assert tvm.tir.shift_left(te.var("k"), 2).op == "shl" and tvm.tir.infinity("float32").value == math.inf
