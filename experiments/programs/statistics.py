"""Reductions as statistics and machine learning need them."""

from __future__ import annotations

import numpy as np

from autosched import te

from . import prange, program

Array = np.ndarray


def _normal(*shape: int) -> list[Array]:
    return [np.random.default_rng(0).normal(size=shape).astype("float32")]


def _mean_variance_numba(x, mean, variance):  # type: ignore[no-untyped-def]
    rows, columns = x.shape
    for i in prange(rows):
        total = np.float32(0)
        for k in range(columns):
            total += x[i, k]
        middle = total / np.float32(columns)
        squares = np.float32(0)
        for k in range(columns):
            squares += (x[i, k] - middle) * (x[i, k] - middle)
        mean[i] = middle
        variance[i] = squares / np.float32(columns)


def _mean_variance_torch(torch, nn, x):  # type: ignore[no-untyped-def]
    return lambda: torch.var_mean(x, dim=1, correction=0)[::-1]


@program(
    lambda x: (x.mean(axis=1), x.var(axis=1)),
    inputs=lambda rows, columns: _normal(rows, columns),
    numba=_mean_variance_numba,
    torch=_mean_variance_torch,
)
def mean_variance(rows: int = 2048, columns: int = 2048) -> tuple[te.Tensor, ...]:
    """x[rows, columns] -> mean and variance of each row."""
    x = te.placeholder((rows, columns), name="x")
    k, m = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "m")
    total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name="total")
    mean = te.compute((rows,), lambda i: total[i] / columns, name="mean")
    square = te.compute((rows, columns), lambda i, j: (x[i, j] - mean[i]) * (x[i, j] - mean[i]), name="square")
    squares = te.compute((rows,), lambda i: te.sum(square[i, m], axis=m), name="squares")
    variance = te.compute((rows,), lambda i: squares[i] / columns, name="variance")
    return x, mean, variance


def _covariance_blas(x: Array) -> Array:
    centred = x - x.mean(axis=0)
    return centred.T @ centred / np.float32(len(x) - 1)


def _covariance_torch(torch, nn, x):  # type: ignore[no-untyped-def]
    return lambda: torch.cov(x.T)


@program(lambda x: np.cov(x.T.astype("float64")).astype("float32"), numpy=_covariance_blas, torch=_covariance_torch)
def covariance(rows: int = 4096, columns: int = 128) -> tuple[te.Tensor, ...]:
    """x[rows, columns] -> the covariance matrix[columns, columns] of the columns."""
    x = te.placeholder((rows, columns), name="x")
    k, m = te.reduce_axis((0, rows), "k"), te.reduce_axis((0, rows), "m")
    total = te.compute((columns,), lambda j: te.sum(x[m, j], axis=m), name="total")
    mean = te.compute((columns,), lambda j: total[j] / rows, name="mean")
    centred = te.compute((rows, columns), lambda i, j: x[i, j] - mean[j], name="centred")
    products = te.compute(
        (columns, columns), lambda i, j: te.sum(centred[k, i] * centred[k, j], axis=k), name="products"
    )
    return x, te.compute((columns, columns), lambda i, j: products[i, j] / (rows - 1), name="covariance")


def _argmax_numba(x, index):  # type: ignore[no-untyped-def]
    rows, columns = x.shape
    for i in prange(rows):
        largest = x[i, 0]
        for k in range(columns):
            largest = max(largest, x[i, k])
        for k in range(columns):
            if x[i, k] == largest:
                index[i] = k
                break


def _argmax_torch(torch, nn, x):  # type: ignore[no-untyped-def]
    return lambda: torch.argmax(x, dim=1)


@program(
    lambda x: x.argmax(axis=1).astype("int32"),
    inputs=lambda rows, columns: _normal(rows, columns),
    numba=_argmax_numba,
    torch=_argmax_torch,
)
def argmax_rows(rows: int = 128, columns: int = 32000) -> tuple[te.Tensor, ...]:
    """x[rows, columns] -> where the largest of each row is: the next words of a language model."""
    x = te.placeholder((rows, columns), name="x")
    k = te.reduce_axis((0, columns), "k")
    index, _ = te.compute((rows,), lambda i: te.argmax(x[i, k], axis=k), name="largest")
    return x, index


