"""A matrix times a vector.

Every element of the matrix is read once, so that the memory sets the pace; the vector stays in the cache.
"""

import numpy as np

from autosched import te, template, workload
from autosched.space.gpu import add_up_rows, item_knob


def operands(rows=4096, columns=4096, dtype="float32"):
    """Numbers between 0 and 1, or small integers."""
    draw = np.random.default_rng(0)
    shapes = (rows, columns), (columns,)
    if "float" in dtype:
        return [draw.random(shape).astype(dtype) for shape in shapes]
    return [draw.integers(0, 10, shape).astype(dtype) for shape in shapes]


@workload(inputs=operands)
def gemv(rows=4096, columns=4096, dtype="float32"):
    """matrix[rows, columns], vector[columns] -> product[rows]; integers wrap, sums of halves are float32."""
    sums = "float32" if dtype.endswith("float16") else dtype
    matrix = te.placeholder((rows, columns), dtype, name="matrix")
    vector = te.placeholder((columns,), dtype, name="vector")
    k = te.reduce_axis((0, columns), "k")
    product = te.compute(
        (rows,), lambda i: te.sum(matrix[i, k].astype(sums) * vector[k].astype(sums), axis=k), name="gemv"
    )
    return matrix, vector, product


@template(gemv, target="cpu")
def rows_together(s):
    """A few rows at a time, so that what is loaded of the vector serves all of them, and each in
    several independent sums, so that no addition waits for the one before."""
    product = s["gemv"]
    rows, row = product.split("i", factor=s.define_knob("rows", [1, 2, 4, 8]))
    task, rows = product.split(rows, factor=s.define_knob("groups", [2, 4, 8, 16]))
    product.split("k", factor=s.define_knob("lanes", [16, 32, 64]))
    partial = s[s.rfactor("gemv", "k.inner", factor_axis=-1)]
    partial.compute_at(product, rows)
    partial.reorder("k.outer", "i", "k.inner")
    partial.unroll("i")
    partial.vectorize("k.inner")
    product.unroll(row)
    product.vectorize("k.inner.v")
    product.parallel(task)


@template(gemv, target="gpu")
def groups(s):
    """A work-group for each row: its work-items read neighbouring elements, and add up together."""
    product = s["gemv"]
    product.bind("i", "blockIdx.x")
    add_up_rows(s, product, product, product.loops[0], item_knob(s))
