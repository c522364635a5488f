"""Buffers of a tree in another layout: `transform_layout`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from autosched.errors import Illegal
from autosched.ir.expr import Expr, is_const
from autosched.ir.simplify import simplify
from autosched.ir.stmt import Buffer
from autosched.ir.visit import substitute
from autosched.schedule.formulas import Layout
from autosched.schedule.primitives.storage import inverse
from autosched.te.tensor import IterVar
from autosched.tvm.script.moving import placed
from autosched.tvm.script.parts import Block, Signature
from autosched.tvm.script.reach import NotHere, hands_out
from autosched.tvm.script.walking import everything, with_other

_LEGAL = "each index once, permuted, split as i // f with i % f, or fused as i*extent + j"


def transform_layout(
    body: Any, signature: Signature, buffer: Buffer, index_map: Any, pads: bool
) -> tuple[Any, Signature]:
    """The tree with a buffer's elements at the indices that a map makes of theirs. Raises NotHere."""
    if buffer in signature.params.values() or buffer in signature.constants:
        raise NotHere(
            f"the layout of {buffer.name} is the caller's", "cache_read or cache_write, and the layout of the copy"
        )
    if buffer in hands_out(body) or buffer.strides:
        raise NotHere(f"functions get the memory of {buffer.name}, or it has strides", "a buffer that is used by index")
    mapping = index_map
    if hasattr(index_map, "map_indices"):
        mapping = lambda *indices: list(index_map.map_indices(indices))  # noqa: E731
    axes = [IterVar(f"axis{k}", n) for k, n in enumerate(buffer.shape)]
    try:
        layout = Layout.of(mapping, len(axes))
        to_axes = {p: a.var for p, a in zip(layout.placeholders, axes, strict=True)}
        formulas = [substitute(e, to_axes) for e in layout.formulas]
        made, _, inside = inverse(axes, formulas, _LEGAL)
    except Illegal as why:
        raise NotHere(str(why), getattr(why, "legal", _LEGAL)) from None
    if pads and not is_const(inside, True):
        raise NotHere(f"padding of {buffer.name} has no value of its own", "leave pad_value out")
    new = Buffer(buffer.name, tuple(simplify(a.extent) for a in made), buffer.dtype, buffer.scope)

    def place(at: Sequence[Expr]) -> tuple[Expr, ...]:
        here = {a.var: i for a, i in zip(axes, at, strict=True)}
        return tuple(simplify(substitute(e, here)) for e in formulas)

    body = placed(body, buffer, new, place)
    holder = next((s for s in everything(body) if isinstance(s, Block) and buffer in s.buffers), None)
    if holder is not None:
        body = with_other(body, holder, replace(holder, buffers=[new if b is buffer else b for b in holder.buffers]))
    elif buffer not in signature.buffers:
        raise NotHere(f"{buffer.name} is allocated among statements", "T.alloc_buffer")
    return body, replace(signature, buffers=[new if b is buffer else b for b in signature.buffers])
