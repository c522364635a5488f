"""The compiler and the verifier of raw kernels, as workers load them: `autosched.raw.backend:RawBackend`."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.codegen.artifact import Artifact
from autosched.codegen.signature import entry_points
from autosched.errors import BuildError, UsageError, UsageTypeError
from autosched.measure.jobs import describe
from autosched.raw.spec import Argument, KernelSpec
from autosched.runtime import jit as openmp
from autosched.runtime import load
from autosched.target import Target

if TYPE_CHECKING:
    from autosched.runtime.kernel import Kernel

Array = np.ndarray[Any, Any]

#: What `atol` is where none is given, as in Kernel Tuner.
DEFAULT_ATOL = 1e-6


@dataclass(frozen=True)
class Verifier:
    """`written` says for each output of the runner, in its order, which argument it is; -1 for one that is not shown.

    `answer` has what the user gave for each argument, or is None.
    """

    function: Callable[..., Any]
    by_name: bool  #: whether `atol` is passed by its name
    arguments: int
    written: tuple[int, ...]
    answer: tuple[Array | None, ...] | None
    atol: float

    @staticmethod
    def of(
        function: Any, arguments: int, written: Sequence[int], answer: Sequence[Array | None] | None, atol: float | None
    ) -> Verifier:
        """Raises UsageError for what cannot be called as Kernel Tuner does."""
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            raise UsageTypeError(f"{function!r} is no function", asked="verify", legal=_LEGAL) from None
        for by_name in (True, False):
            try:
                signature.bind(None, None, *(() if by_name else (0.0,)), **({"atol": 0.0} if by_name else {}))
            except TypeError:
                continue
            given = None if answer is None else tuple(answer)
            return Verifier(function, by_name, arguments, tuple(written), given, DEFAULT_ATOL if atol is None else atol)
        raise UsageError(f"it takes {signature}", asked="verify", legal=_LEGAL)

    def __call__(self, outputs: list[Array]) -> str:
        """The error in words, empty where there is none. Never raises: a check that raises is one that failed."""
        result: list[Array | None] = [None] * self.arguments
        for at, array in zip(self.written, outputs, strict=True):
            if at >= 0:
                result[at] = array
        answer = None if self.answer is None else [None if a is None else a.copy() for a in self.answer]
        try:
            if self.by_name:
                found = self.function(answer, result, atol=self.atol)
            else:
                found = self.function(answer, result, self.atol)
            if found is None:
                return "verify(answer, result, atol) returned nothing: True is right, False is wrong"
            return "" if found else "verify(answer, result, atol) says it is wrong"
        except AssertionError as error:  # numpy.testing's way to say no
            return f"verify(answer, result, atol): {describe(error)}"
        except Exception as error:
            return f"verify(answer, result, atol) failed: {describe(error)}"


_LEGAL = "verify(answer, result, atol), which returns whether the result is right"


_NO_CONTRACTION = "#pragma OPENCL FP_CONTRACT OFF\n"
_C_LITERAL = {"int64": "LL", "uint64": "ULL", "uint32": "U", "float32": "f"}


class RawBackend:
    """Builds configurations into artifacts, and loads them; see `measure.jobs.Backend`."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        data = json.loads(Path(message["workload"]).read_text("utf-8"))
        self._spec, self._target = KernelSpec.from_json(data), Target(**message["target"])

    def build(self, job: Any, path: Path, known: Callable[[str], bool]) -> str:
        del known  # two configurations differ in their source at least
        artifact = compile_kernel(self._spec, job.knobs, self._target)
        artifact.save(path)
        return artifact.identity

    def load(self, path: Path) -> Kernel:
        artifact = Artifact.load(path)
        try:
            kernel = load(artifact, self._target)
            if artifact.kind == "opencl":
                kernel.program(False)  # type: ignore[attr-defined]
        except BuildError as error:
            raise with_source_line(error, self._spec) from None
        return kernel


def compile_kernel(spec: KernelSpec, knobs: Mapping[str, int], target: Target) -> Artifact:
    """One configuration: OpenCL source with its launch, which the device's driver compiles when it is loaded,
    or C as machine code. Raises BuildError with the compiler's words, and the line they are about."""
    return _opencl(spec, knobs, target) if spec.lang == "OpenCL" else _shared_library(spec, knobs, target)


