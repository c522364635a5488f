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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from autosched.errors import RecordError, is_integer
from autosched.ir.node import Unique
from autosched.schedule import formulas
from autosched.schedule import kinds as K
from autosched.schedule.primitive import PRIMITIVES


def _are_integers(data: Any) -> bool:
    return isinstance(data, list) and all(map(is_integer, data))


_KNOB, _INTEGERS = K.Kind("knob", formulas.is_knob_name), K.Kind("values", _are_integers)
_ROWS = K.Kind("rows", lambda data: isinstance(data, list) and all(map(_are_integers, data)))
_CONSTRAINT = K.Kind("constraint", formulas.is_constraint, python=formulas.constraint_to_python)
#: the instructions on the schedule itself, with the kinds of their arguments
_ON_SCHEDULE: dict[str, tuple[K.Kind, ...]] = {
    "define_knob": (_KNOB, _INTEGERS),
    "constrain": (_CONSTRAINT, K.NAME),
    "among": (K.READERS, _ROWS, K.NAME),
    "choose": (K.NAME, K.VALUE),
}
#: constraints, whose last argument, the reason, may be missing; a schedule with values leaves them out
WITH_REASON = ("constrain", "among")
#: instructions for tuning only, which do not change the schedule
FOR_TUNING = (*WITH_REASON, "choose")


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

    @property
    def kinds(self) -> tuple[K.Kind, ...]:
        """The kind of each argument of a primitive."""
        return PRIMITIVES[self.kind].kinds_of(len(self.args))

    def mapped(self, change: Callable[[Any, K.Kind], Any]) -> Instruction:
        """The call of a primitive with each argument and option changed by a function of it and its kind."""
        known = PRIMITIVES[self.kind].options
        args = tuple(change(a, kind) for a, kind in zip(self.args, self.kinds, strict=True))
        return replace(self, args=args, options={k: change(v, known[k]) for k, v in self.options.items()})

    @property
    def knobs(self) -> list[str]:
        """The knobs in the formulas of a primitive, each once."""
        found: dict[str, None] = {}

        def look(data: Any, kind: K.Kind) -> None:
            found.update(dict.fromkeys(formulas.named(data, "knob") if kind.formula else ()))

        if self.kind in PRIMITIVES:
            self.mapped(look)
        return list(found)

    def at(self, values: Mapping[str, Any]) -> Instruction:
        """The instruction with numbers, or other formulas, in place of knobs. Raises RecordError for one without."""

        def value(name: str) -> Any:
            if name not in values:
                raise RecordError(f"knob {name} has no value", legal=f"values: {', '.join(values) or 'none'}")
            return values[name] if isinstance(values[name], list) else int(values[name])

        if self.kind not in PRIMITIVES:
            return self
        return self.mapped(lambda data, kind: formulas.replaced(data, "knob", value) if kind.formula else data)

    def as_python(self) -> str:
        """The call as source, on a schedule named `s`."""
        if self.kind not in PRIMITIVES:
            args = [kind.python(a) for kind, a in zip(_ON_SCHEDULE[self.kind], self.args)]
            if self.kind == "choose":
                return f"# choose {args[0]}: {args[1]}"
            call = f"s.{self.kind}({', '.join(args)})"
            return f"{self.args[0]} = {call}" if self.kind == "define_knob" else call
        texts = self.mapped(lambda data, kind: kind.python(data))
        args = [*texts.args, *(f"{k}={text}" for k, text in texts.options.items())]
        stage = formulas.literal(self.stage)
        if PRIMITIVES[self.kind].of_schedule:
            return f"s.{self.kind}({', '.join([stage, *args])})"
        return f"s[{stage}].{self.kind}({', '.join(args)})"


def _instruction(kind: str, rest: list[Any], entry: list[Any]) -> Instruction:
    """One entry of a stored trace. Raises RecordError unless everything in it is of the right kind."""
    if kind in _ON_SCHEDULE:
        wanted = _ON_SCHEDULE[kind]
        least = len(wanted) - (kind in WITH_REASON)
        if not least <= len(rest) <= len(wanted) or not all(k.fits(x) for x, k in zip(rest, wanted)):
            names = ", ".join(k.name for k in wanted)
            raise RecordError(f"{_brief(entry)} is not a {kind}", legal=f"[{kind!r}, {names}]")
        return Instruction(kind, "", tuple(rest))
    if kind not in PRIMITIVES:
        raise RecordError(
            f"no schedule primitive {_brief(kind)}", legal=f"known: {', '.join((*PRIMITIVES, *_ON_SCHEDULE))}"
        )
    options = rest[-1] if rest and isinstance(rest[-1], dict) else {}
    stage, args = rest[:1], rest[1:-1] if options else rest[1:]
    known = PRIMITIVES[kind]
    kinds = known.kinds_of(len(args))
    right = len(args) == len(kinds) and all(k.fits(a) for k, a in zip(kinds, args, strict=True))
    right = right and all(k in known.options and known.options[k].fits(v) for k, v in options.items())
    if not right or not stage or not K.NAME.fits(stage[0]):
        options_text = f", options {', '.join(known.options)}" if known.options else ""
        raise RecordError(
            f"{_brief(entry)} is not a {kind}",
            legal=f"[{', '.join((repr(kind), 'stage', *known.shape))}]{options_text}",
        )
    return Instruction(kind, stage[0], tuple(args), dict(options))


def _brief(value: Any) -> str:
    """A value from a file, as part of a message: never longer than a line."""
    try:
        text = repr(value)
    except RecursionError:
        text = "something nested too deeply"
    return text if len(text) <= 80 else text[:77] + "..."


class Trace(list[Instruction]):
    """The instructions of a schedule in the order they were given."""

    def to_json(self) -> list[list[Any]]:
        return [i.to_json() for i in self]

    @staticmethod
    def from_json(data: Any) -> Trace:
        """Raises RecordError unless `data` is a list of instructions of known kinds."""
        if not isinstance(data, list):
            raise RecordError("a trace is a list of instructions")
        made = Trace()
        for entry in data:
            if not isinstance(entry, list) or not entry or not isinstance(entry[0], str):
                raise RecordError(f"{_brief(entry)} is not an instruction")
            made.append(_instruction(entry[0], entry[1:], entry))
        return made

    def __str__(self) -> str:
        return self.as_python()

    def at(self, values: Mapping[str, int]) -> Trace:
        """The trace with numbers in place of its knobs; what only says which numbers are allowed is left out.

        Raises RecordError for a knob that has no value.
        """
        return Trace([i.at(values) for i in self if i.kind != "define_knob" and i.kind not in WITH_REASON])

    def as_python(self, name: str = "schedule", knobs: dict[str, int] | None = None) -> str:
        """A Python function that does the same to a schedule `s`; with `knobs`, at those values."""
        lines = []
        for i in self:
            if knobs is not None and i.kind == "define_knob" and i.args[0] in knobs:
                lines.append(f"{i.args[0]} = {knobs[i.args[0]]}")
            elif knobs is not None and i.kind in WITH_REASON:
                continue
            else:
                lines.append(i.as_python())
        body = "\n    ".join(lines or ["pass"])
        if all(line.startswith("#") for line in lines) and lines:
            body += "\n    pass"
        return f"def {name}(s):\n    {body}\n"
