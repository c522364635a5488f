"""The documentation site builds without a warning, where mkdocs is installed (`pip install -e '.[docs]'`)."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "experiments"))


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed")
def test_the_site_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert 'src="compute_at.svg"' in (tmp_path / "primitives" / "place" / "index.html").read_text().replace("../", "")
    assert "doc-heading" in (tmp_path / "api" / "schedule" / "index.html").read_text()


def test_the_photographs_of_the_gallery_are_what_operators_make() -> None:
    import gallery

    for name, made in gallery.photographs().items():
        pictures = [np.asarray(Image.open(x)).astype(float) for x in (BytesIO(made), gallery.FOLDER / name)]
        assert np.abs(pictures[0] - pictures[1]).mean() < 1, name
