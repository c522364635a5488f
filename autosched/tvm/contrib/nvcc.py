"""`tvm.contrib.nvcc`: NVIDIA's compiler, where it is installed, and what devices of a compute capability can do."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autosched.errors import BuildError, UsageError
from autosched.runtime.c_compiler import Compiler
from autosched.runtime.device import device
from autosched.target import Target
from autosched.tvm._missing import missing


def find_cuda_path() -> str:
    """The folder of CUDA: of `CUDA_PATH`, or of the nvcc that is found. Raises BuildError if there is none."""
    given, found = os.environ.get("CUDA_PATH", ""), shutil.which("nvcc")
    if given:
        return given
    if found:
        return str(Path(found).resolve().parent.parent)
    legal = "CUDA_PATH, or nvcc on the PATH; kernels of target cuda are compiled without it, by the driver's NVRTC"
    raise BuildError("there is no nvcc on this machine", asked="find_cuda_path", legal=legal)


def get_cuda_version(cuda_path: str | None = None) -> tuple[int, ...]:
    """The version of nvcc: (12, 4). Raises BuildError."""
    command = [str(Path(cuda_path or find_cuda_path(), "bin", "nvcc")), "--version"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return tuple(map(int, told.partition("release ")[2].partition(",")[0].split(".")))
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        raise BuildError(f"it does not answer: {error}", asked=" ".join(command), legal="the folder of CUDA") from None


def compile_cuda(
    code: str,
    target_format: str = "ptx",
    arch: Any = None,
    options: str | Sequence[str] | None = None,
    path_target: str | None = None,
) -> bytearray:
    """CUDA C compiled by nvcc to `ptx`, `cubin` or `fatbin`. Raises BuildError with its complaints, UsageError for
    another form."""
    if target_format not in ("ptx", "cubin", "fatbin"):
        raise UsageError(f"no form {target_format!r}", asked="compile_cuda", legal="ptx, cubin or fatbin")
    command = str(Path(find_cuda_path(), "bin", "nvcc"))
    extra = [options] if isinstance(options, str) else list(options or ())
    if arch is None:
        arch = f"sm_{get_target_compute_version().replace('.', '')}"
    with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
        source, made = Path(folder, "kernel.cu"), Path(path_target or Path(folder, f"kernel.{target_format}"))
        source.write_text(code, encoding="utf-8")
        words = [f"--{target_format}", "-O3", f"-arch={arch}", *extra, "-o", str(made), str(source)]
        Compiler((command,), ()).run(words, "compile_cuda")
        return bytearray(made.read_bytes())


def get_target_compute_version(target: Any = None) -> str:
    """The compute capability: of the target's `-arch`, or of the device. Raises UsageError if neither tells."""
    found = target or Target.current(allow_none=True)
    arch = str(Target(found).options.get("arch", "")) if found is not None else ""
    digits = arch.removeprefix("sm_").rstrip("abcdefghijklmnopqrstuvwxyz")
    if digits.isdigit():
        return f"{digits[:-1]}.{digits[-1]}"
    here = device("cuda")
    if here.exist:
        return str(here.fact("arch"))
    legal = 'tvm.target.Target("cuda -arch=sm_80")'
    raise UsageError("no CUDA device tells its capability", asked="get_target_compute_version", legal=legal)


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """`"8.6"` as (8, 6). Raises UsageError for other text."""
    major, _, minor = str(compute_version).partition(".")
    if not (major.isdigit() and minor.isdigit()):
        raise UsageError("it is no capability", asked=f"parse_compute_version({compute_version!r})", legal='"8.6"')
    return int(major), int(minor)


def have_fp16(compute_version: str) -> bool:
    """Whether such devices compute in float16: 5.3, and from 6.0 on."""
    return parse_compute_version(compute_version) >= (5, 3)


def have_int8(compute_version: str) -> bool:
    """Whether such devices multiply and add four bytes at once: from 6.1 on."""
    return parse_compute_version(compute_version) >= (6, 1)


def have_tensorcore(compute_version: str | None = None, target: Any = None) -> bool:
    """Whether such devices have units for products of matrices: from 7.0 on; without a version, the device or target.

    False where no device or target tells."""
    if compute_version is None:
        try:
            compute_version = get_target_compute_version(target)
        except UsageError:
            return False
    return parse_compute_version(compute_version) >= (7, 0)


def have_bf16(compute_version: str) -> bool:
    """Whether such devices compute in bfloat16: from 8.0 on."""
    return parse_compute_version(compute_version) >= (8, 0)


def have_fp8(compute_version: str) -> bool:
    """Whether such devices compute in 8-bit floats: from 8.9 on."""
    return parse_compute_version(compute_version) >= (8, 9)


def have_cudagraph() -> bool:
    """Graphs of launches are not used."""
    return False


_INSTEAD = dict.fromkeys(
    ("tvm_callback_cuda_compile", "find_libdevice_path", "callback_libdevice_path"),
    "kernels of target cuda are compiled by the driver's NVRTC",
)
__getattr__ = missing("contrib.nvcc", globals(), _INSTEAD)
