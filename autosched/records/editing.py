"""Files of records as wholes: merged, split, pruned and repaired.

Lines are moved as they are, byte for byte. A line that cannot be read is never thrown away: it goes to a file beside,
`NAME.damaged` for `NAME.jsonl`, which no reader of records looks at. Files are replaced whole (`RecordLog.rewrite`),
so a run that writes to one meanwhile loses nothing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from autosched.errors import RecordError, UsageError, check_positive
from autosched.records.best import BASELINE, latest, ranked
from autosched.records.frame import Slimmer
from autosched.records.log import Place, Problem, RecordLog, default_path
from autosched.records.record import NEWER, PREDICTED, Record, decode
from autosched.records.tasks import by_task

#: How a split can be made: the name of a part is the workload's file, a folder for each target, or for each device.
BY = ("workload", "target", "device")

_BEGIN = b'{"at":'
_END = re.compile(rb',"crc":"[0-9a-f]{8}"\}')


@dataclass
class Moved:
    """The result of `merge` and `split`.

    lines:      how many were read
    written:    file -> lines that it was given
    duplicates: lines that their file had already
    problems:   lines that cannot be read, which are in the files `aside`
    """

    lines: int = 0
    written: dict[Path, int] = field(default_factory=dict)
    duplicates: int = 0
    problems: list[Problem] = field(default_factory=list)
    aside: list[Path] = field(default_factory=list)


@dataclass
class Repaired:
    """The result of `repair` for a file.

    kept:     lines that were good
    rescued:  whole records that were found inside damaged lines
    problems: the damaged lines, which are in the file `aside`
    """

    path: Path
    kept: int = 0
    rescued: int = 0
    problems: list[Problem] = field(default_factory=list)
    aside: Path | None = None


@dataclass
class Pruned:
    """The result of `prune`: lines kept and dropped of each file, and the number dropped for each reason."""

    kept: dict[Path, int] = field(default_factory=dict)
    dropped: dict[Path, int] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)


def merge(files: Iterable[Path], into: Path, *, dry_run: bool = False) -> Moved:
    """Bring the lines of several files together, each once: in one file, if `into` ends in `.jsonl`, else in a folder,
    in the files that `build` and `tune` look for.

    What is there already stays. Raises RecordError for a file that cannot be read or written.
    """
    if into.suffix == ".jsonl":
        return _distribute(files, lambda r: into, lambda file: into, dry_run)
    return _distribute(files, lambda r: _file_in(into, r), lambda file: into / file.name, dry_run)


def split(files: Iterable[Path], into: Path, by: Sequence[str] = ("workload",), *, dry_run: bool = False) -> Moved:
    """Copy each line to the file of its workload, in a folder for its target or its device, or one in the other.

    by: any of `BY`, the outermost folder first. The files are left as they are. Raises as `merge`.
    """
    if unknown := [x for x in by if x not in BY]:
        raise UsageError(f"{unknown[0]!r} is nothing to split by", asked="split", legal=", ".join(BY))
    names = _FolderNames()
    part = {"target": lambda r: names.of(r.target), "device": lambda r: names.of(r.device_name)}

    def place(r: Record) -> Path:
        return _file_in(into.joinpath(*(part[x](r) for x in by if x in part)), r)

    return _distribute(files, place, lambda file: into / file.name, dry_run)


def repair(file: Path, *, dry_run: bool = False) -> Repaired:
    """Take the damaged lines out of a file. Whole records inside of them stay: two lines whose line end was lost, or a
    line that was begun before another writer's. Lines of a newer format are not damaged.

    Raises RecordError for a file that cannot be read or written.
    """
    log, found = RecordLog(file), Repaired(file)
    data = log.whole()  # a file that is not there is refused, not made

    def change(before: bytes) -> bytes:
        good: list[bytes] = []
        bad: list[bytes] = []
        for place, line, read in _read(file, before):
            if isinstance(read, Record) or is_newer(read):
                good.append(line)
                continue
            inside = list(_rescued(line))
            good += inside
            bad.append(line)
            found.rescued += len(inside)
            found.problems.append(Problem(place, read))
        found.kept = len(good) - found.rescued
        if not bad or dry_run:
            return before
        found.aside = _aside(file)
        add_missing(found.aside, bad)
        return _joined(good)

    if dry_run:
        change(data)
    else:
        log.rewrite(change)
    return found


def prune(
    files: Sequence[Path],
    *,
    keep: int | None = None,
    before: float | None = None,
    failures: bool = False,
    dry_run: bool = False,
) -> Pruned:
    """Drop the lines of trials that nobody will ask for.

    keep:     drop what is not among so many best of a workload, target, device and set of sizes
    before:   drop what is older than this moment, in seconds since 1970; with `keep`, the best stay however old
    failures: drop trials that failed

    With `keep`, what `build` chooses stays the same: the baseline, families and predictions that it would use stay
    as well. Wrong results always stay, for they keep the same schedule out. So do lines that cannot be read. Raises
    UsageError where nothing is asked for, RecordError for a file that cannot be read or written.
    """
    check_positive("prune", keep=keep)
    if keep is None and before is None and not failures:
        raise UsageError("nothing says what to drop", asked="prune", legal="keep, before or failures")
    lines: list[tuple[Path, bytes, Record]] = []
    found, slim = Pruned(), Slimmer()
    for file in files:
        for place, line, read in _read(file, RecordLog(file).whole()):
            if isinstance(read, Record):
                lines.append((file, _digest(line), slim(read)))
            else:
                found.problems.append(Problem(place, read))
    current = latest(r for *_, r in lines)
    best = set() if keep is None else _best(current, keep)
    why = {r.id: _why(r, best, keep, before, failures) for r in current}
    drop: dict[Path, set[bytes]] = defaultdict(set)
    for file, digest, r in lines:
        if why[r.id]:
            drop[file].add(digest)
            found.reasons[why[r.id]] += 1

    for file in files:
        here = [r for path, _, r in lines if path == file]
        found.dropped[file] = sum(bool(why[r.id]) for r in here)
        found.kept[file] = len(here) - found.dropped[file]
        if drop[file] and not dry_run:
            # A line that was appended since is not among those to drop.
            RecordLog(file).rewrite(lambda data, gone=drop[file]: _without(data, gone))  # type: ignore[misc]
    return found


def _why(r: Record, best: Collection[str], keep: int | None, before: float | None, failures: bool) -> str:
    """The reason to drop a trial, by its latest line; empty where it stays."""
    if r.status == "correctness":
        return ""
    if failures and not r.ok and r.status != PREDICTED:
        return "failed"
    if (keep is None and before is None) or r.id in best or (before is not None and r.moment >= before):
        return ""
    return "too old" if keep is None else f"not among the best {keep}"


def _best(current: Iterable[Record], keep: int) -> set[str]:
    """The ids of the best of each group, and of those without which `build` would choose otherwise."""
    found: set[str] = set()
    for task, records in by_task(current).items():
        order = [c.record for c in ranked(records, key=task.key, target=task.target)]
        rivals = [r for r in order if r.sketch != BASELINE]  # alone, the default schedule counts for nothing
        if not order or order[0].sketch != BASELINE or any(r.playoff for r in rivals):
            rivals = [*rivals[:1], *[r for r in rivals if r.playoff][:1]]
        else:  # a search that ended before its play-off: `build` asks what it had tried
            rivals = [r for r in records if r.status != PREDICTED]
        found |= {r.id for r in [*order[:keep], *rivals, *(r for r in order if r.sketch == BASELINE)]}
        found |= {r.id for r in records if r.family is not None or (not order and r.status == PREDICTED)}
    return found


# -- lines ----------------------------------------------------------------------------------------
def _read(file: Path, data: bytes) -> Iterator[tuple[Place, bytes, Record | str]]:
    """The lines of a file that are not blank: the place, the bytes, and the record or the reason why it is none."""
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            try:
                read: Record | str = decode(line)
            except RecordError as error:
                read = error.why
            yield Place(file, number), line.removesuffix(b"\r"), read


def is_newer(read: Record | str) -> bool:
    """Whether the reason why a line is no record is that it has a newer format: it is not damaged."""
    return isinstance(read, str) and read.startswith(NEWER)


def _rescued(line: bytes) -> Iterator[bytes]:
    """Whole records inside of a damaged line."""
    at = 0
    for end in _END.finditer(line):
        start = line.find(_BEGIN, at)
        while 0 <= start < end.start():
            inside = line[start : end.end()]
            try:
                decode(inside)
            except RecordError:
                start = line.find(_BEGIN, start + 1)
                continue
            yield inside
            at = end.end()
            break


def _distribute(
    files: Iterable[Path], place: Callable[[Record], Path], otherwise: Callable[[Path], Path], dry_run: bool
) -> Moved:
    """Give each line to the file that `place` says; those of a newer format, which cannot be placed, to the one that
    `otherwise` says of theirs, and damaged ones to the file beside that."""
    found = Moved()
    wanted: dict[Path, list[bytes]] = {}
    damaged: dict[Path, list[bytes]] = {}
    for file in files:
        for where, line, read in _read(file, RecordLog(file).whole()):
            found.lines += 1
            try:
                newer = otherwise(file) if is_newer(read) else None
                to = place(read) if isinstance(read, Record) else newer
            except RecordError as error:  # the name of its workload is none of a file
                to, read = None, f"{error.why}: {error.asked}"
            if to is not None:
                own = to.exists() and to.samefile(file)
                wanted.setdefault(to, []).extend([] if own else [line])
            else:
                found.problems.append(Problem(where, str(read)))
                if (beside := _aside(otherwise(file))) != _aside(file):  # else it stays where it is
                    damaged.setdefault(beside, []).append(line)
    for to, lines in wanted.items():
        found.written[to] = add_missing(to, lines, dry_run)
        found.duplicates += len(lines) - found.written[to]
    for to, lines in damaged.items():
        found.aside.append(to)
        add_missing(to, lines, dry_run)
    return found


def add_missing(to: Path, lines: Sequence[bytes], dry_run: bool = False) -> int:
    """Add the lines that a file does not have. Returns their number."""
    added: list[bytes] = []

    def change(before: bytes) -> bytes:
        known = {_digest(line) for line in before.split(b"\n")}
        for line in lines:
            if (digest := _digest(line)) not in known:
                known.add(digest)
                added.append(line)
        heal = b"\n" if before and not before.endswith(b"\n") else b""
        return before + heal + _joined(added) if added else before

    if dry_run:
        change(RecordLog(to).whole() if to.exists() else b"")
    else:
        RecordLog(to).rewrite(change)
    return len(added)


def _without(data: bytes, gone: Collection[bytes]) -> bytes:
    return _joined([line for line in data.split(b"\n") if line and _digest(line) not in gone])


def _digest(line: bytes) -> bytes:
    return blake2b(line.removesuffix(b"\r"), digest_size=16).digest()


def _joined(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


# -- places ---------------------------------------------------------------------------------------
def _file_in(folder: Path, r: Record) -> Path:
    return default_path(r.workload["name"], r.target_kind, folder)


def _aside(file: Path) -> Path:
    return file.with_suffix(".damaged")


class _FolderNames:
    """Names of folders for texts, no two alike."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def of(self, text: str) -> str:
        name = re.sub(r"[^\w.+-]+", "_", text).strip("_.")[:100] or "unknown"
        if self._texts.setdefault(name, text) != text:
            name += f"_{blake2b(text.encode(), digest_size=3).hexdigest()}"
            self._texts[name] = text
        return name
