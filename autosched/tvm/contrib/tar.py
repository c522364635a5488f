"""`tvm.contrib.tar`: archives of object files, which `module.export_library("x.tar", fcompile=tar.tar)` writes, too."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from autosched.errors import FileError, UsageError, named_file
from autosched.tvm.contrib.utils import TempDirectory


def tar(output: str | os.PathLike[str], files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> None:
    """Write files to an archive, by their names without folders.

    Raises UsageError for two files of one name, FileError where one cannot be read or the archive not be written.
    """
    listed = [Path(f) for f in ([files] if isinstance(files, (str, os.PathLike)) else files)]
    names = [f.name for f in listed]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        legal = "files of different names: folders are left out"
        raise UsageError(f"two of the files are called {twice}", asked=f"tar({os.fspath(output)!r})", legal=legal)
    with named_file(f"tar({os.fspath(output)!r})"), tarfile.open(output, "w") as archive:
        for f in listed:
            archive.add(f, arcname=f.name)


tar.output_format = "tar"  # type: ignore[attr-defined]  # what builders name files by


def untar(tar_file: str | os.PathLike[str], directory: str | os.PathLike[str]) -> None:
    """Write the files of an archive to a folder.

    Raises FileError where that cannot be done, and for an archive with a file that would lie outside of the folder.
    """
    asked = f"untar({os.fspath(tar_file)!r})"
    try:
        with named_file(asked), tarfile.open(tar_file) as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extractall(directory, filter="data")
            else:  # Python 3.11 before 3.11.4
                _check_members(archive, Path(directory).resolve())
                archive.extractall(directory)
    except tarfile.TarError as error:
        legal = "an archive whose files lie inside of it"
        raise FileError(str(error), asked=asked, legal=legal) from None


def _check_members(archive: tarfile.TarFile, folder: Path) -> None:
    """Raise TarError for what is no file or folder, or lies outside of `folder`."""
    for member in archive:
        if not (member.isfile() or member.isdir()) or not (folder / member.name).resolve().is_relative_to(folder):
            raise tarfile.ExtractError(f"{member.name!r} is no file inside of the folder")


def normalize_file_list_by_unpacking_tars(temp: TempDirectory, file_list: Iterable[Any]) -> list[str]:
    """Return the files of a list, those of archives in its place, which are unpacked into a folder of their own."""
    found: list[str] = []
    for number, name in enumerate(map(os.fspath, file_list)):
        if not name.endswith(".tar"):
            found.append(name)
            continue
        folder = temp.relpath(f"unpacked-{number}")
        untar(name, folder)
        found += sorted(str(f) for f in Path(folder).rglob("*") if f.is_file())
    return found
