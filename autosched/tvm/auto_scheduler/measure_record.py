"""Logs: reading Ansor's and ours, line by line, writing either, and the best of a log.

    {"i": [[workload_key, target, hardware_params, target_host, layout_rewrite_option, task_input_names],
           [[], [step, ...]]],
     "r": [[costs], error_no, all_cost, timestamp], "v": "v0.6"}

That is Ansor's line; before v0.6 the first list ends earlier. Ours is a record: see docs/records.md. `RecordToFile`
writes ours while tuning, and everything here reads both.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

from autosched.errors import AutoschedError, RecordError
from autosched.records import Record, RecordLog, ranked
from autosched.records.record import decode as decode_record
from autosched.records.record import encode as encode_record
from autosched.runtime.device import describe_device, resolve_target
from autosched.target import Target
from autosched.tvm.auto_scheduler.loop_state import StateObject, TraceState
from autosched.tvm.auto_scheduler.measure import (
    HardwareParams,
    MeasureCallback,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    Seconds,
)
from autosched.tvm.auto_scheduler.transform_step import step_from_json
from autosched.tvm.auto_scheduler.utils import calc_workload_dis_factor, decode_workload_key
from autosched.tvm.target import with_host
from autosched.tvm.tuning_common import ERROR_NUMBERS, decoded, logged_target, seconds_of

#: the version of Ansor's lines that is written, and all that are read
LOG_VERSION = "v0.6"
VERSIONS = tuple(f"v0.{i}" for i in range(1, 7))
#: most characters of a line; those of TVM have a few thousand
MAX_LINE = 1 << 20
#: field of a record with Ansor's key of its workload
WORKLOAD_KEY = "workload_key"

_LEGAL = f"a line of auto_scheduler's, {VERSIONS[0]} to {VERSIONS[-1]}, or a record of this package"


@dataclass(frozen=True)
class LoggedTask:
    """A task as a log has it."""

    workload_key: str
    target: Any
    hardware_params: HardwareParams | None = None
    target_host: str = ""
    layout_rewrite_option: int = 0
    task_input_names: tuple[str, ...] = ()


def decode(line: str) -> tuple[MeasureInput, MeasureResult]:
    """Return the input and the result of a line, Ansor's or ours. Raises RecordError for any other."""
    if len(line) > MAX_LINE:
        raise RecordError(f"it has {len(line)} characters", asked="a line of a log", legal=_LEGAL)
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"it is no JSON: {error}", asked=f"{line[:60]!r}", legal=_LEGAL) from None
    if isinstance(data, dict) and "crc" in data:
        r = decode_record(line)
        key = r.extra.get(WORKLOAD_KEY)
        task = LoggedTask(key if isinstance(key, str) else json.dumps([r.key]), logged_target(r.target))
        return MeasureInput(task, TraceState(r)), MeasureResult.of(r)
    if not isinstance(data, dict) or not {"i", "r", "v"} <= data.keys():
        raise RecordError('it has not "i", "r" and "v"', asked=f"{line[:60]!r}", legal=_LEGAL)
    if data["v"] not in VERSIONS:
        raise RecordError(f"its version is {data['v']!r:.40}", asked="a line of a log", legal=_LEGAL)
    try:
        task, (stages, steps) = _task(*data["i"][0]), data["i"][1]
        if len(data["i"]) != 2 or stages != [] or not isinstance(steps, list):
            raise ValueError("a state is [[], [step, ...]]")
        costs, error_no, all_cost, timestamp = data["r"]
        times = tuple(map(Seconds, seconds_of(costs)))
        result = MeasureResult(times, int(error_no), "", float(all_cost), float(timestamp))
        return MeasureInput(task, StateObject(tuple(map(step_from_json, steps)))), result
    except AutoschedError:
        raise
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise RecordError(f"it cannot be read: {error}", asked=f"{line[:60]!r}", legal=_LEGAL) from None


def read_task(fields: Any) -> LoggedTask:
    """Return the task of the first list of a line. Raises TypeError and ValueError for other data."""
    return _task(*fields)


def _task(
    workload_key: Any, target: Any, hardware: Any = None, host: Any = "", layout: Any = 0, names: Any = ()
) -> LoggedTask:
    if not isinstance(workload_key, str) or not isinstance(target, str) or not isinstance(host, str):
        raise ValueError("workload, target and host are texts")
    params = None if hardware is None else HardwareParams(*(int(n) for n in hardware))
    to = logged_target(target)
    if host and isinstance(to, Target):
        to = with_host(to, host)
    return LoggedTask(workload_key, to, params, host, int(layout), tuple(map(str, names)))


