"""Calls of CPU kernels that stay in native code: a fraction of a microsecond beyond the kernel itself.

A call through Python's machinery reads and writes many small objects. Where a kernel has just swept the
caches with its arrays, fetching them again takes tens of microseconds. So the checks of a signature are
compiled: `native_call` makes a function of C's calling convention that reads NumPy's arrays where they lie,
solves their shapes for the sizes, compares every other length with them, and makes the outputs that a call leaves
out. What it does not recognise it leaves to the caller, who has the checks that come with messages.

The offsets in an array object belong to NumPy's binary interface (`PyArrayObject_fields` in
`numpy/ndarraytypes.h`), and so does the place of `PyArray_Empty` in its table of functions; they are compared
with a live array before they are relied on.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import sysconfig
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from autosched.codegen.signature import Dim, Param, Signature, solve_dim
from autosched.ir.dtype import numpy_dtype
from autosched.runtime.jit import link

Array = np.ndarray[Any, Any]

#: Takes the arrays, or those that are inputs. Returns the output, a tuple of several, or a number: the status of the
#: kernel where that is not 0, or `UNKNOWN`.
NativeCall = Callable[..., Any]
UNKNOWN = -1  #: not the arrays that it knows: nothing ran

# where the fields of an array lie in its object, after `{ references, type }`
_TYPE, _DATA, _NDIM, _SHAPE, _DTYPE, _FLAGS = 8, 16, 24, 32, 56, 64
# NumPy's flags
_C_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
#: the place in NumPy's table of `PyArray_Empty(ndim, lengths, dtype, is_fortran)`, which takes over a reference
_EMPTY = 184

#: words of what a call knows before the types of its arguments: `entry, workspace's size, threads`
_HEAD = 3

#: what is called of Python
_API = {
    "PyTuple_GetItem": "declare ptr @PyTuple_GetItem(ptr, i64)",
    "PyTuple_New": "declare ptr @PyTuple_New(i64)",
    "PyTuple_SetItem": "declare i32 @PyTuple_SetItem(ptr, i64, ptr)",
    "PyBytes_AsString": "declare ptr @PyBytes_AsString(ptr)",
    "PyEval_SaveThread": "declare ptr @PyEval_SaveThread()",
    "PyEval_RestoreThread": "declare void @PyEval_RestoreThread(ptr)",
    "PyLong_FromLongLong": "declare ptr @PyLong_FromLongLong(i64)",
    "Py_IncRef": "declare void @Py_IncRef(ptr)",
    "Py_DecRef": "declare void @Py_DecRef(ptr)",
    "PyArray_Empty": "declare ptr @PyArray_Empty(i32, ptr, ptr, i32)",
}
#: bytes of scratch memory beyond those that were asked for
_MOST_SPARE = 16 << 20
_CHECKED = ("sadd", "ssub", "smul")
_METH_FASTCALL = 0x80


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
        """Grow to `size` bytes or more, unless it is in use or memory is short."""
        if size <= self._state[1] or not self._grows.acquire(blocking=False):
            return
        try:
            present, self._state[1] = self._state[1], 0
            if self._state[0]:  # taken before the bytes were gone
                self._state[1] = present
                return
            size = max(size, min(2 * present, size + _MOST_SPARE))
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
    """The instructions of a function, which jumps to the label `otherwise` where a requirement fails."""

    def __init__(self, constants: list[int] | None = None, first: int = 0) -> None:
        """`constants` are words after the `first`, not text, so that kernels of other sizes share the code."""
        self.constants, self.first = [] if constants is None else constants, first
        self.lines: list[str] = []
        self.otherwise = "unknown"
        self._names = itertools.count()

    def let(self, instruction: str) -> str:
        name = f"%v{next(self._names)}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def label(self) -> str:
        return f"l{next(self._names)}"

    def load(self, kind: str, base: str, offset: int) -> str:
        """The value `offset` bytes after `base`."""
        return self.let(f"load {kind}, ptr {self.at(base, offset)}")

    def at(self, base: str, offset: int) -> str:
        return self.let(f"getelementptr i8, ptr {base}, i64 {offset}")

    def require(self, condition: str) -> None:
        """Require an `icmp` to hold."""
        holds, on = self.let(condition), self.label()
        self.lines += [f"  br i1 {holds}, label %{on}, label %{self.otherwise}", f"{on}:"]

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def constant(self, k: int) -> str:
        """Raises KeyError for what 64 bits do not hold."""
        if not -(2**63) < k < 2**63:
            raise KeyError(k)
        self.constants.append(k)
        return self.load("i64", "%words", 8 * (self.first + len(self.constants) - 1))

    # -- formulas over sizes ------------------------------------------------------------------
    def checked(self, op: str, a: str, b: str) -> str:
        """`sadd`, `ssub` or `smul`, required not to overflow."""
        both = self.let(f"call {{ i64, i1 }} @llvm.{op}.with.overflow.i64(i64 {a}, i64 {b})")
        over = self.let(f"extractvalue {{ i64, i1 }} {both}, 1")
        self.require(f"icmp eq i1 {over}, false")
        return self.let(f"extractvalue {{ i64, i1 }} {both}, 0")

    def value(self, dim: Dim, sizes: dict[str, str]) -> str:
        """A formula over sizes. Raises KeyError for an operator that has no instructions here."""
        if isinstance(dim, int):
            return self.constant(dim)
        if dim[0] == "size":
            return sizes[dim[1]]
        operands = [self.value(d, sizes) for d in dim[1:]]
        return _FORMULAS[dim[0]](self, *operands)


def _floor(b: _Body, x: str, y: str) -> tuple[str, str]:
    """Quotient and remainder, rounded down, by what must be positive."""
    b.require(f"icmp sgt i64 {y}, 0")
    rest = b.let(f"srem i64 {x}, {y}")
    below = b.let(f"icmp slt i64 {rest}, 0")
    positive = b.let(f"select i1 {below}, i64 {b.let(f'add i64 {rest}, {y}')}, i64 {rest}")
    return b.let(f"sdiv i64 {b.checked('ssub', x, positive)}, {y}"), positive


def _compare(how: str) -> Callable[[_Body, str, str], str]:
    return lambda b, x, y: b.let(f"zext i1 {b.let(f'icmp {how} i64 {x}, {y}')} to i64")


#: operators of `codegen.signature` in instructions; what is missing here is left to Python
_FORMULAS: dict[str, Callable[..., str]] = {
    "add": lambda b, x, y: b.checked("sadd", x, y),
    "sub": lambda b, x, y: b.checked("ssub", x, y),
    "mul": lambda b, x, y: b.checked("smul", x, y),
    "neg": lambda b, x: b.checked("ssub", "0", x),
    "floordiv": lambda b, x, y: _floor(b, x, y)[0],
    "floormod": lambda b, x, y: _floor(b, x, y)[1],
    "min": lambda b, x, y: b.let(f"select i1 {b.let(f'icmp slt i64 {x}, {y}')}, i64 {x}, i64 {y}"),
    "max": lambda b, x, y: b.let(f"select i1 {b.let(f'icmp sgt i64 {x}, {y}')}, i64 {x}, i64 {y}"),
    "eq": _compare("eq"),
    "ne": _compare("ne"),
    "lt": _compare("slt"),
    "le": _compare("sle"),
    "gt": _compare("sgt"),
    "ge": _compare("sge"),
}


# -- one call -----------------------------------------------------------------------------------------


class _Given(NamedTuple):
    """An array of a call: its object, its lengths, and the addresses where it begins and ends, as numbers."""

    array: str
    lengths: list[str]
    begin: str
    end: str


def _source(signature: Signature) -> tuple[str, list[int]]:
    """LLVM assembly of calls of this signature, methods of a tuple whose first item is the words it knows, and the
    last of these words, its constants."""
    constants: list[int] = []
    given, inputs = len(signature.params), len(signature.inputs)
    dispatch = _Body()
    dispatch.do(f"switch i64 %count, label %unknown [ i64 {given}, label %all i64 {inputs}, label %some ]")
    if given == inputs:
        dispatch.lines = [f"  switch i64 %count, label %unknown [ i64 {given}, label %all ]"]
    for label, function in (("all", "with_outputs"), ("some", "without_outputs")):
        dispatch.lines.append(f"{label}:")
        dispatch.do(f"ret ptr {dispatch.let(f'call ptr @{function}(ptr %self, ptr %args)')}")
    parts = [
        *_API.values(),
        *(f"declare {{ i64, i1 }} @llvm.{op}.with.overflow.i64(i64, i64)" for op in _CHECKED),
        _function("with_outputs", "internal", "ptr %self, ptr %args", _call(signature, False, constants)),
        _function("without_outputs", "internal", "ptr %self, ptr %args", _call(signature, True, constants)),
        _function("native_call", "", "ptr %self, ptr %args, i64 %count", dispatch),
    ]
    return "\n".join(parts), constants


def _function(name: str, linkage: str, takes: str, body: _Body) -> str:
    unknown = _Body()
    unknown.lines = ["unknown:", f"  %u = call ptr @PyLong_FromLongLong(i64 {UNKNOWN})", "  ret ptr %u"]
    return "\n".join([f"define {linkage} ptr @{name}({takes}) {{", *body.lines, *unknown.lines, "}\n"])


def _call(signature: Signature, allocates: bool, constants: list[int]) -> _Body:
    """A call with all arrays, or with the inputs alone."""
    params = signature.params
    b = _Body(constants, _HEAD + len(params))
    b.do(f"%pointers = alloca [{max(len(params), 1)} x ptr]")
    b.do(f"%sizes = alloca [{max(len(signature.sizes), 1)} x i64]")
    for i, p in enumerate(params):
        b.do(f"%shape{i} = alloca [{max(len(p.shape), 1)} x i64]")
    held = b.let("call ptr @PyTuple_GetItem(ptr %self, i64 0)")
    words = "%words"
    b.do(f"{words} = call ptr @PyBytes_AsString(ptr {held})")
    numbers = itertools.count()
    arrays: list[_Given | None] = [
        None
        if allocates and p.is_output
        else _check_array(b, b.load("ptr", "%args", 8 * next(numbers)), p, b.load("ptr", words, 8 * (_HEAD + i)))
        for i, p in enumerate(params)
    ]
    sizes = _solve(b, signature, arrays)
    if sizes is None:  # not to be told from these arrays
        b.do("br label %unknown")
        return b
    lengths = [_check_lengths(b, p, a, sizes) for p, a in zip(params, arrays, strict=True)]
    for r in signature.requires:
        b.require(f"icmp ne i64 {b.value([r.op, r.left, r.right], sizes)}, 0")
    _check_overlap(b, params, arrays)
    _check_not_empty(b, [ls for p, ls in zip(params, lengths, strict=True) if p.is_output])
    for i, name in enumerate(signature.sizes):
        b.do(f"store i64 {sizes[name]}, ptr {b.at('%sizes', 8 * i)}")
    outputs = _outputs(b, params, arrays, lengths, words)
    made = [o for o, a in zip(outputs, arrays, strict=True) if a is None]
    if made:
        b.otherwise = "drop"
    for i, (p, o) in enumerate(zip(params, outputs, strict=True)):
        address = b.load("i64", o, _DATA)
        if arrays[i] is None:
            off = b.let(f"and i64 {address}, {_mask(p)}")
            b.require(f"icmp eq i64 {off}, 0")
        b.do(f"store i64 {address}, ptr {b.at('%pointers', 8 * i)}")
    workspace = _take_workspace(b, words)
    _run(b, words, workspace, [o for p, o in zip(params, outputs, strict=True) if p.is_output], bool(made))
    if made:
        b.lines.append("drop:")
        _drop(b, made)
        b.do("br label %unknown")
    return b


def _mask(param: Param) -> int:
    """Bits of the address that are zero."""
    return max(numpy_dtype(param.dtype).itemsize, param.alignment) - 1


def _check_array(b: _Body, array: str, param: Param, dtype: str) -> _Given:
    """Require an array of NumPy's own class, of this type and so many dimensions, whole and aligned."""
    b.require(f"icmp eq ptr {b.load('ptr', array, _TYPE)}, inttoptr (i64 {id(np.ndarray)} to ptr)")
    b.require(f"icmp eq ptr {b.load('ptr', array, _DTYPE)}, {dtype}")
    b.require(f"icmp eq i32 {b.load('i32', array, _NDIM)}, {len(param.shape)}")
    flags = _C_CONTIGUOUS | _ALIGNED | (_WRITEABLE if param.is_output else 0)
    present = b.let(f"and i32 {b.load('i32', array, _FLAGS)}, {flags}")
    b.require(f"icmp eq i32 {present}, {flags}")
    begin = b.load("i64", array, _DATA)
    off = b.let(f"and i64 {begin}, {_mask(param)}")
    b.require(f"icmp eq i64 {off}, 0")
    shape = b.load("ptr", array, _SHAPE)
    lengths = [b.load("i64", shape, 8 * d) for d in range(len(param.shape))]
    size = str(numpy_dtype(param.dtype).itemsize)
    for length in lengths:  # the bytes of memory that exists: no overflow, unless a length is 0
        size = b.let(f"mul i64 {size}, {length}")
    return _Given(array, lengths, begin, b.let(f"add i64 {begin}, {size}"))


