"""`tvm.contrib.clang`: C as LLVM assembly, for `import_llvm`.

Without clang the C compiler of this machine makes assembly, which stands in the LLVM assembly as it is (`module asm`):
its functions can be called, and not be inlined.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from autosched.errors import BuildError
from autosched.runtime.c_compiler import Compiler, require_compiler
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

    cc: the clang to use; without it the newest on the PATH, else the C compiler, whose assembly is wrapped

    Raises BuildError with the compiler's complaints, or if there is none.
    """
    command = cc or next(iter(find_clang(required=False)), None)
    listed = [inputs] if isinstance(inputs, str) else list(inputs)
    with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
        to = Path(output or Path(folder, "output.ll"))
        files = []
        for k, given in enumerate(listed):
            is_file = "\n" not in given and os.path.isfile(given)
            files.append(Path(given) if is_file else Path(folder, f"input{k}.cc"))
            if not is_file:
                files[-1].write_text(given, encoding="utf-8")
        if command is not None:
            flags = ["-O3", "-emit-llvm", "-S", *(options or ())]
            Compiler((command,), ()).run([*flags, *map(str, files), "-o", str(to)], "create_llvm")
            return to.read_text(encoding="utf-8")
        texts = []
        for k, file in enumerate(files):
            made = Path(folder, f"output{k}.s")
            flags = ["-O3", "-S", "-fPIC", "-fno-asynchronous-unwind-tables", *(options or ())]
            require_compiler("create_llvm").run([*flags, str(file), "-o", str(made)], "create_llvm")
            texts.append(made.read_text(encoding="utf-8"))
        whole = "".join(f'module asm "{_quoted(line)}"\n' for text in texts for line in text.splitlines())
        to.write_text(whole, encoding="utf-8")
        return whole


def _quoted(line: str) -> str:
    """A line as LLVM's strings spell it."""
    plain = (chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in line.encode())
    return "".join(plain)


__getattr__ = missing("contrib.clang", globals())
