"""Docstrings of this package as Markdown: an extension of griffe, which mkdocstrings reads code with.

They are plain text with loops drawn in letters, examples that are indented, and parameters as `name: meaning`.
"""

from __future__ import annotations

import ast
import re
from itertools import groupby
from textwrap import dedent
from typing import Any

from griffe import Extension

_ITEM = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*): +(\S.*)")


def as_markdown(text: str) -> str:
    """The same text, with fences around code and loops, and lists of parameters."""
    parts = []
    for kind, paragraphs in groupby(re.split(r"\n\s*\n", text.strip("\n")), _kind):
        group = list(paragraphs)
        if kind == "text":
            parts += group
        elif kind == "items":
            parts += map(_items, group)
        else:
            code = dedent("\n\n".join(group))
            parts.append(f"```{_language(code)}\n{code}\n```")
    return "\n\n".join(parts)


def _kind(paragraph: str) -> str:
    lines = paragraph.split("\n")
    if all(line.startswith("    ") for line in lines) or lines[0].startswith(">>> "):
        return "code"
    if lines[0].startswith(("- ", "* ")):
        return "text"
    if _ITEM.match(lines[0]) and all(_ITEM.match(line) or line.startswith("  ") for line in lines):
        return "items"
    drawn = any(line.startswith("  ") or (" -> " in line and ":" in line) for line in lines)
    return "loops" if drawn or paragraph.strip() == "->" else "text"


def _items(paragraph: str) -> str:
    return re.sub(_ITEM.pattern, r"- `\1`: \2", re.sub(r"\n +", " ", paragraph), flags=re.MULTILINE)


def _language(code: str) -> str:
    if code.startswith(">>> "):
        return "pycon"
    try:
        ast.parse(code)
    except SyntaxError:
        return "text"
    return "python"


class Docstrings(Extension):
    """Rewrites each docstring as it is read."""

    def on_object(self, *, obj: Any, **given: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