def _solve(b: _Body, signature: Signature, arrays: list[_Given | None]) -> dict[str, str] | None:
    """The value of each size, solved from one length (all are compared later); None if some are missing."""
    sizes: dict[str, str] = {}
    for alone in (True, False):
        for param, a in zip(signature.params, arrays, strict=True):
            for dim, length in zip(param.shape, a.lengths if a else ()):
                if isinstance(dim, int) or (dim[0] == "size") != alone:
                    continue
                steps = solve_dim(dim)
                if steps is None or steps[0] in sizes:
                    continue
                value = length
                for op, k in steps[1]:
                    value = _STEPS[op](b, value, b.constant(k))
                b.require(f"icmp sge i64 {value}, 0")
                sizes[steps[0]] = value
    return sizes if all(name in sizes for name in signature.sizes) else None


def _divided(b: _Body, value: str, by: str) -> str:
    b.require(f"icmp eq i64 {b.let(f'srem i64 {value}, {by}')}, 0")
    return b.let(f"sdiv i64 {value}, {by}")


#: steps of `solve_dim`, on the value so far and the number of the step
_STEPS: dict[str, Callable[[_Body, str, str], str]] = {
    "sub": lambda b, value, k: b.checked("ssub", value, k),
    "from": lambda b, value, k: b.checked("ssub", k, value),
    "div": _divided,
}


