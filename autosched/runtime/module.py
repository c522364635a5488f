"""`Module`: compiled functions, with what they were compiled from and how they are kept in files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from autosched.codegen import text_of
from autosched.codegen.artifact import Artifact, Signature
from autosched.errors import BuildError, UsageError, check_path, expect, named_file, out_of_bounds
from autosched.runtime.function import CompiledFunction, TimeEvaluator, load_where_possible
from autosched.runtime.kernel import BoundCall, Kernel
from autosched.target import Target


def module_of(data: bytes, target: Target) -> Module:
    """The module that was pickled. Raises BuildError for damaged data."""
    artifacts = Artifact.from_bytes(data, "pickle of a module")
    return Module.of(artifacts, target, [load_where_possible(a, target) for a in artifacts])


#: other names for the readable forms of a module, and the ends of file names -> ours
_FORMATS = {"": "source", "ll": "llvm", "s": "asm", "cl": "source", "cu": "source", "cuda": "source", "c": "source"}
#: forms that only artifacts of one kind have
_KIND_OF_FORMAT = {"cl": "opencl", "cu": "cuda", "cuda": "cuda", "c": "c"}


class NoFunction(UsageError, AttributeError):
    """A module has no function of that name."""


@dataclass(frozen=True)
class DeviceModule:
    """The device's part of a module: kernels, as source."""

    type_key: str
    source: str

    def get_source(self, fmt: str = "") -> str:
        return self.source

    @property
    def imported_modules(self) -> list[DeviceModule]:
        return []


