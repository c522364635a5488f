"""How like this device another one is, from what records say of it: `unlikeness`, to sort by.

CPUs are most alike if LLVM calls their cores the same (`znver4`), then if they are of one maker, then the nearer
the number of threads is. Devices that are no CPUs: the same name, then the same platform, then the nearer
the number of compute units. A CPU and a device that is none are not alike, whatever the target.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["unlikeness"]

#: `AMD EPYC 9R14 (znver4, family 25 model 17), 2 threads`, `pthread-AMD EPYC on Intel(R) Xeon(R) (skylake)`
_CORE = re.compile(r"\(([a-z][\w.-]*)[^()]*\)(?:, \d+ threads?)?$")
_THREADS = re.compile(r", (\d+) threads?$")
_MAKERS = ("intel", "amd", "apple", "arm", "ampere", "qualcomm", "nvidia")


def unlikeness(device: Mapping[str, Any], mine: Mapping[str, Any]) -> tuple[float, ...] | None:
    """Smaller is more alike, compared from left to right; None for devices of two kinds."""
    if _is_cpu(device) != _is_cpu(mine):
        return None
    if _is_cpu(mine):
        core = _core(device)
        same_core = bool(core) and core == _core(mine)
        return (not same_core, _maker(device) != _maker(mine), _apart(_threads(device), _threads(mine)))
    same = device.get("name") == mine.get("name"), device.get("platform") == mine.get("platform")
    return (not same[0], not same[1], _apart(_threads(device), _threads(mine)))


def _is_cpu(device: Mapping[str, Any]) -> bool:
    """OpenCL devices say so; what only has a number of threads is one."""
    said = device.get("is_cpu")
    return said if isinstance(said, bool) else "compute_units" not in device and "arch" not in device


def _core(device: Mapping[str, Any]) -> str:
    core = device.get("core")
    if isinstance(core, str):
        return core
    found = _CORE.search(str(device.get("name", "")))
    return found[1] if found else ""


def _maker(device: Mapping[str, Any]) -> str:
    words = re.findall(r"[a-z]+", str(device.get("cpu", device.get("name", ""))).lower())
    return next((w for w in words if w in _MAKERS), "")


def _threads(device: Mapping[str, Any]) -> int:
    for name in ("threads", "compute_units", "multiprocessors"):
        said = device.get(name)
        if isinstance(said, int) and not isinstance(said, bool) and said > 0:
            return said
    found = _THREADS.search(str(device.get("name", "")))
    return int(found[1]) if found and int(found[1]) else 1


def _apart(a: int, b: int) -> float:
    return abs(math.log(a / b))
