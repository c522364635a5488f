"""Programs that nothing much can be done for: the default schedule, and the reason for each stage."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
from autosched import te
from autosched.cli.tune import exit_status
from autosched.errors import BuildError, MeasureError, ScheduleError, WorkloadError
from autosched.measure.protocol import MeasureOptions
from autosched.schedule import create_schedule
from autosched.space.rules import generate
from autosched.space.rules.engine import rule
from autosched.space.space import sketching_until
from autosched.space.workload import Workload
from autosched.target import Target

FAST = MeasureOptions(min_repeat_ms=0.2, repeat=2, builders=2)
TARGETS = ["llvm", "opencl"]


def plus_one(shape, dtype="float32"):
    x = te.placeholder(shape, dtype, name="x")
    return x, te.compute(shape, lambda *i: x[i] + te.const(1, dtype), name="y")


def tuned(args, target, folder, trials=2, **more):
    w = Workload("w", tuple(args))
    return autosched.tune(w, target, space="auto", trials=trials, records=folder, measure=FAST, **more)


def histogram():
    x, r = te.placeholder((100,), "int32", name="x"), te.reduce_axis((0, 100), "r")
    return x, te.scatter_reduce((16,), lambda: (x[r], te.const(1, "int32")), axis=r, name="counts")


def recurrence():
    """One place, whose steps follow each other: nothing can be done at the same time."""
    x, state = te.placeholder((100,), name="x"), te.placeholder((100,), name="state")
    first = te.compute((1,), lambda t: x[0], name="first")
    step = te.compute((100,), lambda t: te.max(state[t - 1], x[t]), name="step")
    return x, te.scan(first, step, state, inputs=[x], name="largest")


def picked(dtype="int32"):
    x, at = te.placeholder((20, 64), name="x"), te.placeholder((48,), dtype, name="at")
    return x, at, te.compute((48, 64), lambda i, j: x[at[i].astype("int64"), j], name="picked")


def statements():
    x = te.placeholder((16,), name="x")
    with_numpy = te.extern(
        (16,), [x], lambda ins, outs: autosched.tvm.tir.call_packed("tests.twice", ins[0], outs[0]), name="twice"
    )
    return x, te.compute((16,), lambda i: with_numpy[i] + 1.0, name="out")


@pytest.mark.parametrize("target", TARGETS)
def test_what_no_rule_can_do_anything_for_keeps_the_default_schedule(target, tmp_path) -> None:
    result = tuned(recurrence(), target, tmp_path)
    assert (result.best, result.trials) == (None, 0)
    assert result.default_seconds > 0
    (note,) = result.notes
    assert note.startswith("the default schedule is the only one, so there is nothing to search; ")
    assert "largest: a scan: its steps follow each other" in note
    assert not result.unsearchable
    assert exit_status(result) == 0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(0,), (4, 0, 8)])
def test_no_trial_is_spent_on_outputs_without_elements(shape, target, tmp_path) -> None:
    result = tuned(plus_one(shape), target, tmp_path)
    assert (result.best, result.trials) == (None, 0)
    assert "the outputs have no elements at these sizes, so there is nothing to make faster" in result.notes


def test_a_space_that_takes_long_to_make_is_cut_and_says_so() -> None:
    x, y, k = te.placeholder((32, 32), name="x"), te.placeholder((32, 32), name="y"), te.reduce_axis((0, 32), "k")
    product = te.compute((32, 32), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), name="product")
    with sketching_until(computing_s=0.0):
        study = autosched.ask_and_tell(Workload("w", (x, y, product)), "llvm", space="auto")
    assert study.notes == ["making sketches was ended after 0 s, so the search has the first 1"]
    assert len(study.space.sketches) == 2  # and the default schedule


def test_a_space_is_cut_when_its_time_is_over() -> None:
    x, y, k = te.placeholder((32, 32), name="x"), te.placeholder((32, 32), name="y"), te.reduce_axis((0, 32), "k")
    product = te.compute((32, 32), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), name="product")
    with sketching_until(0.0):
        cut = autosched.search_space(Workload("w", (x, y, product)), "llvm", space="auto")
    assert cut.cut == "making sketches was ended as the time is short, so the search has the first 1"
    whole = autosched.search_space(Workload("w", (x, y, product)), "llvm", space="auto")
    assert not whole.cut and len(whole.sketches) > len(cut.sketches) == 2


@pytest.mark.parametrize("target", TARGETS)
def test_a_sum_over_nothing_is_tuned(target, tmp_path) -> None:
    x, r = te.placeholder((16, 0), name="x"), te.reduce_axis((0, 0), "r")
    result = tuned((x, te.compute((16,), lambda i: te.sum(x[i, r], axis=r), name="y")), target, tmp_path)
    assert result.trials == 2
    assert not result.failures


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_inputs_that_are_used_as_indices_point_inside(dtype, target, tmp_path) -> None:
    w = Workload("w", picked(dtype))
    _, at = w.sample_inputs()
    assert 0 <= at.min() < 5
    assert 15 <= at.max() < 20
    result = tuned(picked(dtype), target, tmp_path)
    assert result.trials == 2
    assert not result.failures


def test_indices_are_of_the_shortest_dimension_that_they_look_up() -> None:
    x, y, at = (
        te.placeholder((20,), name="x"),
        te.placeholder((7,), name="y"),
        te.placeholder((500,), "int32", name="at"),
    )
    out = te.compute((500,), lambda i: x[at[i]] + y[at[i]], name="out")
    assert sorted(set(Workload("w", (x, y, at, out)).sample_inputs()[2].tolist())) == list(range(7))
    n = te.var("n")
    x, at = te.placeholder((n,), name="x"), te.placeholder((500,), "int32", name="at")
    w = Workload("w", (x, at, te.compute((500,), lambda i: x[at[i]], name="out")))
    assert sorted(set(w.sample_inputs({"n": 5})[1].tolist())) == list(range(5))


def test_places_of_a_scatter_are_inside() -> None:
    assert sorted(set(Workload("w", histogram()).sample_inputs()[0].tolist())) == list(range(16))


def test_indices_that_point_outside_say_what_to_do(tmp_path) -> None:
    x, at = te.placeholder((20,), name="x"), te.placeholder((48,), "int32", name="at")
    args = x, at, te.compute((48,), lambda i: x[at[i] * 10], name="y")
    with pytest.raises(BuildError, match=r"read of x: index -40 .* outside 0..19\n.*give inputs whose elements"):
        tuned(args, "llvm", tmp_path)
    inputs = [np.ones(20, "float32"), np.ones(48, "int32")]
    assert tuned(args, "llvm", tmp_path, inputs=inputs).trials == 2


@pytest.mark.parametrize("n", [1 << 20, 1 << 40])
def test_gigantic_shapes_have_sketches_and_are_not_measured(n, tmp_path) -> None:
    w = Workload("w", plus_one((n, n)))
    *made, default = autosched.search_space(w, "llvm", space="auto").sketches
    assert made
    assert default.name == "default"
    with pytest.raises(MeasureError, match="its arrays do not fit into memory"):
        tuned(plus_one((n, n)), "llvm", tmp_path)


def test_sizes_of_a_space_need_no_arrays() -> None:
    n = te.var("n")
    w = Workload("w", plus_one((n, n)))
    assert autosched.search_space(w, "llvm", space="auto", sizes={"n": 1 << 40}).sketches[0].sizes == {"n": 1 << 40}
    with pytest.raises(WorkloadError, match="the size n of x is not known"):
        autosched.search_space(w, "llvm", space="auto")


def test_a_type_that_a_device_does_not_have_is_told_before_its_compiler_is_asked() -> None:
    x = te.placeholder((64,), name="x")
    wide = te.compute((64,), lambda i: x[i].astype("float64") / 3.0, name="wide")
    out = te.compute((64,), lambda i: wide[i].astype("float32"), name="out")
    s = create_schedule(out)
    for stage in s.stages[1:]:
        block, item = stage.split(stage.op.axis[0], factor=16)
        stage.bind(block, "blockIdx.x")
        stage.bind(item, "threadIdx.x")
    without = Target.parse("opencl").with_limits(fp64=0)
    with pytest.raises(BuildError, match=r"(?s)computes in float64 for wide, which the device does not have.*float32"):
        autosched.codegen.compile_function(autosched.lower(s, [x, out], target=without).function, without)


@rule(when=lambda plan, stage: True)
def impossible(plan, stage):
    """It asks for a loop that is not there."""
    stage.split("nowhere", factor=2)


@pytest.mark.parametrize("target", TARGETS)
def test_where_the_rules_fail_there_is_the_default_schedule_and_the_reason(target, tmp_path, monkeypatch) -> None:
    for rules in ("cpu_rules", "gpu_rules"):
        monkeypatch.setattr(generate, rules, lambda: (impossible,))
    result = tuned(plus_one((32,)), target, tmp_path)
    assert (result.best, result.trials) == (None, 0)
    assert any("rule impossible at stage y, " in note and "nowhere" in note for note in result.notes)
    assert "there was nothing to search: no sketch of auto could be made" in result.notes
    assert result.unsearchable
    assert exit_status(result) == MeasureError.exit_status


def test_a_rule_of_the_users_that_fails_everywhere_is_an_error() -> None:
    with pytest.raises(ScheduleError, match="rule impossible at stage y"):
        autosched.search_space(Workload("w", plus_one((32,))), "llvm", space="auto", rules=[impossible])


def test_statements_that_numpy_cannot_check_are_refused(tmp_path) -> None:
    with pytest.raises(BuildError, match=r"no Python function is registered under that name.*\n.*register_func"):
        tuned(statements(), "llvm", tmp_path)
