"""Softmax of each row: exponentials, scaled so that they add up to 1."""

import numpy as np

from autosched import te, template, workload
from autosched.space.gpu import add_up_rows, item_knob


def scores(rows=1024, columns=1024, dtype="float32"):
    """Scores as a classifier gives them, a few units apart."""
    return [(np.random.default_rng(0).normal(size=(rows, columns)) * 3).astype(dtype)]


@workload(inputs=scores)
def softmax(rows=1024, columns=1024, dtype="float32"):
    """x[rows, columns] -> exp(x - max) / sum(exp(x - max)) of each row.

    Subtracting the largest of the row keeps every exponential in range. Halves are summed in float32.
    """
    sums = "float32" if dtype.endswith("float16") else dtype
    x = te.placeholder((rows, columns), dtype, name="x")
    k = te.reduce_axis((0, columns), name="k")
    largest = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), name="largest")
    power = te.compute(
        (rows, columns), lambda i, j: te.exp(x[i, j].astype(sums) - largest[i].astype(sums)), name="power"
    )
    c = te.reduce_axis((0, columns), name="c")
    total = te.compute((rows,), lambda i: te.sum(power[i, c], axis=c), name="total")
    scale = te.compute((rows,), lambda i: te.const(1, sums) / total[i], name="scale")
    result = te.compute((rows, columns), lambda i, j: (power[i, j] * scale[i]).astype(dtype), name="softmax")
    return x, result


@template(softmax, target="cpu")
def rows_in_cache(s):
    """A few rows at a time, in four passes over rows that stay in the first-level cache.

    A reduction of several vectors of partial results, whose lanes are combined at the end, is as wide
    as the rest. Several rows at a time, because that end is a chain of operations on few lanes.
    """
    result = s["softmax"]
    lanes = s.define_knob("lanes", [16, 32, 64])
    i, j = result.op.axis
    task, rest = result.split(i, factor=s.define_knob("task", [8, 16, 32, 64]))
    group, _ = result.split(rest, factor=s.define_knob("rows", [1, 2, 4]))
    _, lane = result.split(j, factor=lanes)
    result.parallel(task)
    result.vectorize(lane)
    result.prefetch("x", group, s.define_knob("ahead", [1, 2]))
    power = s["power"]
    power.compute_at(result, group)
    _, lane = power.split(power.op.axis[1], factor=lanes)
    power.vectorize(lane)
    for name in ("largest", "total"):
        whole = s[name]
        whole.compute_at(result, group)
        _, lane = whole.split(whole.loops[-1], factor=s.define_knob("partial", [32, 64, 128]))
        partial = s[s.rfactor(whole, lane, factor_axis=1)]
        partial.compute_at(whole, whole.loops[0])
        whole.vectorize(whole.loops[-1])
        _, lane = partial.op.axis
        partial.reorder(*partial.op.reduce_axis, lane)
        partial.vectorize(lane)
    s["scale"].compute_at(result, group)


@template(softmax, target="gpu")
def groups(s):
    """A work-group for each row. Exponentials are taken again where they are needed: a row of them
    in shared memory would leave room for few groups at a time."""
    result, items = s["softmax"], item_knob(s)
    i, j = result.op.axis
    _, item = result.split(j, factor=items)
    result.bind(i, "blockIdx.x")
    result.bind(item, "threadIdx.x")
    for name in ("scale", "power"):
        s[name].compute_inline()
    for name in ("largest", "total"):
        add_up_rows(s, s[name], result, i, items)
