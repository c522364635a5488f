"""Programs as folders of files that need nothing of this library."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from autosched.codegen.artifact import Artifact
from autosched.codegen.c_program import c_name
from autosched.errors import check_path, named_file
from autosched.graph import c_main, c_source
from autosched.graph.linking import check, signature_of
from autosched.graph.program import Program
from autosched.runtime import jit as openmp
from autosched.runtime.c_compiler import compile_object, require_compiler
from autosched.target import Target, cpu_count


def export_c(program: Program, folder: str | os.PathLike[str], *, arrays: bool = False) -> dict[str, int]:
    """Write C99 that `cc` builds alone; returns the bytes of each file.

    NAME.c and NAME.h: `NAME(inputs.., weights, outputs..)`; a source for each kernel; `weights.bin`; `main.c`, which
    runs it; a Makefile. What is there already is overwritten.

    arrays: the weights as `weights.c`, too, in which case nothing has to be loaded

    Raises BuildError for kernels that are no C or do not fit together, FileError where a file cannot be written.
    """
    check(program, "c")
    name = c_name(program.name)
    files: dict[str, str] = {f"{name}.c": c_source.entry_source(program)}
    files |= {f"{c_name(k.signature.name)}.c": k.texts.get("inner", k.texts["source"]) for k in program.kernels}
    sources = [*files, *(["weights.c"] if arrays and program.weights else [])]
    files[f"{name}.h"] = c_source.header_source(program, arrays=arrays)
    files["main.c"] = c_main.main_source(program, arrays=arrays)
    files["Makefile"] = c_main.makefile(program, sources)
    return _written(program, folder, "export_c", files, arrays)


def _written(
    program: Program, folder: str | os.PathLike[str], asked: str, files: dict[str, str], arrays: bool = False
) -> dict[str, int]:
    """Write the files and the weights."""
    asked = f"{asked}({folder!r:.200})"
    to = check_path(folder, asked)
    streams: dict[str, Callable[[], Iterable[memoryview]]] = {
        path: lambda text=text: [memoryview(text.encode())] for path, text in files.items()  # type: ignore[misc]
    }
    if program.weights:
        streams["weights.bin"] = lambda: c_source.weight_bytes(program)
    if program.weights and arrays:
        streams["weights.c"] = lambda: (memoryview(t.encode()) for t in c_source.weights_source(program))
    written = {}
    with named_file(asked):
        to.mkdir(parents=True, exist_ok=True)
        for path, pieces in streams.items():
            with open(to / path, "wb") as file:
                written[path] = sum(file.write(piece) for piece in pieces())
    return written


def compile_c_program(program: Program, target: Target, *, profile: bool = False) -> Artifact:
    """A shared library of kernels in C, for this process: see `linking.link` for its function.

    Raises BuildError without a C compiler, and for kernels that do not fit together.
    """
    check(program, "c")
    asked = f"compiling {program.name}"
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
