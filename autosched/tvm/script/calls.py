"""Calls of a schedule of statements: recorded, written as Python, and made again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

from autosched.ir.expr import var
from autosched.schedule.schedule import perform
from autosched.schedule.trace import Trace
from autosched.tvm.script.reach import NotHere


@dataclass
class TreeTrace:
    """The calls of a schedule: name, arguments, results; handles by the names that they have in `as_python`.

    `before` are those that were made while its function had stages.
    """

    calls: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[str, ...]]]
    before: Any = None

    def as_python(self) -> str:
        """The calls as Python text."""
        lines = ["def schedule(sch):"]
        for name, args, options, made in self.calls:
            said = [*map(_said, args), *(f"{k}={_said(v)}" for k, v in options.items())]
            lines.append(f"    {', '.join(made) + ' = ' if made else ''}sch.{name}({', '.join(said)})")
        return "\n".join([*([self.before.as_python("stages")] if self.before else []), *lines])

    def apply_to_schedule(self, sch: Any, remove_postproc: bool = False) -> None:
        """Make the calls again, on another schedule."""
        known: dict[str, Any] = {}
        if self.before:
            self.before.apply_to_schedule(sch)
        for name, args, options, made in self.calls:
            given = [_known(a, known) for a in args]
            result = getattr(sch, name)(*given, **{k: _known(v, known) for k, v in options.items()})
            results = result if isinstance(result, list) else [result]
            known.update(zip(made, results, strict=bool(made) and len(made) == len(results)))


@dataclass
class StageTrace:
    """The calls of a schedule whose function has stages again, after those that were made `before`."""

    before: TreeTrace
    calls: Trace

    def as_python(self, name: str = "stages") -> str:
        """The calls as Python text."""
        return f"{self.before.as_python()}\n{self.calls.as_python(name)}"

    def apply_to_schedule(self, sch: Any, remove_postproc: bool = False) -> None:
        """Make the calls again, on another schedule."""
        self.before.apply_to_schedule(sch)
        sch.as_stages()
        for i in self.calls[len(sch.schedule.trace) :]:
            perform(sch.schedule, i)


class Name(str):
    """The name of a handle, among the arguments of a call."""


def _said(a: Any) -> str:
    if isinstance(a, (list, tuple)):
        inner = ", ".join(map(_said, a))
        return f"[{inner}]" if isinstance(a, list) else f"({inner}{',' if len(a) == 1 else ''})"
    if inspect.isfunction(a):
        return _map_said(a)
    return str(a) if isinstance(a, Name) else repr(a)


def _map_said(index_map: Callable[..., Any]) -> str:
    """A map of indices as a lambda; one of any number of indices is told by its name."""
    names = inspect.signature(index_map).parameters
    if any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in names.values()):
        return index_map.__name__
    made = index_map(*map(var, names))
    return f"lambda {', '.join(names)}: [{', '.join(map(repr, made))}]"


def _known(a: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(a, (list, tuple)):
        return type(a)(_known(x, known) for x in a)
    return known[a] if isinstance(a, Name) else a


def recorded(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        try:
            result = method(self, *args, **options)
        except NotHere as why:
            said = ", ".join(str(getattr(a, "name", a)) for a in args)
            self._refuse(f"{method.__name__}({said})", str(why), why.legal)
        made = result if isinstance(result, list) else [] if result is None else [result]
        shown = [self._name_of(x) for x in made]
        given = tuple(map(self._named, args)), {k: self._named(v) for k, v in options.items()}
        self.trace.calls.append((method.__name__, *given, tuple(shown)))
        return result

    return call
