"""Calls of TVM's `tir.Schedule` that this model of schedules has no place for. Where `autosched.tvm` was imported, some
of them (`TreeEdits.EDITS`) are made on the statements that the function says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from autosched.errors import ScheduleError

_EDITS = "a block computes what te.compute says; schedules move and store it, and do not edit it"

#: name -> why not, and what to write instead
REFUSED: dict[str, tuple[str, str]] = {
    "merge": (
        "loops belong to one stage each, and those of two stages are not made one",
        "compute_at or reverse_compute_at: one block inside the other's loops",
    ),
    "loop_partition": (
        "lowering cuts loops into borders and interior by itself",
        "annotate(loop, 'pragma_loop_partition_hint', 0) where it should not",
    ),
    "sample_partitioned_tile": ("only tilings without conditions are drawn", "sample_perfect_tile(loop, n)"),
    "cache_inplace": ("a tensor is computed once and not overwritten", "cache_read or cache_write"),
    "cache_index": (
        "common parts of indices are found by the compiler, without being stored",
        "a te.compute of the indices, where a table is what is wanted",
    ),
    "decompose_padding": ("lowering cuts padded blocks into border and interior by itself", "nothing: leave it out"),
    "pad_einsum": (_EDITS, "split(.., tail='round_up') of the te schedule, sch.schedule, which pads storage"),
    "unsafe_set_dtype": (_EDITS, ".astype(..) in the te.compute"),
}


class ByStatements:
    """The methods of a schedule of blocks that stages have no place for."""

    of_statements: ClassVar[Any] = None  #: the class for modules of functions without stages, where there is one
    #: makes such a call: (schedule, name, arguments) -> another schedule, result
    edited: ClassVar[Callable[..., tuple[Any, Any]] | None] = None

    if TYPE_CHECKING:
        _template: Any

        def _stage(self, block: Any) -> Any: ...

        def _refuse(self, asked: str, why: str, legal: str = "") -> Any: ...

    def _become(self, other: Any) -> None:
        """Be another schedule from now on."""
        self.__dict__.clear()
        self.__dict__.update(other.__dict__)
        self.__class__ = type(other)

    def _otherwise(self, refused: ScheduleError, name: str, *args: Any) -> Any:
        """Make a call that stages refuse on the statements; raise what they said, where that is refused, too."""
        edited = type(self).edited
        if edited is None or self._template is not None:
            raise refused
        try:
            made, result = edited(self, name, args, {})
        except ScheduleError:
            raise refused from None
        self._become(made)
        return result

    def can_decompose_padding(self, block: Any, loop: Any) -> bool:
        """Whether `decompose_padding` would take the block."""
        self._stage(block)
        edited = type(self).edited
        if self._template is not None or edited is None:
            return False
        try:
            edited(self, "decompose_padding", (block, loop), {})
        except ScheduleError:
            return False
        return True


def _of(name: str, why: str, legal: str) -> Any:
    def call(self: ByStatements, *args: Any, **options: Any) -> Any:
        edited = type(self).edited
        if edited is None or self._template is not None or name not in self.of_statements.EDITS:
            return self._refuse(f"{name}(..)", why, legal)
        made, result = edited(self, name, args, options)
        self._become(made)
        return result

    call.__name__, call.__doc__ = name, f"Of stages: {why}. Made on the statements, where `autosched.tvm` is there."
    return call


for _name, _texts in REFUSED.items():
    setattr(ByStatements, _name, _of(_name, *_texts))