def _check_lengths(b: _Body, param: Param, a: _Given | None, sizes: dict[str, str]) -> list[str]:
    """Require that each length agrees with the sizes; return the lengths that they give."""
    wanted = [b.value(dim, sizes) for dim in param.shape]
    for i, length in enumerate(wanted):
        b.require(f"icmp sge i64 {length}, 0" if a is None else f"icmp eq i64 {a.lengths[i]}, {length}")
    return wanted


def _check_overlap(b: _Body, params: tuple[Param, ...], arrays: list[_Given | None]) -> None:
    """Require that no output shares memory with another argument."""
    for (p, x), (q, y) in itertools.combinations(zip(params, arrays, strict=True), 2):
        if x is not None and y is not None and (p.is_output or q.is_output):
            before, after = b.let(f"icmp ule i64 {x.end}, {y.begin}"), b.let(f"icmp ule i64 {y.end}, {x.begin}")
            b.require(f"or i1 {before}, {after}")


def _check_not_empty(b: _Body, outputs: list[list[str]]) -> None:
    """Require that there is something to compute."""
    some = "false"
    for lengths in outputs:
        whole = "true"
        for length in lengths:
            whole = b.let(f"and i1 {whole}, {b.let(f'icmp ne i64 {length}, 0')}")
        some = b.let(f"or i1 {some}, {whole}")
    b.require(f"icmp eq i1 {some}, true")