def _top_4_numpy(x: Array) -> tuple[Array, Array]:
    places = np.argsort(-x, axis=1, kind="stable")[:, :4]
    return places.astype("int32"), np.take_along_axis(x, places, axis=1)


def _top_4_numba(x, places, values):  # type: ignore[no-untyped-def]
    rows, columns = x.shape
    for i in prange(rows):
        for r in range(4):
            values[i, r] = -np.inf
        least = values[i, 3]
        for k in range(columns):
            if x[i, k] > least:
                r = 3
                while r > 0 and x[i, k] > values[i, r - 1]:
                    values[i, r] = values[i, r - 1]
                    places[i, r] = places[i, r - 1]
                    r -= 1
                values[i, r] = x[i, k]
                places[i, r] = k
                least = values[i, 3]


def _top_4_torch(torch, nn, x):  # type: ignore[no-untyped-def]
    return lambda: torch.topk(x, 4, dim=1)[::-1]


@program(
    _top_4_numpy,
    inputs=lambda rows, columns: _normal(rows, columns),
    numba=_top_4_numba,
    torch=_top_4_torch,
)
def top_4(rows: int = 512, columns: int = 4096) -> tuple[te.Tensor, ...]:
    """x[rows, columns] -> places[rows, 4] and values[rows, 4] of the largest four of each row, the largest first."""
    x = te.placeholder((rows, columns), name="x")
    places: list[te.Tensor] = []
    values: list[te.Tensor] = []
    for rank in range(4):
        k = te.reduce_axis((0, columns), "k")

        def best(i: te.Expr, k: te.IterVar = k, before: tuple[te.Tensor, ...] = tuple(places)) -> tuple[te.Expr, ...]:
            return te.argmax((k, x[i, k]), axis=k, where=te.all(True, *(k != place[i] for place in before)))

        place, value = te.compute((rows,), best, name=f"best{rank}")
        places.append(place)
        values.append(value)

    def ranked(of: list[te.Tensor], name: str) -> te.Tensor:
        def chosen(i: te.Expr, r: te.Expr) -> te.Expr:
            first, second, third, fourth = (t[i] for t in of)
            rest = te.if_then_else(r == 2, third, fourth)
            return te.if_then_else(r == 0, first, te.if_then_else(r == 1, second, rest))

        return te.compute((rows, 4), chosen, name=name)

    return x, ranked(places, "places"), ranked(values, "values")


def _k_means_numpy(points: Array, centres: Array) -> tuple[Array, Array]:
    near = ((centres**2).sum(axis=1) - 2 * points @ centres.T).argmin(axis=1)
    sums = np.zeros_like(centres)
    np.add.at(sums, near, points)
    counts = np.bincount(near, minlength=len(centres)).astype("float32")
    return near.astype("int32"), sums / np.maximum(counts, 1)[:, None]


