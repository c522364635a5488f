"""What `tir.Schedule` does to functions of statements alone: other domains, ranges and types than blocks were written
with. A function of stages becomes one of statements where one of these calls is made (`becoming`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr, as_expr
from autosched.ir.simplify import simplify
from autosched.ir.stmt import Buffer, For
from autosched.tir.blocks import Block as BlockRV
from autosched.tvm.script import copying
from autosched.tvm.script.calls import recorded
from autosched.tvm.script.einsum import pad_einsum
from autosched.tvm.script.element_types import set_dtype
from autosched.tvm.script.padding import decompose_padding, padded
from autosched.tvm.script.parts import Block, Signature
from autosched.tvm.script.ranges import loop_partition, merge
from autosched.tvm.script.reach import NotHere
from autosched.tvm.script.walking import everything


class TreeEdits:
    """Calls that change what blocks and loops run over. Each is refused where it is not proved that no result does."""

    #: the calls that make a schedule of statements of one of stages
    EDITS = ("decompose_padding", "loop_partition", "merge", "pad_einsum", "unsafe_set_dtype")

    _tree: Any

    if TYPE_CHECKING:

        def _block_of(self, block: Any) -> Block: ...

        def _loop(self, loop: Any) -> For: ...

        def _plain(self, loop: Any, verb: str) -> For: ...

        def _handle(self, v: Expr) -> Any: ...

        def _now(self, made: tuple[Any, Signature]) -> None: ...

        def _fresh(self, name: str) -> str: ...

        @staticmethod
        def _one_of(b: Block, buffers: Sequence[Buffer], which: Any) -> Buffer: ...

    @recorded
    def loop_partition(self, loop: Any, factors: Sequence[Any], preserve_unit_iters: bool = True) -> list[Any]:
        """Replace a loop by several that run one after the other, of these lengths: None is what the others leave, and
        what all of them leave is one more. Each is in a block of its own. Returns the loops."""
        old = self._loop(loop)
        kept = self._tree.signature.remarks.get(old.var)
        if old.kind != "serial" or old.pragmas or kept:
            raise NotHere(f"{old.var.value.name} is marked or annotated", "a loop without marks")
        taken = {s.name for s in everything(self._tree.body) if isinstance(s, Block)}

        def fresh(name: str) -> str:
            while name in taken:
                name += "_"
            taken.add(name)
            return name

        body, signature, made = loop_partition(
            self._tree.body, self._tree.signature, old, [_number(f) for f in factors], fresh
        )
        self._now((body, signature))
        return [self._handle(v) for v in made]

    @recorded
    def merge(self, *loops: Any) -> Any:
        """Let loops of nests beside one another, and those around them, run together. Returns the one that has their
        bodies, one after the other."""
        body, made = merge(self._tree.body, [self._loop(x) for x in loops])
        self._tree = replace(self._tree, body=body)
        return self._handle(made)

    @recorded
    def decompose_padding(self, block: Any, loop: Any) -> BlockRV:
        """Store the padding of a block in loops of their own, in front of a loop, and leave the block what is none.
        Returns the block that fills."""
        b = self._block_of(block)
        name = self._fresh(f"{b.name}_pad_const")
        body = decompose_padding(self._tree.body, self._tree.signature, b, self._loop(loop), name)
        self._tree = replace(self._tree, body=body)
        return BlockRV(name)

    def can_decompose_padding(self, block: Any, loop: Any) -> bool:
        """Whether `decompose_padding` takes a block that pads, at this loop."""
        b, at = self._block_of(block), self._loop(loop)
        try:
            padded(self._tree.body, b)
            decompose_padding(self._tree.body, self._tree.signature, b, at, "padding")
        except NotHere:
            return False
        return True

    @recorded
    def pad_einsum(self, block: Any, padding: Sequence[Any]) -> None:
        """Make the extents of a block's axes multiples of some numbers, by copies of what it reads and writes that have
        zeros behind."""
        numbers = [n for n in map(_number, padding) if n is not None]
        self._now(pad_einsum(self._tree.body, self._tree.signature, self._block_of(block), numbers, self._fresh))

    @recorded
    def unsafe_set_dtype(self, block: Any, buffer_index: int, dtype: Any) -> None:
        """Keep what a block writes in elements of another type, whether it can hold the values or not."""
        b = self._block_of(block)
        buffer = self._one_of(b, copying.buffers_written(b), buffer_index)
        self._now(set_dtype(self._tree.body, self._tree.signature, buffer, to_dtype(dtype)))


def _number(given: Any) -> int | None:
    """A length that is given, as a number. Raises NotHere for one that is none."""
    if given is None:
        return None
    e = simplify(as_expr(given))
    if e.op != "const" or not e.dtype.is_integer:
        raise NotHere(f"{given!r} is no number", "whole numbers")
    return int(e.value)
