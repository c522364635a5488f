"""Formulas as data: factors, conditions and maps of indices, in prefix form.

8    ["knob", "ty"]    ["mul", ["knob", "ty"], 2]    ["lt", ["loop", "i.inner"], ["size", "n"]]
"""

from __future__ import annotations

import inspect
import json
import keyword
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from autosched.errors import Illegal, RecordError
from autosched.ir import expr
from autosched.ir.expr import Expr, as_expr, binary, compare, const, is_index, var
from autosched.te.separator import AXIS_SEPARATOR, AxisSeparator

#: Formulas are small; anything deeper is an attempt to exhaust the reader.
MAX_DEPTH = 32
COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "floormod": "%"}
_DIVISIONS = {"floordiv": expr.floordiv, "floormod": expr.floormod, "truncdiv": expr.truncdiv}
#: operator -> what builds it: those of factors, and those of conditions
ARITHMETIC: dict[str, Callable[..., Expr]] = {
    op: _DIVISIONS.get(op) or partial(binary, op)
    for op in ("add", "sub", "mul", "floordiv", "floormod", "truncdiv", "min", "max")
}
CONDITIONS: dict[str, Callable[..., Expr]] = {
    **{op: partial(compare, op) for op in COMPARE},
    **ARITHMETIC,
    "and": expr.logical_and,
    "or": expr.logical_or,
    "not": expr.logical_not,
}


# -- expression <-> data --------------------------------------------------------------------------
def encode(
    e: Expr, variable: Callable[[Expr], Any], operators: Mapping[str, Any], strange: Callable[[Expr], Exception]
) -> Any:
    """An expression as data; `variable` encodes a variable. Raises what `strange` makes of what has no form."""
    if e.op == "const" and (operators is ARITHMETIC or e.dtype.is_integer or e.dtype.is_bool):
        return int(e.value)
    if operators is CONDITIONS and (e.op == "likely" or (e.op == "cast" and is_index(e))):  # they keep the value
        return encode(e.args[0], variable, operators, strange)
    if e.op == "var":
        return variable(e)
    if e.op in operators:
        return [e.op, *(encode(a, variable, operators, strange) for a in e.args)]
    raise strange(e)


def decode(
    data: Any,
    variable: Callable[[str, str], Expr | None],
    operators: Mapping[str, Callable[..., Expr]],
    strange: Callable[[Any], Exception],
) -> Expr:
    """The inverse; `variable` gives the variable of a role and a name, or None for what is none."""
    match data:
        case int():
            return const(int(data))
        case [str() as role, str() as name] if (found := variable(role, name)) is not None:
            return found
        case [str() as op, *operands] if op in operators and len(operands) == (1 if op == "not" else 2):
            return operators[op](*(decode(x, variable, operators, strange) for x in operands))
    raise strange(data)


def factor_to_json(e: Expr | int) -> Any:
    """A factor in prefix form: 8, ["knob", "ty"], ["mul", ["knob", "ty"], 2], ["size", "height"]."""

    def strange(e: Expr) -> RecordError:
        return RecordError(f"{e!r} cannot be stored in a trace", legal=f"legal: knobs, sizes, {', '.join(ARITHMETIC)}")

    return int(e) if isinstance(e, int) else encode(e, lambda v: [v.value.role, v.value.name], ARITHMETIC, strange)


def factor_from_json(data: Any, names: Mapping[tuple[str, str], Expr]) -> Expr:
    """The inverse; `names` gives the variable of ("knob" | "size", name)."""

    def variable(role: str, name: str) -> Expr | None:
        if role in ("knob", "size", "axis") and (role, name) not in names:
            raise RecordError(f"the trace names an unknown {role} {name!r}")
        return names.get((role, name))

    def strange(data: Any) -> RecordError:
        return RecordError(f"{data!r} is not a factor", legal='legal: a number, ["knob", name], [op, a, b]')

    return decode(data, variable, ARITHMETIC, strange)


def constraint_to_json(condition: Expr) -> Any:
    if condition.op not in COMPARE:
        raise RecordError(f"{condition!r} is not a comparison of knobs", legal="one comparison for each constraint")
    return [condition.op, *(factor_to_json(a) for a in condition.args)]


