"""Names of TVM 0.5 to 0.7, in programs for these."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from autosched import tvm
from autosched.errors import UsageError
from autosched.tvm._missing import FORMER


@pytest.mark.parametrize("name", FORMER)
def test_modules(name: str) -> None:
    assert import_module(f"autosched.tvm.{name}") is import_module(f"autosched.tvm.{FORMER[name]}")
    if "." not in name:
        assert getattr(tvm, name) is import_module(f"autosched.tvm.{FORMER[name]}")


def test_a_program(tmp_path) -> None:
    n = tvm.var("n")
    a = tvm.placeholder((n,), name="A")
    b = tvm.compute(a.shape, lambda i: tvm.call_pure_intrin("float32", "exp", a[i]), name="B")
    s = tvm.create_schedule(b.op)
    with tvm.build_config(auto_unroll_max_step=4, unroll_explicit=False, offset_factor=1):
        assert tvm.transform.PassContext.current().option("tir.UnrollLoop") == {
            "auto_max_step": 4,
            "explicit_unroll": False,
        }
        f = tvm.build(s, [a, b], "llvm", target_host="llvm", name="exps")
    f.export_library(str(tmp_path / "x.so"))
    f = tvm.module.load(str(tmp_path / "x.so"))
    ctx = tvm.context("llvm", 0)
    x, y = tvm.nd.array(np.arange(4, dtype="float32"), ctx), tvm.nd.array(np.zeros(4, "float32"), ctx=ctx)
    f(x, y)
    np.testing.assert_allclose(y.asnumpy(), np.exp(np.arange(4)), rtol=1e-6)
    assert f.time_evaluator(f.entry_name, ctx=ctx, number=1)(x, y).mean > 0
    with pytest.raises(UsageError, match="no option 'tir.detect'"):
        tvm.build_config(detect=True)


def test_passes_and_loops_of_tvm_0_6(capsys: pytest.CaptureFixture[str]) -> None:
    a = tvm.placeholder((16,), name="A", dtype=tvm.float32)
    b = tvm.compute(a.shape, lambda i: tvm.sin(a[i]), name="B")
    s = tvm.create_schedule(b.op)
    found = []

    def in_vectors(loop):
        if loop not in found:
            return None
        outer, inner = tvm.var(loop.loop_var.name + ".outer"), tvm.var(loop.loop_var.name + ".inner")
        body = tvm.ir_pass.Substitute(loop.body, {loop.loop_var: outer * 8 + inner})
        body = tvm.make.For(inner, 0, 8, tvm.stmt.For.Vectorized, 0, body)
        return tvm.make.For(outer, 0, 2, tvm.stmt.For.Serial, 0, body)

    def rewritten(stmt):
        tvm.ir_pass.PostOrderVisit(stmt, lambda op: found.append(op) if isinstance(op, tvm.stmt.For) else None)
        return tvm.ir_pass.IRTransform(stmt, None, in_vectors, ["For"])

    print(rewritten(tvm.lower(s, [a, b], simple_mode=True)))
    said = capsys.readouterr().out
    assert (
        "for i_outer in range(2):\n    for i_inner in T.vectorized(8):\n        B[i_outer * 8 + i_inner] = T.sin("
        in said
    )
    with tvm.build_config(add_lower_pass=[(1, rewritten)]):
        assert "B[i_outer * 8:i_outer * 8 + 8]" in str(tvm.lower(s, [a, b], simple_mode=True))
        f = tvm.build(s, [a, b], "llvm")
    x, y = np.arange(16, dtype="float32"), np.zeros(16, "float32")
    f(x, y)
    np.testing.assert_allclose(y, np.sin(x), rtol=1e-5)
    x = tvm.var("x")
    assert tvm.ir_pass.Simplify(x + 1 - x).value == 1 and tvm.ir_pass.Equal(x, x) and not tvm.ir_pass.Equal(x, x + 1)
    small = tvm.ir_pass.Simplify(x // 8, {x: tvm.arith.Range(0, 8)})
    assert small.value == 0


@pytest.mark.parametrize("register", [tvm.register_intrin_rule, tvm.target.register_intrin_rule])
def test_rules_for_intrinsics_as_tvm_0_6_spelled_them(register) -> None:
    register("llvm", "half_of", lambda op: op.args[0] * 0.5, override=True)

    @register("llvm", "twice_of", override=True)
    def rule(op):
        return op.args[0] * 2.0

    a = tvm.placeholder((4,), name="A")
    b = tvm.compute(
        (4,),
        lambda i: tvm.call_pure_intrin("float32", "half_of", a[i]) + tvm.call_pure_intrin("float32", "twice_of", a[i]),
    )
    x, y = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    tvm.build(tvm.create_schedule(b.op), [a, b], "llvm")(x, y)
    np.testing.assert_array_equal(y, 2.5 * x)


def test_a_template_without_a_name() -> None:
    @tvm.autotvm.template
    def plus_one_of_0_6(n):
        a = tvm.placeholder((n,), name="A")
        b = tvm.compute((n,), lambda i: a[i] + 1.0, name="B")
        s = tvm.create_schedule(b.op)
        tvm.autotvm.get_config().define_split("tile", b.op.axis[0], num_outputs=2)
        return s, [a, b]

    task = tvm.autotvm.task.create(plus_one_of_0_6, args=(8,), target="llvm")
    assert (task.name, len(task.config_space)) == ("plus_one_of_0_6", 4)


def test_intrinsics_by_name() -> None:
    x = tvm.var("x", "float32")
    assert tvm.tir.call_intrin("float32", "tir.exp", x) is tvm.te.exp(x)
    assert tvm.tir.call_intrin("float32", "tir.pow", x, x) is tvm.te.power(x, x)
    assert tvm.tir.call_intrin("float16", "tir.exp", x).value != tvm.te.exp(x).value
