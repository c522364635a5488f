"""Tuners, runners and models that a program writes or asks itself."""

import numpy as np
import pytest

from autosched.errors import UsageError
from autosched.tvm import autotvm
from autosched.tvm.autotvm.cost_model import XGBoostCostModel
from autosched.tvm.autotvm.measure import MeasureInput, MeasureResult
from autosched.tvm.testing.autotvm import DummyRunner, get_sample_records, get_sample_task

DUMMY = autotvm.measure_option(builder=autotvm.LocalBuilder(n_parallel=4), runner=DummyRunner())


@pytest.mark.parametrize("kind", ["RandomTuner", "GridSearchTuner", "GATuner", "DropletTuner", "XGBTuner"])
def test_every_tuner_goes_by_a_runner_of_the_program_s(kind: str) -> None:
    task, _ = get_sample_task(16)
    tuner = getattr(autotvm.tuner, kind)(task)
    told = []
    tuner.tune(n_trial=6, measure_option=DUMMY, callbacks=[lambda t, inputs, results: told.extend(inputs)])
    assert len({inp.config.index for inp in told}) == 6 == len(tuner.visited)
    assert tuner.best_flops > 0 and tuner.best_config.index in {inp.config.index for inp in told}


class Backwards(autotvm.tuner.Tuner):
    """From the last index to the first."""

    def __init__(self, task) -> None:
        super().__init__(task)
        self.next, self.times = len(task.config_space) - 1, []

    def next_batch(self, batch_size):
        found = [self.space.get(i) for i in range(self.next, max(-1, self.next - batch_size), -1)]
        self.next -= len(found)
        return found

    def has_next(self):
        return self.next >= 0

    def update(self, inputs, results):
        self.times += [r.costs for r in results]


def test_a_tuner_of_the_program_s_is_measured_here() -> None:
    task, _ = get_sample_task(8)
    tuner = Backwards(task)
    option = autotvm.measure_option(
        builder=autotvm.LocalBuilder(timeout=120, n_parallel=2),
        runner=autotvm.LocalRunner(number=1, repeat=1, timeout=120),
    )
    tuner.tune(3, option)
    assert len(tuner.times) == 3 and all(seconds > 0 for (seconds,) in tuner.times)
    assert tuner.best_config.index in (13, 14, 15)


def test_builders_and_runners_are_the_program_s_or_ours() -> None:
    with pytest.raises(UsageError, match="3 is no runner"):
        autotvm.measure_option(builder=autotvm.LocalBuilder(), runner=3)
    task, target = get_sample_task(8)
    runner = autotvm.LocalRunner(number=1, repeat=1, timeout=120)
    runner.ref_input = [np.ones((8, 8), "float32")] * 3
    measure = autotvm.measure.create_measure_batch(task, autotvm.measure_option("local", runner))
    broken = task.config_space.get(0)
    broken._entity_map = {}
    good, bad = measure([MeasureInput(target, task, task.config_space.get(5)), MeasureInput(target, task, broken)])
    assert good.error_no == 0 and len(good.costs) == 1
    assert bad.error_no == autotvm.MeasureErrorNo.INSTANTIATION_ERROR


def test_a_model_is_fitted_and_asked() -> None:
    task, _ = get_sample_task(128)
    model = XGBoostCostModel(task)
    with pytest.raises(UsageError, match="it has learnt nothing"):
        model.predict([0])
    last = [task.config_space.get(i)["tile_x"].size[-1] for i in range(len(task.config_space))]
    model.fit(range(len(last)), [1e9 * n for n in last], plan_size=8)
    scores = model.predict(range(len(last)))
    assert np.corrcoef(scores, np.log2(last))[0, 1] > 0.3
    base = model.spawn_base_model()
    assert not base.fit_log(get_sample_records(3), min_seed_records=4)
    tuner = autotvm.tuner.XGBTuner(get_sample_task()[0])
    tuner.load_history(get_sample_records(3), min_seed_records=3)
    assert tuner.cost_model.base_model is not None
    records = get_sample_records(3)
    tuner.update([inp for inp, _ in records], [result for _, result in records])
    assert tuner.xs == [0, 1, 2] and len(tuner.visited) == 3


def test_failures_are_told_to_the_strategy() -> None:
    task, target = get_sample_task(8)
    tuner = autotvm.tuner.GATuner(task, pop_size=4)
    configs = tuner.next_batch(4)
    failed = MeasureResult((ValueError("no"),), 1, 0.1, 0.0)
    tuner.update([MeasureInput(target, task, c) for c in configs], [failed] * 4)
    assert not {c.index for c in tuner.next_batch(4)} & {c.index for c in configs}
