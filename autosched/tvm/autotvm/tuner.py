"""AutoTVM's tuners: names and options for strategies and models of the one tuning loop.

`Tuner.tune` hands the task to `autosched.tune`. A program that has a builder or a runner of its own, or a tuner with
`next_batch` and `update` of its own, gets AutoTVM's loop: ask for a batch, measure it, tell the tuner.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from statistics import median
from typing import Any

from autosched.errors import UsageError
from autosched.records import Record
from autosched.search import Candidate, Trial
from autosched.study import Study, ask_and_tell
from autosched.tuning import Event, TrialDone, tune
from autosched.tvm._missing import missing
from autosched.tvm.autotvm.cost_model import XGBoostCostModel
from autosched.tvm.autotvm.history import STATUS, Pairs, of_template, write_history
from autosched.tvm.autotvm.measure import MeasureInput, MeasureResult, create_measure_batch, is_local, options_of
from autosched.tvm.autotvm.task.space import ConfigEntity
from autosched.tvm.autotvm.task.task import Task
from autosched.tvm.autotvm.tracing import TracedTask
from autosched.tvm.autotvm.utils import format_si_prefix
from autosched.tvm.members import tell
from autosched.tvm.tuning_common import ERROR_NUMBERS, MeasureErrorNo, log_note

_logger = logging.getLogger("autotvm")


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
        self.space = task.config_space
        #: indices of the configurations that were asked for
        self.visited: Any = set()
        self._history: Pairs = []
        self._told: tuple[TracedTask, Study] | None = None
        self._prefix = "G"

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

        With a Builder, a Runner, or a `next_batch` of a program's own, batches go through these, and what they say
        counts: nothing is verified or measured again.

        The logger "autotvm" tells each trial at level DEBUG, speeds in the unit of `si_prefix`.
        """
        format_si_prefix(0, si_prefix)  # which raises for an unknown one
        self._prefix = si_prefix
        if not is_local(measure_option) or self._is_own:
            self._tune_in_batches(n_trial, measure_option, early_stopping, callbacks)
            return
        traced = TracedTask(self.task, self.range_idx)
        self.n_trial = min(n_trial, len(self.task.config_space))
        count = 0

        def follow(event: Event) -> None:
            nonlocal count
            log_note(_logger, event)
            if isinstance(event, TrialDone):
                count += 1
                inp, result = _pair(self.task, traced.config_of(event.record), event.record)
                self._visit(inp.config.index)
                self._remember(inp, result, count)
                self._tell(inp, result, count)
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

    def _tell(self, inp: MeasureInput, result: MeasureResult, trial: int) -> None:
        now = 0.0 if result.error_no else (self.task.flop or 0.0) / _mean(result)
        speeds = "/".join(f"{format_si_prefix(x, self._prefix):.2f}" for x in (now, self.best_flops))
        _logger.debug("No: %d\t%sFLOPS: %s\tresult: %s\t%s", trial, self._prefix, speeds, result, inp.config)

    # -- in batches -------------------------------------------------------------------------------
    @property
    def _is_own(self) -> bool:
        """Whether the class says itself what to try."""
        return any(getattr(type(self), name).__module__ != __name__ for name in ("next_batch", "update", "has_next"))

    def _tune_in_batches(
        self,
        n_trial: int,
        measure_option: Mapping[str, Any],
        early_stopping: int | None,
        callbacks: Sequence[Callable[..., Any]],
    ) -> None:
        measure_batch = create_measure_batch(self.task, measure_option)
        self.n_trial, count = n_trial, 0
        while count < n_trial and self.has_next():
            configs = list(self.next_batch(min(measure_batch.n_parallel, n_trial - count)))  # type: ignore[attr-defined]
            if not configs or (early_stopping is not None and count >= self.best_iter + early_stopping):
                break
            inputs = [MeasureInput(self.task.target, self.task, config) for config in configs]
            results = measure_batch(inputs)
            for inp, result in zip(inputs, results, strict=True):
                count += 1
                self._remember(inp, result, count)
                self._tell(inp, result, count)
            self.update(inputs, results)
            for callback in callbacks:
                callback(self, inputs, results)

    @property
    def _study(self) -> tuple[TracedTask, Study]:
        """The strategy as it is asked and told in batches."""
        if self._told is None:
            traced = TracedTask(self.task, self.range_idx)
            study = ask_and_tell(
                traced.workload,
                traced.target,
                strategy=self.strategy,
                strategy_options=self.options,
                model=self.model,
            )
            self._told = traced, study
        return self._told

    def _visit(self, index: int) -> None:
        self.visited.add(index)

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return up to `batch_size` configurations to measure, none when all were tried."""
        traced, study = self._study
        found = [traced.config_of(asked) for asked in study.ask(batch_size)]
        for config in found:
            self._visit(config.index)
        return found

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measurements, of whatever configurations of the task."""
        traced, study = self._study
        trials = []
        for inp, result in zip(inputs, results, strict=True):
            self._visit(inp.config.index)
            point = traced.point_of(inp.config, study.space)
            if point is None:
                continue
            good = result.error_no == MeasureErrorNo.NO_ERROR
            costs = tuple(float(c) for c in result.costs) if good else ()
            status = "ok" if good else STATUS.get(MeasureErrorNo(result.error_no), "runtime")
            trials.append(Trial(Candidate(*point), status, median(costs) if good else inf, costs))
        study.observe(trials)

    def has_next(self) -> bool:
        """Return whether the space has configurations that were not tried."""
        return len(self.visited) < len(self.space)

    def set_error_threshold(self, threshold: int) -> None:
        """Change nothing: each failure is told as it comes."""

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


