"""Running OpenCL artifacts: devices, memory, launches, limits and failures."""

from __future__ import annotations

import gc
import os
import signal
import struct
import subprocess
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import autosched
from autosched import te
from autosched.codegen.artifact import Artifact
from autosched.codegen.c_family import compile_opencl
from autosched.errors import BuildError, DeviceError
from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr, call, cast, ceildiv, const, logical_and, maximum, minimum, ramp, var
from autosched.ir.stmt import Allocate, Barrier, Buffer, For, Function, If, Launch, Stmt, Store, load, seq
from autosched.runtime import load as load_kernel
from autosched.runtime import opencl_devices
from autosched.runtime import opencl_devices as intel_opencl
from autosched.runtime import opencl_devices as pocl
from autosched.runtime.module import Module
from autosched.runtime.opencl import OpenCLKernel
from autosched.runtime.opencl_devices import device_limits, devices, find_device
from autosched.schedule import create_schedule
from autosched.target import Target

TARGET = Target.parse("opencl")
ONE = const(1)
LENGTH = var("length", role="size", lower=0)
BLOCK = var("blockIdx.x", role="thread")
THREAD = var("threadIdx.x", role="thread")


def vector(name: str, of: str = "float32", length: Expr = LENGTH) -> Buffer:
    return Buffer(name, (length,), dtype(of))


def function(body: Stmt, *params: Buffer) -> Function:
    """The last parameter is the output."""
    return Function("test", params, (LENGTH,), body, (len(params) - 1,))


def blocks(body: Stmt, name: str = "test", width: int = 32) -> Launch:
    """One work-item for each element of `length`, in work-groups of `width`."""
    return Launch(name, (ceildiv(LENGTH, width), ONE, ONE), (const(width), ONE, ONE), body)


def doubled(width: int = 32) -> Artifact:
    """`b[i] = 2 * a[i]`, guarded."""
    a, b = vector("a"), vector("b")
    i = BLOCK * width + THREAD
    body = If(i < LENGTH, Store(b, (i,), load(a, i) * const(2.0)))
    return compile_opencl(function(blocks(body, width=width), a, b), TARGET)


@pytest.fixture(scope="module")
def kernel() -> OpenCLKernel:
    return OpenCLKernel(doubled(), TARGET)


# -- devices ------------------------------------------------------------------------------------------


def test_devices_describe_themselves() -> None:
    found = devices()
    assert found, "tests need an OpenCL driver: pip install pyopencl[pocl]"
    for index, device in enumerate(found):
        assert device.index == index
        assert min(device.compute_units, device.max_work_group, device.shared_memory) > 0
        assert device.global_memory >= device.max_allocation > 0
        assert len(device.max_work_items) == 3
        assert str(device).startswith(f"{index}: {device.name} (")
    assert os.environ["POCL_SIGFPE_HANDLER"] == "0"


def test_devices_are_found_by_index_and_part_of_the_name() -> None:
    first = devices()[0]
    assert find_device("0") == first
    assert find_device(first.name[1:].upper()) == first
    assert find_device(first.platform[:6].lower()) == first
    assert find_device() in devices()


def test_an_unknown_device_lists_those_that_exist() -> None:
    for spec in ("no such thing", "99"):
        with pytest.raises(DeviceError) as caught:
            find_device(spec)
        assert caught.value.asked == f"device {spec!r}"
        assert caught.value.legal == "devices: " + "; ".join(map(str, devices()))


def test_a_missing_driver_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_devices, "discover", lambda: ((), "no OpenCL driver was found"))
    assert devices() == []
    with pytest.raises(DeviceError) as caught:
        OpenCLKernel(doubled(), TARGET)
    assert 'pip install "autosched[pocl]"' in str(caught.value)
    assert "python -m autosched doctor" in str(caught.value)


def test_a_missing_pyopencl_is_no_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    found, problem, _ = opencl_devices.discover.__wrapped__()
    assert found == ()
    assert "pyopencl does not load" in problem