def encode(inp: MeasureInput, result: MeasureResult) -> str:
    """Return a line, without its end: of a state of Ansor's one of version v0.6, of ours the record."""
    r = record_of(inp, result)
    if r is not None:
        return encode_record(_marked(r, inp.task.workload_key))
    task = task_fields(inp.task)
    steps = [step.to_json() for step in inp.state.transform_steps]
    measured = [[float(c) for c in result.costs], int(result.error_no), result.all_cost, int(result.timestamp)]
    return json.dumps({"i": [task, [[], steps]], "r": measured, "v": LOG_VERSION}, allow_nan=False)


def task_fields(t: Any) -> list[Any]:
    """Return a task as Ansor's lines have it."""
    hardware = [n or 0 for n in t.hardware_params or (0,) * 8]
    return [
        t.workload_key, str(t.target), hardware, str(t.target_host or ""), int(t.layout_rewrite_option),
        list(t.task_input_names),
    ]  # fmt: skip


def record_of(inp: MeasureInput, result: MeasureResult) -> Record | None:
    """Return the record of this package that a measurement is; None for a state of Ansor's steps alone."""
    if isinstance(inp.state, TraceState):
        return inp.state.record
    base = getattr(inp.state, "base", None)
    return None if base is None or inp.state.transform_steps else make_record(inp, result)


def make_record(inp: MeasureInput, result: MeasureResult) -> Record:
    """Return a record of the schedule that was measured. Raises RecordError where its steps do not fit."""
    w, number, base = inp.task.workload, MeasureErrorNo(int(result.error_no)), inp.state.base
    about = w.about()
    whole = base is None or bool(inp.state.transform_steps)
    return Record(
        workload=about,
        target=str(inp.task.target),
        device=describe_device(resolve_target(inp.task.target)),
        sketch="state" if whole else base.sketch or "state",
        trace=inp.task.trace_of(inp.state) if whole else json.loads(base.trace),
        knobs={} if whole else dict(base.knobs),
        status=next(s for s, n in ERROR_NUMBERS.items() if n == number),
        error=result.error_msg,
        samples=tuple(float(c) for c in result.costs) if number == MeasureErrorNo.NO_ERROR else (),
    )


def dump_record_to_string(inp: MeasureInput, res: MeasureResult) -> str:
    """Return the line of a measurement, with its end."""
    return encode(inp, res) + "\n"


def load_record_from_string(record: str) -> tuple[MeasureInput, MeasureResult]:
    """Return the input and the result of a line. Raises RecordError for any other."""
    return decode(record.strip())


def _marked(r: Record, workload_key: str) -> Record:
    """The record, with the key of its workload."""
    return replace(r, extra={**r.extra, WORKLOAD_KEY: workload_key})


