"""Kernels that the tests tune."""

from __future__ import annotations

from typing import Any

import numpy as np

from autosched.measure.protocol import MeasureOptions
from autosched.raw.kernel import RawKernel, make_kernel
from autosched.target import Target

FAST = MeasureOptions(min_repeat_ms=0.2, repeat=2, builders=1)
OPENCL = Target.parse("opencl").with_limits(max_threads_per_block=4096)
N = 1000

ADD = """
__kernel void add(__global float *c, __global const float *a, __global const float *b, int n) {
  int i = (get_group_id(0) * block_size_x + get_local_id(0)) * tile;
  for (int k = 0; k < tile; ++k)
    if (i + k < n) c[i + k] = a[i + k] + b[i + k];
}
"""

AXPY = """
void axpy(float *y, const float *x, float alpha, int n) {
  for (int i = 0; i < n; i += STEP)
    for (int k = i; k < i + STEP && k < n; ++k) y[k] += alpha * x[k];
}
"""


def operands() -> tuple[Any, Any, Any]:
    """c, a, b: small integers, whose sums are exact."""
    draw = np.random.default_rng(0)
    a, b = (draw.integers(-8, 8, N).astype(np.float32) for _ in range(2))
    return np.zeros_like(a), a, b


def add_words(source: str = ADD, **changes: Any) -> dict[str, Any]:
    """The arguments of `tune_kernel` for a vector addition."""
    c, a, b = operands()
    words = {
        "kernel_name": "add",
        "kernel_source": source,
        "problem_size": N,
        "arguments": [c, a, b, np.int32(N)],
        "tune_params": {"block_size_x": [16, 64], "tile": [1, 2]},
        "grid_div_x": ["block_size_x", "tile"],
        "answer": [a + b, None, None, None],
    }
    return words | changes


def axpy_words(source: str = AXPY, **changes: Any) -> dict[str, Any]:
    """The same for y += alpha * x in C, whose output is an input, too."""
    _, y, x = operands()
    words = {
        "kernel_name": "axpy",
        "kernel_source": source,
        "problem_size": N,
        "arguments": [y, x, np.float32(2), np.int32(N)],
        "tune_params": {"STEP": [4, 8]},
        "answer": [y + 2 * x, None, None, None],
    }
    return words | changes


def kernel(words: dict[str, Any]) -> RawKernel:
    return make_kernel(**words)
