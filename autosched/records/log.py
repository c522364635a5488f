"""Append-only files of records: `RecordLog(path).append(record)` and `.read()`.

What is promised, and how:

* An append that returned survives a killed process and a power cut: one write, then `fdatasync`.
* An append that raised left the file as it was: it is cut back to its old length.
* Several processes may append to one file: each holds `flock` while it does.
* A line torn by a killed writer costs that line only: the next append ends it first, and readers
  skip what does not decode and say so.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

from autosched.errors import RecordError, expect
from autosched.places import open_flags, try_lock, unlock, write_whole
from autosched.records.record import MAX_LINE, Record, decode, encode

#: Seconds to wait for another writer, which holds the lock for milliseconds unless it is stopped.
LOCK_TIMEOUT_S = 30.0

#: Bytes that are searched at a time for the lines of one workload: a processor's cache holds them.
_BLOCK = 1 << 18
_LINE_END = ord("\n")

_NAME = re.compile(r"\w[\w.+-]{0,199}")
# macOS has no fdatasync; fsync flushes the time stamps as well and is as safe.
datasync = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file; lines count from 1."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Problem:
    """A line that could not be used, and why."""

    place: Place
    reason: str

    @property
    def line(self) -> int:
        return self.place.line

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@dataclass(frozen=True)
class LogContents:
    """The contents of logs: records in file order, the place of each, and the unusable lines.

    others: how many lines were not decoded, because they are of other workloads than the one asked for
    """

    records: tuple[Record, ...] = ()
    problems: tuple[Problem, ...] = ()
    places: tuple[Place, ...] = ()
    others: int = 0

    def __add__(self, other: LogContents) -> LogContents:
        return LogContents(
            self.records + other.records,
            self.problems + other.problems,
            self.places + other.places,
            self.others + other.others,
        )


class RecordLog:
    """One file of records. Opens it for each operation, so it may be shared and needs no closing."""

    def __init__(self, path: str | os.PathLike[str], *, lock_timeout_s: float = LOCK_TIMEOUT_S) -> None:
        expect(path, "the path of a file", isinstance(path, (str, os.PathLike)), "RecordLog(path)")
        self.path = Path(path)
        self.lock_timeout_s = lock_timeout_s

    def __repr__(self) -> str:
        return f"RecordLog({str(self.path)!r})"

    def append(self, record: Record) -> None:
        """Write the record; it is on the disk when this returns.

        Raises RecordError when the record cannot be written, after putting the file back to what
        it was. The record is then known to the caller only.
        """
        expect(record, "a Record", isinstance(record, Record), f"{self!r}.append")
        line = encode(record).encode() + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked_for_append() as fd:
                _append_line(fd, line)
        except OSError as e:
            raise self._refusal("cannot write", e) from e

    def read(self, key: str | None = None, *, keep: Callable[[Record], Record] | None = None) -> LogContents:
        """All records, in file order, or those of the workload with this `key`: lines without it are neither decoded
        nor checked. Bad lines become `problems`; they never raise. `keep` makes of each record what is kept.

        Raises RecordError when the file cannot be opened or read at all.
        """
        records: list[Record] = []
        places: list[Place] = []
        problems: list[Problem] = []
        seen: list[int] = []
        for place, line in self.lines(key, seen):
            try:
                record = decode(line)
                records.append(record if keep is None else keep(record))
                places.append(place)
            except RecordError as e:
                torn = "" if line.endswith(b"\n") else "torn last line: "
                problems.append(Problem(place, torn + e.why))
        if key is None:
            return LogContents(tuple(records), tuple(problems), tuple(places))
        kept = [(r, place) for r, place in zip(records, places, strict=True) if r.key == key]
        others = sum(seen) - len(kept) - len(problems)
        return LogContents(
            tuple(r for r, _ in kept), tuple(problems), tuple(place for _, place in kept), max(others, 0)
        )

    def lines(self, key: str | None = None, seen: list[int] | None = None) -> Iterator[tuple[Place, bytes]]:
        """The lines as they are, for a reader that decodes only some; raises as `read`.

        With a `key`, those in which the name `key` has that value somewhere, found by a search of the bytes: nearly
        all are of the workload. A line that spells it by escapes, as we do not, is missed. How many lines there are in
        all goes into `seen` at the end.
        """
        try:
            with self._open_for_read() as file:
                if key is None:
                    yield from self._lines(file)
                else:
                    wanted = f'"key":{json.dumps(key, ensure_ascii=False)}'.encode()
                    yield from self._lines_with(file, wanted, [] if seen is None else seen)
        except OSError as e:
            raise self._refusal("cannot read", e) from e

    def whole(self) -> bytes:
        """The bytes of the file, read while nobody writes. Raises as `read`."""
        try:
            with self._open_for_read() as file:
                self._wait_for_writer(file.fileno())
                return file.read()
        except OSError as e:
            raise self._refusal("cannot read", e) from e

    def rewrite(self, change: Callable[[bytes], bytes]) -> None:
        """Replace the file by what `change` makes of its bytes, which are none for a new file.

        Readers see the old file or the new one, whole. Writers wait, and append to the new one. Raises RecordError
        when it cannot be written; the file is then as it was.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked_for_append() as fd, open(fd, "rb", closefd=False) as file:
                before = file.read()
                after = change(before)
                if after != before:
                    _replace(Path(os.path.realpath(self.path)), after, stat.S_IMODE(os.fstat(fd).st_mode))
        except OSError as e:
            raise self._refusal("cannot write", e) from e

    @contextmanager
    def _locked_for_append(self) -> Iterator[int]:
        deadline = time.monotonic() + self.lock_timeout_s
        while True:
            # O_NONBLOCK: opening a pipe by mistake fails rather than waits for its other end.
            fd = os.open(self.path, open_flags("RDWR", "APPEND", "CREAT", "CLOEXEC", "NONBLOCK", "BINARY"), 0o666)
            try:
                self._check_regular(fd)
                self._lock(fd, deadline)
                if not _is_at(fd, self.path):
                    continue  # replaced or removed while we waited: what we hold is not the log
                if os.fstat(fd).st_size == 0:  # perhaps just created: its name must last as well
                    _sync_folder(self.path.parent)
                    _sync_folder(self.path.parent.parent)
                yield fd
                return
            finally:
                os.close(fd)

    def _open_for_read(self) -> BinaryIO:
        fd = os.open(self.path, open_flags("RDONLY", "CLOEXEC", "NONBLOCK", "BINARY"))
        try:
            self._check_regular(fd)
            return os.fdopen(fd, "rb")
        except BaseException:
            os.close(fd)
            raise

    def _lines_with(self, file: BinaryIO, wanted: bytes, seen: list[int]) -> Iterator[tuple[Place, bytes]]:
        """Lines that hold these bytes, but for those that are too long. Others are neither cut out nor copied."""
        buffer = bytearray(_BLOCK + max(_BLOCK, MAX_LINE + 2))
        codes = np.frombuffer(buffer, np.uint8)
        number = start = held = 0  # lines before the buffer, where it starts, its bytes that begin a line
        while size := file.readinto(memoryview(buffer)[held : held + _BLOCK]):  # type: ignore[attr-defined]
            end, at = held + size, 0
            whole = buffer.rfind(b"\n", held, end) + 1
            if not whole:
                held = min(end, MAX_LINE + 2)  # of a line that is too long, enough to see that it is
                continue
            while (found := buffer.find(wanted, at, whole)) >= 0:
                first, after = buffer.rfind(b"\n", at, found) + 1 or at, buffer.index(b"\n", found) + 1
                number += int(np.count_nonzero(codes[at:after] == _LINE_END))
                at = after
                if after - first <= MAX_LINE + 1:
                    yield Place(self.path, number), bytes(buffer[first:after])
            number += int(np.count_nonzero(codes[at:whole] == _LINE_END))
            held = end - whole
            buffer[:held] = buffer[whole:end]
            start = file.tell() - held
        last: list[tuple[Place, bytes]] = []
        if held:  # a torn last line, of whatever workload, or one that is being written
            file.seek(start)
            last = list(self._lines(file, number, start))
        seen.append(number + len(last))
        yield from ((place, line) for place, line in last if wanted in line or not line.endswith(b"\n"))

    def _lines(self, file: BinaryIO, number: int = 0, start: int = 0) -> Iterator[tuple[Place, bytes]]:
        """Lines with their ends; only the last may have none. Over-long ones come shortened, but too long.

        number, start: the lines and the bytes before where the file stands
        """
        waited = False
        while line := file.readline(MAX_LINE + 2):
            if not line.endswith(b"\n") and len(line) < MAX_LINE + 2 and not waited:
                # A torn last line, or one that is being written right now: look again when nobody writes.
                waited = True
                self._wait_for_writer(file.fileno())
                file.seek(0, os.SEEK_END)  # drops what is buffered, which may have been cut off since
                file.seek(start)
                continue
            number += 1
            place = Place(self.path, number)
            if not line.endswith(b"\n") and len(line) == MAX_LINE + 2:
                line += b"\n" if _skip_line(file) else b""
            start = file.tell()
            if line.strip():
                yield place, line

    def _wait_for_writer(self, fd: int) -> None:
        with suppress(OSError, RecordError):
            self._lock(fd, time.monotonic() + min(1.0, self.lock_timeout_s), shared=True)
            unlock(fd)

    def _lock(self, fd: int, deadline: float, *, shared: bool = False) -> None:
        pause = 0.0005
        while not try_lock(fd, shared=shared):
            if time.monotonic() >= deadline:
                raise RecordError(
                    f"another process has held the lock for {self.lock_timeout_s:g} s",
                    asked=str(self.path),
                    legal=f"find it with: fuser {self.path}",
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 0.005)

    def _check_regular(self, fd: int) -> None:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise RecordError("is not a regular file", asked=str(self.path), legal="give the path of a .jsonl file")

    def _refusal(self, what: str, e: OSError) -> RecordError:
        legal = {
            errno.ENOENT: "check the path",
            errno.ENOSPC: "free some space; the file is as it was before",
            errno.EDQUOT: "free some space; the file is as it was before",
            errno.EFBIG: "raise the file size limit; the file is as it was before",
            errno.ENOLCK: "choose a folder on a local disk: this file system has no locks",
            errno.EOPNOTSUPP: "choose a folder on a local disk: this file system has no locks",
        }.get(e.errno or 0, "choose another folder, for example with AUTOSCHED_RECORDS=folder")
        return RecordError(f"{what} records: {e.strerror or e}", asked=str(self.path), legal=legal)


