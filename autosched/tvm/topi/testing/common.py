"""What tests of operators choose by target: schedules, and implementations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autosched.runtime.ndarray import array
from autosched.target import Target
from autosched.te import placeholder
from autosched.tvm.driver.build_module import build
from autosched.tvm.testing.utils import assert_allclose
from autosched.tvm.topi import nn
from autosched.tvm.topi.schedules import schedule


def dispatch(target: Any, dispatch_map: Mapping[str, Any]) -> Any:
    """The entry of the first of the target's keys that has one (`cpu`, `gpu`, ...), else that of `generic`."""
    keys = Target.parse(target).keys
    return next((dispatch_map[key] for key in keys if key in dispatch_map), None) or dispatch_map["generic"]


def get_injective_schedule(target: Any) -> Callable[..., Any]:
    """The function that schedules outputs for a target: one for all operators."""
    to = Target.parse(target)
    return lambda outs: schedule(outs, to)


get_broadcast_schedule = get_elemwise_schedule = get_reduce_schedule = get_injective_schedule
get_softmax_schedule = get_injective_schedule


def get_conv2d_nchw_implement(target: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The operator and its schedule."""
    return nn.conv2d_nchw, get_injective_schedule(target)


def compare_numpy_tvm(
    inputs: Sequence[np.ndarray[Any, Any]],
    output: np.ndarray[Any, Any],
    target: Any,
    device: Any,
    compute: Callable[..., Any],
    schedule: Callable[..., Any],
) -> None:
    """Build `compute` of placeholders like the inputs, run it, and raise AssertionError unless it gives `output`."""
    to = Target.parse(target)
    tensors = [placeholder(x.shape, str(x.dtype), f"in{k}") for k, x in enumerate(inputs)]
    with to:
        out = compute(*tensors)
        f = build(schedule([out]), [*tensors, out], to)
    found = array(np.zeros(output.shape, output.dtype), device)
    f(*(array(x, device) for x in inputs), found)
    assert_allclose(found.numpy(), output, rtol=1e-4, atol=1e-4)
