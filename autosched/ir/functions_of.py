"""The type of a function that takes some arguments of one type, as type checkers can tell from a lambda.

A checker knows what `i` and `j` of `lambda i, j: ...` are only where functions of exactly two arguments are expected.
`Callable[..., R]` tells it nothing, and even one among others hides them; so they are written out by their number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, TypeAlias, TypeVar

__all__ = ["FunctionOf"]

A = TypeVar("A")
R = TypeVar("R")

#: `FunctionOf[Expr, object]`: a function of any number of expressions; of more than six, the first are
FunctionOf: TypeAlias = (
    Callable[[A], R]  # first, so that the parameters of the alias are (A, R)
    | Callable[[], R]
    | Callable[[A, A], R]
    | Callable[[A, A, A], R]
    | Callable[[A, A, A, A], R]
    | Callable[[A, A, A, A, A], R]
    | Callable[[A, A, A, A, A, A], R]
    | Callable[[*tuple[A, ...]], R]
    | Callable[Concatenate[A, A, A, A, A, A, A, ...], R]
)
