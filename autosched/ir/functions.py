"""Functions from outside by name: Python call-backs, C symbols, and how NumPy evaluates a call.

@register_func("my.sort")                  call_packed("my.sort", data, result)
def sort(data, result):
    result[...] = np.sort(data)

load_library("./libfilters.so")            call_extern("int32", "sharpen", data, result)
register_numpy("hypotf", np.hypot)         what te.reference takes for a pure call
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Concatenate, TypeAlias, TypeVar

import numpy as np

from autosched.errors import BuildError, UsageError
from autosched.ir.dtype import numpy_dtype
from autosched.ir.ops import OPS

_functions: dict[str, Callable[..., Any]] = {}
_symbols: dict[str, tuple[int, object]] = {}
_libraries: dict[str, ctypes.CDLL] = {}
#: path -> the files (device, number) that were loaded from there, which nothing unloads
_files: dict[str, list[tuple[int, int]]] = {}
_numpy: dict[str, Callable[..., Any]] = {}
_PT_LOAD = 1  #: the kind of the segments of an ELF file that are mapped into memory


# -- Python functions -----------------------------------------------------------------------------


def register_func(func_name: Any, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Make a Python function known by name; a decorator where `f` is left out, or the name too.

    `call_packed` calls it with Python numbers and NumPy arrays over the module's own memory. Raises
    UsageError for a name in use, unless `override`.

    >>> @register_func("example.double", override=True)
    ... def double(source, result):
    ...     result[...] = 2 * source
    >>> get_global_func("example.double") is double
    True
    """
    if f is None and callable(func_name):
        return register_func(func_name.__name__, func_name, override)
    if f is None:
        return lambda function: register_func(func_name, function, override)
    asked = f"register_func({func_name!r})"
    if not isinstance(func_name, str) or not callable(f):
        raise UsageError("not a name and a function", asked=asked, legal='@register_func("my.function")')
    if func_name in _functions and _functions[func_name] is not f and not override:
        raise UsageError("the name is in use", asked=asked, legal="another name, or override=True")
    _functions[func_name] = f
    return f


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """The Python function of that name. Raises BuildError (or, if allowed, returns None) if there is none."""
    found = _functions.get(name)
    if found is None and not allow_missing:
        raise BuildError(
            "no Python function is registered under that name in this process",
            asked=f"call_packed({name!r})",
            legal=f"@register_func({name!r}) in a file that this process imports; "
            f"registered: {', '.join(sorted(_functions)[:20]) or 'none'}",
        )
    return found


def list_global_func_names() -> list[str]:
    return sorted(_functions)


def remove_global_func(name: str) -> None:
    """Forget a Python function."""
    get_global_func(name)
    del _functions[name]


# -- C symbols ------------------------------------------------------------------------------------


def load_library(path: str) -> ctypes.CDLL:
    """Load a shared library, so that `call_extern` finds its functions. Raises BuildError if that fails."""
    try:
        found = _libraries[path] = open_library(str(path))
    except OSError as error:
        raise BuildError(
            f"it cannot be loaded: {error}", asked=f"load_library({path!r})", legal="the path of a shared library"
        ) from None
    return found


def open_library(path: str) -> ctypes.CDLL:
    """Load a shared library. Raises OSError, also for a file without its end, at which the system ends the process."""
    if os.path.isfile(path) and (size := os.path.getsize(path)) < (whole := _elf_bytes(path)):
        raise OSError(f"the file is cut off: it has {size} of {whole} bytes")
    return ctypes.CDLL(_path_of_now(path))


def _path_of_now(path: str) -> str:
    """A spelling of the path under which no other file was loaded: the system takes one path for one library, also
    after the file was replaced."""
    folder, name = os.path.split(path)
    if not folder or not os.path.isfile(path):
        return path
    status = os.stat(path)
    files = _files.setdefault(path, [])
    if (status.st_dev, status.st_ino) not in files:
        files.append((status.st_dev, status.st_ino))
    return os.path.join(folder, "./" * files.index((status.st_dev, status.st_ino)) + name)