def _take_workspace(b: _Body, words: str) -> tuple[str, str]:
    """The bytes that the kernel needs, and their address: in `SCRATCH`, which must be free and large enough."""
    scratch = f"inttoptr (i64 {SCRATCH.address} to ptr)"
    size_of, threads = b.load("ptr", words, 8), b.load("i64", words, 16)
    need = b.let(f"call i64 {size_of}(ptr %sizes, i64 {threads})")
    asks, take, on = b.let(f"icmp ne i64 {need}, 0"), b.label(), b.label()
    before = b.label()
    b.lines += [f"  br label %{before}", f"{before}:", f"  br i1 {asks}, label %{take}, label %{on}", f"{take}:"]
    b.require(f"icmp eq i64 {b.load('i64', scratch, 0)}, 0")
    b.require(f"icmp uge i64 {b.load('i64', scratch, 8)}, {need}")
    b.do(f"store i64 1, ptr {scratch}")
    address, last = b.load("ptr", scratch, 16), b.label()
    b.lines += [f"  br label %{last}", f"{last}:", f"  br label %{on}", f"{on}:"]
    return need, b.let(f"phi ptr [ null, %{before} ], [ {address}, %{last} ]")


def _leave_workspace(b: _Body, need: str) -> None:
    asks, give, on = b.let(f"icmp ne i64 {need}, 0"), b.label(), b.label()
    b.lines += [f"  br i1 {asks}, label %{give}, label %{on}", f"{give}:"]
    b.do(f"store i64 0, ptr inttoptr (i64 {SCRATCH.address} to ptr)")
    b.lines += [f"  br label %{on}", f"{on}:"]


