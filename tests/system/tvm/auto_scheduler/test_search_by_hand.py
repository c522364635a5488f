"""Models that are told and asked, searches by hand, candidates and measured one by one."""

import numpy as np
import pytest

from autosched.errors import RecordError, UsageError
from autosched.tvm import auto_scheduler
from autosched.tvm.auto_scheduler.measure import ProgramMeasurer
from autosched.tvm.testing.auto_scheduler import matmul_auto_scheduler_test


def task_of(n: int = 64) -> auto_scheduler.SearchTask:
    return auto_scheduler.SearchTask(func=matmul_auto_scheduler_test, args=(n, n, n), target="llvm")


BUILDER = auto_scheduler.LocalBuilder(timeout=120, n_parallel=1)
RUNNER = auto_scheduler.LocalRunner(timeout=120, number=1, repeat=1)


def lanes(state) -> int:
    """Iterations of the vectors that compute C."""
    kind = auto_scheduler.loop_state.State.ANNOTATION_TRANS_TABLE["vectorize"]
    found = [x.range.extent for stage in state.stages for x in stage.iters if x.annotation == kind and x.range]
    return max((n for n in found if isinstance(n, int)), default=0)


class Wide(auto_scheduler.PythonBasedModel):
    """Likes wide vectors."""

    def __init__(self) -> None:
        self.told = 0

    def predict(self, task, states):
        return [lanes(s) for s in states]

    def update(self, inputs, results) -> None:
        self.told += len(inputs)


FEW = {"sample_init_min_population": 8, "evolutionary_search_population": 24, "evolutionary_search_num_iters": 2}


def test_states_are_drawn_and_bred() -> None:
    task, model = task_of(), Wide()
    policy = auto_scheduler.SketchPolicy(task, model, FEW, verbose=0)
    drawn = policy.sample_initial_population()
    assert len(drawn) == 8 == len({str(s) + str(s.state_object.base) for s in drawn})
    bred = policy.evolutionary_search(drawn, 4)
    assert len(bred) == 4 and min(map(lanes, bred)) >= max(map(lanes, drawn))
    with pytest.raises(UsageError, match="not of the policy's space"):
        policy.evolutionary_search([task.compute_dag.get_init_state()], 4)


def test_a_model_of_the_program_s_is_tuned_with(tmp_path) -> None:
    task, model, log = task_of(), Wide(), tmp_path / "own.json"
    policy = auto_scheduler.SketchPolicy(task, model, FEW, verbose=0)
    options = auto_scheduler.TuningOptions(
        3, num_measures_per_round=2, builder=BUILDER, runner=RUNNER, verbose=0,
        measure_callbacks=[auto_scheduler.RecordToFile(log)],
    )  # fmt: skip
    assert task.tune(options, policy) is None
    inputs, results = auto_scheduler.RecordReader(log).read_lines()
    assert len(inputs) == 3 == model.told and all(r.error_no == 0 for r in results)
    assert len({inp.state.record.id for inp in inputs}) == 3
    with pytest.raises(UsageError, match="its own rounds"):
        auto_scheduler.TaskScheduler([task]).tune(options, [policy])


def test_candidates_are_built_and_run_one_by_one() -> None:
    task = task_of(16)
    tiled = task.compute_dag.get_init_state()
    tiled.split(2, tiled.stages[2].iters[0], [4])
    wrong = auto_scheduler.loop_state.StateObject(
        (*tiled.transform_steps, auto_scheduler.transform_step.Step("FU", (2, (7, 8))))
    )
    inputs = [auto_scheduler.MeasureInput(task, s) for s in (tiled, wrong, task.compute_dag.init_state)]
    measurer = ProgramMeasurer(BUILDER, RUNNER, [], verbose=0)
    first, second, third = measurer.measure(task, None, inputs)
    assert (first.error_no, third.error_no) == (0, 0) and first.costs[0].value > 0
    assert second.error_no == 1 and "loop 7" in second.error_msg
    assert measurer.ct == 3 and measurer.best_state[task.workload_key] in (inputs[0].state, inputs[2].state)


def test_the_trees_are_told_asked_and_kept(tmp_path) -> None:
    task = task_of()
    policy = auto_scheduler.SketchPolicy(task, params={"sample_init_min_population": 24}, verbose=0)
    states = policy.sample_initial_population()
    inputs = [auto_scheduler.MeasureInput(task, s) for s in states]
    results = [auto_scheduler.MeasureResult([1e-3 / (1 + lanes(s))], 0, "", 0.1, 0) for s in states]
    model = auto_scheduler.XGBModel(num_warmup_sample=-1)
    model.update(inputs, results)
    scores = np.array(model.predict(task, [*states, task.compute_dag.get_init_state()]))
    assert np.isfinite(scores).all() and len(scores) == 25
    assert np.corrcoef(scores[:24], [lanes(s) for s in states])[0, 1] > 0.5
    model.save(str(tmp_path / "model"))
    again = auto_scheduler.XGBModel(num_warmup_sample=-1, model_file=str(tmp_path / "model"))
    assert np.allclose(again.predict(task, states), scores[:24])
    log = tmp_path / "log.json"
    auto_scheduler.save_records(log, inputs, results)
    learning = auto_scheduler.XGBModel(num_warmup_sample=-1)
    learning.update_from_file(str(log))
    assert np.corrcoef(learning.predict(task, states), scores[:24])[0, 1] > 0.99  # a log keeps six digits of the times
    (tmp_path / "other").write_text("not a model\n")
    with pytest.raises(RecordError, match="what XGBModel.save wrote"):
        auto_scheduler.XGBModel().load(str(tmp_path / "other"))
    wrong = auto_scheduler.loop_state.StateObject((auto_scheduler.transform_step.Step("CI", (9,)),))
    assert model.predict(task, [wrong]) == [float("-inf")]
    assert all(0 <= x <= 1 for x in auto_scheduler.RandomModel().predict(task, states))
