"""`tvm.target`: targets of code generation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.ir.attached import alias, attach
from autosched.runtime.device import device
from autosched.target import KINDS, TargetLike
from autosched.target import Target as Target
from autosched.target import TargetKind as TargetKind
from autosched.tvm._missing import missing
from autosched.tvm.generic_func import GenericFunc as GenericFunc
from autosched.tvm.generic_func import generic_func as generic_func
from autosched.tvm.generic_func import get_native_generic_func as get_native_generic_func
from autosched.tvm.generic_func import override_native_generic_func as override_native_generic_func

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


def with_host(target: Target, host: TargetLike) -> Target:
    """The same target, called from code for `host`."""
    return Target(kind=target.kind, options=target.options, limits=target.limits, host=host)


def _max_num_threads(target: Target) -> int:
    """Threads that work together: work-items of a work-group, or of a CPU all its threads."""
    return target.max_threads_per_block if target.is_gpu_style else target.num_threads


attach(
    Target,
    features=property(TargetFeatures),
    with_host=with_host,
    list_kinds=staticmethod(lambda: list(KINDS)),
    libs=property(lambda target: [x for x in target.options.get("libs", "").split(",") if x]),
    num_cores=alias("num_threads"),
    max_num_threads=property(_max_num_threads),
    get_target_device_type=lambda target: device(target.kind).device_type,
)


def cuda(model: str = "unknown", arch: str | None = None, options: str = "") -> Target:
    """Return the target of an NVIDIA GPU; `arch` such as sm_80."""
    return Target(" ".join(["cuda", *([f"-arch={arch}"] if arch else []), *([options] if options else [])]))


def mali(model: str = "unknown", options: str = "") -> Target:
    """Return OpenCL with the label by which programs know Mali GPUs."""
    return Target(f"opencl -keys=mali {options}".strip())


def intel_graphics(model: str = "unknown", options: str = "") -> Target:
    """Return OpenCL with the label by which programs know Intel's GPUs."""
    return Target(f"opencl -keys=intel_graphics {options}".strip())


#: board or phone -> the name of its chip, the machine, what its CPU has
_ARM_BOARDS = {
    "pixel2": ("snapdragon835", "arm64-linux-android", "+neon"),
    "mate10": ("kirin970", "arm64-linux-android", "+neon"),
    "mate10pro": ("kirin970", "arm64-linux-android", "+neon"),
    "p20": ("kirin970", "arm64-linux-android", "+neon"),
    "p20pro": ("kirin970", "arm64-linux-android", "+neon"),
    "rasp3b": ("bcm2837", "armv7l-linux-gnueabihf", "+neon"),
    "rasp4b": ("bcm2711", "armv8l-linux-gnueabihf", "+neon"),
    "rasp4b64": ("bcm2711", "aarch64-linux-gnu", "+neon"),
    "rk3399": ("rk3399", "aarch64-linux-gnu", "+neon"),
    "ultra96": ("ultra96", "aarch64-linux-gnu", "+neon"),
    "pynq": ("pynq", "armv7a-linux-eabi", "+vfp3,-d32,+thumb2,+neon"),
    "stm32mp1": ("stm32mp1", "armv7a-linux-gnueabihf", "+neon,+vfp4,+thumb2"),
}


def arm_cpu(model: str = "unknown", options: str | Sequence[str] = "") -> Target:
    """Return the target of an Arm CPU: of a board that is known by name, such as rasp4b64, or of this label.

    `options` are more of the target's: `["-mtriple=aarch64-linux-gnu", "-mattr=+neon"]`.
    """
    chip, triple, attributes = _ARM_BOARDS.get(model, (model, "", ""))
    board = [f"-mtriple={triple} -mattr={attributes}"] if triple else []
    more = [options] if isinstance(options, str) else options
    return Target(" ".join(filter(None, ["llvm -device=arm_cpu", f"-model={chip}", *board, *more])))


def rasp(options: str | Sequence[str] = "") -> Target:
    """Return the target of a Raspberry Pi 3B, as programs of TVM 0.5 call it."""
    return arm_cpu("rasp3b", options)


def bifrost(model: str = "unknown", options: str = "") -> Target:
    """Return OpenCL with the label by which programs know Mali GPUs of the Bifrost kind."""
    return Target(f"opencl -keys=bifrost -model={model} {options}".strip())


_INSTEAD = dict.fromkeys(
    ("hexagon", "riscv_cpu", "rocm", "vta", "datatype", "list_tags"),
    'tvm.target.Target("llvm -mtriple=... -mcpu=...")',
)
__getattr__ = missing("target", globals(), _INSTEAD)
