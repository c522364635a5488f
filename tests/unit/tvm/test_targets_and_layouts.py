"""Functions for kinds of targets, layouts by letters, and small things that programs ask for."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from autosched import tvm
from autosched.errors import ScheduleError, UsageError, UsageTypeError
from autosched.topi import layout_transform
from autosched.tvm import te, tir


def test_a_function_for_each_kind_of_target() -> None:
    @tvm.target.generic_func
    def lanes(times: int) -> int:
        return 4 * times

    @lanes.register(["cuda", "gpu"])
    def _(times: int) -> int:
        return times

    lanes.register(lambda times: 8 * times, "arm_cpu")
    assert lanes(2) == 8 and "lanes" in lanes.__name__
    for target, expected in {"cuda": 2, "opencl": 2, "llvm": 8, "llvm -device=arm_cpu": 16}.items():
        with tvm.target.Target(target):
            assert lanes(2) == expected, target
    before = lanes.get_packed_func()
    with pytest.raises(UsageError, match="gpu has a function already"):
        lanes.register(len, "gpu")
    lanes.register(lambda times: -times, "gpu", allow_override=True)
    with tvm.target.Target("opencl"):
        assert (before(3), lanes(3)) == (3, -3)


def test_functions_by_name() -> None:
    found = tvm.target.get_native_generic_func("a_strategy")
    with pytest.raises(UsageError, match="it has no default"):
        found()

    @tvm.target.override_native_generic_func("a_strategy")
    def a_strategy() -> str:
        return "mine"

    assert a_strategy is found and found() == "mine"
    with pytest.raises(UsageError, match="it has a default already"):
        found.set_default(str)


def test_the_host_of_a_target_in_its_text() -> None:
    assert str(tvm.target.Target("cuda --host llvm").host) == "llvm"
    made = tvm.target.Target("opencl -max_threads_per_block=64 -host='llvm -mcpu=znver3'")
    assert made.host.mcpu == "znver3" and made.max_threads_per_block == 64  # type: ignore[union-attr]


def test_letters_of_a_layout() -> None:
    blocks = tir.layout("OIHW16i4o")
    assert str(blocks) == "OIHW16i4o" and len(blocks) == 6 and blocks[-1] == "o" and "i" in blocks and "N" not in blocks
    assert [blocks.index_of(x) for x in "OIHWioN"] == [0, 1, 2, 3, 4, 5, -1]
    assert [blocks.factor_of(x) for x in "OIHWio"] == [4, 16, -1, -1, 16, 4]
    for wrong in ("NCHc", "NN", "NCHW16", "16c", "N C"):
        with pytest.raises(UsageError, match="it is no layout"):
            tir.layout(wrong)
    with pytest.raises(UsageTypeError, match="no type of indices"):
        tir.layout("NCHW", "float32")
    assert tir.bijective_layout("NCHW", "ABCD") is None and tir.bijective_layout("", "NCHW") is None


@pytest.mark.parametrize("layouts", [("NCHW", "NCHW4c"), ("NCHW4c", "NHWC8c"), ("NHWC", "CWHN"), ("NCHW2n", "NCHW4c")])
def test_places_in_another_layout(layouts: tuple[str, str]) -> None:
    both = tir.bijective_layout(*layouts)
    assert both is not None
    shape = [{"N": 2, "C": 2, "H": 3, "W": 5}.get(x, 0) or both.src.factor_of(x) for x, _ in both.src.parts]
    a = np.arange(1, 1 + np.prod(shape)).reshape(shape).astype("int32")
    A = te.placeholder(shape, "int32", name="A")
    B = layout_transform(A, *layouts)
    moved = np.zeros([int(d) for d in both.forward_shape(shape)], "int32")
    assert [int(d) for d in B.shape] == list(moved.shape)
    for place in np.ndindex(*shape):
        there = tuple(int(i) for i in both.forward_index(place))
        assert tuple(int(i) for i in both.backward_index(there)) == place
        moved[there] = a[place]
    b = np.zeros(moved.shape, "int32")
    tvm.build(te.create_schedule(B.op), [A, B], "llvm")(a, b)
    np.testing.assert_array_equal(b, moved)
    with pytest.raises(UsageError, match="axes"):
        both.forward_shape(shape[1:])


def test_several_modules_are_built_as_one() -> None:
    A = te.placeholder((8,), name="A")
    made = []
    for k in (1, 2):
        B = te.compute((8,), lambda i, k=k: A[i] + k, name="B")
        made.append(tvm.lower(te.create_schedule(B.op), [A, B], name=f"add{k}"))
    module = tvm.build(made, "llvm")
    for k in (1, 2):
        b = np.zeros(8, "float32")
        module[f"add{k}"](np.zeros(8, "float32"), b)
        assert (b == k).all()
    with pytest.raises(UsageError, match="two functions are called add1"):
        tvm.build([made[0], made[0]], "llvm")


def test_bits_of_bfloat16() -> None:
    bits = np.array([0x3F80, 0xC000, 0x3F00], "uint16")
    a = tvm.nd.empty((3,), "bfloat16").copyfrom(bits)
    assert a.numpy().astype("float32").tolist() == [1, -2, 0.5] and (a.numpy().view("uint16") == bits).all()
    assert tvm.nd.empty((3,), "float32").copyfrom(bits).numpy()[0] == 0x3F80
    assert [tvm.DataType(x).itemsize() for x in ("float32", "float32x4", "bool")] == [4, 16, 1]  # type: ignore[attr-defined]


def test_literals_that_a_type_does_not_hold() -> None:
    assert [tir.IntImm("uint8", 255).value, tir.IntImm("int8", -128).value] == [255, -128]
    for of, value in (("int8", 128), ("uint8", -1), ("uint64", 2**64)):
        with pytest.raises(UsageError, match=f"what {of} holds"):
            tir.IntImm(of, value)


def test_numbers_of_intrinsics() -> None:
    names = ["llvm.fma", "llvm.ctpop.i32"]
    numbers = [tvm.target.codegen.llvm_lookup_intrinsic_id(name) for name in names]
    assert [tvm.target.codegen.llvm_get_intrinsic_name(n) for n in numbers] == names and 0 not in numbers
    assert tvm.target.codegen.llvm_lookup_intrinsic_id("fma") == 0
    for number in (0, -1, 1000):
        with pytest.raises(UsageError, match="no intrinsic has it"):
            tvm.target.codegen.llvm_get_intrinsic_name(number)


def test_names_of_executors() -> None:
    from autosched.tvm.relay.backend import Executor, Runtime

    runtime = Runtime("cpp", {"system-lib": True})
    assert runtime["system-lib"] and "link-params" not in Executor("graph") and "crt" in Runtime.list_registered()
    with pytest.raises(UsageError, match="there is no such one"):
        Executor("vm")
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1, name="B")
    b = np.zeros(8, "float32")
    tvm.build(te.create_schedule(B.op), [A, B], "llvm", runtime=runtime)(b, c := np.zeros(8, "float32"))
    assert (c == 1).all()


def test_the_first_of_threads_that_a_stage_has_no_loop_for() -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], 16)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.y"))
    x = te.thread_axis("threadIdx.x")
    s[B].set_store_predicate(x.var.equal(0))
    assert s[B].store_predicate is None
    with pytest.raises(ScheduleError, match=r"threadIdx.x is no loop"):
        s[B].set_store_predicate(x.var < 3)


def test_files_of_topi() -> None:
    program = """
import autosched.tvm.install
from tvm.topi.math import cast
from tvm.topi.testing.conv2d_nchw_python import conv2d_nchw_python
from tvm.topi.testing.resize_python import resize2d_python
from tvm.topi.nn.loss import nll_loss
from tvm.topi.vision.rcnn.roi_align import roi_align_nchw
from tvm.topi.image.resize import resize2d
import tvm.topi.testing
print(tvm.topi.testing.conv2d_nchw_python.__name__, callable(tvm.topi.testing.conv2d_nchw_python))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "True" in done.stdout, done.stderr
