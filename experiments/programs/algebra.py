"""Dense, triangular, batched and tiny linear algebra."""

from __future__ import annotations

import numpy as np

from autosched import te

from . import prange, program

#: of the tiny matrices, known to who writes a loop for them
TINY = 8


def _matmul_torch(torch, nn, a, b):  # type: ignore[no-untyped-def]
    out = torch.empty(a.shape[0], b.shape[1])
    return lambda: torch.mm(a, b, out=out)


@program(np.matmul, numpy=np.matmul, torch=_matmul_torch)
def matmul(n: int = 512) -> tuple[te.Tensor, ...]:
    """a[n, n], b[n, n] -> a b."""
    a, b = te.placeholder((n, n), name="a"), te.placeholder((n, n), name="b")
    k = te.reduce_axis((0, n), "k")
    return a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="product")


def _tiny_numba(a, b, out):  # type: ignore[no-untyped-def]
    for m in prange(a.shape[0]):
        for i in range(TINY):
            for j in range(TINY):
                total = np.float32(0)
                for k in range(TINY):
                    total += a[m, i, k] * b[m, k, j]
                out[m, i, j] = total


def _tiny_torch(torch, nn, a, b):  # type: ignore[no-untyped-def]
    out = torch.empty_like(a)
    return lambda: torch.bmm(a, b, out=out)


@program(np.matmul, numba=_tiny_numba, torch=_tiny_torch)
def tiny_matmul(batch: int = 4096, n: int = TINY) -> tuple[te.Tensor, ...]:
    """a[batch, n, n], b[batch, n, n] -> the product of each pair."""
    a, b = te.placeholder((batch, n, n), name="a"), te.placeholder((batch, n, n), name="b")
    k = te.reduce_axis((0, n), "k")
    product = te.compute((batch, n, n), lambda m, i, j: te.sum(a[m, i, k] * b[m, k, j], axis=k), name="product")
    return a, b, product


def _both_sides_numba(a, x, y, ax, aty):  # type: ignore[no-untyped-def]
    rows, columns = a.shape
    bands = 8
    part = np.zeros((bands, columns), np.float32)
    for band in prange(bands):
        for i in range(band * rows // bands, (band + 1) * rows // bands):
            total, scale = np.float32(0), y[i]
            for k in range(columns):
                total += a[i, k] * x[k]
                part[band, k] += a[i, k] * scale
            ax[i] = total
    aty[:] = 0
    for band in range(bands):
        for k in range(columns):
            aty[k] += part[band, k]


def _both_sides_torch(torch, nn, a, x, y):  # type: ignore[no-untyped-def]
    return lambda: (torch.mv(a, x), torch.mv(a.T, y))


@program(lambda a, x, y: (a @ x, a.T @ y), numba=_both_sides_numba, torch=_both_sides_torch)
def both_sides(n: int = 2048) -> tuple[te.Tensor, ...]:
    """a[n, n], x[n], y[n] -> a x and the transpose of a times y."""
    a = te.placeholder((n, n), name="a")
    x, y = te.placeholder((n,), name="x"), te.placeholder((n,), name="y")
    j, i = te.reduce_axis((0, n), "j"), te.reduce_axis((0, n), "i")
    ax = te.compute((n,), lambda r: te.sum(a[r, j] * x[j], axis=j), name="ax")
    aty = te.compute((n,), lambda c: te.sum(a[i, c] * y[i], axis=i), name="aty")
    return a, x, y, ax, aty


def _trmm_blas(lower: np.ndarray, b: np.ndarray) -> np.ndarray:
    from scipy.linalg import blas

    return blas.strmm(1.0, lower.T, b.T, side=1, lower=0).T


def _trmm_torch(torch, nn, lower, b):  # type: ignore[no-untyped-def]
    return lambda: torch.mm(torch.tril(lower), b)


@program(lambda lower, b: np.tril(lower) @ b, numpy=_trmm_blas, torch=_trmm_torch)
def triangular_matmul(n: int = 768) -> tuple[te.Tensor, ...]:
    """lower[n, n], b[n, n] -> the product; what is above the diagonal of `lower` is not looked at."""
    lower, b = te.placeholder((n, n), name="lower"), te.placeholder((n, n), name="b")
    k = te.reduce_axis((0, n), "k")
    product = te.compute((n, n), lambda i, j: te.sum(lower[i, k] * b[k, j], axis=k, where=k <= i), name="product")
    return lower, b, product


def _syrk_blas(a: np.ndarray) -> np.ndarray:
    from scipy.linalg import blas

    return blas.ssyrk(1.0, a.T, trans=1, lower=0).T


def _syrk_torch(torch, nn, a):  # type: ignore[no-untyped-def]
    return lambda: torch.mm(a, a.T).tril_()


@program(lambda a: np.tril(a @ a.T), numpy=_syrk_blas, torch=_syrk_torch)
def syrk(n: int = 512, m: int = 512) -> tuple[te.Tensor, ...]:
    """a[n, m] -> the lower triangle of a times its transpose; zeros above."""
    a = te.placeholder((n, m), name="a")
    k = te.reduce_axis((0, m), "k")
    lower = te.compute((n, n), lambda i, j: te.sum(a[i, k] * a[j, k], axis=k, where=j <= i), name="lower")
    return a, lower


def _chain_torch(torch, nn, a, b, c):  # type: ignore[no-untyped-def]
    return lambda: torch.mm(torch.mm(a, b), c)


@program(lambda a, b, c: a @ b @ c, numpy=lambda a, b, c: a @ b @ c, torch=_chain_torch)
def matmul_chain(n: int = 384) -> tuple[te.Tensor, ...]:
    """a[n, n], b[n, n], c[n, n] -> (a b) c."""
    a, b, c = (te.placeholder((n, n), name=name) for name in "abc")
    k, m = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "m")
    ab = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="ab")
    abc = te.compute((n, n), lambda i, j: te.sum(ab[i, m] * c[m, j], axis=m), name="abc")
    return a, b, c, abc


