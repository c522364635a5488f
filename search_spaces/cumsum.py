"""The cumulative sum of a matrix, down its columns (axis 0) or along its rows (axis 1).

Down the columns it is a scan over rows, each column by itself. Along a row nothing is parallel in
the plain recurrence, so a row is cut into blocks of a vector's length. The running sums inside a
block are its product with a triangle of ones; a scan over the blocks adds what came before.
"""

import numpy as np

from autosched import te, template, workload
from autosched.space.gpu import item_knob

#: elements of a block: what a vector register of 64 bytes holds
LANES = {"float16": 16, "bfloat16": 16, "float32": 16, "int32": 16, "float64": 8, "int64": 8}


def small_numbers(rows=1024, columns=1024, axis=1, dtype="float32"):
    """Random numbers, small enough that sums of floats keep their digits."""
    return [np.random.default_rng(0).integers(-4, 5, (rows, columns)).astype(dtype)]


@workload(inputs=small_numbers)
def cumsum(rows=1024, columns=1024, axis=1, dtype="float32"):
    """x[rows, columns] -> sums of the same shape and type: element i adds up elements 0 to i of the axis.

    Sums of halves are float32.
    """
    x = te.placeholder((rows, columns), dtype, name="x")
    sums = "float32" if dtype.endswith("float16") else dtype
    return x, _down(x, sums) if axis == 0 else _along(x, rows, columns, LANES[dtype], sums)


def _down(x, sums):
    state = te.placeholder(x.shape, sums, name="above")
    first = te.compute((1, x.shape[1]), lambda _, j: x[0, j].astype(sums), name="first")
    step = te.compute(x.shape, lambda t, j: state[t - 1, j] + x[t, j].astype(sums), name="step")
    return te.scan(first, step, state, inputs=[x], name="cumsum")


def _along(x, rows, columns, lanes, of):
    blocks = -(-columns // lanes)
    zero = te.const(0, of)
    k = te.reduce_axis((0, lanes), "k")

    def element(i, j):
        value = x[i, j].astype(of)
        return value if columns % lanes == 0 else te.if_then_else(j < columns, value, zero)

    triangle = te.compute((lanes, lanes), lambda k, j: te.select(k <= j, te.const(1, of), zero), name="triangle")
    inside = te.compute(
        (blocks, rows, lanes),
        lambda t, i, j: te.sum(element(i, t * lanes + k) * triangle[k, j], axis=k),
        name="inside",
    )
    state = te.placeholder((blocks + 1, rows, lanes), of, name="before")
    nothing = te.compute((1, rows, lanes), lambda t, i, j: zero, name="nothing")
    step = te.compute(
        (blocks + 1, rows, lanes), lambda t, i, j: inside[t - 1, i, j] + state[t - 1, i, lanes - 1], name="step"
    )
    sums = te.scan(nothing, step, state, inputs=[x], name="sums")
    return te.compute((rows, columns), lambda i, j: sums[j // lanes + 1, i, j % lanes], name="cumsum")


@template(cumsum, target="cpu")
def strips(s):
    """Parallel over columns or rows; what a thread keeps of its part stays in the first-level cache."""
    if s["cumsum"].scan_loop is not None:
        _strips_of_columns(s)
    else:
        _strips_of_rows(s)


def _strips_of_columns(s):
    """A strip of columns from top to bottom, as many bytes wide as keep the memory's pages busy."""
    sums = s["cumsum"]
    t, j = sums.op.axis
    strip, _ = sums.split(j, factor=s.define_knob("width", [32, 64, 128, 256, 512]))
    sums.reorder(strip, t)
    sums.parallel(strip)
    for name in ("first", "step"):
        _, lane = s[name].split(s[name].op.axis[1], factor=s.define_knob("lanes", [16, 32]))
        s[name].vectorize(lane)


def _strips_of_rows(s):
    """A few rows, block after block. A step is a chain of an addition and a read of what was just
    written; several rows are several chains that run side by side."""
    out, sums, step, inside = (s[name] for name in ("cumsum", "sums", "step", "inside"))
    i, j = out.op.axis
    task, rest = out.split(i, factor=s.define_knob("task", [8, 16, 32]))
    group, _ = out.split(rest, factor=s.define_knob("rows", [1, 2, 4]))
    out.parallel(task)
    out.vectorize(out.split(j, factor=s.define_knob("lanes", [16, 32]))[1])
    sums.compute_at(out, group)
    s["triangle"].compute_inline()
    inside.compute_at(sums, sums.op.scan_axis)
    t, row, lane = inside.op.axis
    (k,) = inside.op.reduce_axis
    inside.reorder(t, k, row, lane)
    inside.unroll(k)
    inside.unroll(row)
    inside.vectorize(lane)
    step.unroll(step.op.axis[1])
    step.vectorize(step.op.axis[2])


@template(cumsum, target="gpu")
def items(s):
    """A work-item for each column, or for each row."""
    sums = s["cumsum"]
    count = item_knob(s)
    if sums.scan_loop is not None:
        for name in ("first", "step"):
            block, item = s[name].split(s[name].op.axis[1], factor=count)
            s[name].bind(block, "blockIdx.x")
            s[name].bind(item, "threadIdx.x")
        return
    block, item = sums.split(sums.op.axis[0], factor=count)
    sums.bind(block, "blockIdx.x")
    sums.bind(item, "threadIdx.x")
    s["sums"].compute_at(sums, item)
