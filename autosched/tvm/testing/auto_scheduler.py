"""`tvm.testing.auto_scheduler`: workloads by the names that programs and logs know them by.

Each function returns the tensors of its arguments. The names, parameters and shapes are TVM's.
"""

from __future__ import annotations

from typing import Any

from autosched.ir.expr import Expr
from autosched.te.tensor import Tensor
from autosched.tvm import auto_scheduler, te, topi
from autosched.tvm.auto_scheduler.loop_state import State


def _matmul(a: Tensor, b: Tensor, name: str, **attrs: list[Tensor]) -> Tensor:
    k = te.reduce_axis((0, a.shape[1]), name="k")
    shape = (a.shape[0], b.shape[1])
    return te.compute(shape, lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), name=name, attrs=attrs)


@auto_scheduler.register_workload
def matmul_auto_scheduler_test(N: int, M: int, K: int) -> list[Tensor]:
    """C of [N, M] = A of [N, K] times B of [K, M], whose layout is free."""
    A, B = te.placeholder((N, K), name="A"), te.placeholder((K, M), name="B")
    return [A, B, _matmul(A, B, "C", layout_free_placeholders=[B])]


@auto_scheduler.register_workload("matmul_auto_scheduler_test_rename_1")
def matmul_auto_scheduler_test_rename_0(N: int, M: int, K: int) -> list[Tensor]:
    """The same, of fixed layout, registered by another name than the function's."""
    A, B = te.placeholder((N, K), name="A"), te.placeholder((K, M), name="B")
    return [A, B, _matmul(A, B, "C")]


@auto_scheduler.register_workload
def double_matmul_auto_scheduler_test(N: int) -> list[Tensor]:
    """E = (A B) C, of [N, N]."""
    A, B, C = (te.placeholder((N, N), name=name) for name in "ABC")
    return [A, B, C, _matmul(_matmul(A, B, "D"), C, "E")]


@auto_scheduler.register_workload
def parallel_matmul_auto_scheduler_test(N: int) -> list[Tensor]:
    """D = A B and E = A C, of [N, N]."""
    A, B, C = (te.placeholder((N, N), name=name) for name in "ABC")
    return [A, B, C, _matmul(A, B, "D"), _matmul(A, C, "E")]


@auto_scheduler.register_workload
def conv2d_nchw_bn_relu_auto_scheduler_test(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int, strides: int, padding: int, dilation: int = 1
) -> list[Tensor]:
    """A convolution of [N, CI, H, W] by CO kernels, a bias, a batch norm as scale and offset, and ReLU."""
    data = te.placeholder((N, CI, H, W), name="Data")
    kernel = te.placeholder((CO, CI, kernel_size, kernel_size), name="Kernel")
    names = ("Bias", "Bn_scale", "Bn_offset")
    bias, scale, offset = (te.placeholder((CO, 1, 1), name=name) for name in names)
    conv = topi.nn.conv2d_nchw(data, kernel, strides, padding, dilation)
    shape = tuple(conv.shape)
    added = te.compute(shape, lambda n, c, y, x: conv[n, c, y, x] + bias[c, 0, 0], name="Bias_add")
    scaled = te.compute(shape, lambda n, c, y, x: added[n, c, y, x] * scale[c, 0, 0], name="Bn_mul")
    moved = te.compute(shape, lambda n, c, y, x: scaled[n, c, y, x] + offset[c, 0, 0], name="Bn_add")
    return [data, kernel, bias, offset, scale, topi.nn.relu(moved)]


@auto_scheduler.register_workload
def max_pool2d_auto_scheduler_test(N: int, H: int, W: int, CI: int, padding: int) -> list[Tensor]:
    """The largest of each 2 by 2 elements, at steps of one."""
    data = te.placeholder((N, CI, H, W), name="Data")
    return [data, topi.nn.pool2d(data, [2, 2], [1, 1], [1, 1], [padding] * 4, "max")]


@auto_scheduler.register_workload
def min_nm_auto_scheduler_test(N: int, M: int) -> list[Tensor]:
    """The least of each row."""
    A = te.placeholder((N, M), name="A")
    return [A, topi.min(A, axis=-1)]


@auto_scheduler.register_workload
def softmax_nm_auto_scheduler_test(N: int, M: int) -> list[Tensor]:
    """Softmax of each row."""
    A = te.placeholder((N, M), name="A")
    return [A, topi.nn.softmax(A, axis=1)]


@auto_scheduler.register_workload
def softmax_abcd_auto_scheduler_test(a: int, b: int, c: int, d: int) -> list[Tensor]:
    """Softmax along the last of four dimensions."""
    A = te.placeholder((a, b, c, d), name="A")
    return [A, topi.nn.softmax(A, axis=-1)]


