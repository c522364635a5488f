"""Names that packages above give to what the classes of the core hold.

A class here has one name for each of its parts. A package that spells programs in another dialect attaches that
dialect's names when it is imported, and nothing below it knows of them:

    attach(For, loop_var=alias("var"), min=alias("start"))
    attach(Function, script=script)                           a method: script(function)
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any


def attach(cls: type, **attributes: Any) -> None:
    """Give a class methods, properties and other attributes, by name."""
    for name, attribute in attributes.items():
        setattr(cls, name, attribute)


def alias(name: str) -> property:
    """Another name of an attribute, to be read only."""
    return property(attrgetter(name), doc=f"The same as `{name}`.")
