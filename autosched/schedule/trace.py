"""The trace: everything that was done to a schedule, as plain data.

    [["define_knob", "rows", [2, 4, 8]],
     ["compute_inline", "padded"],
     ["split", "box_blur", "y", {"factor": ["knob", "rows"]}],
     ["parallel", "box_blur", "y.outer"]]

Stages and loops go by name, so a trace can be read, edited, stored as JSON, printed as Python and
replayed on any graph that has those names. Replaying calls the functions in `PRIMITIVES` and
nothing else: a trace is data, never code.
"""

from __future__ import annotations

import json
import keyword
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autosched.errors import RecordError
from autosched.ir.expr import Expr, binary, compare, const, floordiv, floormod, truncdiv
from autosched.ir.node import Unique

__all__ = [
    "AT_LOOPS",
    "DEFAULTS",
    "ON_TENSORS",
    "SHAPES",
    "Instruction",
    "Trace",
    "factor_from_json",
    "factor_to_json",
    "is_knob_name",
]

#: Every primitive a trace may name: what its arguments after the stage are, and its options.
#: A `*` stands for any number of the one before it, none included.
SHAPES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "split": (("loop",), {"factor": "factor", "nparts": "factor", "tail": "name", "disable_predication": "flag"}),
    "tile": (("loop", "loop", "factor", "factor"), {"tail": "name"}),
    "split_into": (("loop", "part", "*"), {"disable_predication": "flag"}),
    "fuse": (("loop", "*"), {}),
    "reorder": (("loop", "*"), {}),
    "parallel": (("loop",), {}),
    "vectorize": (("loop",), {}),
    "unroll": (("loop",), {}),
    "bind": (("loop", "name"), {}),
    "tensorize": (("loop", "name"), {}),
    "prefetch": (("name", "loop", "factor"), {}),
    "pragma": (("loop", "name"), {"pragma_value": "value"}),
    "compute_at": (("name", "loop"), {}),
    "store_at": (("name", "loop"), {}),
    "reverse_compute_at": (("name", "loop"), {}),
    "reverse_compute_inline": ((), {}),
    "decompose_reduction": (("loop",), {}),
    "compute_inline": ((), {}),
    "compute_root": ((), {}),
    "set_scope": (("name",), {}),
    "double_buffer": ((), {}),
    "storage_align": (("axis", "factor", "factor"), {}),
    "cache_write": (("name",), {"keep_loops": "flag"}),
    "transform_layout": (("mapping",), {}),
    "rolling_buffer": ((), {}),
    "specialize": (("predicate",), {}),
    "set_store_predicate": (("predicate",), {}),
    "cache_read": (("name", "names"), {"output": "number"}),
    "rfactor": (("loop",), {"factor_axis": "number"}),
}
#: Primitives that are methods of the schedule, with the tensor as their first argument.
ON_TENSORS = ("cache_read", "cache_write", "rfactor")
#: Primitives whose arguments are another stage and a loop of that one.
AT_LOOPS = ("compute_at", "store_at", "reverse_compute_at")
#: Options that say what is so anyway; a trace leaves them out.
DEFAULTS = (
    ("tail", "guard"),
    ("factor_axis", 0),
    ("disable_predication", False),
    ("output", 0),
    ("keep_loops", False),
)
#: Factors are small formulas; anything deeper is an attempt to exhaust the reader.
MAX_DEPTH = 32
_FACTOR_OPS = ("add", "sub", "mul", "floordiv", "floormod", "truncdiv", "min", "max")
_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "floormod": "%"}


def factor_to_json(e: Expr | int) -> Any:
    """A factor in prefix form: 8, ["knob", "ty"], ["mul", ["knob", "ty"], 2], ["size", "height"]."""
    if isinstance(e, int):
        return int(e)
    if e.op == "const":
        return int(e.value)
    if e.op == "var":
        return [e.value.role, e.value.name]
    if e.op in _FACTOR_OPS:
        return [e.op, *(factor_to_json(a) for a in e.args)]
    raise RecordError(f"{e!r} cannot be stored in a trace", legal=f"legal: knobs, sizes, {', '.join(_FACTOR_OPS)}")