def _opencl(spec: KernelSpec, knobs: Mapping[str, int], target: Target) -> Artifact:
    grid, block = spec.geometry_of(knobs)
    if min(*grid, *block) < 1:
        raise BuildError(
            f"its grid is {grid} and its work-group {block}", asked=spec.name, legal="1 or more along each axis"
        )
    arrays = iter(range(len(spec.arguments)))
    args = [["param", next(arrays)] if a.is_array else ["scalar", [a.dtype, a.value]] for a in spec.arguments]
    launch = {"name": spec.name, "grid": list(grid), "block": list(block), "shared_bytes": 0, "args": args}
    source = (_NO_CONTRACTION if target.strict else "") + spec.full_source(knobs)
    return Artifact(
        "opencl",
        str(target),
        spec.signature,
        source.encode(),
        {"source": source},
        {"launches": [launch], "device": [], "index_bound": 0, "options": list(spec.options)},
    )


def _shared_library(spec: KernelSpec, knobs: Mapping[str, int], target: Target) -> Artifact:
    from autosched.runtime.c_compiler import compile_object, link_shared  # in workers only: parents load no compiler

    source = spec.full_source(knobs)
    parallel = "-fopenmp" in spec.options or re.search(r"^\s*#\s*pragma\s+omp\b", spec.source, re.MULTILINE) is not None
    options = [o for o in spec.options if o != "-fopenmp"]
    with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
        path = Path(folder, f"{spec.name}.o")
        text = source + _packed(spec, knobs)
        try:
            compiler = compile_object(text, path, target.mcpu or "native", parallel, options, strict=target.strict)
            # with the runtime that the process has which loads it: a second one would start its threads, too
            own = compiler.openmp if parallel and openmp.find() is None else ()
            link_shared(compiler, path, path.with_suffix(".so"), [*own, *options])
        except BuildError as error:
            raise with_source_line(error, spec) from None
        code = path.with_suffix(".so").read_bytes()
    meta = {"entry": f"{spec.name}_packed", "parallel": parallel and bool(compiler.openmp)}
    return Artifact("shared", str(target), spec.signature, code, {"source": source}, meta)


def _packed(spec: KernelSpec, knobs: Mapping[str, int]) -> str:
    """The functions that this library calls, behind the user's source; nothing of ours stands before it."""
    pointers = iter(range(len(spec.arguments)))
    arguments = [f"args[{next(pointers)}]" if a.is_array else _literal(a) for a in spec.arguments]
    undefine = "\n".join(f"#undef {name}" for name in spec.defines(knobs))
    functions = entry_points(spec.name, f"{spec.name}({', '.join(arguments)})", is_foreign=True)
    return f'\n#line 1 "autosched"\n{undefine}\n#include <stdint.h>\n{functions}'


def _literal(a: Argument) -> str:
    """A scalar as C writes it, to the last bit."""
    value = a.value
    assert value is not None
    suffix = _C_LITERAL.get(a.dtype, "")
    if not a.dtype.startswith("float"):
        return f"(-{abs(int(value)) - 1}{suffix} - 1)" if value < 0 else f"{int(value)}{suffix}"
    if value != value:
        return "(0.0 / 0.0)"
    if abs(value) == float("inf"):
        return "(1.0 / 0.0)" if value > 0 else "(-1.0 / 0.0)"
    return f"{float(value).hex()}{suffix}"


def with_source_line(error: BuildError, spec: KernelSpec) -> BuildError:
    """The error with the first line that the compiler names, as the user wrote it."""
    place = rf"{re.escape(spec.origin)}:(\d+)\b"  # gcc says `file:3:5: error:`, PoCL `error: file:3:5:`
    found = re.search(rf"^[^\n]*\berror\b[^\n]*{place}|{place}[^\n]*\berror\b", error.legal, re.MULTILINE)
    lines = spec.source.splitlines()
    number = 0 if found is None else int(found[1] or found[2])
    if not 0 < number <= len(lines):
        return error
    quoted = f"{spec.origin}:{number} is: {lines[number - 1].strip()}"
    return BuildError(error.why, asked=error.asked, legal=f"{quoted}\n{error.legal}")


def split_options(options: Any) -> tuple[str, ...]:
    """Compiler options as a list, given as a list or as one string. Raises UsageError."""
    words = shlex.split(options) if isinstance(options, str) else list(options or ())
    if not all(isinstance(w, str) for w in words):
        raise UsageError(f"{options!r} is no list of options", asked="compiler_options", legal='["-O3", "-fopenmp"]')
    return tuple(words)
