"""`tvm.topi`: operators with the schedules of their machine, on the CPU and on an OpenCL device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched import tvm
from autosched.tvm import auto_scheduler, te, topi
from autosched.tvm.topi import testing

DRAW = np.random.default_rng(0)


@pytest.mark.parametrize(("machine", "target"), [("x86", "llvm"), ("cuda", "opencl"), ("generic", "opencl")])
def test_a_convolution_and_what_follows(machine: str, target: str) -> None:
    x, w = DRAW.random((1, 8, 12, 12), "float32"), DRAW.random((16, 8, 3, 3), "float32")
    A, W = te.placeholder(x.shape, name="A"), te.placeholder(w.shape, name="W")
    of: Any = getattr(topi, machine)
    with tvm.target.Target(target):
        B = of.conv2d_nchw(A, W, 1, 1, 1, "float32")
        C = topi.nn.relu(B - 20.0)
        s = of.schedule_conv2d_nchw([C])
    b = testing.conv2d_nchw_python(x, w, 1, 1)
    f = tvm.build(s, [A, W, C], target)
    device = tvm.device(target)
    out = tvm.nd.array(np.zeros(b.shape, "float32"), device)
    f(*(tvm.nd.array(a, device) for a in (x, w)), out)
    tvm.testing.assert_allclose(out.numpy(), np.maximum(b - 20, 0), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda x: topi.argsort(x, dtype="int32"), lambda x: np.argsort(x, -1, "stable")),
        (lambda x: topi.argwhere((np.count_nonzero(VALUES > 0), 2), x > 0.0), lambda x: np.argwhere(x > 0)),
        (lambda x: topi.image.resize2d(topi.reshape(x, (1, 1, 6, 8)), None, (3, 4), method="nearest_neighbor"),
         lambda x: x[None, None, ::2, ::2]),
        (lambda x: topi.dft(x, x)[0], lambda x: np.fft.fft(x + 1j * x).real),
    ],
    ids=["argsort", "argwhere", "resize", "dft"],
)  # fmt: skip
def test_other_operators_on_work_items(make: Any, wanted: Any) -> None:
    A = te.placeholder(VALUES.shape, name="A")
    testing.compare_numpy_tvm(
        [VALUES], wanted(VALUES).astype(make(A).dtype), "opencl", tvm.opencl(), make, topi.cuda.schedule_injective
    )


VALUES = DRAW.normal(size=(6, 8)).astype(np.float32)


def test_a_schedule_of_blocks_goes_on() -> None:
    """TVM's schedules of some Arm operators take a `tir.Schedule`."""
    A, W = te.placeholder((1, 4, 6, 8), name="A"), te.placeholder((3, 3, 8, 16), name="W")
    B = topi.arm_cpu.compute_conv2d_NHWC_hybrid(A, W, 1, 1, 1, "float32")
    given = tvm.tir.Schedule(te.create_prim_func([A, W, B]))
    sch = topi.arm_cpu.schedule_conv2d_NHWC_hybrid_TIR(given)
    assert sch is given and any(step.kind == "vectorize" for step in sch.trace)
    a, w, b = DRAW.random((1, 4, 6, 8), "float32"), DRAW.random((3, 3, 8, 16), "float32"), np.zeros((1, 4, 6, 16), "f4")
    tvm.build(sch.mod["main"], "llvm")(a, w, b)
    tvm.testing.assert_allclose(b, testing.conv2d_nhwc_python(a, w, 1, 1), rtol=1e-4)


@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_weights_of_sparse_blocks_are_operations_with_names_for_their_arrays(target: str) -> None:
    """Sketch rules know them by their tags, and tasks have names for the parts of the matrix."""
    rng = np.random.default_rng(3)
    m, n, k, height, width = 5, 12, 9, 4, 3
    full = rng.integers(-3, 4, (n // height, height, k // width, width)).astype("float32")
    full *= np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]], "float32")[:, None, :, None]  # a row of blocks is empty
    kept = [(i, j) for i in range(n // height) for j in range(k // width) if full[i, :, j].any()]
    data = np.stack([full[i, :, j] for i, j in kept])
    indices = np.array([j for _, j in kept], "int32")
    indptr = np.array([sum(i < row for i, _ in kept) for row in range(n // height + 1)], "int32")

    x, out = te.placeholder((m, k), name="x"), np.zeros((m, n), "float32")
    weights = [te.placeholder(a.shape, str(a.dtype), name) for name, a in (("d", data), ("i", indices), ("p", indptr))]
    made = topi.nn.sparse_dense(x, *weights)
    assert (made.op.tag, made.op.input_tensors[0].op.tag) == (
        "sparse_dense_sp_rhs_bsrmm",
        "sparse_dense_sp_rhs_bsrmm_block",
    )
    names = auto_scheduler.measure.prepare_input_map([x, *weights, made])
    start = f"sparse_dense_bsr_{n}_{k}_{height}_{width}_{len(data)}_{len(indptr)}_"
    assert [names[w] for w in weights] == [start + end for end in ("W_data", "W_indices", "W_indptr")]
    with tvm.target.Target(target):
        s = topi.x86.schedule_sparse_dense([made])
    values = rng.integers(-3, 4, (m, k)).astype("float32")
    tvm.build(s, [x, *weights, made], target)(values, data, indices, indptr, out)
    np.testing.assert_array_equal(out, values @ full.reshape(n, k).T)
