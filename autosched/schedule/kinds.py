"""The kinds of arguments that primitives have: as data in a trace, as Python, and as a primitive takes them."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autosched.errors import RecordError
from autosched.ir.expr import Expr, const
from autosched.schedule import formulas
from autosched.schedule.handles import condition_to_json
from autosched.schedule.loop import Loop
from autosched.te.tensor import IterVar, Operation, Tensor
from autosched.te.tensor_intrin import TensorIntrin

if TYPE_CHECKING:
    from autosched.schedule.stage import Stage


def by_name(value: Any, stage: Stage) -> Any:
    """An argument as a trace keeps it."""
    if isinstance(value, (Loop, TensorIntrin)):
        return value.name
    if isinstance(value, IterVar):
        roots = (x.roots.get(value) for x in stage.schedule.stages)
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
    """What an argument is: as data in a trace, as Python, and as a primitive takes it.

    name:      as the message about a trace that does not fit has it
    fits:      whether data can be one
    encode, decode: value -> data and back, given the stage (for HOST_LOOP, the one that has the loop)
    python:    data -> source
    formula:   whether it may hold knobs
    neutral:   whether an option of this kind can be undone alone
    which:     of several loops that stand for one when a call is undone, the one meant; None: that which marks follow
    """

    name: str
    fits: Callable[[Any], bool]
    encode: Callable[[Any, Stage], Any] = by_name
    decode: Callable[[Any, Stage], Any] = lambda data, stage: data
    python: Callable[[Any], str] = formulas.literal
    formula: bool = False
    neutral: bool = False
    which: int | None = None

    def check(self, data: Any) -> None:
        """Raise RecordError for what is of another type, where that does not depend on the schedule."""
        if self.name in _PLAIN and not self.fits(data):
            raise RecordError(f"{data!r:.60} is not {_PLAIN[self.name]}", legal=_PLAIN[self.name])


def _is_text(data: Any) -> bool:
    return isinstance(data, str)


def _is_flag(data: Any) -> bool:
    return isinstance(data, bool)


def _are_texts(data: Any) -> bool:
    return isinstance(data, list) and all(map(_is_text, data))


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
READERS = Kind("names", _are_texts)
AXIS = Kind("axis", _is_text)
FACTOR = Kind("factor", formulas.is_factor, decode=_factor, python=formulas.factor_to_python, formula=True)
PART = Kind(
    "part", lambda x: x is None or formulas.is_factor(x), decode=_factor, python=formulas.factor_to_python, formula=True
)
MAPPING = Kind("mapping", formulas.is_mapping, _map_data, _map, formulas.mapping_to_python, formula=True)
PREDICATE = Kind("predicate", formulas.is_predicate, condition_to_json, formula=True)
TAIL = Kind("name", _is_text, neutral=True)
PROMISE = Kind("flag", _is_flag, neutral=True)
FLAG = Kind("flag", _is_flag)
NUMBER = Kind("number", formulas.is_integer)
VALUE = Kind("value", lambda x: x is None or isinstance(x, (bool, int, float, str)))
