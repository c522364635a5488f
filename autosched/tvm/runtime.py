"""`tvm.runtime`: compiled modules, arrays, devices."""

from __future__ import annotations

from autosched.runtime.devices import Device, cpu, cuda, device, opencl
from autosched.runtime.export import load_module
from autosched.runtime.module import Module
from autosched.runtime.ndarray import NDArray
from autosched.tvm import nd
from autosched.tvm._missing import missing

__all__ = ["Device", "Module", "NDArray", "cpu", "cuda", "device", "load_module", "nd", "opencl"]

_INSTEAD = {"enabled": "autosched doctor says which targets work on this machine"}
__getattr__ = missing("runtime", globals(), _INSTEAD)
