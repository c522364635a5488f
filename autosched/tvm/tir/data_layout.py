"""Layouts by the letters of their axes, and where elements of one are in another.

to_blocks = tir.bijective_layout("NCHW", "NCHW16c")
to_blocks.forward_shape((1, 32, 7, 7))      [1, 2, 7, 7, 16]
to_blocks.forward_index([0, 18, 6, 6])      [0, 1, 6, 6, 2]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.errors import UsageError, UsageTypeError
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr, as_expr
from autosched.ir.simplify import simplify

_UNDEFINED = ("", "__undef__")


@dataclass(frozen=True)
class Layout:
    """Axes in order: a capital letter for each, a small one with a number for the inner part of such an axis.

    `layout[1]`, `len(layout)` and `"C" in layout` ask for its letters. Raises UsageError for what is no layout.
    """

    name: str

    def __post_init__(self) -> None:
        letters = [x for x, _ in self.parts]
        inner = [x.upper() for x, n in self.parts if n]
        is_read = self.name in _UNDEFINED or re.fullmatch(r"([A-Z]|[1-9]\d*[a-z])+", self.name)
        if not is_read or len(set(letters)) < len(letters) or not set(inner) <= set(letters):
            legal = "each axis once, and inner parts of those with a length: NCHW16c"
            raise UsageError("it is no layout", asked=f"tir.layout({self.name!r})", legal=legal)

    @property
    def parts(self) -> list[tuple[str, int]]:
        """The letters, and the lengths of small ones."""
        found = [] if self.name in _UNDEFINED else re.findall(r"(\d*)([A-Za-z])", self.name)
        return [(letter, int(length or 0)) for length, letter in found]

    def __str__(self) -> str:
        return self.name

    def __len__(self) -> int:
        return len(self.parts)

    def __contains__(self, axis: object) -> bool:
        return any(axis == letter for letter, _ in self.parts)

    def __getitem__(self, index: int) -> str:
        return self.parts[index][0]

    def index_of(self, axis: str) -> int:
        """The place of an axis, -1 for one that is not there."""
        return next((i for i, (letter, _) in enumerate(self.parts) if letter == axis), -1)

    def factor_of(self, axis: str) -> int:
        """The length of the inner part of an axis, -1 where it has none."""
        return next((n for letter, n in self.parts if n and letter == axis.lower()), -1)


@dataclass(frozen=True)
class BijectiveLayout:
    """Shapes and indices of one layout in another, and back."""

    src: Layout
    dst: Layout

    def forward_index(self, index: Sequence[Any]) -> list[Expr]:
        """The index in `dst` of an element of `src`."""
        return _converted(self.src, self.dst, index, _at)

    def backward_index(self, index: Sequence[Any]) -> list[Expr]:
        """The index in `src` of an element of `dst`."""
        return _converted(self.dst, self.src, index, _at)

    def forward_shape(self, shape: Sequence[Any]) -> list[Expr]:
        """The shape in `dst`: blocks that are not full count as one."""
        return _converted(self.src, self.dst, shape, _length)

    def backward_shape(self, shape: Sequence[Any]) -> list[Expr]:
        """The shape in `src`."""
        return _converted(self.dst, self.src, shape, _length)


def _at(axes: dict[str, Expr], letter: str, inner: int) -> Expr:
    return axes[letter] if inner < 0 else axes[letter.upper()] % inner if letter.islower() else axes[letter] // inner


def _length(axes: dict[str, Expr], letter: str, inner: int) -> Expr:
    return axes[letter] if inner < 0 else as_expr(inner) if letter.islower() else (axes[letter] + inner - 1) // inner


def _converted(
    source: Layout, target: Layout, values: Sequence[Any], of: Callable[[dict[str, Expr], str, int], Expr]
) -> list[Expr]:
    """A place, or a shape, of one layout in another."""
    if len(values) != len(source):
        asked, why = f"{list(values)} in layout {source}", f"it has {len(source)} axes"
        raise UsageError(why, asked=asked, legal="a value for each")
    there = {letter: as_expr(v) for (letter, _), v in zip(source.parts, values, strict=True)}
    whole = {x: v for x, v in there.items() if x.isupper()}
    for x in [x for x in whole if source.factor_of(x) > 0]:
        whole[x] = whole[x] * source.factor_of(x) + (there[x.lower()] if of is _at else 0)
    return [simplify(of(whole, letter, target.factor_of(letter))) for letter, _ in target.parts]


def layout(layout_str: str, dtype: str = "int32") -> Layout:
    """The layout of a name: `tir.layout("NCHW16c")`. `dtype`: of TVM's axes, an integer type, which changes nothing."""
    if dtype is None or not to_dtype(dtype).is_integer:
        raise UsageTypeError("it is no type of indices", asked=f"tir.layout(.., {dtype!r})", legal="int32 or int64")
    return Layout(layout_str)


def bijective_layout(src_layout: str | Layout, dst_layout: str | Layout) -> BijectiveLayout | None:
    """How elements of one layout lie in another; None for layouts of different axes."""
    src, dst = (x if isinstance(x, Layout) else layout(x) for x in (src_layout, dst_layout))
    axes = [{x for x, n in side.parts if not n} for side in (src, dst)]
    return BijectiveLayout(src, dst) if axes[0] and axes[0] == axes[1] else None
