"""What may be a name: of a tensor, an axis, a size, a function."""

from __future__ import annotations

import re

from autosched.errors import UsageError, UsageTypeError

__all__ = ["MOST_CHARACTERS", "checked_name", "file_name", "is_name"]

MOST_CHARACTERS = 200


def is_name(name: object, in_files: bool = False) -> bool:
    """Whether it is text that generated source can take, where what is no letter becomes `_`.

    in_files: and that names files, and members of archives, as functions do
    """
    if not isinstance(name, str) or not 0 < len(name) <= MOST_CHARACTERS or not name.isprintable():
        return False
    return not in_files or (file_name(name) == name and name.strip(". ") != "")


def file_name(name: str) -> str:
    """The name without what separates folders: `conv1/bias` becomes `conv1_bias`."""
    return re.sub(r"[/\\]", "_", name)


def checked_name(name: object, asked: str, in_files: bool = False) -> str:
    """The name. Raises UsageTypeError for what is no string, UsageError for one that is no name."""
    without = " without / and \\" if in_files else ""
    legal = f"1 to {MOST_CHARACTERS} printable characters{without}, such as 'blur'"
    if not isinstance(name, str):
        raise UsageTypeError(f"the name {name!r:.60} is a {type(name).__name__}", asked=asked, legal=legal)
    if not is_name(name, in_files):
        raise UsageError(f"{name!r:.60} cannot be a name", asked=asked, legal=legal)
    return name
