"""Contexts, which say what configuration a template gets: those that `with` puts in force, the innermost first."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from io import TextIOBase
from os import PathLike
from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.target import Target
from autosched.tvm.autotvm.measure import MeasureInput
from autosched.tvm.autotvm.task.space import ConfigSpace, FallbackConfigEntity
from autosched.tvm.tuning_common import Context

_logger = logging.getLogger("autotvm")


class DispatchContext(Context):
    """Base class. `current` is the innermost one in force; `_query_inside` returns None to pass a question on."""

    def query(self, target: Target | None, workload: Any) -> ConfigSpace:
        """Return the configuration for a task's workload (its name and arguments) on a target."""
        found = self._query_inside(target, workload)
        if found is not None:
            return found
        outer = self._outer or DispatchContext.current  # one that is in no `with` may be asked, too
        result: ConfigSpace = outer.query(target, workload)
        return result


class ApplyConfig(DispatchContext):
    """Gives every template this configuration."""

    def __init__(self, config: ConfigSpace) -> None:
        super().__init__()
        self._config = config
        self.workload: Any = None

    def _query_inside(self, target: Target | None, workload: Any) -> ConfigSpace:
        self.workload = workload
        return self._config

    def update(self, target: Target | None, workload: Any, cfg: ConfigSpace) -> None:
        self.workload, self._config = workload, cfg


class ApplyFixedConfig(DispatchContext):
    """Gives each of these tasks its first configuration."""

    def __init__(self, tasks: Sequence[Any], schedule_names: str | Sequence[str]) -> None:
        super().__init__()
        self._tasks = list(tasks)
        self._names = [schedule_names] if isinstance(schedule_names, str) else list(schedule_names)

    def _query_inside(self, target: Target | None, workload: Any) -> ConfigSpace | None:
        task = next((t for t in self._tasks if workload and t.name == workload[0]), None)
        if task is None:
            return None
        config: ConfigSpace = task.config_space.get(0)
        config.cost = 1e-6 if task.name in self._names else 100000
        return config


class ApplyHistoryBest(DispatchContext):
    """Gives the fastest configuration of a log, for the same task on the same kind of target.

    records: a file, a file's name, pairs of MeasureInput and MeasureResult, or a list of such. Records of the same
             `-model` come first, then those that share a key of the target
    Raises RecordError for a file that is not there.
    """

    def __init__(self, records: Any, n_lines: int | None = None) -> None:
        super().__init__()
        self.best_by_targetkey: dict[Any, Any] = {}
        self.best_by_model: dict[Any, Any] = {}
        self._user: dict[Any, ConfigSpace] = {}
        if records is not None:
            self.load(records, n_lines)

    def load(self, records: Any, n_lines: int | None = None) -> None:
        """Add these records, at most `n_lines` of them."""
        for count, (inp, res) in enumerate(_unpacked(records)):
            if n_lines is not None and count >= n_lines:
                return
            if res.error_no != 0 or not res.costs:
                continue
            found = [(self.best_by_targetkey, k) for k in inp.target.keys]
            if inp.target.model != "unknown":
                found.append((self.best_by_model, inp.target.model))
            for best, k in found:
                key = k, inp.task.workload
                if key not in best or np.mean(best[key][1].costs) > np.mean(res.costs):
                    best[key] = inp, res

    def _query_inside(self, target: Target | None, workload: Any) -> ConfigSpace | None:
        if target is None:
            raise UsageError(
                "which configuration is best depends on the target",
                asked=f"ApplyHistoryBest, for {workload!r:.100}",
                legal='call the template inside `with tvm.target.Target("llvm"):`',
            )
        keys = [(target.model, workload), *((k, workload) for k in target.keys)]
        for n, key in enumerate(keys):
            best = self.best_by_targetkey if n else self.best_by_model
            if key in self._user:
                return self._user[key]
            if key in best:
                config: ConfigSpace = best[key][0].config
                return config
        return None

    def update(self, target: Target | None, workload: Any, cfg: ConfigSpace) -> None:
        assert target is not None
        cfg.cost = 0
        self._user.update(dict.fromkeys([(target.model, workload), *((k, workload) for k in target.keys)], cfg))


