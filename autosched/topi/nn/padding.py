"""Tensors with a border and with gaps, and the windows that slide over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr, as_expr, is_const
from autosched.ir.simplify import simplify
from autosched.te.tensor import IterVar, Tensor
from autosched.topi.arguments import Dim, Dims, Pads, number, pair, windows


def pad(
    data: Tensor,
    pad_before: Sequence[Dim],
    pad_after: Sequence[Dim] | None = None,
    pad_value: object = 0,
    name: str = "PadInput",
) -> Tensor:
    """Add a border of `pad_value`: so many elements before and after along each dimension.

    >>> from autosched import te, topi
    >>> A = te.placeholder((4, 8), name="A")
    >>> topi.nn.pad(A, (1, 0), (2, 0)).shape
    (7, 8)
    """
    after = _after(data, pad_before, pad_after, "topi.nn.pad")
    shape = [simplify(d + b + a) for d, b, a in zip(data.shape, map(as_expr, pad_before), after, strict=True)]
    padded = [k for k in range(data.ndim) if not all(is_const(as_expr(p[k]), 0) for p in (pad_before, after))]

    def body(*i: Expr) -> object:
        at = [x - b for x, b in zip(i, pad_before, strict=True)]
        if not padded:
            return data(*i)
        inside = te.all(*(c for k in padded for c in (at[k] >= 0, at[k] < data.shape[k])))
        return te.if_then_else(inside, data(*at), as_expr(pad_value, data.dtype).astype(data.dtype))

    return te.compute(tuple(shape), body, name=name, tag="injective,pad")


def _after(data: Tensor, before: Sequence[Dim], after: Sequence[Dim] | None, asked: str) -> Sequence[Dim]:
    """The border after, which is as that before where none is given."""
    behind = before if after is None else after
    if len(before) != data.ndim or len(behind) != data.ndim:
        raise UsageError(f"{data.name} has {data.ndim} dimensions", asked=asked, legal="a number for each")
    return behind


def mirror_pad(
    data: Tensor,
    pad_before: Sequence[Dim],
    pad_after: Sequence[Dim] | None = None,
    mode: str = "SYMMETRIC",
    name: str = "MirrorPadInput",
) -> Tensor:
    """Add a border that mirrors the tensor: with its edge (`SYMMETRIC`) or without (`REFLECT`)."""
    after = _after(data, pad_before, pad_after, "topi.nn.mirror_pad")
    views = {"SYMMETRIC": te.mirror_image, "REFLECT": te.mirror_interior}
    if mode not in views:
        raise UsageError(f"no mode {mode!r}", asked="topi.nn.mirror_pad", legal=", ".join(views))
    view = views[mode](data)
    shape = [simplify(d + b + a) for d, b, a in zip(data.shape, map(as_expr, pad_before), after, strict=True)]
    return te.compute(
        tuple(shape), lambda *i: view(*(x - b for x, b in zip(i, pad_before))), name=name, tag="injective,pad"
    )


def dilate(data: Tensor, strides: Sequence[int], dilation_value: object = 0, name: str = "DilatedInput") -> Tensor:
    """Put `stride - 1` elements of `dilation_value` between neighbours along each dimension."""
    if len(strides) != data.ndim:
        raise UsageError(f"{data.name} has {data.ndim} dimensions", asked="topi.nn.dilate", legal="a stride for each")
    shape = [simplify((d - 1) * s + 1) for d, s in zip(data.shape, strides, strict=True)]
    wide = [k for k, s in enumerate(strides) if s != 1]

    def body(*i: Expr) -> object:
        at = [te.floordiv(x, s) if s != 1 else x for x, s in zip(i, strides, strict=True)]
        if not wide:
            return data(*i)
        here = te.all(*(te.floormod(i[k], strides[k]) == 0 for k in wide))
        return te.if_then_else(here, data(*at), te.const(dilation_value, data.dtype))

    return te.compute(tuple(shape), body, name=name, tag="injective,dilate")


def pads(padding: Pads, kernel: Sequence[Dim], asked: str) -> tuple[list[Dim], list[Dim]]:
    """Return the widths of the border before and after, along each dimension.

    padding: one number; one for each dimension; two for each (all before, then all after); "VALID" (none) or "SAME"
             (so that stride 1 keeps the size; the greater part of an odd border is before)
    kernel:  sizes, with dilation
    """
    count = len(kernel)
    if isinstance(padding, str):
        if padding not in ("VALID", "SAME"):
            raise UsageError(f"no padding {padding!r}", asked=asked, legal="VALID, SAME, or numbers")
        total = [0 if padding == "VALID" else number(k, asked) - 1 for k in kernel]
        return [t - t // 2 for t in total], [t // 2 for t in total]
    listed: list[Dim] = list(padding) if isinstance(padding, (list, tuple)) else [padding]  # type: ignore[list-item]
    if len(listed) == 1:
        listed *= count
    if len(listed) == count:
        return list(listed), list(listed)
    if len(listed) == 2 * count:
        return listed[:count], listed[count:]
    asked = f"{asked} with padding {padding!r}"
    raise UsageError(f"{len(listed)} numbers", asked=asked, legal=f"1, {count} or {2 * count}")


def get_pad_tuple(padding: Pads, kernel: Sequence[int]) -> tuple[Dim, Dim, Dim, Dim]:
    """Return the border as (top, left, bottom, right)."""
    if len(kernel) != 2:
        raise UsageError(f"{len(kernel)} numbers", asked="topi.nn.get_pad_tuple(kernel=..)", legal="two: height, width")
    before, after = pads(padding, kernel, "topi.nn.get_pad_tuple")
    return before[0], before[1], after[0], after[1]


@dataclass(frozen=True)
class Windows:
    """Windows that slide over a tensor with a border; keys are the letters of its layout."""

    layout: str
    padded: Tensor
    step: Mapping[str, Dim]
    spread: Mapping[str, Dim]
    before: Mapping[str, Dim]
    after: Mapping[str, Dim]
    count: Mapping[str, Expr]  #: how many there are

    @staticmethod
    def over(
        data: Tensor,
        layout: str,
        taps: Mapping[str, Dim],
        sliding: tuple[Dims, Dims, Pads],
        asked: str,
        name: str,
        value: object = 0,
        ceil: bool = False,
    ) -> Windows:
        """Return windows of `taps` elements along some axes.

        sliding: strides, dilation and padding
        ceil:    keep windows that end outside
        """
        strides, dilation, padding = sliding
        step, spread = (dict(zip(taps, pair(x, len(taps), asked))) for x in (strides, dilation))
        reach = [(taps[x] - 1) * spread[x] + 1 for x in taps]
        before, after = (dict(zip(taps, p)) for p in pads(padding, reach, asked))
        beyond = (
            {x: after[x] + step[x] - 1 for x in taps} if ceil else after
        )  # a last window may reach beyond the border
        low, high = ([p.get(x, 0) for x in layout] for p in (before, beyond))
        size = dict(zip(layout, data.shape))
        count = {x: windows(size[x], taps[x], step[x], spread[x], before[x], after[x], ceil) for x in taps}
        return Windows(layout, pad(data, low, high, value, name), step, spread, before, after, count)

    def element(self, at: Mapping[str, Expr], inside: Mapping[str, IterVar]) -> Expr:
        """Return an element: of the window at `at`, and inside of it."""
        places = {x: at[x] * self.step[x] + r.var * self.spread[x] for x, r in inside.items()}
        return self.padded(*({**at, **places}[x] for x in self.layout))
