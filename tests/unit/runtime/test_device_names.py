"""Names of devices tell CPUs apart on every target, whatever drivers and clouds call them."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from autosched.runtime import device, opencl_devices
from autosched.runtime.device import describe_device, host_cpu
from autosched.runtime.opencl_devices import DeviceInfo
from autosched.target import Target

GENOA = {"model name": "AMD EPYC", "cpu family": "25", "model": "17"}
TURIN = {"model name": "AMD EPYC", "cpu family": "26", "model": "2"}


def info(name, is_cpu):
    return DeviceInfo(0, "a platform", name, "OpenCL 3.0", "1", is_cpu, 2, 256, (256, 1, 1), 8, 1, 1, 1, False, True)


@pytest.fixture
def named(monkeypatch):
    """The names on a machine that says this of its CPU, of target and kind of OpenCL device."""

    def names(facts, target, features=("avx2", "avx512f"), is_cpu=True, opencl_name="pthread-AMD EPYC"):
        monkeypatch.setattr(device, "cpuinfo", lambda: facts)
        for module in (device, opencl_devices):
            monkeypatch.setattr(module, "host_core", lambda: "znver4")
        monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: dict.fromkeys(features, True))
        monkeypatch.setattr(opencl_devices, "find_device", lambda spec="": info(opencl_name, is_cpu))
        host_cpu.cache_clear()
        return describe_device(Target(kind=target, limits={"x": 1}))

    yield names
    host_cpu.cache_clear()


@pytest.mark.parametrize("target", ["llvm", "c", "opencl"])
def test_cpus_of_one_name_differ(named, target):
    found = [
        named(GENOA, target),
        named(TURIN, target),
        named(GENOA, target, features=("avx2",)),  # a cloud that hides some
    ]
    assert len({f["name"] for f in found}) == 3
    assert named(GENOA, target)["name"] == found[0]["name"], "a name is the same every time"
    assert "AMD EPYC (znver4, family 25 model 17, " in found[0]["name"]
    assert found[0]["core"] == "znver4"


def test_features_that_change_no_code_are_no_part_of_it(named):
    assert named(GENOA, "llvm") == named(GENOA, "llvm", features=("avx2", "avx512f", "prefetchi", "rdpru"))


def test_a_gpu_has_its_own_name(named):
    assert named(GENOA, "opencl", is_cpu=False, opencl_name="NVIDIA H200")["name"] == "NVIDIA H200"
    assert named(GENOA, "opencl")["driver_name"] == "pthread-AMD EPYC"


def test_a_system_that_says_nothing_of_its_cpu(named):
    assert "znver4" in named({}, "llvm")["name"]
