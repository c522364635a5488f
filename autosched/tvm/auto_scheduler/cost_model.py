"""Cost models of programs for Ansor: this package's boosted trees, chance, and models of one's own.

    class Mine(PythonBasedModel):
        def update(self, inputs, results): ...              # learn from measurements
        def predict(self, task, states): return [...]       # a score for each state, the higher the faster

A model's file is a log of this package: the measurements that it learnt from, with their features.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from autosched.errors import AutoschedError, RecordError, UsageError
from autosched.model import make_model
from autosched.records import Record, RecordLog
from autosched.runtime.device import resolve_target, with_machine
from autosched.space.features import FEATURE_NAMES, FEATURE_VERSION
from autosched.space.space import make_sketch
from autosched.tvm._missing import missing
from autosched.tvm.auto_scheduler.loop_state import State, TraceState, object_of
from autosched.tvm.auto_scheduler.measure import MeasureInput, MeasureResult, recover_measure_input
from autosched.tvm.auto_scheduler.measure_record import RecordReader, make_record
from autosched.tvm.tuning_common import unwritten

_logger = logging.getLogger("auto_scheduler")


class CostModel:
    """Base of the models."""

    name = "none"
    logs: Sequence[str] = ()
    records: Sequence[Record] = ()


class RandomModel(CostModel):
    """Rates every candidate alike: `model="random"`."""

    name = "random"

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn nothing."""

    def predict(self, task: Any, states: Sequence[Any]) -> list[float]:
        """Return chance numbers from 0 to 1."""
        return [float(x) for x in np.random.default_rng().random(len(states))]


class PythonBasedModel(CostModel):
    """Base of the models of programs, which need `predict`, and `update` where they are tuned with."""

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measurements."""
        raise unwritten(self, "update")

    def predict(self, task: Any, states: Sequence[Any]) -> Sequence[float]:
        """Return a score for each state, the higher the faster."""
        raise unwritten(self, "predict")


class XGBModel(PythonBasedModel):
    """Boosted trees, trained while tuning: `model="xgb"`. Beside that, they can be told and asked.

    `num_warmup_sample` is how many measurements they must have to be asked; before, scores are chance. `verbose_eval`,
    `seed` and `adaptive_training` change nothing. Raises RecordError for a `model_file` that is no log.
    """

    name = "xgb"

    def __init__(
        self,
        verbose_eval: int = 25,
        num_warmup_sample: int = 100,
        seed: int | None = None,
        model_file: str | None = None,
        adaptive_training: bool = False,
    ) -> None:
        self.logs: list[str] = []
        self.records: list[Record] = []
        self.num_warmup_sample = num_warmup_sample
        self._unread: list[tuple[str, int | None]] = []
        self._model: Any = None
        self._chance = np.random.default_rng(seed)
        if model_file is not None:
            self.load(model_file)

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measurements. A state that cannot be applied teaches nothing."""
        for inp, result in zip(inputs, results, strict=True):
            try:
                row = features_of(inp.task, inp.state)
            except AutoschedError as error:
                _logger.info("a state teaches nothing: %s", error)
                continue
            made = inp.state.record if isinstance(inp.state, TraceState) else make_record(inp, result)
            self.records.append(made.with_features(FEATURE_VERSION, row))
        self._model = None

    def predict(self, task: Any, states: Sequence[Any]) -> list[float]:
        """Return a score for each state, the higher the faster; `-inf` for one that cannot be applied."""
        model = self._trained()
        rows = rows_of(task, states)
        good = [i for i, row in enumerate(rows) if row is not None]
        scores = [float("-inf")] * len(rows)
        asked = np.array([rows[i] for i in good], dtype=np.float64).reshape(len(good), len(FEATURE_NAMES))
        known = self._chance.random(len(good)) if model is None else model.predict(asked)
        for i, score in zip(good, known, strict=True):
            scores[i] = float(score)
        return scores

    def predict_stages(self, task: Any, states: Sequence[Any]) -> Any:
        """Raise UsageError: a score is of a whole program."""
        raise UsageError(
            "a score is of a whole program", asked="XGBModel.predict_stages", legal="predict(task, states)"
        )

    def update_from_file(self, file_name: str, n_lines: int | None = None) -> None:
        """Learn from a log: a policy with this model goes on from its records."""
        self.logs.append(str(file_name))
        self._unread.append((str(file_name), n_lines))
        self._model = None

    def save(self, file_name: str) -> None:
        """Write what was learnt from. Raises RecordError where that cannot be done."""
        self._read()
        log = RecordLog(file_name)
        for r in self.records:
            log.append(r)

    def load(self, file_name: str) -> None:
        """Learn from the file of another model. Raises RecordError for one that is no log of this package."""
        content = RecordLog(file_name).read()
        if content.problems or not content.records:
            raise RecordError(
                "; ".join(map(str, content.problems[:1])) or "it has no records",
                asked=f"model {file_name}",
                legal="what XGBModel.save wrote; update_from_file(log) learns from any log",
            )
        self.records += content.records
        self._model = None

    def _read(self) -> None:
        for file, count in self._unread:
            for inp, result in islice(RecordReader(file), count):
                try:
                    self.update([recover_measure_input(inp)], [result])
                except AutoschedError as error:  # another program's workload
                    _logger.info("a record teaches nothing: %s", error)
        self._unread.clear()

    def _trained(self) -> Any:
        """The model; None where it has too little to tell candidates apart."""
        self._read()
        if self._model is None:
            rows = [(r, x) for r in self.records if (x := r.features(FEATURE_VERSION)) is not None]
            if len(rows) <= max(1, self.num_warmup_sample):
                return None
            self._model = make_model("xgb", FEATURE_NAMES)
            groups = {json.dumps([r.key, r.target]): 0 for r, _ in rows}
            numbers = {key: n for n, key in enumerate(groups)}
            self._model.fit(
                np.array([x for _, x in rows]),
                np.array([r.seconds for r, _ in rows]),
                np.array([numbers[json.dumps([r.key, r.target])] for r, _ in rows], dtype=np.int64),
            )
        return self._model if self._model.ready else None


