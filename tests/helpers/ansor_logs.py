"""Workloads, and lines as auto_scheduler's logs have them: steps of its sketches, with annotations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from autosched.tvm import auto_scheduler, te, topi


def matmul_relu(n: int, m: int, k: int) -> list[Any]:
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    kk = te.reduce_axis((0, k), name="k")
    c = te.compute(
        (n, m), lambda i, j: te.sum(a[i, kk] * b[kk, j], axis=kk), name="C", attrs={"layout_free_placeholders": [b]}
    )
    return [a, b, te.compute((n, m), lambda i, j: te.max(c[i, j], 0.0), name="D")]


def matmul(n: int, m: int, k: int) -> list[Any]:
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    kk = te.reduce_axis((0, k), name="k")
    return [a, b, te.compute((n, m), lambda i, j: te.sum(a[i, kk] * b[kk, j], axis=kk), name="C")]


def conv2d_layer(n: int, h: int, w: int, co: int, ci: int, kh: int, kw: int, stride: Any, padding: Any) -> list[Any]:
    data = te.placeholder((n, ci, h, w), name="data")
    kernel = te.placeholder((co, ci, kh, kw), name="kernel")
    bias = te.placeholder((1, co, 1, 1), name="bias")
    conv = topi.nn.conv2d_nchw(data, kernel, stride, padding, dilation=1, out_dtype="float32")
    return [data, kernel, bias, topi.nn.relu(conv + bias)]


def softmax(n: int, m: int) -> list[Any]:
    a = te.placeholder((n, m), name="A")
    r, q = te.reduce_axis((0, m), name="r"), te.reduce_axis((0, m), name="q")
    largest = te.compute((n,), lambda i: te.max(a[i, r], axis=r), name="largest")
    exp = te.compute((n, m), lambda i, j: te.exp(a[i, j] - largest[i]), name="exp")
    total = te.compute((n,), lambda i: te.sum(exp[i, q], axis=q), name="total")
    return [a, te.compute((n, m), lambda i, j: exp[i, j] / total[i], name="norm")]


FUNCTIONS = (matmul_relu, matmul, conv2d_layer, softmax)
for function in FUNCTIONS:
    auto_scheduler.register_workload(f"ansor_logs.{function.__name__}", function, override=True)


@dataclass(frozen=True)
class Logged:
    """A workload, and what a log says about it."""

    name: str
    function: Any
    args: tuple[Any, ...]
    target: str
    steps: list[Any]
    version: str = "v0.6"

    @property
    def workload_key(self) -> str:
        return json.dumps([f"ansor_logs.{self.function.__name__}", *self.args])

    def line(self, seconds: float = 0.001, **changed: Any) -> str:
        """The line; a key of `changed` is in place of what it has at `i`, `r` or `v`."""
        task: list[Any] = [self.workload_key, self.target]
        if self.version > "v0.2":
            task.append([8, 64, 64, 0, 0, 0, 0, 0])
        if self.version > "v0.4":
            task += ["", 1]
        if self.version > "v0.5":
            task.append([])
        whole = {"i": [task, [[], self.steps]], "r": [[seconds], 0, 0.5, 1607112214], "v": self.version}
        return json.dumps(whole | changed)

    def task(self, target: str | None = None) -> Any:
        return auto_scheduler.SearchTask(workload_key=self.workload_key, target=target or self.here)

    @property
    def here(self) -> str:
        """The target that stands for the record's own on this machine."""
        return "llvm" if self.target.startswith("llvm") else "opencl"


LLVM = "llvm -keys=cpu -mcpu=core-avx2"
CUDA = "cuda -keys=cuda,gpu -max_num_threads=1024 -thread_warp_size=32"

