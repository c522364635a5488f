"""Exported folders: what is in them, and how they are written."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autosched import __version__
from autosched.codegen.c_program import c_name
from autosched.errors import UsageError, check_path, named_file
from autosched.exporting import c_main, python
from autosched.exporting.interface import Interface
from autosched.exporting.readme import readme
from autosched.runtime.c_compiler import find_compiler
from autosched.runtime.module import Module

Stream = Iterable[bytes | memoryview]


@dataclass(frozen=True)
class Exported:
    """What was written: the bytes of each file, and the lines of source in all; for a kernel where its schedule came
    from, and its signature.

    >>> print(autosched.export("box_blur", "blur"))
    11 files: 412 lines of source, 45,235 bytes
    """

    files: Mapping[str, int]
    lines: int
    provenance: Mapping[str, Any] = field(default_factory=dict)
    signature: str = ""

    def __str__(self) -> str:
        weights = {name: size for name, size in self.files.items() if name.startswith("weights.")}
        others = sum(self.files.values()) - sum(weights.values())
        told = f"{len(self.files)} files: {self.lines:,} lines of source, {others:,} bytes"
        return "; ".join([told, *(f"{name} {size:,} bytes" for name, size in weights.items())])


def write_folder(
    f: Interface,
    folder: str | os.PathLike[str],
    code: Mapping[str, str | bytes],
    asked: str,
    *,
    streams: Mapping[str, Stream] | None = None,
    module: Module | None = None,
    force: bool = True,
) -> Exported:
    """Write a function and all that shows how to call it: `main.c`, a Makefile, `example.py`, a package, a README.

    code:    sources or object files, and the header
    streams: files in pieces: weights
    module:  machine code for this machine, of which a shared library is made where there is a C compiler

    Raises UsageError where a file is there already, unless `force`; BuildError, FileError where one cannot be written.
    """
    to, name = check_path(folder, asked), c_name(f.name)
    files: dict[str, str | bytes] = {**code}
    large = dict(streams or {})
    with named_file(asked), tempfile.TemporaryDirectory(prefix="autosched-") as temporary:
        if module is not None and not f.is_foreign and find_compiler() is not None:
            library = Path(temporary, f"lib{name}.so")
            options = [f"-Wl,-soname,{library.name}"] if sys.platform == "linux" else []
            module.export_library(library, options=options)
            files[library.name] = library.read_bytes()
        built = [x for x in (*code, *large) if x.endswith((".c", ".o"))]
        files["main.c"] = c_main.main_source(f, arrays="weights.c" in large)
        files["Makefile"] = c_main.makefile(f, built)
        files["example.py"] = python.example(f)
        files |= _package(f, files)
        links = {f"python/{python.package_name(f.name)}/{x}": x for x in large if x.endswith(".bin")}
        files["README.md"] = readme(f, [*files, *large], __version__)
        there = [x for x in (*files, *large, *links) if (to / x).exists()]
        if there and not force:
            raise UsageError(f"{there[0]} is there already", asked=asked, legal="--force, or another folder")
        return _written(to, files, large, links)


def _package(f: Interface, files: Mapping[str, str | bytes]) -> dict[str, str | bytes]:
    """The files of the Python package; none without a library, or sources to make one of."""
    name, package = c_name(f.name), python.package_name(f.name)
    library = f"lib{name}.so"
    sources = [x for x in files if x.endswith((".c", ".h")) and x != "main.c" and f.target.kind != "llvm"]
    if library not in files and not sources:
        return {}
    copied = [*(sources or [library]), *(x for x in files if x.endswith(".cl"))]
    data = [*(["*.bin"] if f.weights else []), *(x for x in copied if not x.endswith((".c", ".h")))]
    inside = {x: files[x] for x in copied}
    inside["__init__.py"] = python.wrapper(f, f"_{package}.abi3.so" if sources else library)
    made: dict[str, str | bytes] = {f"python/{package}/{x}": text for x, text in inside.items()}
    return {**made, **{f"python/{x}": text for x, text in python.project_files(f, sources, data).items()}}


def _written(
    to: Path, files: Mapping[str, str | bytes], large: Mapping[str, Stream], links: Mapping[str, str]
) -> Exported:
    streams = {path: [text.encode() if isinstance(text, str) else text] for path, text in files.items()}
    written = {}
    for path, pieces in [*streams.items(), *large.items()]:
        (to / path).parent.mkdir(parents=True, exist_ok=True)
        (to / path).unlink(missing_ok=True)  # a library that a process has loaded is replaced, not changed
        with open(to / path, "wb") as file:
            written[path] = sum(file.write(piece) for piece in pieces)
    for path, of in links.items():
        (to / path).unlink(missing_ok=True)
        try:
            os.link(to / of, to / path)
        except OSError:  # the file system has no second names
            shutil.copyfile(to / of, to / path)
    return Exported(written, sum(text.count("\n") for text in files.values() if isinstance(text, str)))
