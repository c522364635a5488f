"""The folder of one measuring session: inputs, build results, driver caches, temporary files.

It is removed when the session closes. A session that was killed leaves it behind; the next session
of the same user removes it. A folder is alive as long as somebody holds the lock on its `lock`
file, which the system releases however the holder ends (process ids would be reused, and mean
nothing to another container that shares the temporary folder).
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_PREFIX = "autosched-measure-"
_MIN_AGE_S = 60.0  # a younger folder may be one that is just being made


class SessionFolder:
    """A private folder, made at once and gone after `close`."""

    def __init__(self, parent: Path | None = None) -> None:
        base = Path(tempfile.gettempdir()) if parent is None else parent
        remove_stale(base)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        self._owner = os.getpid()
        self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for name in ("artifacts", "known", "tmp", "cache"):
            (self.path / name).mkdir()
        self._artifacts = 0

    @property
    def is_ours(self) -> bool:
        """False in a forked copy of the process that made it."""
        return os.getpid() == self._owner

    def close(self) -> None:
        """Remove the folder. Safe to call twice; does nothing in a forked copy of the process."""
        if self._lock < 0 or not self.is_ours:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1

    def new_artifact(self) -> Path:
        """A path that no artifact had before in this session."""
        self._artifacts += 1
        return self.path / "artifacts" / f"{self._artifacts}.artifact"

    @property
    def known(self) -> Path:
        """The folder in which a file is named as the digest of each code that was measured."""
        return self.path / "known"

    def save_json(self, name: str, value: Any) -> str:
        path = self.path / name
        path.write_text(json.dumps(value), encoding="utf-8")
        return str(path)

    def save_arrays(self, name: str, arrays: Sequence[np.ndarray[Any, Any] | None]) -> list[str]:
        """Write `name-0.npy`, `name-1.npy`, ...; returns their paths, empty where there is no array."""
        paths = []
        for i, array in enumerate(arrays):
            if array is None:
                paths.append("")
                continue
            path = self.path / f"{name}-{i}.npy"
            np.save(path, np.asarray(array, order="C"), allow_pickle=False)
            paths.append(str(path))
        return paths


def remove_stale(base: Path) -> list[Path]:
    """Remove this user's session folders in `base` that nobody holds; returns them."""
    removed = []
    for path in base.glob(f"{_PREFIX}*"):
        try:
            status = path.lstat()
            if path.is_symlink() or status.st_uid != os.getuid() or time.time() - status.st_mtime < _MIN_AGE_S:
                continue
            if _is_held(path / "lock"):
                continue
        except OSError:  # another session was quicker
            continue
        shutil.rmtree(path, ignore_errors=True)
        removed.append(path)
    return removed


def _is_held(lock: Path) -> bool:
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
