"""The schedule to explain: a record, by the words that people use for one, or a schedule of one's own."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autosched.building import as_workload
from autosched.errors import AutoschedError, RecordError, UsageError, clipped
from autosched.raw.kernel import RawKernel
from autosched.records import (
    PREDICTED,
    LogContents,
    Place,
    Record,
    RecordLog,
    decode,
    find_folders,
    latest,
    ranked,
    read_workload,
    task_text,
)
from autosched.runtime.device import describe_device, resolve_target
from autosched.schedule.renaming import under_own_names
from autosched.schedule.schedule import Schedule, replay
from autosched.space.loading import find_workload, list_workloads
from autosched.space.tunable import Tunable
from autosched.space.workload import Workload, WorkloadFunction
from autosched.target import Target, TargetLike
from autosched.te.tensor import Tensor

#: what can be explained: a record, its id or the beginning of it, its place (`FILE.jsonl`, `FILE.jsonl:LINE`), a
#: workload or its name, for its best record, or a schedule
Explainable = Record | Workload | WorkloadFunction[...] | RawKernel | Schedule | str | os.PathLike[str]

#: Records that an error lists.
_LISTED = 10
_ID = re.compile(r"[0-9a-f]{4,16}")
_PLACE = re.compile(r"(?P<file>.+\.jsonl)(?::(?P<line>\d+))?")


@dataclass(frozen=True)
class Subject:
    """A schedule to look at: the trace with its knobs, what it computes, and where. `record` is where it
    comes from, if it does; `sizes` are those to measure at."""

    workload: Tunable
    target: Target
    trace: list[Any]
    knobs: dict[str, int]
    sizes: dict[str, int]
    record: Record | None = None

    @property
    def is_kernel(self) -> bool:
        """Whether it is a kernel that its user wrote, which has knobs and no schedule."""
        return isinstance(self.workload, RawKernel)

    @property
    def args(self) -> tuple[Tensor, ...]:
        assert isinstance(self.workload, Workload)
        return self.workload.args

    @property
    def name(self) -> str:
        """`sketch at knobs`, and the record."""
        at = ", ".join(f"{k}={v}" for k, v in self.knobs.items())
        if self.record is None:
            return f"the schedule{f' at {at}' if at else ''}"
        return f"record {self.record.id}, {self.record.sketch}{f' at {at}' if at else ''}"


def subject_of(
    what: Explainable,
    target: TargetLike = None,
    *,
    records: str | os.PathLike[str] | None = None,
    sizes: Mapping[str, int] | None = None,
    knobs: Mapping[str, int] | None = None,
    args: Sequence[Tensor] | None = None,
) -> Subject:
    """The schedule that is meant. See `explain` for the arguments.

    Raises RecordError where there is no record, or it does not fit the workload of its name any more;
    WorkloadError, TargetError, DeviceError; UsageError for arguments that do not go together.
    """
    if not isinstance(what, Schedule) and (args is not None or knobs is not None):
        given = "knobs" if args is None else "args"
        raise UsageError(f"a record has its {given}", asked=f"explain({given}=..)", legal="only with a schedule")
    if isinstance(what, Schedule):
        return _of_schedule(what, target, sizes, knobs or {}, args)
    if isinstance(what, (str, os.PathLike)):
        text = os.fspath(what)
        if (place := _PLACE.fullmatch(text)) is not None:
            what = _recorded(Path(place["file"]).expanduser(), place["line"], target)
        else:
            what = _with_id(text, records) if means_record(text) else find_workload(text)
    if isinstance(what, Record):
        return of_record(what, target, sizes)
    w = as_workload(what)
    if not isinstance(w, (Workload, RawKernel)):
        legal = "a workload, a record, its id, FILE.jsonl:LINE or a schedule"
        raise UsageError(f"{w!r} is nothing to explain", asked="explain", legal=legal)
    return best_of(w, target, None if records is None else os.fspath(records), sizes)


def means_record(text: str) -> bool:
    """Whether the words for a subject name one record: its place, or its id or the beginning of it. What is the
    name of a workload, too, means that."""
    return _PLACE.fullmatch(text) is not None or (_ID.fullmatch(text) is not None and text not in list_workloads())


def _with_id(prefix: str, records: str | os.PathLike[str] | None) -> Record:
    """The latest line of the record whose id begins so, in all the logs that are looked at. Raises RecordError."""
    begins = re.compile(rf'"id"\s*:\s*"{prefix}'.encode())
    found: dict[str, tuple[Record, Place]] = {}
    folders = find_folders(records)
    for file in (f for folder in folders for f in sorted(folder.glob("*.jsonl"))):
        for place, line in RecordLog(file).lines():
            if begins.search(line):
                with contextlib.suppress(RecordError):  # a damaged line
                    r = decode(line)
                    if r.id.startswith(prefix):
                        found[r.id] = r, place
    if len(found) == 1:
        return next(iter(found.values()))[0]
    listing = [f"{id}  {place}  {task_text(r)}" for id, (r, place) in found.items()]
    more = [f"and {len(listing) - _LISTED} more"] if len(listing) > _LISTED else []
    where = ", ".join(map(str, folders)) or "no folder"
    raise RecordError(
        f"{len(found)} records have ids that begin so" if found else "no record has an id that begins so",
        asked=f"record {prefix}",
        legal="one of them:\n  " + "\n  ".join(listing[:_LISTED] + more)
        if found
        else f"an id that `autosched records` shows (looked in {where}), a workload, or FILE.jsonl:LINE",
    )


def _of_schedule(
    s: Schedule,
    target: TargetLike,
    sizes: Mapping[str, int] | None,
    knobs: Mapping[str, int],
    args: Sequence[Tensor] | None,
) -> Subject:
    wrong = [k.name for k in s.knobs.values() if knobs.get(k.name) not in k.values]
    if wrong:
        legal = f"one of {list(s.knobs[wrong[0]].values)}"
        raise UsageError(f"knob {wrong[0]} has no value, or not one of its own", asked="explain(knobs=..)", legal=legal)
    s.verify()
    w = Workload(s.outputs[0].name, tuple(args) if args is not None else s.arguments)
    return Subject(w, resolve_target(target), s.trace.to_json(), dict(knobs), dict(sizes or {}))


def of_record(r: Record, target: TargetLike, sizes: Mapping[str, int] | None) -> Subject:
    """The schedule of a record. Its workload is found by name, and must still be the same computation."""
    asked = f"record {r.id} of {r.workload['name']}"
    if not r.ok:
        raise RecordError(f"it did not work: {r.status}", asked=asked, legal="a record with status ok")
    parameters = ", ".join(f"{k}={v!r}" for k, v in r.workload["params"].items())
    w = find_workload(r.workload["name"])(**r.workload["params"])
    if w.key != r.key:
        legal = f"tune it again, or put the {w.name} that it was made for into search_spaces/"
        raise RecordError(f"{w.name}({parameters}) computes something else by now", asked=asked, legal=legal)
    to = w.compiled_for(resolve_target(r.target if target is None else target))
    if to.kind != r.target_kind:
        raise RecordError(f"it is for {r.target_kind}", asked=f"{asked} on {to}", legal=f"--target {r.target_kind}")
    found = Subject(w, to, trace_of(r, w), dict(r.knobs), dict(sizes or r.sizes), r)
    if not found.is_kernel:
        _check_replay(r, found.args, asked)
    return found


def _check_replay(r: Record, args: Sequence[Tensor], asked: str) -> None:
    """Raise RecordError where the trace does not fit the workload any more."""
    try:
        replay(under_own_names(r.trace, r.names, args), args, trusted=False).verify()
    except AutoschedError as error:
        raise RecordError(
            f"it does not replay any more: {clipped(error.why)}", asked=asked, legal="tune again"
        ) from None


def best_of(
    w: Workload | RawKernel, target: TargetLike, records: str | None, sizes: Mapping[str, int] | None
) -> Subject:
    to = w.compiled_for(resolve_target(w.kind if target is None and isinstance(w, RawKernel) else target))
    contents = read_workload(w.name, to.kind, records)
    device = describe_device(to)["name"]
    last: RecordError | None = None
    for choice in ranked(contents.records, key=w.key, target=to, device=device, sizes=sizes):
        try:
            return replace(_of_record_with(choice.record, w, to), sizes=dict(sizes or choice.record.sizes))
        except RecordError as error:  # passed over, as `build` does
            last = last or error
    others = sum(r.key != w.key for r in contents.records)
    more = f"; {others} are of other parameters or versions" if others else ""
    if any(r.key == w.key and r.status == PREDICTED for r in contents.records):
        more += "; what a model chose was not measured"
    raise last or RecordError(
        f"no record of it works on {to.kind}{more}", asked=f"explain {w!r}", legal=_tune_command(w, to, records)
    )


def _tune_command(w: Workload | RawKernel, to: Target, records: str | None) -> str:
    """The command that makes records of a workload, which has its file where that is in no search-space folder."""
    spec = f"{w.files[0]}:{w.name}" if w.files and w.name not in list_workloads() else w.name
    words = ["python", "-m", "autosched", "tune", spec, "--target", to.kind]
    return shlex.join([*words, "--records", records] if records is not None else words)


def _of_record_with(r: Record, w: Workload | RawKernel, to: Target) -> Subject:
    if isinstance(w, Workload):
        _check_replay(r, w.args, f"record {r.id} of {w.name}")
    return Subject(w, to, trace_of(r, w), dict(r.knobs), dict(r.sizes), r)


def trace_of(r: Record, w: Workload | RawKernel) -> Any:
    """The trace of a record, by the names that a workload gives its stages and axes."""
    return under_own_names(r.trace, r.names, w.args) if isinstance(w, Workload) else r.trace


def only_winner(contents: LogContents, asked: str, target: Target | None) -> Record:
    """The best record of several, if there is one best. Raises RecordError."""
    found = winners(contents, target)
    if len(found) == 1:
        return found[0][0]
    listing = "\n  ".join(f"{place}  {task_text(r)}" for r, place in found)
    why = f"it has records of {len(found)} workloads, targets or devices" if found else "it has no record that works"
    raise RecordError(why, asked=asked, legal=f"one of them:\n  {listing}" if found else "a file that `tune` wrote")


def _recorded(file: Path, line: str | None, target: TargetLike) -> Record:
    """The record in a line of a file; without a line, the best in it, if there is one best."""
    if line is not None:
        last = 0
        for place, text in RecordLog(file).lines():
            last = place.line
            if last == int(line):
                try:
                    return decode(text)
                except RecordError as error:
                    legal = "another line: `autosched records FILE --check` lists the damaged ones"
                    raise RecordError(error.why, asked=str(place), legal=legal) from None
        raise RecordError("there is no such line", asked=f"{file}:{line}", legal=f"lines: 1 to {last}")
    return only_winner(RecordLog(file).read(), str(file), None if target is None else resolve_target(target))


def winners(contents: LogContents, target: Target | None) -> list[tuple[Record, Place]]:
    """The best record of each workload, target, device and set of sizes, and where it stands. On this
    device only, if any is."""
    place_of = {id(r): p for r, p in zip(contents.records, contents.places, strict=True)}
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for r in latest(contents.records):
        if target is None or r.target_kind == target.kind:
            groups.setdefault((r.key, r.target, r.device_name, tuple(sorted(r.sizes.items()))), []).append(r)
    best = [c[0].record for (key, to, *_), of in groups.items() if (c := ranked(of, key=key, target=to))]
    here = [r for r in best if is_here(r)]
    return [(r, place_of[id(r)]) for r in here or best]


def is_here(r: Record) -> bool:
    """Whether a record was measured on the device that its target means here."""
    try:
        return describe_device(resolve_target(r.target))["name"] == r.device_name
    except AutoschedError:
        return False
