"""`set_store_predicate`: a condition under which a stage stores, as data over its loops and axes.

["eq", ["loop", "i.inner"], 0]        ["lt", ["axis", "0"], ["size", "n"]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosched.errors import ScheduleError
from autosched.ir.expr import (
    Expr,
    as_expr,
    binary,
    compare,
    const,
    floordiv,
    floormod,
    is_index,
    logical_and,
    logical_not,
    logical_or,
    truncdiv,
    variables,
)
from autosched.schedule.handles import computed, leaf
from autosched.schedule.illegal import Illegal
from autosched.schedule.meaning import keeps_meaning

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage

__all__ = ["check", "predicate_from_json", "predicate_to_json", "set_store_predicate"]

_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
_ARITHMETIC = ("add", "sub", "mul", "floordiv", "floormod", "truncdiv", "min", "max")
_LOGIC = ("and", "or", "not")


def predicate_to_json(e: Any, stage: Stage) -> Any:
    """A condition as a trace keeps it. Raises Illegal for what no loop, axis or size decides."""
    if isinstance(e, list):
        return e
    legal = f"comparisons of sizes, axes and loops of {stage.name}: {stage.describe()}"

    def encode(e: Expr) -> Any:
        if e.op == "const" and (e.dtype.is_integer or e.dtype.is_bool):
            return int(e.value)
        if e.op == "likely" or (e.op == "cast" and is_index(e)):  # which keeps the value, whatever the type
            return encode(e.args[0])
        if e.op == "var":
            return variable(e)
        if e.op in (*_COMPARE, *_ARITHMETIC, *_LOGIC):
            return [e.op, *map(encode, e.args)]
        raise Illegal(f"{e!r} is no condition on loops", legal)

    def variable(v: Expr) -> list[str]:
        if v.value.role in ("size", "knob"):
            return [v.value.role, v.value.name]
        for loop in stage.loops:
            if v is loop.var or v is loop.thread_var:
                return ["loop", loop.name]
        for i, a in enumerate(stage.axis):
            if v is a.var:
                return ["axis", str(i)]
        raise Illegal(f"{v.value.name} is no loop or axis of {stage.name}", legal)

    return encode(as_expr(e))


def predicate_from_json(data: Any, s: Schedule, stage: Stage) -> Expr:
    """The inverse, over the variables of the stage's loops and axes."""
    match data:
        case bool() | int():
            return const(int(data))
        case ["loop", str() as name]:
            return leaf(stage, name).var
        case ["axis", str() as number] if number.isdecimal() and int(number) < len(stage.axis):
            return stage.axis[int(number)].var
        case ["size", str() as name] if name in s.sizes():
            return s.sizes()[name]
        case ["knob", str() as name] if name in s.knobs:
            return s.knobs[name].var
        case ["not", inner]:
            return logical_not(predicate_from_json(inner, s, stage))
        case [str() as op, a, b]:
            return _binary(op, predicate_from_json(a, s, stage), predicate_from_json(b, s, stage))
    raise Illegal(f"{data!r} is no condition", 'e.g. ["eq", ["loop", "i.inner"], 0]')


def _binary(op: str, a: Expr, b: Expr) -> Expr:
    divisions = {"floordiv": floordiv, "floormod": floormod, "truncdiv": truncdiv}
    if op in _COMPARE:
        return compare(op, a, b)
    if op == "and":
        return logical_and(a, b)
    if op == "or":
        return logical_or(a, b)
    if op in divisions:
        return divisions[op](a, b)
    if op in _ARITHMETIC:
        return binary(op, a, b)
    raise Illegal(f"no operator {op!r}", f"legal: {', '.join((*_COMPARE, *_ARITHMETIC, *_LOGIC))}")


@keeps_meaning(unless=lambda i: "an element for which the condition holds nowhere is never stored")
def set_store_predicate(s: Schedule, stage: Stage, predicate: Any) -> None:
    """Store only where a condition on loops holds: where several would store one element, one of them.

    for t in 32: B[i] = f(i)   --set_store_predicate(t == 0)->   for t in 32: if t == 0: B[i] = f(i)

    The condition is over loops, axes and sizes, or a thread axis that a loop is bound to. That each
    element is stored by somebody is your promise: an element that nobody stores keeps what is there.
    """
    computed(stage)
    if stage.scan_loop is not None or stage.scatter_axes:
        kind = "scan" if stage.scan_loop is not None else "scatter"
        raise Illegal(f"{stage.name} is a {kind}: each step goes on from what was stored", "a copy by cache_read")
    condition = predicate_from_json(predicate_to_json(predicate, stage), s, stage)
    if not condition.dtype.is_bool:
        raise Illegal(f"{condition!r} is no condition", "a comparison, such as loop.var < 1")
    stage.store_predicate = condition


def check(stage: Stage) -> None:
    """Raise ScheduleError where a loop that decides what is stored is gone."""
    if stage.store_predicate is None:
        return
    live = {x.var for x in stage.loops} | {a.var for a in stage.axis}
    gone = [v for v in variables(stage.store_predicate) if v.value.role == "loop" and v not in live]
    if gone:
        raise ScheduleError(
            f"{gone[0].value.name} was split or fused away after {stage.name} was made to depend on it",
            asked=stage.schedule.earlier("set_store_predicate", stage, repr(stage.store_predicate)),
            legal=f"loops of {stage.name}: {stage.describe()}",
        )
