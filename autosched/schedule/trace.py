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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from autosched.errors import RecordError
from autosched.ir.expr import Expr, binary, ceildiv, const, floordiv, floormod, is_const

__all__ = ["Instruction", "Trace", "factor_from_json", "factor_to_json"]

_FACTOR_OPS = {"add", "sub", "mul", "floordiv", "floormod", "truncdiv", "min", "max"}
_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "floormod": "%", "truncdiv": "//"}


def factor_to_json(e: Expr | int) -> Any:
    """A factor in prefix form: 8, ["knob", "ty"], ["mul", ["knob", "ty"], 2], ["size", "height"]."""
    if isinstance(e, int):
        return e
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
    if isinstance(data, list) and len(data) == 2 and data[0] in ("knob", "size"):
        found = names.get((data[0], data[1]))
        if found is None:
            raise RecordError(f"the trace names an unknown {data[0]} {data[1]!r}")
        return found
    if isinstance(data, list) and len(data) == 3 and data[0] in _FACTOR_OPS:
        a, b = (factor_from_json(d, names) for d in data[1:])
        return floordiv(a, b) if data[0] == "floordiv" else floormod(a, b) if data[0] == "floormod" else binary(data[0], a, b)
    raise RecordError(f"{data!r} is not a factor", legal="legal: a number, [\"knob\", name], [op, a, b]")


def factor_to_python(data: Any) -> str:
    if isinstance(data, list):
        if data[0] == "knob":
            return data[1]
        if data[0] == "size":
            return f's.size("{data[1]}")'
        a, b = (factor_to_python(d) for d in data[1:])
        return f"({a} {_SYMBOLS[data[0]]} {b})" if data[0] in _SYMBOLS else f"te.{data[0]}({a}, {b})"
    return str(data)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One call: a primitive on a stage, or `define_knob`, `constrain`, `choose` on the schedule."""

    kind: str
    stage: str
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> list[Any]:
        head = [self.kind, self.stage] if self.stage else [self.kind]
        return [*head, *self.args, *([self.options] if self.options else [])]

    def as_python(self) -> str:
        """The call as source, on a schedule named `s`."""
        args = [_python(a) for a in self.args]
        args += [f"{k}={factor_to_python(v) if k in ('factor', 'nparts') else repr(v)}" for k, v in self.options.items()]
        if self.kind == "define_knob":
            return f"{self.args[0]} = s.define_knob({', '.join(args)})"
        if self.kind == "choose":
            return f"# choose {self.args[0]} = {self.args[1]!r}"
        if self.kind == "constrain":
            op, a, b = self.args[0]
            text = f"{factor_to_python(a)} {_COMPARE[op]} {factor_to_python(b)}"
            return f"s.constrain({text}{', ' + repr(self.args[1]) if len(self.args) > 1 else ''})"
        if self.kind == "tile":
            loops, factors = args[:2], [factor_to_python(a) for a in self.args[2:]]
            args = [*loops, *factors, *args[4:]]
        if self.kind in ("cache_read", "cache_write"):
            return f's.{self.kind}({", ".join([repr(self.stage).replace(chr(39), chr(34)), *args])})'
        if self.kind == "compute_at":
            return f's["{self.stage}"].compute_at(s["{self.args[0]}"], {args[1]})'
        return f's["{self.stage}"].{self.kind}({", ".join(args)})'


_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def _python(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_python, value))}]"
    return repr(value)


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
        from autosched.schedule.primitives import PRIMITIVES

        if not isinstance(data, list):
            raise RecordError("a trace is a list of instructions")
        items = []
        for entry in data:
            if not isinstance(entry, list) or not entry or not isinstance(entry[0], str):
                raise RecordError(f"{entry!r} is not an instruction")
            kind, rest = entry[0], list(entry[1:])
            options = rest.pop() if rest and isinstance(rest[-1], dict) else {}
            if kind in PRIMITIVES:
                if not rest or not isinstance(rest[0], str):
                    raise RecordError(f"{entry!r} names no stage")
                items.append(Instruction(kind, rest[0], tuple(rest[1:]), options))
            elif kind in ("define_knob", "constrain", "choose"):
                items.append(Instruction(kind, "", tuple(rest), options))
            else:
                raise RecordError(f"no schedule primitive {kind!r}", legal=f"known: {', '.join(PRIMITIVES)}")
        return Trace(items)

    def as_python(self, name: str = "schedule", knobs: dict[str, int] | None = None) -> str:
        """A Python function that does the same to a schedule `s`; with `knobs`, at those values."""
        lines = []
        for i in self._items:
            if knobs is not None and i.kind == "define_knob" and i.args[0] in knobs:
                lines.append(f"{i.args[0]} = {knobs[i.args[0]]}")
            elif knobs is not None and i.kind == "constrain":
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
    from autosched.ir.expr import compare

    if not isinstance(data, list) or len(data) != 3 or data[0] not in _COMPARE:
        raise RecordError(f"{data!r} is not a constraint")
    return compare(data[0], *(factor_from_json(d, names) for d in data[1:]))


__all__ += ["ceildiv", "constraint_from_json", "constraint_to_json", "is_const"]
