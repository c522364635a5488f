"""What `tir.Schedule` does to blocks of a function of statements: they are moved, copied for, inlined, taken apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autosched.errors import Illegal
from autosched.ir.stmt import Buffer, For
from autosched.schedule.kinds import scope_of
from autosched.tir.blocks import Block as BlockRV
from autosched.tir.intrinsics import memory
from autosched.tir.remarks import Annotations, plain
from autosched.tvm.script import copying, inlining, moving
from autosched.tvm.script.beginning import blockize, decompose_reduction
from autosched.tvm.script.calls import recorded
from autosched.tvm.script.layouts import transform_layout
from autosched.tvm.script.parts import Block, Signature
from autosched.tvm.script.reach import NotHere
from autosched.tvm.script.walking import everything, outermost_blocks, with_buffers, with_other


class TreeBlocks:
    """Calls about blocks. Each is refused where it is not proved that no result changes."""

    _tree: Any

    if TYPE_CHECKING:

        def _block_of(self, block: Any) -> Block: ...

        def _loop(self, loop: Any) -> For: ...

    @recorded
    def compute_at(self, block: Any, loop: Any, preserve_unit_loops: bool = False, index: int = -1) -> None:
        """Compute a block at a loop that everything that reads its results is in: what one iteration needs."""
        b, at = self._block_of(block), self._loop(loop)
        body = moving.compute_at(self._tree.body, self._tree.signature, b, at, preserve_unit_loops, index)
        self._now(inlining.pruned(body, self._tree.signature))

    @recorded
    def reverse_compute_at(self, block: Any, loop: Any, preserve_unit_loops: bool = False, index: int = -1) -> None:
        """Compute a block at a loop that computes what it reads: what one iteration has made ready."""
        b, at = self._block_of(block), self._loop(loop)
        body = moving.reverse_compute_at(self._tree.body, self._tree.signature, b, at, preserve_unit_loops, index)
        self._tree = replace(self._tree, body=body)

    @recorded
    def cache_read(
        self, block: Any, read_buffer_index: Any, storage_scope: str, consumer_blocks: Sequence[Any] | None = None
    ) -> BlockRV:
        """Copy a buffer that a block reads, for all its readers beside that block or for the given ones."""
        b = self._block_of(block)
        buffer = self._one_of(b, copying.buffers_read(b), read_buffer_index)
        scope = copying.Scope.around(self._tree.body, self._tree.signature, b, buffer)
        readers = [self._block_of(c) for c in consumer_blocks or ()] or copying.beside(scope, b, buffer)
        name = self._fresh(f"{buffer.name}_{storage_scope}")
        self._now(copying.cache_read(scope, buffer, name, self._scope_named(storage_scope), readers))
        return BlockRV(name)

    @recorded
    def cache_write(
        self, block: Any, write_buffer_index: Any, storage_scope: str, consumer_blocks: Sequence[Any] | None = None
    ) -> BlockRV:
        """Let a block write to a buffer of its own, and copy that; the given blocks read it, others the copy."""
        b = self._block_of(block)
        buffer = self._one_of(b, copying.buffers_written(b), write_buffer_index)
        scope = copying.Scope.around(self._tree.body, self._tree.signature, b, buffer)
        readers = [self._block_of(c) for c in consumer_blocks or ()]
        name = self._fresh(f"{buffer.name}_{storage_scope}")
        self._now(copying.cache_write(scope, b, buffer, name, self._scope_named(storage_scope), readers))
        return BlockRV(name)

    @recorded
    def compute_inline(self, block: Any) -> None:
        """Let readers of a block compute what it stores."""
        self._now(inlining.compute_inline(self._tree.body, self._tree.signature, self._block_of(block)))

    @recorded
    def reverse_compute_inline(self, block: Any) -> None:
        """Let the producer of what a block reads go on with it, element by element."""
        self._now(inlining.reverse_compute_inline(self._tree.body, self._tree.signature, self._block_of(block)))

    @recorded
    def decompose_reduction(self, block: Any, loop: Any) -> BlockRV:
        """Store first values in loops of their own, in front of a loop. Returns the block that does."""
        b = self._block_of(block)
        name = self._fresh(f"{b.name}_init")
        self._tree = replace(self._tree, body=decompose_reduction(self._tree.body, b, self._loop(loop), name))
        return BlockRV(name)

    @recorded
    def blockize(self, target: Any, preserve_unit_iters: bool = True) -> BlockRV:
        """Put a block around a loop and those inside, which are around one block alone. Returns the new block."""
        loop = self._loop(target)
        inner = list(outermost_blocks(loop))
        if len(inner) != 1:
            raise NotHere(f"there are {len(inner) or 'no'} blocks in {loop.var.value.name}", "a loop around one block")
        name, first = self._fresh(f"{inner[0].name}_o"), self._fresh(f"{inner[0].name}_init")
        self._tree = replace(self._tree, body=blockize(self._tree.body, inner[0], loop, name, first))
        return BlockRV(name)

    @recorded
    def set_scope(self, block: Any, buffer_index: Any, storage_scope: str) -> None:
        """Store what a block writes in memory of another scope."""
        b = self._block_of(block)
        buffer = self._one_of(b, copying.buffers_written(b), buffer_index)
        if buffer in self._tree.signature.params.values():
            raise NotHere(f"{buffer.name} is an output: it is global memory", "cache_write(block, 0, scope)")
        self._exchange(buffer, replace(buffer, scope=self._scope_named(storage_scope)))

    @recorded
    def transform_layout(
        self,
        block: Any,
        buffer: Any,
        index_map: Any,
        pad_value: Any = None,
        *,
        assume_injective_transform: bool = False,
    ) -> None:
        """Keep the elements of a buffer that the function allocates elsewhere. Loops stay as they are."""
        found = self._accessed(block, buffer, buffer[1] if isinstance(buffer, tuple) else buffer)
        body, signature = self._tree.body, self._tree.signature
        self._now(transform_layout(body, signature, found, index_map, pad_value is not None))

    @recorded
    def annotate(self, block_or_loop: Any, ann_key: str, ann_val: Any = None) -> None:
        """Annotate a block or a loop: the annotation is kept, and means nothing, unless it is code to be compiled."""
        if str(ann_key) in Annotations.importers:
            Annotations.importers[str(ann_key)](str(ann_val))
            return
        self._remark(block_or_loop, lambda kept: {**kept, str(ann_key): plain(ann_val)})

    @recorded
    def unannotate(self, block_or_loop: Any, ann_key: str) -> None:
        """Take an annotation back."""

        def left(kept: dict[str, Any]) -> dict[str, Any]:
            if ann_key not in kept:
                raise NotHere(f"there is no {ann_key!r}", f"annotations: {', '.join(kept) or 'none'}")
            return {k: v for k, v in kept.items() if k != ann_key}

        self._remark(block_or_loop, left)

    reorder_block_iter_var = recorded(Annotations.reorder_block_iter_var)
    set_axis_separator = recorded(Annotations.set_axis_separator)
    unsafe_hide_buffer_access = recorded(Annotations.unsafe_hide_buffer_access)

    def _axes(self, block: Any) -> Sequence[Any]:
        return self._block_of(block).axes

    def _accessed(self, block: Any, buffer: Any, which: Any) -> Buffer:
        b = self._block_of(block)
        read, written = copying.buffers_read(b), copying.buffers_written(b)
        known = {"read": read, "write": written}.get(buffer[0], []) if isinstance(buffer, tuple) else [*written, *read]
        return self._one_of(b, known, which)

    def _remark(self, block_or_loop: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        if isinstance(block_or_loop, (BlockRV, str)):
            b = self._block_of(block_or_loop)
            self._tree = replace(self._tree, body=with_other(self._tree.body, b, replace(b, attrs=change(b.attrs))))
            return
        var, signature = self._loop(block_or_loop).var, self._tree.signature
        remarks = {**signature.remarks, var: change(signature.remarks.get(var, {}))}
        self._tree = replace(self._tree, signature=replace(signature, remarks=remarks))

    def _exchange(self, old: Buffer, new: Buffer) -> None:
        own = [new if x is old else x for x in self._tree.signature.buffers]
        signature = replace(self._tree.signature, buffers=own)
        self._tree = replace(self._tree, body=with_buffers(self._tree.body, {old: new}), signature=signature)

    def get_producers(self, block: Any) -> list[BlockRV]:
        """Return the blocks beside a block that write what it reads."""
        return self._beside(block, copying.buffers_read, copying.buffers_written)

    def get_consumers(self, block: Any) -> list[BlockRV]:
        """Return the blocks beside a block that read what it writes."""
        return self._beside(block, copying.buffers_written, copying.buffers_read)

    def _beside(
        self, block: Any, mine: Callable[..., list[Buffer]], theirs: Callable[..., list[Buffer]]
    ) -> list[BlockRV]:
        b = self._block_of(block)
        within, own = moving.scope_of(self._tree.body, b), set(mine(b))
        inner = self._tree.body if within is None else within.body
        return [BlockRV(x.name) for x in outermost_blocks(inner) if x is not b and own & set(theirs(x))]

    def _now(self, made: tuple[Any, Signature]) -> None:
        self._tree = replace(self._tree, body=made[0], signature=made[1])

    def _fresh(self, name: str) -> str:
        """A name that no block has."""
        taken = {s.name for s in everything(self._tree.body) if isinstance(s, Block)}
        return next(n for n in (name, *(f"{name}_{k}" for k in range(1, len(taken) + 2))) if n not in taken)

    @staticmethod
    def _one_of(b: Block, buffers: Sequence[Buffer], which: Any) -> Buffer:
        """The buffer at a position, of a name, or itself."""
        found = [
            x for k, x in enumerate(buffers) if which is x or which == x.name or (which is not True and which == k)
        ]
        if len(found) != 1:
            listed = ", ".join(f"{k}: {x.name}" for k, x in enumerate(buffers))
            raise NotHere(f"{b.name} has no such buffer as {which!r}", f"buffers: {listed or 'none'}")
        return found[0]

    @staticmethod
    def _scope_named(scope: str) -> str:
        try:
            return scope_of(memory(scope))
        except Illegal as why:
            raise NotHere(str(why), getattr(why, "legal", "")) from None
