"""`transform_layout`: where the elements of an intermediate are kept, as index arithmetic.

    s[B].transform_layout(lambda i, j: [j // 8, i, j % 8])

`ir.arith.iter_map` inverts the map.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autosched.ir.expr import (
    Expr,
    as_expr,
    cast,
    is_index,
    make,
    var,
    variables,
)
from autosched.ir.simplify import simplify
from autosched.ir.visit import rewrite, substitute
from autosched.schedule.handles import computed
from autosched.schedule.illegal import Illegal
from autosched.schedule.meaning import keeps_meaning
from autosched.schedule.trace import factor_from_json, factor_to_json
from autosched.te.separator import AXIS_SEPARATOR, AxisSeparator
from autosched.te.tensor import ComputeOp, IterVar, Tensor

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage

__all__ = ["Layout", "transform_layout"]


@dataclass(frozen=True)
class Layout:
    """A map of indices as data: formulas over placeholders, one for each old index."""

    placeholders: tuple[Expr, ...]
    indices: tuple[Expr | AxisSeparator, ...]

    @staticmethod
    def of(mapping: Callable[..., Any] | Layout, rank: int) -> Layout:
        """What a function makes of `rank` indices. Raises Illegal if it is no map of so many."""
        if isinstance(mapping, Layout):
            return mapping
        legal = f"a function of {rank} indices that returns a list of formulas over them"
        placeholders = tuple(var(str(i), role="axis") for i in range(rank))
        try:
            inspect.signature(mapping).bind(*placeholders)
        except TypeError as error:
            raise Illegal(f"the map cannot be called with {rank} indices: {error}", legal) from None
        made = mapping(*placeholders)
        if not isinstance(made, (list, tuple)) or not made:
            raise Illegal(f"the map returns {made!r}", legal)
        return Layout(placeholders, tuple(x if isinstance(x, AxisSeparator) else as_expr(x) for x in made))

    @staticmethod
    def from_json(data: list[Any], names: dict[tuple[str, str], Expr], rank: int) -> Layout:
        """The inverse of `to_json`; `names` are knobs and sizes. Raises RecordError."""
        placeholders = tuple(var(str(i), role="axis") for i in range(rank))
        known = {**names, **{("axis", p.value.name): p for p in placeholders}}
        return Layout(placeholders, tuple(AXIS_SEPARATOR if x == "|" else factor_from_json(x, known) for x in data))

    @property
    def formulas(self) -> tuple[Expr, ...]:
        return tuple(x for x in self.indices if isinstance(x, Expr))

    def to_json(self) -> list[Any]:
        """A formula for each index, with `["axis", "0"]` for the first one; `"|"` is the separator."""
        return ["|" if isinstance(x, AxisSeparator) else factor_to_json(x) for x in self.indices]

    def __repr__(self) -> str:
        return repr(list(self.indices))


def _inverse(axes: Sequence[IterVar], formulas: Sequence[Expr], legal: str) -> tuple[list[IterVar], dict[Expr, Expr]]:
    """New axes, and each old one's variable as a formula over them. Raises Illegal where there is none."""
    from autosched.ir.arith.iter_map import Inversion, NoIterMap  # which few schedules need

    inversion = Inversion({a.var: a.extent for a in axes})
    made = []
    try:
        for k, e in enumerate(formulas):
            placed, extent = inversion.ordered([(c, inversion.digit(x)) for c, x in inversion.terms(e)], e)
            made.append(IterVar(f"axis{k}", extent))
            inversion.record(placed, made[-1].var)
        inversion.record_sums()
        return made, {a.var: inversion.value(a.var) for a in axes}
    except NoIterMap as why:
        raise Illegal(str(why), legal) from None


@keeps_meaning
def transform_layout(s: Schedule, stage: Stage, mapping: Any) -> Any:
    """Keep the elements of an intermediate elsewhere: element (i, j) at the indices that `mapping` gives.

    for i in N: for j in M: B[i, j] = f(i, j)   --transform_layout(lambda i, j: [j // 8, i, j % 8])->

    for axis0 in ceil(M/8): for axis1 in N: for axis2 in 8: B[axis0, axis1, axis2] = f(axis1, axis0*8 + axis2)

    The map is made of permutations, splits (`i // 8` with `i % 8`) and fusions (`i*M + j`), so that it can
    be inverted. Where a split does not divide, the layout is padded with copies of the last element.
    What reads the tensor reads it there. The loops become those of the new indices, which are
    returned; `reorder` brings them into the order to compute in. `te.AXIS_SEPARATOR` may stand between
    indices, for memory of several dimensions; here it makes no difference.
    """
    computed(stage)
    _movable(s, stage)
    layout = Layout.of(mapping, len(stage.axis))
    known = {k.var for k in s.knobs.values()} | set(s.sizes().values()) | set(layout.placeholders)
    strange = [v.name for e in layout.formulas for v in variables(e) if v not in known]
    legal = "each index once, permuted, split as i // f with i % f, or fused as i*extent + j"
    if strange:
        raise Illegal(f"the map depends on {strange[0]}, which is no index, knob or size of this schedule", legal)
    to_axes = {p: a.var for p, a in zip(layout.placeholders, stage.axis, strict=True)}
    formulas = [substitute(e, to_axes) for e in layout.formulas]
    axes, old = _inverse(stage.axis, formulas, legal)

    bodies = tuple(substitute(e, {v: simplify(value) for v, value in old.items()}) for e in stage.body)
    op = ComputeOp(stage.tensor.op.name, [a.extent for a in axes], axes, bodies)
    places = [a.var for a in stage.axis]
    before = stage.op.outputs
    s.retensor(stage, op)
    stage.define(op.axis, op.reduce_axis, op.body)
    for user in s.stages:
        user.body = tuple(_moved(e, before, op.outputs, places, formulas) for e in user.body)
    return list(stage.loops[: len(axes)])


def _movable(s: Schedule, stage: Stage) -> None:
    if stage.is_output:
        raise Illegal(
            f"{stage.name} is an output: its layout is the caller's",
            f"s.cache_write({stage.name!r}, 'global'), and the layout of that",
        )
    op = stage.op
    if not isinstance(op, ComputeOp) or stage.scatter_axes or s.scans.part(stage) in ("init", "update"):
        raise Illegal(
            f"{stage.name} is no plain computation: its layout is fixed",
            f"cache_read {stage.name}, and the layout of that",
        )
    reader = next((x for x in s.consumers(stage) if not isinstance(x.op, ComputeOp)), None)
    if reader is not None:
        raise Illegal(f"{reader.name} reads {stage.name} as it is", f"cache_read {stage.name} for its other readers")
    guest = next((x for x in s.stages if x.attach.stage is stage), None)
    if stage.relations or any(x.mark for x in stage.loops) or guest is not None or stage.alignments or stage.fetches:
        raise Illegal(
            f"the loops of {stage.name} start anew, and something was done with them: {stage.describe()}",
            "transform_layout first, then schedule the new loops",
        )


def _moved(body: Expr, old: Sequence[Tensor], new: Sequence[Tensor], places: list[Expr], formulas: list[Expr]) -> Expr:
    """`body` reading the new tensors at the new indices."""

    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        if e.op != "read" or e.value not in old:
            return None
        exact = (i if is_index(i) else cast("int64", i) for i in args)  # places that the data say
        at = dict(zip(places, exact, strict=True))
        places_now = tuple(simplify(substitute(f, at)) for f in formulas)
        return make("read", e.dtype, places_now, new[old.index(e.value)])

    return rewrite(body, change)