@auto_scheduler.register_workload
def zero_rank_reduce_auto_scheduler_test(N: int) -> list[Tensor]:
    """The sum of a vector, without dimensions."""
    A = te.placeholder((N,), name="A")
    k = te.reduce_axis((0, N), name="k")
    return [A, te.compute((), lambda: te.sum(A[k], k), name="B")]


@auto_scheduler.register_workload
def zero_rank_compute_auto_scheduler_test(N: int) -> list[Tensor]:
    """The first element of a vector, without dimensions."""
    A = te.placeholder((N,), name="A")
    return [A, te.compute((), lambda: A[0], name="B")]


@auto_scheduler.register_workload
def invalid_compute_definition() -> list[Tensor]:
    """Two axes of one name, which a `ComputeDAG` refuses."""
    A = te.placeholder((10, 10), name="A")
    one, other = te.reduce_axis((0, 2), name="r1"), te.reduce_axis((0, 2), name="r1")
    return [A, te.compute((10,), lambda i: te.sum(A[i, one + other], axis=[one, other]), name="B")]


@auto_scheduler.register_workload
def conv2d_winograd_nhwc_auto_scheduler_test(
    N: int, H: int, W: int, CI: int, CO: int, kernel_size: int = 3, stride: int = 1, padding: int = 0, dilation: int = 1
) -> list[Tensor]:
    """A convolution of [N, H, W, CI] in Winograd's way, tiles of 4 by 4, with kernels that are transformed already."""
    m, r = 4, kernel_size
    alpha = m + r - 1
    data = te.placeholder((N, H, W, CI), name="inputs")
    weight = te.placeholder((alpha, alpha, CI, CO), name="weight")
    padded = topi.nn.pad(data, (0, padding, padding, 0), (0, padding, padding, 0), name="data_pad")
    nn: Any = topi.nn
    A, B, _ = nn.winograd_util.winograd_transform_matrices(m, r, "float32")
    H, W = H + 2 * padding - r + 1, W + 2 * padding - r + 1
    nH, nW = -(-H // m), -(-W // m)
    P, div, mod = N * nH * nW, te.indexdiv, te.indexmod

    def tile(eps: Expr, nu: Expr, p: Expr, c: Expr) -> Any:
        return padded[div(p, nH * nW), mod(div(p, nW), nH) * m + eps, mod(p, nW) * m + nu, c]

    tiles = te.compute((alpha, alpha, P, CI), tile, name="input_tile")
    a, b = te.reduce_axis((0, alpha), "r_a"), te.reduce_axis((0, alpha), "r_b")
    packed = te.compute(
        (alpha, alpha, P, CI),
        lambda eps, nu, p, c: te.sum(tiles[a, b, p, c] * B[a, eps] * B[b, nu], axis=[a, b]),
        name="data_pack",
        attrs={"auto_scheduler_simplify_const_tensor_indices": ["eps", "nu", "r_a", "r_b"]},
    )
    c = te.reduce_axis((0, CI), name="ci")
    product = te.compute(
        (alpha, alpha, P, CO),
        lambda eps, nu, p, co: te.sum(packed[eps, nu, p, c] * weight[eps, nu, c, co], axis=[c]),
        name="bgemm",
    )
    x, y = te.reduce_axis((0, alpha), "r_a"), te.reduce_axis((0, alpha), "r_b")
    inverse = te.compute(
        (m, m, P, CO),
        lambda vh, vw, p, co: te.sum(product[x, y, p, co] * A[x, vh] * A[y, vw], axis=[x, y]),
        name="inverse",
        attrs={"auto_scheduler_simplify_const_tensor_indices": ["vh", "vw", "r_a", "r_b"]},
    )
    out = te.compute(
        (N, H, W, CO),
        lambda n, h, w, co: inverse[mod(h, m), mod(w, m), n * nH * nW + div(h, m) * nW + div(w, m), co],
        name="conv2d_winograd",
    )
    return [data, weight, out]


def get_tiled_matmul() -> tuple[auto_scheduler.ComputeDAG, State]:
    """Return a matmul of 512, and a state in which i and j are split into four loops each, around k."""
    A, B, C = matmul_auto_scheduler_test(512, 512, 512)
    dag = auto_scheduler.ComputeDAG([A, B, C])
    s = dag.get_init_state()
    i = s.split(C, s[C].iters[0], [4, 8, 8])
    j = s.split(C, s[C].iters[4], [8, 4, 4])
    s.reorder(C, [*(loop for pair in zip(i, j, strict=True) for loop in pair), s[C].iters[8]])
    return dag, s