class Module(CompiledFunction):
    """One compiled function or several. Called, it runs the first one: see `CompiledFunction`.

    >>> module["blur"](img, out)       # a function by its name
    >>> module.get_source("asm")
    >>> module.export_library("blur.so")      # with blur.h, for C programs and `load_module`
    """

    #: what else the first function may be asked for by
    ENTRY_NAMES: ClassVar[set[str]] = {"default_function"}

    def __init__(
        self,
        artifact: Artifact,
        target: Target,
        *,
        provenance: dict[str, Any] | None = None,
        more: Sequence[CompiledFunction] = (),
        kernel: Kernel | None = None,
    ) -> None:
        """Load the code, unless a `kernel` has it already. `more` are the functions after the first.

        `provenance` says where the schedule came from, as data that JSON can hold. Raises BuildError
        for two functions of one name.
        """
        super().__init__(artifact, target, kernel)
        self.provenance: dict[str, Any] = dict(provenance or {})
        #: data that its library holds besides the code (`export_library(attached=..)`)
        self.attached: bytes | memoryview = b""
        self.functions: dict[str, CompiledFunction] = {self.name: self}
        for function in more:
            if function.name in self.functions:
                raise BuildError(
                    "two functions have this name", asked=f"a module of {function.name!r}", legal="one name each"
                )
            self.functions[function.name] = function

    # -- its functions ------------------------------------------------------------------------
    @property
    def entry_name(self) -> str:
        """The name of the function that a call of the module runs."""
        return self.name

    def __getitem__(self, name: str) -> CompiledFunction:
        """The function of that name. Raises NoFunction for one that there is not."""
        expect(name, "the name of a function", isinstance(name, str), "module[..]")
        if name in self.functions:
            return self.functions[name]
        if name in self.ENTRY_NAMES:
            return self
        raise NoFunction(f"no function {name!r}", asked="module[...]", legal=f"functions: {', '.join(self.functions)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def time_evaluator(
        self,
        func_name: str,
        dev: Any = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str = "",
        ctx: Any = None,
    ) -> TimeEvaluator:
        """A timer of a function: called with arrays, it returns a `BenchmarkResult` in seconds.

        `repeat` samples, each the mean of `number` calls, or of more where these last less than
        `min_repeat_ms`. Before a sample, `cache_flush_bytes` of other memory are written and the
        registered function `f_preproc` is called. After every `repeats_to_cooldown` samples there is
        a pause of `cooldown_interval_ms`. `dev` and `ctx` change nothing: the arrays say where they are.

        >>> print(module.time_evaluator(module.entry_name, number=100, repeat=3)(img, out))
        """
        return TimeEvaluator(
            self[func_name],
            number,
            repeat,
            min_repeat_ms,
            limit_zero_time_iterations,
            cooldown_interval_ms,
            repeats_to_cooldown,
            cache_flush_bytes,
            f_preproc,
        )

    # -- what it is ---------------------------------------------------------------------------
    @property
    def type_key(self) -> str:
        """The kind of its target: `llvm`, `c`, `opencl`, `cuda`."""
        return self.artifact.kind

    @property
    def imported_modules(self) -> list[DeviceModule]:
        """The device's part of it: none for CPU targets."""
        return [DeviceModule(self.type_key, self.get_source())] if self.target.is_gpu_style else []

    def get_source(self, fmt: str = "source") -> str:
        """A readable form of all its functions.

        `source` (also ""): what was handed to the compiler; `llvm` (`ll`): optimised LLVM IR; `asm` (`s`):
        assembly; `c`, `cl`, `cuda`: the source, of such a module. Raises BuildError for another.
        """
        expect(fmt, "the name of a form", isinstance(fmt, str), "get_source")
        kind = _FORMATS.get(fmt, fmt)
        if _KIND_OF_FORMAT.get(fmt, self.artifact.kind) != self.artifact.kind:
            kind = fmt  # which the artifact does not have, and says so
        return "\n".join(text_of(f.artifact, kind) for f in self.functions.values())

    # -- files --------------------------------------------------------------------------------
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the compiled code and its provenance to one file, which `Module.load` reads.

        A path that ends in .ll, .s, .c, .cl or .cu gets that text instead, .o the object code of llvm. Raises
        FileError (an OSError) where it cannot be written.
        """
        asked = f"save({path!r:.200})"
        to = check_path(path, asked)
        suffix = to.suffix[1:]
        with named_file(asked):
            if suffix == "o":
                self.export_library(to)
            elif suffix and suffix in _FORMATS:
                to.write_text(self.get_source(suffix), encoding="utf-8")
            else:
                Artifact.save_all(self.artifacts(), to)

    def artifacts(self) -> list[Artifact]:
        """Its functions as data, the provenance with the first."""
        first = replace(self.artifact, meta={**self.artifact.meta, "provenance": self.provenance})
        return [first, *(f.artifact for f in list(self.functions.values())[1:])]

    def __reduce__(self) -> tuple[Callable[[bytes, Target], Module], tuple[bytes, Target]]:
        """Pickle as `save` writes it, for processes of a pool, joblib and dask.

        >>> with ProcessPoolExecutor() as pool: results = list(pool.map(module, images))
        """

        return module_of, (b"".join(a.to_bytes() for a in self.artifacts()), self.target)

    @staticmethod
    def load(path: str | os.PathLike[str], target: Target | None = None) -> Module:
        """Read what `save` wrote, for the target it was built for unless told otherwise.

        Raises FileError (an OSError) for one that cannot be read, BuildError for a damaged file or one for another
        machine. The file holds machine code: load only files that you would run.
        """
        asked = f"Module.load({path!r:.200})"
        with named_file(asked):
            artifacts = Artifact.load_all(check_path(path, asked))
        return Module.of(artifacts, target)

    @staticmethod
    def of(artifacts: Sequence[Artifact], target: Target | None = None, kernels: Sequence[Kernel] = ()) -> Module:
        """A module of these functions. `kernels` have their code, where it is loaded already."""
        to = Target.parse(artifacts[0].target) if target is None else target
        loaded: list[Kernel | None] = [*kernels] if kernels else [None] * len(artifacts)
        provenance = artifacts[0].meta.get("provenance", {})
        return Module(
            artifacts[0],
            to,
            provenance=provenance if isinstance(provenance, dict) else {},
            more=[CompiledFunction(a, to, k) for a, k in zip(artifacts[1:], loaded[1:], strict=True)],
            kernel=loaded[0],
        )

    def export_library(self, path: str | os.PathLike[str], fcompile: Any = None, **options: Any) -> None:
        """A library for programs without this one, and a C header: see `runtime.export`."""
        from autosched.runtime.export import export_library  # with the emitter of C

        export_library(self, path, fcompile=fcompile, **options)


class CheckedModule(Module):
    """A module of `build(..., bounds_check=True)`: slower, with a BoundsError for a read outside of a tensor.

    The last parameter of its code is a report, which callers neither see nor pass. It is for finding
    mistakes: it cannot be saved.
    """

    def __init__(
        self, artifact: Artifact, target: Target, sites: Sequence[tuple[str, int, str]], nothing: int, **options: Any
    ) -> None:
        """`sites` are the reads that the report tells of: tensor, dimension, reader; `nothing` is what it
        holds for a read that stayed inside."""
        super().__init__(artifact, target, **options)
        self._sites, self._nothing = tuple(sites), nothing
        self._whole = CompiledFunction(artifact, target, self.kernel)

    @property
    def signature(self) -> Signature:
        """The parameters that callers pass: all but the report."""
        return replace(self.artifact.signature, params=self.artifact.signature.params[:-1])

    def __call__(self, *arrays: object) -> Any:
        """Run once, like any module. Raises BoundsError for the first read, in order of the program, that
        was outside its tensor; outputs are then of no use."""
        report = self._report()
        outputs = self._whole(*self._complete(arrays), report)[:-1]
        self._raise_for(report)
        return outputs[0] if len(outputs) == 1 else outputs

    @contextmanager
    def bound(self, arrays: Sequence[object]) -> Iterator[BoundCall]:
        report = self._report()
        with self._whole.bound([*self._complete(arrays), report]) as bound:
            yield bound
        self._raise_for(report)

    def artifacts(self) -> list[Artifact]:
        raise self._unkept("files")

    def save(self, path: str | os.PathLike[str]) -> None:
        raise self._unkept("save")

    def export_library(self, path: str | os.PathLike[str], fcompile: Any = None, **options: Any) -> None:
        raise self._unkept("export_library")

    def _report(self) -> np.ndarray[Any, Any]:
        return np.full(2 * max(len(self._sites), 1), self._nothing, np.int64)

    def _raise_for(self, report: np.ndarray[Any, Any]) -> None:
        for k, (tensor, dimension, reader) in enumerate(self._sites):
            index, extent = (int(x) for x in report[2 * k : 2 * k + 2])
            if index != self._nothing:
                raise out_of_bounds(tensor, dimension, index, extent, reader=reader, given=True)

    def _unkept(self, call: str) -> UsageError:
        return UsageError(
            "a module with bounds_check has no life outside this process",
            asked=f"{call} of {self.name}",
            legal="build it without bounds_check",
        )
