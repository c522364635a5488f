"""Records of Ansor's for layers of networks, whose workloads are made of topi's operators: stages, splits and loops fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from autosched.te.reference import reference
from autosched.tvm import auto_scheduler, build, te, topi

KEY = json.dumps(["0123456789abcdef0123456789abcdef", 1, 8, 8, 8])


def layer(kernel: int, has_relu: bool) -> list[te.Tensor]:
    """A convolution with a bias, as in a ResNet: stages data, padded, weight, convolution, bias, sum, relu."""
    data, weight = te.placeholder((1, 8, 8, 8), name="data"), te.placeholder((kernel, kernel, 8, 16), name="weight")
    bias = te.placeholder((1, 1, 1, 16), name="bias")
    made = topi.add(topi.nn.conv2d_nhwc(data, weight, 1, kernel // 2, 1, "float32"), bias)
    return [data, weight, bias, topi.nn.relu(made) if has_relu else made]


def line(kernel: int, last: int, padded: list[object]) -> str:
    """A record in Ansor's format: the convolution tiled at the loops of the last stage, which follows its splits."""
    steps: list[list[object]] = [["CI", 5]] if last == 6 else []
    first = len(steps)
    lengths = [(1, [1, 1, 1]), (8, [1, 2, 2]), (8, [2, 1, 4]), (16, [1, 1, 8])]
    steps += [["SP", 3, 4 * n, extent, parts, 1] for n, (extent, parts) in enumerate(lengths)]
    steps += [["SP", 3, 16, kernel, [kernel], 1], ["SP", 3, 18, kernel, [1], 1], ["SP", 3, 20, 8, [4], 1]]
    steps += [["RE", 3, [0, 4, 8, 12, 1, 5, 9, 13, 16, 18, 20, 2, 6, 10, 14, 17, 19, 21, 3, 7, 11, 15]]]
    steps += [["FSP", last, 2 * n, first + n, 1] for n in range(4)]
    steps += [["RE", last, [0, 2, 4, 6, 1, 3, 5, 7]], ["CA", 3, last, 3], padded, ["FU", last, [0, 1, 2, 3]]]
    steps += [["AN", last, 0, 3], ["PR", 3, 0, "auto_unroll_max_step$16"], ["AN", 3, 21, 2], ["AN", last, 4, 2]]
    task = [[KEY, "llvm -keys=cpu", [8, 64, 64, 0, 0, 0, 0, 0], "", 1, []], [[], steps]]
    return json.dumps({"i": task, "r": [[2.5e-05], 0, 0.3, 1607112214], "v": "v0.6"})


@pytest.mark.parametrize(("kernel", "last"), [(1, 6), (3, 6), (3, 5)])
@pytest.mark.parametrize("inlined", [True, False])
def test_a_layer_of_a_network(kernel: int, last: int, inlined: bool, tmp_path: Path) -> None:
    tensors = layer(kernel, has_relu=last == 6)
    auto_scheduler.workload_registry.register_workload_tensors(KEY, tensors)
    log = tmp_path / "log.json"
    log.write_text(line(kernel, last, ["CI", 1] if inlined else ["CA", 1, 3, 3]) + "\n")
    task = auto_scheduler.SearchTask(workload_key=KEY, target="llvm")
    s, args = task.apply_best(str(log))
    assert len(s.trace) > 12 and "parallel" in str(s.trace)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, topi.get_const_tuple(t.shape)).astype("float32") for t in args[:-1]]
    out = np.full((1, 8, 8, 16), np.nan, "float32")
    build(s, args, "llvm")(*arrays, out)
    np.testing.assert_allclose(out, reference(args, arrays)[0], rtol=1e-5)
