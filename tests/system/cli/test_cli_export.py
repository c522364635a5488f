"""`export`: a kernel as a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autosched.runtime.c_compiler import find_compiler

Cli = Callable[..., Any]


def test_a_workload_becomes_a_folder(cli: Cli, tmp_path: Path) -> None:
    done = cli("export", "brighten", "-o", "out é", "--size", "height=32", "--json")
    assert (done.status, done.err) == (0, "")
    assert done.data["files"] == {
        str(p.relative_to(tmp_path / "out é")): p.stat().st_size for p in (tmp_path / "out é").rglob("*") if p.is_file()
    }
    assert ("libbrighten.so" in done.data["files"]) == (find_compiler() is not None)
    assert done.data["provenance"]["kind"] == "default"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["brighten"], "the following arguments are required: -o/--output"),
        (["brightn", "-o", "x"], "did you mean 'brighten'?"),
        (["brighten", "-o", "x", "--size", "q=3"], "has no size 'q'"),
        (["brighten", "-o", "file"], "export -o 'file'"),
        (["brighten", "-o", "x", "--name", "a/b"], "'a/b' cannot be a name"),
        (["brighten", "-o", "x", "--target", "cuda"], "there are no files of cuda\n  the targets llvm, c and opencl"),
    ],
)
def test_what_cannot_be_written(words: list[str], told: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = cli("export", *words)
    assert done.status == 2 and told in done.err
    assert not (tmp_path / "x").exists()


def test_files_stay_unless_force_is_given(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "main.c").write_text("mine")
    words = ["export", "brighten", "-o", "x", "--target", "c"]
    assert cli(*words).err == "error: export -o 'x': main.c is there already\n  --force, or another folder\n"
    assert sorted(p.name for p in (tmp_path / "x").iterdir()) == ["main.c"]
    done = cli(*words, "--force")
    assert done.status == 0 and "README.md has the commands that build with them" in done.out
    assert (tmp_path / "x" / "main.c").read_text() != "mine"
