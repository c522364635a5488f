"""What operators with windows have in common: strides, dilations, the forms of padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autosched import te
from autosched.graph.onnx.node import Dim, Node
from autosched.ir.expr import as_expr, is_const
from autosched.ir.simplify import simplify
from autosched.te.tensor import Tensor

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclass(frozen=True)
class Sliding:
    """Windows over the spatial dimensions: a list of each has a number for every dimension."""

    kernel: Sequence[Dim]
    strides: list[int]
    dilations: list[int]
    before: list[Dim]  #: padding
    after: list[Dim]
    count: list[Dim]  #: how many windows there are

    last: list[Dim]  #: the padding after that the last window reaches

    @property
    def padding(self) -> list[Dim]:
        """The padding, for topi."""
        return [*self.before, *self.after]

    @property
    def reached(self) -> list[Dim]:
        """The padding that windows reach: with this, as many fit as there are."""
        return [*self.before, *self.last]


def spatial(node: Node, x: Tensor, least: int = 1) -> int:
    """How many dimensions come after batch and channels."""
    if x.ndim - 2 < least:
        raise node.refused(f"its input has {x.ndim} dimensions", f"batch, channels, and {least} more at least")
    return x.ndim - 2


def numbers(node: Node, name: str, count: int, default: int, least: int) -> list[int]:
    """An attribute with a number for each of `count` things. Raises ModelError."""
    found = list(node.attr(name) or [default] * count)
    if len(found) != count or any(n < least for n in found):
        raise node.refused(f"{name} is {found}", f"{count} numbers, {least} or more")
    return found


def auto_pad(node: Node) -> str:
    """The form of padding. Raises ModelError for one that the standard does not have."""
    found = node.attr("auto_pad") or "NOTSET"
    if found not in AUTO_PADS:
        raise node.refused(f"auto_pad is {found!r}", ", ".join(AUTO_PADS))
    return str(found)


def sliding(node: Node, x: Tensor, kernel: Sequence[Dim]) -> Sliding:
    """The windows of `kernel` elements that a node's attributes put over a tensor. Raises ModelError."""
    rank = spatial(node, x)
    if len(kernel) != rank or any(isinstance(k, int) and k < 1 for k in kernel):
        raise node.refused(f"its windows are {list(kernel)!r}", f"{rank} numbers, 1 or more")
    strides, dilations = (numbers(node, name, rank, 1, 1) for name in ("strides", "dilations"))
    size = x.shape[2:]
    reach = [simplify((as_expr(k) - 1) * d + 1) for k, d in zip(kernel, dilations, strict=True)]
    form = auto_pad(node)
    if form.startswith("SAME"):
        count = [te.floordiv(d + (s - 1), s) for d, s in zip(size, strides, strict=True)]
        total = [(n - 1) * s + r - d for n, s, r, d in zip(count, strides, reach, size, strict=True)]
        if node.kind == "Conv":  # pools, by the standard's formula, begin later where windows leave gaps
            total = [te.max(t, 0) for t in total]
        less, more = [te.truncdiv(t, 2) for t in total], [te.truncdiv(t + 1, 2) for t in total]
        before = less if form == "SAME_UPPER" else more
        after = [t - b for t, b in zip(total, before, strict=True)]
    else:
        given = numbers(node, "pads", 2 * rank, 0, 0) if form == "NOTSET" else [0] * (2 * rank)
        before, after = [as_expr(p) for p in given[:rank]], [as_expr(p) for p in given[rank:]]
        count = []
        for d, r, s, b, a in zip(size, reach, strides, before, after, strict=True):
            room = d + b + a - r
            n = te.floordiv(room + (s - 1 if node.attr("ceil_mode", 0) else 0), s) + 1
            if node.attr("ceil_mode", 0):  # a window must not begin in the padding after
                n = te.select((n - 1) * s >= d + b, n - 1, n)
            count.append(n)
    last = [
        te.max((n - 1) * s + r - d - b, 0) for n, s, r, d, b in zip(count, strides, reach, size, before, strict=True)
    ]
    lists = [[plain(e) for e in es] for es in (before, after, count, last)]
    if any(isinstance(n, int) and n < 1 for n in lists[2]):
        why = f"windows of {[plain(r) for r in reach]} do not fit {list(size)} with pads {lists[0] + lists[1]}"
        raise node.refused(why, "a window at least")
    return Sliding(kernel, strides, dilations, *lists)


def plain(e: Any) -> Dim:
    """A dimension, as a number if it is one."""
    found = simplify(as_expr(e))
    return int(found.value) if is_const(found) else found


def fixed(node: Node, d: Dim) -> int:
    """A dimension that must be a number. Raises ModelError."""
    found = plain(d)
    if not isinstance(found, int):
        raise node.refused(f"{d!r} is a symbolic dimension", "a number for it: see `shapes` of load")
    return found
