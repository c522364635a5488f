"""The arguments of primitives: their kinds, as data in a trace, as Python and as values, and checks of the values."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from autosched.errors import Form, Illegal, RecordError, UsageError, did_you_mean, is_integer
from autosched.ir.expr import Expr, as_expr, compare, const, maximum, variables
from autosched.ir.json import CONDITIONS, expr_of, tree_of
from autosched.ir.simplify import simplify
from autosched.schedule import formulas
from autosched.schedule.loop import SCOPES, Loop
from autosched.te.extern import ExternOp
from autosched.te.tensor import IterVar, Operation, Tensor
from autosched.te.tensor_intrin import TensorIntrin

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage


def condition_to_json(e: Any, stage: Stage) -> Any:
    """A condition as a trace keeps it. Raises Illegal for what no loop, axis or size decides."""
    if isinstance(e, list):
        return e
    legal = f"comparisons of sizes, axes and loops of {stage.name}: {stage.describe()}"

    def variable(v: Expr) -> list[str]:
        if v.value.role in ("size", "knob"):
            return [v.value.role, v.value.name]
        loop = next((x for x in stage.loops if v is x.var or v is x.thread_var), None)
        axis = next((i for i, a in enumerate(stage.axis) if v is a.var), None)
        if loop is None and axis is None:
            raise Illegal(f"{v.value.name} is no loop or axis of {stage.name}", legal)
        return ["axis", str(axis)] if loop is None else ["loop", loop.name]

    return tree_of(as_expr(e), variable, CONDITIONS, lambda e: Illegal(f"{e!r} is no condition on loops", legal))


def condition_of(given: Any, s: Schedule, stage: Stage) -> Expr:
    """A condition, or the data of one, over the variables of the stage's loops and axes."""

    def variable(role: str, name: str) -> Expr | None:
        if role == "loop":
            return leaf(stage, name).var
        if role == "axis" and name.isdecimal() and int(name) < len(stage.axis):
            return stage.axis[int(name)].var
        return s.variables().get((role, name))

    def strange(data: Any) -> Illegal:
        if isinstance(data, list) and len(data) == 3 and isinstance(data[0], str):
            return Illegal(f"no operator {data[0]!r}", f"legal: {', '.join(CONDITIONS)}")
        return Illegal(f"{data!r} is no condition", 'e.g. ["eq", ["loop", "i.inner"], 0]')

    return expr_of(condition_to_json(given, stage), variable, CONDITIONS, strange)


def by_name(value: Any, stage: Stage) -> Any:
    """An argument as a trace keeps it."""
    if isinstance(value, (Loop, TensorIntrin)):
        return value.name
    if isinstance(value, IterVar):
        roots = (x.roots.get(x.former.get(value, value)) for x in (stage, *stage.schedule.stages))
        return next((loop.name for loop in roots if loop is not None), value.name)
    if isinstance(value, Expr):
        return formulas.factor_to_json(value)
    if isinstance(value, (list, tuple)):
        return [by_name(v, stage) for v in value]
    if isinstance(value, (type(stage), Tensor, Operation)):
        return stage.schedule.stage(value).name
    if isinstance(value, numbers.Integral):
        return value if isinstance(value, bool) else int(value)
    return getattr(value, "thread_tag", value)


def _loop_name(value: Any, stage: Stage) -> Any:
    """A loop by the name that it has, however it was called."""
    found = stage.loop_named(value) if isinstance(value, str) else None
    return by_name(value, stage) if found is None else found.name


def _factor(data: Any, stage: Stage) -> Any:
    if not isinstance(data, list):
        return None if data is None else const(data)
    return formulas.factor_from_json(data, stage.schedule.variables())


def _map_data(value: Any, stage: Stage) -> Any:
    return formulas.Layout.of(value, stage.tensor.ndim).to_json()


def _map(data: Any, stage: Stage) -> formulas.Layout:
    return formulas.Layout.from_json(data, stage.schedule.variables(), stage.tensor.ndim)


