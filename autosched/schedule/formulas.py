"""Formulas as data: factors, conditions and maps of indices, in prefix form.

8    ["knob", "ty"]    ["mul", ["knob", "ty"], 2]    ["lt", ["loop", "i.inner"], ["size", "n"]]
"""

from __future__ import annotations

import inspect
import json
import keyword
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autosched.errors import Illegal, RecordError
from autosched.ir.expr import Expr, as_expr, compare, var
from autosched.ir.json import ARITHMETIC, COMPARE, CONDITIONS, expr_of, is_tree, tree_of
from autosched.te.functions import AXIS_SEPARATOR, AxisSeparator

_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "floormod": "%"}


# -- expression <-> data --------------------------------------------------------------------------
def factor_to_json(e: Expr | int) -> Any:
    """A factor in prefix form: 8, ["knob", "ty"], ["mul", ["knob", "ty"], 2], ["size", "height"]."""

    def strange(e: Expr) -> RecordError:
        return RecordError(f"{e!r} cannot be stored in a trace", legal=f"legal: knobs, sizes, {', '.join(ARITHMETIC)}")

    return int(e) if isinstance(e, int) else tree_of(e, lambda v: [v.value.role, v.value.name], ARITHMETIC, strange)


def factor_from_json(data: Any, names: Mapping[tuple[str, str], Expr]) -> Expr:
    """The inverse; `names` gives the variable of ("knob" | "size", name)."""

    def variable(role: str, name: str) -> Expr | None:
        if role in ("knob", "size", "axis") and (role, name) not in names:
            raise RecordError(f"the trace names an unknown {role} {name!r}")
        return names.get((role, name))

    def strange(data: Any) -> RecordError:
        return RecordError(f"{data!r} is not a factor", legal='legal: a number, ["knob", name], [op, a, b]')

    return expr_of(data, variable, ARITHMETIC, strange)


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
        """The map that a function describes: `lambda *i, x: [*i, x // 4, x % 4]` names the last index.

        Raises Illegal if it is none of `rank` indices.
        """
        if isinstance(mapping, Layout):
            return mapping
        legal = f"a function of {rank} indices that returns a list of formulas over them"
        placeholders = tuple(var(str(i), role="axis") for i in range(rank))
        parameters = inspect.signature(mapping).parameters.values()
        named = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
        given = placeholders[: max(rank - len(named), 0)]
        options = dict(zip(named, placeholders[len(given) :], strict=False))
        try:
            inspect.signature(mapping).bind(*given, **options)
        except TypeError as error:
            raise Illegal(f"the map cannot be called with {rank} indices: {error}", legal) from None
        made = mapping(*given, **options)
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
    """Return whether a name can be the variable of a knob in a schedule printed as Python."""
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) and name not in ("s", "te")


def _is_knob_or_size(role: str, name: Any) -> bool:
    return is_knob_name(name) if role == "knob" else role == "size" and isinstance(name, str)


def is_factor(data: Any) -> bool:
    """A number, ["knob", name], ["size", name], or [op, a, b]."""
    return is_tree(data, ARITHMETIC, _is_knob_or_size)


def is_predicate(data: Any) -> bool:
    """An operator and its operands, integers, and `[kind, name]` for loops, axes, sizes and knobs."""
    return is_tree(data, CONDITIONS, lambda role, name: isinstance(name, str))


def _is_index(data: Any) -> bool:
    """A formula that may name, as ["axis", "0"], the indices of a tensor."""

    def is_variable(role: str, name: Any) -> bool:
        return isinstance(name, str) and name.isdecimal() if role == "axis" else _is_knob_or_size(role, name)

    return is_tree(data, ARITHMETIC, is_variable)


def is_mapping(data: Any) -> bool:
    return isinstance(data, list) and all(x == "|" or _is_index(x) for x in data)


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
