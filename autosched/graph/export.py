"""Programs as folders of files that need nothing of this library."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from autosched.codegen.artifact import Artifact
from autosched.codegen.c_program import c_name, own_text, text_for
from autosched.codegen.signature import Signature
from autosched.errors import BuildError
from autosched.exporting import cl_launcher
from autosched.exporting.folder import Exported, Stream, write_folder
from autosched.exporting.interface import Interface
from autosched.graph import c_source
from autosched.graph.linking import check, link, signature_of, weight_offsets
from autosched.graph.merging import merge_launches
from autosched.graph.program import Program
from autosched.runtime import jit as openmp
from autosched.runtime.c_compiler import compile_object, require_compiler
from autosched.runtime.function import load_where_possible
from autosched.runtime.module import Module
from autosched.target import Target, cpu_count


def export_c(
    program: Program, folder: str | os.PathLike[str], target: Target, *, arrays: bool = False, force: bool = True
) -> Exported:
    """Write C99 that `cc` builds alone.

    NAME.c and NAME.h: `NAME(inputs.., weights, outputs..)`; a source for each kernel; `weights.bin`; and what
    `exporting.folder` adds: `main.c`, which runs it, a Makefile, a Python package.

    force:  replace what is there already
    arrays: the weights as `weights.c`, too, in which case nothing has to be loaded; for each MB of them gcc takes half
            a second and 30 MB of memory

    Raises BuildError for kernels that are no C or do not fit together, FileError where a file cannot be written.
    """
    check(program, "c")
    name = c_name(program.name)
    files: dict[str, str | bytes] = {f"{name}.c": c_source.entry_source(program)}
    files |= {f"{c_name(k.signature.name)}.c": text_for(target, k, inner=True) for k in program.kernels}
    files[f"{name}.h"] = c_source.header_source(program, arrays=arrays)
    f = _interface(program, target)
    return write_folder(f, folder, files, "export_c", streams=_weights(program, arrays), force=force)


def export_llvm(program: Program, folder: str | os.PathLike[str], target: Target, *, force: bool = True) -> Exported:
    """Write machine code: objects, NAME.h, `weights.bin`, and libNAME.so unless it is for another machine or there is
    no C compiler; and what `exporting.folder` adds.

    Raises BuildError for kernels that do not fit together or call Python, FileError where a file cannot be written.
    """
    artifact = link(program, target)
    name = c_name(program.name)
    module = Module.of([artifact], target, [load_where_possible(artifact, target)])
    names = [name, *(c_name(k.signature.name) for k in program.kernels for _ in k.objects)]
    files: dict[str, str | bytes] = {f"{n}.o": code for n, code in zip(names, artifact.objects, strict=True)}
    files[f"{name}.h"] = c_source.header_source(program, memory=False)
    f = _interface(program, target, artifact)
    return write_folder(f, folder, files, "export_llvm", streams=_weights(program), module=module, force=force)


def export_opencl(program: Program, folder: str | os.PathLike[str], target: Target, *, force: bool = True) -> Exported:
    """Write NAME.cl, a launcher in C for OpenCL 1.2 (NAME.c, NAME.h), `weights.bin`, and what `exporting.folder` adds.

    Raises what `merging.merge_launches` does, FileError where a file cannot be written.
    """
    merged = merge_launches(program, target)
    name, f = c_name(program.name), _interface(program, target)
    begins = {len(program.inputs) + i: start for i, start in enumerate(weight_offsets(program)[0])}
    source, head = cl_launcher.launcher(f, merged, begins)
    files: dict[str, str | bytes] = {f"{name}.cl": merged.code.decode(), f"{name}.c": source, f"{name}.h": head}
    return write_folder(f, folder, files, "export_opencl", streams=_weights(program), force=force)


def _interface(program: Program, target: Target, code: Artifact | None = None) -> Interface:
    """What callers see of a program: its weights are an array of CPU code, and no argument on a device."""
    signature, at = signature_of(program), len(program.inputs) if program.weights else -1
    if target.is_gpu_style:
        signature, at = Signature(program.name, (*program.inputs, *program.outputs), ()), -1
    facts = {word: any(k.meta.get(word) for k in program.kernels) for word in ("parallel", "strict")}
    as_one = Artifact(target.kind, str(target), signature, b"" if code is None else code.code, meta=facts)
    kernels = f"{len(program.kernels)} kernels, each with its own"
    found = Interface.of(as_one, target, {}, kernels)
    return replace(found, weights=weight_offsets(program)[1] if program.weights else 0, weights_at=at)


def _weights(program: Program, arrays: bool = False) -> dict[str, Stream]:
    """The weights, also as arrays of C."""
    found: dict[str, Stream] = {"weights.bin": c_source.weight_bytes(program)} if program.weights else {}
    if program.weights and arrays:
        found["weights.c"] = (t.encode() for t in c_source.weights_source(program))
    return found


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
    parts += [(k.signature.name, own_text(k, compiler.vectors)) for k in program.kernels]
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
