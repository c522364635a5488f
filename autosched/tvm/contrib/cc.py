"""`tvm.contrib.cc`: the C compiler, for libraries of object files."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.runtime.c_compiler import Compiler, find_compiler, require_compiler
from autosched.runtime.export import link_library


def get_cc() -> str | None:
    """The command of the C compiler; None if there is none."""
    found = find_compiler()
    return None if found is None else found.command[0]


def create_shared(
    output: str, objects: Sequence[str] | str, options: Sequence[str] | None = None, cc: str | None = None
) -> None:
    """Link object files or C sources to a shared library, with the compiler that is found or named.

    `tvm.runtime.load_module` reads one of object files that `module.save` wrote alone, and were linked by the compiler
    that is found. Raises BuildError, with the compiler's message, if that fails.
    """
    listed = [objects] if isinstance(objects, str) else list(objects)
    if cc is None and link_library(output, listed, options or ()):
        return
    _run(output, objects, ["-shared", "-fPIC", *(options or ())], cc)


def create_executable(
    output: str, objects: Sequence[str] | str, options: Sequence[str] | None = None, cc: str | None = None
) -> None:
    """As `create_shared`, for a program."""
    _run(output, objects, list(options or ()), cc)


def _run(output: str, objects: Sequence[str] | str, options: list[str], cc: str | None) -> None:
    compiler = require_compiler(output) if cc is None else Compiler((cc,), ())
    listed = [objects] if isinstance(objects, str) else list(objects)
    compiler.run([*options, "-o", output, *listed], f"link {output}")
