"""Lowered functions to machine code: LLVM and C99 for the CPU, OpenCL C and CUDA C for devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autosched.errors import BuildError, TargetError

if TYPE_CHECKING:
    from autosched.codegen.artifact import Artifact
    from autosched.ir.stmt import Function
    from autosched.target import Target


def compile_function(function: Function, target: Target, known: Callable[[str], bool] | None = None) -> Artifact:
    """Compile a fully lowered function for `target`.

    `known` is asked whether an artifact of this identity exists already: if so, what is costly is left
    undone, and the artifact has an identity, but no code.
    Raises BuildError when the function cannot be expressed, TargetError for an unknown kind.
    """
    # a process compiles for one of them as a rule, and each takes its time to load
    if target.kind == "llvm":
        from autosched.codegen.llvm import compile_llvm

        return compile_llvm(function, target, known)
    if target.kind in ("opencl", "cuda"):
        from autosched.codegen.c_family import compile_cuda, compile_opencl

        return (compile_cuda if target.kind == "cuda" else compile_opencl)(function, target)
    if target.kind == "c":
        from autosched.codegen.c_artifact import compile_c

        return compile_c(function, target)
    raise TargetError("no code generator for it", asked=f"target {target}", legal="targets: llvm, c, opencl, cuda")


def text_of(artifact: Artifact, kind: str) -> str:
    """A readable form: `source` for every kind of artifact; `llvm` (optimised IR) and `asm`, made again, for `llvm`.

    Raises BuildError for a form that it does not have.
    """
    if kind in artifact.texts:
        return artifact.texts[kind]
    made = ("llvm", "asm") if artifact.kind == "llvm" else ()
    if kind in made:
        from autosched.codegen.llvm import render

        return render(artifact, kind)
    asked, legal = f"source {kind!r}", f"legal: {', '.join([*artifact.texts, *made])}"
    raise BuildError(f"{artifact.signature.name} has no such text", asked=asked, legal=legal)