def test_limits_of_the_device() -> None:
    limits = device_limits(TARGET)
    assert set(limits) == {
        "max_threads_per_block", "shared_memory_bytes", "work_group_multiple", "compute_units", "is_cpu", "fp16", "fp64",
    }  # fmt: skip
    assert all(isinstance(v, int) for v in limits.values())
    assert limits["work_group_multiple"] > 0
    session = opencl_devices.open_session(find_device())
    assert opencl_devices.kernel_multiple(session) > 0
    assert opencl_devices.open_session(find_device()) is session


def test_the_target_names_the_device() -> None:
    with pytest.raises(DeviceError, match="no OpenCL device matches it"):
        load_kernel(doubled(), Target.parse("opencl -device=missing"))
    assert isinstance(load_kernel(doubled(), Target.parse("opencl -device=0")), OpenCLKernel)


# -- running ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 31, 32, 33, 1000])
def test_guarded_threads_and_symbolic_sizes(kernel: OpenCLKernel, length: int) -> None:
    a, b = np.arange(length, dtype=np.float32), np.zeros(length, np.float32)
    call = kernel.bind([a, b])
    call.upload()
    call.run()
    assert not b.any(), "outputs arrive by fetch"
    call.fetch()
    np.testing.assert_array_equal(b, 2 * a)


def test_empty_arrays_run_nothing(kernel: OpenCLKernel) -> None:
    call = kernel.bind([np.zeros(0, np.float32), np.zeros(0, np.float32)])
    call.run()
    call.fetch()
    assert 0 < call.time(10) < 1  # what it takes to find out that there is nothing to do


def test_calls_are_independent_and_reusable(kernel: OpenCLKernel) -> None:
    inputs = [np.full(40, k, np.float32) for k in range(3)]
    outputs = [np.zeros(40, np.float32) for _ in inputs]
    calls = [kernel.bind(pair) for pair in zip(inputs, outputs, strict=True)]
    for bound in calls:
        bound.run()
    inputs[0][:] = 7
    calls[0].upload()
    for bound in reversed(calls):
        bound.run()
        bound.fetch()
    assert [o[0] for o in outputs] == [14, 2, 4]


def test_modules_keep_buffers_between_calls_and_no_arrays() -> None:
    """Of other shapes, other arrays, outputs that are given or not, and from two threads."""
    module = Module(doubled(), TARGET)
    for length in (100, 100, 33, 100):
        a = np.random.default_rng(length).random(length, dtype=np.float32)
        for x in (a, a + 1):
            b = np.full(length, 7, np.float32)
            assert np.array_equal(module(x), 2 * x)
            assert module(x, b) is b and np.array_equal(b, 2 * x)
    kept = weakref.ref(b)
    del b
    gc.collect()
    assert kept() is None
    inputs = [np.full(5000, k, np.float32) for k in range(40)]
    with ThreadPoolExecutor(4) as pool:
        assert all((y == 2 * x[0]).all() for x, y in zip(inputs, pool.map(module, inputs), strict=True))


def test_outputs_that_are_given_again_stay_where_a_kernel_leaves_them_out() -> None:
    a, b = vector("a"), vector("b")
    i = BLOCK * 32 + THREAD
    some = If(logical_and(i < LENGTH, load(a, minimum(i, LENGTH - 1)) > const(0.0)), Store(b, (i,), load(a, i)))
    module = Module(compile_opencl(function(blocks(some), a, b), TARGET), TARGET)
    x = np.array([1, -1, 2, -2], np.float32)
    for filled in (5, 6):
        assert module(x, np.full(4, filled, np.float32)).tolist() == [1, filled, 2, filled]


def test_what_a_kernel_leaves_out_stays_as_it_was() -> None:
    """Verification poisons the outputs; a poisoned element that comes back was not written."""
    b = vector("b")
    i = BLOCK * 32 + THREAD
    body = If(logical_and(i < LENGTH, (i % 2).astype("int32") < 1), Store(b, (i,), const(1.0)))
    out = np.full(50, -5, np.float32)
    call = OpenCLKernel(compile_opencl(function(blocks(body), b), TARGET), TARGET).bind([out])
    call.run()
    call.fetch()
    np.testing.assert_array_equal(out, np.where(np.arange(50) % 2 == 0, 1, -5))


