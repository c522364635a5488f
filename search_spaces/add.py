"""The sum of two matrices, element by element: nothing but reading and writing."""

import numpy as np

from autosched import te, template, workload
from autosched.space.gpu import bind_elements


def operands(rows=4096, columns=4096, dtype="float32"):
    """Numbers between 0 and 1, or small integers."""
    draw = np.random.default_rng(0)
    if "float" in dtype:
        return [draw.random((rows, columns)).astype(dtype) for _ in range(2)]
    return [draw.integers(0, 50, (rows, columns)).astype(dtype) for _ in range(2)]


@workload(inputs=operands)
def add(rows=4096, columns=4096, dtype="float32"):
    """a[rows, columns] + b[rows, columns]; integers wrap."""
    a = te.placeholder((rows, columns), dtype, name="a")
    b = te.placeholder((rows, columns), dtype, name="b")
    return a, b, te.compute((rows, columns), lambda i, j: a[i, j] + b[i, j], name="add")


@template(add, target="cpu")
def stretches(s):
    """The matrix as one long row, handed out in stretches of whole pages."""
    total = s["add"]
    row = total.fuse("i", "j")
    stretch, element = total.split(row, factor=s.define_knob("stretch", [2048, 8192, 32768, 131072]))
    _, lane = total.split(element, factor=s.define_knob("lanes", [16, 32, 64]))
    total.parallel(stretch)
    total.vectorize(lane)
    if s.choose("streaming", [False, True]):
        total.pragma(lane, "streaming_store")


@template(add, target="gpu")
def vectors(s):
    """One work-item for each vector of the result."""
    bind_elements(s, s["add"])
