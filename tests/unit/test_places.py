"""The digest of this package's files, on which what is kept of its answers depends."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched import places


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    inner = tmp_path / "space" / "rules"
    inner.mkdir(parents=True)
    for file in (tmp_path / "places.py", inner / "tiles.py", tmp_path / "team.ll"):
        file.write_text("x = 1\n")
    monkeypatch.setattr(places, "__file__", str(tmp_path / "places.py"))
    return tmp_path


def _digest() -> str:
    return places.package_digest.__wrapped__()


@pytest.mark.parametrize("name", ["places.py", "space/rules/tiles.py", "team.ll"])
def test_a_changed_file_changes_the_digest(package: Path, name: str) -> None:
    before = _digest()
    assert _digest() == before
    (package / name).write_text("x = 1 + 1\n")
    assert _digest() != before


def test_what_python_keeps_beside_them_does_not(package: Path) -> None:
    before = _digest()
    kept = package / "space" / "__pycache__"
    kept.mkdir()
    (kept / "tiles.py").write_text("")
    (package / "space" / "notes.txt").write_text("")
    assert _digest() == before
