"""Calls of TVM's `tir.Schedule` that this model of schedules has no place for. Where `autosched.tvm` was imported, some
of them (`TreeEdits.EDITS`) are made on the statements that the function says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


class Refusing:
    """The methods of a schedule of blocks that stages have no place for."""

    if TYPE_CHECKING:

        def _refuse(self, asked: str, why: str, legal: str = "") -> Any: ...


def _of(name: str, why: str, legal: str) -> Any:
    def call(self: Refusing, *args: Any, **options: Any) -> Any:
        return self._refuse(f"{name}(..)", why, legal)

    call.__name__, call.__doc__ = name, f"Of stages: {why}. Made on the statements, where `autosched.tvm` is there."
    return call


for _name, _texts in REFUSED.items():
    setattr(Refusing, _name, _of(_name, *_texts))
