"""What kernels are called: after their function, so that profilers and sources of several modules tell them apart."""

from __future__ import annotations

from autosched import create_schedule, te
from autosched.codegen.c_family import compile_opencl
from autosched.ir.stmt import Launch, walk
from autosched.lowering.pipeline import lower_structure
from autosched.target import Target
from autosched.tvm import build


def program() -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1, name="B")
    return a, b, te.compute((64,), lambda i: b[i] * 2, name="C")


def test_several_kernels_name_what_they_compute() -> None:
    a, b, c = program()
    s = create_schedule(c)
    for t in (b, c):
        s[t].bind(s[t].op.axis[0], "threadIdx.x")
    f = lower_structure(s, [a, c], "opencl", "f").bind({})
    assert [x.name for x in walk(f.body) if isinstance(x, Launch)] == ["f_B_kernel", "f_C_kernel"]
    source = compile_opencl(f, Target.parse("opencl")).texts["source"]
    assert "void f_B_kernel(" in source
    assert "void f_C_kernel(" in source


def test_one_kernel() -> None:
    a, b, _ = program()
    s = create_schedule(b)
    s[b].bind(s[b].op.axis[0], "threadIdx.x")
    source = build(s, [a, b], "opencl", name="mysigm").imported_modules[0].get_source()
    assert "void mysigm_kernel(" in source
