"""A pass of one's own between the phases of lowering, as TVM's guide for extending it shows: loops whose
extent is a multiple of eight become vector loops."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import tvm
from autosched.ir.stmt import For, Store, walk
from autosched.tvm import te, tir


class Vectorizer:
    """The pass: it finds loops, then splits them; `found` are their names."""

    def __init__(self) -> None:
        self.loops: list = []

    def find_width8(self, op) -> None:
        if isinstance(op, tir.For) and isinstance(op.extent, tir.IntImm) and op.extent.value % 8 == 0:
            self.loops.append(op)

    def vectorize8(self, op):
        if op not in self.loops:
            return None
        name = op.loop_var.name
        lo, li = te.var(name + ".outer"), te.var(name + ".inner")
        body = tir.stmt_functor.substitute(op.body, {op.loop_var: lo * 8 + li})
        body = tir.For(li, 0, 8, tir.ForKind.VECTORIZED, body)
        return tir.For(lo, 0, op.extent.value // 8, tir.ForKind.SERIAL, body)

    def as_pass(self):
        @tir.transform.prim_func_pass(opt_level=0)
        def vectorize(f, mod, ctx):
            self.loops = []
            tir.stmt_functor.post_order_visit(f.body, self.find_width8)
            if not self.loops:
                return f
            return f.with_body(tir.stmt_functor.ir_transform(f.body, None, self.vectorize8, ["tir.For"]))

        return vectorize


def sums(n: int):
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")
    c = te.compute((n,), lambda i: a[i] + b[i], name="c")
    return [a, b, c], te.create_schedule(c.op)


@pytest.mark.parametrize("n", [128, 30])
def test_loops_become_vectors(n: int) -> None:
    args, s = sums(n)
    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, Vectorizer().as_pass())]}):
        function = tvm.lower(s, args)["main"]
        module = tvm.build(s, args, "llvm")
    lanes = [x.value.dtype.lanes for x in walk(function.body) if isinstance(x, Store)]
    assert lanes == ([8] if n == 128 else [1])
    a, b = np.random.default_rng(n).random((2, n), dtype="float32")
    c = np.zeros(n, "float32")
    module(a, b, c)
    assert np.array_equal(c, a + b)
    plain = tvm.lower(s, args)["main"]
    assert [x.value.dtype.lanes for x in walk(plain.body) if isinstance(x, Store)] == [1]


def test_a_pass_over_a_module_by_itself() -> None:
    """Without a context: lower, change, build what came out."""
    args, s = sums(64)
    module = tvm.lower(s, args, simple_mode=True)
    changed = Vectorizer().as_pass()(module)
    assert "for i_inner in T.vectorized(8):" in str(changed)
    a, b = np.random.default_rng(1).random((2, 64), dtype="float32")
    c = np.zeros(64, "float32")
    tvm.build(changed, target="llvm")(a, b, c)
    assert np.array_equal(c, a + b)


def test_built_in_passes_one_by_one() -> None:
    a = te.placeholder((16,), name="a")
    b = te.compute((16,), lambda i: a[i] * 2, name="b")
    s = te.create_schedule(b.op)
    s[b].unroll(s[b].split(b.op.axis[0], factor=4)[1])
    module = tvm.lower(s, [a, b], simple_mode=True)
    steps = tvm.transform.Sequential(
        [tir.transform.FlattenBuffer(), tir.transform.UnrollLoop(), tir.transform.Simplify()]
    )
    unrolled = steps(module)
    assert str(unrolled).count("a[i_outer * 4") == 4
    s2 = te.create_schedule(b.op)
    s2[b].vectorize(s2[b].split(b.op.axis[0], factor=8)[1])
    flat = tir.transform.FlattenBuffer()(tvm.lower(s2, [a, b], simple_mode=True))
    assert "i_outer * 8:i_outer * 8 + 8" in str(tir.transform.VectorizeLoop()(flat))
    serial = tir.transform.VectorizeLoop(False)(flat)
    assert [x.kind for x in walk(serial["main"].body) if isinstance(x, For)] == ["serial", "serial"]


def test_functions_lowered_for_one_target_are_not_built_for_another() -> None:
    args, s = sums(16)
    with tvm.target.Target("llvm"):
        module = tvm.lower(s, args)
    with pytest.raises(tvm.TVMError, match="it was lowered for llvm"):
        tvm.build(module, target="opencl")
    c = np.zeros(16, "float32")
    tvm.build(module, target="llvm")(np.ones(16, "float32"), np.ones(16, "float32"), c)
    assert (c == 2).all()


def test_a_pass_on_programs_that_change_values() -> None:
    """The product becomes a sum of copies: what a pass writes is what runs."""
    a = te.placeholder((16,), "int32", name="a")
    b = te.compute((16,), lambda i: a[i] * 2, name="b")
    s = te.create_schedule(b.op)

    def no_products(op):
        return op.a + op.a if isinstance(op, tir.Mul) and isinstance(op.b, tir.IntImm) and op.b.value == 2 else None

    @tir.transform.prim_func_pass(opt_level=0)
    def sums_for_products(f, mod, ctx):
        return f.with_body(tir.stmt_functor.ir_transform(f.body, None, no_products, ["tir.Mul"]))

    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(0, sums_for_products)]}):
        text = str(tvm.lower(s, [a, b]))
        module = tvm.build(s, [a, b])
    assert "a[i] + a[i]" in text and "* 2" not in text
    x = np.arange(16, dtype="int32")
    assert np.array_equal(module(x), 2 * x)


def test_modules_of_several_functions() -> None:
    args, s = sums(16)
    both = tvm.IRModule({"plain": tvm.lower(s, args)["main"], "wide": tvm.lower(s, args, simple_mode=True)["main"]})
    module = tvm.build(both, target="llvm")
    for name in ("plain", "wide"):
        c = np.zeros(16, "float32")
        module[name](np.ones(16, "float32"), np.ones(16, "float32"), c)
        assert (c == 2).all()
    assert module.entry_name == "plain" and isinstance(module, tvm.runtime.Module)
