"""`tvm.contrib.utils`: a folder for files that nobody keeps."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path


class TempDirectory:
    """A folder that is removed with this object; with a path, a folder that is kept."""

    def __init__(self, custom_path: str | None = None) -> None:
        self._temporary = None if custom_path else tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.path = Path(custom_path or self._temporary.name)  # type: ignore[union-attr]
        self.path.mkdir(parents=True, exist_ok=True)

    def relpath(self, name: str) -> str:
        """The path of a file in it."""
        return str(self.path / name)

    def listdir(self) -> list[str]:
        return os.listdir(self.path)

    def remove(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def __enter__(self) -> TempDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def tempdir(custom_path: str | None = None, keep_for_debug: bool = False) -> TempDirectory:
    """A new folder; `keep_for_debug` keeps it."""
    if keep_for_debug and custom_path is None:
        custom_path = tempfile.mkdtemp()
    return TempDirectory(custom_path)


def which(exec_name: str) -> str | None:
    """The path of a program; None if it is not found."""
    return shutil.which(exec_name)


def is_source_path(path: str) -> bool:
    """Whether a text is the path of a source file, by its ending; a text of several lines is a source itself."""
    return "\n" not in path and path.endswith((".cc", ".cpp", ".c", ".cu", ".cl", ".ll", ".h"))
