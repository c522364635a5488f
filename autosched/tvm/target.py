"""`tvm.target`: targets of code generation."""

from __future__ import annotations

from autosched.target import Target as Target
from autosched.tvm._missing import missing

create = Target


def cuda(model: str = "unknown", arch: str | None = None, options: str = "") -> Target:
    """Return the target of an NVIDIA GPU; `arch` such as sm_80."""
    return Target(" ".join(["cuda", *([f"-arch={arch}"] if arch else []), *([options] if options else [])]))


def mali(model: str = "unknown", options: str = "") -> Target:
    """Return OpenCL with the label by which programs know Mali GPUs."""
    return Target(f"opencl -keys=mali {options}".strip())


def intel_graphics(model: str = "unknown", options: str = "") -> Target:
    """Return OpenCL with the label by which programs know Intel's GPUs."""
    return Target(f"opencl -keys=intel_graphics {options}".strip())


_INSTEAD = dict.fromkeys(
    ("arm_cpu", "bifrost", "hexagon", "rasp", "riscv_cpu", "rocm", "vta", "datatype", "list_tags"),
    'tvm.target.Target("llvm -mtriple=... -mcpu=...")',
)
__getattr__ = missing("target", globals(), _INSTEAD)
