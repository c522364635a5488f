"""`autosched records`, `records list`, `best` and `check`: tables of what tuning recorded."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched.cli import options
from autosched.cli.record_arguments import RECORD_VERBS
from autosched.errors import RecordError
from autosched.records import (
    PREDICTED,
    LogContents,
    Problem,
    Record,
    Slimmer,
    best_of_each,
    find_files,
    find_folders,
    is_newer,
    latest,
    ranked,
    read_files,
    task_text,
    to_frame,
)
from autosched.report.text import census, knobs, plural, seconds, table

#: Lines that cannot be read of which a listing tells.
MOST_PROBLEMS = 20


def run(args: argparse.Namespace) -> int:
    action = {"records best": _best, "records check": _check}.get(args.verb, _list)
    return action(args)


def _list(args: argparse.Namespace) -> int:
    files = files_of(args.sources, options.records_folder(args))
    contents = read_files(files, keep=Slimmer())
    if args.export is not None:
        for problem in contents.problems:  # these are no rows, so they are told apart
            print(f"warning: {problem}", file=sys.stderr)
        to_frame(contents).to_csv(sys.stdout, index=False)
    else:
        summarise(contents, as_json=args.json, top=args.top, files=files)
    return RecordError.exit_status if args.check and contents.problems else 0


def _best(args: argparse.Namespace) -> int:
    contents = read_files(files_of(args.sources, options.records_folder(args)), keep=Slimmer())
    found = best_of_each(contents.records)
    for problem in contents.problems:
        print(f"warning: {problem}", file=sys.stderr)
    if args.json:
        rows = [
            {"workload": r.workload["name"], "params": r.workload["params"], "key": r.key, "sizes": r.sizes}
            | {"target": r.target, "device": r.device_name, "place": place, **_record_data(r)}
            for r, place in _placed(found, contents)
        ]
        options.emit({"best": rows})
        return 0
    for r, place in _placed(found, contents):
        values = knobs(r.knobs)
        print(f"{task_text(r)}: {seconds(r.seconds)}\n  {r.sketch}{f': {values}' if values else ''}; {r.id} at {place}")
    if not found:
        print("no record that works")
    return 0


def _placed(found: dict[Any, Record], contents: LogContents) -> list[tuple[Record, str]]:
    places = {id(r): str(p) for r, p in zip(contents.records, contents.places, strict=True)}
    return [(r, places[id(r)]) for r in found.values()]


def _check(args: argparse.Namespace) -> int:
    files = files_of(args.sources, options.records_folder(args))
    contents = read_files(files, keep=Slimmer())
    of_newer = sum(is_newer(p.reason) for p in contents.problems)
    damaged = len(contents.problems) - of_newer
    if args.json:
        options.emit(
            {
                "files": list(map(str, files)),
                "lines": len(contents.records),
                "problems": problem_rows(contents.problems),
            }
        )
    else:
        for problem in contents.problems:
            print(problem)
        newer = f", {of_newer} of a newer autosched" if of_newer else ""
        bad = f", {damaged} damaged: `records repair` takes them out" if damaged else ""
        print(f"{plural(len(contents.records), 'good line')} in {plural(len(files), 'file')}{newer}{bad}")
    return RecordError.exit_status if damaged else 0


def problem_rows(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """Lines that cannot be used, as data."""
    return [{"file": str(p.place.path), "line": p.line, "reason": p.reason} for p in problems]


#: What stands before the name of a workload in `file.py:function`, as `tune` and `build` take it.
_FUNCTION = re.compile(r"^.*\.py:(?=[^:/]+$)")


def files_of(sources: Sequence[str], folder: str | None, *, packaged: bool = True) -> list[Path]:
    """The files that the words mean, each once; without those that come with autosched unless `packaged`. Raises
    RecordError for a word that means none."""
    if not sources:
        return [file for found in find_folders(folder, packaged=packaged) for file in sorted(found.glob("*.jsonl"))]
    files: list[Path] = []
    for word in sources:
        source = word if os.path.exists(word) else _FUNCTION.sub("", word)
        path = Path(source).expanduser()
        if os.path.isdir(path):
            logs = sorted(path.glob("*.jsonl"))
            is_name = len(path.parts) == 1 and not source.endswith(os.sep)  # such as a folder that `export` has written
            files += logs if logs or not is_name else find_files(source, None, folder, packaged=packaged)
        elif os.path.exists(path) or path.suffix == ".jsonl" or len(path.parts) > 1:
            files.append(path)
        else:
            found = find_files(source, None, folder, packaged=packaged)
            if not found:
                raise _no_records(source, folder, packaged)
            files += found
    return list({os.path.realpath(file): file for file in reversed(files)}.values())[::-1]


def _no_records(workload: str, folder: str | None, packaged: bool) -> RecordError:
    if near := difflib.get_close_matches(workload, RECORD_VERBS, n=1, cutoff=0.7):
        hint = f"did you mean the verb, `records {near[0]} ..`? it goes right after `records`; "
    else:
        hint = ""
    folders = find_folders(folder, packaged=packaged)
    names = sorted({file.name.rsplit(".", 2)[0] for found in folders for file in found.glob("*.jsonl")})
    where = ", ".join(map(str, folders)) or "no folder"
    return RecordError(
        "no records of this workload, and no such file",
        asked=f"records {workload}",
        legal=f"{hint}looked in {where}; found records of: {', '.join(names) or 'nothing'}",
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
                "problems": problem_rows(contents.problems),
            }
        )
        return 0
    print("\n\n".join("\n".join(_group_lines(g, top)) for g in groups) or "no records")
    if files:
        total = len(contents.records)
        print(f"\n{total:,} line{'' if total == 1 else 's'} in {', '.join(map(str, files))}")
    if contents.problems:
        print(f"{len(contents.problems)} unusable:")
        print("\n".join(f"  {problem}" for problem in contents.problems[:MOST_PROBLEMS]))
        if len(contents.problems) > MOST_PROBLEMS:
            print(f"  and {len(contents.problems) - MOST_PROBLEMS:,} more, all of which --json has")
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
        "best": [_record_data(r) for r in order[: top or None]],
    }


def _record_data(r: Record) -> dict[str, Any]:
    return {
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
