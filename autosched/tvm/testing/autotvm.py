"""`tvm.testing.autotvm`: a template, its task and made-up records, and a runner that runs nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.te.tensor import Tensor
from autosched.tvm import autotvm, target, te
from autosched.tvm.autotvm.measure import MeasureInput, MeasureResult, Runner


class DummyRunner(Runner):
    """Answers with a random time."""

    def __init__(self) -> None:
        super().__init__(timeout=1, n_parallel=1)

    def get_build_kwargs(self) -> dict[str, Any]:
        return {}

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        return [MeasureResult((np.random.random(),), 0, 0.2, time.time()) for _ in measure_inputs]


@autotvm.template("testing/matmul")
def matmul(N: int, L: int, M: int, dtype: str) -> tuple[te.Schedule, list[Tensor]]:
    """A of [N, L] times B of [L, M], whose rows are split, and columns, unless the split leaves one."""
    A, B = te.placeholder((N, L), name="A", dtype=dtype), te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    outer, inner = cfg["tile_y"].apply(s, C, y)
    if cfg["tile_x"].size[-1] > 1:
        columns, lanes = cfg["tile_x"].apply(s, C, x)
        s[C].reorder(outer, columns, s[C].op.reduce_axis[0], inner, lanes)
    else:
        s[C].reorder(outer, s[C].op.reduce_axis[0], inner, x)
    return s, [A, B, C]


@autotvm.template("testing/bad_matmul")
def bad_matmul(N: int, L: int, M: int, dtype: str) -> tuple[te.Schedule, list[Tensor]]:
    """The same, which leaves out one term on a target with the key `bad_device`."""
    to = target.Target.current(allow_none=True)
    if to is None or "bad_device" not in to.keys:
        return matmul(N, L, M, dtype)
    A, B = te.placeholder((N, L), name="A", dtype=dtype), te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L - 1), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    cfg = autotvm.get_config()
    for name, axis in zip(("tile_y", "tile_x"), s[C].op.axis, strict=True):
        cfg.define_split(name, axis, num_outputs=2)
    return s, [A, B, C]


def get_sample_task(n: int = 128) -> tuple[autotvm.task.Task, target.Target]:
    """Return the task of `testing/matmul` of size n for the CPU, and its target."""
    to = target.Target("llvm")
    return autotvm.task.create("testing/matmul", args=(n, n, n, "float32"), target=to), to


def get_sample_records(n: int) -> list[tuple[MeasureInput, MeasureResult]]:
    """Return n records: configurations in turn, which took 1, 2, 3, .. seconds."""
    task, to = get_sample_task()
    space = task.config_space
    inputs = [MeasureInput(to, task, space.get(i % len(space))) for i in range(n)]
    return [(inp, MeasureResult((i + 1,), 0, i, time.time())) for i, inp in enumerate(inputs)]