def test_time_is_the_devices_and_launches_in_flight_are_capped(kernel: OpenCLKernel) -> None:
    a, b = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    call = kernel.bind([a, b])
    started = time.perf_counter()
    seconds = call.time(150)
    elapsed = time.perf_counter() - started
    assert 0 < seconds * 150 < elapsed
    call.fetch()
    np.testing.assert_array_equal(b, 2 * a)


def test_shared_memory_and_barriers() -> None:
    """Each work-group reverses its part, twice, through shared memory."""
    a, b = vector("a", "int32"), vector("b", "int32")
    tile = Buffer("tile", (const(64),), dtype("int32"), "shared")
    step = var("step", role="loop")
    i = BLOCK * 64 + THREAD
    swap = seq(Barrier("shared"), Store(b, (i,), load(tile, 63 - THREAD)), Barrier("global"))
    again = Store(tile, (THREAD,), load(b, i) + 1)
    body = Allocate(
        tile, seq(Store(tile, (THREAD,), load(a, i)), For(step, const(0), const(3), "serial", seq(swap, again)))
    )
    source, result = np.arange(256, dtype=np.int32), np.zeros(256, np.int32)
    call = OpenCLKernel(compile_opencl(function(blocks(body, width=64), a, b), TARGET), TARGET).bind([source, result])
    call.run()
    call.fetch()
    np.testing.assert_array_equal(result, source.reshape(4, 64)[:, ::-1].ravel() + 2)


