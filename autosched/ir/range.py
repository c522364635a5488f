"""`Range`: a first integer and how many, such as the domain of an axis."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.ir.expr import Expr, as_expr, const

__all__ = ["Range"]


@dataclass(frozen=True, eq=False)
class Range:
    """`[min, min + extent)`. `Range(begin, end)`, `Range(end)` or `Range.from_min_extent(min, extent)`."""

    min: Expr
    extent: Expr

    def __init__(self, begin: object, end: object = None) -> None:
        first, last = (const(0), as_expr(begin)) if end is None else (as_expr(begin), as_expr(end))
        object.__setattr__(self, "min", first)
        object.__setattr__(self, "extent", last - first)

    @staticmethod
    def from_min_extent(min_value: object, extent: object) -> Range:
        """The `extent` integers from `min_value` on."""
        found = object.__new__(Range)
        object.__setattr__(found, "min", as_expr(min_value))
        object.__setattr__(found, "extent", as_expr(extent))
        return found

    def __repr__(self) -> str:
        return f"range(min={self.min!r}, extent={self.extent!r})"
