"""A workload for the command line's tests: small, quick, and of any number of channels."""

import numpy as np

from autosched import te, template, workload


def gradient(channels=3, dtype="uint8", height=24, width=32):
    return [(np.arange(height * width * channels) % 200).reshape(height, width, channels).astype(dtype)]


@workload(inputs=gradient)
def brighten(channels=3, dtype="uint8"):
    """Each element plus one."""
    height, width = te.var("height"), te.var("width")
    image = te.placeholder((height, width, channels), dtype, name="image")
    shape = (height, width, channels)
    return image, te.compute(shape, lambda y, x, c: image[y, x, c] + te.const(1, dtype), name="brighter")


@template(brighten, target="llvm")
def bands(s):
    stage = s["brighter"]
    outer, _ = stage.split(stage.op.axis[0], factor=s.define_knob("rows", [1, 2, 4, 8]))
    stage.parallel(outer)


@workload
def total(n=4):
    """The sum of a matrix's columns: not an image."""
    rows = te.var("rows")
    matrix = te.placeholder((rows, n), "float32", name="matrix")
    r = te.reduce_axis((0, n), name="r")
    return matrix, te.compute((rows,), lambda i: te.sum(matrix[i, r], axis=r), name="sums")
