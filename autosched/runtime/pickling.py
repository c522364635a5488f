"""Compiled functions for other processes: a pickle of one holds what `Module.save` writes, and is loaded the same way.

Loading checks that the bytes are whole; they are machine code, or source that a compiler makes it of, and a pickle can
name any function of Python anyway. So unpickle only what you would run.

What the other process lacks (the Python function of a call-back, a device, the CPU's instructions) is told by the
first call there: an error while a pickle is read would end the workers of a pool without a message.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.codegen.artifact import Artifact
from autosched.errors import AutoschedError
from autosched.runtime import load
from autosched.runtime.function import CompiledFunction
from autosched.runtime.kernel import Kernel, UnavailableKernel
from autosched.runtime.module import Module
from autosched.target import Target

__all__ = ["function_of", "module_of"]


def module_of(data: bytes, target: Target) -> Module:
    """The module that was pickled. Raises BuildError for damaged data."""
    artifacts = Artifact.from_bytes(data, "pickle of a module")
    return Module.of(artifacts, target, _kernels(artifacts, target))


def function_of(data: bytes, target: Target) -> CompiledFunction:
    """The function of a module that was pickled alone. Raises BuildError for damaged data."""
    (artifact,) = artifacts = Artifact.from_bytes(data, "pickle of a function")
    return CompiledFunction(artifact, target, _kernels(artifacts, target)[0])


def _kernels(artifacts: Sequence[Artifact], target: Target) -> list[Kernel]:
    return [_loaded(a, target) for a in artifacts]


def _loaded(artifact: Artifact, target: Target) -> Kernel:
    try:
        return load(artifact, target)
    except AutoschedError as error:
        return UnavailableKernel(artifact.signature, error)