def two_kernels() -> Function:
    """A 3-wide mean through a device buffer, then a sum over symbolic shared memory."""
    a, b = vector("a", "uint8"), vector("b", "uint16")
    wide = vector("wide", "uint16")
    row = Buffer("row", (LENGTH,), dtype("uint16"), "shared")
    i, k = BLOCK * 16 + THREAD, var("k", role="loop")
    left, right = load(a, maximum(i - 1, 0)), load(a, minimum(i + 1, LENGTH - 1))
    total = cast("uint16", left) + cast("uint16", load(a, i)) + cast("uint16", right)
    first = blocks(If(i < LENGTH, Store(wide, (i,), total // 3)), "mean", width=16)
    keep = For(k, const(0), LENGTH, "serial", Store(row, (k,), load(wide, k) * const(2, "uint16")))
    out = For(k, const(0), LENGTH, "serial", Store(b, (k,), load(row, LENGTH - 1 - k)))
    second = Launch("turn", (ONE, ONE, ONE), (ONE, ONE, ONE), Allocate(row, seq(keep, out)))
    return function(Allocate(wide, seq(first, second)), a, b)


@pytest.mark.parametrize("wide_index", [False, True])
def test_kernels_share_device_buffers(wide_index: bool) -> None:
    artifact = compile_opencl(two_kernels(), TARGET)
    if wide_index:
        artifact = replace(artifact, meta={**artifact.meta, "index_bound": 2**31})
    rng = np.random.default_rng(5)
    a = rng.integers(0, 256, 77, dtype=np.uint8)
    b = np.zeros(77, np.uint16)
    call = OpenCLKernel(artifact, TARGET).bind([a, b])
    assert call.wide == wide_index
    call.run()
    call.fetch()
    padded = np.pad(a.astype(np.uint16), 1, mode="edge")
    expected = (padded[:-2] + padded[1:-1] + padded[2:]) // 3 * 2
    np.testing.assert_array_equal(b, expected[::-1])
    assert call.time(40) > 0


def test_artifacts_run_after_a_round_trip(tmp_path: object) -> None:
    path = f"{tmp_path}/doubled"
    doubled().save(path)
    a, b = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    call = load_kernel(Artifact.load(path), TARGET).bind([a, b])
    call.run()
    call.fetch()
    np.testing.assert_array_equal(b, 2 * a)


# -- refusals -----------------------------------------------------------------------------------------


def test_bad_source_shows_the_compilers_log() -> None:
    artifact = replace(doubled(), code=doubled().code.replace(b"2.0f", b"no_such_name"))
    kernel = OpenCLKernel(artifact, TARGET)  # building is lazy
    with pytest.raises(BuildError) as caught:
        kernel.bind([np.zeros(4, np.float32), np.zeros(4, np.float32)])
    assert "cannot compile its source" in caught.value.why
    assert "no_such_name" in caught.value.legal
    assert len(caught.value.legal) < 4200


def test_too_large_work_groups_are_refused() -> None:
    info = find_device()
    width = info.max_work_group * 2
    kernel = OpenCLKernel(doubled(width), TARGET)
    with pytest.raises(BuildError) as caught:
        kernel.bind([np.zeros(4, np.float32), np.zeros(4, np.float32)])
    assert f"a work-group of {width} x 1 x 1 work-items" in caught.value.why
    assert caught.value.why.endswith(f"{info.name!r} allows {info.max_work_group}")


def test_work_items_of_one_dimension_are_limited(kernel: OpenCLKernel) -> None:
    narrow = OpenCLKernel(doubled(), TARGET)
    narrow.session = replace(kernel.session, info=replace(kernel.session.info, max_work_items=(16, 16, 16)))
    with pytest.raises(BuildError, match=r"work-group of 32 x 1 x 1 work-items, and .* allows 16 x 16 x 16"):
        narrow.bind([np.zeros(4, np.float32), np.zeros(4, np.float32)])


def test_too_much_shared_memory_is_refused() -> None:
    """PoCL itself would run it and work on memory that is not there."""
    info = find_device()
    length = info.shared_memory // 2 + 8
    kernel = OpenCLKernel(compile_opencl(two_kernels(), TARGET), TARGET)
    with pytest.raises(BuildError) as caught:
        kernel.bind([np.zeros(length, np.uint8), np.zeros(length, np.uint16)])
    assert f"{2 * length} bytes of shared memory for each work-group" in str(caught.value)
    assert f"allows {info.shared_memory}" in str(caught.value)


def test_buffers_that_the_device_cannot_hold_are_refused(kernel: OpenCLKernel) -> None:
    small = OpenCLKernel(doubled(), TARGET)
    arrays = [np.zeros(100, np.float32), np.zeros(100, np.float32)]
    small.session = replace(kernel.session, info=replace(kernel.session.info, max_allocation=399))
    with pytest.raises(DeviceError, match=r"buffer 'a' has 400 bytes, and .* allows 399 for one"):
        small.bind(arrays)
    small.session = replace(kernel.session, info=replace(kernel.session.info, global_memory=799))
    with pytest.raises(DeviceError, match=r"its buffers have 800 bytes, and .* has 799"):
        small.bind(arrays)


def test_wrong_arrays_are_refused(kernel: OpenCLKernel) -> None:
    with pytest.raises(BuildError, match="needs float32, got float64"):
        kernel.bind([np.zeros(4), np.zeros(4, np.float32)])
    with pytest.raises(BuildError, match="dimension 0 is 5"):
        kernel.bind([np.zeros(4, np.float32), np.zeros(5, np.float32)])


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"launches": [{}], "device": [], "index_bound": 0},
        {"launches": [], "device": [{"dtype": "x"}], "index_bound": 0},
    ],
)
def test_damaged_artifacts_are_refused(meta: dict[str, object]) -> None:
    with pytest.raises(BuildError, match="does not say how to launch its kernels"):
        OpenCLKernel(replace(doubled(), meta=meta), TARGET)


