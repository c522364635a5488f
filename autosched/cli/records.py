"""`autosched records`: tables of what tuning recorded."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched.cli import options
from autosched.errors import RecordError
from autosched.records import (
    PREDICTED,
    LogContents,
    Record,
    Slimmer,
    find_files,
    find_folders,
    latest,
    ranked,
    read_files,
    to_frame,
)
from autosched.report.text import census, knobs, plural, seconds, table


def run(args: argparse.Namespace) -> int:
    files = files_of(args.sources, options.records_folder(args))
    contents = read_files(files, keep=Slimmer())
    if args.export is not None:
        for problem in contents.problems:  # these are no rows, so they are told apart
            print(f"warning: {problem}", file=sys.stderr)
        to_frame(contents).to_csv(sys.stdout, index=False)
    else:
        summarise(contents, as_json=args.json, top=args.top, files=files)
    return RecordError.exit_status if args.check and contents.problems else 0


def files_of(sources: Sequence[str], folder: str | None) -> list[Path]:
    """The files that the words mean, each once. Raises RecordError for a word that means none."""
    if not sources:
        return [file for found in find_folders(folder) for file in sorted(found.glob("*.jsonl"))]
    files: list[Path] = []
    for source in sources:
        path = Path(source).expanduser()
        if os.path.isdir(path):
            files += sorted(path.glob("*.jsonl"))
        elif os.path.exists(path) or path.suffix == ".jsonl" or len(path.parts) > 1:
            files.append(path)
        else:
            found = find_files(source, None, folder)
            if not found:
                raise _no_records(source, folder)
            files += found
    return list(dict.fromkeys(files))


def _no_records(workload: str, folder: str | None) -> RecordError:
    folders = find_folders(folder)
    names = sorted({file.name.rsplit(".", 2)[0] for found in folders for file in found.glob("*.jsonl")})
    where = ", ".join(map(str, folders)) or "no folder"
    return RecordError(
        "no records of this workload, and no such file",
        asked=f"records {workload}",
        legal=f"looked in {where}; found records of: {', '.join(names) or 'nothing'}",
    )


# -- the summary ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Group:
    """Records whose times can be compared: one workload, target, device and set of sizes."""

    name: str
    key: str
    target: str
    device: str
    sizes: dict[str, int]
    records: list[Record]

    def ranked(self) -> list[Record]:
        return [choice.record for choice in ranked(self.records, key=self.key, target=self.target)]

    def statuses(self) -> dict[str, int]:
        """The numbers of trials by their end; a trial with several lines counts once."""
        return dict(Counter(r.status for r in latest(self.records)).most_common())


def _groups(records: Sequence[Record], key: str | None) -> list[_Group]:
    found: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for r in records:
        if key in (None, r.key):
            found[r.workload["name"], r.key, r.target, r.device_name, tuple(sorted(r.sizes.items()))].append(r)
    return [
        _Group(name, of_key, target, device, dict(sizes), of)
        for (name, of_key, target, device, sizes), of in sorted(found.items())
    ]


def summarise(
    contents: LogContents, *, as_json: bool, key: str | None = None, top: int = 10, files: Sequence[Path] = ()
) -> int:
    """Print the summary of records, of the workload with this `key` only if given. Gives 0."""
    groups = _groups(contents.records, key)
    if as_json:
        options.emit(
            {
                "files": [str(f) for f in files],
                "groups": [_group_data(g, top) for g in groups],
                "problems": [
                    {"file": str(p.place.path), "line": p.line, "reason": p.reason} for p in contents.problems
                ],
            }
        )
        return 0
    print("\n\n".join("\n".join(_group_lines(g, top)) for g in groups) or "no records")
    if files:
        total = len(contents.records)
        print(f"\n{total:,} line{'' if total == 1 else 's'} in {', '.join(map(str, files))}")
    if contents.problems:
        print(f"{len(contents.problems)} unusable:")
        print("\n".join(f"  {problem}" for problem in contents.problems))
    return 0


def _group_lines(group: _Group, top: int) -> list[str]:
    statuses = group.statuses()
    predicted = statuses.pop(PREDICTED, 0)
    good, failed = statuses.pop("ok", 0), census(statuses)
    where = f"{group.name} for {group.target} on {group.device or 'an unnamed device'}"
    sizes = f", {knobs(group.sizes)}" if group.sizes else ""
    trials = plural(good + sum(statuses.values()), "trial")
    lines = [f"{where}{sizes}: {trials}, {good} ok{f'; failed: {failed}' if failed else ''}"]
    lines[0] += f"; {plural(predicted, 'prediction')} by a model" if predicted else ""
    order = group.ranked()
    shown = order[: top or None]
    if shown:
        rows = [_row(i, r, order) for i, r in enumerate(shown, start=1)]
        lines += [f"  {line}" for line in table(rows, _HEADER, right=(0, 1, 2, 3))]
    if len(order) > len(shown):
        lines.append(f"  and {len(order) - len(shown)} more (--top 0 shows all)")
    return lines


_HEADER = ("n", "time", "of best", "spread", "schedule", "verified", "strategy", "at", "record")


def _row(place: int, r: Record, order: Sequence[Record]) -> tuple[str, ...]:
    best = min(other.seconds for other in order)
    values = knobs(r.knobs)
    spread = (max(r.samples) - min(r.samples)) / r.seconds
    won = r.playoff is not None and r.playoff.get("winner") is True
    return (
        str(place),
        seconds(r.seconds),
        f"{best / r.seconds:.0%}",
        f"{spread:.0%}",
        f"{r.sketch}{f': {values}' if values else ''}{' (won the play-off)' if won else ''}",
        r.verified,
        r.strategy,
        r.at[:16].replace("T", " "),
        r.id,
    )


def _group_data(group: _Group, top: int) -> dict[str, Any]:
    order = group.ranked()
    return {
        "workload": group.name,
        "key": group.key,
        "target": group.target,
        "device": group.device,
        "sizes": group.sizes,
        "statuses": group.statuses(),
        "best": [
            {
                "record": r.id,
                "seconds": r.seconds,
                "samples": r.samples,
                "sketch": r.sketch,
                "knobs": r.knobs,
                "verified": r.verified,
                "playoff": r.playoff,
                "strategy": r.strategy,
                "at": r.at,
            }
            for r in order[: top or None]
        ],
    }
