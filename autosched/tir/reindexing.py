"""Copies in a layout of their own, `reindex_cache_read` and `reindex_cache_write`; at a loop, `read_at`, `write_at`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosched.ir.expr import as_expr, variables
from autosched.ir.visit import reads, substitute

if TYPE_CHECKING:
    from autosched.tir.blocks import Block


class Reindexing:
    """The methods of a schedule of blocks that copy into a layout over a block's axes."""

    if TYPE_CHECKING:

        def _stage(self, block: Any) -> Any: ...

        def _buffers(self, stage: Any) -> list[Any]: ...

        def _buffer(self, stage: Any, buffers: Any, which: Any, asked: str) -> Any: ...

        def _refuse(self, asked: str, why: str, legal: str = "") -> Any: ...

        def reindex(self, block: Any, buffer: Any) -> Block: ...

        def cache_read(self, block: Any, read_buffer_index: Any, storage_scope: str, consumer_blocks: Any) -> Block: ...

        def cache_write(self, block: Any, write_buffer_index: Any, storage_scope: str) -> Block: ...

        def compute_at(self, block: Any, loop: Any) -> None: ...

        def reverse_compute_at(self, block: Any, loop: Any) -> None: ...

        def set_scope(self, block: Any, buffer_index: Any, storage_scope: str) -> None: ...

        def transform_layout(self, block: Any, buffer: Any, index_map: Any) -> None: ...

    def reindex_cache_read(self, block: Block, read_buffer_index: int, storage_scope: str, index_map: Any) -> Block:
        """Copy what a block reads into a buffer with an index for each that `index_map` makes of the block's axes.

        Returns the block of the copy. Raises ScheduleError for a map that depends on axes by which the block does not
        read, or cannot be inverted.
        """
        stage = self._stage(block)
        tensor = self._buffer(stage, self._buffers(stage), read_buffer_index, "reindex_cache_read")
        places = [e.args for body in stage.body for e in reads(body) if e.value is tensor]
        axes = [*stage.axis, *stage.reduce_axis]
        used = [a for a in axes if any(a.var in variables(i) for at in places for i in at)]
        mapping = self._over(index_map, axes, used, "reindex_cache_read")
        copy = self.reindex(block, tensor)
        self.set_scope(copy, 0, storage_scope)
        self.transform_layout(copy, ("write", 0), mapping)
        return copy

    def reindex_cache_write(self, block: Block, write_buffer_index: int, storage_scope: str, index_map: Any) -> Block:
        """Compute a block into a buffer with an index for each that `index_map` makes of the block's axes, and copy
        that. Returns the block of the copy. Raises ScheduleError as `reindex_cache_read` does."""
        stage = self._stage(block)
        mapping = self._over(index_map, [*stage.axis, *stage.reduce_axis], stage.axis, "reindex_cache_write")
        copy = self.cache_write(block, write_buffer_index, storage_scope)
        self.transform_layout(block, ("write", 0), mapping)
        return copy

    def _over(self, index_map: Any, axes: Any, used: Any, asked: str) -> Any:
        """The map as a function of some of the axes."""
        call = getattr(index_map, "map_indices", None) or (lambda given: index_map(*given))
        made = call([a.var for a in axes])
        formulas = [as_expr(e) for e in (made if isinstance(made, (list, tuple)) else [made])]
        strange = next((a for a in axes if a not in used and any(a.var in variables(e) for e in formulas)), None)
        if strange is not None:
            why = f"the copy does not depend on {strange.name}"
            self._refuse(f"{asked}(..)", why, f"a map over {', '.join(a.name for a in used) or 'nothing'}")
        return lambda *given: [substitute(e, {a.var: x for a, x in zip(used, given, strict=True)}) for e in formulas]
