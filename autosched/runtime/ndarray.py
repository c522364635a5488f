"""Arrays: on the CPU over NumPy's memory, on other devices in memory of theirs.

a = nd.array(x, device("opencl"))      # copied to the device, once
module(a, b)                           # calls leave it there
b.numpy()                              # copied back
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.codegen.storage import ALIGNMENT
from autosched.errors import ArgumentError, DeviceError, UsageError, clipped, expect, is_list_of
from autosched.ir.dtype import BFLOAT16, numpy_dtype, unmasked
from autosched.ir.dtype import dtype as dtype_of
from autosched.ir.expr import Expr, is_const
from autosched.runtime.device import Device, cpu, device, driver

__all__ = ["NDArray", "array", "cpu", "device", "empty", "from_dlpack", "numpyasarray"]

Array = np.ndarray[Any, Any]
_find = device


class NDArray:
    """An array of one type on one device, C-contiguous. Make one with `array`, `empty` or `from_dlpack`.

    On the CPU it shares memory with whatever takes `__array_interface__` or DLPack. `shape` is a tuple,
    `dtype` its name as text.
    """

    def __init__(self, shape: tuple[int, ...], of: str, place: Device, host: Array | None, memory: Any) -> None:
        """`host` is its memory on the CPU, `memory` that on another device."""
        self.shape = shape
        self.dtype = of
        self.device = place
        self._host = host
        self.memory = memory

    # -- what it is ---------------------------------------------------------------------------
    @property
    def is_resident(self) -> bool:
        """True for memory of a device, which NumPy cannot see."""
        return self._host is None

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * numpy_dtype(self.dtype).itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<NDArray {self.dtype}{list(self.shape)} on {self.device}>\n{self.numpy()!r}"

    def __reduce__(self) -> tuple[Any, tuple[Array, str]]:
        """Pickle as values, which go to the device of the same name again."""
        return _on_device, (self.numpy(), f"{self.device.kind}:{self.device.device_id}")

    # -- copies -------------------------------------------------------------------------------
    def numpy(self) -> Array:
        """A copy as a NumPy array."""
        if self._host is not None:
            return self._host.copy()
        found = allocate(self.shape, numpy_dtype(self.dtype))
        self.memory.fetch(found)
        return found

    asnumpy = numpy

    def copyfrom(self, source: Any) -> NDArray:
        """Take the values of an array of the same shape. Raises UsageError for another shape."""
        values = source.numpy() if isinstance(source, NDArray) else np.asarray(unmasked(source, "copyfrom"))
        if values.shape != self.shape:
            raise UsageError(
                f"it has shape {values.shape}", asked=f"copyfrom, array of shape {self.shape}", legal="the same shape"
            )
        values = np.ascontiguousarray(values, numpy_dtype(self.dtype)).reshape(self.shape)
        if self._host is not None:
            self._host[...] = values
        else:
            self.memory.upload(values)
        return self

    def copyto(self, target: NDArray | Device) -> NDArray:
        """Copy into another array, or into a new one on a device; returns it."""
        copy: NDArray = _copied(self, target)
        return copy

    def __setitem__(self, key: Any, value: Any) -> None:
        """`a[:] = values`; on the CPU any index of NumPy's."""
        if self._host is not None:
            self._host[key] = value.numpy() if isinstance(value, NDArray) else value
        elif isinstance(key, slice) and key == slice(None):
            self.copyfrom(np.broadcast_to(value.numpy() if isinstance(value, NDArray) else value, self.shape))
        else:
            raise UsageError("a part of it cannot be written", asked=f"array on {self.device}", legal="a[:] = values")

    def __getitem__(self, key: Any) -> Any:
        """The elements that NumPy gives for the index; on the CPU a view."""
        return (self._host if self._host is not None else self.numpy())[key]

    # -- the same memory for others -----------------------------------------------------------
    def view(self) -> Array:
        """The NumPy array over its memory. Raises UsageError for one on another device."""
        if self._host is None:
            raise UsageError(
                "NumPy cannot see its memory", asked=f"array on {self.device}", legal="a.numpy() copies it"
            )
        return self._host

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self._host is None or self.dtype == BFLOAT16:  # whose name an interface has no text for: see `__array__`
            raise AttributeError("__array_interface__")
        return self._host.__array_interface__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self._host is None:
            return self.numpy() if dtype is None else self.numpy().astype(dtype)
        return np.array(self._host, dtype=dtype) if copy else np.asarray(self._host, dtype=dtype)

    def __dlpack__(self, **options: Any) -> Any:
        """Its memory for another library. Raises BufferError for one on another device."""
        if self._host is None:
            raise BufferError(f"an array on {self.device} is not exchanged: take a.numpy()")
        return self._host.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device.device_type, self.device.device_id


class HostArray(np.ndarray[Any, Any]):
    """An array as Python functions get it that generated code calls: NumPy's, with an NDArray's copies."""

    @property
    def device(self) -> Any:
        return cpu(0)

    def numpy(self) -> Array:
        """A copy."""
        return np.array(self)

    asnumpy = numpy

    def copyfrom(self, source: Any) -> HostArray:
        """Take the values of an array of the same shape."""
        values = np.asarray(unmasked(source, "copyfrom"))
        if values.shape != self.shape:
            raise UsageError(f"it has shape {values.shape}", asked=f"copyfrom, array of shape {self.shape}")
        self[...] = values
        return self

    def copyto(self, target: Any) -> Any:
        """Copy into another array, or into a new one on a device; returns it."""
        return _copied(self, target)


def _copied(values: NDArray | HostArray, target: Any) -> Any:
    expect(target, "an nd array or a device", isinstance(target, Device) or hasattr(target, "copyfrom"), "copyto")
    return array(values, target) if isinstance(target, Device) else target.copyfrom(values)


