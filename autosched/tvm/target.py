"""`tvm.target`: targets of code generation."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autosched.ir.attached import attach
from autosched.target import Target as Target
from autosched.target import TargetKind as TargetKind
from autosched.tvm._missing import missing

create = Target

#: Arm's extension -> the version of the architecture that has it, as (8, 2); None: only attributes say so
_ARM = {"dotprod": (8, 4), "i8mm": (8, 6), "sve": (9, 0), "sme": None, "fullfp16": None}


@dataclass(frozen=True)
class TargetFeatures:
    """What the triple and the attributes of a target say of an Arm CPU: `target.features.has_sve`.

    An extension is there if `-mattr` names it, or the version of the architecture or another extension brings it;
    what the name of a CPU alone implies is not known. A name that is none of these is None, as in TVM.
    """

    target: Target

    def _has(self, *names: str) -> bool:
        attributes = [x for x in self.target.options.get("mattr", "").split(",") if x]
        named = re.findall(r"[+]v(\d)(?:[.](\d))?", ",".join(attributes))
        version = max(((int(a), int(b or 0)) for a, b in named), default=(8, 0))
        brought = {x for x, since in _ARM.items() if since is not None and self.is_aarch64 and version >= since}
        have = (brought | {x[1:] for x in attributes if x[0] == "+"}) - {x[1:] for x in attributes if x[0] == "-"}
        return not have.isdisjoint(names)

    @property
    def is_aarch64(self) -> bool:
        return self.target.options.get("mtriple", "").startswith(("aarch64", "arm64"))

    @property
    def has_asimd(self) -> bool:
        return self.is_aarch64 or self._has("neon")

    @property
    def has_dotprod(self) -> bool:
        return self._has("dotprod")

    @property
    def has_matmul_i8(self) -> bool:
        return self._has("i8mm")

    @property
    def has_fp16_simd(self) -> bool:
        return self._has("fullfp16", "sve", "sve2")

    @property
    def has_sve(self) -> bool:
        return self._has("sve", "sve2")

    @property
    def has_sme(self) -> bool:
        return self._has("sme", "sme2")

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


attach(Target, features=property(TargetFeatures))


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