def _unpacked(records: Any) -> Iterable[tuple[Any, Any]]:
    from autosched.tvm.autotvm.record import load_from_buffer, load_from_file  # whose tasks use contexts

    if isinstance(records, (str, bytes, PathLike)):
        yield from load_from_file(records)
    elif isinstance(records, TextIOBase):
        yield from load_from_buffer(records)
    else:
        for item in records:
            if isinstance(item, (tuple, list)) and item and isinstance(item[0], MeasureInput):
                yield item[0], item[1]
            else:
                yield from _unpacked(item)


class ApplyGraphBest(DispatchContext):
    """Gives the configurations of a log one after the other, in the order in which templates ask for them.

    The nodes of a graph are built in the order of the log that a graph tuner wrote, one record for each. Once all are
    used, a workload gets again what it got last. `records` are those of ApplyHistoryBest. Raises RecordError for a
    file that is not there, UsageError when the next record is of another task than the one that asks.
    """

    def __init__(self, records: Any) -> None:
        super().__init__()
        self._records = list(_unpacked(records))
        self._counter = 0
        self._known: dict[Any, ConfigSpace] = {}

    def _query_inside(self, target: Target | None, workload: Any) -> ConfigSpace:
        if self._counter < len(self._records):
            inp, _ = self._records[self._counter]
            recorded = inp.task.workload
            if workload is not None and recorded != workload:
                raise UsageError(
                    f"record {self._counter + 1} of {len(self._records)} is of {recorded!r:.100}",
                    asked=f"ApplyGraphBest, for {workload!r:.100}",
                    legal="a record for each node, in the order in which the nodes are built; or ApplyHistoryBest",
                )
            self._counter += 1
            config: ConfigSpace = inp.config
            self.update(target, recorded, config)
            return config
        key = (str(target), workload)
        if key not in self._known:
            _logger.warning("no record is left for target=%s, workload=%s: the template's fallback", target, workload)
            self._known[key] = FallbackConfigEntity()
        return self._known[key]

    def update(self, target: Target | None, workload: Any, cfg: ConfigSpace) -> None:
        self._known[str(target), workload] = cfg


class FallbackContext(DispatchContext):
    """The outermost context: gives a `FallbackConfigEntity`, with one warning for each workload."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: dict[Any, ConfigSpace] = {}
        self._warned: set[Any] = set()

    def _query_inside(self, target: Target | None, workload: Any) -> ConfigSpace:
        key = (str(target), workload)
        if workload is None or key not in self.memory:
            if workload is not None and key not in self._warned:
                self._warned.add(key)
                _logger.warning(
                    "no configuration for target=%s, workload=%s: the template's fallback, which may be slow",
                    target,
                    workload,
                )
            self.memory[key] = FallbackConfigEntity()
        return self.memory[key]

    def update(self, target: Target | None, workload: Any, cfg: ConfigSpace) -> None:
        self.memory[str(target), workload] = cfg

    def clear_cache(self, target: Target | None, workload: Any) -> None:
        """Forget the configuration of that workload."""
        self.memory.pop((str(target), workload), None)


DispatchContext.current = FallbackContext()


def clear_fallback_cache(target: Target | None, workload: Any) -> None:
    """Let the outermost context forget the configuration of a workload."""
    context = DispatchContext.current
    while not isinstance(context, FallbackContext):
        assert context._outer is not None
        context = context._outer
    context.clear_cache(target, workload)


def get_config() -> Any:
    """Return the configuration in force: inside a template, the one to use or to define."""
    return DispatchContext.current.query(Target.current(allow_none=True), None)
