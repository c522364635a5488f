"""Python with NumPy and nothing else, as it is where exported packages are used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

__all__ = ["run_clean"]


def run_clean(program: str, folder: Path, *packages: Path) -> str:
    """What a program prints that sees NumPy and these folders of packages; autosched is not there."""
    site = folder / "numpy alone"
    site.mkdir(exist_ok=True)
    home = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (home / name).is_dir() and not (site / name).exists():
            (site / name).symlink_to(home / name)
    paths = [str(p) for p in (*packages, site)]
    head = f"import sys\nsys.path[:0] = {paths!r}\n"
    tail = "\nassert not any(m.split('.')[0] == 'autosched' for m in sys.modules)\n"
    tail += "import importlib.util\nassert importlib.util.find_spec('autosched') is None\n"
    command = [sys.executable, "-I", "-S", "-c", head + program + tail]
    clean = {"PATH": os.environ["PATH"]}
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
