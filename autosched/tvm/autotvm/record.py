"""AutoTVM's logs: one JSON line for each measurement.

    {"input": [target, task, args, kwargs],
     "config": {"index": .., "code_hash": .., "entity": [[name, kind, value], ..]},
     "result": [[costs], error_no, all_cost, timestamp], "version": 0.2, "tvm_version": ".."}

That is version 0.2, of TVM 0.8 and later. The protocol `pickle` is refused: reading such a file can run code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import TextIO

from autosched.errors import AutoschedError, RecordError
from autosched.tvm.autotvm.measure import MeasureInput, MeasureResult
from autosched.tvm.autotvm.task.dispatcher import ApplyHistoryBest
from autosched.tvm.autotvm.task.space import ConfigEntity
from autosched.tvm.autotvm.task.task import Task
from autosched.tvm.tuning_common import decoded, logged_target, seconds_of

AUTOTVM_LOG_VERSION = 0.2
#: what the lines say they were written by
TVM_VERSION = "0.19.0"
#: characters of a line that are looked at; those of TVM have a few hundred
MAX_LINE = 1 << 20

_LEGAL = "a line of version 0.2, which TVM 0.8 and later write"


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """Return a line of a log, without its end. Raises RecordError for what JSON cannot hold."""
    _only_json(protocol)
    costs = [float(c) for c in result.costs] if result.error_no == 0 else [1e9]
    line = {
        "input": [str(inp.target), inp.task.name, inp.task.args, inp.task.kwargs],
        "config": inp.config.to_json_dict(),
        "result": [costs, int(result.error_no), float(result.all_cost), float(result.timestamp)],
        "version": AUTOTVM_LOG_VERSION,
        "tvm_version": TVM_VERSION,
    }
    try:
        return json.dumps(line, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RecordError(str(error), asked=f"encode task {inp.task.name!r}", legal="plain data") from None


def decode(row: str, protocol: str = "json") -> tuple[MeasureInput, MeasureResult]:
    """Return the input and the result of a line. Raises RecordError for a line that is none of AutoTVM's."""
    _only_json(protocol)
    if len(row) > MAX_LINE:
        raise RecordError(f"it has {len(row)} characters", asked="an AutoTVM line", legal=_LEGAL)
    try:
        data = json.loads(row)
        version = data.get("version", data.get("v"))
        if version != AUTOTVM_LOG_VERSION:
            raise RecordError(f"its version is {version!r:.40}", asked="an AutoTVM line", legal=_LEGAL)
        (target, name, args, _), config, result = data["input"], data["config"], data["result"]
        task = Task(str(name), args)
        inp = MeasureInput(logged_target(str(target)), task, ConfigEntity.from_json_dict(config))
        costs, error_no, all_cost, timestamp = result
        times = seconds_of(costs if isinstance(costs, (list, tuple)) else [costs])
        return inp, MeasureResult(times, int(error_no), float(all_cost), float(timestamp))
    except RecordError:
        raise
    except (AutoschedError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        why = error.why if isinstance(error, AutoschedError) else f"{type(error).__name__}: {error}"
        raise RecordError(f"it cannot be read: {why}", asked=f"{row[:60]!r}", legal=_LEGAL) from None


def _only_json(protocol: str) -> None:
    if protocol != "json":
        raise RecordError("reading it could run code", asked=f"protocol={protocol!r}", legal='protocol="json"')


def load_from_buffer(file: Iterable[str]) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """Return the records of an open file; a line that cannot be read is passed over with a warning."""
    return decoded(((f"line {number}", row) for number, row in enumerate(file, start=1)), decode)


def load_from_file(filepath: str | bytes | PathLike[str]) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """Yield the records of a file. Raises RecordError when it cannot be opened."""
    path = Path(filepath.decode() if isinstance(filepath, bytes) else filepath)
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from load_from_buffer(file)
    except OSError as error:
        raise RecordError(f"it cannot be read: {error.strerror}", asked=f"log {path}") from None


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """Return a text that is the same for the same target, task and configuration."""
    config = str(inp.config) if include_config else ""
    return "".join([str(inp.target), inp.task.name, str(inp.task.args), str(inp.task.kwargs), config])


def pick_best(in_file: str | PathLike[str], out_file: str | PathLike[str] | TextIO) -> None:
    """Write the fastest record of each task and target of a log to another file."""

    best = ApplyHistoryBest(in_file)
    found = {measure_str_key(p[0]): p for p in [*best.best_by_model.values(), *best.best_by_targetkey.values()]}
    text = "".join(encode(inp, result) + "\n" for inp, result in found.values())
    if isinstance(out_file, (str, PathLike)):
        Path(out_file).write_text(text, encoding="utf-8")
    else:
        out_file.write(text)


def split_workload(in_file: str | PathLike[str], clean: bool = True) -> list[Path]:
    """Write the records of each task and target to a file of their own, `IN_FILE.000.wkl` and so on.

    `clean` drops all but the first record of a configuration.
    """
    groups: dict[str, dict[str, str]] = {}
    for n, (inp, result) in enumerate(load_from_file(in_file)):
        key = measure_str_key(inp) if clean else str(n)
        groups.setdefault(measure_str_key(inp, False), {}).setdefault(key, encode(inp, result))
    written = []
    for i, lines in enumerate(groups.values()):
        written.append(Path(f"{in_file}.{i:03d}.wkl"))
        written[-1].write_text("".join(f"{line}\n" for line in lines.values()), encoding="utf-8")
    return written