class RecordToFile(MeasureCallback):
    """Appends each measurement to a file, at once."""

    def __init__(self, filename: str | PathLike[str] = "auto_scheduler_tuning.json") -> None:
        self.filename = str(filename)

    def callback(self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        save_records(self.filename, inputs, results)


class RecordReader:
    """Reads the records of a file, one by one; a line that cannot be read is passed over with a warning.

    Reading raises RecordError for a file that cannot be opened.
    """

    def __init__(self, filename: str | PathLike[str] = "auto_scheduler_tuning.json") -> None:
        self.filename = str(filename)

    def read_lines(self, max_lines: int | None = None, skip_lines: int = 0) -> tuple[list[Any], list[Any]]:
        """Return inputs and results of at most `max_lines` records, after the first `skip_lines`."""
        found = list(islice(self, skip_lines, skip_lines + max_lines if max_lines else None))
        return [inp for inp, _ in found], [result for _, result in found]

    def __iter__(self) -> Iterator[tuple[MeasureInput, MeasureResult]]:
        lines = RecordLog(self.filename).lines()
        return decoded(((place, raw.decode("utf-8", "replace").strip()) for place, raw in lines), decode)


def load_records(filename: str | PathLike[str]) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """Yield the records of a file. A line that cannot be read is passed over with a warning."""
    return iter(RecordReader(filename))


def save_records(
    filename: str | PathLike[str], inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
) -> None:
    """Append records to a file. Raises RecordError when it cannot be written."""
    for inp, result in zip(inputs, results, strict=True):
        r = record_of(inp, result)
        if r is not None:
            RecordLog(filename).append(_marked(r, inp.task.workload_key))
            continue
        path = Path(filename)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(encode(inp, result) + "\n")
        except OSError as error:
            raise RecordError(f"it cannot be written: {error.strerror}", asked=f"log {path}") from None


def load_best_record(
    filename: str | PathLike[str], workload_key: str | None = None, target: Any = None, include_compatible: bool = False
) -> tuple[MeasureInput | None, MeasureResult | None]:
    """Return the fastest record of a workload, or of all, on that kind of target, or on any; or (None, None).

    With `include_compatible`, workloads whose schedules this one could use take part, their times multiplied by the
    ratio of sizes: see `utils.calc_workload_dis_factor`.
    """
    best = rank(RecordReader(filename), workload_key, target, include_compatible)
    return (best[0][0], best[0][1]) if best else (None, None)


def rank(
    pairs: Iterable[tuple[MeasureInput, MeasureResult]],
    workload_key: str | None = None,
    target: Any = None,
    include_compatible: bool = False,
    key: str = "",
) -> list[tuple[MeasureInput, MeasureResult]]:
    """Return the usable records of a workload, the fastest first; `key` is its key in our own records.

    Of ours the winner of a play-off leads, and none counts whose answer was not verified.
    """
    found: list[tuple[float, MeasureInput, MeasureResult]] = []
    ours: dict[tuple[str, str], list[tuple[MeasureInput, MeasureResult]]] = {}
    for inp, result in pairs:
        if target is not None and not same_kind(inp.task.target, target):
            continue
        if isinstance(inp.state, TraceState):
            r = inp.state.record
            if workload_key in (None, inp.task.workload_key) or r.key == key:
                ours.setdefault((r.key, r.target_kind), []).append((inp, result))
            continue
        factor = _factor(workload_key, inp.task.workload_key, include_compatible)
        if result.error_no == MeasureErrorNo.NO_ERROR and result.costs and factor < math.inf:
            exact = workload_key in (None, inp.task.workload_key)
            state = inp.state if exact else replace(inp.state, exact=False)
            found.append((factor * sum(result.costs) / len(result.costs), MeasureInput(inp.task, state), result))
    for (of, kind), group in ours.items():
        tasks = {inp.state.record.id: inp.task for inp, _ in group}
        choices = ranked((inp.state.record for inp, _ in group), key=of, target=kind)
        seconds = [c.record.seconds for c in choices]
        for i, choice in enumerate(choices):  # what is ranked higher counts as no slower
            r = choice.record
            found.append((min(seconds[i:]), MeasureInput(tasks[r.id], TraceState(r)), MeasureResult.of(r)))
    found.sort(key=lambda x: x[0])
    return [(inp, result) for _, inp, result in found]


def _factor(wanted: str | None, found: str, include_compatible: bool) -> float:
    if wanted in (None, found):
        return 1.0
    if not include_compatible:
        return math.inf
    assert wanted is not None
    return calc_workload_dis_factor(decode_workload_key(wanted), decode_workload_key(found))


#: targets whose schedules bind loops to work-groups and work-items
_GPU_STYLE = ("opencl", "cuda", "rocm", "metal", "vulkan", "webgpu", "nvptx")


def same_kind(recorded: Any, wanted: Any) -> bool:
    """Return whether schedules for one target fit the other: both have work-items, or neither has."""
    kinds = [str(t).split(maxsplit=1)[0] for t in (recorded, wanted)]
    return (kinds[0] in _GPU_STYLE) == (kinds[1] in _GPU_STYLE)


def distill_record_file(in_file: str | PathLike[str], out_file: str | PathLike[str]) -> None:
    """Write the best record of each workload and kind of target of two logs, the second where there is one, to it."""
    files = [Path(in_file), *([Path(out_file)] if Path(out_file).is_file() else [])]
    groups: dict[tuple[str, str], list[tuple[MeasureInput, MeasureResult]]] = {}
    for pair in (p for file in files for p in RecordReader(file)):
        groups.setdefault((pair[0].task.workload_key, str(pair[0].task.target).split(maxsplit=1)[0]), []).append(pair)
    best = [ranked_pairs[0] for pairs in groups.values() if (ranked_pairs := rank(pairs))]
    Path(out_file).write_text("", encoding="utf-8")
    save_records(out_file, [inp for inp, _ in best], [result for _, result in best])
