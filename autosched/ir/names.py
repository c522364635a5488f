"""What may be a name: of a tensor, an axis, a size, a function."""

from __future__ import annotations

from autosched.errors import UsageError, UsageTypeError

__all__ = ["checked_name", "is_name"]

MOST_CHARACTERS = 200


def is_name(name: object) -> bool:
    """Whether it is text that files and generated source can take, where what is no letter becomes `_`."""
    if not isinstance(name, str) or not 0 < len(name) <= MOST_CHARACTERS:
        return False
    return name.isprintable() and not set(name) & set("/\\") and name.strip(". ") != ""


def checked_name(name: object, asked: str) -> str:
    """The name. Raises UsageTypeError for what is no string, UsageError for one that is no name."""
    legal = f"1 to {MOST_CHARACTERS} printable characters without / and \\, such as 'blur'"
    if not isinstance(name, str):
        raise UsageTypeError(f"the name {name!r:.60} is a {type(name).__name__}", asked=asked, legal=legal)
    if not is_name(name):
        raise UsageError(f"{name!r:.60} cannot be a name", asked=asked, legal=legal)
    return name
