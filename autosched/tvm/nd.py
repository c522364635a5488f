"""`tvm.nd`: arrays on devices."""

from __future__ import annotations

from autosched.runtime.device import Device, cpu, cuda, device, opencl
from autosched.runtime.ndarray import NDArray, array, empty, from_dlpack, numpyasarray
from autosched.tvm._missing import missing

gpu = cuda
cl = opencl

__all__ = [
    "Device",
    "NDArray",
    "array",
    "cl",
    "cpu",
    "cuda",
    "device",
    "empty",
    "from_dlpack",
    "gpu",
    "numpyasarray",
    "opencl",
]

__getattr__ = missing("nd", globals())
