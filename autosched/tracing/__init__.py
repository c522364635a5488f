"""Functions of arrays compiled as they are written: `autosched.jit`.

A function runs once on `Traced` values, which NumPy's functions and operators take in place of arrays. What it did to
them is a te program, and that is compiled, searched for and kept like any other.

    traced.py      the values: their arithmetic, methods, views, and assignment to parts
    ufuncs.py      NumPy's element-wise functions as expressions
    functions.py   NumPy's other functions as te programs
    indexing.py    reading and assigning parts by NumPy's rules
    program.py     the te program of a call
    batching.py    the same program for each element of a leading axis
    jit.py         the decorator: builds and calls
"""

from __future__ import annotations

from autosched.tracing.jit import Jitted, jit
from autosched.tracing.traced import Traced

__all__ = ["Jitted", "Traced", "jit"]
