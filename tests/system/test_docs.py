"""The code in the README runs, and what the documents name exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
#: documents whose examples run, one after the other in one process
RUNNING = [
    "cookbook.md",
    "explain.md",
    "first-steps.md",
    "jit.md",
    "kernels.md",
    "language.md",
    "measurement.md",
    "outside.md",
    "report.md",
    "rules.md",
    "schedules.md",
    "simulation.md",
    "sizes.md",
    "templates.md",
    "testing.md",
    "tvm.md",
]
#: extras that a document's examples need
NEEDING = {"report.md": "matplotlib"}
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_readme_s_python_runs(number, tmp_path):
    path = tmp_path / "example.py"
    path.write_text(BLOCKS[number], encoding="utf-8")
    command = [sys.executable, str(path)]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", RUNNING)
def test_the_python_of_a_document_runs(name, tmp_path, monkeypatch):
    if name in NEEDING:
        pytest.importorskip(NEEDING[name])
    monkeypatch.chdir(tmp_path)  # where examples leave records
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
        exec(compile(block, f"{name}, block {number}", "exec"), names)


def test_type_checkers_accept_the_python_of_readme_and_documents(tmp_path):
    """All of it, in mypy's strict mode; the blocks of a document are one program. Functions for `jit` need no types."""
    for number, block in enumerate(BLOCKS):
        (tmp_path / f"readme_{number}.py").write_text(block, encoding="utf-8")
    for document in (ROOT / "docs").glob("*.md"):
        blocks = re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
        (tmp_path / f"docs_{document.stem}.py").write_text("\n".join(blocks), encoding="utf-8")
    files = sorted(map(str, tmp_path.glob("*.py")))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--allow-untyped-defs",
            "--config-file=",
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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_links_lead_somewhere(document):
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)\)", prose):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"
