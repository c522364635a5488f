"""What a user of the command line is told says what was asked, why not, and what is legal."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import autosched.errors as errors

PACKAGE = Path(errors.__file__).parent
KINDS = {name for name, x in vars(errors).items() if isinstance(x, type) and issubclass(x, errors.AutoschedError)}
FOLDERS = ("cli", "exporting", "graph", "html", "report", "search", "simulate", "space")


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_error_has_three_parts(folder: str) -> None:
    missing = []
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS:
                given = {k.arg for k in node.keywords}
                if None not in given and not {"asked", "legal"} <= given:
                    missing.append(f"{path.relative_to(PACKAGE)}:{node.lineno}: {ast.unparse(node)[:90]}")
    assert missing == []
