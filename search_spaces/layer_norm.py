"""Layer normalization: each row shifted and scaled to mean 0 and variance 1, then scaled and shifted."""

import numpy as np

from autosched import te, template, workload
from autosched.space.gpu import add_up_rows, item_knob

EPSILON = 1e-5  #: keeps the scale of a constant row finite


def activations(rows=1024, columns=1024, dtype="float32"):
    """Rows about some mean, and the scales and shifts of a trained layer."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(rows, columns)) * 2 + draw.normal(size=(rows, 1))
    gamma, beta = 1 + draw.normal(size=columns) / 10, draw.normal(size=columns) / 10
    return [a.astype(dtype) for a in (x, gamma, beta)]


@workload(inputs=activations)
def layer_norm(rows=1024, columns=1024, dtype="float32"):
    """x[rows, columns], gamma[columns], beta[columns] -> (x - mean) / sqrt(variance + 1e-5) * gamma + beta.

    The variance is the mean of squared distances from the mean: the mean of squares less the square
    of the mean would need one pass less, and loses every digit where the mean is large. Halves are summed
    in float32, and rounded once.
    """
    sums = "float32" if dtype.endswith("float16") else dtype
    x = te.placeholder((rows, columns), dtype, name="x")
    gamma = te.placeholder((columns,), dtype, name="gamma")
    beta = te.placeholder((columns,), dtype, name="beta")
    share = te.const(1 / max(columns, 1), sums)
    k = te.reduce_axis((0, columns), name="k")
    total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k, dtype=sums), name="total")
    mean = te.compute((rows,), lambda i: total[i] * share, name="mean")
    distance = te.compute((rows, columns), lambda i, j: x[i, j].astype(sums) - mean[i], name="distance")
    c = te.reduce_axis((0, columns), name="c")
    squares = te.compute((rows,), lambda i: te.sum(distance[i, c] * distance[i, c], axis=c), name="squares")
    scale = te.compute((rows,), lambda i: te.rsqrt(squares[i] * share + te.const(EPSILON, sums)), name="scale")
    result = te.compute(
        (rows, columns),
        lambda i, j: (distance[i, j] * scale[i] * gamma[j] + beta[j]).astype(dtype),
        name="layer_norm",
    )
    return x, gamma, beta, result


@template(layer_norm, target="cpu")
def rows_in_cache(s):
    """A few rows at a time, in three passes over rows that stay in the first-level cache.

    A sum of several vectors of partial sums, whose lanes are added up at the end, is as wide as the
    rest. Several rows at a time, because the end of a sum is a chain of operations on few lanes.
    """
    result = s["layer_norm"]
    i, j = result.op.axis
    task, rest = result.split(i, factor=s.define_knob("task", [8, 16, 32, 64]))
    group, _ = result.split(rest, factor=s.define_knob("rows", [1, 2, 4]))
    _, lane = result.split(j, factor=s.define_knob("lanes", [16, 32, 64]))
    result.parallel(task)
    result.vectorize(lane)
    result.prefetch("x", group, s.define_knob("ahead", [1, 2]))
    s["distance"].compute_inline()
    for name in ("mean", "scale"):
        s[name].compute_at(result, group)
    for name in ("total", "squares"):
        whole = s[name]
        _, lane = whole.split(whole.loops[-1], factor=s.define_knob("partial", [32, 64, 128]))
        partial = s[s.rfactor(whole, lane, factor_axis=1)]
        whole.compute_at(result, group)
        whole.vectorize(whole.loops[-1])
        partial.compute_at(whole, whole.loops[0])
        _, lane = partial.op.axis
        partial.reorder(*partial.op.reduce_axis, lane)
        partial.vectorize(lane)


@template(layer_norm, target="gpu")
def groups(s):
    """A work-group for each row, which stays in the cache between the passes."""
    result, items = s["layer_norm"], item_knob(s)
    i, j = result.op.axis
    _, item = result.split(j, factor=items)
    result.bind(i, "blockIdx.x")
    result.bind(item, "threadIdx.x")
    for name in ("distance", "mean", "scale"):
        s[name].compute_inline()
    for name in ("total", "squares"):
        add_up_rows(s, s[name], result, i, items)
