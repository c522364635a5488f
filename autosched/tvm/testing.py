"""`tvm.testing`: comparing arrays, and tests for the targets that this machine has."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from autosched.runtime.device import Device, device
from autosched.target import Target
from autosched.tvm._missing import missing
from autosched.tvm.runtime import enabled

device_enabled = enabled
_TARGETS = ("llvm", "opencl", "cuda")


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise AssertionError unless the arrays have one shape and every element is within the tolerance."""
    actual, desired = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_allclose(actual.shape, desired.shape)
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)


def enabled_targets() -> list[tuple[str, Device]]:
    """Return the targets that this machine runs code for, each with its device."""
    return [(target, device(target)) for target in _TARGETS if device_enabled(target)]


def _requires(*targets: str) -> Callable[..., Any]:
    """A mark of tests that pytest skips where none of these targets has a device."""

    def mark(*function: Any) -> Any:
        import pytest  # which only tests need

        here = any(map(device_enabled, targets))
        marked = pytest.mark.skipif(not here, reason=f"no device for {' or '.join(targets)}")
        return marked(function[0]) if function else marked

    return mark


requires_llvm = _requires("llvm")
requires_opencl = _requires("opencl")
requires_cuda = _requires("cuda")
requires_gpu = _requires("opencl", "cuda")


def uses_gpu(function: Any) -> Any:
    """Mark a test that looks for GPUs by itself: it stays as it is."""
    return function


def requires_package(*packages: str) -> Callable[[Any], Any]:
    """Mark a test that pytest skips where one of these Python packages is missing."""
    import pytest  # which only tests need

    absent = [p for p in packages if importlib.util.find_spec(p) is None]
    marked: Callable[[Any], Any] = pytest.mark.skipif(bool(absent), reason=f"no package {', '.join(absent)}")
    return marked


def parametrize_targets(*targets: Any) -> Any:
    """Give a test parameters `target` and `dev`, for each target (by default all) that has a device."""
    import pytest  # which only tests need

    if len(targets) == 1 and callable(targets[0]):
        return parametrize_targets()(targets[0])
    cases = [
        pytest.param(t, device(Target(t).kind), marks=pytest.mark.skipif(not device_enabled(t), reason="no device"))
        for t in targets or _TARGETS
    ]
    return pytest.mark.parametrize(("target", "dev"), cases)


def main() -> None:
    """Run the tests of the file that calls it."""
    import pytest  # which only tests need

    sys.exit(pytest.main([inspect.stack()[1].filename, *sys.argv[1:]]))


_INSTEAD = {
    **dict.fromkeys(("parameter", "parameters"), "pytest.mark.parametrize"),
    "fixture": "pytest.fixture",
    **dict.fromkeys(("exclude_targets", "known_failing_targets"), "parametrize_targets, without them"),
    "check_numerical_grads": "te.gradient, compared with differences of te.reference",
}
__getattr__ = missing("testing", globals(), _INSTEAD)