class IndexBaseTuner(Tuner):
    """Base of tuners that go by index: from `range_idx[0]` to `range_idx[1]`, or over all.

    `begin_idx` is the first index, `end_idx` the one after the last; `visited_max` of the `range_length` indices
    between them are valid. Raises UsageError for a range that is no part of the space.
    """

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None) -> None:
        super().__init__(task)
        end = self.space.range_length
        first, last = range_idx or (0, end - 1)
        if not 0 <= first <= last < end:
            raise UsageError(
                "it is no part of the space",
                asked=f"range_idx={range_idx!r}",
                legal=f"the first and the last index, from 0 to {end - 1}",
            )
        self.range_idx = range_idx and (first, last)
        self.begin_idx, self.end_idx = first, last + 1
        self.range_length = self.end_idx - first
        self.visited_max = self.space.subrange_length(first, self.end_idx)
        self.visited: list[int] = []

    def _visit(self, index: int) -> None:
        if index not in self.visited:
            self.visited.append(index)

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn nothing."""

    def has_next(self) -> bool:
        """Return whether the range has configurations that were not tried."""
        return len(self.visited) < self.visited_max


class RandomTuner(IndexBaseTuner):
    """Draws every configuration with equal chances: of all, or from index `range_idx[0]` to `range_idx[1]`."""

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return up to `batch_size` configurations that were not tried."""
        found: list[ConfigEntity] = []
        while len(found) < batch_size and self.has_next():
            index = self.space.get_rand_index(self.begin_idx, self.end_idx, to_exclude=self.visited)
            self._visit(index)
            found.append(self.space.get(index))
        return found


class GridSearchTuner(IndexBaseTuner):
    """Tries all configurations in order, or those from index `range_idx[0]` to `range_idx[1]`.

    `index` is the next one.
    """

    strategy = "grid"

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None) -> None:
        super().__init__(task, range_idx)
        self.index: int | None = self.begin_idx if self.space.is_index_valid(self.begin_idx) else self._after()

    def _after(self) -> int | None:
        at = self.begin_idx if not hasattr(self, "index") else self.index
        following: int | None = self.space.get_next_index(at, start=self.begin_idx, end=self.end_idx)
        return following

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return the next configurations, up to `batch_size`."""
        found: list[ConfigEntity] = []
        while len(found) < batch_size and self.index is not None:
            self._visit(self.index)
            found.append(self.space.get(self.index))
            self.index = self._after()
        return found


class GATuner(Tuner):
    """A genetic algorithm: `strategy="genetic"`."""

    strategy = "genetic"

    def __init__(self, task: Task, pop_size: int = 100, elite_num: int = 3, mutation_prob: float = 0.1) -> None:
        super().__init__(task, population=pop_size, elite=elite_num, mutation=mutation_prob)
        self.pop_size, self.elite_num, self.mutation_prob = min(pop_size, len(self.space)), elite_num, mutation_prob


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


_SEARCH = "the search is that of autosched.tune: tuner.strategy, tuner.options; next_batch and update ask and tell it"
tell(
    GATuner, "autotvm.tuner.GATuner", dict.fromkeys(("genes", "scores", "elites", "elite_scores", "trial_pt"), _SEARCH)
)
_DESCENT = "best_choice total_execution execution batch step next next_pos num_to_bin search_space speculation p_value"
tell(DropletTuner, "autotvm.tuner.DropletTuner", dict.fromkeys(_DESCENT.split(), _SEARCH))


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
        self.plan_size = plan_size
        self.cost_model = XGBoostCostModel(task, feature_type, loss_type, num_threads, log_interval)
        #: indices that `update` was told of, and their FLOP/s
        self.xs: list[int] = []
        self.ys: list[float] = []

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measurements."""
        super().update(inputs, results)
        for inp, result in zip(inputs, results, strict=True):
            self.xs.append(inp.config.index)
            self.ys.append(0.0 if result.error_no else (self.task.flop or 1.0) / _mean(result))

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Let the model begin with the measurements of a log, unless they are fewer than `min_seed_records`."""
        super().load_history(data_set, min_seed_records)
        if self._history:
            base = self.cost_model.spawn_base_model()
            base.fit_log(self._history, self.plan_size, min_seed_records)
            self.cost_model.load_basemodel(base)


_INSTEAD = {
    **dict.fromkeys(
        ("ModelBasedTuner", "CostModel", "ModelOptimizer", "SimulatedAnnealingOptimizer", "FeatureCache"),
        "XGBTuner; a model or a strategy of one's own: docs/search.md; or a Tuner with next_batch and update",
    ),
    "submodular_pick": "XGBTuner(.., diversity_filter_ratio=..)",
}
__getattr__ = missing("autotvm.tuner", globals(), _INSTEAD)