def _outputs(
    b: _Body, params: tuple[Param, ...], arrays: list[_Given | None], lengths: list[list[str]], words: str
) -> list[str]:
    """The array objects, created where they are not given; MemoryError without memory for one."""
    found: list[str] = []
    made: list[str] = []
    for i, (param, given) in enumerate(zip(params, arrays, strict=True)):
        if given is not None:
            found.append(given.array)
            continue
        for d, length in enumerate(lengths[i]):
            b.do(f"store i64 {length}, ptr {b.at(f'%shape{i}', 8 * d)}")
        dtype = b.load("ptr", words, 8 * (_HEAD + i))
        b.do(f"call void @Py_IncRef(ptr {dtype})")
        fresh = b.let(f"call ptr @PyArray_Empty(i32 {len(param.shape)}, ptr %shape{i}, ptr {dtype}, i32 0)")
        _stop_at_null(b, fresh, made)
        made.append(fresh)
        found.append(fresh)
    return found


def _stop_at_null(b: _Body, value: str, owned: list[str]) -> None:
    """Leave with the exception where there is no object, after giving back those that are owned."""
    on, none = b.label(), b.label()
    missing = b.let(f"icmp eq ptr {value}, null")
    b.lines += [f"  br i1 {missing}, label %{none}, label %{on}", f"{none}:"]
    _drop(b, owned)
    b.do("ret ptr null")
    b.lines.append(f"{on}:")


def _drop(b: _Body, objects: list[str]) -> None:
    for o in objects:
        b.do(f"call void @Py_DecRef(ptr {o})")


def _run(b: _Body, words: str, workspace: tuple[str, str], outputs: list[str], owned: bool) -> None:
    """Call the kernel without the interpreter's lock, and return its outputs, or its status."""
    entry, threads = b.load("ptr", words, 0), b.load("i64", words, 16)
    state = b.let("call ptr @PyEval_SaveThread()")
    status = b.let(f"call i32 {entry}(ptr %pointers, ptr %sizes, ptr {workspace[1]}, i64 {threads})")
    b.do(f"call void @PyEval_RestoreThread(ptr {state})")
    _leave_workspace(b, workspace[0])
    well, done, failed = b.let(f"icmp eq i32 {status}, 0"), b.label(), b.label()
    b.lines += [f"  br i1 {well}, label %{done}, label %{failed}", f"{failed}:"]
    if owned:
        _drop(b, outputs)
    wide = b.let(f"sext i32 {status} to i64")
    b.do(f"ret ptr {b.let(f'call ptr @PyLong_FromLongLong(i64 {wide})')}")
    b.lines.append(f"{done}:")
    if not owned:
        for o in outputs:
            b.do(f"call void @Py_IncRef(ptr {o})")
    if len(outputs) == 1:
        b.do(f"ret ptr {outputs[0]}")
        return
    several = b.let(f"call ptr @PyTuple_New(i64 {len(outputs)})")
    _stop_at_null(b, several, outputs)
    for i, o in enumerate(outputs):
        b.let(f"call i32 @PyTuple_SetItem(ptr {several}, i64 {i}, ptr {o})")
    b.do(f"ret ptr {several}")


