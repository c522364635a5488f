"""The C compiler of this machine: found, asked what it can do, and run; kernels from what it makes."""

from __future__ import annotations

import ctypes
import importlib.util
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from autosched.codegen.artifact import Artifact
from autosched.codegen.c_program import for_any_compiler
from autosched.errors import BuildError, UsageError
from autosched.ir.functions import find_symbol
from autosched.runtime import jit as openmp
from autosched.runtime.cpu import CpuKernel, LoadedCode
from autosched.runtime.kernel import CompilerFailed

#: errno and traps are of no interest to generated code; a*b+c may be one instruction, as with LLVM. Buffers of
#: several types lie in one workspace: without -fno-strict-aliasing, gcc 12 loses stores to them at -O3
_FLAGS = (
    "-std=gnu99", "-O3", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fno-strict-aliasing",
)  # fmt: skip
#: gcc at -O3 copies loops and paths, and then takes a minute for a thousand statements under conditions. Longer sources
#: than this get what matters of it, as far as a compiler takes flags of gcc's.
MOST_LINES_AT_O3 = 600
_FLAGS_OF_LONG = ("-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic")
_LOG_CHARACTERS = 4096
#: the environment variable with the seconds that one run of the compiler may take, and what holds without it
TIME_LIMIT = "AUTOSCHED_CC_TIMEOUT"
_TIME_LIMIT_S = 120.0
#: Seconds for a program of one line; a compiler that builds its own library first has the time for it.
_PROBE_LIMIT_S = 30.0


