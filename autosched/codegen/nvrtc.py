"""NVIDIA's run-time compiler for CUDA C++, by its C interface. It needs no GPU.

The library comes with a CUDA toolkit, or by itself: `pip install nvidia-cuda-nvrtc-cu12`. Headers
are not needed: generated source includes none.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from autosched.errors import BuildError, DeviceError

_LOG_CHARACTERS = 4096


def _places() -> Iterator[str]:
    """Paths where the library may be: the wheels' folders, a toolkit's, and wherever the loader looks."""
    patterns = ("nvrtc64_*_0.dll",) if sys.platform == "win32" else ("libnvrtc.so.[0-9]*", "libnvrtc.so")
    wheels = [Path(p) / "nvidia" / package for p in sys.path for package in ("cuda_nvrtc", "cu13", "cu12")]
    toolkits = [Path(os.environ[v]) for v in ("CUDA_PATH", "CUDA_HOME") if os.environ.get(v)]
    for root in (*wheels, *toolkits, Path("/usr/local/cuda")):
        for folder in ("lib", "lib64", "bin"):
            for pattern in patterns:
                yield from (str(p) for p in sorted((root / folder).glob(pattern), reverse=True))
    found = ctypes.util.find_library("nvrtc")
    if found:
        yield found


@lru_cache(maxsize=1)
def find_nvrtc() -> Any | None:
    """The library, or None where there is none on this machine."""
    for place in _places():
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    return None


def compile_cuda_source(source: str, arch: str, *, to: str = "cubin", options: Sequence[str] = ()) -> bytes:
    """Machine code (`to="cubin"`) or assembly (`to="ptx"`) of CUDA C++ `source` for an architecture, `sm_80`.

    Raises DeviceError where NVRTC is not installed, BuildError with the compiler's log for source that it
    refuses, and for an architecture that it does not know.

    >>> ptx = compile_cuda_source(module.get_source(), "sm_80", to="ptx").decode()
    """
    library = find_nvrtc()
    if library is None:
        raise DeviceError(
            "NVRTC, the run-time compiler of CUDA, is not on this machine",
            asked=f"compile CUDA source for {arch}",
            legal="pip install nvidia-cuda-nvrtc-cu12, or install a CUDA toolkit and set CUDA_PATH; "
            "the source itself needs neither: get_source()",
        )
    program = ctypes.c_void_p()
    _check(
        library,
        library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"autosched.cu", 0, None, None),
        "nvrtcCreateProgram",
    )
    # a cubin is for a real architecture, and PTX for a virtual one
    flag = arch if to == "cubin" else arch.replace("sm_", "compute_")
    words = [f"--gpu-architecture={flag}", "--std=c++17", *options]
    given = (ctypes.c_char_p * len(words))(*(w.encode() for w in words))
    try:
        if library.nvrtcCompileProgram(program, len(words), given) != 0:
            log = _text(library, program, "ProgramLog").decode(errors="replace").strip("\0 \n")
            raise BuildError(
                "NVRTC refuses the source",
                asked=f"compile CUDA source for {arch}",
                legal=f"compiler log:\n{log[:_LOG_CHARACTERS] or 'empty: does NVRTC know this architecture?'}",
            )
        return _text(library, program, "CUBIN" if to == "cubin" else "PTX")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _text(library: Any, program: ctypes.c_void_p, what: str) -> bytes:
    """One of the results of a program: its log, PTX or CUBIN."""
    size = ctypes.c_size_t()
    _check(library, getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), f"nvrtcGet{what}Size")
    held = ctypes.create_string_buffer(size.value)
    _check(library, getattr(library, f"nvrtcGet{what}")(program, held), f"nvrtcGet{what}")
    return held.raw


def _check(library: Any, status: int, call: str) -> None:
    if status != 0:
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        why = library.nvrtcGetErrorString(status).decode()
        raise BuildError(f"{call} failed: {why}", asked="NVRTC", legal="is its version right for this architecture?")
