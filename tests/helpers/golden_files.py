"""Texts kept in files: how a printed program is compared with what was read in review."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


def compare_golden(path: Path, text: str, update: bool) -> None:
    """Fail unless the file at `path` holds `text`, trailing newline aside; with `update`, make it so."""
    text = text.rstrip("\n") + "\n"
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    try:
        shown = path.relative_to(CHECKOUT)
    except ValueError:
        shown = path
    if not path.exists():
        pytest.fail(f"{shown} does not exist; `pytest --update-golden` writes it:\n{text}", pytrace=False)
    kept = path.read_text(encoding="utf-8")
    if kept != text:
        lines = difflib.unified_diff(kept.splitlines(), text.splitlines(), str(shown), "this run", lineterm="")
        pytest.fail("\n".join(["the text has changed; `pytest --update-golden` accepts it:", *lines]), pytrace=False)
