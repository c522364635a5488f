"""`tvm.testing.aot`: what its tests of operators ask; nothing is compiled for another machine here."""

from __future__ import annotations

import numpy as np

from autosched.tvm._missing import missing


def get_dtype_range(dtype: str) -> tuple[float, float]:
    """Return the least and the greatest number of a type.

    >>> get_dtype_range("int8")
    (-128, 127)
    """
    of = np.dtype(dtype)
    found = np.finfo(of) if of.kind == "f" else np.iinfo(of)
    return found.min, found.max


__getattr__ = missing("testing.aot", globals())
