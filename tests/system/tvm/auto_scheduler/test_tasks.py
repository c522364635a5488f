"""Tasks: options, tuning, its log, and what is built from it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from ansor_logs import LOGS, matmul

from autosched.errors import RecordError, TargetError, UsageError, WorkloadError
from autosched.records import RecordLog
from autosched.space.default import default_schedule
from autosched.space.workload import WorkloadFunction, template
from autosched.target import Target
from autosched.tuning import TuneResult, tune
from autosched.tvm import auto_scheduler, build, te
from autosched.tvm.auto_scheduler import search_task
from autosched.tvm.auto_scheduler.task_scheduler import LogEstimatedLatency, TaskSchedulerCallback

FUSED, CACHED, GPU_MATMUL = LOGS[:3]
ARGS = (16, 16, 8)


@pytest.fixture(autouse=True, scope="module")
def template_space() -> Iterator[None]:
    """A space of four points, so that each is measured."""
    made = WorkloadFunction(matmul, None)

    @template(made)
    def tiled(s) -> None:
        _, lane = s["C"].split("j", factor=s.define_knob("lanes", [2, 4, 8, 16]))
        s["C"].reorder("i", "k", lane)
        s["C"].vectorize(lane)

    def search(task, **options):
        if options["rules"]:  # what a policy without a search asks for
            return tune(task.workload, task.target, space="auto", inputs=task.inputs(), **options)
        return tune(replace(task.workload, function=made), task.target, inputs=task.inputs(), **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_task, "search", search)
        yield


def make_task(**options) -> auto_scheduler.SearchTask:
    return auto_scheduler.SearchTask(func="ansor_logs.matmul", args=ARGS, target="llvm", **options)


def make_options(trials: int, *callbacks, **more) -> auto_scheduler.TuningOptions:
    """The machine may be busy: nothing here is about speed."""
    given = {
        "verbose": 0,
        "builder": auto_scheduler.LocalBuilder(timeout=120, n_parallel=1),
        "runner": auto_scheduler.LocalRunner(timeout=120, number=1, repeat=1),
    }
    return auto_scheduler.TuningOptions(trials, measure_callbacks=list(callbacks), **given | more)


class Told(auto_scheduler.measure.MeasureCallback):
    def __init__(self) -> None:
        self.pairs: list = []

    def callback(self, policy, inputs, results) -> None:
        self.pairs += zip(inputs, results, strict=True)


@dataclass
class Run:
    task: auto_scheduler.SearchTask
    told: Told
    result: TuneResult
    lines: str
    printed: list[str]

    def log(self, folder: Path) -> Path:
        """A copy of its log."""
        path = folder / "matmul.json"
        path.write_text(self.lines)
        return path


@pytest.fixture(scope="module")
def run(template_space, tmp_path_factory) -> Run:
    log, task, told, out = tmp_path_factory.mktemp("run") / "matmul.json", make_task(), Told(), io.StringIO()
    options = make_options(3, auto_scheduler.RecordToFile(log), told, num_measures_per_round=2, verbose=1)
    with redirect_stdout(out):
        result = task.tune(options)
    return Run(task, told, result, log.read_text(), out.getvalue().splitlines())


def test_callbacks_and_progress(run: Run) -> None:
    assert [r.error_no for _, r in run.told.pairs] == [0, 0, 0] and run.result.trials == 3
    assert all(inp.task is run.task and res.costs[0].value > 0 for inp, res in run.told.pairs)
    assert [line.split(", best")[0] for line in run.printed] == [
        "ansor_logs.matmul: 2 trials",
        "ansor_logs.matmul: 3 trials",
    ]


def test_the_log_has_the_default_schedule_and_the_play_off(run: Run, tmp_path) -> None:
    contents = RecordLog(run.log(tmp_path)).read()
    assert not contents.problems and {r.extra["workload_key"] for r in contents.records} == {run.task.workload_key}
    assert "default" in {r.sketch for r in contents.records} and any(r.playoff for r in contents.records)


def test_the_best_is_applied(run: Run, tmp_path) -> None:
    log = run.log(tmp_path)
    s, args = run.task.apply_best(log)
    assert not s.knobs
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, [int(d) for d in t.shape]).astype("float32") for t in args[:2])
    c = np.zeros((16, 16), "float32")
    build(s, args, "llvm")(a, b, c)
    np.testing.assert_array_equal(c, a @ b)
    best, _ = auto_scheduler.load_best(log, run.task.workload_key, run.task.target)
    assert str(best.state).startswith("def schedule(s):") and "define_knob" not in run.task.print_best(log)
    if run.result.best is not None:
        assert best.state.record.id == run.result.best.id
        assert f"factor={run.result.best.knobs['lanes']}" in run.task.print_best(log)


def test_a_log_is_gone_on_from(run: Run, tmp_path) -> None:
    log, told = run.log(tmp_path), Told()
    before = len(RecordLog(log).read().records)
    with log.open("a") as file:
        file.write(CACHED.line() + "\n")  # of another space: no point of this one
    policy = auto_scheduler.SketchPolicy(
        run.task, auto_scheduler.RandomModel(), init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)]
    )
    result = run.task.tune(make_options(8, auto_scheduler.RecordToFile(log), told), policy)
    assert len(told.pairs) == 1 and result.resumed == 3  # of four points
    again = [r for r in RecordLog(log).read().records[before:] if r.sketch != "default" and not r.playoff]
    assert [r.id for r in again] == [told.pairs[0][0].state.record.id]  # nothing is written twice


def test_without_search_there_is_the_default_schedule(tmp_path) -> None:
    log = tmp_path / "matmul.json"
    task = make_task()
    task.tune(make_options(4, auto_scheduler.RecordToFile(log)), auto_scheduler.EmptyPolicy(task))
    plain = default_schedule(task.compute_dag.tensors, task.target).trace.to_json()
    assert task.apply_best(log)[0].trace.to_json() == plain
    s, args = auto_scheduler.auto_schedule(task, auto_scheduler.EmptyPolicy(task), make_options(0))
    assert s.trace.to_json() == plain and args == task.compute_dag.tensors


def test_records_of_both_kinds_in_one_log(run: Run, tmp_path) -> None:
    log = run.log(tmp_path)
    ansor = replace(CACHED, args=ARGS, steps=[["FU", 2, [0, 1]], ["AN", 2, 0, 3]])
    with log.open("a") as file:
        file.write(ansor.line(1e-9) + "\n" + ansor.line(10.0) + "\n")
    assert [i.kind for i in run.task.apply_best(log)[0].trace] == ["fuse", "parallel"]
    with auto_scheduler.ApplyHistoryBest(log, n_lines=2):
        state = auto_scheduler.DispatchContext.current.query(run.task.target, run.task.workload_key)
    assert isinstance(state, auto_scheduler.loop_state.TraceState)
    log.write_text(run.lines + ansor.line(10.0))
    assert "fuse" not in [i.kind for i in run.task.apply_best(log)[0].trace]


def test_records_that_do_not_say_the_key_are_found_by_what_they_compute(run: Run, tmp_path) -> None:
    RecordLog(tmp_path / "plain.jsonl").append(run.told.pairs[0][0].state.record)
    ((inp, _),) = auto_scheduler.load_records(tmp_path / "plain.jsonl")
    assert inp.task.workload_key == f'["{run.task.compute_dag.key}"]'
    assert run.task.apply_best(tmp_path / "plain.jsonl")[0].trace


def test_arrays_to_measure_on() -> None:
    a = np.full((16, 8), 7, "float32")
    task = make_task(task_inputs={"A": a})
    assert task.inputs()[0] is a and task.inputs()[1].shape == (8, 16)
    assert make_task().inputs() is None and task.task_input_names == ("A",)
    with pytest.raises(WorkloadError, match="'X' is no input of it\n  inputs: A, B"):
        make_task(task_inputs={"X": a}).inputs()


def test_hardware_params_are_options_of_the_target() -> None:
    params = auto_scheduler.HardwareParams(num_cores=3, max_threads_per_block=64, warp_size=32)
    assert make_task(hardware_params=params).target.num_threads == 3
    gpu = params.applied(Target("opencl"))
    assert gpu.options == {"max_threads_per_block": "64"}
    assert params.applied(Target("opencl -max_threads_per_block=128")).options == {"max_threads_per_block": "128"}
    assert auto_scheduler.HardwareParams(-1, 16, 64).applied(Target("llvm")) == Target("llvm")


def test_states_are_asked_for_by_contexts(tmp_path) -> None:
    path = tmp_path / "log.json"
    path.write_text(FUSED.line(0.2) + "\n" + FUSED.line(0.1) + "\n")
    current = auto_scheduler.DispatchContext.current
    with auto_scheduler.ApplyHistoryBest(path) as best:
        state = best.query(Target("llvm"), FUSED.workload_key)
        assert FUSED.task().compute_dag.apply_steps_from_state(state)[0].trace
        assert best.query(Target("opencl"), FUSED.workload_key) is None
        other = auto_scheduler.loop_state.StateObject()
        best.update(Target("llvm"), FUSED.workload_key, other)
        assert auto_scheduler.DispatchContext.current.query(Target("llvm"), FUSED.workload_key) is other
        with pytest.raises(UsageError, match="depends on the target"):
            best.query(None, FUSED.workload_key)
    assert auto_scheduler.DispatchContext.current is current
    with auto_scheduler.ApplyHistoryBest(auto_scheduler.load_records(path), n_lines=1) as one:
        assert one.query(Target("llvm -mcpu=znver3"), FUSED.workload_key) == state


def test_tasks_of_a_computation_without_a_function() -> None:
    dag = auto_scheduler.ComputeDAG(matmul(8, 8, 8))
    task = auto_scheduler.SearchTask(compute_dag=dag, target="llvm")
    assert task.workload_key == dag.workload_key() and task.workload.key == dag.key
    from_schedule = auto_scheduler.ComputeDAG(te.create_schedule(dag.tensors[-1].op))
    assert from_schedule.key == dag.key and dag.flop_ct == 2 * 8**3
    assert repr(dag).splitlines()[-1] == "C(i, j) += A[i, k] * B[k, j]"
    recovered = auto_scheduler.measure.recover_measure_input(
        auto_scheduler.measure_record.decode(FUSED.line())[0], rebuild_state=True
    )
    assert recovered.task.compute_dag.ops[-1].name == "D"
    assert list(recovered.task.hardware_params)[:2] == [8, 64] and not recovered.task.target.options.get("threads")


@pytest.mark.parametrize(
    ("call", "error", "why"),
    [
        (lambda: auto_scheduler.SearchTask(target="llvm"), UsageError, "nothing says what to compute"),
        (lambda: auto_scheduler.SearchTask(func="ansor_logs.matmul", args=ARGS), UsageError, "nothing says for what"),
        (lambda: auto_scheduler.ComputeDAG([]), WorkloadError, "there is nothing to compute"),
        (lambda: auto_scheduler.ComputeDAG([3]), WorkloadError, "3 is no tensor"),
        (lambda: auto_scheduler.TuningOptions(1, builder="rpc"), UsageError, "'rpc' is no builder"),
        (lambda: auto_scheduler.TuningOptions(1, runner=3), UsageError, "3 is no runner"),
        (lambda: auto_scheduler.LocalBuilder(build_func="ndk"), UsageError, "runs on this machine"),
        (lambda: auto_scheduler.LocalRunner(device=1), UsageError, "the target says on which device"),
        (lambda: auto_scheduler.RPCRunner("key", "host", 9190), UsageError, "run on this machine"),
        (lambda: auto_scheduler.XGBModel(model_file="m"), RecordError, "cannot read records"),
        (lambda: auto_scheduler.XGBModel().predict_stages(None, []), UsageError, "a score is of a whole program"),
        (lambda: auto_scheduler.SketchPolicy(None, "xgb"), UsageError, "'xgb' is no cost model"),
        (lambda: auto_scheduler.SketchPolicy(None, params={"eps": 1}), UsageError, "no parameter 'eps'"),
        (lambda: auto_scheduler.SketchPolicy(None, init_search_callbacks=[3]), UsageError, "3 is none"),
        (lambda: auto_scheduler.PreloadCustomSketchRule(None, None), UsageError, "no functions"),
        (lambda: make_task().print_best("x", "cuda"), UsageError, "the task is for llvm"),
        (lambda: make_task(target_host=None).apply_best("no such file"), RecordError, "cannot read records"),
        (lambda: auto_scheduler.TaskScheduler([]), UsageError, "there are 0 tasks"),
        (lambda: auto_scheduler.TaskScheduler([make_task()], [1, 2]), UsageError, "1 tasks and 2 weights"),
        (lambda: auto_scheduler.TaskScheduler([make_task()], strategy="x"), UsageError, "no strategy 'x'"),
        (lambda: auto_scheduler.TaskScheduler([make_task()], callbacks=[1]), UsageError, "1 is no callback"),
        (lambda: auto_scheduler.TaskScheduler([make_task()]).tune(make_options(0)), UsageError, "0 trials are not"),
        (
            lambda: auto_scheduler.TaskScheduler([make_task()]).tune(make_options(1), "x.y"),
            UsageError,
            "no policy 'x.y'",
        ),
        (
            lambda: auto_scheduler.TaskScheduler([make_task()]).tune(make_options(1), []),
            UsageError,
            "not one for each task",
        ),
        (lambda: auto_scheduler.extract_tasks, AttributeError, "graphs of operators are not read yet"),
        (lambda: auto_scheduler.feature.unpack_feature, AttributeError, "arrays are returned as they are"),
    ],
)
def test_what_is_refused(call, error, why) -> None:
    with pytest.raises(error, match=why):
        call()


def test_parameters_that_change_nothing_are_told(caplog) -> None:
    task = make_task()
    auto_scheduler.SketchPolicy(task, params={"eps_greedy": 0.5})
    assert not caplog.text
    auto_scheduler.SketchPolicy(task, params={"max_vectorize_size": 8})
    assert "max_vectorize_size change nothing here" in caplog.text


def test_layouts_by_default() -> None:
    default = auto_scheduler.LayoutRewriteOption.get_target_default
    assert default(Target("llvm")) == 1 and default(Target("opencl")) == 0


def test_source_of_the_best(tmp_path) -> None:
    path = tmp_path / "log.json"
    path.write_text(GPU_MATMUL.line())
    assert "C_local" in GPU_MATMUL.task().print_best(path, "opencl")
    assert "__shared__" in GPU_MATMUL.task("cuda").print_best(path, "cuda")


class Turns(TaskSchedulerCallback):
    """Remembers the turns of tasks."""

    def __init__(self) -> None:
        self.told = []

    def pre_tune(self, task_scheduler, task_id) -> None:
        self.told.append(("begin", task_id))

    def post_tune(self, task_scheduler, task_id) -> None:
        self.told.append(("end", task_id, task_scheduler.task_cts[task_id] > 0))


def test_several_tasks(tmp_path, capsys) -> None:
    log, latency, turns = tmp_path / "all.json", tmp_path / "latency.tsv", Turns()
    tasks = [
        make_task(desc="first"),
        auto_scheduler.SearchTask(func="ansor_logs.matmul", args=(32, 8, 8), target="llvm"),
    ]
    told = [turns, LogEstimatedLatency(latency)]
    together = auto_scheduler.TaskScheduler(tasks, [2, 1], load_log_file=None, callbacks=told)
    together.tune(make_options(4, auto_scheduler.RecordToFile(log), verbose=1), per_task_early_stopping=50)
    assert together.task_cts == [2, 2] and together.best_score == pytest.approx(
        2 * together.best_costs[0] + together.best_costs[1]
    )
    assert "| first " in capsys.readouterr().out
    assert tasks[1].apply_best(log)[0]
    for inp, _ in auto_scheduler.load_records(log):  # of one function, so of one file of records
        of = tasks[0] if inp.task.workload_key == tasks[0].workload_key else tasks[1]
        assert inp.state.record.key == of.compute_dag.key
    assert {("begin", 0), ("begin", 1), ("end", 0, True), ("end", 1, True)} <= set(turns.told)
    line = latency.read_text().splitlines()[-1].split("\t")
    assert line[::2] == ["ElapsedTime(s)", "EstimatedLatency(ms)", "Trials"] and float(line[3]) > 0


def test_targets_that_are_none() -> None:
    with pytest.raises(TargetError):
        auto_scheduler.SearchTask(func="ansor_logs.matmul", args=ARGS, target="metal")
