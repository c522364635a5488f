"""Functions of stages as the statements that their script says: loops as they stand, storage as it was declared."""

from __future__ import annotations

from autosched.ir.stmt import Function
from autosched.tir.module import PrimFunc
from autosched.tvm.script.parser import source_of, tree_of


def as_written(f: PrimFunc) -> Function:
    """The statements of a function's script. Raises AutoschedError for a schedule that is not printed."""
    made = tree_of(source_of(f.script(), {}))
    return made.function()