# -- features ------------------------------------------------------------------------------------------


def features_of(task: Any, state: Any) -> np.ndarray:
    """Return what this package's models see of a state: float64 [n]. Raises RecordError where it does not fit."""
    found = rows_of(task, [state])[0]
    if found is None:
        raise RecordError("it cannot be lowered", asked="the features of a state", legal="a state of this task")
    return found


def rows_of(task: Any, states: Sequence[Any]) -> list[np.ndarray | None]:
    """Return the features of each state; None for one that cannot be applied."""
    given = [s.state_object if isinstance(s, State) else s for s in states]
    found: list[np.ndarray | None] = [None] * len(given)
    drawn: dict[tuple[int, int], list[int]] = {}
    for i, state in enumerate(given):
        point = None if isinstance(state, TraceState) else object_of(state, task.compute_dag).point
        if point is not None:
            drawn.setdefault((id(point[0]), point[1].sketch), []).append(i)
            continue
        try:
            found[i] = _lowered(task, state)
        except AutoschedError:
            continue
    for (_, number), places in drawn.items():  # all of a sketch at once
        sketch = given[places[0]].point[0].sketches[number]
        indices = np.array([given[i].point[1].indices for i in places], dtype=np.int64).reshape(len(places), -1)
        for i, row in zip(places, sketch.features(indices), strict=True):
            found[i] = row
    return found


def _lowered(task: Any, state: Any) -> np.ndarray:
    s, _ = task.compute_dag.apply_steps_from_state(state, task.layout_rewrite_option)
    w = task.workload
    sketch = make_sketch("state", w, s, with_machine(resolve_target(task.target)), w.sizes_at())
    row: np.ndarray = sketch.features(np.zeros((1, len(sketch.knobs)), dtype=np.int64))[0]
    return row


__getattr__ = missing("auto_scheduler.cost_model", globals())