def constraint_from_json(data: Any, names: Mapping[tuple[str, str], Expr]) -> Expr:
    if not is_constraint(data):
        raise RecordError(f"{data!r} is not a constraint")
    return compare(data[0], *(factor_from_json(d, names) for d in data[1:]))


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
    def from_json(data: list[Any], names: Mapping[tuple[str, str], Expr], rank: int) -> Layout:
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


# -- what a file may hold -------------------------------------------------------------------------
def is_knob_name(name: Any) -> bool:
    """Whether a name can be the variable of a knob in a schedule printed as Python."""
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) and name not in ("s", "te")


def is_integer(data: Any) -> bool:
    return isinstance(data, int) and not isinstance(data, bool)


def is_factor(data: Any, depth: int = 0, of_axes: bool = False) -> bool:
    """A number, ["knob", name], ["size", name], [op, a, b] or, in the map of a layout, ["axis", "0"]."""
    if not isinstance(data, list) or depth > MAX_DEPTH:
        return is_integer(data)
    if len(data) == 2:
        if data[0] == "axis":
            return of_axes and isinstance(data[1], str) and data[1].isdecimal()
        return data[0] == "knob" and is_knob_name(data[1]) or data[0] == "size" and isinstance(data[1], str)
    known = len(data) == 3 and isinstance(data[0], str) and data[0] in ARITHMETIC
    return known and all(is_factor(d, depth + 1, of_axes) for d in data[1:])


def is_predicate(data: Any, depth: int = 0) -> bool:
    """An operator and its operands, integers, and `[kind, name]` for loops, axes, sizes and knobs."""
    if not isinstance(data, list) or depth > MAX_DEPTH:
        return isinstance(data, int)
    named = len(data) == 2 and isinstance(data[1], str)
    operands = all(is_predicate(d, depth + 1) for d in data[1:])
    return bool(data) and isinstance(data[0], str) and (named or (operands and 2 <= len(data) <= 3))


def is_mapping(data: Any) -> bool:
    return isinstance(data, list) and all(x == "|" or is_factor(x, of_axes=True) for x in data)


def is_constraint(data: Any) -> bool:
    return isinstance(data, list) and len(data) == 3 and data[0] in tuple(COMPARE) and all(map(is_factor, data[1:]))


# -- data -> data, data -> Python -----------------------------------------------------------------
def named(data: Any, role: str) -> Iterator[str]:
    """The names with that role in the formulas of an instruction in JSON form."""
    if isinstance(data, list) and len(data) == 2 and data[0] == role:
        yield data[1]
    elif isinstance(data, (list, dict)):
        for x in data.values() if isinstance(data, dict) else data:
            yield from named(x, role)


def replaced(data: Any, role: str, value: Callable[[str], Any]) -> Any:
    """The same with `value(name)` in place of each `[role, name]`."""
    if isinstance(data, dict):
        return {k: replaced(v, role, value) for k, v in data.items()}
    if not isinstance(data, list):
        return data
    if len(data) == 2 and data[0] == role:
        return value(data[1])
    return [replaced(x, role, value) for x in data]


def literal(value: Any) -> str:
    """A literal, with double quotes. A name can hold anything, and must not break out of them."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(literal, value))}]"
    return repr(value)


def factor_to_python(data: Any) -> str:
    if not isinstance(data, list):
        return str(data)
    if len(data) == 2:
        role, name = data
        return name if role == "knob" else f"i[{name}]" if role == "axis" else f"s.size({literal(name)})"
    op, a, b = data[0], *map(factor_to_python, data[1:])
    return f"({a} {_SYMBOLS[op]} {b})" if op in _SYMBOLS else f"te.{op}({a}, {b})"


def mapping_to_python(data: list[Any]) -> str:
    indices = ("te.AXIS_SEPARATOR" if x == "|" else factor_to_python(x) for x in data)
    return f"lambda *i: [{', '.join(indices)}]"


def constraint_to_python(data: Any) -> str:
    op, a, b = data
    return f"{factor_to_python(a)} {COMPARE[op]} {factor_to_python(b)}"
