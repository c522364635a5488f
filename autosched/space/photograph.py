"""A real photograph for workloads on images: scikit-learn's, whose file is read without importing scikit-learn.

Importing it takes as long as building a program.
"""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path

import numpy as np

from autosched.errors import WorkloadError

__all__ = ["photograph", "photograph_file"]


def photograph_file() -> Path | None:
    """Where the photograph is; None where scikit-learn is not installed, or has it no more."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "datasets" / "images" / "china.jpg"
    return path if path.is_file() else None


def photograph() -> np.ndarray:
    """The photograph: uint8 [427, 640, 3], an array of the caller's own. Raises WorkloadError without scikit-learn."""
    return _read().copy()


@lru_cache(maxsize=1)
def _read() -> np.ndarray:
    path = photograph_file()
    if path is None:
        raise WorkloadError(
            "scikit-learn, which has it, is not installed", asked="a photograph", legal="pip install scikit-learn"
        )
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))
