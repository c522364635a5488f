"""Cells of notebooks and threads as their authors wrote them, run after changing the import lines alone."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

CELLS = Path(__file__).parent / "cells"

_IMPORTS = (
    (re.compile(r"^import tvm$", re.M), "from autosched import tvm"),
    (re.compile(r"^from tvm(?=[. ])", re.M), "from autosched.tvm"),
)


def changed_imports(code: str) -> str:
    """The code with `tvm` imported from here; every other line stays."""
    for pattern, replacement in _IMPORTS:
        code = pattern.sub(replacement, code)
    return code


def cells(name: str) -> dict[str, str]:
    """The cells of a file by their names: `In [3]:` begins the cell "3"."""
    parts = re.split(r"^In \[(\w+)\]:\n", (CELLS / f"{name}.txt").read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


class Notebook:
    """Cells that run one after the other, in one namespace; `names` is what they have defined."""

    def __init__(self, name: str) -> None:
        self.cells = cells(name)
        self.names: dict[str, Any] = {}

    def run(self, *wanted: str) -> str:
        """Run cells; what they printed."""
        printed = io.StringIO()
        with redirect_stdout(printed):
            for cell in wanted:
                exec(compile(changed_imports(self.cells[cell]), f"cell {cell}", "exec"), self.names)
        return printed.getvalue()


def in_order(text: str, *phrases: str) -> bool:
    """Whether the phrases occur in the text, one after the other."""
    at = 0
    for phrase in phrases:
        found = text.find(phrase, at)
        if found < 0:
            return False
        at = found + len(phrase)
    return True