#: order of the ten loops of a matrix product tiled as SSRSRS
SSRSRS = [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]
_FUSED = [
    ["SP", 2, 0, 64, [2, 1, 4], 1],
    ["SP", 2, 4, 48, [1, 2, 8], 1],
    ["SP", 2, 8, 32, [4], 1],
    ["RE", 2, SSRSRS],
    ["FSP", 3, 0, 0, 2],
    ["FSP", 3, 3, 1, 2],
    ["RE", 3, [0, 3, 1, 4, 2, 5]],
    ["CA", 2, 3, 3],
    ["FU", 3, [0, 1, 2]],
    ["AN", 3, 0, 3],
    ["PR", 2, 0, "auto_unroll_max_step$16"],
    ["AN", 2, 9, 2],
    ["AN", 3, 3, 2],
]
_CACHED = [
    ["CHW", 2, "local"],
    ["SP", 2, 0, 20, [1, 2, 3], 1],
    ["SP", 2, 4, 30, [1, 2, 8], 1],
    ["SP", 2, 8, 17, [4], 1],
    ["RE", 2, SSRSRS],
    ["FSP", 3, 0, 1, 1],
    ["FSP", 3, 2, 2, 1],
    ["RE", 3, [0, 2, 1, 3]],
    ["CA", 2, 3, 1],
    ["FU", 3, [0, 1]],
    ["AN", 3, 0, 3],
    ["PR", 2, 0, "auto_unroll_max_step$0"],
    ["AN", 2, 9, 2],
]
_GPU_MATMUL = [
    ["CHW", 2, "local"],
    ["SP", 2, 0, 32, [2, 4, 2, 1], 1],
    ["SP", 2, 5, 32, [1, 4, 1, 2], 1],
    ["SP", 2, 10, 16, [2, 2], 1],
    ["RE", 2, [0, 5, 1, 6, 2, 7, 10, 11, 3, 8, 12, 4, 9]],
    ["FSP", 3, 0, 1, 3],
    ["FSP", 3, 4, 2, 3],
    ["RE", 3, [0, 4, 1, 5, 2, 6, 3, 7]],
    ["FU", 2, [0, 1]],
    ["FU", 3, [0, 1]],
    ["FU", 2, [1, 2]],
    ["FU", 3, [1, 2]],
    ["FU", 2, [2, 3]],
    ["FU", 3, [2, 3]],
    ["CA", 2, 3, 2],
    ["CHR", 1, "shared", [2]],
    ["CA", 2, 3, 3],
    ["FU", 2, [0, 1]],
    ["FFSP", 2, 0, [1, 2], 1, 1],
    ["AN", 2, 1, 6],
    ["CHR", 0, "shared", [3]],
    ["CA", 1, 4, 3],
    ["SA", 1, 0, 32, 1],
    ["FU", 1, [0, 1]],
    ["FFSP", 1, 0, [1, 2], 1, 1],
    ["AN", 1, 1, 6],
    ["AN", 5, 0, 5],
    ["AN", 5, 1, 4],
    ["AN", 5, 2, 6],
    ["PR", 4, 0, "auto_unroll_max_step$64"],
]
_GPU_CONV = [
    ["CI", 5],
    ["SP", 3, 0, 1, [1, 1, 1, 1], 1],
    ["SP", 3, 5, 16, [1, 8, 2, 1], 1],
    ["SP", 3, 10, 7, [1, 1, 1, 1], 1],
    ["SP", 3, 15, 7, [1, 1, 7, 1], 1],
    ["SP", 3, 20, 8, [4, 2], 1],
    ["SP", 3, 23, 3, [1, 1], 1],
    ["SP", 3, 26, 3, [3, 1], 1],
    [
        "RE",
        3,
        [0, 5, 10, 15, 1, 6, 11, 16, 2, 7, 12, 17, 20, 23, 26, 21, 24, 27, 3, 8, 13, 18, 22, 25, 28, 4, 9, 14, 19],
    ],
    ["FSP", 6, 0, 1, 3],
    ["FSP", 6, 4, 2, 3],
    ["FSP", 6, 8, 3, 3],
    ["FSP", 6, 12, 4, 3],
    ["RE", 6, [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]],
    ["CA", 3, 6, 11],
    ["CHR", 2, "shared", [3]],
    ["CA", 3, 4, 14],
    ["CHR", 1, "shared", [4]],
    ["CA", 2, 5, 14],
    ["CI", 1],
    ["FU", 8, [0, 1, 2, 3]],
    ["AN", 8, 0, 5],
    ["FU", 8, [1, 2, 3, 4]],
    ["AN", 8, 1, 4],
    ["FU", 8, [2, 3, 4, 5]],
    ["AN", 8, 2, 6],
    ["FU", 4, [0, 1, 2, 3]],
    ["SP", 4, 0, 48, [1], 1],
    ["AN", 4, 1, 2],
    ["FFSP", 4, 0, [4, 3, 2, 1], 1, 1],
    ["AN", 4, 1, 6],
    ["FU", 2, [0, 1, 2, 3]],
    ["SP", 2, 0, 63, [4], 1],
    ["AN", 2, 1, 2],
    ["FFSP", 2, 0, [4, 3, 2, 1], 1, 1],
    ["AN", 2, 1, 6],
    ["PR", 5, 0, "auto_unroll_max_step$512"],
]
_RFACTOR = [
    ["SP", 3, 1, 40, [8], 1],
    ["RF", 3, 2, 1],
    ["RE", 3, [0, 2, 1]],
    ["SP", 1, 1, 40, [5], 1],
    ["RF", 1, 2, 1],
    ["RE", 1, [0, 2, 1]],
    ["CR", 6],
    ["CA", 5, 6, 1],
    ["CR", 4],
    ["CA", 2, 3, 1],
    ["AN", 1, 0, 3],
    ["FU", 3, [0, 1]],
    ["AN", 3, 0, 3],
    ["AN", 4, 0, 3],
    ["FU", 6, [0, 1]],
    ["AN", 6, 0, 3],
    ["PR", 1, 0, "auto_unroll_max_step$16"],
]
_CROSS_THREAD = [
    ["SP", 4, 1, 40, [8], 1],
    ["AN", 4, 2, 6],
    ["FSP", 3, 1, 0, 1],
    ["AN", 3, 2, 6],
    ["CA", 3, 4, 0],
    ["CI", 2],
    ["FSP", 1, 1, 0, 1],
    ["AN", 1, 2, 6],
    ["CA", 1, 4, 0],
    ["AN", 4, 0, 5],
    ["PR", 1, 0, "auto_unroll_max_step$16"],
]

LOGS = [
    Logged("fused relu", matmul_relu, (64, 48, 32), LLVM, _FUSED, "v0.3"),
    Logged("cache write, uneven", matmul, (20, 30, 17), LLVM, _CACHED, "v0.5"),
    Logged("shared memory", matmul, (32, 32, 16), "cuda", _GPU_MATMUL, "v0.1"),
    Logged("conv2d, vthread", conv2d_layer, (1, 7, 7, 16, 8, 3, 3, (1, 1), (1, 1)), CUDA, _GPU_CONV, "v0.2"),
    Logged("rfactor", softmax, (6, 40), LLVM, _RFACTOR),
    Logged("cross-thread reduction", softmax, (6, 40), CUDA, _CROSS_THREAD, "v0.4"),
]