def factor_from_json(data: Any, names: dict[tuple[str, str], Expr]) -> Expr:
    """The inverse; `names` gives the variable of ("knob" | "size", name)."""
    if isinstance(data, int) and not isinstance(data, bool):
        return const(data)
    if isinstance(data, list) and len(data) == 2 and data[0] in ("knob", "size", "axis"):
        found = names.get((data[0], data[1]))
        if found is None:
            raise RecordError(f"the trace names an unknown {data[0]} {data[1]!r}")
        return found
    if isinstance(data, list) and len(data) == 3 and data[0] in _FACTOR_OPS:
        a, b = (factor_from_json(d, names) for d in data[1:])
        divisions = {"floordiv": floordiv, "floormod": floormod, "truncdiv": truncdiv}
        return divisions[data[0]](a, b) if data[0] in divisions else binary(data[0], a, b)
    raise RecordError(f"{data!r} is not a factor", legal='legal: a number, ["knob", name], [op, a, b]')


def is_knob_name(name: Any) -> bool:
    """Whether a name can be the variable of a knob in a schedule printed as Python."""
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) and name not in ("s", "te")


def _is_factor(data: Any, depth: int = 0, of_axes: bool = False) -> bool:
    """A number, ["knob", name], ["size", name], [op, a, b] or, in the map of a layout, ["axis", "0"]."""
    if isinstance(data, int):
        return not isinstance(data, bool)
    if not isinstance(data, list) or depth > MAX_DEPTH:
        return False
    if len(data) == 2:
        if data[0] == "axis":
            return of_axes and isinstance(data[1], str) and data[1].isdecimal()
        return data[0] == "knob" and is_knob_name(data[1]) or data[0] == "size" and isinstance(data[1], str)
    return len(data) == 3 and data[0] in _FACTOR_OPS and all(_is_factor(d, depth + 1, of_axes) for d in data[1:])


def _is_predicate(data: Any, depth: int = 0) -> bool:
    """An operator and its operands, integers, and `[kind, name]` for loops, axes, sizes and knobs."""
    if not isinstance(data, list) or depth > MAX_DEPTH:
        return isinstance(data, int)
    named = len(data) == 2 and isinstance(data[1], str)
    operands = all(_is_predicate(d, depth + 1) for d in data[1:])
    return bool(data) and isinstance(data[0], str) and (named or (operands and 2 <= len(data) <= 3))


def _is_mapping(data: Any) -> bool:
    return isinstance(data, list) and all(x == "|" or _is_factor(x, of_axes=True) for x in data)


def _is_constraint(data: Any) -> bool:
    return isinstance(data, list) and len(data) == 3 and data[0] in tuple(_COMPARE) and all(map(_is_factor, data[1:]))


def _is_integers(data: Any) -> bool:
    return isinstance(data, list) and all(isinstance(v, int) and not isinstance(v, bool) for v in data)


_IS_A = {
    "name": lambda x: isinstance(x, str),
    "loop": lambda x: isinstance(x, str),
    "axis": lambda x: isinstance(x, str),
    "names": lambda x: isinstance(x, list) and all(isinstance(n, str) for n in x),
    "factor": _is_factor,
    "part": lambda x: x is None or _is_factor(x),
    "mapping": _is_mapping,
    "predicate": _is_predicate,
    "flag": lambda x: isinstance(x, bool),
    "number": lambda x: isinstance(x, int) and not isinstance(x, bool),
    "knob": is_knob_name,
    "values": _is_integers,
    "constraint": _is_constraint,
    "rows": lambda x: isinstance(x, list) and all(map(_is_integers, x)),
    "value": lambda x: x is None or isinstance(x, (bool, int, float, str)),
}
_ON_SCHEDULE = {
    "define_knob": ("knob", "values"),
    "constrain": ("constraint", "name"),
    "among": ("names", "rows", "name"),
    "choose": ("name", "value"),
}
#: Those whose last argument, the reason, may be missing: constraints, which a schedule with values leaves out.
_WITH_REASON = ("constrain", "among")


#: kinds of arguments that are of one Python type, whatever the schedule
_PLAIN = {
    "name": "text",
    "names": "a list of names",
    "flag": "True or False",
    "value": "a number, text, True, False or None",
}


