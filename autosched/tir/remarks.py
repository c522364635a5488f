"""Calls that change nothing that is computed: annotations, which are kept and printed unless they ask something of a
loop; the order of axes, and where dimensions are parted, which are checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from autosched.schedule.primitives import marks as pragmas
from autosched.schedule.stage import Loop

if TYPE_CHECKING:
    from autosched.tir.blocks import Block


class Annotations:
    """The methods of a schedule of blocks that annotate."""

    #: annotations whose value is code, such as `pragma_import_c` -> what compiles it at once, for all programs
    importers: ClassVar[dict[str, Callable[[str], None]]] = {}

    if TYPE_CHECKING:
        _remarks: dict[tuple[str, str], dict[str, Any]]

        def _stage(self, block: Any) -> Any: ...

        def _block(self, stage: Any) -> Any: ...

        def _do(self, stage: Any, kind: str, *args: Any, **options: Any) -> Any: ...

        def _owner(self, asked: str, loops: Sequence[Any]) -> Any: ...

        def _buffers(self, stage: Any) -> list[Any]: ...

        def _buffer(self, stage: Any, buffers: Any, which: Any, asked: str) -> Any: ...

        def _refuse(self, asked: str, why: str, legal: str = "") -> Any: ...

    def annotate(self, block_or_loop: Block | Loop, ann_key: str, ann_val: Any = None) -> None:
        """Annotate a block or a loop.

        A loop's `pragma_..` is `Stage.pragma`, or code that is compiled (`importers`); a block's `double_buffer_scope`
        is `Stage.double_buffer`. Any other key is kept with its value, printed by `script()`, read back, and means
        nothing; no trace has it.
        """
        key = str(ann_key)
        if key in self.importers:
            self.importers[key](str(ann_val))
        elif isinstance(block_or_loop, Loop) and key.startswith("pragma_"):
            name = key.removeprefix("pragma_")
            value = None if ann_val == 1 and name not in pragmas.COUNTS else ann_val  # 1: "do it"
            self._do(self._owner("annotate", [block_or_loop]), "pragma", block_or_loop, name, pragma_value=value)
        elif key.startswith("pragma_"):
            self._refuse(f"annotate({key!r})", f"{key!r} belongs to a loop", "annotate(loop, 'pragma_..', value)")
        elif key == "double_buffer_scope" and not isinstance(block_or_loop, Loop):
            stage = self._stage(block_or_loop)
            self._buffer(stage, stage.op.outputs, ann_val or 0, "annotate")
            self._do(stage, "double_buffer")
        else:
            self._remarks.setdefault(self._place(block_or_loop), {})[key] = plain(ann_val)

    def unannotate(self, block_or_loop: Block | Loop, ann_key: str) -> None:
        """Take an annotation back. Raises ScheduleError for one that is not there, or asked something of the loop."""
        key, place = str(ann_key), self._place(block_or_loop)
        kept = self._remarks.get(place, {})
        if key not in kept:
            asked_of = key.startswith("pragma_") or key == "double_buffer_scope"
            why = "a trace only adds, and what was asked stays asked" if asked_of else f"there is no {key!r}"
            legal = f"annotations: {', '.join(kept) or 'none'}"
            self._refuse(f"unannotate({key!r})", why, "annotate it with another value" if asked_of else legal)
        del kept[key]

    def reorder_block_iter_var(self, block: Any, new_order: Sequence[int]) -> None:
        """Check an order of a block's axes. It changes nothing: loops have an order of execution, axes have none.

        Raises ScheduleError unless each of them is in it, once.
        """
        count = len(self._axes(block))
        if sorted(plain(list(new_order))) != list(range(count)):
            why = f"{list(new_order)} is no order of {count} axes"
            self._refuse("reorder_block_iter_var(..)", why, f"each of 0 to {count - 1}, once")

    def set_axis_separator(self, block: Any, buffer: Any, axis_separators: Sequence[int]) -> None:
        """Check the places where a buffer's dimensions are parted. It changes nothing: memory has one dimension here.

        Raises ScheduleError unless the places rise, from 0 to the number of dimensions.
        """
        which = buffer[1] if isinstance(buffer, tuple) else buffer
        found, places = self._accessed(block, buffer, which), plain(list(axis_separators or ()))
        rising = all(a < b for a, b in pairwise(places))
        if not rising or not all(isinstance(p, int) and 0 <= p <= len(found.shape) for p in places):
            why = f"{places} are no places between {len(found.shape)} dimensions"
            self._refuse("set_axis_separator(..)", why, f"rising numbers, 0 to {len(found.shape)}")

    def unsafe_hide_buffer_access(self, block: Any, buf_type: str, buf_index_array: Sequence[int]) -> None:
        """Check which of a block's buffers are meant. It changes nothing: what is read and written is known from what
        the block does, not from what it says.

        Raises ScheduleError for a kind other than "read" and "write", and for a buffer that there is not.
        """
        if buf_type not in ("read", "write"):
            self._refuse("unsafe_hide_buffer_access(..)", f"no kind {buf_type!r}", '"read", "write"')
        for k in plain(list(buf_index_array)):
            self._accessed(block, (buf_type, k), k)

    def _axes(self, block: Any) -> Sequence[Any]:
        stage = self._stage(block)
        return [*stage.axis, *stage.reduce_axis]

    def _accessed(self, block: Any, buffer: Any, which: Any) -> Any:
        stage = self._stage(block)
        read, written = self._buffers(stage), list(stage.op.outputs)
        known = {"read": read, "write": written}.get(buffer[0], []) if isinstance(buffer, tuple) else [*written, *read]
        return self._buffer(stage, known, which, "set_axis_separator")

    def _place(self, block_or_loop: Any) -> tuple[str, str]:
        if isinstance(block_or_loop, Loop):
            return self._block(self._owner("annotate", [block_or_loop])).name, block_or_loop.name
        self._stage(block_or_loop)
        return str(getattr(block_or_loop, "name", block_or_loop)), ""

    def _unremarked(self, asked: str, loops: Sequence[Loop]) -> None:
        """Raise ScheduleError for loops that have annotations, which none of their parts would have."""
        for loop in loops:
            kept = self._remarks.get(self._place(loop))
            if kept:
                why = f"{loop.full_name} is annotated: {', '.join(kept)}"
                self._refuse(f"{asked}({loop.name})", why, "unannotate(loop, key) first")


def plain(value: Any) -> Any:
    """An annotation's value as Python says it."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return getattr(value, "value", value) if getattr(value, "op", "") == "const" else value
