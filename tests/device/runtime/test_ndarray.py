"""Arrays and devices by TVM's names: copies, DLPack, and memory that stays on the device."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import autosched
from autosched import device, nd, te
from autosched.errors import BuildError, DeviceError, TargetError, UsageError
from autosched.ir.dtype import SCALAR_DTYPES
from autosched.runtime import opencl as opencl_runtime
from autosched.runtime.device import Device
from autosched.runtime.module import Module
from autosched.space.default import default_schedule
from autosched.target import Target

X = np.arange(12, dtype=np.float32).reshape(3, 4)
PLACES = ["cpu", "opencl"]


def increment(target: str) -> Module:
    n = te.var("n")
    a = te.placeholder((n, 4), name="a")
    b = te.compute((n, 4), lambda i, j: a[i, j] + 1, name="b")
    return autosched.build(default_schedule([a, b], Target(target)), target)


@pytest.fixture(scope="module")
def on_device() -> Module:
    return increment("opencl")


# -- arrays --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
def test_values_come_back(place: str) -> None:
    for of in SCALAR_DTYPES:
        x = (np.arange(6).reshape(2, 3) % 2).astype(of)
        a = nd.array(x, device(place))
        assert (a.shape, a.dtype, a.ndim, a.nbytes, len(a)) == ((2, 3), of, 2, x.nbytes, 2)
        assert a.device == Device(place, 0) and a.numpy().dtype == x.dtype
        np.testing.assert_array_equal(a.numpy(), x)
    for shape in ((), (0,), (2, 0, 3)):
        a = nd.array(np.ones(shape, "int8"), place)
        assert a.shape == shape == a.asnumpy().shape
    assert nd.empty(5, "uint16", place).shape == (5,)


@pytest.mark.parametrize("shape", [(16,), (33, 7), (1000,), (300, 300), (16, 0)])
def test_arrays_begin_with_a_cache_line(shape: tuple[int, ...]) -> None:
    """Vectors of 64 bytes lie in one line each then; NumPy's own arrays begin 16 bytes after one, mostly."""
    for of in SCALAR_DTYPES:
        for _ in range(3):
            a = nd.empty(shape, of)
            assert a.shape == shape and a.view().flags.writeable and a.view().flags.c_contiguous
            assert a.nbytes < 64 or a.view().ctypes.data % 64 == 0


@pytest.mark.parametrize("place", PLACES)
def test_copies_are_copies(place: str) -> None:
    x = X.copy()
    a = nd.array(x, place)
    x[...] = 0
    np.testing.assert_array_equal(a.numpy(), X)
    a.numpy()[...] = 0
    np.testing.assert_array_equal(a.numpy(), X)
    b = nd.empty((3, 4), "float32", place)
    assert a.copyto(b) is b
    a[:] = 7
    np.testing.assert_array_equal(b.numpy(), X)
    np.testing.assert_array_equal(a.numpy(), np.full_like(X, 7))
    np.testing.assert_array_equal(b.copyto(device("cpu")).numpy(), X)
    np.testing.assert_array_equal(nd.array(X[:, ::-1].T, place).numpy(), X[:, ::-1].T)
    np.testing.assert_array_equal(b.copyfrom(X * 2)[1:], X[1:] * 2)
    with pytest.raises(UsageError, match=r"it has shape \(4,\)"):
        b.copyfrom(np.zeros(4))


def test_what_an_array_on_a_device_cannot_do() -> None:
    a = nd.array(X, "opencl")
    with pytest.raises(UsageError, match="a part of it cannot be written"):
        a[0] = 1
    with pytest.raises(BufferError, match="take a.numpy"):
        a.__dlpack__()
    with pytest.raises(UsageError, match="NumPy cannot see its memory"):
        a.view()
    np.testing.assert_array_equal(np.asarray(a), X)
    assert repr(a).startswith("<NDArray float32[3, 4] on opencl(0)>")


# -- the same memory for others ------------------------------------------------------------------------


def test_numpy_shares_memory_both_ways() -> None:
    x = X.copy()
    a = nd.numpyasarray(x)
    for seen in (np.from_dlpack(a), np.asarray(a), a.view(), nd.from_dlpack(x).view(), nd.from_dlpack(a).view()):
        assert np.shares_memory(seen, x)
    assert a.__dlpack_device__() == (1, 0)
    a[0, 0] = 99
    assert x[0, 0] == 99
    with pytest.raises(UsageError, match="not C-contiguous"):
        nd.from_dlpack(x.T)
    with pytest.raises(UsageError, match="cannot be shared"):
        nd.from_dlpack("text")


def test_memory_of_a_capsule_may_be_written() -> None:
    x, out = X.copy(), np.zeros((3, 4), np.float32)
    given, result = nd.from_dlpack(x.__dlpack__()), nd.from_dlpack(out.__dlpack__())
    del x
    increment("llvm")(given, result)
    np.testing.assert_array_equal(out, X + 1)
    np.testing.assert_array_equal(nd.from_dlpack(result).numpy(), X + 1)


