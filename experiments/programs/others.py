"""Fractals, sparse products, sorting, random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched import te

from . import Run, prange, program
from .images_numba import njit

Array = np.ndarray
_F = np.float32

# -- escape time -----------------------------------------------------------------------------------


def _mandelbrot_reference(size: int = 300, steps: int = 64) -> Array:
    width = size * 4 // 3
    c = (np.arange(width) * (3.0 / width) - 2.25)[None, :] + 1j * (np.arange(size) * (2.4 / size) - 1.23)[:, None]
    z, count = np.zeros_like(c), np.zeros(c.shape, "int32")
    for _ in range(steps - 1):
        alive = z.real * z.real + z.imag * z.imag <= 4
        count += alive
        z = np.where(alive, z * z + c, z)
    return count


def _mandelbrot_numba(out):  # type: ignore[no-untyped-def]
    height, width = out.shape
    lanes = 16
    for y in prange(height):
        ci = y * (2.4 / height) - 1.23
        cr, zr, zi, count = np.empty(lanes), np.empty(lanes), np.empty(lanes), np.empty(lanes)
        for x in range(0, width, lanes):  # some pixels at once, as vectors; until all of them are out
            for i in range(lanes):
                cr[i], zr[i], zi[i], count[i] = (x + i) * (3.0 / width) - 2.25, 0.0, 0.0, 0.0
            for _ in range(63):
                inside = 0.0
                for i in range(lanes):
                    r, j = zr[i], zi[i]
                    alive = r * r + j * j <= 4.0
                    step = 1.0 if alive else 0.0
                    zr[i] = r * r - j * j + cr[i] if alive else r
                    zi[i] = 2.0 * r * j + ci if alive else j
                    count[i] += step
                    inside += step
                if inside == 0.0:
                    break
            for i in range(min(lanes, width - x)):
                out[y, x + i] = np.int32(count[i])


@program(_mandelbrot_reference, inputs=lambda size, steps: [], atol=0, rtol=0, numba=_mandelbrot_numba)
def mandelbrot(size: int = 300, steps: int = 64) -> tuple[te.Tensor, ...]:
    """In how many of steps - 1 rounds z^2 + c stays within 2, [size, 4/3 size], c from -2.25 - 1.23i to 0.75 + 1.17i.

    In float64, and no c is real: counts of points near the border depend on the last bits.
    """
    width = size * 4 // 3
    shape = (steps, size, width)
    zr, zi = (te.placeholder(shape, "float64", name=name) for name in ("zr", "zi"))
    count = te.placeholder(shape, "int32", name="count")
    zr0, zi0 = (
        te.compute((1, size, width), lambda t, y, x: te.const(0, "float64"), name=name) for name in ("r0", "i0")
    )
    none = te.compute((1, size, width), lambda t, y, x: te.const(0, "int32"), name="none")

    def alive(t: te.Expr, y: te.Expr, x: te.Expr) -> te.Expr:
        r, i = zr[t - 1, y, x], zi[t - 1, y, x]
        return r * r + i * i <= 4.0

    def real(t: te.Expr, y: te.Expr, x: te.Expr) -> te.Expr:
        r, i = zr[t - 1, y, x], zi[t - 1, y, x]
        return te.select(alive(t, y, x), r * r - i * i + (x.astype("float64") * (3.0 / width) - 2.25), r)

    def imag(t: te.Expr, y: te.Expr, x: te.Expr) -> te.Expr:
        r, i = zr[t - 1, y, x], zi[t - 1, y, x]
        return te.select(alive(t, y, x), 2.0 * r * i + (y.astype("float64") * (2.4 / size) - 1.23), i)

    steps_of = (
        te.compute(shape, real, name="real"),
        te.compute(shape, imag, name="imag"),
        te.compute(shape, lambda t, y, x: count[t - 1, y, x] + alive(t, y, x).astype("int32"), name="stay"),
    )
    _, _, counts = te.scan((zr0, zi0, none), steps_of, (zr, zi, count), name="orbit")
    return (te.compute((size, width), lambda y, x: counts[steps - 1, y, x], name="escape"),)


# -- sparse products -------------------------------------------------------------------------------


def _ell_inputs(rows: int, entries: int) -> Sequence[Array]:
    """Two thirds of the columns are near the diagonal, the others anywhere."""
    draw = np.random.default_rng(0)
    near = np.arange(rows)[:, None] + draw.integers(-500, 500, (rows, entries))
    anywhere = draw.integers(0, rows, (rows, entries))
    columns = np.where(draw.random((rows, entries)) < 2 / 3, near % rows, anywhere)
    values = draw.normal(size=(rows, entries)).astype("float32")
    return [values, np.sort(columns, axis=1).astype("int32"), draw.normal(size=rows).astype("float32")]


def _ell_numba(values, columns, x, out):  # type: ignore[no-untyped-def]
    rows, entries = values.shape
    for i in prange(rows):
        total = _F(0)
        for k in range(entries):
            total += values[i, k] * x[np.uint32(columns[i, k])]
        out[i] = total


def _ell_torch(torch: Any, functional: Any, values: Any, columns: Any, x: Any) -> Run:
    rows, entries = values.shape
    starts = torch.arange(0, rows * entries + 1, entries, dtype=torch.int32)
    matrix = torch.sparse_csr_tensor(starts, columns.reshape(-1), values.reshape(-1), (rows, rows))
    return lambda: torch.mv(matrix, x)


@program(
    lambda values, columns, x: (values.astype("float64") * x[columns]).sum(axis=1),
    inputs=_ell_inputs,
    numba=_ell_numba,
    torch=_ell_torch,
)
def spmv_ell(rows: int = 131072, entries: int = 16) -> tuple[te.Tensor, ...]:
    """y[i] = the sum of values[i, k] * x[columns[i, k]], values and columns [rows, entries]."""
    values = te.placeholder((rows, entries), name="values")
    columns = te.placeholder((rows, entries), "int32", name="columns")
    x = te.placeholder((rows,), name="x")
    k = te.reduce_axis((0, entries), "k")
    return values, columns, x, te.compute((rows,), lambda i: te.sum(values[i, k] * x[columns[i, k]], axis=k), name="y")


def _coo_inputs(rows: int, entries: int) -> Sequence[Array]:
    """Entries anywhere, in the order of rows."""
    draw = np.random.default_rng(0)
    row, column = np.sort(draw.integers(0, rows, entries)), draw.integers(0, rows, entries)
    values, x = (draw.normal(size=n).astype("float32") for n in (entries, rows))
    return [row.astype("int32"), column.astype("int32"), values, x]


def _coo_numba(row, column, values, x, out):  # type: ignore[no-untyped-def]
    parts = 2
    sums = np.zeros((parts, out.size), np.float32)
    for part in prange(parts):  # each thread adds into sums of its own: rows need not be in order
        mine = sums[part]
        for p in range(values.size * part // parts, values.size * (part + 1) // parts):
            mine[np.uint32(row[p])] += values[p] * x[np.uint32(column[p])]
    for i in prange(out.size):
        out[i] = sums[0, i] + sums[1, i]


def _coo_scipy(row: Array, column: Array, values: Array, x: Array) -> Array:
    import scipy.sparse

    return np.asarray(scipy.sparse.coo_array((values, (row, column)), (x.size, x.size)) @ x)


def _coo_torch(torch: Any, functional: Any, row: Any, column: Any, values: Any, x: Any) -> Run:
    return lambda: torch.zeros_like(x).index_add_(0, row, values * x[column])


@program(
    lambda row, column, values, x: np.bincount(row, values.astype("float64") * x[column], x.size),
    inputs=_coo_inputs,
    atol=1e-4,
    numba=_coo_numba,
    numpy=_coo_scipy,
    torch=_coo_torch,
)
def spmv_coo(rows: int = 65536, entries: int = 1 << 20) -> tuple[te.Tensor, ...]:
    """The sparse matrix of values[entries] at (row[entries], column[entries]) times x[rows]."""
    row, column = (te.placeholder((entries,), "int32", name=name) for name in ("row", "column"))
    values, x = te.placeholder((entries,), name="values"), te.placeholder((rows,), name="x")
    p = te.reduce_axis((0, entries), "p")
    y = te.scatter_reduce((rows,), lambda: (row[p], values[p] * x[column[p]]), axis=p, name="y")
    return row, column, values, x, y


# -- sorting ---------------------------------------------------------------------------------------


def _sort_numba(x, out):  # type: ignore[no-untyped-def]
    rows, n = x.shape
    for r in prange(rows):
        row, o = x[r], out[r]
        for j in range(n):
            v, rank = row[j], np.int32(0)
            for k in range(j):
                rank += np.int32(row[k] <= v)
            for k in range(j + 1, n):
                rank += np.int32(row[k] < v)
            o[rank] = v


@program(
    lambda x: np.sort(x, axis=1),
    inputs=lambda rows, n: [np.random.default_rng(0).normal(size=(rows, n)).astype("float32")],
    numba=_sort_numba,
    numpy=lambda x: np.sort(x, axis=1),
    torch=lambda torch, functional, x: lambda: torch.sort(x, dim=1)[0],
)
def rank_sort(rows: int = 16384, n: int = 32) -> tuple[te.Tensor, ...]:
    """x[rows, n] with each row sorted: an element goes where as many are before it as are smaller."""
    x = te.placeholder((rows, n), name="x")
    k, j = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "j")

    def before(i: te.Expr, j: te.Expr) -> te.Expr:
        smaller = te.any(x[i, k] < x[i, j], te.all(x[i, k] == x[i, j], k < j))
        return te.sum(smaller.astype("int32"), axis=k)

    rank = te.compute((rows, n), before, name="rank")
    return x, te.scatter_reduce((rows, n), lambda i: (rank[i, j], x[i, j]), axis=j, name="sorted")


# -- random numbers --------------------------------------------------------------------------------


def _mixed(h: Any) -> Any:
    """The bits of a uint32 stirred: the end of MurmurHash3."""
    h = (h ^ (h >> 16)) * 0x85EBCA6B
    h = (h ^ (h >> 13)) * 0xC2B2AE35
    return h ^ (h >> 16)


def _normals_reference(seed: Array, n: int = 1 << 20) -> Array:
    counter = np.arange(n, dtype="uint32")
    first, second = (_mixed((2 * counter + i) ^ seed[0]) for i in (np.uint32(0), np.uint32(1)))
    u, v = ((first >> 8) + 1.0) / (1 << 24), (second >> 8) / (1 << 24)
    return np.asarray(np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v))


@njit(fastmath=True)
def _log(x):  # type: ignore[no-untyped-def]
    """log of a normal float32, to 1e-5; loops over it are vectorized, unlike those over `np.log`."""
    bits = np.float32(x).view(np.int32)
    power = np.int32(np.int32(bits - np.int32(0x3F2AAAAB)) & np.int32(-8388608))
    f = np.int32(bits - power).view(np.float32) - _F(1)
    s = f * f
    r = (_F(0.230836749) * f - _F(0.279208571)) * s + (_F(0.331826031) * f - _F(0.498910338))
    return _F(power) * _F(1.1920929e-7 * 0.693147182) + (r * s + f)


def _normals_numba(seed, out):  # type: ignore[no-untyped-def]
    n, block, start = out.size, 4096, seed[0]
    for b in prange((n + block - 1) // block):
        o = out[b * block : b * block + block]
        for i in range(o.size):
            counter = np.uint32(b * block + i) << np.uint32(1)
            h = np.uint32(counter ^ start)
            h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
            h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
            u = _F(np.int32(((h ^ (h >> np.uint32(16))) >> np.uint32(8)) + np.uint32(1))) * _F(1 / (1 << 24))
            h = np.uint32((counter | np.uint32(1)) ^ start)
            h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
            h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
            v = _F(np.int32((h ^ (h >> np.uint32(16))) >> np.uint32(8))) * _F(1 / (1 << 24))
            z = (v - _F(0.5)) * (v - _F(0.5)) * _F(4 * np.pi * np.pi)
            cos = _F(1 / 20922789888000) * z - _F(1 / 87178291200)
            cos = (cos * z + _F(1 / 479001600)) * z - _F(1 / 3628800)
            cos = ((cos * z + _F(1 / 40320)) * z - _F(1 / 720)) * z + _F(1 / 24)
            cos = (cos * z - _F(0.5)) * z + _F(1)
            o[i] = -np.sqrt(_F(-2) * _log(u)) * cos


@program(
    _normals_reference,
    inputs=lambda n: [np.array([12345], "uint32")],
    numba=_normals_numba,
)
def random_normals(n: int = 1 << 20) -> tuple[te.Tensor, ...]:
    """n normally distributed numbers from seed[1] uint32: hashes of a counter, by Box and Muller."""
    seed = te.placeholder((1,), "uint32", name="seed")
    first = te.compute((n,), lambda i: _mixed((2 * i.astype("uint32")) ^ seed[0]), name="first")
    second = te.compute((n,), lambda i: _mixed((2 * i.astype("uint32") + 1) ^ seed[0]), name="second")
    u = te.compute((n,), lambda i: ((first[i] >> 8) + 1).astype("float32") * (1 / (1 << 24)), name="u")
    v = te.compute((n,), lambda i: (second[i] >> 8).astype("float32") * (1 / (1 << 24)), name="v")
    normal = te.compute((n,), lambda i: te.sqrt(-2.0 * te.log(u[i])) * te.cos(v[i] * (2 * np.pi)), name="normal")
    return seed, normal
