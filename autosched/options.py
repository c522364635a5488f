"""Options as fields of dataclasses: the field has name, type and default, an `Option` in its metadata the rest.

The command line (`cli/options.py`) makes its options out of the fields that have a help text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Option:
    """The facts about an option that a dataclass field has no place for.

    help:    the command line's help text; without one the command line does not have the option
    flags:   its spellings there; by default the name, without `_s` and `_mb`
    metavar: what the help text calls its value
    legal:   all values that there are
    least:   the least number;  typed: the least that the command line takes, where that is another
    """

    help: str = ""
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    legal: tuple[str, ...] = ()
    least: float | None = None
    typed: int | None = None


def option(default: Any = None, *, factory: Callable[[], Any] | None = None, **facts: Any) -> Any:
    """A field with this default, or what the factory makes, and an `Option` of these facts."""
    metadata = {"option": Option(**facts)}
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def options_of(of: Any) -> Iterator[tuple[Field[Any], Option]]:
    """The fields that were made by `option`, in their order; `of` is a dataclass or an instance of one."""
    return ((f, f.metadata["option"]) for f in fields(of) if "option" in f.metadata)
