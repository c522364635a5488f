"""Records of Ansor's as schedules: they run, give the right answer, and print as Python that does the same."""

from __future__ import annotations

from dataclasses import replace

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


def test_an_input_of_free_layout_is_copied_into_the_order_it_is_read_in(tmp_path) -> None:
    path = tmp_path / "log.json"
    path.write_text(LOGS[0].line())
    task = LOGS[0].task()
    (b,) = [i for i in task.apply_best(path)[0].trace if i.kind == "transform_layout"]
    j, k = ["axis", "1"], ["axis", "0"]  # loops j.outer.outer.inner.., k.outer, j.outer.inner, k.inner, j.inner
    digit = [["floordiv", j, 16], ["floordiv", k, 4], ["floormod", ["floordiv", j, 8], 2], ["floormod", k, 4]]
    assert (b.stage, b.args[0]) == ("B.global", [*digit, ["floormod", j, 8]])
    plain, _ = task.apply_best(path, layout_rewrite_option=auto_scheduler.LayoutRewriteOption.NO_REWRITE)
    assert "B.global" not in plain


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([["RE", 2, [0, 2, 1]]], "it is read in that order already"),
        ([["FU", 2, [0, 1]]], "loops are fused"),
        ([["CHR", 1, "shared", [2]], ["SP", 3, 1, 48, [8], 1]], "another stage reads it"),
    ],
)
def test_an_input_of_free_layout_that_stays(steps: list, why: str, tmp_path) -> None:
    path = tmp_path / "log.json"
    path.write_text(replace(LOGS[0], steps=steps).line())
    s, _ = LOGS[0].task().apply_best(path)
    assert "transform_layout" not in [i.kind for i in s.trace], why
