"""Kernels in a shared library that was linked elsewhere, as a build worker does with C of the user's."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Sequence
from pathlib import Path

from autosched.codegen.artifact import Artifact
from autosched.errors import BuildError
from autosched.runtime import openmp
from autosched.runtime.c_kernel import SharedCode
from autosched.runtime.cpu import CpuKernel, HasAddresses

__all__ = ["SharedKernel"]


class SharedKernel(CpuKernel):
    """An artifact whose code is a library. Raises BuildError when the system cannot load it."""

    def load(self, artifact: Artifact, name: str, exports: Sequence[str]) -> HasAddresses:
        runtime = openmp.find() if artifact.meta.get("parallel") else None
        if runtime is not None:
            ctypes.CDLL(runtime.path, mode=ctypes.RTLD_GLOBAL)
        with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
            path = Path(folder, f"{name}.so")
            path.write_bytes(artifact.code)
            try:
                library = ctypes.CDLL(str(path))
            except OSError as error:
                raise BuildError(f"the library cannot be loaded: {error}", asked=name) from None
        return SharedCode(library, exports)
