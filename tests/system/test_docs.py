"""The code in the README runs, and what the documents name exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
#: tests of their own run the Python of these
ELSEWHERE = ("records.md", "search.md")


def blocks_of(document: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


#: documents whose examples run, one after the other in one process
RUNNING = [p for p in PAGES if blocks_of(p) and str(p.relative_to(ROOT / "docs")) not in ELSEWHERE]
#: extras that a document's examples need
NEEDING = {"report.md": "matplotlib"}
BLOCKS = blocks_of(ROOT / "README.md")


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_readme_s_python_runs(number, tmp_path):
    path = tmp_path / "example.py"
    path.write_text(BLOCKS[number], encoding="utf-8")
    command = [sys.executable, str(path)]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("document", RUNNING, ids=lambda p: str(p.relative_to(ROOT / "docs")))
def test_the_python_of_a_document_runs(document, tmp_path, monkeypatch):
    if document.name in NEEDING:
        pytest.importorskip(NEEDING[document.name])
    monkeypatch.chdir(tmp_path)  # where examples leave records
    names: dict[str, object] = {}
    for number, block in enumerate(blocks_of(document)):
        exec(compile(block, f"{document.name}, block {number}", "exec"), names)


def test_type_checkers_accept_the_python_of_readme_and_documents(tmp_path):
    """All of it, in mypy's strict mode; the blocks of a document are one program. Functions for `jit` need no types."""
    for number, block in enumerate(BLOCKS):
        (tmp_path / f"readme_{number}.py").write_text(block, encoding="utf-8")
    for document in PAGES:
        name = "_".join(document.relative_to(ROOT).with_suffix("").parts)
        (tmp_path / f"{name}.py").write_text("\n".join(blocks_of(document)), encoding="utf-8")
    files = sorted(map(str, tmp_path.glob("*.py")))
    config = tmp_path / "mypy.ini"  # whether a library that an example can do without is there makes no difference
    config.write_text("[mypy]\n[mypy-numba.*]\nfollow_imports = skip\n", encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--allow-untyped-defs",
            "--ignore-missing-imports",
            f"--config-file={config}",
            "--cache-dir",
            str(tmp_path),
            *files,
        ],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
