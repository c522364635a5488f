"""What tests of TVM programs compare with, and the targets that they run on."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autosched.runtime.device import Device
from autosched.tvm import tir
from autosched.tvm.arith import Analyzer
from autosched.tvm.devices import device
from autosched.tvm.runtime import enabled

#: the targets that programs of TVM's name and this package compiles for
TARGETS = ("llvm", "opencl", "cuda")


def strtobool(text: str) -> bool:
    """Whether the text says yes (y, yes, t, true, on, 1). Raises ValueError for what says neither yes nor no."""
    if text.lower() in ("y", "yes", "t", "true", "on", "1"):
        return True
    if text.lower() in ("n", "no", "f", "false", "off", "0"):
        return False
    raise ValueError(f"{text!r} is neither yes nor no")


IS_IN_CI = strtobool(os.environ.get("CI", "0") or "0")


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise AssertionError unless the arrays have one shape and every element is within the tolerance."""
    actual, desired = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_allclose(actual.shape, desired.shape)
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)


def assert_prim_expr_equal(lhs: Any, rhs: Any) -> None:
    """Raise ValueError unless the two expressions are proved to be equal."""
    difference = Analyzer().simplify(lhs - rhs)
    if not (isinstance(difference, tir.IntImm | tir.FloatImm) and difference.value == 0):
        raise ValueError(f"{lhs} and {rhs} are not equal: they differ by {difference}")


def check_numerical_grads(
    function: Callable[..., Any],
    input_values: Mapping[str, Any] | Sequence[Any],
    grad_values: Mapping[str, Any] | Sequence[Any],
    function_value: float | None = None,
    delta: float = 1e-3,
    atol: float = 1e-2,
    rtol: float = 0.1,
) -> None:
    """Compare gradients with central differences of fourth order.

    function:       takes the inputs, by position or by name, and returns a number
    grad_values:    gradients of that number, of the inputs' shapes
    function_value: not needed; TVM's differences are one-sided
    delta:          step of the differences
    atol, rtol:     tolerance of a gradient's distance to them, `atol` times the root of its size

    Raises AssertionError where they are apart, ValueError where one is not finite.
    """
    named = isinstance(input_values, Mapping)
    inputs: dict[Any, Any] = dict(input_values) if isinstance(input_values, Mapping) else dict(enumerate(input_values))
    gradients = dict(grad_values) if isinstance(grad_values, Mapping) else dict(enumerate(grad_values))

    def value(changed: Any, position: int, by: float) -> float:
        moved = {name: np.array(array, copy=name == changed) for name, array in inputs.items()}
        moved[changed].reshape(-1)[position] += by
        return float(function(**moved) if named else function(*moved.values()))

    def slope(name: Any, position: int) -> float:
        near, far = (value(name, position, h) - value(name, position, -h) for h in (delta / 2, delta))
        return (8 * near - far) / (6 * delta)

    for name, gradient in gradients.items():
        if gradient.shape != inputs[name].shape:
            raise AssertionError(f"the gradient of {name} is {gradient.shape}, the input {inputs[name].shape}")
        numerical = np.array([slope(name, i) for i in range(gradient.size)]).reshape(gradient.shape)
        distance = np.linalg.norm(numerical - gradient)
        if not np.isfinite(distance):
            raise ValueError(f"NaN or infinity in a gradient of {name}:\n{gradient}\nby differences:\n{numerical}")
        if distance > atol * np.sqrt(gradient.size) + rtol * np.linalg.norm(gradient):
            raise AssertionError(f"the gradient of {name} is\n{gradient}\nby differences:\n{numerical}")


def asked_targets() -> list[str]:
    """The targets of `TVM_TEST_TARGETS`, which are separated by semicolons; without it all."""
    asked = [t.strip() for t in os.environ.get("TVM_TEST_TARGETS", "").split(";") if t.strip()]
    return asked or list(TARGETS)


def device_enabled(target: Any) -> bool:
    """Return whether tests for a target run: this machine has a device for it, and `TVM_TEST_TARGETS` allows it."""
    kind = str(target).split()[0]
    return kind in {t.split()[0] for t in asked_targets()} and enabled(str(target))


def enabled_targets() -> list[tuple[str, Device]]:
    """Return the targets that tests run for, each with its device."""
    return [(target, device(target.split()[0])) for target in asked_targets() if device_enabled(target)]
