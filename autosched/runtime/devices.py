"""Devices: `device("opencl", 0)`, and what one says about itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from autosched.errors import DeviceError, TargetError
from autosched.target import cpu_count

#: DLPack's numbers
_TYPES = {"cpu": 1, "cuda": 2, "opencl": 4}
_NAMES = {"llvm": "cpu", "c": "cpu", "cl": "opencl", "gpu": "cuda", "nvidia": "cuda"}


@dataclass(frozen=True)
class Device:
    """One place where arrays are and code runs: `cpu`, `opencl` or `cuda`, and which of its kind.

    The OpenCL device 0 is the one that the target `opencl` means; the others follow in the order of
    `doctor`. What a device does not know is None.
    """

    kind: str
    device_id: int = 0

    def __str__(self) -> str:
        return f"{self.kind}({self.device_id})"

    __repr__ = __str__

    @property
    def device_type(self) -> int:
        """DLPack's number for the kind: 1 cpu, 2 cuda, 4 opencl."""
        return _TYPES[self.kind]

    def info(self) -> Any:
        """The driver's description, a `DeviceInfo` or `CudaDevice`. Raises DeviceError if it does not exist."""
        if self.kind == "cpu":
            return None
        found = _opencl_devices() if self.kind == "opencl" else _cuda_devices()
        if not 0 <= self.device_id < len(found):
            listing = "; ".join(str(d.name) for d in found) or "none on this machine"
            raise DeviceError(
                "there is no such device", asked=f"device {self}", legal=f"{self.kind} devices: {listing}"
            )
        return found[self.device_id]

    def _fact(self, *names: str) -> Any:
        """The first of these facts that the driver knows, None without a driver or a device."""
        if not self.exist:
            return None
        info = self.info()
        return next((getattr(info, name) for name in names if hasattr(info, name)), None)

    @property
    def exist(self) -> bool:
        if self.kind == "cpu":
            return self.device_id == 0
        try:
            self.info()
        except DeviceError:
            return False
        return True

    @property
    def device_name(self) -> str | None:
        from autosched.runtime.device import host_cpu

        return host_cpu() if self.kind == "cpu" else self._fact("name")

    @property
    def max_threads_per_block(self) -> int | None:
        """Most work-items of a work-group."""
        return self._fact("max_work_group")

    @property
    def max_thread_dimensions(self) -> list[int] | None:
        """Most work-items along each axis of a work-group."""
        found = self._fact("max_work_items")
        return None if found is None else list(found)

    @property
    def max_shared_memory_per_block(self) -> int | None:
        """Bytes of shared memory of a work-group."""
        return self._fact("shared_memory")

    @property
    def warp_size(self) -> int | None:
        """Work-items that run in lockstep."""
        return self._fact("preferred_multiple", "warp_size")

    @property
    def multi_processor_count(self) -> int | None:
        """Compute units; of a CPU, those that this process may use."""
        return cpu_count() if self.kind == "cpu" else self._fact("compute_units")

    @property
    def total_global_memory(self) -> int | None:
        """Bytes of main memory."""
        if self.kind == "cpu":
            try:
                return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            except (AttributeError, ValueError):
                return None
        return self._fact("global_memory")

    @property
    def api_version(self) -> str | None:
        return self._fact("version", "arch")

    @property
    def compute_version(self) -> str | None:
        """Of a CUDA device, its architecture."""
        return self._fact("arch")

    @property
    def driver_version(self) -> str | None:
        return self._fact("driver")

    def sync(self) -> None:
        """Wait until the device has done all its work. Calls of modules wait by themselves."""
        if self.kind == "opencl":
            from autosched.runtime.opencl_devices import open_session

            open_session(self.info()).queue.finish()
        elif self.kind == "cuda":
            from autosched.runtime.cuda import open_session as open_cuda

            session = open_cuda(self.info())
            session.enter()
            session.wait()


def _opencl_devices() -> list[Any]:
    from autosched.runtime.opencl_devices import devices, find_device

    found = devices()
    if not found:
        return []
    first = find_device()
    return [first, *(d for d in found if d.index != first.index)]


def _cuda_devices() -> list[Any]:
    from autosched.runtime.cuda import cuda_devices

    return list(cuda_devices())


def device(dev: str | Device, dev_id: int = 0) -> Device:
    """The device that `"cpu"`, `"opencl"` or `"cuda"` means, or `"opencl:1"`. It need not exist.

    Raises TargetError for another name.
    """
    if isinstance(dev, Device):
        return dev
    name, colon, number = str(dev).split(maxsplit=1)[0].partition(":") if str(dev).strip() else ("", "", "")
    kind = _NAMES.get(name, name)
    if kind not in _TYPES or (colon and not number.isdecimal()):
        raise TargetError("no such kind of device", asked=f"device {dev!r}", legal=f"{', '.join(_TYPES)}")
    return Device(kind, int(number) if colon else dev_id)


def cpu(dev_id: int = 0) -> Device:
    return Device("cpu", dev_id)


def opencl(dev_id: int = 0) -> Device:
    return Device("opencl", dev_id)


cl = opencl


def cuda(dev_id: int = 0) -> Device:
    return Device("cuda", dev_id)
