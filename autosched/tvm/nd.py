"""`tvm.nd`: arrays on devices."""

from __future__ import annotations

from autosched.runtime.device import Device as Device
from autosched.runtime.device import cpu as cpu
from autosched.runtime.device import cuda as cuda
from autosched.runtime.device import opencl as opencl
from autosched.runtime.ndarray import NDArray as NDArray
from autosched.runtime.ndarray import array as array
from autosched.runtime.ndarray import empty as empty
from autosched.runtime.ndarray import from_dlpack as from_dlpack
from autosched.runtime.ndarray import numpyasarray as numpyasarray
from autosched.tvm import array_views as array_views
from autosched.tvm._missing import missing
from autosched.tvm.devices import device as device

gpu = cuda
cl = opencl

__getattr__ = missing("nd", globals())
