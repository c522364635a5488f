"""Scores of points by the cost model, and how a search goes on where that cannot help.

A model is a plug-in and may fail in any way. That must not end a run: what it raises is logged once, and kept.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from autosched.errors import UsageError
from autosched.model.protocol import CostModel, FloatArray, IntArray, UncertainCostModel
from autosched.search.base import History
from autosched.search.points import Points
from autosched.search.protocol import SpaceLike

T = TypeVar("T")

log = logging.getLogger("autosched.search")


class ModelScorer:
    """Scores of points by a cost model that learns from `history`; None where it has none to give.

    `explore` is the weight of the model's standard deviation in a score. `name` is the strategy's.

    Raises UsageError for a model with other features than the space.
    """

    def __init__(
        self,
        space: SpaceLike,
        points: Points,
        history: History,
        model: CostModel | None,
        *,
        name: str,
        explore: float = 0.0,
    ) -> None:
        if model is not None and tuple(model.feature_names) != tuple(space.feature_names):
            raise UsageError(
                f"the cost model has {len(model.feature_names)} features, the space {len(space.feature_names)}, "
                "or other names",
                asked=f"strategy {name!r}",
                legal="make the model with the space's feature_names",
            )
        self._space, self._points, self._history, self._model = space, points, history, model
        self._explore = explore
        self._fitted = 0
        #: What the model last failed with, for reports; empty if it did not.
        self.error = ""
        #: Whether the model can be asked before anything was measured: it was primed with other trials.
        self.primed = self._asked(lambda model: bool(model.ready)) or False

    def learn(self) -> bool:
        """Fit the model to what is new in the history; whether it is ready then."""

        def fitted(model: CostModel) -> bool:
            self._fit(model)
            return bool(model.ready)

        return self._asked(fitted) or False

    def predict(self, pool: Sequence[IntArray]) -> FloatArray | None:
        """Scores [n] of feasible points, a matrix for each sketch, in order; higher = faster."""
        return self._asked(lambda model: self._scores(model, pool))

    def _asked(self, ask: Callable[[CostModel], T]) -> T | None:
        """The model's answer; None where there is no model, or it fails."""
        if self._model is None:
            return None
        try:
            return ask(self._model)
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            if not self.error:
                log.warning("the cost model failed, the search goes on without it: %s", told)
            self.error = told
            return None

    def _scores(self, model: CostModel, pool: Sequence[IntArray]) -> FloatArray:
        features = self._features(pool)
        if isinstance(model, UncertainCostModel) and self._explore > 0:
            mean, std = model.predict_with_std(features)
            scores = np.asarray(mean + self._explore * std, dtype=np.float64)
        else:
            scores = np.asarray(model.predict(features), dtype=np.float64)
        if scores.shape != (len(features),) or not np.isfinite(scores).all():
            given = f"shape {list(scores.shape)}" if scores.shape != (len(features),) else "values that are not finite"
            raise ValueError(f"predict gave {given} for {len(features)} rows")
        return scores

    def _fit(self, model: CostModel) -> None:
        if self._fitted == self._history.version:
            return
        trials = self._history.rows()
        rows, times = [], []
        for number, points in enumerate(self._points.sketches):
            mine = [(candidate.indices, seconds) for candidate, seconds in trials if candidate.sketch == number]
            tried = points.as_rows([indices for indices, _ in mine])
            # An old record may be infeasible by now; then its features mean nothing.
            sound = np.asarray(points.sketch.mask(tried), dtype=np.bool_)
            rows.append(tried[sound])
            times.append(np.array([seconds for _, seconds in mine], dtype=np.float64)[sound])
        features, seconds = self._features(rows), np.concatenate(times)
        model.fit(features, seconds, np.zeros(len(seconds), dtype=np.int64))
        self._fitted = self._history.version

    def _features(self, pool: Sequence[IntArray]) -> FloatArray:
        parts = [
            np.asarray(sketch.features(rows), dtype=np.float64)
            for sketch, rows in zip(self._space.sketches, pool, strict=True)
            if len(rows)
        ]
        return np.concatenate(parts) if parts else np.empty((0, len(self._space.feature_names)))