def _on_device(values: Array, name: str) -> NDArray:
    return array(values, name)


def array(values: Any, device: Device | str | None = None, ctx: Device | str | None = None) -> NDArray:
    """A new array with these values. `ctx` is another name for `device`, which is the CPU by default."""
    plain = values.numpy() if isinstance(values, NDArray) else unmasked(values, "nd.array")
    found = np.array(plain, order="C", copy=True)
    return empty(found.shape, str(found.dtype), device, ctx).copyfrom(found)


def allocate(shape: tuple[int, ...], of: np.dtype[Any], strides: tuple[int, ...] = ()) -> Array:
    """A new array. Strides are in bytes; without any, it is contiguous. Raises ArgumentError where NumPy has no such
    arrays, and MemoryError."""
    room = (
        1 + sum((n - 1) * step // of.itemsize for n, step in zip(shape, strides, strict=False)) if 0 not in shape else 0
    )
    try:
        if not strides:
            return np.empty(shape, of)
        return np.lib.stride_tricks.as_strided(np.empty(room, of), shape, strides)
    except ValueError as error:
        asked = clipped(f"an array of shape {shape}", 100)
        legal = "64 dimensions at most, and less than 2**63 bytes, counted without dimensions of 0"
        raise ArgumentError(f"NumPy cannot hold it: {error}", asked=asked, legal=legal) from None


def _on_lines(shape: tuple[int, ...], of: np.dtype[Any]) -> Array:
    """A new array that begins with a cache line: vectors as long as one took twice the time where each lies in two."""
    size = math.prod(shape) * of.itemsize
    if size < ALIGNMENT:
        return allocate(shape, of)
    memory = allocate((size + ALIGNMENT,), np.dtype(np.uint8))
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(of).reshape(shape)


def empty(
    shape: int | Sequence[int],
    dtype: str = "float32",
    device: Device | str | None = None,
    ctx: Device | str | None = None,
) -> NDArray:
    """An uninitialised array. Raises UsageError for an unknown type, DeviceError for a
    device that does not exist or has no room."""
    place = _find(device if device is not None else ctx if ctx is not None else "cpu")
    given: Any = shape.tolist() if isinstance(shape, np.ndarray) else shape
    given = (given,) if isinstance(given, (int, np.integer)) else given
    if isinstance(given, (list, tuple)):  # a tensor's shape is a tuple of expressions
        given = [int(n) if isinstance(n, Expr) and is_const(n) else n for n in given]
    is_whole = is_list_of(given, (int, np.integer))
    expect(shape, "whole numbers, the lengths of the dimensions", is_whole, "nd.empty(shape)")
    lengths = tuple(int(n) for n in given)
    if any(not 0 <= n < 2**63 for n in lengths):
        why = f"a length of {shape!r} is {'negative' if min(lengths) < 0 else 'too large'}"
        raise UsageError(why, asked="nd.empty(shape)", legal="lengths of 0 or more, in 63 bits")
    of = str(dtype_of(dtype))
    if not place.exist:
        place.info()
        raise DeviceError("there is no such device", asked=f"device {place}", legal="cpu(0)")
    if place.kind == "cpu":
        return NDArray(lengths, of, place, _on_lines(lengths, numpy_dtype(of)), None)
    length = math.prod(lengths) * numpy_dtype(of).itemsize
    return NDArray(lengths, of, place, None, driver(place.kind).allocate(place.info(), length, f"array on {place}"))


def numpyasarray(values: Array) -> NDArray:
    """An array over NumPy's memory. Raises UsageError unless it is C-contiguous and of a known type."""
    if not values.flags.c_contiguous:
        raise UsageError("it is not C-contiguous", asked="numpyasarray", legal="np.ascontiguousarray(values)")
    return NDArray(values.shape, str(dtype_of(values.dtype)), cpu(0), values, None)


def from_dlpack(values: Any) -> NDArray:
    """An array over the memory of another library's, such as a tensor of PyTorch on the CPU.

    Raises UsageError for memory that NumPy cannot see.
    """
    is_capsule = type(values).__name__ == "PyCapsule"  # what `to_dlpack` gives
    try:
        found = shared(_Capsule(values) if is_capsule else values)
        return numpyasarray(_writable(found) if is_capsule else found)
    except (BufferError, RuntimeError, TypeError, AttributeError) as error:
        raise UsageError(
            f"its memory cannot be shared: {error}", asked="from_dlpack", legal="an array on the CPU with __dlpack__"
        ) from None


def shared(values: Any) -> Array:
    """NumPy's array over the memory of something with `__dlpack__`. Bytes of bfloat16, which NumPy does not take,
    PyTorch shows as integers. Raises what `np.from_dlpack` raises."""
    if isinstance(values, NDArray):
        return values.view()
    if str(getattr(values, "dtype", "")) == "torch.bfloat16":
        return np.from_dlpack(values.view(sys.modules["torch"].uint16)).view(numpy_dtype(BFLOAT16))
    found: Array = np.from_dlpack(values)
    return found


def _writable(values: Array) -> Array:
    """The same memory, to be written: NumPy takes that of capsules that cannot say so for read-only."""
    return values if values.flags.writeable else np.asarray(_Writable(values))


class _Writable:
    """Memory that may be written, with NumPy's array interface."""

    def __init__(self, values: Array) -> None:
        self._kept = values
        address, _ = values.__array_interface__["data"]
        self.__array_interface__ = {**values.__array_interface__, "data": (address, False)}


class _Capsule:
    """The memory of a DLPack capsule on the CPU."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return cpu(0).device_type, 0
