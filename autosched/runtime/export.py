"""Compiled modules as files for programs without this library.

    x.so, x.dylib   a shared library; needs a C compiler to link it
    x.tar           the object files or sources, for `load_module`; needs nothing
    x.o             one object file (llvm: no compiler needed), and beside it x.autosched, for `link_library`
    x.a             an archive of object files

A C header is written beside libraries of CPU code: `x.h` declares each function with its arrays and
sizes. What `load_module` needs is inside the file, as data of the symbol `autosched_module`.
"""

from __future__ import annotations

import ctypes
import errno
import io
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from autosched.codegen.artifact import Artifact
from autosched.codegen.c_program import c_name, header
from autosched.errors import BuildError, UsageError, check_path, named_file
from autosched.ir.functions import open_library
from autosched.runtime.c_compiler import Compiler, compile_object, exported, require_compiler
from autosched.runtime.cpu import SERIAL_OPENMP, CpuKernel, check_host
from autosched.runtime.module import Module
from autosched.target import Target

_DATA = "autosched_module"
_IN_TAR = "module.autosched"
_BESIDE = ".autosched"
_ATTACHED, _ATTACHED_IN_TAR = f"{_DATA}_attached", "attached.bin"
_SHARED = (".so", ".dylib", ".dll")
_LEGAL = "x.so (or .dylib), x.a, x.o, x.tar"
_CPU_KINDS = ("llvm", "c")

Packer = Callable[[str, Sequence[str]], object]


def export_library(
    module: Module,
    path: str | os.PathLike[str],
    *,
    fcompile: Packer | None = None,
    options: Sequence[str] = (),
    attached: Sequence[bytes | memoryview] = (),
) -> None:
    """Write a library, its kind by the end of `path`; for CPU code a header `x.h` beside it.

    fcompile: called with the path and the object files, in place of the C compiler
    options:  further arguments of the linker
    attached: further data, one after the other, which a module that is loaded has as `attached`; for libraries that are
              linked here, and .tar

    A program in C includes the header and links the library; it needs neither Python nor this
    library. Parallel loops need an OpenMP runtime: the library is linked with the compiler's, or runs
    on one thread when the compiler has none. Raises BuildError without a C compiler where one is
    needed, and for code that calls Python; UsageError for another kind of file; FileError (an OSError) where it
    cannot be written.
    """
    asked = f"export_library({path!r:.200})"
    to = check_path(path, asked)
    with named_file(asked):
        if not os.path.isdir(to.parent):  # before the compiler is asked
            raise FileNotFoundError(errno.ENOENT, "there is no such folder")
        _export(module, to, fcompile, options, attached)


def _export(
    module: Module, to: Path, fcompile: Packer | None, options: Sequence[str], attached: Sequence[bytes | memoryview]
) -> None:
    artifacts = module.artifacts()
    if to.suffix not in (*_SHARED, ".a", ".o", ".tar"):
        raise UsageError("no such kind of library", asked=f"export_library({os.fspath(to)!r})", legal=_LEGAL)
    for a in artifacts:
        if a.meta.get("packed"):
            raise BuildError(
                f"it calls the Python function {a.meta['packed'][0]!r}, which a library cannot take along",
                asked=f"{a.signature.name}: export_library({str(to)!r})",
                legal="call_extern of a C function, which the program links",
            )
    if attached and (to.suffix not in (*_SHARED, ".tar") or fcompile is not None):
        raise UsageError(
            "it has data besides its code", asked=f"export_library({os.fspath(to)!r})", legal="x.so or x.tar"
        )
    is_cpu = module.type_key in _CPU_KINDS
    if to.suffix in (".o", ".a") and not is_cpu:
        raise UsageError(
            f"code for {module.type_key} is source, not machine code",
            asked=f"export_library({os.fspath(to)!r})",
            legal="x.tar, or x.so for load_module",
        )
    _refuse_one_name(artifacts, to)
    guard = re.sub(r"\W", "_", f"{to.stem}_h", flags=re.ASCII).upper()
    text = header(guard, [a.signature for a in artifacts])
    with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
        if to.suffix == ".tar":
            _write_tar(to, artifacts, text if is_cpu else "", attached)
            return
        objects = _objects(artifacts, Path(folder)) if is_cpu else []
        if to.suffix == ".o":
            _one_object(objects, to)
            Artifact.save_all(artifacts, to.with_suffix(_BESIDE))
        elif fcompile is not None:
            fcompile(os.fspath(to), [os.fspath(o) for o in [*objects, _data_object(artifacts, Path(folder))]])
        elif to.suffix == ".a":
            _archive(objects, to)
        else:
            extra = [_attached_object(attached, Path(folder))] if attached else []
            _link(artifacts, [*objects, _data_object(artifacts, Path(folder)), *extra], to, options, Path(folder))
    if is_cpu:
        to.with_suffix(".h").write_text(text, encoding="utf-8")


