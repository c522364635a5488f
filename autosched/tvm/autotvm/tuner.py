"""AutoTVM's tuners: names and options for strategies and models of the one tuning loop."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from autosched.errors import UsageError
from autosched.records import Record
from autosched.tuning import Event, TrialDone, tune
from autosched.tvm.autotvm.config import ConfigEntity
from autosched.tvm.autotvm.history import Pairs, of_template, write_history
from autosched.tvm.autotvm.measure import MeasureInput, MeasureResult, options_of
from autosched.tvm.autotvm.task.task import Task
from autosched.tvm.autotvm.tracing import TracedTask
from autosched.tvm.tuning_common import ERROR_NUMBERS, log_note

__all__ = ["DropletTuner", "GATuner", "GridSearchTuner", "RandomTuner", "Tuner", "XGBTuner"]

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
        verified, and the best are measured once more against each other, which chooses `best_config`.
        Raises what `autosched.tune` does.
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
        """Keep the best; the final word is the play-off's."""
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
        """Whether the space has configurations that were not tried."""
        return self.result is None or self.result.trials < len(self.task.config_space)

    def reset(self) -> None:
        """Forget the best."""
        self.best_config, self.best_flops, self.best_measure_pair, self.best_iter = None, 0.0, None, 0

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Let the model begin with the measurements of a log: those of this template, for this kind of target,
        of whatever arguments. Fewer than `min_seed_records` of them are not used. A tuner without a model
        has no use for them, as in TVM."""
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
    """Every configuration is equally likely: of all, or from index `range_idx[0]` to `range_idx[1]`."""

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None) -> None:
        super().__init__(task)
        self.range_idx = _checked(range_idx, task)


class GridSearchTuner(Tuner):
    """All configurations in order, or those from index `range_idx[0]` to `range_idx[1]`."""

    strategy = "grid"

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None) -> None:
        super().__init__(task)
        self.range_idx = _checked(range_idx, task)


def _checked(range_idx: tuple[int, int] | None, task: Task) -> tuple[int, int] | None:
    if range_idx is None:
        return None
    first, last = range_idx
    end = task.config_space.range_length
    if not 0 <= first <= last < end:
        raise UsageError(
            "it is no part of the space",
            asked=f"range_idx={range_idx!r}",
            legal=f"the first and the last index, from 0 to {end - 1}",
        )
    return first, last


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

    What the model learns from and how is the model's own business: `feature_type`, `num_threads` and
    `log_interval` change nothing. Raises UsageError for an optimizer other than "sa".
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
