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


def test_intrinsics_by_name() -> None:
    x = tvm.var("x", "float32")
    assert tvm.tir.call_intrin("float32", "tir.exp", x) is tvm.te.exp(x)
    assert tvm.tir.call_intrin("float32", "tir.pow", x, x) is tvm.te.power(x, x)
    assert tvm.tir.call_intrin("float16", "tir.exp", x).value != tvm.te.exp(x).value
