"""`export`: one kernel as a folder for a build that has neither Python nor this library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autosched.building import Buildable, as_workload
from autosched.codegen.c_program import c_name, header, text_for
from autosched.errors import BuildError, TargetError, UsageError, expect
from autosched.exporting.cl_launcher import launcher
from autosched.exporting.folder import Exported, write_folder
from autosched.exporting.interface import Interface
from autosched.front import build
from autosched.runtime.module import Module
from autosched.space.workload import Workload, WorkloadFunction
from autosched.target import TargetLike


def export(
    what: Buildable | Module | str,
    folder: str | os.PathLike[str],
    target: TargetLike = None,
    *,
    sizes: dict[str, int] | None = None,
    records: str | None = None,
    name: str | None = None,
    effort: str = "quick",
    force: bool = False,
) -> Exported:
    """Write a kernel for programs that have neither autosched nor, unless they want it, Python.

    what:    what `build` takes, which is built with the best record that is known, or a module
    target:  for llvm machine code and a shared library; with -mtriple objects for another machine; for c, C99; for
             opencl kernels and a launcher
    sizes:   numbers for sizes of a workload, which are no arguments then; the others are arguments of the C function
    records: a folder to read records from, instead of the usual ones
    name:    of the function; by default the workload's
    effort:  how a workload gets its schedule, as for `build`
    force:   replace files that are there

    A header, `main.c`, a Makefile, a call through ctypes, a Python package and a README with the commands that build
    them are in the folder: docs/deployment.md.

    Raises what `build` does, UsageError for a file that is there already, TargetError for a target without files,
    BuildError for what no file can hold, FileError where one cannot be written.

    >>> print(autosched.export("box_blur", "blur", sizes={"height": 480, "width": 640}))
    11 files: 432 lines of source, 45,235 bytes
    """
    asked = f"export -o {os.fspath(folder) if isinstance(folder, (str, os.PathLike)) else folder!r:.200}"
    usual: Mapping[str, int] = {}
    if isinstance(what, Module):
        given = [k for k, v in {"target": target, "sizes": sizes, "name": name}.items() if v is not None]
        if given:
            raise UsageError("a module is compiled already", asked=f"export(module, {given[0]}=..)", legal="a workload")
        module = what
    else:
        if isinstance(what, (str, WorkloadFunction)):
            what = as_workload(what)
        if isinstance(what, Workload):
            usual = what.usual_sizes()
        known: Any = _known(what, sizes)
        options: dict[str, Any] = {"records": records, "name": name, "effort": effort, "specialize": True}
        module = build(known, target, sizes=sizes, **options)
    written = _export(module, folder, usual, asked, force)
    return replace(written, provenance=module.provenance, signature=str(module.signature))


def _known(what: Any, sizes: Any) -> Any:
    """What is built, once it has these sizes. Raises UsageError for sizes that it has not."""
    expect(sizes, "a dictionary", sizes is None or isinstance(sizes, Mapping), "export(.., sizes=..)")
    names = what.size_names() if isinstance(what, Workload) else ()
    for size, value in (sizes or {}).items():
        asked, legal = f"export(.., sizes={{{size!r}: {value!r:.40}}})", f"its sizes: {', '.join(names) or 'none'}"
        if size not in names:
            raise UsageError("it has no such size", asked=asked, legal=legal)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UsageError("a size is a whole number >= 1", asked=asked, legal=legal)
    return what


def _export(
    module: Module, folder: str | os.PathLike[str], usual: Mapping[str, int], asked: str, force: bool
) -> Exported:
    artifact, kind = module.artifacts()[0], module.type_key
    _check(module, kind, asked)
    at = {**usual, **{k: v for k, v in module.provenance.get("sizes", {}).items() if isinstance(v, int)}}
    f = Interface.of(artifact, module.target, at, _origin(module.provenance))
    name = c_name(f.name)
    if kind == "opencl":
        source, head = launcher(f, artifact)
        code: dict[str, str | bytes] = {f"{name}.cl": artifact.code.decode(), f"{name}.c": source, f"{name}.h": head}
        return write_folder(f, folder, code, asked, force=force)
    head = header(f"{name.upper()}_H", [f.signature])
    if kind == "c":
        return write_folder(
            f, folder, {f"{name}.c": text_for(module.target, artifact), f"{name}.h": head}, asked, force=force
        )
    objects = {f"{name}{f'_{k}' if k else ''}.o": code for k, code in enumerate(artifact.objects)}
    return write_folder(f, folder, {**objects, f"{name}.h": head}, asked, module=module, force=force)


def _check(module: Module, kind: str, asked: str) -> None:
    """Raise what says why a module has no files."""
    if kind not in ("llvm", "c", "opencl"):
        raise TargetError(f"there are no files of {kind}", asked=asked, legal="the targets llvm, c and opencl")
    if len(module) > 1:
        legal = "one function; Module.export_library takes several"
        raise UsageError(f"the module has the functions {', '.join(module)}", asked=asked, legal=legal)
    meta: Mapping[str, Any] = module.artifact.meta
    if meta.get("packed"):
        why = f"it calls the Python function {meta['packed'][0]!r}, which files cannot take along"
        raise BuildError(why, asked=asked, legal="call_extern of a C function, which the program links")
    if meta.get("options") is not None:
        raise BuildError("it is a kernel that somebody wrote", asked=asked, legal="a workload or a schedule")


def _origin(provenance: Mapping[str, Any]) -> str:
    of = " ".join(str(x) for x in (provenance.get("kind"), provenance.get("record")) if x)
    return f"{of} ({provenance['note']})" if provenance.get("note") else of
