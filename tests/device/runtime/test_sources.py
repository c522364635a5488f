"""C and LLVM assembly of the user's, called by intrinsics and expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.building import build
from autosched.errors import BuildError
from autosched.ir.calls import call_extern, call_pure_extern
from autosched.lowering.pipeline import lower_structure
from autosched.runtime.c_compiler import find_compiler
from autosched.runtime.interpreter import interpret
from autosched.runtime.registry import import_c, import_llvm
from autosched.schedule.schedule import create_schedule

_DOT = """
int test_sources_dot(float *c, const float *a, const float *b, int rows, int length, int stride) {
  for (int i = 0; i < rows; ++i)
    for (int k = 0; k < length; ++k) c[i] += a[k] * b[i * stride + k];
  return 0;
}
int test_sources_clear(float *c, int rows) {
  for (int i = 0; i < rows; ++i) c[i] = 0;
  return 0;
}
"""


@pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")
def test_a_micro_kernel_in_c() -> None:
    """TVM's tutorial of tensorize: a row of tiles of a matrix product by a function in C."""
    import_c(_DOT, "test_sources")
    length, rows = 16, 8
    a, b = te.placeholder((length,), name="a"), te.placeholder((rows, length), name="b")
    k = te.reduce_axis((0, length), name="k")
    c = te.compute((rows,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")

    def fcompute(ins: Any, outs: Any) -> Any:
        pointers = [x.access_ptr("rw") for x in (*outs, *ins)]
        update = call_extern("int32", "test_sources_dot", *pointers, rows, length, ins[1].strides[0])
        reset = call_extern("int32", "test_sources_clear", outs[0].access_ptr("w"), rows)
        return [reset, update], reset, update

    x, y = te.placeholder((32, 64), name="X"), te.placeholder((24, 64), name="Y")
    r = te.reduce_axis((0, 64), name="r")
    z = te.compute((32, 24), lambda i, j: te.sum(x[i, r] * y[j, r], axis=r), name="Z")
    s = create_schedule(z)
    jo, ji = s[z].split("j", factor=rows)
    ro, ri = s[z].split("r", factor=length)
    s[z].reorder("i", jo, ro, ji, ri)
    s[z].parallel("i")
    s[z].tensorize(ji, te.decl_tensor_intrin(c.op, fcompute, name="test_sources"))
    rng = np.random.default_rng(3)
    given = [rng.integers(-3, 4, n).astype("float32") for n in ((32, 64), (24, 64))]
    slow = np.zeros((32, 24), "float32")
    interpret(lower_structure(s, [x, y, z], "llvm").bind({}), [*given, slow])
    np.testing.assert_array_equal(slow, given[0] @ given[1].T)
    for target in ("llvm", "c"):
        np.testing.assert_array_equal(build(s, target, args=[x, y, z])(*given), given[0] @ given[1].T)


def test_a_function_in_llvm_assembly() -> None:
    import_llvm(
        """
        define float @test_sources_cube(float %x) {
          %s = fmul float %x, %x
          %c = fmul float %s, %x
          ret float %c
        }
        """
    )
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: call_pure_extern("float32", "test_sources_cube", a[i]), name="B")
    x = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(build(create_schedule(b), args=[a, b])(x), x**3)


def test_sources_that_do_not_compile() -> None:
    with pytest.raises(BuildError, match="import_llvm imported: LLVM refuses it"):
        import_llvm("define nonsense")
    with pytest.raises(BuildError, match="it defines no function that others may call"):
        import_llvm("declare float @f(float)")
    if find_compiler() is not None:
        with pytest.raises(BuildError, match="failed with status"):
            import_c("int f( {")
