"""`tvm.contrib.clang`: C as LLVM assembly, for `import_llvm`, where clang is installed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from autosched.errors import BuildError
from autosched.runtime.c_compiler import Compiler
from autosched.tvm._missing import missing

_LEGAL = "clang on the PATH; for C functions alone: autosched.runtime.registry.import_c(source), with any compiler"


def find_clang(required: bool = True) -> list[str]:
    """The commands that are clang, newest first. Raises BuildError if there is none, unless it is not required."""
    names = ["clang", *(f"clang-{version}" for version in range(25, 8, -1))]
    found = [path for name in names if (path := shutil.which(name))]
    if not found and required:
        raise BuildError("there is no clang on this machine", asked="find_clang", legal=_LEGAL)
    return found


def create_llvm(
    inputs: str | Sequence[str], output: str | None = None, options: Sequence[str] | None = None, cc: str | None = None
) -> str:
    """The LLVM assembly of C or C++ files, or of such source itself; also written to `output`.

    Raises BuildError with clang's complaints, or if there is none.
    """
    command = cc or find_clang()[0]
    listed = [inputs] if isinstance(inputs, str) else list(inputs)
    with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
        to = Path(output or Path(folder, "output.ll"))
        files = []
        for k, given in enumerate(listed):
            is_file = "\n" not in given and os.path.isfile(given)
            files.append(Path(given) if is_file else Path(folder, f"input{k}.cc"))
            if not is_file:
                files[-1].write_text(given, encoding="utf-8")
        flags = ["-O3", "-emit-llvm", "-S", *(options or ())]
        Compiler((command,), ()).run([*flags, *map(str, files), "-o", str(to)], "create_llvm")
        return to.read_text(encoding="utf-8")


__getattr__ = missing("contrib.clang", globals())
