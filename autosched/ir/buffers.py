"""How tensors lie in memory: row by row, or as `decl_buffer` says for `binds` of `lower` and `build`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched.errors import UsageError, expect
from autosched.ir.dtype import dtype as parse_dtype
from autosched.ir.expr import Expr, as_expr, const, var
from autosched.ir.printer import checked_name
from autosched.ir.stmt import Buffer

#: `buffer_type` -> what it means
BUFFER_TYPES = {
    "": "the argument has the shape that is declared",
    "auto_broadcast": "an input that has length 1 along a dimension is read there again and again",
}


def row_major(shape: Sequence[Expr], simplify: Callable[[Expr], Expr] = lambda e: e) -> list[Expr]:
    """The strides of an array of that shape whose elements lie close together."""
    strides: list[Expr] = [const(1)] if shape else []
    for n in reversed(shape[1:]):
        strides.insert(0, simplify(strides[0] * n))
    return strides


def row_major_offset(indices: Sequence[Expr], shape: Sequence[int | Expr]) -> Expr:
    """The number of elements before the one at these indices, in an array whose elements lie close together."""
    at: Expr = const(0)
    for i, n in zip(indices, shape, strict=True):
        at = at * n + i
    return at


def decl_buffer(
    shape: Any,
    dtype: Any = None,
    name: str = "buffer",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
) -> Buffer:
    """The memory of a tensor, to be bound with `lower(..., binds={tensor: buffer})`.

    shape, strides: in elements, outermost dimension first; integers or formulas over sizes. A
                    stride that is a variable of its own is read off the array at each call; without
                    strides, elements lie close together, row by row
    dtype:          of an element, float32 if not given
    elem_offset:    where in its memory the first element is. An array is passed by the address of its
                    first element, so of an argument this is 0 or a variable
    scope:          of an intermediate, as for `set_scope`; empty leaves it
    data_alignment: bytes that the address of an argument must be a multiple of; -1: of one element
    offset_factor:  elem_offset is a multiple of this
    buffer_type:    `auto_broadcast` lets the length of an input be 1 where another is declared
    data:           None: memory is what the argument brings

    Raises UsageError for what is none of these.

    >>> from autosched import te
    >>> n, m, row = te.var("n"), te.var("m"), te.var("row")
    >>> decl_buffer((n, m), name="A", strides=[row, 1])
    A: float32[n, m] global strides [row, 1]
    """
    asked = f"decl_buffer({name!r:.60})"
    checked_name(name, "decl_buffer")
    lengths = _integers(shape, "shape", asked)
    if buffer_type not in BUFFER_TYPES:
        legal = "; ".join(f"{k or 'empty'}: {v}" for k, v in BUFFER_TYPES.items())
        raise UsageError(f"no buffer type {buffer_type!r}", asked=asked, legal=legal)
    steps = _integers(strides, "strides", asked) if strides is not None else ()
    if buffer_type == "auto_broadcast" and not steps:
        steps = tuple(var(f"{name}.stride{i}", role="size", lower=0) for i in range(len(lengths)))
    if steps and len(steps) != len(lengths):
        raise UsageError(
            f"{len(steps)} strides for {len(lengths)} dimensions", asked=asked, legal="one stride for each dimension"
        )
    if data is not None:
        legal = "one buffer, and its access_ptr(offset=...)"
        raise UsageError("two buffers over one memory are not declared", asked=f"{asked} with data=", legal=legal)
    is_whole = isinstance(data_alignment, int) and not isinstance(data_alignment, bool)
    expect(data_alignment, "a number of bytes", is_whole, f"{asked}, data_alignment=..")
    if data_alignment != -1 and (data_alignment < 1 or data_alignment & (data_alignment - 1)):
        raise UsageError(f"data_alignment {data_alignment} is no power of two", asked=asked, legal="-1, or 64, say")
    return Buffer(
        name,
        lengths,
        parse_dtype(dtype if dtype is not None else "float32"),
        scope or "global",
        steps,
        elem_offset=as_expr(elem_offset) if elem_offset is not None else None,
        data_alignment=data_alignment,
        offset_factor=offset_factor,
        buffer_type=buffer_type,
    )


def _integers(values: Any, what: str, asked: str) -> tuple[Expr, ...]:
    found = tuple(map(as_expr, values if isinstance(values, (list, tuple)) else [values]))
    for e in found:
        if not e.dtype.is_integer:
            legal = "integers, and formulas over sizes"
            raise UsageError(f"{e!r} in {what} is not an integer", asked=asked, legal=legal)
    return found
