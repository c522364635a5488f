"""`tvm.contrib.download`: files of the network."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from pathlib import Path

from autosched.errors import FileError


def download(
    url: str, path: str | os.PathLike[str], overwrite: bool = False, size_compare: bool = False, retries: int = 3
) -> None:
    """Fetch a file, unless it is there already.

    overwrite:    fetch it in any case
    size_compare: fetch it if it has another size than that of the network

    Raises FileError if that fails.
    """
    to = Path(path)
    if to.is_file() and not overwrite and not (size_compare and _size(url, to) != to.stat().st_size):
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    part = to.with_name(f"{to.name}.{os.getpid()}.part")
    for left in reversed(range(max(retries, 1))):
        try:
            urllib.request.urlretrieve(url, part)
            part.replace(to)
            return
        except (urllib.error.URLError, OSError, ValueError) as error:
            part.unlink(missing_ok=True)
            if not left:
                legal = f"the file at {to}, put there by hand"
                raise FileError(f"it cannot be fetched: {error}", asked=f"download({url!r})", legal=legal) from None


def download_testdata(url: str, relpath: str, module: str | list[str] | None = None, overwrite: bool = False) -> str:
    """Fetch a file into `$TVM_TEST_DATA_ROOT_PATH`, else `~/.tvm_test_data`, and return its path.

    module: folders inside it, one or several
    """
    folders = [module] if isinstance(module, str) else module or []
    root = Path(os.environ.get("TVM_TEST_DATA_ROOT_PATH") or Path.home() / ".tvm_test_data")
    path = root.joinpath(*folders, relpath)
    download(url, path, overwrite=overwrite)
    return str(path)


def _size(url: str, to: Path) -> int:
    try:
        with urllib.request.urlopen(url) as answer:
            return int(answer.headers.get("Content-Length", -1))
    except (urllib.error.URLError, OSError, ValueError):
        return to.stat().st_size  # what is there is the best there is
