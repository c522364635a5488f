"""Nothing replaces a file without being asked, whatever its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scripted

from autosched.cli.arguments import VERBS
from autosched.cli.images import write_image
from autosched.cli.record_arguments import RECORD_VERBS
from autosched.records import RecordLog

Cli = Callable[..., Any]

SIZES = ("--size", "height=24", "--size", "width=32")
#: words without the file -> the file
WRITTEN = {
    ("build", "brighten"): "ein ü b.artifact",
    ("export", "brighten", "--target", "c"): "ein ordner ü/main.c",
    ("run", "brighten", "a.png"): "ein bild ü.png",
    ("choose", "brighten", *SIZES, "--yes"): "ein plan ü.py",
    ("report", "pale_blur"): "ein bericht ü.html",
    ("records", "export", "pale_blur", "--format", "csv"): "alle ü.csv",
    ("records", "export", "pale_blur", "--format", "t4"): "alle ü.json",
    ("simulate", "softmax-512", "--strategy", "random", "--seeds", "2", "--trials", "2", "--model", "none",
     "--processes", "1"): "eine kurve ü.svg",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _inputs(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", np.zeros((24, 32, 3), np.uint8))
    RecordLog(tmp_path / "records" / "pale_blur.llvm.jsonl").append(scripted.record(1, 1e-4))


@pytest.mark.parametrize("words", WRITTEN, ids=" ".join)
def test_a_file_stays_unless_force_is_given(
    cli: Cli, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if words[0] == "simulate":
        space = next(iter(cli("simulate", "--records", OURS, "--json").data["spaces"]))
        words = (words[0], space, *words[2:], "--records", str(OURS))
    file = tmp_path / WRITTEN.get(words, "eine kurve ü.svg")
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    output = file.parent.name if words[0] == "export" else file.name
    done = cli(*words, "-o", output)
    assert done.status == 2 and done.err.startswith("error: "), done.err
    assert "is there already\n  --force, or another " in done.err
    assert file.read_text() == "mine"
    done = cli(*words, "-o", output, "--force")
    assert done.status == 0, done.err
    assert file.read_bytes() != b"mine"


OURS = Path(__file__).resolve().parents[3] / "records"


def test_a_name_that_nobody_gave_is_not_replaced_either(cli: Cli, tmp_path: Path) -> None:
    assert cli("run", "brighten", "a.png").status == 0
    done = cli("run", "brighten", "a.png")
    assert (done.status, done.err) == (
        2, "error: run -o a.brighten.png: the file is there already\n  --force, or another name\n"
    )  # fmt: skip


def test_every_verb_that_writes_a_file_can_be_told_to_replace_it(cli: Cli) -> None:
    """A verb with -o either has --force, or its output is a folder or file of records, to which it adds."""
    adds = {"tune", "tasks", "records merge", "records split", "records import"}
    for verb in [*VERBS, *(f"records {v}" for v in RECORD_VERBS)]:
        words = cli(*verb.split(), "--help").out
        assert ("--output" in words) <= (("--force" in words) or verb in adds), verb
