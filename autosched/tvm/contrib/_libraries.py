"""Libraries for GPUs and phones that programs ask for before they use them: `if tvm.contrib.cudnn.exists():`, or import
for devices that this machine may have.

None of them is here, and each says so: what asks is False, any other name says what to use instead.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from autosched.tvm._missing import missing

#: module of `tvm.contrib` -> its functions by which programs ask
ASKED: dict[str, tuple[str, ...]] = {
    "cudnn": ("exists",),
    "nnpack": ("is_available",),
    "thrust": ("can_use_thrust", "can_use_rocthrust"),
    **dict.fromkeys("ndk rocm spirv xcode".split(), ()),
}


def absent(*_: object) -> bool:
    """Whether the library is here: it is not."""
    return False


def install(package: str) -> dict[str, ModuleType]:
    """Make the modules of ASKED in a package."""
    made: dict[str, ModuleType] = {}
    for name, questions in ASKED.items():
        module = made[name] = ModuleType(f"{package}.{name}", f"`tvm.contrib.{name}`, which is not here.")
        module.__spec__ = ModuleSpec(module.__name__, None)
        vars(module).update(dict.fromkeys(questions, absent))
        vars(module)["__getattr__"] = missing(f"contrib.{name}", vars(module))
        sys.modules[module.__name__] = module
    return made