@dataclass(frozen=True)
class Compiler:
    """A command that compiles C, its flags for OpenMP (none without support) and for long sources, and whether it knows
    GNU C's vectors."""

    command: tuple[str, ...]
    openmp: tuple[str, ...]
    of_long: tuple[str, ...] = ()
    vectors: bool = True

    def run(self, arguments: Sequence[str], asked: str, most_s: float = math.inf) -> None:
        """Run the command. Raises BuildError with its complaints when it fails, and when it takes too long: longer than
        `time_limit`, or `most_s` seconds."""
        limit = min(time_limit(), most_s)
        process = subprocess.Popen(
            [*self.command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # the compiler proper is a child of the command
        )
        try:
            told, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            raise CompilerFailed(
                f"{self.command[0]} has not ended after {limit:g} s, and was stopped",
                asked=asked,
                legal=f"a schedule that unrolls less, CFLAGS=-O1, or more seconds: {TIME_LIMIT}=300",
            ) from None
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        if process.returncode:
            raise CompilerFailed(
                f"{self.command[0]} failed with status {process.returncode}",
                asked=asked,
                legal=f"its complaints:\n{told.strip()[:_LOG_CHARACTERS]}",
            )

    def accepts(self, *arguments: str, source: str = "int main(void) { return 0; }\n") -> bool:
        """True if a small program compiles and links with these arguments, which a compiler that hangs does not."""
        with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
            path = Path(folder, "probe.c")
            path.write_text(source)
            try:
                self.run([str(path), *arguments, "-o", str(path.with_suffix(""))], "a small program", _PROBE_LIMIT_S)
            except CompilerFailed:
                return False
        return True


def time_limit() -> float:
    """Seconds that one run of the C compiler may take: `AUTOSCHED_CC_TIMEOUT`, by default 120."""
    given = os.environ.get(TIME_LIMIT, "")
    try:
        limit = float(given or _TIME_LIMIT_S)
    except ValueError:
        limit = math.nan
    if not 0 < limit < math.inf:
        raise UsageError(f"{given!r} is no number of seconds", asked=TIME_LIMIT, legal="a number above 0, such as 300")
    return limit


def compiler_commands() -> list[tuple[str, ...]]:
    """Commands that may be C compilers, best first."""
    asked = shlex.split(os.environ.get("CC", ""))
    found = [tuple(asked)] if asked and shutil.which(asked[0]) else []
    found += [(name,) for name in ("cc", "gcc", "clang") if shutil.which(name)]
    if importlib.util.find_spec("ziglang") is not None:
        found.append((sys.executable, "-m", "ziglang", "cc"))
    return found


def find_compiler() -> Compiler | None:
    """The compiler to use, None when there is none. `$CC` may change between calls."""
    for command in compiler_commands():
        compiler = _probed(command)
        if compiler is not None:
            return compiler
    return None


@lru_cache(maxsize=8)
def _probed(command: tuple[str, ...]) -> Compiler | None:
    plain = Compiler(command, ())
    if not plain.accepts():
        return None
    openmp = ("-fopenmp",) if plain.accepts("-fopenmp", source=_OPENMP_PROBE) else ()
    of_long = tuple(flag for flag in _FLAGS_OF_LONG if plain.accepts(flag))
    return Compiler(command, openmp, of_long, plain.accepts(source=_VECTOR_PROBE))


_VECTOR_PROBE = """\
typedef float vector __attribute__((vector_size(16), may_alias));
typedef int mask __attribute__((vector_size(16), may_alias));
int main(void) { vector a = {0, 1, 2, 3}; mask b = __builtin_convertvector(a, mask) == (mask)(a > 0); return b[0]; }
"""
_OPENMP_PROBE = "#include <omp.h>\nint main(void) { return omp_get_thread_num(); }\n"


def require_compiler(asked: str) -> Compiler:
    """The compiler to use. Raises BuildError when there is none."""
    found = find_compiler()
    if found is None:
        raise BuildError(
            "no C compiler is found: not $CC, cc, gcc, clang, nor the package ziglang",
            asked=asked,
            legal="apt install gcc, pip install ziglang, or set CC; the target llvm needs no compiler",
        )
    return found


@lru_cache(maxsize=16)
def _tuning_flags(compiler: Compiler, cpu: str) -> tuple[str, ...]:
    """The flag that names the CPU: -march on x86, -mcpu elsewhere, nothing if neither is known."""
    for flag in (f"-march={cpu}", f"-mcpu={cpu}"):
        if compiler.accepts(flag):
            return (flag,)
    return ()


def compile_object(
    source: str,
    path: Path,
    cpu: str = "native",
    openmp: bool = False,
    options: Sequence[str] = (),
    *,
    strict: bool = False,
) -> Compiler:
    """Compile C source to the object file `path`, position-independent. Raises BuildError.

    `openmp`: with parallel loops on all cores, where the compiler can do that. `options` come after
    ours, then the environment's `CFLAGS`; only the flag that `strict` needs is never overridden.
    """
    asked = f"compiling {path.stem} with the C compiler"
    compiler = require_compiler(asked)
    tuned = _tuning_flags(compiler, cpu)
    if not tuned and cpu != "native":
        raise BuildError(
            f"{compiler.command[0]} knows no CPU {cpu!r}", asked=asked, legal="see -mcpu=help; without it, this CPU"
        )
    text = path.with_suffix(".c")
    text.write_text(source)
    long = compiler.of_long if source.count("\n") > MOST_LINES_AT_O3 else ()
    flags = [*_FLAGS, *long, *tuned, *(compiler.openmp if openmp else ()), *options]
    exact = ["-ffp-contract=off"] if strict else []
    compiler.run([*flags, *shlex.split(os.environ.get("CFLAGS", "")), *exact, "-c", str(text), "-o", str(path)], asked)
    return compiler


def link_shared(compiler: Compiler, path: Path, library: Path, options: Sequence[str] = ()) -> None:
    """Link an object file into a shared library. Raises BuildError."""
    flags = [*options, *shlex.split(os.environ.get("LDFLAGS", "")), "-lm"]
    compiler.run(["-shared", str(path), "-o", str(library), *flags], f"linking {path.stem}")


class SharedKernel(CpuKernel):
    """An artifact whose code is a library. Raises BuildError when the system cannot load it."""

    def load(self, artifact: Artifact, name: str, exports: Sequence[str]) -> tuple[list[int], object]:
        runtime = openmp.find() if artifact.meta.get("parallel") else None
        if runtime is not None:
            ctypes.CDLL(runtime.path, mode=ctypes.RTLD_GLOBAL)
        with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
            path = Path(folder, f"{name}.so")
            path.write_bytes(artifact.code)
            try:
                library = ctypes.CDLL(str(path))
            except OSError as error:
                raise BuildError(f"the library cannot be loaded: {error}", asked=name) from None
        return exported(library, exports), library


def exported(library: ctypes.CDLL, names: Sequence[str]) -> list[int]:
    """The addresses of functions of a library. Raises BuildError for a name that it does not export."""
    try:
        return [ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names]
    except AttributeError as error:
        raise BuildError(f"it lacks a function: {error}", asked=str(library._name)) from None


class CKernel(CpuKernel):
    """C source, compiled when it is loaded. Raises BuildError without a compiler."""

    def load(self, artifact: Artifact, name: str, exports: Sequence[str]) -> tuple[list[int], object]:
        parallel = bool(artifact.meta.get("parallel", True))
        with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
            path = Path(folder, f"{name}.o")
            meta, source = artifact.meta, artifact.code
            if not require_compiler(f"compiling {name} with the C compiler").vectors:
                source = for_any_compiler(artifact)
            strict = bool(meta.get("strict", False))
            compiler = compile_object(source.decode(), path, str(meta.get("mcpu", "native")), parallel, strict=strict)
            runtime = openmp.find() if parallel and compiler.openmp else None
            library = None
            if runtime is not None:
                # with the runtime that this process has: a second one would start its threads, too
                ctypes.CDLL(runtime.path, mode=ctypes.RTLD_GLOBAL)
            symbols = {symbol: find_symbol(symbol) for symbol in artifact.meta.get("symbols", ())}
            if symbols:  # which may be anywhere: LLVM's linker takes their addresses
                code = LoadedCode(name, [path.read_bytes()], exports, parallel, symbols, needs_openmp=True)
                return code.addresses, code
            if runtime is not None:
                library = _linked(compiler, path, ())
            if library is None:
                library = _linked(compiler, path, compiler.openmp if parallel else ())
        if library is None:
            raise BuildError("the compiled library cannot be loaded", asked=name, legal="try another compiler: set CC")
        return exported(library, exports), library


def _linked(compiler: Compiler, path: Path, flags: Sequence[str]) -> ctypes.CDLL | None:
    """Load the object file as a library; None if symbols are missing."""
    library = path.with_suffix(".shared.so" if flags else ".so")
    link_shared(compiler, path, library, flags)
    try:
        return ctypes.CDLL(str(library))
    except OSError:
        return None
