"""Reductions over prefixes, or suffixes, of the same terms, as recurrences: each result goes on with the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autosched.errors import Illegal
from autosched.ir.expr import Expr, compare, const, if_then_else, is_const, logical_and, logical_not, make, variables
from autosched.ir.ops import CHOICES
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.visit import conjuncts, substitute
from autosched.schedule import scans
from autosched.schedule.kinds import computed, starts_anew
from autosched.schedule.primitive import keeps_meaning, primitive
from autosched.schedule.scans import Scans
from autosched.te.reducers import takes_any_order
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, IterVar, PlaceholderOp

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage


@dataclass(frozen=True)
class Run:
    """A reduction over `k` whose results along `axis` take one more term each: in rising order of places, all `k` up to
    their own, else all from it on. `is_strict` leaves out the own one. `terms` are what is combined where `condition`
    holds, which do not depend on the axis."""

    axis: IterVar
    k: IterVar
    rises: bool
    is_strict: bool
    terms: tuple[Expr, ...]
    condition: Expr


def run_of(stage: Stage) -> Run | None:
    """How the results of a reduction go on with one another; None where they do not.

    >>> from autosched import create_schedule, te
    >>> A, k = te.placeholder((64,), name="A"), te.reduce_axis((0, 64), name="k")
    >>> s = create_schedule(te.compute((64,), lambda j: te.sum(A[k], axis=k, where=k < j), name="B"))
    >>> found = run_of(s["B"])
    >>> found.axis.name, found.rises, found.is_strict
    ('j', True, True)
    """
    if len(stage.reduce_axis) != 1 or stage.scatter_axes or not isinstance(stage.op, ComputeOp):
        return None
    (k,), body = stage.reduce_axis, stage.body[0]
    if not is_const(k.min, 0) or not all(is_const(a.min, 0) for a in stage.axis):
        return None
    sources, condition, begin = body.value.parts(body.args)
    if len(sources) == 1:
        sources, condition = _without_choice(sources[0], condition, body.value.identity([sources[0].dtype])[0])
    asked = conjuncts(condition)
    for axis in stage.axis:
        both = [c for c in asked if {axis.var, k.var} <= variables(c)]
        rest = [c for c in asked if c not in both]
        if len(both) != 1 or any(axis.var in variables(e) for e in (*sources, *rest, *begin)):
            continue
        found = _direction(both[0], axis, k)
        if found is not None and (found[0] or takes_any_order(body.value.combiner)):
            return Run(axis, k, *found, tuple(sources), logical_and(*rest))
    return None


def _without_choice(source: Expr, condition: Expr, identity: Expr) -> tuple[tuple[Expr, ...], Expr]:
    """A term that is nothing where a condition does not hold, as a term that is left out there."""
    if source.op in CHOICES and source.args[2] is identity:
        return (source.args[1],), logical_and(condition, source.args[0])
    if source.op in CHOICES and source.args[1] is identity:
        return (source.args[2],), logical_and(condition, logical_not(source.args[0]))
    return (source,), condition


def _direction(condition: Expr, axis: IterVar, k: IterVar) -> tuple[bool, bool] | None:
    """Whether terms are those up to the own place, or from it on; and whether the own one is left out."""
    an = Analyzer()
    holds = an.inequalities(condition)
    if len(holds) != 1:
        return None
    ahead = {True: an.poly(axis.var - k.var), False: an.poly(k.var - axis.var)}
    for rises, distance in ahead.items():
        left = (holds[0] - distance).expr()
        if is_const(left) and int(left.value) in (0, -1):
            longer = k.extent + (0 if is_const(left, 0) else 1)
            enough = compare("ge", longer, axis.extent) if rises else compare("eq", k.extent, axis.extent)
            return (rises, not is_const(left, 0)) if an.prove(enough) else None
    return None


@primitive(of_schedule=True)
@keeps_meaning
def running_reduction(s: Schedule, stage: Stage) -> Any:
    """Let each result of a prefix go on with the one before it, in place of a reduction of its own.

    for j: for k: if k <= j: B[j] += A[k]   --running_reduction(B)->
        B.running[0] = A[0]
        for j in 1..n: B.running[j] = B.running[j-1] + A[j]
        for j: B[j] = B.running[j]

    The condition may be `k <= j` or `k < j`, with others that do not ask for `j`, and the terms may depend on all axes
    but `j`. They are combined in the same order, so floats have the same bits. So may suffixes be, `k >= j` or `k > j`,
    from the end: in another order, so that combiners must be known to take any. The loops of the stage start anew, as
    those of a map. Returns the tensor of the recurrence, a scan; of tuples a list.
    """
    computed(stage)
    scans.forbid(stage, "running_reduction")
    starts_anew(s, stage, "running_reduction")
    if s.scans.step_of(stage) is not None:
        raise Illegal(f"{stage.name} is a part of a step of a scan", "reductions outside of scans")
    if stage.init is not None or stage.relations:
        raise Illegal(f"loops of {stage.name} are cut already, and the loops start anew", "running_reduction first")
    run = run_of(stage)
    if run is None:
        why = f"no axis of {stage.name} says how many terms a result takes"
        raise Illegal(why, "te.sum(a[k], axis=k, where=k <= j): terms that do not depend on j, of as many k as j")
    places = [a for a in stage.axis if a is not run.axis]
    made = _scan(s, stage, run, places)
    time = run.axis.var if run.rises else run.axis.extent - 1 - run.axis.var
    at = (simplify(time), *(a.var for a in places))
    stage.define(stage.axis, (), tuple(make("read", t.dtype, at, t) for t in made.outputs))
    return made.output_tensor if len(made.outputs) == 1 else list(made.outputs)


def _scan(s: Schedule, stage: Stage, run: Run, places: Sequence[IterVar]) -> ScanOp:
    """The recurrence, with the stages of its parts, before the stage."""
    name, times, reduction = f"{stage.name}.running", run.axis.extent, stage.body[0].value
    types = [e.dtype for e in stage.body]
    begin = reduction.parts(stage.body[0].args)[2] or reduction.identity(types)
    states = PlaceholderOp(f"{name}.state", (times, *(a.extent for a in places)), types).outputs

    def part(kind: str, length: Expr) -> ComputeOp:
        axes = [IterVar(run.axis.name, length), *(IterVar(a.name, a.extent) for a in places)]
        to = {a.var: b.var for a, b in zip(places, axes[1:], strict=True)}
        now, first = axes[0].var, tuple(substitute(e, to) for e in begin)
        before: tuple[Expr, ...] = first
        if kind == "step":
            at = (now - 1, *(a.var for a in axes[1:]))
            before = tuple(make("read", t.dtype, at, t) for t in states)
        body = before if kind == "first" and run.is_strict else _combined(run, reduction, before, now, to)
        return ComputeOp(f"{name}.{kind}", [a.extent for a in axes], axes, list(body))

    first, step = part("first", const(1)), part("step", times)
    names = [
        run.axis.name,
        *(a.name for a in places),
    ]  # which records of a program by other names rename
    made = ScanOp(name, first.outputs, step.outputs, states, axis_names=names)
    parts = [s.insert_stage(op.outputs[0], stage) for op in (states[0].op, first, step, made)]
    s.scans = Scans(s)
    for x in parts:
        x.attach = s.scans.home(x)
    return made


def _combined(run: Run, reduction: Any, before: tuple[Expr, ...], now: Expr, to: dict[Expr, Expr]) -> tuple[Expr, ...]:
    """What a result is, of the one before it and one term more."""
    k = now - 1 if run.is_strict else now
    if not run.rises:
        k = run.axis.extent - 1 - k
    terms = [simplify(substitute(e, {**to, run.k.var: k})) for e in run.terms]
    condition = simplify(substitute(run.condition, {**to, run.k.var: k}))
    after = reduction.combine(before, terms)
    if is_const(condition, True):
        return tuple(after)
    return tuple(if_then_else(condition, new, old) for new, old in zip(after, before, strict=True))
