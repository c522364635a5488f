"""A Python package around an exported library, and an example that calls the library itself: both need NumPy alone."""

from __future__ import annotations

import builtins
import keyword
import re
import sysconfig
from collections.abc import Iterable, Sequence
from string import Template

from autosched.codegen.c99 import C
from autosched.codegen.c_program import c_name
from autosched.codegen.c_text import Names
from autosched.codegen.signature import Param
from autosched.exporting.interface import Interface
from autosched.ir.dims import Dim, format_dim, solve_dim

_PACKAGE = Template('''\
"""$title

    $signature

Its code is in $library, which is called through ctypes.
"""

import ctypes
$imports
import numpy as np

__all__ = ["$public"]

_HERE = Path(__file__).parent
_library = ctypes.CDLL(str(_HERE / "$library"))
_function = _library["$name"]
_function.restype = ctypes.c_int32
_function.argtypes = [ctypes.c_void_p] * $pointers + [ctypes.c_int64] * $sizes
$data

def _input(name, array, dtype, dimensions):
    """The array, or a copy without gaps. Raises TypeError for another type, ValueError for other dimensions."""
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        found = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise TypeError(f"$name, argument {name!r}: it is {found}, and a NumPy array of {np.dtype(dtype)} is needed")
    if array.ndim != dimensions:
        raise ValueError(f"$name, argument {name!r}: it has {array.ndim} dimensions, and {dimensions} are needed")
    return $require


def _fits(name, array, shape):
    if array.shape != shape:
        raise ValueError(f"$name, argument {name!r}: its shape is {array.shape}, and {shape} is needed")


def _output(name, array, dtype, shape, inputs):
    """The caller's array, checked, or a new one."""
    if array is None:
        return $empty
    if _input(name, array, dtype, len(shape)) is not array or not array.flags.writeable:
        raise ValueError(f"$name, argument {name!r}: what is written needs an array that is writeable and has no gaps")
    _fits(name, array, shape)
    if any(np.may_share_memory(array, other) for other in inputs):
        raise ValueError(f"$name, argument {name!r}: it shares memory with another argument")
    return array
$helpers

def $public($takes):
    """$signature

    $told
    """
$body
    $call
    if status:
        raise $error
    return $result
''')
_EXAMPLE = Template('''\
"""Call $library itself, without the package: $run"""

import ctypes
from pathlib import Path

import numpy as np

here = Path(__file__).resolve().parent
library = ctypes.CDLL(str(here / "$library"))
function = library["$name"]
function.restype = ctypes.c_int32
function.argtypes = [ctypes.c_void_p] * $pointers + [ctypes.c_int64] * $sizes
$opened
$arrays
status = function($passed)
assert status == 0, status
$shown''')
_PYPROJECT = Template("""\
[build-system]
requires = ["setuptools>=70.1"]
build-backend = "setuptools.build_meta"

[project]
name = "$project"
version = "0.1.0"
description = "$title"
requires-python = ">=3.9"
dependencies = ["numpy"]

[tool.setuptools]
packages = ["$package"]

[tool.setuptools.package-data]
$package = [$data]
""")
_SETUP = Template("""\
from setuptools import Extension, setup

# a library in C, which has nothing of Python's: it is found beside the package and loaded by ctypes
code = Extension(
    "$package._$package",
    sources=[$sources],
    depends=[$headers],
    include_dirs=["$package"],
    libraries=[$libraries],
    extra_compile_args=[$compile],
    extra_link_args=[$link],
    py_limited_api=True,
)
setup(ext_modules=[code])
""")
_TRUNCATED = """

def _div(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _mod(a, b):
    return a - _div(a, b) * b
"""
_ALIGNED = '''

def _aligned(array):
    """The array, or a copy at an address that is a multiple of {0}."""
    if array.ctypes.data % {0} == 0:
        return array
    room = np.empty(array.nbytes + {0}, np.uint8)
    start = -room.ctypes.data % {0}
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
'''
#: names of the package that no argument may have
_OWN = ("np", "ctypes", "status", "Path", "threading")


def package_name(name: str) -> str:
    """The package, and the function in it: an identifier of C that is one of Python's, too."""
    found = c_name(name)
    return f"{found}_" if keyword.iskeyword(found) or found in (*_OWN, *dir(builtins)) else found


def numpy_name(p: Param) -> str:
    """NumPy's type of an array: bfloat16 is passed as its bits."""
    return {"bool": "bool", "bfloat16": "uint16"}.get(p.dtype, p.dtype)