def test_a_failing_command_is_a_device_error(kernel: OpenCLKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failed:
        command_execution_status = -5

    call = kernel.bind([np.zeros(4, np.float32), np.zeros(4, np.float32)])
    with pytest.raises(DeviceError, match="a command ended with the OpenCL status -5"):
        call._wait([Failed()])

    def refuse(*args: object) -> None:
        raise opencl_devices.opencl().LogicError("clEnqueueNDRangeKernel", -52, "invalid kernel arguments")

    monkeypatch.setattr(opencl_devices.opencl(), "enqueue_nd_range_kernel", refuse)
    with pytest.raises(DeviceError, match=r"refuses: .*"):
        call.run()


class Interrupted(Exception):
    pass


def test_waiting_can_be_interrupted() -> None:
    """A driver's own wait would not return to Python before the kernel ends."""
    b, k = Buffer("b", (LENGTH,), dtype("uint32")), var("k", role="loop")
    step = Store(b, (const(0),), load(b, const(0)) * const(1664525, "uint32") + cast("uint32", k))
    slow = For(k, const(0), LENGTH * 100_000_000, "serial", step)
    body = Launch("slow", (ONE, ONE, ONE), (ONE, ONE, ONE), slow)
    kernel = OpenCLKernel(compile_opencl(function(body, b), TARGET), TARGET)
    kernel.bind([np.zeros(0, np.uint32)]).run()
    call = kernel.bind([np.zeros(8, np.uint32)])
    call.upload()

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.4)
    started = time.perf_counter()
    try:
        with pytest.raises(Interrupted):
            call.run()
        waited = time.perf_counter() - started
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        kernel.session.queue.finish()
    assert waited < 0.9 * (time.perf_counter() - started)


# -- the processor that PoCL compiles for ----------------------------------------------------------------


def test_the_processor_name_follows_pocls_libraries() -> None:
    assert pocl.cpu_for_flags({"sse2"}) == b"x86-64"
    assert pocl.cpu_for_flags({"sse2", "avx", "avx2", "fma", "bmi2"}) == b"haswell"
    everything = {"avx", "avx2", "fma", "bmi2", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "new"}
    assert pocl.cpu_for_flags(everything) == b"skylake-avx512"


def test_the_name_is_found_behind_the_triple() -> None:
    strings = {100: b"x86_64-pc-linux\0...", 200: b"generic\0...", 300: b"znver3\0"}

    def find(name: bytes = b"generic", **fields: int) -> int | None:
        pointers = [fields.get(f"at{k}", 0) for k in range(256)]
        memory = {4096: struct.pack("256P", *pointers), **strings}
        return pocl.find_name_field(lambda address, size: memory.get(address, b"")[:size], 4096, name)

    assert find(at3=200, at80=100, at81=200) == 4096 + 81 * 8
    assert find(at3=200, at80=100, at81=300) is None
    assert find(b"znver3", at3=200, at80=100, at81=300) == 4096 + 81 * 8
    assert find(at0=200) is None
    assert pocl.find_name_field(lambda address, size: b"", 4096, b"generic") is None


def test_a_device_that_is_not_understood_is_left_alone() -> None:
    version = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-generic"
    assert pocl.name_cpu(8, version, "3.0-rc2") == pocl.name_cpu(8, version, "5.0") == ""
    assert pocl.name_cpu(8, "OpenCL 3.1 LINUX", "2026.22") == ""
    for device in devices():
        if not pocl.is_pocl(device.platform) or not device.driver.startswith("3."):
            continue
        name = device.version.partition("-linux-gnu-")[2].encode()
        assert bool(device.note) == (name not in (b"", pocl.cpu_for_flags(pocl.processor_flags())))


def test_intels_runtime_is_listed_beside_the_systems_drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libintelocl.so").touch()
    (tmp_path / "vendors").mkdir()
    (tmp_path / "vendors" / "gpu.icd").write_text("libgpu.so")
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with intel_opencl.vendors(tmp_path / "vendors"):
        folder = Path(os.environ["OCL_ICD_VENDORS"])
        listed = {path.name: path.read_text().strip() for path in folder.iterdir()}
    library = str(tmp_path / "lib" / "libintelocl.so")
    assert listed == {"gpu.icd": "libgpu.so", "autosched-intel-cpu.icd": library}
    assert "OCL_ICD_VENDORS" not in os.environ and not folder.exists()
    monkeypatch.setenv("OCL_ICD_VENDORS", "/mine")
    with intel_opencl.vendors(tmp_path / "vendors"):
        assert os.environ["OCL_ICD_VENDORS"] == "/mine"


