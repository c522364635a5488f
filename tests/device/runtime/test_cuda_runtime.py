"""Modules for CUDA: built anywhere, run where there is a device; here, on an emulated driver."""

from __future__ import annotations

import gc
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cuda_emulation import EmulatedDriver, with_emulated_cuda
from test_opencl import two_kernels

import autosched
from autosched import nd, te
from autosched.codegen.c_family import compile_cuda
from autosched.codegen.nvrtc import compile_cuda_source, find_nvrtc
from autosched.errors import BuildError, DeviceError
from autosched.runtime import cuda as cuda_driver
from autosched.runtime.cuda import CudaKernel
from autosched.runtime.device import describe_device, resolve_target
from autosched.runtime.kernel import ForkedError
from autosched.runtime.module import Module
from autosched.schedule import Schedule, create_schedule
from autosched.target import Target


def doubled(threads: int = 32) -> tuple[Schedule, list[te.Tensor]]:
    n = te.var("n")
    a = te.placeholder((n,), "int32", name="a")
    b = te.compute((n,), lambda i: a[i] * 2, name="b")
    s = create_schedule(b)
    outer, inner = s["b"].split("i", threads)
    s["b"].bind(outer, "blockIdx.x")
    s["b"].bind(inner, "threadIdx.x")
    return s, [a, b]


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> EmulatedDriver:
    return with_emulated_cuda(monkeypatch)


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "load_driver", lambda: None)


@pytest.mark.usefixtures("no_driver")
def test_without_a_device_the_source_is_there_and_a_call_says_what_is_missing(tmp_path: Path) -> None:
    s, args = doubled()
    module = autosched.build(s, "cuda -arch=sm_86", args=args)
    assert "__global__" in module.get_source()
    module.save(tmp_path / "doubled")
    again = Module.load(tmp_path / "doubled")
    assert again.get_source() == module.get_source()
    with pytest.raises(DeviceError) as caught:
        again(np.arange(5, dtype=np.int32))
    assert str(caught.value) == (
        "target 'cuda -arch=sm_86': no CUDA driver with a device is on this machine\n"
        "  its source needs no device: get_source(); to run, use a machine with an NVIDIA GPU and its driver, "
        'or build for "opencl" or "llvm"'
    )
    assert describe_device(resolve_target("cuda -arch=sm_86"))["name"] == "no CUDA device (sm_86)"


def test_calls_timing_and_memory(emulated: EmulatedDriver) -> None:
    s, args = doubled()
    module = autosched.build(s, "cuda", args=args)
    for n in (0, 1, 100):
        a = np.arange(n, dtype=np.int32)
        assert np.array_equal(module(a), a * 2)
    assert emulated.launched == [((1, 1, 1), (32, 1, 1)), ((4, 1, 1), (32, 1, 1))]
    assert len(emulated.memory) == 2, "those of the last call are kept for the next one"
    before = set(emulated.memory)
    assert np.array_equal(module(-a), a * -2)
    assert set(emulated.memory) == before
    assert np.array_equal(module(a[:7].copy()), a[:7] * 2)
    assert len(emulated.memory) == 2 and not before & set(emulated.memory), (
        "other shapes: nothing of the old ones stays"
    )
    assert module.time(np.arange(9, dtype=np.int32), number=130, repeat=1) == [3e-3 / 130]  # 64 + 64 + 2 launches
    del module
    gc.collect()
    assert not emulated.memory


def test_memory_that_others_keep_is_freed_where_there_is_none_left(
    emulated: EmulatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    s, args = doubled()
    first, second = (autosched.build(s, "cuda", args=args) for _ in range(2))
    a = np.arange(100, dtype=np.int32)
    first(a)
    allocate = cuda_driver.Session.allocate

    def scarce(session: cuda_driver.Session, length: int) -> object:
        if len(emulated.memory) == 2:
            raise DeviceError("out of memory", asked="test")
        return allocate(session, length)

    monkeypatch.setattr(cuda_driver.Session, "allocate", scarce)
    assert np.array_equal(second(a), a * 2)
    assert np.array_equal(first(a), a * 2)


def test_indices_are_wide_where_offsets_might_not_fit(emulated: EmulatedDriver) -> None:
    s, args = doubled()
    module = autosched.build(s, "cuda", args=args)
    kernel = module.kernel
    assert not kernel.plan.is_wide({"n": 1000})
    assert kernel.plan.is_wide({"n": 2**31})
    kernel.plan = type(kernel.plan)(kernel.plan.launches, kernel.plan.device, 2**40)
    a = np.arange(70, dtype=np.int32)
    assert np.array_equal(module(a), a * 2)


@pytest.mark.parametrize("wide_index", [False, True])
def test_two_kernels_a_device_buffer_and_symbolic_shared_memory(emulated: EmulatedDriver, wide_index: bool) -> None:
    target = Target.parse("cuda")
    artifact = compile_cuda(two_kernels(), target)
    assert "extern __shared__" in artifact.texts["source"]
    if wide_index:
        artifact = replace(artifact, meta={**artifact.meta, "index_bound": 2**31})
    a, b = np.random.default_rng(5).integers(0, 256, 77, dtype=np.uint8), np.zeros(77, np.uint16)
    call = CudaKernel(artifact, target).bind([a, b])
    call.run()
    call.fetch()
    padded = np.pad(a, 1, mode="edge").astype(np.uint16)
    assert np.array_equal(b, ((padded[:-2] + padded[1:-1] + padded[2:]) // 3 * 2)[::-1])
    if find_nvrtc() is not None:
        assert compile_cuda_source(artifact.texts["source"], "sm_80", options=["-DINDEX_T=int64"])


def test_limits(emulated: EmulatedDriver) -> None:
    s, args = doubled(2048)
    with pytest.raises(BuildError, match=r"(?s)kernel 'b_kernel'.*2048 work-items.*allows 1024.*smaller tiles"):
        autosched.build(s, "cuda", args=args)
    s, args = doubled()
    with pytest.raises(DeviceError, match="no CUDA device 7, only 1"):
        autosched.build(s, "cuda -device=7", args=args)(np.arange(5, dtype=np.int32))


def test_a_failing_driver_is_quoted(emulated: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EmulatedDriver, "cuMemAlloc_v2", lambda *args: 2)
    s, args = doubled()
    with pytest.raises(DeviceError, match=r"cuMemAlloc_v2 failed: .* \(2\)"):
        autosched.build(s, "cuda", args=args)(np.arange(5, dtype=np.int32))


def test_a_forked_child_is_refused(emulated: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    s, args = doubled()
    module, a = autosched.build(s, "cuda", args=args), np.arange(5, dtype=np.int32)
    resident = nd.array(a, "cuda")
    module(a)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    for call in (lambda: module(a), lambda: module(resident), resident.numpy, lambda: nd.array(a, "cuda")):
        with pytest.raises(ForkedError, match="was forked from it"):
            call()
    monkeypatch.undo()