class _Words:
    """The names of arrays and sizes in Python, and formulas over them."""

    def __init__(self, f: Interface) -> None:
        names = Names(C)
        for taken in (*_OWN, *keyword.kwlist):
            names.declare(taken)
        self.f = f
        self.arrays = [names.declare(p.name) for p in f.signature.params]
        self.sizes = {s: names.declare(s) for s in f.signature.sizes}

    def text(self, dim: Dim) -> str:
        return format_dim(dim, {"truncdiv": "_div({}, {})", "truncmod": "_mod({}, {})"}, self.sizes.__getitem__)

    def shape(self, p: Param) -> str:
        return f"({', '.join(map(self.text, p.shape))}{',' if len(p.shape) == 1 else ''})"


def wrapper(f: Interface, library: str) -> str:
    """__init__.py of the package."""
    w, name, params = _Words(f), c_name(f.name), f.signature.params
    shown = [i for i in range(len(params)) if i != f.weights_at]
    inputs = [i for i in shown if not params[i].is_output]
    outputs = [i for i in shown if params[i].is_output]
    body, needed = _body(w, inputs, outputs)
    passed = ["_weights.ctypes.data" if i == f.weights_at else f"{w.arrays[i]}.ctypes.data" for i in range(len(params))]
    call = f"status = _function({', '.join([*(['_device'] if f.is_device else []), *passed, *w.sizes.values()])})"
    fails = f'MemoryError("{name}: no memory for intermediate results")'
    if f.is_device:
        call, fails = f"with _lock:\n        {call}", f'OSError(f"{name}: error {{status}} of OpenCL")'
    alignment = max([1, *(p.alignment for i, p in enumerate(params) if i != f.weights_at)])
    optional = "" if needed else "=None"

    def aligned(text: str) -> str:
        return f"_aligned({text})" if alignment > 1 else text

    text = _PACKAGE.substitute(
        title=title_of(f),
        signature=described(f),
        library=library,
        imports=f"{'import threading' if f.is_device else ''}\nfrom pathlib import Path\n".lstrip("\n"),
        public=package_name(f.name),
        name=name,
        pointers=len(params) + f.is_device,
        sizes=len(w.sizes),
        helpers=_ALIGNED.format(alignment) if alignment > 1 else "",
        require=aligned('np.require(array, requirements=["C", "A"])'),
        empty=aligned("np.empty(shape, dtype)"),
        data=_data(f, name),
        takes=", ".join([*(w.arrays[i] for i in inputs), *(w.arrays[i] + optional for i in outputs)]),
        told=_told(f, needed),
        body="\n".join(f"    {line}" for line in body),
        call=call,
        error=fails,
        result=", ".join(w.arrays[i] for i in outputs),
    )
    return text.replace("\n\ndef _input", f"{_TRUNCATED}\n\ndef _input") if re.search(r"_(div|mod)\(", text) else text


def _body(w: _Words, inputs: Sequence[int], outputs: Sequence[int]) -> tuple[list[str], bool]:
    """Statements that check arrays and read sizes off their shapes; whether that takes the outputs."""
    params, name = w.f.signature.params, c_name(w.f.name)
    read = _sizes(w, inputs)
    needed = len(read) < len(w.sizes)
    body = [
        f'{w.arrays[i]} = _input("{params[i].name}", {w.arrays[i]}, "{numpy_name(params[i])}", {len(params[i].shape)})'
        for i in (*inputs, *(outputs if needed else ()))
    ]
    body += _sizes(w, (*inputs, *outputs)) if needed else read
    body += [f'_fits("{params[i].name}", {w.arrays[i]}, {w.shape(params[i])})' for i in inputs]
    for r in w.f.signature.requires:
        body.append(f"if not ({w.text([r.op, r.left, r.right])}):")
        body.append(f"    raise ValueError({f'{name}: {r.reason}: needed {r}'!r})")
    for k, i in enumerate(outputs):
        others = ", ".join(w.arrays[j] for j in (*inputs, *outputs[:k]))
        of = f'"{numpy_name(params[i])}", {w.shape(params[i])}, [{others}]'
        body.append(f'{w.arrays[i]} = _output("{params[i].name}", {w.arrays[i]}, {of})')
    return body, needed


def _sizes(w: _Words, arrays: Sequence[int]) -> list[str]:
    """Statements that read sizes off the shapes of arrays."""
    found: dict[str, str] = {}
    for i in arrays:
        ways = [(s, axis) for axis, d in enumerate(w.f.signature.params[i].shape) if (s := solve_dim(d)) is not None]
        for (name, steps), axis in sorted(ways, key=lambda x: len(x[0][1])):
            text = f"{w.arrays[i]}.shape[{axis}]"
            for op, k in steps:
                text = {"sub": f"{text} - {k}", "from": f"{k} - ({text})", "div": f"({text}) // {k}"}[op]
            found.setdefault(name, f"{w.sizes[name]} = {text}")
    return list(found.values())