def test_the_default_device_is_a_gpu_then_pocl(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = replace(devices()[0], index=0, platform="Intel(R) OpenCL", is_cpu=True)
    pocl_cpu = replace(cpu, index=1, platform="Portable Computing Language")
    gpu = replace(cpu, index=2, platform="NVIDIA CUDA", is_cpu=False)
    for found, default in (([cpu, pocl_cpu, gpu], gpu), ([cpu, pocl_cpu], pocl_cpu), ([cpu], cpu)):
        monkeypatch.setattr(opencl_devices, "devices", lambda found=found: found)
        assert find_device() == default
        assert find_device("intel") == cpu


def test_vectors_of_512_bits_reach_the_functions_of_the_library() -> None:
    """`exp` of 16 floats is a call into PoCL's library: an ABI that differs there is a crash."""
    a, b = vector("a", length=const(16)), vector("b", length=const(16))
    whole = (ramp(const(0), const(1), 16),)
    body = Launch("wide", (ONE, ONE, ONE), (ONE, ONE, ONE), Store(b, whole, call("exp", load(a, *whole))))
    kernel = OpenCLKernel(compile_opencl(Function("wide", (a, b), (), body, (1,)), TARGET), TARGET)
    x, y = np.linspace(-2, 2, 16, dtype=np.float32), np.zeros(16, np.float32)
    call_ = kernel.bind([x, y])
    call_.run()
    call_.fetch()
    assert np.allclose(y, np.exp(x), rtol=1e-6)


FORK = """
import os, signal, sys
import numpy as np
from autosched import nd
from autosched.runtime.kernel import ForkedError
from tests.device.runtime.test_opencl import added
module, x = added(), np.ones(64, "float32")
USED
array = nd.array(x, "opencl") if "nd.array" in sys.argv else x
child = os.fork()
if child == 0:
    signal.alarm(40)  # a child that waits for ever ends with the test
    for call in (lambda: module(x), lambda: module(array), lambda: added()(x), lambda: nd.array(x, "opencl").numpy()):
        try:
            call()
        except ForkedError as error:
            assert isinstance(error, RuntimeError) and "spawn" in error.legal
        else:
            os._exit(1)
    os._exit(0)  # without what drivers do at the end of a process, in which some crash after a fork
assert os.waitpid(child, 0)[1] == 0
np.testing.assert_array_equal(module(x), x + 1)
"""


def added() -> Module:
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: x[i] + 1.0, name="y")
    s = create_schedule(y)
    outer, inner = s[y].split(y.op.axis[0], factor=16)
    s[y].bind(outer, te.thread_axis("blockIdx.x"))
    s[y].bind(inner, te.thread_axis("threadIdx.x"))
    return autosched.build(s, "opencl", args=[x, y])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this system")
@pytest.mark.parametrize("used", ["module(x)", "nd.array(x, 'opencl')", ""])
def test_a_forked_child_is_refused_instead_of_waiting_for_ever(used: str) -> None:
    head = "import sys; sys.path[:] = %r\n" % [".", "tests/device/runtime", *(p for p in sys.path if p)]
    done = subprocess.run(
        [sys.executable, "-c", head + FORK.replace("USED", used), "nd.array" if used else ""],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("cache", ["/dev/null/cache", None])
def test_pocl_has_its_device_where_there_is_no_place_for_its_cache(cache: str | None) -> None:
    """As in a container whose home is read-only: PoCL had no device then, and a user was told to install a driver."""
    program = "from autosched.runtime.opencl_devices import devices, opencl; print(len(devices())); opencl()"
    kept = {k: v for k, v in os.environ.items() if k not in ("POCL_CACHE_DIR", "XDG_CACHE_HOME", "HOME")}
    env = kept | ({"XDG_CACHE_HOME": cache} if cache is not None else {"HOME": "/dev/null/home"})
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == str(len(devices())), done.stderr
