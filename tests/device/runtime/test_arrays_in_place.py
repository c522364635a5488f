"""OpenCL on CPUs: kernels work on NumPy's memory itself, wherever it lies."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autosched
from autosched import te
from autosched.ir.dtype import numpy_dtype
from autosched.runtime import opencl_devices
from autosched.runtime.ndarray import array
from autosched.runtime.opencl import OpenCLBoundCall

pytestmark = pytest.mark.skipif(
    not opencl_devices.find_device().is_cpu,
    reason="the device has memory of its own",
)


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each copy between arrays and buffers."""
    found: list[int] = []
    copy = OpenCLBoundCall._copy

    def counted(self: OpenCLBoundCall, to: Any, source: Any) -> None:
        found.append(to.nbytes if isinstance(to, np.ndarray) else source.nbytes)
        copy(self, to, source)

    monkeypatch.setattr(OpenCLBoundCall, "_copy", counted)
    return found


def module_of(of: str, f: Callable[[Any], Any] = lambda x: x + x) -> Any:
    """`f` of each element, at a symbolic length, with vectors."""
    n = te.var("n")
    a = te.placeholder((n,), of, name="a")
    b = te.compute((n,), lambda i: f(a[i]), name="b")
    s = autosched.create_schedule(b)
    outer, inner = s[b].split(b.op.axis[0], factor=16)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].vectorize(inner)
    return autosched.build(s, "opencl", args=[a, b])


def at_offset(values: np.ndarray[Any, Any], bytes: int) -> np.ndarray[Any, Any]:
    """The values, so many bytes behind a multiple of 64."""
    room = np.zeros(values.nbytes + 128, np.uint8)
    start = -room.ctypes.data % 64 + bytes
    found = room[start : start + values.nbytes].view(values.dtype)
    found[...] = values
    return found


@pytest.mark.parametrize("of", ["float32", "float64", "int8", "uint8", "int16", "bool", "float16", "bfloat16", "int64"])
def test_arrays_at_any_address(of: str, copies: list[int]) -> None:
    module = module_of(of, (lambda x: ~x) if of == "bool" else (lambda x: x + x))
    values = (np.arange(1003) % 50).astype(numpy_dtype(of))
    wanted = ~values if of == "bool" else values + values
    for offset in (0, values.itemsize, 3 * values.itemsize, 64 - values.itemsize):
        x = at_offset(values, offset)
        y = at_offset(np.zeros_like(values), offset)
        module(x, y)
        assert (y == wanted).all() and (x == values).all()
        assert (module(x) == wanted).all()
    assert not copies


def test_inputs_may_be_read_only_and_the_same(copies: list[int]) -> None:
    n = te.var("n")
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")
    c = te.compute((n,), lambda i: a[i] * b[i], name="c")
    module = autosched.build(autosched.create_schedule(c), "opencl", args=[a, b, c])
    x = np.arange(100, dtype=np.float32)
    x.flags.writeable = False
    assert (module(x, x) == x * x).all()
    assert (module(x[10:], x[:-10]) == x[10:] * x[:-10]).all()
    assert not copies


def test_changes_are_seen_in_the_next_call(copies: list[int]) -> None:
    """Without an upload: of the same array, and of others of its shape."""
    module = module_of("float32")
    x, y = np.ones(40, np.float32), np.empty(40, np.float32)
    for value in (1, 2, 3):
        x[:] = value
        module(x, y)
        assert (y == 2 * value).all()
        other = np.full(40, value + 10, np.float32)
        assert (module(other) == 2 * other).all()
    assert not copies


def test_other_drivers_are_asked_to_show_results(monkeypatch: pytest.MonkeyPatch, copies: list[int]) -> None:
    """By mapping what was written, as OpenCL has it."""
    monkeypatch.setattr("autosched.runtime.opencl.is_pocl", lambda platform: False)
    module = module_of("float32")
    for value in (1, 2):
        x = np.full(1000, value, np.float32)
        assert (module(x) == 2 * value).all()
    assert not copies


def test_no_array_is_kept() -> None:
    module = module_of("float32")
    x = np.ones(64, np.float32)
    module(x)
    kept = weakref.ref(x)
    del x
    gc.collect()
    assert kept() is None


def test_empty_arrays_and_arrays_of_the_device() -> None:
    module = module_of("float32")
    assert module(np.zeros(0, np.float32)).shape == (0,)
    x = np.arange(50, dtype=np.float32)
    on_device = array(x, "opencl")
    assert (module(on_device).numpy() == 2 * x).all()
    y = np.zeros(50, np.float32)
    module(on_device, y)  # one of each
    assert (y == 2 * x).all()


def test_kernels_of_a_person_get_memory_of_the_device(copies: list[int]) -> None:
    """Which is aligned for the longest vector: they may read it so."""
    source = """
        __kernel void twice(__global const float16* restrict x, __global float16* restrict y) {
            y[get_global_id(0)] = x[get_global_id(0)] * 2.0f;
        }"""
    x = at_offset(np.arange(64, dtype=np.float32), 4)
    y = np.zeros(64, np.float32)
    _, found = autosched.run_kernel("twice", source, 4, [x, y], {"block_size_x": 1}, lang="OpenCL")
    assert (found == 2 * x).all()
    assert copies
