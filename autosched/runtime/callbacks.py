"""Python functions that generated code calls: see `codegen.llvm_expr` for how it does.

An exception waits here under a number while the generated code returns; whoever called that code
raises it again, as itself.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np

from autosched.errors import BuildError
from autosched.ir.dtype import is_float, numpy_dtype
from autosched.ir.functions import get_global_func, returned_number
from autosched.runtime.jit import WORKSPACE
from autosched.runtime.ndarray import HostArray

_PACKED = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p)

_numbers = itertools.count(1)
_waiting: dict[int, BaseException] = {}
_lock = threading.Lock()
#: several threads may fail at once, and one exception is raised: no more of the others are kept
_MOST_WAITING = 64


class _Memory:
    """Memory of generated code, with NumPy's array interface."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], of: np.dtype) -> None:
        self.__array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "strides": tuple(s * of.itemsize for s in strides),
            "typestr": of.str,
            "version": 3,
        }


@cache
def _decoder(description: bytes) -> tuple[Callable[[int], list[Any]], Callable[[int, Any, str], None]]:
    """Functions that read the arguments from the slots and write the result there."""
    result, _, words = description.decode().partition("|")
    readers: list[tuple[int, str, np.dtype, int]] = []  # slot, kind, type, dimensions
    slot = 1
    for word in filter(None, words.split(",")):
        name, _, dimensions = word.rstrip("]").partition("[")
        of = numpy_dtype("uint64" if name == "handle" else name)
        ndim = int(dimensions or 0)
        kind = "array" if "[" in word else "float" if is_float(of) else "bool" if of.kind == "b" else "int"
        readers.append((slot, kind, of, ndim))
        slot += 1 + 2 * ndim
    integers, floats = struct.Struct(f"={slot}q"), struct.Struct(f"={slot}d")

    def read(address: int) -> list[Any]:
        raw = ctypes.string_at(address, 8 * slot)
        numbers, reals = integers.unpack(raw), floats.unpack(raw)
        values: list[Any] = []
        for at, kind, of, ndim in readers:
            if kind == "array":
                shape, strides = numbers[at + 1 : at + 1 + ndim], numbers[at + 1 + ndim : at + 1 + 2 * ndim]
                values.append(np.asarray(_Memory(numbers[at] % 2**64, shape, strides, of)).view(of).view(HostArray))
            elif kind == "float":
                values.append(reals[at])
            elif kind == "bool":
                values.append(bool(numbers[at]))
            else:
                values.append(numbers[at] % 2**64 if of.kind == "u" else numbers[at])
        return values

    def write(address: int, value: Any, name: str) -> None:
        if not result:  # what stands alone may return anything
            return
        number = numpy_dtype(result).type(returned_number(name, value))
        if is_float(number.dtype):
            ctypes.c_double.from_address(address).value = float(number)
        else:
            ctypes.c_int64.from_address(address).value = int(number)

    return read, write


#: whether code may call functions that nobody has registered yet
_later: ContextVar[bool] = ContextVar("registered later", default=False)


@contextmanager
def registered_later() -> Iterator[None]:
    """Let code that is loaded inside of `with` call functions that are registered before it runs: a call of one that
    is not raises BuildError."""
    token = _later.set(True)
    try:
        yield
    finally:
        _later.reset(token)


@cache
def entry_of(name: str) -> int:
    """The address that generated code calls for the Python function of that name.

    Raises BuildError if there is none, except inside `registered_later`. The function is looked up at each call, so a
    later registration of the name counts.
    """
    if not _later.get():
        get_global_func(name)

    def run(slots: int, description: bytes) -> int:
        try:
            function = get_global_func(name)
            read, write = _decoder(description)
            with WORKSPACE.set_aside():
                write(slots, function(*read(slots)), name)
        except BaseException as error:
            number = next(_numbers) % (2**31 - 1) + 1
            with _lock:
                while len(_waiting) >= _MOST_WAITING:
                    del _waiting[next(iter(_waiting))]
                _waiting[number] = error
            return number
        return 0

    entry = _entries[name] = _PACKED(run)
    address = ctypes.cast(entry, ctypes.c_void_p).value
    assert address is not None
    return address


_entries: dict[str, Any] = {}


def raise_waiting(number: int) -> None:
    """Raise the exception that a call-back left under that number."""
    with _lock:
        error = _waiting.pop(number, None)
    raise error or BuildError("a call-back failed, and its exception was lost among many", asked="call of a module")
