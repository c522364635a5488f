"""The user's own folders, locks on files, and files that are written whole or not at all."""

from __future__ import annotations

import functools
import hashlib
import operator
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]


def data_folder() -> Path:
    """The folder of what must be kept: records, and the key that marks them as this machine's.

    `$XDG_DATA_HOME/autosched`, else `~/.local/share/autosched`, on macOS `~/Library/Application Support/autosched`.
    It need not exist. Raises RuntimeError where there is no home folder.
    """
    return _folder("XDG_DATA_HOME", "Library/Application Support/autosched", "Data", ".local/share/autosched")


def cache_folder() -> Path:
    """The folder of what can be found out again: the roofline, predictions, verdicts on records.

    `$XDG_CACHE_HOME/autosched`, else `~/.cache/autosched`, on macOS `~/Library/Caches/autosched`. It need not exist.
    Raises RuntimeError where there is no home folder.
    """
    return _folder("XDG_CACHE_HOME", "Library/Caches/autosched", "Cache", ".cache/autosched")


def _folder(variable: str, macos: str, windows: str, elsewhere: str) -> Path:
    """By the rules of the platform. The variable counts on all of them, and only if its path is absolute."""
    explicit = os.environ.get(variable, "")
    if os.path.isabs(explicit):
        return Path(explicit) / "autosched"
    if sys.platform == "darwin":
        return Path.home() / macos
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "autosched" / windows
    return Path.home() / elsewhere


@functools.cache
def package_digest() -> str:
    """A digest of this package's files by their times and sizes: a checkout changes while its version stays.

    What is kept of answers of the compiler, or of its models, has it in its key. It takes a few milliseconds.
    """
    found = hashlib.sha256()
    folders = [str(Path(__file__).parent)]
    for folder in folders:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                if entry.name.endswith((".py", ".ll")):
                    s = entry.stat()
                    found.update(f"{entry.name} {s.st_size} {s.st_mtime_ns}\n".encode())
                elif "." not in entry.name and not entry.name.startswith("__") and entry.is_dir():
                    folders.append(entry.path)
    return found.hexdigest()


def open_flags(*names: str) -> int:
    """The flags of `os.open` with these names, `O_` left off; Windows does not have all of them."""
    return functools.reduce(operator.or_, (getattr(os, f"O_{name}", 0) for name in names))


def try_lock(fd: int, *, shared: bool = False) -> bool:
    """Lock an open file, unless somebody holds it: then return False. The lock ends with `unlock` or `close`."""
    if fcntl is None:
        return _try_portalocker(fd, shared)
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _try_portalocker(fd: int, shared: bool) -> bool:
    import portalocker  # needs a temporary folder that can be written, so not where there is `flock`

    try:
        portalocker.lock(fd, (portalocker.LOCK_SH if shared else portalocker.LOCK_EX) | portalocker.LOCK_NB)
    except portalocker.AlreadyLocked:
        return False
    return True


def unlock(fd: int) -> None:
    """Let others lock it."""
    if fcntl is None:
        import portalocker

        portalocker.unlock(fd)
    else:
        fcntl.flock(fd, fcntl.LOCK_UN)


def write_whole(
    file: Path,
    write: Callable[[IO[bytes]], object],
    *,
    replace: bool = True,
    mode: int | None = None,
    parents: bool = True,
) -> bool:
    """Write a file so that nobody sees a part of it; returns whether it was written.

    A file that exists is kept unless `replace`. `mode`: its permissions, which the umask decides otherwise.
    `parents`: folders that are not there are made. Raises OSError.
    """
    if parents:
        file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.parent / f".{file.name}.{secrets.token_hex(6)}"
    handle = os.open(temporary, open_flags("WRONLY", "CREAT", "EXCL", "BINARY"), 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            if mode is not None:
                os.chmod(temporary, mode)
            write(out)
        if replace:
            os.replace(temporary, file)
            return True
        try:
            os.link(temporary, file)
        except FileExistsError:
            return False
        return True
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
