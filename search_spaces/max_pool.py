"""3x3 max pooling with stride 2 and a border of 1 on NCHW data, as in a ResNet.

A border that never wins may as well repeat the edge, which is in the window anyway; and the
greatest of a window is the greatest of its columns' greatest, which neighbouring windows share.
"""

import numpy as np

from autosched import te, template, workload
from autosched.space.gpu import bind_elements


def image(batch=1, channels=64, height=112, width=112, dtype="float32"):
    """Normally distributed numbers, or small integers."""
    draw, shape = np.random.default_rng(0), (batch, channels, height, width)
    if "float" in dtype:
        return [draw.standard_normal(shape).astype(dtype)]
    return [draw.integers(0, 100, shape).astype(dtype)]


@workload(inputs=image)
def max_pool(batch=1, channels=64, height=112, width=112, dtype="float32"):
    """image[n, c, h, w] -> the greatest of each window, of shape [n, c, (h + 1)//2, (w + 1)//2]."""
    source = te.placeholder((batch, channels, height, width), dtype, name="image")
    rows, columns = (height + 1) // 2, (width + 1) // 2

    def greatest(read, at, last):
        return te.max(te.max(read(te.max(at - 1, 0)), read(at)), read(te.min(at + 1, last)))

    tallest = te.compute(
        (batch, channels, rows, width),
        lambda n, c, y, x: greatest(lambda row: source[n, c, row, x], 2 * y, height - 1),
        name="tallest",
    )
    pooled = te.compute(
        (batch, channels, rows, columns),
        lambda n, c, y, x: greatest(lambda column: tallest[n, c, y, column], 2 * x, width - 1),
        name="max_pool",
    )
    return source, pooled


@template(max_pool, target="cpu")
def row_buffer(s):
    """The columns' greatest of one row of windows in a buffer that stays in the L1 cache."""
    pooled, tallest = s["max_pool"], s["tallest"]
    lanes = s.define_knob("lanes", [8, 16, 32])
    n, c, y, x = pooled.op.axis
    _, lane = pooled.split(x, factor=lanes)
    band, row = pooled.split(y, factor=s.define_knob("rows", [1, 2, 4, 8]))
    pooled.parallel(pooled.fuse(n, c, band))
    pooled.vectorize(lane)
    tallest.compute_at(pooled, row)
    _, lane = tallest.split("x", factor=lanes)
    tallest.vectorize(lane)


@template(max_pool, target="cpu")
def all_nine(s):
    """Every element of a window is read for it: no buffer, but more to do."""
    pooled = s["max_pool"]
    s["tallest"].compute_inline()
    n, c, y, x = pooled.op.axis
    _, lane = pooled.split(x, factor=s.define_knob("lanes", [8, 16, 32]))
    band, _ = pooled.split(y, factor=s.define_knob("rows", [1, 2, 4, 8]))
    pooled.parallel(pooled.fuse(n, c, band))
    pooled.vectorize(lane)


@template(max_pool, target="gpu")
def windows(s):
    """One work-item for a few neighbouring windows; what they share, the cache holds."""
    s["tallest"].compute_inline()
    bind_elements(s, s["max_pool"])
