"""`tvm.device`: devices by TVM's names, of which those of other kinds do not exist here."""

from __future__ import annotations

from typing import Any

from autosched.errors import DeviceError
from autosched.runtime.device import Device
from autosched.runtime.device import device as known

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
