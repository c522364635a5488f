"""The documentation site builds without a warning, where mkdocs is installed (`pip install -e '.[docs]'`)."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed")
def test_the_site_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert 'src="compute_at.svg"' in (tmp_path / "primitives" / "place" / "index.html").read_text().replace("../", "")
    assert "doc-heading" in (tmp_path / "api" / "schedule" / "index.html").read_text()
