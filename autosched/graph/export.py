"""Programs as folders of files that need nothing of this library."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from autosched.codegen.artifact import Artifact
from autosched.codegen.c_program import c_name
from autosched.codegen.llvm import is_foreign, triple_of
from autosched.errors import BuildError, check_path, named_file
from autosched.graph import c_main, c_source, cl_launcher
from autosched.graph.linking import check, link, signature_of
from autosched.graph.merging import merge_launches
from autosched.graph.program import Program
from autosched.runtime import jit as openmp
from autosched.runtime.c_compiler import compile_object, find_compiler, require_compiler
from autosched.runtime.function import load_where_possible
from autosched.runtime.module import Module
from autosched.target import Target, cpu_count


@dataclass(frozen=True)
class Exported:
    """What was written: the bytes of each file, and the lines of source in all.

    >>> print(export_c(program, "out"))
    6 files: 312 lines of source, 11,235 bytes; weights.bin 81,920 bytes
    """

    files: Mapping[str, int]
    lines: int

    def __str__(self) -> str:
        weights = {name: size for name, size in self.files.items() if name.startswith("weights.")}
        others = sum(self.files.values()) - sum(weights.values())
        told = f"{len(self.files)} files: {self.lines:,} lines of source, {others:,} bytes"
        return "; ".join([told, *(f"{name} {size:,} bytes" for name, size in weights.items())])


def export_c(program: Program, folder: str | os.PathLike[str], *, arrays: bool = False) -> Exported:
    """Write C99 that `cc` builds alone.

    NAME.c and NAME.h: `NAME(inputs.., weights, outputs..)`; a source for each kernel; `weights.bin`; `main.c`, which
    runs it; a Makefile. What is there already is overwritten.

    arrays: the weights as `weights.c`, too, in which case nothing has to be loaded; for each MB of them gcc takes half
            a second and 30 MB of memory

    Raises BuildError for kernels that are no C or do not fit together, FileError where a file cannot be written.
    """
    check(program, "c")
    name = c_name(program.name)
    files: dict[str, str | bytes] = {f"{name}.c": c_source.entry_source(program)}
    files |= {f"{c_name(k.signature.name)}.c": k.texts.get("inner", k.texts["source"]) for k in program.kernels}
    sources = [*files, *(["weights.c"] if arrays and program.weights else [])]
    files[f"{name}.h"] = c_source.header_source(program, arrays=arrays)
    files["main.c"] = c_main.main_source(program, arrays=arrays)
    files["Makefile"] = c_main.makefile(program, sources)
    return _written(program, folder, "export_c", files, arrays)


def export_llvm(program: Program, folder: str | os.PathLike[str], target: Target) -> Exported:
    """Write machine code: objects, NAME.h, `weights.bin`, `main.c`, a Makefile that links it, and NAME.so, unless it is
    for another machine or there is no C compiler.

    Raises BuildError for kernels that do not fit together or call Python, FileError where a file cannot be written.
    """
    artifact = link(program, target)
    name = c_name(program.name)
    module = Module.of([artifact], target, [load_where_possible(artifact, target)])
    names = [name, *(c_name(k.signature.name) for k in program.kernels for _ in k.objects)]
    objects = {f"{n}.o": code for n, code in zip(names, artifact.objects, strict=True)}
    libraries = ["-lmvec"] if any(b"_ZGV" in code for code in objects.values()) else []
    files: dict[str, str | bytes] = {**objects}
    files["main.c"] = c_main.main_source(program)
    files["Makefile"] = c_main.makefile(program, list(objects), libraries)
    written = _written(program, folder, "export_llvm", files)
    extra = {}
    if not is_foreign(triple_of(target)) and find_compiler() is not None:
        library = Path(folder, f"{name}.so")
        module.export_library(library)
        extra[library.name] = library.stat().st_size
    head = _written(program, folder, "export_llvm", {f"{name}.h": c_source.header_source(program, memory=False)}, None)
    return Exported({**written.files, **extra, **head.files}, written.lines + head.lines)


def export_opencl(program: Program, folder: str | os.PathLike[str], target: Target) -> Exported:
    """Write NAME.cl, a launcher in C for OpenCL 1.2 (NAME.c, NAME.h), `weights.bin`, `main.c` and a Makefile.

    Raises what `merging.merge_launches` does, FileError where a file cannot be written.
    """
    merged = merge_launches(program, target)
    name = c_name(program.name)
    source, head = cl_launcher.launcher(program, merged)
    files = {f"{name}.cl": merged.code.decode(), f"{name}.c": source, f"{name}.h": head}
    files["main.c"] = c_main.main_source(program, device=True)
    files["Makefile"] = c_main.makefile(program, [f"{name}.c"], ["-lOpenCL"])
    return _written(program, folder, "export_opencl", files)


def _written(
    program: Program,
    folder: str | os.PathLike[str],
    asked: str,
    files: Mapping[str, str | bytes],
    arrays: bool | None = False,
) -> Exported:
    """Write the files and the weights, also as arrays of C; no weights for None."""
    asked = f"{asked}({folder!r:.200})"
    to = check_path(folder, asked)
    streams: dict[str, Iterable[bytes | memoryview]] = {
        path: [text.encode() if isinstance(text, str) else text] for path, text in files.items()
    }
    if program.weights and arrays is not None:
        streams["weights.bin"] = c_source.weight_bytes(program)
    if program.weights and arrays:
        streams["weights.c"] = (t.encode() for t in c_source.weights_source(program))
    written = {}
    with named_file(asked):
        to.mkdir(parents=True, exist_ok=True)
        for path, pieces in streams.items():
            with open(to / path, "wb") as file:
                written[path] = sum(file.write(piece) for piece in pieces)
    return Exported(written, sum(text.count("\n") for text in files.values() if isinstance(text, str)))


def compile_c_program(program: Program, target: Target, *, profile: bool = False) -> Artifact:
    """A shared library of kernels in C, for this process: see `linking.link` for its function.

    Raises BuildError without a C compiler, and for kernels that do not fit together.
    """
    check(program, "c")
    asked = f"compiling {program.name}"
    for k in program.kernels:
        if k.meta.get("symbols"):
            why = f"{k.signature.name} calls {k.meta['symbols'][0]!r}, which a library does not find"
            raise BuildError(why, asked=asked, legal="the target llvm; export_c, whose program links the function")
    compiler = require_compiler(asked)
    source = c_source.entry_source(program, profile=profile)
    own = source + c_source.entry_points_source(program, profile=profile)
    parts = [(program.name, own)]
    parts += [(k.signature.name, k.texts.get("inner", k.texts["source"])) for k in program.kernels]
    parallel = any(k.meta.get("parallel") for k in program.kernels)
    strict = any(k.meta.get("strict") for k in program.kernels)
    with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
        to = Path(folder)
        (to / f"{c_name(program.name)}.h").write_text(c_source.header_source(program, profile=profile))
        paths = [to / f"{c_name(name)}.o" for name, _ in parts]

        def compiled(path: Path, text: str) -> None:
            compile_object(text, path, target.mcpu or "native", parallel, [f"-I{to}"], strict=strict)

        with ThreadPoolExecutor(cpu_count()) as pool:
            list(pool.map(compiled, paths, [text for _, text in parts]))
        library = to / "library.so"
        # with the runtime that the process has which loads it: a second one would start its threads, too
        flags = compiler.openmp if parallel and openmp.find() is None else ()
        compiler.run(["-shared", *map(str, paths), "-o", str(library), *flags, "-lm"], asked)
        code = library.read_bytes()
    meta = {"entry": f"{c_name(program.name)}_packed", "parallel": parallel and bool(compiler.openmp)}
    return Artifact("shared", str(target), signature_of(program, profile=profile), code, {"source": source}, meta)