def check_types(kind: str, args: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Raise RecordError for an argument of a primitive, as a trace keeps it, that is of another type."""
    shape, named = SHAPES[kind]
    listed = [*zip(args, argument_kinds(shape, len(args)), strict=True), *((v, named[k]) for k, v in options.items())]
    for value, of in listed:
        if of in _PLAIN and not _IS_A[of](value):
            raise RecordError(f"{value!r:.60} is not {_PLAIN[of]}", legal=_PLAIN[of])


def argument_kinds(wanted: tuple[str, ...], count: int) -> tuple[str, ...]:
    """A row of SHAPES with its `*` written out for so many arguments."""
    return wanted[:-2] + wanted[-2:-1] * (count - len(wanted) + 2) if wanted[-1:] == ("*",) else wanted


def _fits(args: Sequence[Any], wanted: tuple[str, ...]) -> bool:
    kinds = argument_kinds(wanted, len(args))
    return len(args) == len(kinds) and all(_IS_A[kind](a) for kind, a in zip(kinds, args, strict=True))


def factor_to_python(data: Any) -> str:
    if isinstance(data, list):
        if data[0] == "knob":
            return data[1]
        if data[0] == "size":
            return f"s.size({_python(data[1])})"
        if data[0] == "axis":
            return f"i[{data[1]}]"
        a, b = (factor_to_python(d) for d in data[1:])
        return f"({a} {_SYMBOLS[data[0]]} {b})" if data[0] in _SYMBOLS else f"te.{data[0]}({a}, {b})"
    return str(data)


def _argument_to_python(data: Any, kind: str) -> str:
    if kind == "mapping":
        indices = ("te.AXIS_SEPARATOR" if x == "|" else factor_to_python(x) for x in data)
        return f"lambda *i: [{', '.join(indices)}]"
    return factor_to_python(data) if kind in ("factor", "part") else _python(data)


@dataclass(frozen=True, slots=True)
class Instruction(Unique):
    """One call: a primitive on a stage, or `define_knob`, `constrain`, `among`, `choose` on the schedule."""

    kind: str
    stage: str
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> list[Any]:
        head = [self.kind, self.stage] if self.stage else [self.kind]
        return [*head, *self.args, *([self.options] if self.options else [])]

    def at(self, values: Mapping[str, int]) -> Instruction:
        """The instruction with numbers in place of knobs. Raises RecordError for one that has no value."""
        shape, named = SHAPES.get(self.kind, (("value",) * len(self.args), {}))
        kinds = argument_kinds(shape, len(self.args))
        args = (_at(a, values) if kind in _FORMULAS else a for a, kind in zip(self.args, kinds, strict=True))
        options = {k: _at(v, values) if named[k] in _FORMULAS else v for k, v in self.options.items()}
        return Instruction(self.kind, self.stage, tuple(args), options)

    def as_python(self) -> str:
        """The call as source, on a schedule named `s`."""
        shape, options = SHAPES.get(self.kind, (("value",) * len(self.args), {}))
        kinds = zip(self.args, argument_kinds(shape, len(self.args)), strict=True)
        args = [_argument_to_python(a, kind) for a, kind in kinds]
        args += [
            f"{k}={factor_to_python(v) if options[k] == 'factor' else _python(v)}" for k, v in self.options.items()
        ]
        if self.kind == "define_knob":
            return f"{self.args[0]} = s.define_knob({', '.join(args)})"
        if self.kind == "choose":
            return f"# choose {args[0]}: {args[1]}"
        if self.kind == "constrain":
            op, a, b = self.args[0]
            text = f"{factor_to_python(a)} {_COMPARE[op]} {factor_to_python(b)}"
            return f"s.constrain({text}{', ' + args[1] if len(args) > 1 else ''})"
        if self.kind == "among":
            return f"s.among({', '.join(args)})"
        stage = _python(self.stage)
        if self.kind in ON_TENSORS:
            return f"s.{self.kind}({', '.join([stage, *args])})"
        if self.kind in AT_LOOPS:
            return f"s[{stage}].{self.kind}(s[{args[0]}], {args[1]})"
        return f"s[{stage}].{self.kind}({', '.join(args)})"


#: kinds of arguments that may hold knobs
_FORMULAS = ("factor", "part", "mapping", "predicate")


def _at(data: Any, values: Mapping[str, int]) -> Any:
    """A formula with numbers in place of knobs."""
    if not isinstance(data, list):
        return data
    if len(data) == 2 and data[0] == "knob":
        if data[1] not in values:
            raise RecordError(f"knob {data[1]} has no value", legal=f"values: {', '.join(values) or 'none'}")
        return int(values[data[1]])
    return [_at(d, values) for d in data]


_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def _python(value: Any) -> str:
    """A literal, with double quotes. A name can hold anything, and must not break out of them."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_python, value))}]"
    return repr(value)


def _instruction(kind: str, rest: list[Any], entry: list[Any]) -> Instruction:
    """One entry of a stored trace. Raises RecordError unless everything in it is of the right kind."""
    wanted: tuple[str, ...]
    if kind in _ON_SCHEDULE:
        wanted = _ON_SCHEDULE[kind]
        if not _fits(rest, wanted) and not (kind in _WITH_REASON and _fits(rest, wanted[:-1])):
            raise RecordError(f"{_brief(entry)} is not a {kind}", legal=f"[{kind!r}, {', '.join(wanted)}]")
        return Instruction(kind, "", tuple(rest))
    if kind not in SHAPES:
        raise RecordError(
            f"no schedule primitive {_brief(kind)}", legal=f"known: {', '.join((*SHAPES, *_ON_SCHEDULE))}"
        )
    options = rest[-1] if rest and isinstance(rest[-1], dict) else {}
    stage, args = rest[:1], rest[1:-1] if options else rest[1:]
    wanted, known = SHAPES[kind]
    right = all(k in known and _IS_A[known[k]](v) for k, v in options.items())
    if not _fits(stage, ("name",)) or not _fits(args, wanted) or not right:
        options_text = f", options {', '.join(known)}" if known else ""
        raise RecordError(
            f"{_brief(entry)} is not a {kind}", legal=f"[{', '.join((repr(kind), 'stage', *wanted))}]{options_text}"
        )
    return Instruction(kind, stage[0], tuple(args), dict(options))


def _brief(value: Any) -> str:
    """A value from a file, as part of a message: never longer than a line."""
    try:
        text = repr(value)
    except RecursionError:
        text = "something nested too deeply"
    return text if len(text) <= 80 else text[:77] + "..."


class Trace(Sequence[Instruction]):
    """The instructions of a schedule in the order they were given."""

    def __init__(self, instructions: Sequence[Instruction] = ()) -> None:
        self._items: list[Instruction] = list(instructions)

    def append(self, instruction: Instruction) -> None:
        self._items.append(instruction)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, at: Any) -> Any:
        return self._items[at]

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self._items)

    def to_json(self) -> list[list[Any]]:
        return [i.to_json() for i in self._items]

    @staticmethod
    def from_json(data: Any) -> Trace:
        """Raises RecordError unless `data` is a list of instructions of known kinds."""
        if not isinstance(data, list):
            raise RecordError("a trace is a list of instructions")
        items = []
        for entry in data:
            if not isinstance(entry, list) or not entry or not isinstance(entry[0], str):
                raise RecordError(f"{_brief(entry)} is not an instruction")
            items.append(_instruction(entry[0], entry[1:], entry))
        return Trace(items)

    def __str__(self) -> str:
        return self.as_python()

    def at(self, values: Mapping[str, int]) -> Trace:
        """The trace with numbers in place of its knobs; what only says which numbers are allowed is left out.

        Raises RecordError for a knob that has no value.
        """
        return Trace([i.at(values) for i in self._items if i.kind != "define_knob" and i.kind not in _WITH_REASON])

    def as_python(self, name: str = "schedule", knobs: dict[str, int] | None = None) -> str:
        """A Python function that does the same to a schedule `s`; with `knobs`, at those values."""
        lines = []
        for i in self._items:
            if knobs is not None and i.kind == "define_knob" and i.args[0] in knobs:
                lines.append(f"{i.args[0]} = {knobs[i.args[0]]}")
            elif knobs is not None and i.kind in _WITH_REASON:
                continue
            else:
                lines.append(i.as_python())
        body = "\n    ".join(lines or ["pass"])
        if all(line.startswith("#") for line in lines) and lines:
            body += "\n    pass"
        return f"def {name}(s):\n    {body}\n"


def constraint_to_json(condition: Expr) -> Any:
    if condition.op not in _COMPARE:
        raise RecordError(f"{condition!r} is not a comparison of knobs", legal="one comparison for each constraint")
    return [condition.op, *(factor_to_json(a) for a in condition.args)]


def constraint_from_json(data: Any, names: dict[tuple[str, str], Expr]) -> Expr:
    if not isinstance(data, list) or len(data) != 3 or data[0] not in _COMPARE:
        raise RecordError(f"{data!r} is not a constraint")
    return compare(data[0], *(factor_from_json(d, names) for d in data[1:]))


__all__ += ["constraint_from_json", "constraint_to_json"]
