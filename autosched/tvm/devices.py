"""`tvm.device`: devices by TVM's names, of which those of other kinds do not exist here."""

from __future__ import annotations

import os
from typing import Any

from autosched.errors import DeviceError
from autosched.ir.attached import attach
from autosched.runtime.device import Device
from autosched.runtime.device import device as known
from autosched.target import cpu_count

#: kinds of devices of TVM's that this package has no code for -> their number
OTHERS = {"aocl": 5, "aocl_sw_emu": 5, "vulkan": 7, "metal": 8, "vpi": 9, "rocm": 10}
OTHERS |= {"nvptx": 2, "ext_dev": 12, "hexagon": 14, "webgpu": 15}


class OtherDevice(Device):
    """A device of a kind that this package has no code for: it does not exist."""

    @property
    def device_type(self) -> int:
        return OTHERS[self.kind]

    @property
    def exist(self) -> bool:
        return False

    def info(self) -> Any:
        legal = "devices: cpu, opencl, cuda"
        raise DeviceError(f"there is no code for {self.kind}", asked=f"device {self}", legal=legal)


def device(dev: str | Device, dev_id: int = 0) -> Device:
    """The device of a name, with or without a number: `cpu`, `opencl:1`. It need not exist.

    Raises TargetError for a name that TVM does not have either.
    """
    name = str(dev).split()[0].partition(":")[0] if str(dev).strip() else ""
    if name == "sdaccel":  # OpenCL, for Xilinx
        return known("opencl", dev_id)
    return OtherDevice(name, dev_id) if name in OTHERS else known(dev, dev_id)


def _most_items(dev: Device) -> list[int] | None:
    found = dev.fact("max_work_items")
    return None if found is None else list(found)


def _memory(dev: Device) -> int | None:
    """Bytes of main memory."""
    if dev.kind != "cpu":
        return dev.fact("global_memory")  # type: ignore[no-any-return]
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError):
        return None


attach(
    Device,
    api_version=property(lambda dev: dev.fact("version", "arch")),
    compute_version=property(lambda dev: dev.fact("arch")),
    max_shared_memory_per_block=property(lambda dev: dev.fact("shared_memory")),
    max_thread_dimensions=property(_most_items),
    multi_processor_count=property(lambda dev: cpu_count() if dev.kind == "cpu" else dev.fact("compute_units")),
    total_global_memory=property(_memory),
    warp_size=property(lambda dev: dev.fact("preferred_multiple")),
)