def _k_means_numba(points, centres, near, moved):  # type: ignore[no-untyped-def]
    count, size = centres.shape
    across = centres.T.copy()
    bands = 8
    sums = np.zeros((bands, count, size), np.float32)
    members = np.zeros((bands, count), np.float32)
    for band in prange(bands):
        distance = np.empty(count, np.float32)
        for p in range(band * len(points) // bands, (band + 1) * len(points) // bands):
            distance[:] = 0
            for d in range(size):
                for c in range(count):
                    distance[c] += (points[p, d] - across[d, c]) * (points[p, d] - across[d, c])
            best = 0
            for c in range(1, count):
                if distance[c] < distance[best]:
                    best = c
            near[p] = best
            members[band, best] += 1
            for d in range(size):
                sums[band, best, d] += points[p, d]
    for c in range(count):
        total = np.float32(0)
        for band in range(bands):
            total += members[band, c]
        for d in range(size):
            new = np.float32(0)
            for band in range(bands):
                new += sums[band, c, d]
            moved[c, d] = new / max(total, np.float32(1))


def _k_means_torch(torch, nn, points, centres):  # type: ignore[no-untyped-def]
    ones = torch.ones(len(points))

    def run():  # type: ignore[no-untyped-def]
        near = torch.addmm((centres * centres).sum(1), points, centres.T, alpha=-2).argmin(1)
        sums = torch.zeros_like(centres).index_add_(0, near, points)
        counts = torch.zeros(len(centres)).index_add_(0, near, ones)
        return near, sums / counts.clamp_(min=1).unsqueeze(1)

    return run


@program(_k_means_numpy, numba=_k_means_numba, torch=_k_means_torch)
def k_means_step(n: int = 16384, count: int = 32, size: int = 16) -> tuple[te.Tensor, ...]:
    """points[n, size], centres[count, size] -> the nearest centre of each point, and the means of their points."""
    points, centres = te.placeholder((n, size), name="points"), te.placeholder((count, size), name="centres")
    d, c = te.reduce_axis((0, size), "d"), te.reduce_axis((0, count), "c")
    p, q, e = te.reduce_axis((0, n), "p"), te.reduce_axis((0, n), "q"), te.reduce_axis((0, size), "e")
    square = te.compute(
        (n, count, size), lambda i, j, k: (points[i, k] - centres[j, k]) * (points[i, k] - centres[j, k]), name="square"
    )
    distance = te.compute((n, count), lambda i, j: te.sum(square[i, j, d], axis=d), name="distance")
    near, _ = te.compute((n,), lambda i: te.argmin(distance[i, c], axis=c), name="near")
    sums = te.scatter_reduce((count, size), lambda: ((near[p], e), points[p, e]), axis=[p, e], name="sums")
    members = te.scatter_reduce((count,), lambda: (near[q], te.const(1.0)), axis=q, name="members")
    moved = te.compute((count, size), lambda i, j: sums[i, j] / te.max(members[i], 1.0), name="moved")
    return points, centres, near, moved


def _log_sum_exp_numpy(x: Array) -> Array:
    largest = x.max(axis=1)
    return largest + np.log(np.exp(x - largest[:, None]).sum(axis=1))


def _log_sum_exp_numba(x, out):  # type: ignore[no-untyped-def]
    rows, columns = x.shape
    for i in prange(rows):
        largest = x[i, 0]
        for k in range(columns):
            largest = max(largest, x[i, k])
        total = np.float32(0)
        for k in range(columns):
            total += np.exp(x[i, k] - largest)
        out[i] = largest + np.log(total)


def _log_sum_exp_torch(torch, nn, x):  # type: ignore[no-untyped-def]
    return lambda: torch.logsumexp(x, dim=1)


@program(
    _log_sum_exp_numpy,
    inputs=lambda rows, columns: _normal(rows, columns),
    numba=_log_sum_exp_numba,
    torch=_log_sum_exp_torch,
)
def log_sum_exp(rows: int = 1024, columns: int = 2048) -> tuple[te.Tensor, ...]:
    """x[rows, columns] -> log(sum(exp(x))) of each row, by way of its largest."""
    x = te.placeholder((rows, columns), name="x")
    k, m = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "m")
    largest = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), name="largest")
    power = te.compute((rows, columns), lambda i, j: te.exp(x[i, j] - largest[i]), name="power")
    total = te.compute((rows,), lambda i: te.sum(power[i, m], axis=m), name="total")
    return x, te.compute((rows,), lambda i: te.log(total[i]) + largest[i], name="log_sum_exp")


