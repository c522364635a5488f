"""Contexts, which say what state a workload gets: those that `with` puts in force, the innermost first.

with auto_scheduler.ApplyHistoryBest(log) as best:
    state = best.query(target, task.workload_key)
    s, args = task.compute_dag.apply_steps_from_state(state)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import islice
from os import PathLike
from typing import Any

from autosched.errors import UsageError
from autosched.tvm.auto_scheduler.measure import MeasureInput, MeasureResult
from autosched.tvm.auto_scheduler.measure_record import load_records, rank
from autosched.tvm.tuning_common import Context

_logger = logging.getLogger("auto_scheduler")

Pair = tuple[MeasureInput, MeasureResult]


class DispatchContext(Context):
    """Base class. `current` is the innermost one in force; `_query_inside` returns None to pass a question on."""

    def query(
        self, target: Any, workload_key: str, has_complex_op: bool = True, dag: Any = None, func_name: str | None = None
    ) -> Any:
        """Return the state for a workload on a target, or None where none is known.

        With a `dag`, records of this package without the key count, too.
        """
        found = self._query_inside(target, workload_key, "" if dag is None else dag.key)
        if found is not None or self._outer is None:
            return found
        return self._outer.query(target, workload_key, has_complex_op, dag, func_name)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._outer = None  # asked later, it answers for itself alone


class ApplyHistoryBest(DispatchContext):
    """Gives the fastest state of a log for the workload, on the same kind of target.

    records:            a file's name, or pairs of MeasureInput and MeasureResult; at most `n_lines` of them
    include_compatible: use records of workloads whose schedules fit, too
    Raises RecordError for a file that is not there.
    """

    def __init__(
        self,
        records: str | PathLike[str] | Iterable[Pair] | None,
        n_lines: int | None = None,
        include_compatible: bool = False,
    ) -> None:
        super().__init__()
        self.include_compatible = include_compatible
        self._pairs: list[Pair] = []
        self._user: dict[tuple[str, str], Any] = {}
        if records is not None:
            self.load(records, n_lines)

    def load(self, records: str | PathLike[str] | Iterable[Pair], n_lines: int | None = None) -> None:
        """Add these records."""
        pairs = load_records(records) if isinstance(records, (str, PathLike)) else records
        self._pairs += islice(pairs, n_lines)

    def _query_inside(self, target: Any, workload_key: str, key: str) -> Any:
        if target is None:
            raise UsageError(
                "which state is best depends on the target",
                asked=f"ApplyHistoryBest, for {workload_key:.100}",
                legal='query(tvm.target.Target("llvm"), workload_key)',
            )
        chosen = self._user.get((_kind(target), workload_key))
        if chosen is not None:
            return chosen
        best = rank(self._pairs, workload_key, target, self.include_compatible, key)
        return best[0][0].state if best else None

    def update(self, target: Any, workload_key: str, state: Any) -> None:
        self._user[_kind(target), workload_key] = state


def _kind(target: Any) -> str:
    return str(target).split(maxsplit=1)[0]


class FallbackContext(DispatchContext):
    """The outermost context: gives what `update` was told, else None, with one warning for each workload."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: dict[tuple[str, str], Any] = {}
        self._warned: set[tuple[str, str]] = set()

    def _query_inside(self, target: Any, workload_key: str, key: str) -> Any:
        asked = (str(target), workload_key)
        if asked not in self.memory and asked not in self._warned:
            self._warned.add(asked)
            _logger.warning("no state is known for target=%s, workload=%s", target, workload_key)
        return self.memory.get(asked)

    def update(self, target: Any, workload_key: str, state: Any) -> None:
        self.memory[str(target), workload_key] = state


DispatchContext.current = FallbackContext()