# -- as an object of Python ---------------------------------------------------------------------------


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
def _compiled(source: str) -> _Method:
    import llvmlite.binding as llvm

    python = [name for name in _API if name != "PyArray_Empty"]
    addresses = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in python}
    addresses["PyArray_Empty"] = _numpy_function(_EMPTY)
    code = link(llvm.JITLibraryBuilder().add_ir(source), "native_call", ["native_call"], addresses)
    return _Method(_Definition(b"native_call", code["native_call"], _METH_FASTCALL, None), code)


def _numpy_function(place: int) -> int:
    """The address in NumPy's table of functions; 0 without such a table."""
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = pointer(_multiarray_umath._ARRAY_API, None)
    return int(ctypes.c_uint64.from_address(table + 8 * place).value)


@lru_cache(maxsize=1)
def is_available() -> bool:
    """True if this interpreter and this NumPy lay their objects out as expected."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED") or sys.maxsize < 2**32:
        return False
    whole = np.zeros((2, 3), np.float32)
    frozen = np.zeros((4, 5, 6), np.int16).transpose()
    frozen.flags.writeable = False
    return _is_laid_out(whole) and _is_laid_out(frozen) and _makes_arrays()


def _is_laid_out(array: Array) -> bool:
    raw = ctypes.string_at(id(array), _FLAGS + 4)
    of, data, shape, dtype = (int.from_bytes(raw[k : k + 8], sys.byteorder) for k in (_TYPE, _DATA, _SHAPE, _DTYPE))
    ndim, flags = (int.from_bytes(raw[k : k + 4], sys.byteorder) for k in (_NDIM, _FLAGS))
    return (
        (of, data, ndim, dtype) == (id(np.ndarray), array.ctypes.data, array.ndim, id(array.dtype))
        and array.flags.num == flags
        and tuple((ctypes.c_int64 * array.ndim).from_address(shape)) == array.shape
    )


def _makes_arrays() -> bool:
    try:
        address = _numpy_function(_EMPTY)
    except (ImportError, AttributeError):
        return False
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_int, ctypes.c_void_p, ctypes.py_object, ctypes.c_int)(address)
    of, lengths = np.dtype(np.int16), (ctypes.c_int64 * 2)(3, 5)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(of))  # which the call takes over
    made = make(2, ctypes.addressof(lengths), of, 0)
    return type(made) is np.ndarray and made.shape == (3, 5) and made.dtype is of and made.flags.c_contiguous


#: LLVM takes 0.1 s for so many, and six times as long for twice as many: more than calls would save.
_MOST_PARAMETERS = 24


def native_call(signature: Signature, entry: int, workspace_of: int, threads: int, keep: object) -> NativeCall | None:
    """Calls of the kernel at the address `entry`, with all arrays or the inputs; None where they cannot be had.

    `workspace_of` is the address of what tells the bytes that a call needs of `SCRATCH`, and `keep` what must live
    as long as the call. Arguments with strides of their own, that broadcast or that are sizes are left to Python.
    """
    simple = not any(p.strides or p.broadcasts or p.is_size for p in signature.params)
    if not simple or len(signature.params) > _MOST_PARAMETERS or not is_available():
        return None
    try:
        source, constants = _source(signature)
        method = _compiled(source)
    except KeyError:  # a formula without instructions
        return None
    dtypes = [numpy_dtype(p.dtype) for p in signature.params]
    words = np.array([entry, workspace_of, threads, *map(id, dtypes), *constants], np.int64).tobytes()
    call: NativeCall = _new_function(ctypes.addressof(method.definition), (words, method, dtypes, keep), None)
    return call


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