def _told(f: Interface, needed: bool) -> str:
    lines = ["Arrays are NumPy's. Inputs with gaps are copied; outputs that are not given are made."]
    if any(p.dtype == "bfloat16" for p in f.signature.params):
        lines.append("bfloat16 is passed as its bits, uint16.")
    if needed:
        lines[0] = (
            "Arrays are NumPy's. Inputs with gaps are copied. Outputs say how large they are, so they are needed."
        )
    raises = "Raises TypeError or ValueError for an array that does not fit, "
    lines.append(raises + ("OSError where OpenCL fails." if f.is_device else "MemoryError."))
    return "\n    ".join(lines)


def _data(f: Interface, name: str) -> str:
    """Statements for weights, and for a device."""
    text = ""
    if f.weights:
        text = """
_block = np.fromfile(_HERE / "weights.bin", np.uint8)
_weights = np.empty(_block.size + 64, np.uint8)
_weights = _weights[-_weights.ctypes.data % 64 :][: _block.size]
_weights[:] = _block
"""
    if f.is_device:
        weights = "ctypes.c_void_p(_weights.ctypes.data)" if f.weights else "None"
        text += f"""
_lock = threading.Lock()
_library.{name}_open.restype = ctypes.c_void_p
_device = _library.{name}_open(str(_HERE / "{name}.cl").encode(), {weights})
if not _device:
    raise OSError("{name}: no device of OpenCL could be opened; standard error says why")
"""
    return text


def described(f: Interface) -> str:
    """`blur(image: uint8[height, width]) -> uint8[height, width]`, without weights."""
    params = [p for i, p in enumerate(f.signature.params) if i != f.weights_at]
    outputs = ", ".join(str(p) for p in params if p.is_output)
    return f"{package_name(f.name)}({', '.join(str(p) for p in params if not p.is_output)}) -> {outputs}"


def title_of(f: Interface) -> str:
    return f"{package_name(f.name)}, compiled by autosched for {f.target.kind}"


def example(f: Interface) -> str:
    """example.py."""
    w, name, library = _Words(f), c_name(f.name), f"lib{c_name(f.name)}.so"
    lines, shown = [], []
    for s, value in f.usual.items():
        lines.append(f"{w.sizes[s]} = {value}")
    for i, p in enumerate(f.signature.params):
        of = f'"{numpy_name(p)}"'
        if i == f.weights_at:
            lines.append(f'block = np.fromfile(here / "weights.bin", np.uint8)  # at a multiple of {p.alignment}')
            lines.append(f"room = np.empty(len(block) + {p.alignment}, np.uint8)")
            lines.append(f"{w.arrays[i]} = room[-room.ctypes.data % {p.alignment} :][: len(block)]")
            lines.append(f"{w.arrays[i]}[:] = block")
        else:
            lines.append(f"{w.arrays[i]} = np.{'empty' if p.is_output else 'ones'}({w.shape(p)}, {of})")
        if p.is_output:
            shown.append(f'print("{p.name}:", {w.arrays[i]}.shape, {w.arrays[i]}.dtype, {w.arrays[i]}.sum())\n')
    opened, passed = "", [f"{a}.ctypes.data" for a in w.arrays]
    if f.is_device:
        weights = "block.ctypes.data" if f.weights else "None"
        opened = f"""
library.{name}_open.restype = ctypes.c_void_p
library.{name}_open.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
{'block = np.fromfile(here / "weights.bin", np.uint8)' if f.weights else ""}
device = library.{name}_open(str(here / "{name}.cl").encode(), {weights})
assert device, "no device of OpenCL could be opened"
"""
        passed = ["device", *passed]
    return _EXAMPLE.substitute(
        library=library,
        run="python example.py",
        name=name,
        pointers=len(passed),
        sizes=len(w.sizes),
        opened=opened,
        arrays="\n".join(lines),
        passed=", ".join([*passed, *w.sizes.values()]),
        shown="".join(shown),
    )


def project_files(f: Interface, sources: Sequence[str], data: Sequence[str]) -> dict[str, str]:
    """What `pip wheel` reads: the package has the library among its `data`, or compiles it from `sources`."""
    package = package_name(f.name)
    words = {"project": package.strip("_") or "kernel", "title": title_of(f), "package": package, "data": _listed(data)}
    files = {"pyproject.toml": _PYPROJECT.substitute(words)}
    if not sources:
        platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
        return {**files, "setup.cfg": f"[bdist_wheel]\npython_tag = py3\nplat_name = {platform}\n"}
    openmp = ["-fopenmp"] if f.parallel else []
    files["setup.py"] = _SETUP.substitute(
        package=package,
        sources=_listed(f"{package}/{s}" for s in sources if s.endswith(".c")),
        headers=_listed(f"{package}/{s}" for s in sources if s.endswith(".h")),
        libraries=_listed(x.removeprefix("-l") for x in f.libraries),
        compile=_listed([*f.flags, *openmp]),
        link=_listed(openmp),
    )
    return {**files, "setup.cfg": "[bdist_wheel]\npy_limited_api = cp311\n"}


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f'"{w}"' for w in words)
