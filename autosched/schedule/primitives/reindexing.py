"""`reindex`: what a stage reads, in the order in which it reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosched.errors import Illegal
from autosched.ir.expr import Expr, is_index, make, variables
from autosched.ir.simplify import Analyzer
from autosched.ir.visit import reads, rewrite, substitute
from autosched.schedule import kinds as K
from autosched.schedule import scans
from autosched.schedule.kinds import computed
from autosched.schedule.primitive import keeps_meaning, primitive
from autosched.te.tensor import ComputeOp, IterVar, Tensor

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage


@primitive(K.TENSOR, of_schedule=True)
@keeps_meaning
def reindex(s: Schedule, stage: Stage, operand: Any) -> Tensor:
    """Copy what a stage reads of a tensor into the order in which it reads it.

    for i: for j: B[i, j] = f(A[j, 2*i])   ->   for i: for j: A.reindex[i, j] = A[j, 2*i]
                                                for i: for j: B[i, j] = f(A.reindex[i, j])

    The copy has a dimension for each axis of the stage that the place depends on, spatial ones first. For a convolution
    it is the matrix of its windows, as large as that is: `compute_at` makes it as much as a tile reads. Returns the
    copy's tensor. The stage has to read the tensor at one place, which lies inside it wherever the axes are.
    """
    computed(stage)
    scans.forbid(stage, "reindex")
    source = s.stage(operand)
    found = list(dict.fromkeys(e for value in stage.body for e in reads(value) if s.stage(e.value) is source))
    if len(found) != 1:
        many = f"at {len(found)} places" if found else "nowhere"
        legal = f"a tensor that it reads at one place; cache_read copies {source.name} as it is"
        raise Illegal(f"{stage.name} reads {source.name} {many}", legal)
    read = found[0]
    own = {a.var: a for a in (*stage.axis, *stage.reduce_axis)}
    place = _place_inside(stage, read, own)
    kept = [a for a in own.values() if any(a.var in variables(i) for i in place)]
    axes = [IterVar(a.name, a.extent) for a in kept]
    begins = {a.var: b.var + a.min for a, b in zip(kept, axes, strict=True)}
    body = make("read", read.dtype, tuple(substitute(i, begins) for i in place), read.value)
    op = ComputeOp(f"{s.stage(read.value).name_of(read.value)}.reindex", [a.extent for a in axes], axes, (body,))
    copy = s.insert_stage(op.output_tensor, stage).tensor
    again = make("read", read.dtype, tuple(a.var - a.min for a in kept), copy)
    stage.body = tuple(rewrite(e, lambda x, args: again if x is read else None) for e in stage.body)
    return copy


def _place_inside(stage: Stage, read: Expr, own: dict[Expr, IterVar]) -> list[Expr]:
    """The place read. Raises Illegal unless it is inside of the tensor for all values of the axes, whatever conditions
    say: the copy is made without them."""
    an = Analyzer()
    for a in own.values():
        an.bind(a.var, a.min, a.min + a.extent - 1)
    place = []
    for i, length in zip(read.args, read.value.shape, strict=True):
        if not (is_index(i) and an.is_within(i, length)):
            raise Illegal(
                f"{stage.name} may read outside of {read.value.name}, at {i!r} of {length!r}",
                "indices that stay inside without a condition: a padded tensor of its own",
            )
        place.append(i if i.op == "var" else an.expr(an.poly(i)))
    return place
