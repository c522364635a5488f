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

from collections.abc import Callable
from functools import wraps
from typing import Any

from autosched.tvm.te.hybrid import runtime as runtime
from autosched.tvm.te.hybrid.dumping import HybridModule as HybridModule
from autosched.tvm.te.hybrid.dumping import build as build
from autosched.tvm.te.hybrid.parser import is_symbolic, operation_of


def script(pyfunc: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function as a hybrid script.

    Called with tensors and variables, it returns the tensor, or a list of tensors, that the script computes; called
    with arrays and numbers, it runs. Memory of `output_tensor` and `allocate` begins with zeros both ways. An input
    that the script writes to is copied first: the caller's array stays as it is. Raises UsageError, with the line, for
    what a script cannot say.

    >>> import numpy as np
    >>> @script
    ... def double(a):
    ...     b = output_tensor(a.shape, a.dtype)
    ...     for i in range(a.shape[0]):
    ...         b[i] = a[i] * 2
    ...     return b
    >>> double(np.arange(3, dtype="int32"))
    array([0, 2, 4], dtype=int32)
    """

    @wraps(pyfunc)
    def scripted(*args: Any, **kwargs: Any) -> Any:
        if any(map(is_symbolic, args)):
            return operation_of(pyfunc, args)
        return runtime.emulated(pyfunc)(*args, **kwargs)

    scripted.__hybrid_script__ = pyfunc  # type: ignore[attr-defined]
    return scripted