#: kinds of arguments that are of one Python type, whatever the schedule
_PLAIN = {
    "name": "text",
    "names": "a list of names",
    "flag": "True or False",
    "value": "a number, text, True, False or None",
}


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of argument: data in a trace, a value of the primitive, and Python source.

    name:      for messages about traces that do not fit
    fits:      tells whether data is of this kind
    encode, decode: value -> data and back, given the stage (for HOST_LOOP, the stage of the loop)
    python:    data -> source
    formula:   whether it may hold knobs
    neutral:   whether an option of this kind can be undone alone
    which:     if several loops stand for the one named, once a call is undone: the position of the one meant, or None
               for the one that marks go to
    """

    name: str
    fits: Callable[[Any], bool]
    encode: Callable[[Any, Stage], Any] = by_name
    decode: Callable[[Any, Stage], Any] = lambda data, stage: data
    python: Callable[[Any], str] = formulas.literal
    formula: bool = False
    neutral: bool = False
    which: int | None = None

    def to_data(self, value: Any, stage: Stage) -> Any:
        """An argument as a trace keeps it. Raises RecordError for a value of another type."""
        data = self.encode(value, stage)
        if self.name in _PLAIN and not self.fits(data):
            raise RecordError(f"{data!r:.60} is not {_PLAIN[self.name]}", legal=_PLAIN[self.name])
        return data


_is_text = Form.text().fits

NAME = Kind("name", _is_text)
#: a live loop of the stage; one of several that become one; one whose iterations are shared out; one inside of
#: which something happens, or just outside
LOOP = Kind("loop", _is_text, _loop_name)
JOINED_LOOP = Kind("loop", _is_text, _loop_name)
SHARED_LOOP = Kind("loop", _is_text, _loop_name, which=0)
LOOP_AROUND = Kind("loop", _is_text, _loop_name, which=-1)
LOOP_INSIDE = Kind("loop", _is_text, _loop_name, which=0)
#: another stage, and a loop of that one
HOST = Kind("name", _is_text, python=lambda data: f"s[{formulas.literal(data)}]")
HOST_LOOP = Kind("loop", _is_text, _loop_name, which=-1)
#: a tensor that is read, by the name of its stage; stages that read
TENSOR = Kind("name", _is_text)
READERS = Kind("names", lambda data: isinstance(data, list) and all(map(_is_text, data)))
#: other stages that are computed
STAGES = replace(READERS)
AXIS = Kind("axis", _is_text)
FACTOR = Kind("factor", formulas.is_factor, decode=_factor, python=formulas.factor_to_python, formula=True)
PART = Kind(
    "part", lambda x: x is None or formulas.is_factor(x), decode=_factor, python=formulas.factor_to_python, formula=True
)
MAPPING = Kind("mapping", formulas.is_mapping, _map_data, _map, formulas.mapping_to_python, formula=True)
PREDICATE = Kind("predicate", formulas.is_predicate, condition_to_json, formula=True)
TAIL = Kind("name", _is_text, neutral=True)
FLAG = Kind("flag", Form.flag().fits)
PROMISE = replace(FLAG, neutral=True)
NUMBER = Kind("number", is_integer)
VALUE = Kind("value", lambda x: x is None or isinstance(x, (bool, int, float, str)))


# -- what primitives ask of their arguments ---------------------------------------------------------
#: The largest factor or nparts: loops count in 32 bits.
MAX_FACTOR = 2**31 - 1


def flat(items: Sequence[Any]) -> Sequence[Any]:
    """Arguments that were given one by one, or as one list."""
    return items[0] if len(items) == 1 and isinstance(items[0], (list, tuple)) else items


def leaf(stage: Stage, handle: Any, init: bool = False) -> Loop:
    """The live loop that a handle names: a Loop, an axis of the operation, or a name. With `init`, it
    may be one that sets the initial values of a reduction."""
    computed(stage)
    found, hint = handle, ""
    if isinstance(handle, IterVar):
        axis = stage.former.get(handle, handle)
        found, why = stage.roots.get(axis), f"axis {axis.name} does not belong to {stage.name}"
    elif isinstance(handle, str):
        found, why = stage.loop_named(handle, init), f"{stage.name} has no loop {handle!r}"
        hint = "" if found else did_you_mean(handle, [loop.name for loop in stage.loops])
    else:
        why = f"{handle!r} is not a loop"
    if isinstance(found, Loop):
        sets_values = stage.init is not None and found in stage.init.loops.values()
        if found.stage is stage and (found in stage.loops or (sets_values and init)):
            return found
        why = f"{found.full_name} was already split or fused away"
        if found.stage is not stage:
            why = f"{found.full_name} is a loop of another stage"
        elif sets_values:
            why, hint = f"{found.full_name} only sets initial values", "parallel, vectorize, unroll, bind; "
    raise Illegal(why, f"{hint}loops of {stage.name}: {stage.describe()}")


def factor_of(s: Schedule, value: Any, what: str) -> Expr:
    legal = f"legal: a positive integer, a knob, or arithmetic on knobs and sizes, for {what}"
    try:
        e = as_expr(value)
    except UsageError:
        raise Illegal(f"{value!r} is not a {what}", legal) from None
    if not e.dtype.is_integer:
        raise Illegal(f"{what} {value!r} is not an integer", legal)
    if e.op == "const" and e.value < 1:
        raise Illegal(f"{what} {e.value} is not positive", legal)
    if e.op == "const" and e.value > MAX_FACTOR:
        raise Illegal(f"{what} {e.value} is more than any loop has iterations", legal)
    others = variables(e) - {k.var for k in s.knobs.values()}
    sizes = others & set(s.sizes().values()) if others else others
    bad = sorted(v.name for v in others - sizes)
    if bad:
        raise Illegal(f"{what} depends on {bad[0]}, which is no knob or size of this schedule", legal)
    return simplify(maximum(e, 1)) if sizes else e  # sizes are known at the call only, and some make it 0


_STATES = {"parallel": "parallel", "vectorize": "vectorized", "unroll": "unrolled", "tensorize": "tensorized"}


def outside_intrinsic(loop: Loop, action: str) -> None:
    """Raise Illegal for a loop that an intrinsic stands for, whose marks would have no effect."""
    stage = loop.stage
    if stage.intrinsic is None or loop not in stage.loops:
        return
    first = stage.loops.index(stage.intrinsic[0])
    if stage.loops.index(loop) >= first:
        outer = ", ".join(x.name for x in stage.loops[:first]) or "none"
        raise Illegal(
            f"{loop.full_name} is computed by the intrinsic {stage.intrinsic[1].name}, which says how it runs",
            f"{action} a loop outside {stage.intrinsic[0].name}: {outer}",
        )


def unmarked(loop: Loop, action: str) -> None:
    if loop.pragmas:
        raise Illegal(f"{loop!r} is marked; {action} would undo that", f"{action} before pragma")
    if loop.kind != "serial":
        state = _STATES.get(loop.kind)
        raise Illegal(
            f"{loop.full_name} is {state or 'bound to ' + loop.thread}; {action} would undo that",
            f"{action} before {loop.kind if state else 'bind'}",
        )


def starts_anew(s: Schedule, stage: Stage, action: str) -> None:
    """Raise Illegal where a primitive that makes new loops would lose marks, or stages computed at the old ones."""
    marked = next((x for x in stage.loops if x.mark), None)
    if marked is not None:
        raise Illegal(f"{marked!r} is marked, and the loops start anew", f"{action} first, then mark the new loops")
    here = (x for x in s.stages if x.attach.stage is stage)
    own = {"init": None, "at": stage.scan_loop}  # where the parts of a scan are, unless they are moved
    attached = next((x for x in here if stage.scan_loop is None or own[x.attach.kind] is not x.attach.loop), None)
    if attached is not None:
        raise Illegal(
            f"{attached.name} is computed at {attached.attach.loop!r}, and the loops start anew",
            f"{action} first, then compute {attached.name} at a new loop",
        )


def computed(stage: Stage) -> None:
    if stage.is_placeholder:
        raise Illegal(f"{stage.name} is an input: it has no loops", "schedule what reads it, or cache_read it")
    if isinstance(stage.op, ExternOp):
        raise Illegal(
            f"{stage.name} is a te.extern: nothing is known of what its statement does",
            "schedule what it reads and what reads it; write its loops, with their kinds, in fcompute",
        )


def scope_of(scope: Any) -> str:
    """The storage scope of that name; `shared.dyn` is shared memory whose size the launch says."""
    found = "shared" if scope == "shared.dyn" else scope
    if found not in SCOPES:
        raise Illegal(f"no scope {scope!r}", "legal: " + "; ".join(f"{k}: {v}" for k, v in SCOPES.items()))
    return str(found)


def at_least(s: Schedule, e: Expr, least: int) -> Expr:
    """`e`, with the constraint that it is at least so large, if knobs can make it smaller."""
    if any(v in {k.var for k in s.knobs.values() if k.values and min(k.values) < 1} for v in variables(e)):
        s.require(compare("ge", e, least), f"{e!r} is less than {least}")
    return e
