"""Logs of AutoTVM, auto_scheduler and TenSet as records of this package.

A line of such a log says how a program was scheduled, but not what it computes: that is a function which has to be
registered here, as it was there. Then the schedule is replayed, and becomes a record with the times of the log. They
are another compiler's, on a device that no line names, and nobody compared the results here: so the record is not
`verified`, and `build` does not take it. Whoever measures it here makes it one that is.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from autosched.errors import AutoschedError, RecordError
from autosched.records import IMPORTED, Record, RecordLog
from autosched.runtime.device import with_machine
from autosched.tvm.auto_scheduler import measure_record
from autosched.tvm.auto_scheduler.compute_dag import ComputeDAG
from autosched.tvm.auto_scheduler.search_task import SearchTask
from autosched.tvm.autotvm import record as autotvm_record
from autosched.tvm.autotvm.history import records_of
from autosched.tvm.autotvm.task.task import create
from autosched.tvm.autotvm.tracing import TracedTask
from autosched.tvm.tuning_common import ERROR_NUMBERS, LoggedTarget, MeasureErrorNo

#: what `strategy` says of records from such lines
FORMATS = ("autotvm", "auto_scheduler")

#: input and result of a line -> the record, and what it computes
Maker = Callable[[Any, Any], tuple[Record, Any]]

_STATUS = {number: status for status, number in reversed(ERROR_NUMBERS.items())}


@dataclass
class Imported:
    """What logs hold.

    records:     of lines whose program is registered and whose schedule can be replayed
    workloads:   key of a record -> what it computes
    passed_over: reason -> number of lines
    """

    records: list[Record] = field(default_factory=list)
    workloads: dict[str, Any] = field(default_factory=dict)
    passed_over: Counter[str] = field(default_factory=Counter)


def import_logs(*files: str | PathLike[str], tell: Callable[[str], None] = lambda text: None) -> Imported:
    """Return the records of logs; the format is seen line by line.

    Templates and workloads have to be registered before: `@autotvm.template`, `@auto_scheduler.register_workload`, or
    `register_workload_tensors` for keys of networks, as TenSet has them. A line that is no measurement, or of what is
    not registered, is passed over with the reason. A line gives the same record each time. Raises RecordError for a
    file that cannot be read.
    """
    found = Imported()
    known: dict[str, Any] = {}
    for file in files:
        tell(f"reading {file}")
        for line in _lines(Path(file)):
            try:
                record, workload = _record(line, known)
            except AutoschedError as error:
                found.passed_over[error.why] += 1
                continue
            found.records.append(record)
            found.workloads[record.key] = workload
    return found


def _lines(file: Path) -> Iterator[str]:
    for _, raw in RecordLog(file).lines():
        line = raw.decode("utf-8", "replace").strip()
        if not line.startswith("#"):
            yield line


def _record(line: str, known: dict[str, Any]) -> tuple[Record, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        data = None
    inp: Any
    result: Any
    if isinstance(data, dict) and {"i", "r", "v"} <= data.keys():
        inp, result = measure_record.decode(line)
        log_format, target, task, of_task = FORMATS[1], inp.task.target, inp.task.workload_key, _of_workload
    elif isinstance(data, dict) and {"input", "config", "result"} <= data.keys():
        inp, result = autotvm_record.decode(line)
        log_format, target, task, of_task = FORMATS[0], inp.target, repr(inp.task.workload), _of_task
    elif isinstance(data, dict) and "crc" in data:
        raise RecordError("it is a record of this package: `autosched records merge`")
    else:
        raise RecordError("it is no line of AutoTVM, auto_scheduler or TenSet")
    record, workload = _maker(known, f"{log_format} {target} {task}", f"task {task:.120}", of_task, inp)(inp, result)
    seconds = float(result.timestamp)
    at = datetime.fromtimestamp(seconds if math.isfinite(seconds) and 0 <= seconds < 1e11 else 0, UTC)
    made = replace(
        record,
        target=str(target).split()[0],
        device={"name": f"the device of a log of {log_format}"},
        strategy=log_format,
        id=hashlib.blake2b(line.encode(), digest_size=8).hexdigest(),
        at=at.isoformat(timespec="microseconds"),
        extra={**record.extra, IMPORTED: {"format": log_format, "target": str(target)[:500]}},
    )
    return made, workload


def _maker(known: dict[str, Any], key: str, task: str, of_task: Callable[[Any], Maker], inp: Any) -> Maker:
    """What makes records of a task's lines, made when its first line comes. Raises RecordError where nothing can."""
    if key not in known:
        try:
            known[key] = of_task(inp)
        except AutoschedError as error:
            known[key] = f"{task}: {error.why}"
    if isinstance(known[key], str):
        raise RecordError(known[key])
    made: Maker = known[key]
    return made


def _of_workload(inp: Any) -> Maker:
    """For lines of auto_scheduler with one workload key."""
    dag = ComputeDAG(inp.task.workload_key)
    workload = SearchTask(compute_dag=dag, workload_key=inp.task.workload_key, target="llvm").workload
    about = workload.about()

    def made(inp: Any, result: Any) -> tuple[Record, Any]:
        ok = result.error_no == MeasureErrorNo.NO_ERROR
        record = Record(
            workload=about,
            target="llvm",
            sketch="steps of a log",
            trace=inp.state.schedule(dag).trace.to_json(),
            knobs={},
            status=_STATUS.get(result.error_no, "runtime"),
            samples=tuple(map(float, result.costs)) if ok else (),
            extra={measure_record.WORKLOAD_KEY: inp.task.workload_key},
        )
        return record, workload

    return made


def _of_task(inp: Any) -> Maker:
    """For lines of AutoTVM with one task and target."""
    if isinstance(inp.target, LoggedTarget):
        raise RecordError("there is no code for its target", asked=str(inp.target))
    traced = TracedTask(create(inp.task.name, inp.task.args, inp.target))
    space = traced.workload.search_space(with_machine(traced.target), {})

    def made(inp: Any, result: Any) -> tuple[Record, Any]:
        records = records_of(traced, space, [(inp, result)])
        if not records:
            raise RecordError(f"task {inp.task.workload!r:.120}: its template does not have this configuration")
        return records[0], traced.workload

    return made