def _extent_numba(x, least, largest, total):  # type: ignore[no-untyped-def]
    bands, lanes = 16, 64
    low, high = np.empty((bands, lanes), np.float32), np.empty((bands, lanes), np.float32)
    sums = np.zeros((bands, lanes), np.float32)
    rows = x.reshape(-1, lanes)
    for band in prange(bands):
        part = rows[band * len(rows) // bands : (band + 1) * len(rows) // bands]
        small, large, added = low[band], high[band], sums[band]
        small[:] = part[0]
        large[:] = part[0]
        for i in range(len(part)):
            for j in range(lanes):
                value = part[i, j]
                small[j] = value if value < small[j] else small[j]
                large[j] = value if value > large[j] else large[j]
                added[j] += value
    least[()] = low.min()
    largest[()] = high.max()
    total[()] = sums.sum()


def _extent_torch(torch, nn, x):  # type: ignore[no-untyped-def]
    return lambda: (*torch.aminmax(x), torch.sum(x))


@program(lambda x: (x.min(), x.max(), x.sum()), numba=_extent_numba, torch=_extent_torch)
def min_max_sum(n: int = 1 << 23) -> tuple[te.Tensor, ...]:
    """x[n] -> the least, the largest and the sum of all."""
    x = te.placeholder((n,), name="x")
    a, b, c = (te.reduce_axis((0, n), name) for name in "abc")
    least = te.compute((), lambda: te.min(x[a], axis=a), name="least")
    largest = te.compute((), lambda: te.max(x[b], axis=b), name="largest")
    total = te.compute((), lambda: te.sum(x[c], axis=c), name="total")
    return x, least, largest, total


def _standardise_numpy(x: Array) -> Array:
    return (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + np.float32(1e-5))


def _standardise_numba(x, out):  # type: ignore[no-untyped-def]
    rows, columns = x.shape
    bands = 8
    sums, squares = np.zeros((bands, columns), np.float32), np.zeros((bands, columns), np.float32)
    for band in prange(bands):
        for i in range(band * rows // bands, (band + 1) * rows // bands):
            for j in range(columns):
                sums[band, j] += x[i, j]
    mean, scale = np.zeros(columns, np.float32), np.zeros(columns, np.float32)
    for band in range(bands):
        for j in range(columns):
            mean[j] += sums[band, j] / np.float32(rows)
    for band in prange(bands):
        for i in range(band * rows // bands, (band + 1) * rows // bands):
            for j in range(columns):
                squares[band, j] += (x[i, j] - mean[j]) * (x[i, j] - mean[j])
    for band in range(bands):
        for j in range(columns):
            scale[j] += squares[band, j] / np.float32(rows)
    for j in range(columns):
        scale[j] = np.float32(1) / np.sqrt(scale[j] + np.float32(1e-5))
    for i in prange(rows):
        for j in range(columns):
            out[i, j] = (x[i, j] - mean[j]) * scale[j]


def _standardise_torch(torch, nn, x):  # type: ignore[no-untyped-def]
    return lambda: nn.batch_norm(x, None, None, training=True, eps=1e-5)


@program(_standardise_numpy, numba=_standardise_numba, torch=_standardise_torch)
def standardise(rows: int = 16384, columns: int = 128) -> tuple[te.Tensor, ...]:
    """x[rows, columns] -> each column less its mean, divided by its standard deviation."""
    x = te.placeholder((rows, columns), name="x")
    k, m = te.reduce_axis((0, rows), "k"), te.reduce_axis((0, rows), "m")
    total = te.compute((columns,), lambda j: te.sum(x[k, j], axis=k), name="total")
    mean = te.compute((columns,), lambda j: total[j] / rows, name="mean")
    centred = te.compute((rows, columns), lambda i, j: x[i, j] - mean[j], name="centred")
    squares = te.compute((columns,), lambda j: te.sum(centred[m, j] * centred[m, j], axis=m), name="squares")
    deviation = te.compute((columns,), lambda j: te.sqrt(squares[j] / rows + 1e-5), name="deviation")
    return x, te.compute((rows, columns), lambda i, j: centred[i, j] / deviation[j], name="standardised")


def _pairwise_blas(a: Array, b: Array) -> Array:
    out = a @ b.T
    out *= -2
    out += (a * a).sum(axis=1)[:, None]
    out += (b * b).sum(axis=1)
    return out


def _pairwise_numba(a, b, out):  # type: ignore[no-untyped-def]
    across = b.T.copy()
    for i in prange(len(a)):
        out[i] = 0
        for d in range(a.shape[1]):
            for j in range(len(b)):
                out[i, j] += (a[i, d] - across[d, j]) * (a[i, d] - across[d, j])


def _pairwise_torch(torch, nn, a, b):  # type: ignore[no-untyped-def]
    return lambda: torch.addmm((a * a).sum(1, keepdim=True) + (b * b).sum(1), a, b.T, alpha=-2)


@program(
    lambda a, b: ((a[:, None] - b[None]) ** 2).sum(axis=2),
    numba=_pairwise_numba,
    numpy=_pairwise_blas,
    torch=_pairwise_torch,
)
def pairwise_distances(n: int = 1024, m: int = 1024, size: int = 64) -> tuple[te.Tensor, ...]:
    """a[n, size], b[m, size] -> squared distances[n, m] between the points of both."""
    a, b = te.placeholder((n, size), name="a"), te.placeholder((m, size), name="b")
    k = te.reduce_axis((0, size), "k")
    between = te.compute((n, m, size), lambda i, j, d: a[i, d] - b[j, d], name="between")
    squares = te.compute((n, m), lambda i, j: te.sum(between[i, j, k] * between[i, j, k], axis=k), name="squares")
    return a, b, squares
