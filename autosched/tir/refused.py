"""Calls of TVM's `tir.Schedule` that this model of schedules has no place for."""

from __future__ import annotations

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
    "read_at": ("a copy is a block of its own", "cache_read(block, ..), and compute_at(copy, loop)"),
    "write_at": ("a copy is a block of its own", "cache_write(block, ..), and reverse_compute_at(copy, loop)"),
    "decompose_padding": ("lowering cuts padded blocks into border and interior by itself", "nothing: leave it out"),
    "pad_einsum": (_EDITS, "split(.., tail='round_up') of the te schedule, sch.schedule, which pads storage"),
    "unsafe_set_dtype": (_EDITS, ".astype(..) in the te.compute"),
    "unsafe_hide_buffer_access": ("what is read and written is known from the te.compute", "nothing: leave it out"),
}