def test_memory_outlives_whoever_made_it() -> None:
    a = nd.from_dlpack(nd.array(X))
    seen = np.from_dlpack(a)
    del a
    gc.collect()
    np.testing.assert_array_equal(seen, X)


def test_torch_shares_memory_both_ways() -> None:
    torch = pytest.importorskip("torch")
    t = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    a = nd.from_dlpack(t)
    t[0, 0] = 50
    assert a.numpy()[0, 0] == 50
    back = torch.from_dlpack(a)
    assert back.data_ptr() == t.data_ptr()
    out = nd.empty((3, 4))
    increment("llvm")(a, out)
    np.testing.assert_array_equal(torch.from_dlpack(out).numpy(), t.numpy() + 1)
    np.testing.assert_array_equal(increment("llvm")(t), t.numpy() + 1)


# -- calls ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["llvm", "opencl"])
@pytest.mark.parametrize("place", PLACES)
def test_calls_take_arrays_from_anywhere(target: str, place: str, on_device: Module) -> None:
    module = on_device if target == "opencl" else increment(target)
    a, b = nd.array(X, place), nd.empty((3, 4), "float32", place)
    module(a, b)
    np.testing.assert_array_equal(b.numpy(), X + 1)
    out = np.zeros_like(X)
    module(b, out)
    np.testing.assert_array_equal(out, X + 2)
    found = module(a)
    np.testing.assert_array_equal(np.asarray(found), X + 1)
    assert len(module.time(a, b, number=2, repeat=2)) == 2
    assert len(module.time_evaluator("b", a.device, number=2, repeat=2)(a, b).results) == 2


def test_arrays_stay_on_the_device_between_calls(on_device: Module, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = nd.array(X, "opencl"), nd.empty((3, 4), "float32", "opencl")
    cl = opencl_runtime.opencl()

    def never(*args: object, **options: object) -> None:
        raise AssertionError("something was copied")

    with monkeypatch.context() as m:
        m.setattr(cl, "enqueue_copy", never)
        on_device(a, b)
        c = on_device(b)
    assert c.device == Device("opencl", 0)
    np.testing.assert_array_equal(c.numpy(), X + 2)


def test_wrong_arrays_on_devices_are_refused(on_device: Module) -> None:
    a = nd.array(X, "opencl")
    for wrong, why in [
        ((nd.array(X.astype("float64"), "opencl"),), "needs float32, got float64"),
        ((a, nd.empty((2, 4), "float32", "opencl")), "dimension 0 is 2"),
        ((a, a), "shares memory with argument 'a'"),
        ((a, a, a), "takes 1 arrays, or 2"),
    ]:
        with pytest.raises(BuildError, match=why):
            on_device(*wrong)


# -- devices -------------------------------------------------------------------------------------------


def test_devices_by_name() -> None:
    assert device("cpu") == device("llvm") == device("c") == nd.cpu() == Device("cpu", 0)
    assert device("opencl", 1) == device("cl:1") == Device("opencl", 1)
    assert [device(n).device_type for n in ("cpu", "cuda", "opencl")] == [1, 2, 4]
    assert str(device("cuda", 2)) == "cuda(2)"
    for wrong in ("tpu", "", "cpu:x"):
        with pytest.raises(TargetError, match=r"(?s)no such kind of device.*cpu, cuda, opencl"):
            device(wrong)


def test_what_devices_say_of_themselves() -> None:
    host = device("cpu")
    assert host.exist and host.device_name
    host.sync()
    cl = device("opencl")
    info = opencl_runtime.find_device()
    assert cl.exist and cl.device_name == info.name and cl.max_threads_per_block == info.max_work_group
    cl.sync()


def test_devices_that_are_not_there() -> None:
    absent = device("opencl", 99)
    assert not absent.exist and absent.device_name is None and absent.max_threads_per_block is None
    for place in (absent, device("cpu", -1)):
        with pytest.raises(DeviceError, match="there is no such device"):
            nd.empty((2,), "int8", place)
    with pytest.raises(DeviceError, match=r"(?s)opencl\(99\).*opencl devices: "):
        absent.sync()


def test_the_cpu_has_any_number() -> None:
    """Programs take the number of a GPU for whatever device they run on."""
    a, b = nd.array(X, device("cpu", 3)), nd.empty(X.shape, device="cpu:3")
    assert a.device == Device("cpu", 3) and a.device.exist and not Device("cpu", -1).exist
    np.testing.assert_array_equal(a.copyto(b).numpy(), X)
    np.testing.assert_array_equal(increment("llvm")(a), X + 1)
    assert increment("llvm").time_evaluator("b", device("cpu", 3), number=1)(a, b).mean > 0
