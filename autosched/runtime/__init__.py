"""Running compiled code: the CPU in this process, OpenCL and CUDA devices, and the callable `Module`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.errors import BuildError
from autosched.runtime.kernel import UnavailableKernel

if TYPE_CHECKING:
    from autosched.codegen.artifact import Artifact
    from autosched.runtime.kernel import Kernel
    from autosched.target import Target

__all__ = ["load"]


def load(artifact: Artifact, target: Target) -> Kernel:
    """Make the artifact's code ready to run on `target`.

    What only another machine can run is refused when it is called, so that its source can be read.
    Raises BuildError for code that cannot be loaded, DeviceError for a missing device.
    """
    if artifact.kind == "llvm":
        from autosched.runtime.cpu import CpuKernel, ForeignCodeError

        try:
            return CpuKernel(artifact, target)
        except ForeignCodeError as error:
            return UnavailableKernel(artifact.signature, error)
    if artifact.kind == "opencl":
        from autosched.runtime.opencl import OpenCLKernel

        return OpenCLKernel(artifact, target)
    if artifact.kind == "cuda":
        from autosched.runtime.cuda import CudaKernel

        return CudaKernel(artifact, target)
    if artifact.kind in ("c", "shared"):
        from autosched.runtime.c_compiler import CKernel, SharedKernel

        if artifact.kind == "shared":
            return SharedKernel(artifact, target)
        try:
            return CKernel(artifact, target)
        except BuildError as error:
            return UnavailableKernel(artifact.signature, error)
    raise BuildError(
        "no runtime loads such code",
        asked=f"artifact of kind {artifact.kind!r}",
        legal="legal: llvm, c, shared, opencl, cuda",
    )
