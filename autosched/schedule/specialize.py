"""`specialize`: several versions of a stage's loops, of which the sizes of a call choose one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosched.ir.expr import variables
from autosched.schedule.handles import computed
from autosched.schedule.illegal import Illegal
from autosched.schedule.meaning import keeps_meaning
from autosched.schedule.predicates import predicate_from_json, predicate_to_json
from autosched.te.tensor import ComputeOp

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage

__all__ = ["specialize"]


@keeps_meaning
def specialize(s: Schedule, stage: Stage, condition: Any) -> None:
    """Write the loops once more for calls whose sizes satisfy a condition, and make use of it there.

    for i.outer: for i.inner in 8: if i < n: B[i] = f(i)   --specialize(n % 8 == 0)->

    if n % 8 == 0: for i.outer: for i.inner in 8: B[i] = f(i)
    else:          for i.outer: for i.inner in 8: if i < n: B[i] = f(i)

    The condition is over sizes; several are one after the other, and the first that holds decides. Of
    `size % number == 0` and `size == number` most is made. Whatever is computed inside the loops is
    written again too. Halide's `specialize`; unlike there, all versions have the loops of the stage.
    """
    computed(stage)
    if not isinstance(stage.op, ComputeOp):
        raise Illegal(f"{stage.name} is no plain computation: it is not written twice", "specialize what reads it")
    legal = f"a comparison of sizes: {', '.join(s.sizes()) or 'there are none'}"
    found = predicate_from_json(predicate_to_json(condition, stage), s, stage)
    if not found.dtype.is_bool:
        raise Illegal(f"{found!r} is no condition", legal)
    strange = sorted(v.name for v in variables(found) if v.value.role != "size")
    if strange or not variables(found):
        raise Illegal(f"{strange[0] if strange else repr(found)} is no size: a call cannot choose by it", legal)
    stage.special_cases.append(found)
