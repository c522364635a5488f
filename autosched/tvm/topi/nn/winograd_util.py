"""`tvm.topi.nn.winograd_util`: the matrices of Winograd's (Toom's and Cook's) way of convolving a tile.

y = A^T [(G g) * (B^T d)]        n outputs y of a filter g of length r, from n + r - 1 values d
"""

from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np

from autosched.errors import UsageError
from autosched.te.tensor import Tensor
from autosched.tvm._missing import missing
from autosched.tvm.topi.utils import const_matrix

#: n + r - 2 -> where polynomials are evaluated, beside infinity: those with the smallest errors by Barabasz, Anderson,
#: Soodhalter and Gregg (arXiv:1803.10986), up to the 13 of the largest tile and filter
_POINTS = {
    3: "0 -1 1",
    4: "0 -1 1 1/2",
    5: "0 -1 1 1/2 -2",
    6: "0 -1 1 1/2 -2 -1/2",
    7: "0 -1 1 1/2 -1/2 2 -2",
    8: "0 -1 1 1/2 -1/2 2 -2 -1/4",
    9: "0 -1 1 1/2 -1/2 2 -2 -1/4 4",
    10: "0 -1 1 1/2 -1/2 2 -2 -1/4 3/4 -4/3",
    11: "0 -1 1 1/2 -1/2 2 -2 -1/4 4 3/4 -4/3",
    12: "0 -1 1 1/2 -1/2 2 -2 -1/4 4 3/4 -4/3 1/4",
    13: "0 -1 1 1/2 -1/2 2 -2 -1/4 4 1/4 -3/4 4/3 -4",
}


def winograd_transform_matrices(tile_size: int, kernel_size: int, out_dtype: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return A [a, n], B [a, a] and G [a, r] for n outputs of a filter of length r, a = n + r - 1, as tensors.

    `B^T d` and `G g` are written `B[k, a]` and `G[a, k]` in sums over k. Raises UsageError for other sizes.
    """
    if not (1 < tile_size < 9 and 2 < kernel_size < 8):
        asked = f"winograd_transform_matrices({tile_size}, {kernel_size})"
        raise UsageError("there are no points for it", asked=asked, legal="tiles of 2 to 8, filters of 3 to 7")
    a, b, g = (np.array(m, dtype="float64").astype(out_dtype) for m in matrices(tile_size, kernel_size))
    return const_matrix(a, "A"), const_matrix(b, "B"), const_matrix(g, "G")


Rows = list[list[Fraction]]


def matrices(tile_size: int, kernel_size: int) -> tuple[Rows, Rows, Rows]:
    """A, B and G, exactly. Rows of G are divided, columns of B multiplied, by what makes B short numbers."""
    points = [Fraction(x) for x in _POINTS[tile_size + kernel_size - 2].split()]
    size = len(points) + 1
    scale = [prod((p - q for q in points if q != p), start=Fraction(1)) for p in points]
    scale = [abs(scale[0]), *scale[1:], Fraction(1)]
    g = [[x / f for x in row] for row, f in zip(_evaluated(points, kernel_size), scale, strict=True)]
    b = [[x * f for x, f in zip(row, scale, strict=True)] for row in _inverse(_evaluated(points, size))]
    return _evaluated(points, tile_size), b, g


def _evaluated(points: list[Fraction], count: int) -> Rows:
    """The powers of each point; at infinity, the last coefficient."""
    return [*([p**k for k in range(count)] for p in points), [Fraction(k == count - 1) for k in range(count)]]


def _inverse(rows: Rows) -> Rows:
    """The inverse of a square matrix that has one."""
    size = len(rows)
    work = [[*row, *(Fraction(i == k) for k in range(size))] for i, row in enumerate(rows)]
    for i in range(size):
        pivot = next(k for k in range(i, size) if work[k][i])
        work[i], work[pivot] = work[pivot], work[i]
        work[i] = [x / work[i][i] for x in work[i]]
        for k in range(size):
            if k != i and work[k][i]:
                work[k] = [x - work[k][i] * y for x, y in zip(work[k], work[i], strict=True)]
    return [row[size:] for row in work]


__getattr__ = missing("topi.nn.winograd_util", globals())
