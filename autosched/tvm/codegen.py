"""`tvm.target.codegen`: what the code generator is."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from autosched.errors import UsageError
from autosched.target import Target
from autosched.tvm._missing import missing


def llvm_version_major(allow_none: bool = False) -> int:
    """The first number of LLVM's version."""
    return int(_llvm().llvm_version_info[0])


def llvm_get_system_triple() -> str:
    """The name of this machine's architecture and system."""
    return str(_llvm().get_default_triple())


def llvm_get_system_cpu() -> str:
    """The name of this machine's CPU."""
    return str(_llvm().get_host_cpu_name())


def llvm_get_cpu_features(target: Target | None = None) -> set[str]:
    """What this machine's CPU can do (`"avx2"`), with the target's `-mattr`.

    Raises UsageError for a target of another CPU: what its name implies is known to LLVM alone.
    """
    to = Target.parse(target or Target.current(allow_none=True) or "llvm")
    cpu, triple = to.options.get("mcpu", "native"), to.options.get("mtriple", "")
    if cpu not in ("native", llvm_get_system_cpu()) or triple.partition("-")[0] not in ("", _architecture()):
        asked, legal = f"features of {to}", "a target without -mcpu, or features in -mattr"
        raise UsageError("it is not this machine, and what its name implies is not known", asked=asked, legal=legal)
    have = {name for name, is_there in _llvm().get_host_cpu_features().items() if is_there}
    for feature in filter(None, to.options.get("mattr", "").split(",")):
        (have.add if feature[0] == "+" else have.discard)(feature[1:])
    return have


def llvm_cpu_has_features(cpu_features: str | Sequence[str], target: Target | None = None) -> bool:
    """Whether `llvm_get_cpu_features` has all of these."""
    asked = {cpu_features} if isinstance(cpu_features, str) else set(cpu_features)
    return asked <= llvm_get_cpu_features(target)


target_has_features = llvm_cpu_has_features

_intrinsics: list[str] = []  # those that were asked for


def llvm_lookup_intrinsic_id(name: str) -> int:
    """A number for an intrinsic of LLVM; 0 for another name. Calls take the name, and compiling tells whether it is
    one."""
    if not str(name).startswith("llvm."):
        return 0
    if name not in _intrinsics:
        _intrinsics.append(str(name))
    return _intrinsics.index(name) + 1


def llvm_get_intrinsic_name(intrin_id: int) -> str:
    """The name that `llvm_lookup_intrinsic_id` gave a number to. Raises UsageError for another number."""
    if not 0 < int(intrin_id) <= len(_intrinsics):
        asked = f"llvm_get_intrinsic_name({intrin_id!r})"
        raise UsageError("no intrinsic has it", asked=asked, legal="what llvm_lookup_intrinsic_id returned")
    return _intrinsics[int(intrin_id) - 1]


def _architecture() -> str:
    return llvm_get_system_triple().partition("-")[0]


def _llvm() -> Any:
    return import_module("llvmlite.binding")  # loading it takes long, and few programs ask


__getattr__ = missing("target.codegen", globals())
