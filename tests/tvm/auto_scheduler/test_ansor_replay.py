"""Records of Ansor's as schedules: they run, give the right answer, and print as Python that does the same."""

from __future__ import annotations

import numpy as np
import pytest
from ansor_logs import LOGS, Logged

from autosched import create_schedule
from autosched.te.reference import reference
from autosched.tvm import auto_scheduler, build


def shape(t: object) -> list[int]:
    return [int(d) for d in t.shape]  # type: ignore[attr-defined]


@pytest.fixture
def log(request: pytest.FixtureRequest, tmp_path) -> tuple[Logged, str]:
    path = tmp_path / "log.json"
    path.write_text("# a comment\n\n" + request.param.line() + "\n")
    return request.param, str(path)


@pytest.mark.parametrize("log", LOGS, indirect=True, ids=lambda x: x.name)
def test_a_record_runs_and_is_right(log) -> None:
    logged, path = log
    s, args = logged.task().apply_best(path)
    inputs = [t for t in args if t.op.input_tensors == ()]
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, shape(t)).astype("float32") for t in inputs]
    outputs = [np.full(shape(t), np.nan, "float32") for t in args[len(inputs) :]]
    build(s, args, logged.here)(*arrays, *outputs)
    for got, expected in zip(outputs, reference(args, arrays), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("log", LOGS, indirect=True, ids=lambda x: x.name)
def test_what_is_printed_does_the_same(log) -> None:
    logged, path = log
    task = logged.task()
    names: dict = {}
    exec(task.print_best(path), names)
    again = create_schedule(task.compute_dag.outputs)
    names["schedule"](again)
    assert again.trace.to_json() == task.apply_best(path)[0].trace.to_json()
    assert len(again.trace) > 8


@pytest.mark.parametrize("logged", LOGS, ids=lambda x: x.name)
def test_a_record_that_is_written_again_is_the_same(logged, tmp_path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.write_text(logged.line())
    inputs, results = auto_scheduler.RecordReader(first).read_lines()
    auto_scheduler.save_records(second, inputs, results)
    ((inp, result),) = auto_scheduler.load_records(second)
    assert (inp.state, result) == (inputs[0].state, results[0])
    assert [step.to_json() for step in inp.state.transform_steps] == logged.steps
    assert (inp.task.workload_key, str(inp.task.target)) == (logged.workload_key, str(inputs[0].task.target))