def _elf_bytes(path: str) -> int:
    """The bytes that an ELF file for 64 bits says it has; 0 for other files."""
    with open(path, "rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:5] != b"\x7fELF\2":
            return 0
        order = "<" if head[5] == 1 else ">"
        segments, sections = struct.unpack_from(f"{order}QQ", head, 32)
        size, count, section_size, section_count = struct.unpack_from(f"{order}4H", head, 54)
        file.seek(min(segments, sys.maxsize))
        table = file.read(size * count)
    ends = [segments + size * count, sections + section_size * section_count]
    for at in range(0, len(table) - 55, size or 56):
        kind, begin, length = struct.unpack_from(f"{order}I4xQ16xQ", table, at)
        ends += [begin + length] if kind == _PT_LOAD else []
    return max(ends)


def register_symbol(name: str, function: Any) -> None:
    """Let the C symbol `name` be this function: an address, or a function of ctypes (which is kept alive)."""
    if isinstance(function, int):
        _symbols[name] = (function, None)
        return
    try:
        address = ctypes.cast(function, ctypes.c_void_p).value
    except (ctypes.ArgumentError, TypeError):
        address = None
    if not address:
        legal = "an address, a function of a ctypes library, or a ctypes.CFUNCTYPE(...)(f)"
        raise UsageError(f"{function!r} has no address", asked=f"register_symbol({name!r})", legal=legal)
    _symbols[name] = (address, function)


@cache
def _standard_libraries() -> tuple[ctypes.CDLL, ...]:
    """The process, and the mathematics library that its generated code calls."""
    found = []
    for name in (None, *(("libm.so.6",) if sys.platform == "linux" else ())):
        try:
            found.append(ctypes.CDLL(name))
        except OSError:
            continue
    return tuple(found)


def find_symbol(name: str, missing_ok: bool = False) -> int:
    """The address of a C function. Raises BuildError (or, if allowed, returns 0) if nothing has it."""
    if name in _symbols:
        return _symbols[name][0]
    for library in (*reversed(_libraries.values()), *_standard_libraries()):
        try:
            address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            continue
        if address:
            return address
    if missing_ok:
        return 0
    # files of `import_c` are gone once they are loaded; nobody named them
    named = [path for path in _libraries if not os.path.isabs(path) or os.path.exists(path)]
    raise BuildError(
        "no library of this process has such a symbol",
        asked=f"call_extern(..., {name!r})",
        legal="load_library(path) or register_symbol(name, function) before the module is built; "
        f"libraries named: {', '.join(named[:20]) or 'none'}",
    )


def call_symbol(address: int, result: str, args: Iterable[tuple[str, Any]]) -> Any:
    """Call a C function: numbers by their types, arrays as pointers to their first element."""
    given = [(ctypes.c_void_p, v.ctypes.data) if isinstance(v, np.ndarray) else (_ctype(t), v.item()) for t, v in args]
    prototype = ctypes.CFUNCTYPE(_ctype(result), *(of for of, _ in given))
    return prototype(address)(*(v for _, v in given))


def _ctype(name: str) -> Any:
    return np.ctypeslib.as_ctypes_type(numpy_dtype(name))


# -- evaluation by NumPy --------------------------------------------------------------------------


def register_numpy(names: str | Iterable[str], function: Callable[..., Any]) -> None:
    """Let NumPy evaluate pure calls of these names: `te.reference` and the interpreter ask for it.

    `function` takes arrays and returns one, like a ufunc.
    """
    for name in (names,) if isinstance(names, str) else names:
        _numpy[name] = function


def find_numpy(name: str) -> Callable[..., Any] | None:
    return _numpy.get(name)


def numpy_of(name: str) -> Callable[..., Any]:
    """The function with which NumPy evaluates a call. Raises BuildError if there is none."""
    found = find_numpy(name)
    if found is None:
        legal = f"register_numpy({name!r}, function), where the function takes arrays and returns one"
        raise BuildError("nothing says how NumPy evaluates it", asked=f"evaluate a call of {name}", legal=legal)
    return found


def returned_number(name: str, value: Any) -> Any:
    """What a Python function has returned to an expression: a number, or None, which is 0. Raises BuildError."""
    if value is None:
        return 0
    if isinstance(value, (bool, int, float, np.generic)) or np.size(value) == 1 and np.ndim(value) == 0:
        return value
    found = f"an array of shape {np.shape(value)}" if isinstance(value, np.ndarray) else repr(value)[:60]
    legal = "a number; arrays are arguments, which it fills"
    raise BuildError(f"it returned {found}", asked=f"call_packed({name!r})", legal=legal)


def _register_libm() -> None:
    """The functions of C's mathematics library, by their names for doubles and for floats."""
    same = "exp exp2 log log2 log10 log1p expm1 sin cos tan sinh cosh tanh sqrt cbrt floor ceil trunc rint hypot fmod"
    ufuncs = {name: name for name in f"{same} fabs fmax fmin copysign nextafter".split()}
    ufuncs |= {f"a{name}": f"arc{name}" for name in "sin cos tan tan2 sinh cosh tanh".split()}
    ufuncs["nearbyint"] = "rint"
    for name, ufunc in ufuncs.items():
        register_numpy((name, f"{name}f"), getattr(np, ufunc))
    for name in "exp exp2 log log2 log10 sin cos sqrt floor ceil trunc rint copysign fabs".split():
        register_numpy(f"llvm.{name}", getattr(np, name))
    power = OPS["pow"].numpy
    assert power is not None
    register_numpy(("pow", "powf", "llvm.pow"), power)
    register_numpy("llvm.fma", lambda a, b, c: (a.astype(np.longdouble) * b + c).astype(a.dtype))
    register_numpy("llvm.fmuladd", lambda a, b, c: a * b + c)
    register_numpy("llvm.ctpop", lambda x: np.bitwise_count(x.view(x.dtype.str.replace("i", "u"))).astype(x.dtype))


_register_libm()


A = TypeVar("A")
R = TypeVar("R")

#: `FunctionOf[Expr, object]`: a function of any number of expressions; of more than six, the first are
FunctionOf: TypeAlias = (
    Callable[[A], R]  # first, so that the parameters of the alias are (A, R)
    | Callable[[], R]
    | Callable[[A, A], R]
    | Callable[[A, A, A], R]
    | Callable[[A, A, A, A], R]
    | Callable[[A, A, A, A, A], R]
    | Callable[[A, A, A, A, A, A], R]
    | Callable[[*tuple[A, ...]], R]
    | Callable[Concatenate[A, A, A, A, A, A, A, ...], R]
)
