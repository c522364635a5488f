"""`autosched cache`: what is kept, and what of it goes."""

from __future__ import annotations

import json
import os
import time

import pytest

from autosched.cli import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    root = tmp_path / "autosched"
    for name, size, age in (
        ("builds/a", 100, 0),
        ("builds/b", 50, 7200),
        ("predictions/c", 7, 7200),
        ("roofline.json", 3, 0),
    ):
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
        os.utime(file, (time.time() - age,) * 2)
    return root


def files(root) -> set[str]:
    return {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()}


def test_it_lists_what_is_kept(folder, capsys) -> None:
    assert main(["cache"]) == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:3] for line in out.splitlines()}
    assert (rows["builds"], rows["predictions"], rows["machine"]) == (["2", "150"], ["1", "7"], ["1", "3"])
    assert out.endswith(f"in {folder}\n")


def test_prune_removes_what_was_not_used_for_long(folder, capsys) -> None:
    assert main(["cache", "prune", "--older", "1h", "--only", "builds", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["removed"], report["freed_bytes"], report["kept"]["builds"]["files"]) == (1, 50, 1)
    assert files(folder) == {"builds/a", "predictions/c", "roofline.json"}
    assert main(["cache", "prune", "--older", "2d"]) == 0
    assert files(folder) == {"builds/a", "predictions/c", "roofline.json"}


def test_clear_removes_all(folder, capsys) -> None:
    assert main(["cache", "clear"]) == 0
    assert files(folder) == set()
    assert "removed 4 files, 160 bytes" in capsys.readouterr().out


def test_a_kind_that_there_is_not(folder, capsys) -> None:
    assert main(["cache", "clear", "--only", "buidls"]) == 2
    assert "did you mean 'builds'?" in capsys.readouterr().err
    assert len(files(folder)) == 4


def test_nothing_is_kept_yet(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    assert main(["cache", "clear"]) == 0
    assert "nothing is kept" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["clear", "list"])
def test_an_age_is_for_what_is_pruned(folder, capsys, action) -> None:
    """`clear` removed all, whatever age was given."""
    before = files(folder)
    assert main(["cache", action, "--older", "30d"]) == 2
    assert (
        capsys.readouterr().err == f"error: cache {action} --older: that is for what is pruned\n  cache prune --older\n"
    )
    assert files(folder) == before
