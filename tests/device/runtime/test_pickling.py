"""Modules in pickles: what comes back is the same function, in this process and in others."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from cuda_emulation import with_emulated_cuda

import autosched
from autosched import nd, te
from autosched.errors import BuildError, DeviceError
from autosched.ir.calls import call_packed
from autosched.ir.functions import register_func, remove_global_func
from autosched.runtime.module import Module
from autosched.schedule import create_schedule


def scaled(target: str, k: float = 2.0, name: str = "scaled") -> Module:
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    y = te.compute((n,), lambda i: x[i] * k, name="y")
    s = create_schedule(y)
    if target in ("opencl", "cuda"):
        outer, inner = s[y].split(y.op.axis[0], factor=16)
        s[y].bind(outer, te.thread_axis("blockIdx.x"))
        s[y].bind(inner, te.thread_axis("threadIdx.x"))
    else:
        s[y].parallel(y.op.axis[0])
    return autosched.build(s, target, args=[x, y], name=name)


X = np.arange(100, dtype="float32")


@pytest.mark.parametrize("target", ["llvm", "llvm -threads=2", "c", "opencl", "cuda"])
def test_what_comes_back_is_the_same_function(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if target == "cuda":
        with_emulated_cuda(monkeypatch)
    if target == "c" and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    module = scaled(target)
    for again in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        assert type(again) is Module
        assert again is not module
        assert (again.signature, again.target, again.provenance) == (module.signature, module.target, module.provenance)
        np.testing.assert_array_equal(again(X), 2 * X)
        assert again.get_source() == module.get_source()


def test_functions_of_a_module_come_along_and_go_alone() -> None:
    first, second = scaled("llvm"), scaled("llvm", 3.0, "thrice")
    module = Module.of([first.artifact, second.artifact], first.target)
    again = pickle.loads(pickle.dumps(module))
    assert list(again) == ["scaled", "thrice"]
    np.testing.assert_array_equal(again["thrice"](X), 3 * X)
    alone = pickle.loads(pickle.dumps(module["thrice"]))
    assert alone.name == "thrice"
    np.testing.assert_array_equal(alone(X), 3 * X)


METHODS = [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()]


@pytest.mark.parametrize("method", METHODS)
def test_processes_of_a_pool_are_handed_modules(method: str) -> None:
    module = scaled("llvm -threads=2")
    module(X)  # its threads run
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        for k, result in enumerate(pool.map(module, [X + k for k in range(4)])):
            np.testing.assert_array_equal(result, 2 * (X + k))


@pytest.mark.skipif("fork" not in METHODS, reason="no forks on this system")
def test_a_forked_worker_says_why_a_device_is_not_there() -> None:
    script = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from tests.device.runtime.test_pickling import *
from autosched.runtime.kernel import ForkedError
module = scaled("opencl")
module(X)
with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
    for _ in range(2):
        try:
            pool.submit(module, X).result(30)
        except ForkedError as error:
            assert "spawn" in error.legal
        else:
            raise SystemExit(1)
"""
    head = "import sys; sys.path[:] = %r\n" % [
        ".",
        "tests/helpers",
        "tests/device/runtime",
        *(p for p in sys.path if p),
    ]
    done = subprocess.run(
        [sys.executable, "-c", head + script], cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 0, done.stderr


def test_a_call_back_that_the_other_process_lacks_is_told_of_by_the_call(own_registries: None) -> None:
    register_func("pickling.twice", lambda value: 2 * value)
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: call_packed("pickling.twice", x[i], dtype="float32"), name="y")
    module = autosched.build(create_schedule(y), "llvm", args=[x, y])
    data, given = pickle.dumps(module), np.arange(4, dtype="float32")
    np.testing.assert_array_equal(pickle.loads(data)(given), 2 * given)
    remove_global_func("pickling.twice")
    again = pickle.loads(data)
    for _ in range(2):
        with pytest.raises(BuildError, match=r"call_packed\('pickling.twice'\): no Python function is registered"):
            again(given)


def test_code_for_another_cpu_can_be_passed_on() -> None:
    module = autosched.build(create_schedule(*ramp()), "llvm -mtriple=aarch64-unknown-linux-gnu", args=list(ramp()))
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(module))))
    with pytest.raises(BuildError, match="the code is for aarch64"):
        again(np.zeros(4, "float32"))


def ramp() -> tuple[te.Tensor]:
    return (RAMP,)


RAMP = te.compute((4,), lambda i: i.astype("float32"), name="ramp")


def test_errors_travel_between_processes() -> None:
    for error in (BuildError("no", asked="f", legal="yes"), DeviceError("gone", legal="pip install")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.why, again.asked, again.legal) == (
            type(error),
            str(error),
            error.why,
            error.asked,
            error.legal,
        )


def test_damaged_pickles_are_refused() -> None:
    data = pickle.dumps(scaled("llvm"))
    at = data.index(b"code_bytes")
    with pytest.raises(BuildError, match="not a usable artifact"):
        pickle.loads(data[:at] + b"X" + data[at + 1 :])


@pytest.mark.parametrize("device", ["cpu", "opencl"])
def test_arrays_of_devices_are_pickled_by_value(device: str) -> None:
    array = nd.array(X, device)
    again = pickle.loads(pickle.dumps(array))
    assert (again.device, again.dtype, again.shape) == (array.device, array.dtype, array.shape)
    np.testing.assert_array_equal(again.numpy(), X)
    again[:] = 0 * X
    np.testing.assert_array_equal(array.numpy(), X)
