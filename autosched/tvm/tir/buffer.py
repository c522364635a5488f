"""`A[i, j]` of buffers: an element, or with slices a region."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autosched.errors import UsageError
from autosched.ir.attached import attach
from autosched.ir.dims import Range
from autosched.ir.expr import Arithmetic, Expr, as_expr, const, ramp
from autosched.ir.simplify import simplify
from autosched.ir.stmt import Buffer, load


@dataclass(frozen=True, eq=False)
class BufferRegion(Arithmetic[Expr]):
    """Some elements of a buffer: `region` has a Range for each dimension. In arithmetic, it is a vector."""

    buffer: Buffer
    region: tuple[Range, ...]

    def as_expr(self) -> Expr:
        """The elements along the last dimension as a vector. Raises UsageError where they are none."""
        return load(self.buffer, *self.lanes())

    def lanes(self) -> tuple[Expr, ...]:
        """The indices, of which the last is a vector."""
        *outer, last = self.region
        extent = simplify(last.extent)
        if extent.op != "const" or any(simplify(r.extent) is not const(1) for r in outer):
            raise UsageError("a vector lies along the last dimension", asked=repr(self), legal="A[i, j:j + 4]")
        return (*(r.min for r in outer), ramp(last.min, 1, extent.value))

    def __repr__(self) -> str:
        return f"{self.buffer.name}[{', '.join(f'{r.min!r}:{r.min + r.extent!r}' for r in self.region)}]"


def element(b: Buffer, index: Any) -> Expr | BufferRegion:
    """Return `b[index]`. Raises UsageError for a wrong number of indices."""
    given = index if isinstance(index, tuple) else (index,)
    if len(given) != len(b.shape):
        why = f"{b.name} has {len(b.shape)} dimensions, not {len(given)}"
        raise UsageError(why, asked=f"{b.name}[..]", legal="an index for each dimension")
    if not any(isinstance(i, slice) for i in given):
        return load(b, *map(as_expr, given))
    if any(isinstance(i, slice) and i.step is not None for i in given):
        *outer, last = given
        start, stop, step = (as_expr(x) for x in (last.start, last.stop, last.step))
        count = simplify((stop - start) // step)
        return load(b, *map(as_expr, outer), ramp(start, step, count.value))
    spans = []
    for i, extent in zip(given, b.shape, strict=True):
        if isinstance(i, slice):
            start = as_expr(0 if i.start is None else i.start)
            spans.append(Range(start, as_expr(extent if i.stop is None else i.stop)))
        else:
            spans.append(Range.from_min_extent(as_expr(i), const(1)))
    return BufferRegion(b, tuple(spans))


attach(Buffer, __getitem__=element, __iter__=None)
