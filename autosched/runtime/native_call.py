"""Calls of CPU kernels that stay in native code: a fraction of a microsecond beyond the kernel itself.

A call through Python's machinery reads and writes many small objects. Where a kernel has just swept the
caches with its arrays, fetching them again takes tens of microseconds. So the checks of a call like one
before (the same types and shapes, C-contiguous) are compiled: `native_call` makes a function of C's
calling convention that reads NumPy's arrays where they lie. What it does not recognise it leaves to the
caller, who has the checks that come with messages.

The offsets in an array object belong to NumPy's binary interface (`PyArrayObject_fields` in
`numpy/ndarraytypes.h`); they are compared with a live array before they are relied on.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import sys
import sysconfig
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np

from autosched.runtime.jit import link

__all__ = ["SCRATCH", "UNKNOWN", "Expected", "NativeCall", "native_call"]

Array = np.ndarray[Any, Any]

#: Takes the arrays. Returns the status of the kernel, 0 if all is well, or `UNKNOWN`.
NativeCall = Callable[..., int]
UNKNOWN = -1  #: not the arrays that it knows: nothing ran

# where the fields of an array lie in its object, after `{ references, type }`
_TYPE, _DATA, _NDIM, _SHAPE, _DTYPE, _FLAGS = 8, 16, 24, 32, 56, 64
# NumPy's flags
_C_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400

#: words of what a call knows: `entry, sizes, threads, bytes of workspace`
_HEAD = 4
#: words for each argument: `dtype, bytes, mask of the address`, then the shape
_ARGUMENT = 3

#: what is called of Python
_API = {
    "PyTuple_GetItem": "declare ptr @PyTuple_GetItem(ptr, i64)",
    "PyBytes_AsString": "declare ptr @PyBytes_AsString(ptr)",
    "PyEval_SaveThread": "declare ptr @PyEval_SaveThread()",
    "PyEval_RestoreThread": "declare void @PyEval_RestoreThread(ptr)",
    "PyLong_FromLongLong": "declare ptr @PyLong_FromLongLong(i64)",
}
_METH_FASTCALL = 0x80


class Expected(NamedTuple):
    """What a call expects of an argument. `mask`: bits of the address that are zero."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    mask: int
    is_output: bool


#: how many dimensions each argument has and whether it is an output; whether there is a workspace
Layout = tuple[tuple[tuple[int, bool], ...], bool]