def link_library(path: str | os.PathLike[str], objects: Sequence[str], options: Sequence[str] = ()) -> bool:
    """Link object files that `export_library` or `save` wrote to a shared library for `load_module`.

    Returns False, and does nothing, where one of them has no file `x.autosched` beside it: it is not one of those.
    Raises BuildError with the compiler's complaints, FileError where a file cannot be read or written.
    """
    asked = f"link {os.fspath(path)!r}"
    beside = [Path(o).with_suffix(_BESIDE) for o in objects]
    if not beside or not all(x.is_file() for x in beside):
        return False
    with named_file(asked), tempfile.TemporaryDirectory(prefix="autosched-") as folder:
        artifacts = [a for x in beside for a in Artifact.load_all(x)]
        _refuse_one_name(artifacts, Path(path))
        made = [*map(Path, objects), _data_object(artifacts, Path(folder))]
        _link(artifacts, made, Path(path), options, Path(folder))
    return True


def load_module(path: str | os.PathLike[str]) -> Module:
    """The module of a file that `export_library` (.so, .tar) or `save` wrote.

    Raises BuildError for a file that holds none. The file is machine code: load only files that you
    would run.

    >>> load_module("blur.so")(img)
    """
    of, name = check_path(path, "load_module(path)"), os.fspath(path)
    if not os.path.isfile(of):
        raise BuildError("there is no such file", asked=f"load_module({name!r})", legal=_LEGAL)
    if of.suffix in (".o", ".a"):
        raise BuildError(
            "object files are for linkers: they do not hold what a call of them needs",
            asked=f"load_module({name!r})",
            legal="export_library('x.so') or 'x.tar'",
        )
    if of.suffix == ".tar":
        data, attached = _read_tar(of)
        module = Module.of(Artifact.from_bytes(data, name))
        module.attached = attached
        return module
    if of.suffix not in _SHARED:
        return Module.load(of)
    try:
        library = open_library(os.fspath(of.absolute()))
        size = ctypes.c_int64.in_dll(library, f"{_DATA}_bytes").value
        data = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, _DATA)), size)
    except (OSError, ValueError) as error:
        raise BuildError(
            f"it is no library of ours: {error}",
            asked=f"load_module({name!r})",
            legal="what export_library wrote, or link_library of what save wrote",
        ) from None
    artifacts = Artifact.from_bytes(data, name)
    if artifacts[0].kind not in _CPU_KINDS:
        module = Module.of(artifacts)
    else:
        target = Target.parse(artifacts[0].target)
        module = Module.of(artifacts, target, [_LibraryKernel(a, target, library) for a in artifacts])
    module.attached = _attached_in(library)
    return module


def _attached_in(library: ctypes.CDLL) -> memoryview:
    """The data besides the code, where they lie in the library."""
    try:
        size = ctypes.c_int64.in_dll(library, f"{_ATTACHED}_bytes").value
    except ValueError:
        return memoryview(b"")
    return memoryview((ctypes.c_char * size).in_dll(library, _ATTACHED)).cast("B").toreadonly()


class _LibraryKernel(CpuKernel):
    """A function of a shared library that is loaded already."""

    def __init__(self, artifact: Artifact, target: Target, library: ctypes.CDLL) -> None:
        self._library = library
        super().__init__(artifact, target)

    def load(self, artifact: Artifact, name: str, exports: Sequence[str]) -> tuple[list[int], object]:
        if artifact.kind == "llvm":
            check_host(artifact)
        return exported(self._library, exports), self._library


# -- what goes into a library -----------------------------------------------------------------------


def _refuse_one_name(artifacts: Sequence[Artifact], path: Path) -> None:
    called: dict[str, str] = {}
    for name in (a.signature.name for a in artifacts):
        other = called.setdefault(c_name(name), name)
        if other != name:
            raise BuildError(
                f"{other!r} and {name!r} are both {c_name(name)} in C",
                asked=f"export_library({str(path)!r})",
                legal="names of functions that differ in letters and digits",
            )


def _objects(artifacts: Sequence[Artifact], folder: Path) -> list[Path]:
    """The object files of the artifacts."""
    paths = []
    for i, a in enumerate(artifacts):
        path = folder / f"{a.meta['entry']}_{i}.o"
        if a.kind == "llvm":
            for k, code in enumerate(a.objects):
                paths.append(folder / f"{a.meta['entry']}_{i}_{k}.o")
                paths[-1].write_bytes(code)
        else:
            parallel, strict = (bool(a.meta.get(name)) for name in ("parallel", "strict"))
            compile_object(a.code.decode(), path, str(a.meta.get("mcpu", "native")), parallel, strict=strict)
            paths.append(path)
    return paths


def _assembled(source: str, artifacts: Sequence[Artifact]) -> bytes:
    """The object code of LLVM assembly, for the machine of the artifacts."""
    from autosched.codegen.llvm import assembled

    triple = str(artifacts[0].meta.get("triple", ""))
    return assembled(source, "generic" if triple else "", "", triple)


def _data_object(artifacts: Sequence[Artifact], folder: Path) -> Path:
    """An object file with all that `load_module` needs, as data."""
    data = b"".join(a.to_bytes() for a in artifacts)
    text = "".join(f"\\{byte:02x}" for byte in data)
    source = f'@{_DATA} = constant [{len(data)} x i8] c"{text}"\n@{_DATA}_bytes = constant i64 {len(data)}\n'
    path = folder / f"{_DATA}.o"
    path.write_bytes(_assembled(source, artifacts))
    return path


