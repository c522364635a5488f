"""TVM's calling convention: arrays on a device, outputs passed and filled, times by `time_evaluator`."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import tvm
from autosched.tvm import te


def vector_add(target: str):
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute(a.shape, lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    if target == "opencl":
        bx, tx = s[c].split(c.op.axis[0], factor=64)
        s[c].bind(bx, te.thread_axis("blockIdx.x"))
        s[c].bind(tx, te.thread_axis("threadIdx.x"))
    return tvm.build(s, [a, b, c], tvm.target.Target(target, host="llvm"), name="myadd")


@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_outputs_are_arrays_that_are_filled(target: str) -> None:
    fadd = vector_add(target)
    dev = tvm.device(target, 0)
    n = 1024
    a = tvm.nd.array(np.random.default_rng(0).random(n).astype("float32"), dev)
    b = tvm.nd.array(np.random.default_rng(1).random(n).astype("float32"), dev)
    c = tvm.nd.array(np.zeros(n, dtype="float32"), dev)
    fadd(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
    evaluator = fadd.time_evaluator(fadd.entry_name, dev, number=3, repeat=2)
    result = evaluator(a, b, c)
    assert result.mean > 0 and len(result.results) == 2
    assert isinstance(c, tvm.nd.NDArray) and c.shape == (n,) and c.dtype == "float32"


def test_a_library_with_the_function(tmp_path) -> None:
    fadd = vector_add("llvm")
    fadd.export_library(str(tmp_path / "myadd.so"))
    again = tvm.runtime.load_module(str(tmp_path / "myadd.so"))
    a, c = np.arange(9, dtype="float32"), np.zeros(9, "float32")
    again(a, a, c)
    assert np.array_equal(c, 2 * a)


def test_devices() -> None:
    assert tvm.cpu(0).exist and tvm.cpu().device_type == 1
    assert tvm.device("opencl", 0).device_type == tvm.opencl(0).device_type == 4
    out = tvm.nd.empty((2, 3), "float32", tvm.cpu())
    assert out.shape == (2, 3)


def test_what_devices_and_targets_say_of_themselves() -> None:
    host, other = tvm.cpu(), tvm.device("vulkan")
    assert host.multi_processor_count >= 1 and host.total_global_memory > 1 << 20 and host.warp_size is None
    assert [other.max_thread_dimensions, other.max_shared_memory_per_block, other.compute_version] == [None] * 3
    llvm, opencl = tvm.target.Target("llvm -num-cores=3 -libs=mkl,cblas"), tvm.target.Target("opencl")
    assert llvm.num_cores == llvm.max_num_threads == 3 and llvm.libs == ["mkl", "cblas"]
    assert tvm.target.Target("opencl -max_threads_per_block=64").max_num_threads == 64
    assert (llvm.get_target_device_type(), opencl.get_target_device_type()) == (1, 4)
    assert opencl.with_host(llvm) == tvm.target.Target("opencl", host=llvm) != opencl
    assert {"llvm", "c", "opencl"} <= set(tvm.target.Target.list_kinds())


def test_functions_of_a_module_and_capsules() -> None:
    fadd = vector_add("llvm")
    assert fadd.entry_func is fadd.get_function(fadd.entry_name) is fadd and fadd.same_as(fadd)
    assert fadd.implements_function(fadd.entry_name) and not fadd.implements_function("other")
    a = tvm.nd.array(np.arange(3, dtype="float32"))
    np.testing.assert_array_equal(tvm.nd.from_dlpack(a.to_dlpack()).numpy(), a.numpy())
    assert a.same_as(a) and not a.same_as(tvm.nd.array(a.numpy()))


def test_views_share_memory() -> None:
    a = tvm.nd.array(np.arange(24, dtype="int32"))
    view = a._create_view((2, 4), relative_byte_offset=32)
    np.testing.assert_array_equal(view.numpy(), np.arange(8, 16).reshape(2, 4))
    view[0, 0] = 100
    assert a.numpy()[8] == 100
    inner = view._create_view([4], "uint8", 16)
    np.testing.assert_array_equal(inner.numpy(), [12, 0, 0, 0])
    x = te.placeholder((8,), "int32", name="A")
    y = te.compute((8,), lambda i: x[i] + 1, name="B")
    add_one = tvm.build(te.create_schedule(y.op), [x, y])
    add_one(a._create_view((8,)), a._create_view((8,), relative_byte_offset=64))
    np.testing.assert_array_equal(a.numpy()[16:], np.arange(1, 9))
    for shape, offset, why in (
        ((25,), 0, "only contains 96 bytes"),
        ((8,), 72, "72 <= i_byte < 104"),
        ((2,), 2, "begin"),
    ):
        with pytest.raises(ValueError, match=why):
            a._create_view(shape, relative_byte_offset=offset)