def _append_line(fd: int, line: bytes) -> None:
    """Write and flush, or put the file back to its length. The lock is held."""
    old = os.fstat(fd).st_size
    if old and os.pread(fd, 1, old - 1) != b"\n":
        line = b"\n" + line
    try:
        left = memoryview(line)
        while left:  # once, unless the disk fills up: then the second write says so
            left = left[os.write(fd, left) :]
        datasync(fd)
    except BaseException:  # Ctrl-C as well: an append has happened or it has not
        try:
            os.ftruncate(fd, old)
        except OSError as e:
            raise RecordError(
                f"a write failed, and the file could not be cut back to {old} bytes: {e.strerror}",
                asked="append",
                legal="no earlier record is harmed: the next append ends the torn line, and readers skip it",
            ) from e
        with suppress(OSError):  # the length is right for every reader already
            datasync(fd)
        raise


def _replace(path: Path, data: bytes, mode: int) -> None:
    """Put a file of these bytes in place of another, so that a power cut leaves one of them. The lock is held."""

    def write(out: IO[bytes]) -> None:
        out.write(data)
        out.flush()
        datasync(out.fileno())

    write_whole(path, write, mode=mode, parents=False)
    _sync_folder(path.parent)


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut, where the file system can."""
    with suppress(OSError):
        fd = os.open(folder, open_flags("RDONLY", "DIRECTORY"))
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _skip_line(file: BinaryIO) -> bool:
    """Read to the end of the line without keeping it. Whether there was one."""
    while chunk := file.readline(1 << 16):
        if chunk.endswith(b"\n"):
            return True
    return False


def default_path(workload: str, target_kind: str, folder: str | os.PathLike[str]) -> Path:
    """`<folder>/<workload>.<target kind>.jsonl`. Raises RecordError for a name that leaves the folder."""
    for name in (workload, target_kind):
        expect(name, "a name", isinstance(name, str), "the file of records")
        if not _NAME.fullmatch(name):
            raise RecordError(
                "cannot be part of a file name",
                asked=f"{name!r:.100}",
                legal="letters, digits, _ . + -, beginning with a letter or digit",
            )
    expect(folder, "a path", isinstance(folder, (str, os.PathLike)), "the folder of records")
    return Path(folder) / f"{workload}.{target_kind}.jsonl"


def read_files(
    paths: Iterable[str | os.PathLike[str]],
    key: str | None = None,
    *,
    keep: Callable[[Record], Record] | None = None,
) -> LogContents:
    """The contents of several files, one after the other, as `RecordLog.read` gives and raises them."""
    expect(paths, "a list of paths", isinstance(paths, Iterable), "read_files")
    contents = LogContents()
    for path in paths:
        contents += RecordLog(path).read(key, keep=keep)
    return contents