def _attached_object(attached: Sequence[bytes | memoryview], folder: Path) -> Path:
    """An object file with further data, which the assembler takes from a file: as text they would be four times as
    large."""
    data = folder / "attached.bin"
    with open(data, "wb") as file:
        size = sum(file.write(piece) for piece in attached)
    path = folder / f"{_ATTACHED}.o"
    compile_object(_ATTACHED_SOURCE.format(symbol=_ATTACHED, file=data, size=size), path)
    return path


_ATTACHED_SOURCE = """\
#include <stdint.h>
#ifdef __APPLE__
__asm__(".const_data\\n.globl _{symbol}\\n.balign 64\\n_{symbol}:\\n.incbin \\"{file}\\"\\n.text");
#else
__asm__(".pushsection .rodata\\n.globl {symbol}\\n.balign 64\\n{symbol}:\\n.incbin \\"{file}\\"\\n.popsection");
#endif
const int64_t {symbol}_bytes = {size};
"""


def _one_object(objects: Sequence[Path], to: Path) -> None:
    """Copy one object, or link several into one that stays relocatable."""
    if len(objects) == 1:
        shutil.copyfile(objects[0], to)
        return
    asked = f"export_library({str(to)!r})"
    require_compiler(asked).run(["-r", "-nostdlib", *map(str, objects), "-o", str(to)], asked)


def _archive(objects: Sequence[Path], to: Path) -> None:
    command = shlex.split(os.environ.get("AR", "ar"))
    to.unlink(missing_ok=True)  # ar adds to what is there
    try:
        subprocess.run([*command, "rcs", str(to), *map(str, objects)], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        raise BuildError(
            f"{command[0]} failed: {said.strip()}", asked=f"export_library({str(to)!r})", legal="set AR; or export x.o"
        ) from None


def _link(artifacts: Sequence[Artifact], objects: list[Path], to: Path, options: Sequence[str], folder: Path) -> None:
    """A shared library: with the compiler's OpenMP where there are parallel loops, serial without."""
    asked = f"export_library({str(to)!r})"
    compiler = require_compiler(asked)
    parallel = any(a.meta.get("parallel") for a in artifacts)
    extra: list[str] = []
    if parallel and compiler.openmp:
        extra += compiler.openmp
    elif parallel:
        serial = folder / "serial_openmp.o"
        serial.write_bytes(_assembled(SERIAL_OPENMP, artifacts))
        extra.append(str(serial))
    if any(b"_ZGV" in o.read_bytes() for o in objects) and compiler.accepts("-lmvec"):  # vector mathematics
        extra.append("-lmvec")
    extra += _hidden(compiler, artifacts, folder / "exported")
    compiler.run(["-shared", *map(str, objects), "-o", str(to), *extra, "-lm", *options], asked)


def _hidden(compiler: Compiler, artifacts: Sequence[Artifact], script: Path) -> list[str]:
    """Options that keep what several objects share inside of the library: two libraries of one process may have parts
    of the same name. None where the linker takes no script."""
    if not any(len(a.objects) > 1 for a in artifacts):
        return []
    names = [
        f"{stem}{end};" for a in artifacts for stem, end in ((c_name(a.signature.name), ""), (a.meta["entry"], "*"))
    ]
    script.write_text(f"{{ global: {' '.join(names)} {_DATA}*; local: *; }};\n")
    option = f"-Wl,--version-script={script}"
    return [option] if compiler.accepts("-shared", option) else []


def _write_tar(to: Path, artifacts: Sequence[Artifact], text: str, attached: Sequence[bytes | memoryview]) -> None:
    """Object files or sources under names that people read, and the data for `load_module`."""
    ends = {"llvm": "o", "shared": "so", "c": "c", "opencl": "cl", "cuda": "cu"}
    members = {
        f"{c_name(a.signature.name)}{f'.{k}' if k else ''}.{ends[a.kind]}": code
        for a in artifacts
        for k, code in enumerate(a.objects)
    }
    if text:
        members[to.with_suffix(".h").name] = text.encode()
    members[_IN_TAR] = b"".join(a.to_bytes() for a in artifacts)
    if attached:
        members[_ATTACHED_IN_TAR] = b"".join(attached)
    with tarfile.open(to, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def _read_tar(path: Path) -> tuple[bytes, bytes]:
    """The data for `load_module`, and what is attached; nothing is unpacked. Raises BuildError."""
    try:
        with tarfile.open(path) as archive:
            names = archive.getnames()
            found = [archive.extractfile(n) if n in names else None for n in (_IN_TAR, _ATTACHED_IN_TAR)]
            if found[0] is not None:
                return found[0].read(), b"" if found[1] is None else found[1].read()
    except (OSError, KeyError, tarfile.TarError):
        pass
    raise BuildError(f"it has no {_IN_TAR}", asked=f"load_module({str(path)!r})", legal="what export_library wrote")