def _bytes(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(-128, 128, (n, n), "int8") for _ in range(2)]


def _matmul_int8_numpy(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.astype("float64") @ b.astype("float64")).astype("int32")


def _matmul_int8_torch(torch, nn, a, b):  # type: ignore[no-untyped-def]
    return lambda: torch._int_mm(a, b)


@program(_matmul_int8_numpy, inputs=_bytes, rtol=0, atol=0, torch=_matmul_int8_torch)
def matmul_int8(n: int = 1024) -> tuple[te.Tensor, ...]:
    """a[n, n], b[n, n] of int8 -> a b, int32."""
    a, b = te.placeholder((n, n), "int8", name="a"), te.placeholder((n, n), "int8", name="b")
    k = te.reduce_axis((0, n), "k")
    product = te.compute(
        (n, n), lambda i, j: te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k), name="product"
    )
    return a, b, product


def _gemver_numpy(
    a: np.ndarray, u: np.ndarray, v: np.ndarray, p: np.ndarray, q: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    updated = a + np.outer(u, v) + np.outer(p, q)
    return updated, updated @ x


def _gemver_numba(a, u, v, p, q, x, updated, product):  # type: ignore[no-untyped-def]
    for i in prange(a.shape[0]):
        total = np.float32(0)
        for j in range(a.shape[1]):
            value = a[i, j] + u[i] * v[j] + p[i] * q[j]
            updated[i, j] = value
            total += value * x[j]
        product[i] = total


def _gemver_torch(torch, nn, a, u, v, p, q, x):  # type: ignore[no-untyped-def]
    updated = torch.empty_like(a)

    def run():  # type: ignore[no-untyped-def]
        torch.addr(a, u, v, out=updated).addr_(p, q)
        return updated, torch.mv(updated, x)

    return run


@program(_gemver_numpy, numba=_gemver_numba, torch=_gemver_torch)
def gemver(n: int = 2048) -> tuple[te.Tensor, ...]:
    """a[n, n] and five vectors[n] -> a + u v^T + p q^T, and that times x."""
    a = te.placeholder((n, n), name="a")
    u, v, p, q, x = (te.placeholder((n,), name=name) for name in "uvpqx")
    k = te.reduce_axis((0, n), "k")
    updated = te.compute((n, n), lambda i, j: a[i, j] + u[i] * v[j] + p[i] * q[j], name="updated")
    product = te.compute((n,), lambda i: te.sum(updated[i, k] * x[k], axis=k), name="product")
    return a, u, v, p, q, x, updated, product


def _well_posed(batch: int, n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    lower = rng.normal(size=(batch, n, n)).astype("float32") / n + 2 * np.eye(n, dtype="float32")
    return [lower, rng.normal(size=(batch, n)).astype("float32")]


def _solve_numpy(lower: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.linalg.solve(np.tril(lower).astype("float64"), b[:, :, None].astype("float64"))[:, :, 0].astype("float32")


def _solve_numba(lower, b, x):  # type: ignore[no-untyped-def]
    for m in prange(b.shape[0]):
        for i in range(b.shape[1]):
            rest = b[m, i]
            for k in range(i):
                rest -= lower[m, i, k] * x[m, k]
            x[m, i] = rest / lower[m, i, i]


def _solve_torch(torch, nn, lower, b):  # type: ignore[no-untyped-def]
    return lambda: torch.linalg.solve_triangular(lower, b.unsqueeze(-1), upper=False).squeeze(-1)


@program(_solve_numpy, inputs=_well_posed, numba=_solve_numba, torch=_solve_torch)
def triangular_solve(batch: int = 2048, n: int = 32) -> tuple[te.Tensor, ...]:
    """lower[batch, n, n], b[batch, n] -> x[batch, n], lower x = b: forward substitution."""
    lower, b = te.placeholder((batch, n, n), name="lower"), te.placeholder((batch, n), name="b")
    state = te.placeholder((n, batch), name="state")
    k = te.reduce_axis((0, n), "k")
    first = te.compute((1, batch), lambda _, m: b[m, 0] / lower[m, 0, 0], name="first")
    known = te.compute(
        (n, batch),
        lambda i, m: te.sum(lower[m, i, k] * state[te.min(k, i - 1), m], axis=k, where=k < i),
        name="known",
    )
    step = te.compute((n, batch), lambda i, m: (b[m, i] - known[i, m]) / lower[m, i, i], name="step")
    found = te.scan(first, step, state, name="found")
    return lower, b, te.compute((batch, n), lambda m, i: found[i, m], name="x")
