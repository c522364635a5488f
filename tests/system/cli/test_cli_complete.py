"""`autosched complete`: what shells complete."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from autosched.cli import main
from autosched.cli.arguments import SHELLS


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_for_each_shell(shell, capsys) -> None:
    pytest.importorskip("shtab")
    assert main(["complete", shell]) == 0
    out = capsys.readouterr().out
    for word in ("roofline", "autosched"):
        assert word in out


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("rep", "report"),
        ("cache --on", "--only"),
        ("cache pr", "prune"),
        ("records me", "merge"),
        ("records merge --dr", "--dry-run"),
    ],
)
def test_bash_completes(words, found, capsys, tmp_path) -> None:
    pytest.importorskip("shtab")
    main(["complete", "bash"])
    script = tmp_path / "completion.sh"
    script.write_text(capsys.readouterr().out)
    count = len(words.split())
    asked = (
        f"source {script}; COMP_WORDS=(autosched {words}); COMP_CWORD={count}; _shtab_autosched; echo ${{COMPREPLY[@]}}"
    )
    out = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True).stdout
    assert out.split() == [found]


def test_without_the_package_it_says_how_to_get_it(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["complete", "bash"]) == 2
    assert "pip install shtab" in capsys.readouterr().err
