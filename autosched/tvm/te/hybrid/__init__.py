"""`te.hybrid`: operations written as Python loops.

    @te.hybrid.script
    def outer_product(a, b):
        c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
        for i in range(a.shape[0]):
            for j in range(b.shape[0]):
                c[i, j] = a[i] * b[j]
        return c

    C = outer_product(A, B)             of tensors: an operation, to be scheduled and built
    c = outer_product(a, b)             of arrays: plain Python

A script that stores each element once, in loops over all of them, becomes a `te.compute`, with all primitives. Any
other becomes an opaque operation: its loops are as the script says (`parallel`, `vectorize`, `unroll`, `bind`).
"""

from __future__ import annotations

from autosched.tvm.te.hybrid import runtime as runtime
from autosched.tvm.te.hybrid.dumping import HybridModule as HybridModule
from autosched.tvm.te.hybrid.dumping import build as build
from autosched.tvm.te.hybrid.parser import script as script