class Scratch:
    """One workspace for the native calls of all threads; a call that finds it taken, or too small, does not run.

    Native code looks at it and takes it in one step, for it holds the interpreter's lock. Python's steps are
    several, between which native code of other threads may run: so there are no bytes while memory changes.
    """

    def __init__(self) -> None:
        self._memory: Array | None = None
        self._grows = threading.Lock()
        self._state = (ctypes.c_int64 * 3)()  # taken, bytes, address
        self.address = ctypes.addressof(self._state)

    def reserve(self, size: int) -> None:
        """Have `size` bytes, unless it is in use or there is no room for so many."""
        if size <= self._state[1] or not self._grows.acquire(blocking=False):
            return
        try:
            present, self._state[1] = self._state[1], 0
            if self._state[0]:  # taken before the bytes were gone
                self._state[1] = present
                return
            self._memory = None  # let the old one go first
            self._memory = np.empty(size + 63, np.uint8)
            self._state[2] = -(-self._memory.ctypes.data // 64) * 64
            self._state[1] = size
        except (MemoryError, ValueError):  # who needs them says so when it runs
            return
        finally:
            self._grows.release()


SCRATCH = Scratch()


class _Body:
    """The instructions of a function; where something required does not hold, it goes to `unknown`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names = itertools.count()

    def let(self, instruction: str) -> str:
        name = f"%v{next(self._names)}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def load(self, kind: str, base: str, offset: int) -> str:
        """What lies `offset` bytes after `base`."""
        at = self.let(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self.let(f"load {kind}, ptr {at}")

    def require(self, condition: str) -> None:
        """`icmp` and its operands."""
        holds, on = self.let(condition), f"l{next(self._names)}"
        self.lines += [f"  br i1 {holds}, label %{on}, label %unknown", f"{on}:"]

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")


def _source(layout: Layout) -> str:
    """LLVM assembly of a call of this layout, a method of a tuple whose first item is the words it knows."""
    b = _Body()
    arguments, needs_workspace = layout
    b.do(f"%pointers = alloca [{max(len(arguments), 1)} x ptr]")
    b.require(f"icmp eq i64 %count, {len(arguments)}")
    held = b.let("call ptr @PyTuple_GetItem(ptr %self, i64 0)")
    words = b.let(f"call ptr @PyBytes_AsString(ptr {held})")
    spans: list[tuple[str, str]] = []
    at = 8 * _HEAD
    for i, (ndim, is_output) in enumerate(arguments):
        spans.append(_check_array(b, b.load("ptr", "%args", 8 * i), ndim, is_output, words, at))
        b.do(f"store i64 {spans[i][0]}, ptr {b.let(f'getelementptr ptr, ptr %pointers, i64 {i}')}")
        at += 8 * (_ARGUMENT + ndim)
    for i, j in itertools.combinations(range(len(arguments)), 2):
        if arguments[i][1] or arguments[j][1]:
            (begin, end), (other, other_end) = spans[i], spans[j]
            before, after = b.let(f"icmp ule i64 {end}, {other}"), b.let(f"icmp ule i64 {other_end}, {begin}")
            b.require(f"or i1 {before}, {after}")
    entry, sizes = b.load("ptr", words, 0), b.load("ptr", words, 8)
    threads, need = b.load("i64", words, 16), b.load("i64", words, 24)
    workspace, scratch = "null", f"inttoptr (i64 {SCRATCH.address} to ptr)"
    if needs_workspace:
        b.require(f"icmp eq i64 {b.load('i64', scratch, 0)}, 0")
        b.require(f"icmp uge i64 {b.load('i64', scratch, 8)}, {need}")
        b.do(f"store i64 1, ptr {scratch}")
        workspace = b.load("ptr", scratch, 16)
    state = b.let("call ptr @PyEval_SaveThread()")
    status = b.let(f"call i32 {entry}(ptr %pointers, ptr {sizes}, ptr {workspace}, i64 {threads})")
    b.do(f"call void @PyEval_RestoreThread(ptr {state})")
    if needs_workspace:
        b.do(f"store i64 0, ptr {scratch}")
    b.do(f"ret ptr {_number(b, b.let(f'sext i32 {status} to i64'))}")
    b.lines.append("unknown:")
    b.do(f"ret ptr {_number(b, str(UNKNOWN))}")
    head = "\n".join([*_API.values(), "define ptr @native_call(ptr %self, ptr %args, i64 %count) {"])
    return "\n".join([head, *b.lines, "}\n"])


def _number(b: _Body, value: str) -> str:
    return b.let(f"call ptr @PyLong_FromLongLong(i64 {value})")


def _check_array(b: _Body, array: str, ndim: int, is_output: bool, words: str, at: int) -> tuple[str, str]:
    """Require that the object is the array that the words from byte `at` describe; where it begins and ends."""
    b.require(f"icmp eq ptr {b.load('ptr', array, _TYPE)}, inttoptr (i64 {id(np.ndarray)} to ptr)")
    b.require(f"icmp eq ptr {b.load('ptr', array, _DTYPE)}, {b.load('ptr', words, at)}")
    b.require(f"icmp eq i32 {b.load('i32', array, _NDIM)}, {ndim}")
    flags = _C_CONTIGUOUS | _ALIGNED | (_WRITEABLE if is_output else 0)
    present = b.let(f"and i32 {b.load('i32', array, _FLAGS)}, {flags}")
    b.require(f"icmp eq i32 {present}, {flags}")
    shape = b.load("ptr", array, _SHAPE)
    for d in range(ndim):
        length = b.load("i64", words, at + 8 * (_ARGUMENT + d))
        b.require(f"icmp eq i64 {b.load('i64', shape, 8 * d)}, {length}")
    begin = b.load("i64", array, _DATA)
    off = b.let(f"and i64 {begin}, {b.load('i64', words, at + 16)}")
    b.require(f"icmp eq i64 {off}, 0")
    return begin, b.let(f"add i64 {begin}, {b.load('i64', words, at + 8)}")


class _Definition(ctypes.Structure):
    """Python's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Method(NamedTuple):
    """A compiled layout. Python's function objects point into it, so they must hold it."""

    definition: _Definition
    code: object


@lru_cache(maxsize=256)
def _compiled(layout: Layout) -> _Method:
    addresses = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in _API}
    code = link(llvm.JITLibraryBuilder().add_ir(_source(layout)), "native_call", ["native_call"], addresses)
    return _Method(_Definition(b"native_call", code["native_call"], _METH_FASTCALL, None), code)


@lru_cache(maxsize=1)
def is_available() -> bool:
    """Whether this interpreter and this NumPy lay their objects out as expected."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED") or sys.maxsize < 2**32:
        return False
    whole = np.zeros((2, 3), np.float32)
    frozen = np.zeros((4, 5, 6), np.int16).transpose()
    frozen.flags.writeable = False
    return _is_laid_out(whole) and _is_laid_out(frozen)


def _is_laid_out(array: Array) -> bool:
    raw = ctypes.string_at(id(array), _FLAGS + 4)
    of, data, shape, dtype = (int.from_bytes(raw[k : k + 8], sys.byteorder) for k in (_TYPE, _DATA, _SHAPE, _DTYPE))
    ndim, flags = (int.from_bytes(raw[k : k + 4], sys.byteorder) for k in (_NDIM, _FLAGS))
    return (
        (of, data, ndim, dtype) == (id(np.ndarray), array.ctypes.data, array.ndim, id(array.dtype))
        and array.flags.num == flags
        and tuple((ctypes.c_int64 * array.ndim).from_address(shape)) == array.shape
    )


def native_call(
    entry: int, sizes: int, threads: int, workspace: int, expected: Sequence[Expected], keep: object
) -> NativeCall | None:
    """A call of the kernel at the address `entry` with such arrays; None where it cannot be had.

    `sizes` is the address of its sizes, `workspace` the bytes that it needs of `SCRATCH`, and `keep` what
    must live as long as the call.
    """
    if not is_available():
        return None
    words = [entry, sizes, threads, workspace]
    for e in expected:
        words += [id(e.dtype), e.dtype.itemsize * math.prod(e.shape), e.mask, *e.shape]
    method = _compiled((tuple((len(e.shape), e.is_output) for e in expected), workspace > 0))
    held = (np.array(words, np.int64).tobytes(), method, [e.dtype for e in expected], keep)
    call: NativeCall = _new_function(ctypes.addressof(method.definition), held, None)
    return call


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
