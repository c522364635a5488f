"""`tvm.autotvm.database`: results by task and configuration, for `callback.log_to_database`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from autosched.errors import UsageError
from autosched.tvm.autotvm.measure import MeasureInput, MeasureResult
from autosched.tvm.autotvm.record import decode, encode, measure_str_key


class Database(ABC):
    """Base class of databases: a program's own needs `load` and `save`."""

    @abstractmethod
    def load(self, inp: MeasureInput, get_all: bool = False) -> Any:
        """Return the latest result for a task, target and configuration, or None; with `get_all` a list of all."""

    @abstractmethod
    def save(self, inp: MeasureInput, res: MeasureResult, extend: bool = False) -> None:
        """Keep a result in place of the known ones, or with `extend` beside them."""


def filter_inputs(
    db: Database, measure_inputs: Iterable[MeasureInput], retry: bool = False
) -> tuple[list[MeasureResult | None], list[MeasureInput]]:
    """Return the known results, or None, and the inputs without one; with `retry`, failures count as none."""
    inputs = list(measure_inputs)
    found = [db.load(inp) for inp in inputs]
    results = [None if r is None or (retry and r.error_no != 0) else r for r in found]
    return results, [inp for inp, r in zip(inputs, results, strict=True) if r is None]


class DummyDatabase(Database):
    """A database in memory, of lines as logs have them."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def load(self, inp: MeasureInput, get_all: bool = False) -> Any:
        found = [decode(line)[1] for line in self._lines.get(measure_str_key(inp), ())]
        return found if get_all else found[-1] if found else None

    def save(self, inp: MeasureInput, res: MeasureResult, extend: bool = False) -> None:
        key = measure_str_key(inp)
        self._lines[key] = [*(self._lines.get(key, ()) if extend else ()), encode(inp, res)]

    def filter(self, func: Any) -> list[tuple[MeasureInput, list[MeasureResult]]]:
        """Return the (input, results) pairs for which `func(input, results)` is true."""
        found = []
        for lines in self._lines.values():
            pairs = [decode(line) for line in lines]
            entry = pairs[0][0], [result for _, result in pairs]
            if func(*entry):
                found.append(entry)
        return found

    def flush(self) -> None:
        """Forget all results."""
        self._lines.clear()


class RedisDatabase:
    """Not here. Raises UsageError."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise UsageError(
            "there is no client for a Redis server here",
            asked="autotvm.database.RedisDatabase",
            legal="DummyDatabase() in memory, a class of yours over Database with load and save, "
            "or autotvm.callback.log_to_file",
        )
