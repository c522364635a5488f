"""`XGBoostCostModel`: a model of a template's configurations, for programs that train one themselves.

It is the model that tuners search with, on the features that candidates have here. What `feature_type`, `loss_type`
and the numbers of the constructor choose in TVM, that model chooses itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.model import make_model
from autosched.runtime.device import with_machine
from autosched.space.space import SearchSpace
from autosched.tvm.autotvm.history import by_task
from autosched.tvm.autotvm.measure import MeasureInput, MeasureResult
from autosched.tvm.autotvm.task.task import Task
from autosched.tvm.autotvm.tracing import TracedTask


class XGBoostCostModel:
    """Predicts how fast configurations of a task are, from those that were measured.

    `base_model` is one that other measurements taught, as `load_basemodel` was told.
    """

    def __init__(
        self,
        task: Task,
        feature_type: str = "itervar",
        loss_type: str = "reg",
        num_threads: int | None = None,
        log_interval: int = 25,
        upper_model: Any = None,
    ) -> None:
        self.task, self.base_model = task, None
        self._traced: TracedTask | None = None
        self._space: SearchSpace | None = None
        self._log: list[tuple[MeasureInput, MeasureResult]] = []
        self._own: tuple[np.ndarray, np.ndarray] | None = None
        self._model: Any = None

    def fit(self, xs: Sequence[int], ys: Sequence[float], plan_size: int = 64) -> None:
        """Learn the speeds `ys` (FLOP/s; 0 for a failure) of the configurations of indices `xs`."""
        speeds = np.asarray(ys, dtype=np.float64)
        with np.errstate(divide="ignore"):
            self._own = self._features(xs), np.where(speeds > 0, 1 / speeds, np.inf)
        self._model = None

    def fit_log(
        self, records: Iterable[tuple[MeasureInput, MeasureResult]], plan_size: int = 64, min_seed_records: int = 500
    ) -> bool:
        """Learn from a log, of whatever arguments of the template. Return whether it has `min_seed_records`."""
        found = list(records)
        if len(found) < min_seed_records:
            return False
        self._log, self._model = found, None
        return True

    def predict(self, xs: Sequence[int], output_margin: bool = False) -> np.ndarray:
        """Return a score for each index, the higher the faster: float64 [n].

        Raises UsageError where nothing that was measured tells configurations apart.
        """
        model = self._trained()
        if not model.ready:
            raise UsageError(
                "it has learnt nothing", asked="XGBoostCostModel.predict", legal="fit or fit_log, of different speeds"
            )
        return np.asarray(model.predict(self._features(xs)), dtype=np.float64)

    def load_basemodel(self, base_model: Any) -> None:
        """Begin with what another model was taught."""
        self.base_model, self._model = base_model, None

    def spawn_base_model(self) -> XGBoostCostModel:
        """Return a new model of the same task."""
        return XGBoostCostModel(self.task)

    # -- features ---------------------------------------------------------------------------------
    def _of_task(self) -> tuple[TracedTask, SearchSpace]:
        if self._traced is None or self._space is None:
            self._traced = TracedTask(self.task)
            self._space = self._traced.workload.search_space(with_machine(self._traced.target), {})
        return self._traced, self._space

    def _features(self, xs: Sequence[int]) -> np.ndarray:
        traced, space = self._of_task()
        rows = []
        for index in np.asarray(xs, dtype=np.int64).tolist():
            point = traced.point_of(self.task.config_space.get(index), space)
            if point is None:
                raise UsageError(f"configuration {index} has no features", asked="XGBoostCostModel", legal="others")
            sketch, indices = space.sketches[point[0]], point[1]
            rows.append(sketch.features(np.array([indices], dtype=np.int64).reshape(1, -1))[0])
        return np.array(rows).reshape(len(rows), len(space.feature_names))

    def _trained(self) -> Any:
        if self._model is None:
            space = self._of_task()[1]
            self._model = model = make_model("xgb", space.feature_names)
            taught = _of_log(self.task, [*self._log, *(self.base_model._log if self.base_model else ())])
            if taught is not None:
                model.prime(*taught)  # type: ignore[union-attr]
            if self._own is not None:
                features, seconds = self._own
                model.fit(features, seconds, np.zeros(len(seconds), dtype=np.int64))  # type: ignore[union-attr]
        return self._model


def _of_log(task: Task, log: list[tuple[MeasureInput, MeasureResult]]) -> tuple[np.ndarray, ...] | None:
    """Features, seconds and numbers of tasks of a log."""
    rows, seconds, groups = [], [], []
    for number, (_, space, records) in enumerate(by_task(task, log)):
        for r in records:
            rows.append(r.features(space.feature_version))
            seconds.append(r.seconds)
            groups.append(number)
    return (np.array(rows), np.array(seconds), np.array(groups, dtype=np.int64)) if rows else None
