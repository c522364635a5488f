"""AutoTVM's tuners: names and options for strategies and models of the one tuning loop.

A log as first data of a cost model is looked up in the spaces of its own tasks, where its configurations have the
features that candidates have here. It does not name the device, so times are compared task by task only.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from autosched.errors import AutoschedError, UsageError
from autosched.records import Record, RecordLog, default_path
from autosched.runtime.device import with_machine
from autosched.space.space import SearchSpace
from autosched.tuning import Event, TrialDone, tune
from autosched.tvm.autotvm.measure import MeasureInput, MeasureResult, options_of
from autosched.tvm.autotvm.task.space import ConfigEntity
from autosched.tvm.autotvm.task.task import Task, create
from autosched.tvm.autotvm.tracing import TracedTask
from autosched.tvm.tuning_common import ERROR_NUMBERS, MeasureErrorNo, log_note

_logger = logging.getLogger("autotvm")

#: measurements of a log
Pairs = list[tuple[MeasureInput, MeasureResult]]

_STATUS = {number: status for status, number in reversed(ERROR_NUMBERS.items())}
_DEVICE = {"name": "the device of an AutoTVM log"}


class Tuner:
    """Base of the tuners: `strategy` and `model` are those of `autosched.tune`, `options` the strategy's.

    After `tune`, `best_config` is the best configuration, `best_flops` its FLOP/s and `best_measure_pair`
    its input and result; `result` is what `autosched.tune` returned.
    """

    strategy, model = "random", "none"

    def __init__(self, task: Task, **options: Any) -> None:
        self.task = task
        self.options = options
        self.best_config: ConfigEntity | None = None
        self.best_flops = 0.0
        self.best_measure_pair: tuple[MeasureInput, MeasureResult] | None = None
        self.best_iter = 0
        self.n_trial = 0
        self.result: Any = None
        self.range_idx: tuple[int, int] | None = None
        self._history: Pairs = []

    def tune(
        self,
        n_trial: int,
        measure_option: Mapping[str, Any],
        early_stopping: int | None = None,
        callbacks: Sequence[Callable[..., Any]] = (),
        si_prefix: str = "G",
        *,
        seed: int = 0,
    ) -> None:
        """Measure up to `n_trial` configurations; end after `early_stopping` trials without a better one.

        Each callback gets this tuner, a list of MeasureInput and one of MeasureResult. Every candidate is
        verified, and `best_config` is chosen by measuring the best once more against each other. Raises the errors
        of `autosched.tune`.
        """
        traced = TracedTask(self.task, self.range_idx)
        self.n_trial = min(n_trial, len(self.task.config_space))
        count = 0

        def follow(event: Event) -> None:
            nonlocal count
            log_note(_logger, event)
            if isinstance(event, TrialDone):
                count += 1
                inp, result = _pair(self.task, traced.config_of(event.record), event.record)
                self._remember(inp, result, count)
                for callback in callbacks:
                    callback(self, [inp], [result])

        with tempfile.TemporaryDirectory(prefix="autotvm-") as folder:
            write_history(self.task, self._history, folder)
            self.result = tune(
                traced.workload,
                traced.target,
                trials=self.n_trial,
                patience=early_stopping,
                strategy=self.strategy,
                strategy_options=self.options,
                model=self.model,
                seed=seed,
                records=folder,
                measure=options_of(measure_option),
                progress=follow,
            )
        best = self.result.best
        if best is not None:
            self._remember(*_pair(self.task, traced.config_of(best), best), self.best_iter, final=True)

    def _remember(self, inp: MeasureInput, result: MeasureResult, trial: int, final: bool = False) -> None:
        """Keep the best; the play-off decides last."""
        if result.error_no:
            return
        known = self.best_measure_pair
        if known is None or final or _mean(result) < _mean(known[1]):
            self.best_config, self.best_measure_pair, self.best_iter = inp.config, (inp, result), trial
            self.best_flops = (self.task.flop or 0.0) / _mean(result)

    def __init_subclass__(cls) -> None:
        """Raises UsageError for a tuner of a program's own: it would never be asked."""
        for name in ("next_batch", "update"):
            if name in vars(cls):
                raise UsageError(
                    "the loop asks strategies, which see points and no tasks",
                    asked=f"{cls.__name__}.{name}",
                    legal="a strategy with propose and observe, and strategy = 'file.py:Class': see docs/search.md",
                )

    def has_next(self) -> bool:
        """Return whether the space has configurations that were not tried."""
        return self.result is None or self.result.trials < len(self.task.config_space)

    def reset(self) -> None:
        """Forget the best."""
        self.best_config, self.best_flops, self.best_measure_pair, self.best_iter = None, 0.0, None, 0

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Let the model begin with the measurements of a log: those of this template, for this kind of target, of any
        arguments. Fewer than `min_seed_records` are not used, nor are any by a tuner without a model, as in TVM."""
        if self.model == "none":
            return
        found = of_template(self.task, data_set)
        if len(found) < min_seed_records:
            _logger.info("%d measurements of %s are too few to learn from", len(found), self.task.name)
            return
        self._history = found


def _mean(result: MeasureResult) -> float:
    return sum(result.costs) / len(result.costs)


def _pair(task: Task, config: ConfigEntity, r: Record) -> tuple[MeasureInput, MeasureResult]:
    """A record in AutoTVM's words."""
    number = int(ERROR_NUMBERS[r.status])
    costs = r.samples if not number else (r.error,)
    return MeasureInput(task.target, task, config), MeasureResult(
        costs, number, r.build_s + sum(r.samples), time.time()
    )


