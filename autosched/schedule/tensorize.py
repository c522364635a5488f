"""`tensorize`: the loops from one on inwards give way to a hardware intrinsic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosched.schedule.handles import leaf
from autosched.schedule.illegal import Illegal
from autosched.schedule.meaning import keeps_meaning
from autosched.te.tensor import ComputeOp
from autosched.te.tensor_intrin import TensorIntrin, find_tensor_intrin

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage

__all__ = ["tensorize"]


@keeps_meaning
def tensorize(s: Schedule, stage: Stage, loop: Any, intrin: Any) -> None:
    """Do what the loops from this one on inwards compute by an intrinsic (or by the name of one).

    for i.outer:                                for i.outer:
      for i.inner in 16:        ->                gemv(&C[i.outer*16], &A[0], &B[i.outer*16, 0], ...)
        for k: C[..] += A[k]*B[.., k]

    Lowering makes sure that those loops compute just what the intrinsic does, and says what differs.
    Where loops of a reduction stay outside, the intrinsic's reset and update are used.
    """
    found = intrin if isinstance(intrin, TensorIntrin) else find_tensor_intrin(str(intrin))
    if found is None:
        raise Illegal(
            f"no intrinsic {intrin!r} is declared in this process",
            f"te.decl_tensor_intrin(..., name={str(intrin)!r}) in a file that this process imports",
        )
    chosen = leaf(stage, loop)
    if not isinstance(stage.op, ComputeOp) or stage.op.num_outputs != 1:
        raise Illegal(f"{stage.name} is not a computation of one output", "tensorize one that is")
    inside = stage.loops[stage.loops.index(chosen) :]
    marked = [x for x in inside if x.kind != "serial"]
    if marked:
        raise Illegal(
            f"{marked[0]!r} would be inside the intrinsic", "loops that are not marked; the intrinsic says how it runs"
        )
    stage.intrinsic = (chosen, found)
    chosen.kind = "tensorize"
