"""Primitives for storage: scope, layout, number of copies, and which elements are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.errors import Illegal, ScheduleError
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import (
    Expr,
    as_expr,
    cast,
    const,
    if_then_else,
    is_const,
    is_index,
    logical_and,
    make,
    var,
    variables,
)
from autosched.ir.iter_map import Inversion, NoIterMap
from autosched.ir.node import bottom_up, order
from autosched.ir.ops import CHOICES
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.visit import contains, post_order, rewrite, substitute
from autosched.schedule import kinds as K
from autosched.schedule import scans
from autosched.schedule.formulas import Layout
from autosched.schedule.kinds import at_least, computed, condition_of, factor_of, scope_of
from autosched.schedule.loop import Loop
from autosched.schedule.primitive import keeps_meaning, primitive
from autosched.te.tensor import ComputeOp, IterVar, PlaceholderOp, Tensor

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage


@primitive(K.NAME)
@keeps_meaning
def set_scope(s: Schedule, stage: Stage, scope: str) -> Stage:
    """Say where an intermediate is stored: see `SCOPES`."""
    scans.forbid(stage, "set_scope")
    scope = scope_of(scope)
    if stage.is_placeholder or (stage.is_output and scope != "global"):
        what = "an input" if stage.is_placeholder else "an output"
        reader = f"s.cache_{'read' if stage.is_placeholder else 'write'}({stage.name!r}, {scope!r})"
        raise Illegal(f"{stage.name} is {what}: it is global memory", f"{reader} makes a {scope} copy")
    stage.scope, stage.scope_given = scope, True
    return stage


@primitive(K.AXIS, K.FACTOR, K.FACTOR)
@keeps_meaning
def storage_align(s: Schedule, stage: Stage, axis: Any, factor: Any, offset: Any = 0) -> Stage:
    """Pad an intermediate so that the stride of a dimension is a multiple of `factor`, plus `offset`.

    allocate B[8, 32]   --storage_align(i, 32, 1)->   allocate B[8, 32] strides [33, 1]

    Elements of one column then lie in different banks of shared memory (or sets of a cache).
    `axis` is an axis of the operation: its stride is how far apart two elements are whose indices
    differ by one in that dimension.
    """
    computed(stage)
    if stage.is_output:
        raise Illegal(f"{stage.name} is an output: its layout is the caller's", "storage_align is for intermediates")
    scans.forbid(stage, "storage_align")
    name = axis.name if isinstance(axis, (Loop, IterVar)) else axis
    found = next((a for a, loop in stage.roots.items() if loop.name == name or a is axis), None)
    legal = f"axes of {stage.name}: {', '.join(stage.roots[a].name for a in stage.axis) or 'none'}"
    if found is None:
        raise Illegal(f"{name!r} is not an axis of {stage.name}", legal)
    if found not in stage.axis:
        raise Illegal(f"{name} is a reduce axis: {stage.name} has no such dimension", legal)
    shift = factor_of(s, offset, "offset") if not is_const(as_expr(offset), 0) else const(0)
    stage.alignments[found] = (at_least(s, factor_of(s, factor, "factor"), 1), at_least(s, shift, 0))
    return stage


@primitive()
@keeps_meaning
def double_buffer(s: Schedule, stage: Stage) -> Stage:
    """Keep two copies of an intermediate, and fill one for the next iteration of the loop it is computed
    at while this iteration reads the other.

    for k: A.shared = tile(k); use(A.shared)
      ->
    A0 = tile(0)
    for k, two at a time: A1 = tile(k + 1); use(A0); A0 = tile(k + 2); use(A1)

    So the loads of a tile are on their way while the one before is worked on, and a work-group meets once
    for each tile. It takes a serial loop, of which the stage is computed anew in each iteration from what is
    there already. A stage computed elsewhere, kept through iterations by `store_at`, or that needs
    another one computed at the same loop, which is not doubled, keeps one copy.
    """
    computed(stage)
    scans.forbid(stage, "double_buffer")
    if stage.is_output:
        raise Illegal(f"{stage.name} is an output: there is one of it", "double_buffer is for intermediates")
    stage.doubled = True
    return stage


def doubled_at(s: Schedule, loop: Loop) -> list[Stage]:
    """The double-buffered stages computed at a loop, in order."""
    if loop.kind != "serial" or loop is loop.stage.scan_loop:
        return []
    attached = s.attached_at(loop)
    found = [x for x in attached if x.doubled and x.store.loop in (None, loop)]
    while True:
        plain = [x for x in attached if x not in found]
        fit = [x for x in found if not any(s.depends_on(x, y) for y in plain)]
        if len(fit) == len(found):
            return found
        found = fit


def _check_rolling(s: Schedule, stage: Stage) -> None:
    """Raise ScheduleError for a rolling buffer that is computed in no loop."""
    if stage.rolls and stage.attach.kind != "at":
        where = "is inlined" if stage.attach.kind == "inline" else "is computed at the root"
        raise ScheduleError(
            f"{stage.name} {where}: there is no loop for it to roll along",
            asked=s.earlier("rolling_buffer", stage),
            legal=f"{stage.name}.compute_at a loop of what reads it",
        )


@primitive(check=_check_rolling)
@keeps_meaning
def rolling_buffer(s: Schedule, stage: Stage) -> Stage:
    """Compute only what iterations before have not, and keep the rest in a circular buffer.

    for y:                                  allocate A: 3 rows
      allocate A: 3 rows               ->   for y:
      A[y - 1 .. y + 1] = ..                  if y == 0: A[y - 1 .. y] = ..
      B[y] = g(A[y - 1 .. y + 1])             A[y + 1] = ..
                                              B[y] = g(A[y - 1 .. y + 1])

    This is `store_at` the outermost loop of the consumer that `compute_at` names, or where one between
    runs in parallel, inside that. Which loop that is is seen when lowering, so later calls may still change
    it.
    """
    computed(stage)
    scans.forbid(stage, "rolling_buffer")
    if stage.is_output:
        raise Illegal(f"{stage.name} is an output: it is stored whole", "rolling_buffer is for intermediates")
    if s.scans.step_of(stage) is not None:
        raise Illegal(f"{stage.name} belongs to a step of a scan, and is gone with it", "stages outside of scans")
    stage.rolls = True
    return stage


def _check_predicate(s: Schedule, stage: Stage) -> None:
    """Raise ScheduleError where a loop that decides what is stored is gone."""
    if stage.store_predicate is None:
        return
    live = {x.var for x in stage.loops} | {a.var for a in stage.axis}
    gone = [v for v in sorted(variables(stage.store_predicate), key=order) if v.value.role == "loop" and v not in live]
    if gone:
        raise ScheduleError(
            f"{gone[0].value.name} was split or fused away after {stage.name} was made to depend on it",
            asked=s.earlier("set_store_predicate", stage, repr(stage.store_predicate)),
            legal=f"loops of {stage.name}: {stage.describe()}",
        )


@primitive(K.PREDICATE, check=_check_predicate)
@keeps_meaning(unless=lambda i: "an element for which the condition holds nowhere is never stored")
def set_store_predicate(s: Schedule, stage: Stage, predicate: Any) -> Stage:
    """Store only where a condition on loops holds: where several would store one element, one of them.

    for t in 32: B[i] = f(i)   --set_store_predicate(t == 0)->   for t in 32: if t == 0: B[i] = f(i)

    The condition is over loops, axes and sizes, or a thread axis that a loop is bound to. That each
    element is stored by somebody is your promise: an element that nobody stores keeps what is there.
    """
    computed(stage)
    if stage.scan_loop is not None or stage.scatter_axes:
        kind = "scan" if stage.scan_loop is not None else "scatter"
        raise Illegal(f"{stage.name} is a {kind}: each step goes on from what was stored", "a copy by cache_read")
    condition = condition_of(predicate, s, stage)
    if not condition.dtype.is_bool:
        raise Illegal(f"{condition!r} is no condition", "a comparison, such as loop.var < 1")
    stage.store_predicate = condition
    return stage


# -- layouts --------------------------------------------------------------------------------------
@primitive(K.MAPPING, pad_value=K.VALUE)
@keeps_meaning
def transform_layout(s: Schedule, stage: Stage, mapping: Any, pad_value: Any = None) -> list[Loop]:
    """Keep the elements of a tensor elsewhere: element (i, j) at the indices that `mapping` gives.

    for i in N: for j in M: B[i, j] = f(i, j)   --transform_layout(lambda i, j: [j // 8, i, j % 8])->

    for axis0 in ceil(M/8): for axis1 in N: for axis2 in 8: B[axis0, axis1, axis2] = f(axis1, axis0*8 + axis2)

    The map is made of permutations, splits (`i // 8` with `i % 8`) and fusions (`i*M + j`), so that it can
    be inverted. Where a split does not divide, the layout is padded: with copies of the last element, or with
    `pad_value`. What reads the tensor reads it there. The loops become those of the new indices, which are
    returned (of an input: none); `reorder` brings them into the order to compute in. `te.AXIS_SEPARATOR` may stand
    between indices, for memory of several dimensions; here it makes no difference.

    Inputs and outputs are passed in their new layout by whoever calls the compiled function. A padded output has a
    `pad_value`; the padding of an input is never looked at. The arguments of a workload keep their layout.
    """
    _movable(s, stage)
    placeholder = stage.is_placeholder
    all_axes = tuple(IterVar(f"axis{k}", d) for k, d in enumerate(stage.tensor.shape)) if placeholder else stage.axis
    layout = Layout.of(mapping, len(all_axes))
    known = {k.var for k in s.knobs.values()} | set(s.sizes().values()) | set(layout.placeholders)
    strange = [v.name for e in layout.formulas for v in sorted(variables(e), key=order) if v not in known]
    legal = "each index once, permuted, split as i // f with i % f, or fused as i*extent + j"
    if strange:
        raise Illegal(f"the map depends on {strange[0]}, which is no index, knob or size of this schedule", legal)
    to_axes = {p: a.var for p, a in zip(layout.placeholders, all_axes, strict=True)}
    formulas = [substitute(e, to_axes) for e in layout.formulas]
    axes, old, inside = inverse(all_axes, formulas, legal)

    if stage.is_output and pad_value is None and not is_const(inside, True):
        raise Illegal(f"{stage.name} is an output, and would get padding", "factors that divide, or pad_value=..")
    bodies = tuple(substitute(e, {v: simplify(value) for v, value in old.items()}) for e in stage.body)
    if pad_value is not None and not is_const(inside, True):
        bodies = tuple(_padded(e, inside, pad_value) for e in bodies)
    shape, name = [a.extent for a in axes], stage.tensor.op.name
    op = PlaceholderOp(name, shape, [stage.tensor.dtype]) if placeholder else ComputeOp(name, shape, axes, bodies)
    places = [a.var for a in all_axes]
    before = stage.op.outputs
    s.retensor(stage, op)
    if isinstance(op, ComputeOp):
        stage.define(op.axis, op.reduce_axis, op.body)
    if placeholder or stage.is_output:
        first = {s.passed(t): t for t in (*before, *s.laid_out)}
        s.laid_out.update((first[t], new) for t, new in zip(before, op.outputs, strict=True))
    for user in (x for x in s.stages if not set(before).isdisjoint(x.reads_of_body())):
        an = _within(user.axis, user.reduce_axis)
        user.body = tuple(_moved(e, before, op.outputs, places, formulas, an) for e in user.body)
    return list(stage.loops[: len(axes)])


def _padded(e: Expr, inside: Expr, value: Any) -> Expr:
    """An element, or that value where the new indices are padding; a reduction begins there, and adds nothing."""
    if isinstance(value, float) and not isfinite(value):
        raise Illegal(f"a padding of {value} cannot be stored in a trace", "a finite number: te.min_value(dtype).value")
    pad = const(value, e.dtype)
    if e.op != "reduce":
        return if_then_else(inside, e, pad)
    if e.value.size > 1:
        raise Illegal("padding of a reduction of tuples has no value of its own", "leave pad_value out")
    sources, condition, first = e.value.parts(e.args)
    begin = first or e.value.identity([e.dtype])
    choice = if_then_else(inside, begin[0], pad)
    return make("reduce", e.dtype, (*sources, logical_and(inside, condition), choice), e.value)


def inverse(
    axes: Sequence[IterVar], formulas: Sequence[Expr], legal: str
) -> tuple[list[IterVar], dict[Expr, Expr], Expr]:
    """New axes, each old one's variable as a formula over them, and which of them are no padding.

    Raises Illegal where there is none.
    """
    inversion = Inversion({a.var: a.extent for a in axes})
    made = []
    try:
        for k, e in enumerate(formulas):
            placed, extent = inversion.ordered([(c, inversion.digit(x)) for c, x in inversion.terms(e)], e)
            made.append(IterVar(f"axis{k}", extent))
            inversion.record(placed, made[-1].var)
        inversion.record_sums()
        return made, {a.var: inversion.value(a.var) for a in axes}, simplify(logical_and(*inversion.inside))
    except NoIterMap as why:
        raise Illegal(str(why), legal) from None


def _movable(s: Schedule, stage: Stage) -> None:
    if s.fixed_arguments and (stage.is_placeholder or stage.is_output):
        what, verb = ("input", "read") if stage.is_placeholder else ("output", "write")
        raise Illegal(
            f"{stage.name} is an {what} of a workload: its layout is the caller's",
            f"s.cache_{verb}({stage.name!r}, 'global'), and the layout of that",
        )
    op = stage.op
    if (
        not isinstance(op, ComputeOp | PlaceholderOp)
        or stage.tensor in s.scans.storage
        or stage.scatter_axes
        or s.scans.part(stage) in ("init", "update")
    ):
        raise Illegal(
            f"{stage.name} is no plain computation: its layout is fixed",
            f"cache_read {stage.name}, and the layout of that",
        )
    reader = next((x for x in s.consumers(stage) if not isinstance(x.op, ComputeOp)), None)
    if reader is not None:
        raise Illegal(f"{reader.name} reads {stage.name} as it is", f"cache_read {stage.name} for its other readers")
    attached = any(x.attach.stage is stage for x in s.stages)
    if stage.relations or any(x.mark for x in stage.loops) or attached or stage.alignments or stage.fetches:
        raise Illegal(
            f"the loops of {stage.name} start anew, and something was done with them: {stage.describe()}",
            "transform_layout first, then schedule the new loops",
        )


def _within(*axes: Sequence[IterVar]) -> Analyzer:
    """What is known of the places of a stage: digits of an index then cancel out."""
    an = Analyzer()
    for a in (a for some in axes for a in some if is_const(a.min) and is_const(a.extent)):
        an.bind(a.var, a.min, a.min + a.extent - 1)
    return an


def _moved(
    body: Expr,
    old: Sequence[Tensor],
    new: Sequence[Tensor],
    places: list[Expr],
    formulas: list[Expr],
    an: Analyzer,
) -> Expr:
    """`body` reading the new tensors at the new indices."""

    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        if e.op != "read" or e.value not in old:
            return None
        exact = (i if is_index(i) else cast("int64", i) for i in args)  # places that the data say
        at = dict(zip(places, exact, strict=True))
        places_now = tuple(an.simplify(substitute(f, at)) for f in formulas)
        return make("read", e.dtype, places_now, new[old.index(e.value)])

    return rewrite(body, change)


@primitive()
@keeps_meaning
def cache_padding(s: Schedule, stage: Stage) -> list[Tensor]:
    """Store what a stage reads across a border, the values outside included: it asks no more where the border is.

    for i: for k: B[i] += (A[i + k - 1] if 0 <= i + k - 1 < n else 0) * W[k]   ->
        for ax0: A.padded[ax0] = A[ax0 - 1] if 0 <= ax0 - 1 < n else 0
        for i: for k: B[i] += A.padded[i + k] * W[k]

    That is every `te.if_then_else` between an element and a value that is the same everywhere, where the condition asks
    for nothing but the place of that element, as `te.constant_exterior` makes it; and, of tensors whose sizes are
    numbers, every element whose place is clamped, mirrored or wrapped, as `te.repeat_edge` does it. Places in the same
    tensor share one copy, that of an earlier stage if it has them all. Returns the tensors that are read now.
    """
    computed(stage)
    own = {a.var: a for a in (*stage.axis, *stage.reduce_axis)}
    borders = dict.fromkeys(e for e in post_order(stage.body) if _is_border(e, own))
    stored = {e: padding for e in borders if (padding := _padding(stage, e)) is not None}
    read: dict[Expr, Expr] = {}
    for e, (op, place) in stored.items():
        read[e] = make("read", e.dtype, place, s.insert_stage(op.output_tensor, stage).tensor)
    inside = {x for e in borders for x in post_order(e)}
    bent = dict.fromkeys(e for e in post_order(stage.body) if e.op == "read" and e not in inside)
    regions: dict[tuple[Tensor, tuple[Expr | None, ...]], dict[Expr, Region]] = {}
    for e in bent:
        if (region := region_of(e, own)) is not None:
            regions.setdefault((region.source, region.wraps), {})[e] = region
    for places in regions.values():
        read |= _read_padded(s, stage, places)
    if not read:
        legal = "stages that read an element or a constant, as the element's place says: te.constant_exterior"
        raise Illegal(f"{stage.name} reads nothing across a border", legal)
    stage.body = tuple(rewrite(body, lambda e, _: read.get(e)) for body in stage.body)
    return list(dict.fromkeys(e.value for e in read.values()))


#: Stands for the place in the formula that bends it at a border.
_PLACE = var("place", role="loop")
_SUMS = ("add", "sub", "mul", "neg", "const", "var")
#: Values of an axis, at most, of which the digits are tried.
MOST_DIGITS = 4096


@dataclass(frozen=True)
class Region:
    """The places at which a tensor is read across borders: along each dimension a place, its range, and the formula
    that bends it, as `max(place, 0)` does; None where the index is used as it is."""

    source: Tensor
    wraps: tuple[Expr | None, ...]
    places: tuple[Expr, ...]
    ranges: tuple[tuple[int, int], ...]

    def covers(self, other: Region) -> bool:
        if self.source is not other.source or any(a is not b for a, b in zip(self.wraps, other.wraps, strict=True)):
            return False
        return all(a <= c and d <= b for (a, b), (c, d) in zip(self.ranges, other.ranges, strict=True))

    def padded(self, name: str) -> ComputeOp:
        """A copy of all places in the ranges, named after the source."""
        axes = [IterVar(f"ax{d}", const(last - first + 1)) for d, (first, last) in enumerate(self.ranges)]
        places = [simplify(a.var + first) for a, (first, _) in zip(axes, self.ranges, strict=True)]
        indices = [i if w is None else substitute(w, {_PLACE: i}) for i, w in zip(places, self.wraps, strict=True)]
        body = make("read", self.source.dtype, tuple(indices), self.source)  # as they are: `region_of` knows them again
        return ComputeOp(f"{name}.padded", [a.extent for a in axes], axes, [body])


def region_of(e: Expr, own: Mapping[Expr, IterVar]) -> Region | None:
    """The region that a read goes over, as these axes run; None if it crosses no border, goes farther from a
    tensor than that is long, or its sizes are open."""
    source: Tensor = e.value
    found = []
    for i, length in zip(e.args, source.shape, strict=True):
        if not is_const(length) or int(length.value) < 1:
            return None
        n = int(length.value)
        bent = _bent(i, tuple(own), n) if variables(i) & own.keys() else None
        ends = None if bent is None else _ends(bent[0], tuple((a.var, a.min, a.extent) for a in own.values()))
        is_near = ends is not None and -n <= ends[0] and ends[1] < 2 * n
        found.append((bent[1], bent[0], ends) if bent is not None and is_near else (None, i, (0, n - 1)))
    wraps, places, ranges = zip(*found, strict=True) if found else ((), (), ())
    return Region(source, wraps, places, ranges) if any(w is not None for w in wraps) else None


@bottom_up
def _is_straight(e: Expr, parts: list[bool]) -> bool:
    """Whether it is made of sums and products alone."""
    return e.op in _SUMS and all(parts)


@bottom_up
def _has_digits(e: Expr, parts: list[bool]) -> bool:
    """Whether it is made of sums and products, and of digits: of `q // 9` and `q % 9`."""
    if e.op in ("floordiv", "floormod"):
        return e.args[0].op == "var" and is_const(e.args[1]) and bool(e.args[1].value > 0)
    return e.op in _SUMS and all(parts)


@lru_cache(maxsize=4096)  # taps of a stencil have few different indices, and sketches ask for the same again
def _bent(index: Expr, own: tuple[Expr, ...], length: int) -> tuple[Expr, Expr] | None:
    """The place behind an index, and the formula that bends it where it lies outside a dimension; None where an index
    is its own place, or is made of more than one."""
    if index.op not in ("min", "max", *CHOICES):  # a table that is read round and round has no border
        return None
    an = Analyzer()
    an.bind(_PLACE, 0, length - 1)
    for is_place in (_is_straight, _has_digits):  # what is bent may have remainders, too
        straight: dict[Expr, None] = {}
        waiting, seen = [index], set[Expr]()
        while waiting:
            e = waiting.pop()
            if e in seen or variables(e).isdisjoint(own):
                continue
            seen.add(e)
            if e.op == "read":
                return None
            if is_place(e):
                straight[e] = None
            else:
                waiting += e.args
        for place in straight:  # conditions have it moved by a constant
            moved = {e: _PLACE + simplify(e - place) for e in straight}
            wrap = simplify(rewrite(index, lambda x, _: moved.get(x)))  # noqa: B023  # called at once
            if not variables(wrap) - {_PLACE} and an.simplify(wrap) is _PLACE:
                return place, wrap
    return None


@lru_cache(maxsize=4096)
def _ends(place: Expr, own: tuple[tuple[Expr, Expr, Expr], ...]) -> tuple[int, int] | None:
    """The least and the greatest place, if they are numbers; of each axis its least value and its extent."""
    an = Analyzer()
    for v, least, extent in own:
        an.bind(v, least, least + extent - 1)
    rest = an.poly(place)
    digits = {v for atom in rest.atoms() if atom.op != "var" for v in variables(atom)}
    low = high = 0
    for v, least, extent in own:
        if v in digits:  # each value is tried: `q - 9*(q // 9)` is far less than its terms
            alone = Poly({m: c for m, c in rest.terms.items() if any(v in variables(a) for a in m)})
            if not (is_const(least) and is_const(extent) and alone.variables == {v} and extent.value <= MOST_DIGITS):
                return None
            (values,) = evaluate([alone.expr()], {v: np.arange(extent.value) + least.value})
            rest, low, high = rest - alone, low + int(values.min()), high + int(values.max())
    ends = [an.extreme(rest, [v for v, _, _ in own], largest) for largest in (False, True)]
    first, last = (None if p is None else p.constant for p in ends)
    return None if first is None or last is None or last + high < first + low else (first + low, last + high)


def _starts_there(region: Region, x: Stage) -> bool:
    """Whether the elements of a stage are those of a region, in order."""
    starts = zip(region.places, x.axis, region.ranges, strict=False)
    return len(x.axis) == len(region.places) and all(p is simplify(a.var + first) for p, a, (first, _) in starts)


def _is_copy(x: Stage) -> bool:
    """Whether a stage copies elements of a tensor, in loops of its own."""
    plain = isinstance(x.op, ComputeOp) and not x.is_output and x.attach.kind == "root"
    return plain and len(x.body) == 1 and x.body[0].op == "read"


def _read_padded(s: Schedule, stage: Stage, regions: Mapping[Expr, Region]) -> dict[Expr, Expr]:
    """What reads of one tensor become: reads of a copy that has the places of them all."""
    some = next(iter(regions.values()))
    both = [list(zip(*(r.ranges[d] for r in regions.values()), strict=True)) for d in range(len(some.ranges))]
    whole = replace(some, ranges=tuple((min(first), max(last)) for first, last in both))
    copy, ranges = None, whole.ranges
    for x in filter(_is_copy, s.stages[: s.stages.index(stage)]):
        made = region_of(x.body[0], {a.var: a for a in x.axis})
        if made is not None and made.covers(whole) and _starts_there(made, x):
            copy, ranges = x.tensor, made.ranges
    if copy is None:
        copy = s.insert_stage(whole.padded(s.stage(whole.source).name).output_tensor, stage).tensor
    return {
        e: make(
            "read", e.dtype, tuple(simplify(i - first) for i, (first, _) in zip(r.places, ranges, strict=True)), copy
        )
        for e, r in regions.items()
    }


def _is_border(e: Expr, own: Mapping[Expr, IterVar]) -> bool:
    """Whether an expression is an element or else, outside, a value without the stage's axes."""
    if e.op != "if_then_else" or e.args[1].op != "read":
        return False
    return not variables(e.args[2]) & own.keys() and not contains(e.args[2], "read")


def _padding(stage: Stage, e: Expr) -> tuple[ComputeOp, tuple[Expr, ...]] | None:
    """The operation that computes a tensor with its border, and where the stage reads it; None where the condition asks
    for more than the element's place."""
    condition, element, _ = e.args
    source: Tensor = element.value
    an = Analyzer()
    own = {a.var: a for a in (*stage.axis, *stage.reduce_axis)}
    for a in own.values():
        an.bind(a.var, a.min, a.min + a.extent - 1)
    asked = set(post_order(condition))
    axes: list[IterVar] = []
    places: dict[Expr, Expr] = {}
    indices: list[Expr] = []
    for d, (i, length) in enumerate(zip(element.args, source.shape, strict=True)):
        low, extent = const(0), length
        if i in asked and i.op != "const":
            ends = [an.extreme(an.poly(i), own, largest) for largest in (False, True)]
            if None in ends or i in places:
                return None
            first, last = (an.expr(p) for p in ends if p is not None)
            low, extent = first, an.simplify(last - first + 1)
        axes.append(IterVar(f"ax{d}", extent))
        places[i] = an.simplify(axes[d].var + low)
        indices.append(an.simplify(i - low))
    value = rewrite(if_then_else(condition, element, e.args[2]), lambda x, _: places.get(x))
    if variables(value) & own.keys():
        return None
    name = f"{stage.schedule.stage(source).name}.padded"
    return ComputeOp(name, [a.extent for a in axes], axes, [value]), tuple(indices)


class StoragePrimitives:
    """Methods of a stage."""

    cache_padding = cache_padding
    set_scope = set_scope
    storage_align = storage_align
    double_buffer = double_buffer
    rolling_buffer = rolling_buffer
    set_store_predicate = set_store_predicate
    transform_layout = transform_layout