class RandomTuner(Tuner):
    """Draws every configuration with equal chances: of all, or from index `range_idx[0]` to `range_idx[1]`."""

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None) -> None:
        super().__init__(task)
        if range_idx is None:
            return
        first, last = range_idx
        end = task.config_space.range_length
        if not 0 <= first <= last < end:
            raise UsageError(
                "it is no part of the space",
                asked=f"range_idx={range_idx!r}",
                legal=f"the first and the last index, from 0 to {end - 1}",
            )
        self.range_idx = first, last


class GridSearchTuner(RandomTuner):
    """Tries all configurations in order, or those from index `range_idx[0]` to `range_idx[1]`."""

    strategy = "grid"


class GATuner(Tuner):
    """A genetic algorithm: `strategy="genetic"`."""

    strategy = "genetic"

    def __init__(self, task: Task, pop_size: int = 100, elite_num: int = 3, mutation_prob: float = 0.1) -> None:
        super().__init__(task, population=pop_size, elite=elite_num, mutation=mutation_prob)


class DropletTuner(Tuner):
    """Coordinate descent with a test of significance: `strategy="droplet"`."""

    strategy = "droplet"

    def __init__(self, task: Task, start_position: Sequence[int] | None = None, pvalue: float = 0.05) -> None:
        if start_position is not None:
            raise UsageError(
                "the descent begins at the best of random points, or of what is recorded",
                asked=f"DropletTuner(start_position={list(start_position)!r})",
                legal="start_position=None",
            )
        super().__init__(task, p_value=pvalue)


class XGBTuner(Tuner):
    """Simulated annealing on a model of boosted trees: `strategy="annealing", model="xgb"`.

    The model chooses its features and training itself: `feature_type`, `num_threads` and `log_interval` change
    nothing. Raises UsageError for an optimizer other than "sa".
    """

    strategy, model = "annealing", "xgb"

    def __init__(
        self,
        task: Task,
        plan_size: int = 64,
        feature_type: str = "itervar",
        loss_type: str = "reg",
        num_threads: int | None = None,
        optimizer: str = "sa",
        diversity_filter_ratio: float | None = None,
        log_interval: int = 50,
    ) -> None:
        if optimizer != "sa":
            raise UsageError(f"{optimizer!r} is no optimizer", asked="XGBTuner(optimizer=..)", legal='"sa"')
        if loss_type not in ("reg", "rank", "rank-binary"):
            raise UsageError(
                f"{loss_type!r} is no loss", asked="XGBTuner(loss_type=..)", legal="reg, rank, rank-binary"
            )
        super().__init__(task, plan=plan_size, diverse=diversity_filter_ratio is not None)


# -- logs as first data of a model --------------------------------------------------------------------


def of_template(task: Task, pairs: Iterable[tuple[MeasureInput, MeasureResult]]) -> Pairs:
    """Return the measurements of the task's template for its kind of target, of any arguments."""
    assert task.target is not None
    return [(i, r) for i, r in pairs if i.task.name == task.name and i.target.kind == task.target.kind]


def write_history(task: Task, pairs: Pairs, folder: str | PathLike[str]) -> int:
    """Write the measurements to `folder` as records with features. Return how many they are.

    Tasks and configurations that the template no longer has are passed over with a warning.
    """
    by_task: dict[tuple[object, ...], Pairs] = {}
    for inp, result in pairs:
        by_task.setdefault(inp.task.args, []).append((inp, result))
    written = 0
    for args, group in by_task.items():
        try:
            traced = TracedTask(create(task.name, args, task.target))
            space: SearchSpace = traced.workload.search_space(with_machine(traced.target), {})
            records = records_of(traced, space, group)
        except AutoschedError as error:
            _logger.warning("%d measurements of %s%r teach nothing: %s", len(group), task.name, args, error)
            continue
        if len(records) < len(group):
            lost = len(group) - len(records)
            _logger.warning("%d of %d configurations of %s%r are not in its space", lost, len(group), task.name, args)
        log = RecordLog(default_path(traced.workload.name, traced.target.kind, folder))
        for record in records:
            log.append(record)
        written += len(records)
    return written


def records_of(traced: TracedTask, space: SearchSpace, pairs: Pairs) -> list[Record]:
    """Return measurements as records with features, less configurations that are not in the space."""
    w = traced.workload
    about = {"name": w.name, "key": w.key, "params": {}, "args": w.describe_args(), "sizes": {}}
    found = []
    for inp, result in pairs:
        point = traced.point_of(inp.config, space)
        if point is None:
            continue
        sketch = space.sketches[point[0]]
        rows = np.array([point[1]], dtype=np.int64).reshape(1, -1)
        if not sketch.mask(rows)[0]:
            continue
        ok = result.error_no == MeasureErrorNo.NO_ERROR
        record = Record(
            workload=about,
            target=str(traced.target),
            device=_DEVICE,
            sketch=sketch.name,
            trace=sketch.trace,
            knobs=sketch.values(point[1]),
            status=_STATUS.get(MeasureErrorNo(result.error_no), "runtime"),
            samples=tuple(result.costs) if ok else (),
        )
        found.append(record.with_features(space.feature_version, sketch.features(rows)[0]))
    return found
