"""Buffers of a tree with elements of another type: `unsafe_set_dtype`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autosched.ir.dtype import DType
from autosched.ir.expr import Expr, cast
from autosched.ir.stmt import Buffer, Store, load
from autosched.ir.visit import rewrite
from autosched.tvm.script.parts import Signature
from autosched.tvm.script.reach import NotHere, hands_out
from autosched.tvm.script.walking import with_buffers, with_expressions


def set_dtype(body: Any, signature: Signature, buffer: Buffer, of: DType) -> tuple[Any, Signature]:
    """The tree in which an intermediate has elements of a type, to which values are converted and back. Results may
    differ by what it cannot hold. Raises NotHere for memory that callers or functions see."""
    if buffer in signature.params.values() or buffer in signature.constants:
        raise NotHere(f"{buffer.name} is the caller's", "buffers that the function allocates")
    if buffer in hands_out(body):
        raise NotHere(f"functions get the memory of {buffer.name}", "a buffer that is read and written by index")
    made = replace(buffer, dtype=of)

    def change(e: Expr) -> Expr:
        return rewrite(
            e,
            lambda n, args: cast(n.dtype, load(made, *args)) if n.op == "load" and n.value is buffer else None,
        )

    def stored(s: Store) -> Store:
        return replace(s, buffer=made, value=cast(of, s.value)) if s.buffer is buffer else s

    body = with_buffers(with_expressions(body, change, stored), {buffer: made})
    return body, replace(signature, buffers=[made if b is buffer else b for b in signature.buffers])
