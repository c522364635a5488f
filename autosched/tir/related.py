"""Which blocks there are around a block: inside of it, before it, after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosched.schedule.stage import Loop, Stage
from autosched.te.tensor import Tensor

if TYPE_CHECKING:
    from autosched.tir.blocks import Block


class Related:
    """The methods of a schedule of blocks that find others."""

    if TYPE_CHECKING:

        def get_loops(self, block: Any) -> list[Loop]: ...

        def _stored(self) -> list[Stage]: ...

        def _block(self, stage: Stage) -> Block: ...

        def _stage(self, block: Any) -> Stage: ...

        def _buffers(self, stage: Stage) -> list[Tensor]: ...

        @property
        def _first_values(self) -> dict[str, str]: ...

    def get_child_blocks(self, block_or_loop: Block | Loop) -> list[Block]:
        """Return the blocks inside a loop, or inside the root block, in order of computation."""
        if isinstance(block_or_loop, Loop):
            return [b for x in self._stored() for b in self._both(x) if block_or_loop in self.get_loops(b)]
        return [b for x in self._stored() for b in self._both(x)] if block_or_loop.name == "root" else []

    def get_producers(self, block: Block) -> list[Block]:
        """Return the blocks whose results a block reads."""
        read = {t.op for t in self._buffers(self._stage(block))}
        return [self._block(x) for x in self._stored() if x.op in read]

    def get_consumers(self, block: Block) -> list[Block]:
        """Return the blocks that read a block's results."""
        op = self._stage(block).op
        return [self._block(x) for x in self._stored() if any(t.op is op for t in self._buffers(x))]

    def get_output_blocks(self, scope_block: Block | str = "root") -> list[Block]:
        """Return the blocks that write results of the function."""
        return [b for x in self._stored() if x.is_output for b in self._both(x)]

    def _both(self, stage: Stage) -> list[Block]:
        """The block of a stage, behind the one that begins its reduction, where that has loops of its own."""
        block = self._block(stage)
        if stage.init is None:
            return [block]
        return [type(block)(self._first_values.get(block.name, f"{block.name}_init")), block]
