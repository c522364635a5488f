"""NumPy's functions of whole arrays as te programs: what `__array_function__` is asked for.

table.py        the table, and how it is asked
shapes.py       views: the same elements in another shape
joins.py        copies: arrays put together, padded, created, chosen from
reductions.py   sums, extremes, statistics
products.py     products of matrices and vectors
"""

from __future__ import annotations

from autosched.tracing.functions import joins, products, reductions, shapes
from autosched.tracing.functions.products import PRODUCTS
from autosched.tracing.functions.table import FUNCTIONS, call

__all__ = ["FUNCTIONS", "PRODUCTS", "call", "joins", "products", "reductions", "shapes"]
