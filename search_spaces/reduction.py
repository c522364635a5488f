"""Sums over the rows and over the columns of a matrix.

Both read every element once and do next to nothing with it: what counts is that loads are wide,
that they follow one another as the prefetchers expect, and that no sum waits for the one before.
"""

import numpy as np

from autosched import te, template, workload
from autosched.space.gpu import add_up_rows, item_knob


def matrix(rows=4096, columns=4096, dtype="float32"):
    """Numbers between 0 and 1, or the integers that a byte can hold."""
    draw = np.random.default_rng(0)
    if "float" in dtype:
        return [draw.random((rows, columns)).astype(dtype)]
    return [draw.integers(0, 100, (rows, columns)).astype(dtype)]


@workload(inputs=matrix)
def row_sum(rows=4096, columns=4096, dtype="float32"):
    """data[rows, columns] -> sums[rows]; integers wrap, sums of halves are float32."""
    of = "float32" if dtype.endswith("float16") else dtype
    data = te.placeholder((rows, columns), dtype, name="data")
    k = te.reduce_axis((0, columns), "k")
    sums = te.compute((rows,), lambda i: te.sum(data[i, k], axis=k, dtype=of), name="row_sum")
    return data, sums


@workload(inputs=matrix)
def column_sum(rows=4096, columns=4096, dtype="float32"):
    """data[rows, columns] -> sums[columns]; integers wrap, sums of halves are float32."""
    of = "float32" if dtype.endswith("float16") else dtype
    data = te.placeholder((rows, columns), dtype, name="data")
    k = te.reduce_axis((0, rows), "k")
    sums = te.compute((columns,), lambda j: te.sum(data[k, j], axis=k, dtype=of), name="column_sum")
    return data, sums


@template(row_sum, target="cpu")
def lanes_of_sums(s):
    """A row is added up in as many independent sums as fill a few vector registers, then these."""
    total = s["row_sum"]
    block, row = total.split("i", factor=s.define_knob("rows", [4, 8, 16, 32, 64]))
    lanes = s.define_knob("lanes", [16, 32, 64, 128])
    total.split("k", factor=lanes)
    partial = s[s.rfactor("row_sum", "k.inner", factor_axis=-1)]
    partial.reorder("k.outer", "k.inner")
    partial.vectorize("k.inner")
    partial.compute_at(total, row)
    total.vectorize("k.inner.v")
    total.parallel(block)


@template(row_sum, target="cpu")
def pieces_of_rows(s):
    """Few long rows: each is cut into pieces for the threads to share, and a piece is added up as above."""
    total = s["row_sum"]
    total.split("k", nparts=s.define_knob("pieces", [2, 4, 8, 16]))
    pieces = s[s.rfactor("row_sum", "k.outer")]
    pieces.split("k.inner", factor=s.define_knob("lanes", [16, 32, 64, 128]))
    partial = s[s.rfactor(pieces.tensor, "k.inner.inner", factor_axis=-1)]
    task = pieces.fuse("k.outer", "i")
    partial.reorder("k.inner.outer", "k.inner.inner")
    partial.vectorize("k.inner.inner")
    partial.compute_at(pieces, task)
    pieces.vectorize("k.inner.inner.v")
    pieces.parallel(task)


@template(column_sum, target="cpu")
def bands_of_rows(s):
    """A block of columns, short enough for its sums to stay in the L1 cache, a few rows at a time.

    Each element of the block is read and written once for a whole band of rows.
    """
    total = s["column_sum"]
    block, column = total.split("j", factor=s.define_knob("columns", [256, 512, 1024, 2048]))
    vector, lane = total.split(column, factor=s.define_knob("lanes", [16, 32, 64]))
    band, row = total.split("k", factor=s.define_knob("rows", [1, 2, 4, 8, 16]))
    total.reorder(block, band, vector, row, lane)
    total.unroll(row)
    total.vectorize(lane)
    total.parallel(block)


@template(column_sum, target="cpu")
def sums_in_registers(s):
    """A few vectors of neighbouring columns from top to bottom, their sums in registers all the way."""
    total = s["column_sum"]
    block, lane = total.split("j", factor=s.define_knob("lanes", [32, 64, 128, 256]))
    band, row = total.split("k", factor=s.define_knob("rows", [1, 2, 4]))
    total.reorder(block, band, row, lane)
    total.unroll(row)
    total.vectorize(lane)
    total.parallel(block)


@template(column_sum, target="cpu")
def bands_for_threads(s):
    """Few columns, many rows: each thread adds up bands of whole rows, and the sums of the bands are added."""
    total = s["column_sum"]
    total.split("k", nparts=s.define_knob("bands", [2, 4, 8, 16]))
    bands = s[s.rfactor("column_sum", "k.outer")]
    block, lane = bands.split("j", factor=s.define_knob("lanes", [16, 32, 64]))
    steps, row = bands.split("k.inner", factor=s.define_knob("rows", [1, 4, 8]))
    bands.reorder("k.outer", steps, block, row, lane)
    bands.unroll(row)
    bands.vectorize(lane)
    bands.parallel("k.outer")


@template(row_sum, target="gpu")
def groups(s):
    """A work-group for each row: its work-items read neighbouring elements, and add up together."""
    total = s["row_sum"]
    total.bind("i", "blockIdx.x")
    add_up_rows(s, total, total, total.loops[0], item_knob(s))


@template(column_sum, target="gpu")
def columns(s):
    """A work-item for a few neighbouring columns; groups of rows side by side, and added up at the end."""
    total = s["column_sum"]
    lanes, items = s.define_knob("lanes", [1, 2, 4]), item_knob(s)
    bands = s.define_knob("bands", [1, 2, 4, 8])
    band, _ = total.split("k", nparts=bands)
    partial = s[s.rfactor(total, band, factor_axis=0)]
    block, column = total.split("j", factor=items * lanes)
    item, lane = total.split(column, factor=lanes)
    total.reorder(block, item, *(x for x in total.loops if x.is_reduce), lane)
    total.bind(block, "blockIdx.x")
    total.bind(item, "threadIdx.x")
    total.vectorize(lane)
    partial.compute_at(total, block)
    partial.set_scope("shared")
    band, column = partial.op.axis
    item, lane = partial.split(column, factor=lanes)
    partial.reorder(band, item, *partial.reduce_loops, lane)
    partial.bind(band, "threadIdx.y")
    partial.bind(item, "threadIdx.x")
    partial.vectorize(lane)
