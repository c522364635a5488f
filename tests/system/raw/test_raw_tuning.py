"""Raw kernels tuned, recorded, resumed and built, with PoCL and the C compiler of this machine."""

from __future__ import annotations

import json

import numpy as np
import pytest
from raw_kernels import ADD, AXPY, FAST, add_words, axpy_words, kernel, operands

import autosched
from autosched.errors import BuildError, MeasureError, WorkloadError
from autosched.kernels import build_kernel, run_kernel, tune_kernel
from autosched.runtime import c_compiler
from autosched.tuning import Preflight, TrialDone, tune_tasks

needs_compiler = pytest.mark.skipif(c_compiler.find_compiler() is None, reason="no C compiler")


DECLARED = f"""
import numpy as np
from autosched import raw_kernel

ADD = '''{ADD}'''


@raw_kernel(tune_params={{"block_size_x": [16, 64], "tile": [1, 2]}}, grid_div_x=["block_size_x", "tile"])
def add(n: int = 500):
    a = np.ones(n, np.float32)
    arguments = [0 * a, a, a, np.int32(n)]
    return dict(kernel_source=ADD, problem_size=n, arguments=arguments, answer=lambda c, *_: 0 * c + 2)
"""


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A vector addition tuned exhaustively; a configuration that is wrong, and one that does not compile."""
    source = ADD.replace("a[i + k] +", "a[i + k] + (tile == 3) +").replace(
        "{\n", "{\n#if tile == 5\n  oops\n#endif\n", 1
    )
    folder = tmp_path_factory.mktemp("records")
    words = add_words(source, tune_params={"block_size_x": [16, 64], "tile": [1, 2, 3, 5]})
    events = []
    found = tune_kernel(**words, records=folder, measure=FAST, strategy="brute_force", progress=events.append)
    return found, words, folder, events


def test_every_configuration_is_tried_and_judged(tuned):
    found, _, _, events = tuned
    assert [type(e) for e in events if isinstance(e, (Preflight, TrialDone))] == [Preflight] + [TrialDone] * 7
    status = {(r["block_size_x"], r["tile"]): r["status"] for r in found.results}
    expected = {1: "ok", 2: "ok", 3: "correctness", 5: "compile"}
    assert status == {(x, t): expected[t] for x in (16, 64) for t in expected}
    assert found.best_config["tile"] in (1, 2)
    json.dumps(found.outcome.to_json())


def test_a_failure_says_what_and_where(tuned):
    errors = {r["tile"]: r["error"] for r in tuned[0].results}
    assert "add.cl:4 is: oops" in errors[5]
    assert "c: " in errors[3]
    assert "1,000 of 1,000 elements differ, first at [0]: got 6, expected 5" in errors[3]


def test_results_are_kernel_tuners(tuned):
    results, env = tuned[0]
    ok = next(r for r in results if r["status"] == "ok")
    assert ok["time"] == pytest.approx(np.median(ok["times"]))
    assert env["target"] == "opencl"
    table = tuned[0].frame()
    assert table["time"].is_monotonic_increasing
    assert {"block_size_x", "tile", "time", "status"} <= set(table.columns)


def test_the_same_call_goes_on_where_it_stopped(tuned):
    _, words, folder, _ = tuned
    again = tune_kernel(**words, records=folder, measure=FAST, strategy="brute_force")
    assert again.outcome.resumed == 7
    assert again.outcome.trials == 0
    assert len(again.results) == 8


def test_the_best_record_is_built_and_computes(tuned):
    found, _, folder, _ = tuned
    built = build_kernel(found.kernel, records=folder)
    assert built.note.startswith("record ")
    c, a, b = operands()
    result = built(c, a, b, np.int32(len(a)))
    assert result is c
    np.testing.assert_array_equal(c, a + b)
    np.testing.assert_array_equal(built(np.zeros_like(a), b, b), b + b)
    assert all(s > 0 for s in built.time(c, a, b, number=1))
    assert "#define tile " in built.source
    with pytest.raises(BuildError, match="built for"):
        built(c, a, b, np.int32(3))
    with pytest.raises(BuildError, match="2 arguments are given"):
        built(c, a)


def test_without_a_record_the_first_valid_values_are_built(tmp_path):
    built = build_kernel(kernel(add_words(restrictions=["tile == 2"])), records=tmp_path)
    assert built.params == {"block_size_x": 16, "tile": 2}
    assert "no record" in built.note


@pytest.mark.parametrize(
    ("source", "words", "status", "why"),
    [
        (ADD.replace("a[i + k] +", "a[i + k] -"), {}, "correctness", "c: "),
        (ADD.replace("int k = 0", "int k = nothing"), {}, "compile", "add.cl:4 is: for"),
        (
            ADD.replace(
                "{\n", "{\n__local float big[1 << 24]; big[get_local_id(0)] = a[0]; barrier(1); c[0] = big[0];\n", 1
            ),
            {},
            "",
            "bytes",
        ),
        (
            ADD.replace("void add", "__attribute__((reqd_work_group_size(8, 1, 1))) void add"),
            {},
            "compile",
            "8 x 1 x 1",
        ),
    ],
)
def test_when_no_configuration_works_the_reason_is_given(source, words, status, why, tmp_path):
    with pytest.raises(MeasureError) as caught:
        tune_kernel(**add_words(source, **words), records=tmp_path, measure=FAST)
    assert why in str(caught.value)
    assert status in str(caught.value)


@needs_compiler
def test_c_is_compiled_verified_and_timed(tmp_path):
    """The output is an input as well: every verified run starts from what was given."""
    found = tune_kernel(**axpy_words(), records=tmp_path, measure=FAST)
    assert found.outcome.target == "c"
    assert {(r["STEP"], r["status"]) for r in found.results} == {(4, "ok"), (8, "ok")}
    _, y, x = operands()
    np.testing.assert_array_equal(found.build()(y.copy(), x), y + 2 * x)


@needs_compiler
@pytest.mark.parametrize(
    ("source", "status", "why"),
    [
        (AXPY.replace("alpha *", "beta *"), "compile", "axpy.c:4 is: for (int k = i"),
        (AXPY.replace("k < n; ++k) y[k]", "k < n; ++k) y[k * 100000]"), "crash", "SIGSEGV"),
        (AXPY.replace("{\n", "{\n  for (volatile int spin = 1; spin;) { }\n", 1), "timeout", "first run"),
    ],
)
def test_c_that_fails_is_contained(source, status, why, tmp_path):
    from dataclasses import replace

    words = axpy_words(source, tune_params={"STEP": [4]})
    with pytest.raises(MeasureError) as caught:
        tune_kernel(**words, records=tmp_path, measure=replace(FAST, timeout_s=0.3))
    assert status in str(caught.value)
    assert why in str(caught.value)


@needs_compiler
def test_values_that_work_stay_the_default_in_later_rounds(tmp_path):
    """The first ones do not compile: the play-off, for which workers start anew, takes those that were measured."""
    source = AXPY.replace("{\n", "{\n#if STEP == 1\n  oops\n#endif\n", 1)
    one = kernel(axpy_words(source, tune_params={"STEP": [1, 4, 8]}))
    found = tune_tasks([one], "c", trials=2, round_trials=1, records=tmp_path, measure=FAST, strategy="grid")
    assert any("STEP=1) fails" in note for note in found.results[0].notes)
    assert not any("failed in the play-off" in note for note in found.results[0].notes)


def test_without_a_compiler_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(c_compiler, "compiler_commands", list)
    with pytest.raises(BuildError, match="no C compiler is found"):
        build_kernel(kernel(axpy_words()), {"STEP": 4})


@needs_compiler
def test_run_kernel_is_for_unit_tests():
    words = axpy_words(answer=None)
    del words["tune_params"]
    _, y, x = operands()
    result = run_kernel(**words, params={"STEP": 4})
    np.testing.assert_array_equal(result[0], y + 2 * x)
    np.testing.assert_array_equal(words["arguments"][0], y)


PRODUCT = "{} void product({} float *y, {} const float *x, int n) {{ {} y[i] = x[i] * x[i] - x[n - 1 - i] * x[i]; }}"
CONTRACTED = {
    "c": PRODUCT.format("", "", "", "for (int i = 0; i < n; ++i)"),
    "opencl": PRODUCT.format("__kernel", "__global", "__global", "int i = get_global_id(0); if (i < n)"),
}


@pytest.mark.parametrize("target", ["c", "opencl"])
def test_a_strict_target_contracts_nothing(target):
    if target == "c" and c_compiler.find_compiler() is None:
        pytest.skip("no C compiler")
    x = np.random.default_rng(0).random(1000).astype(np.float32)
    arguments = [np.zeros_like(x), x, np.int32(1000)]
    rounded_twice = x * x - x[::-1] * x
    params = {"block_size_x": 8}
    y, *_ = run_kernel("product", CONTRACTED[target], 1000, arguments, params, target=f"{target} -strict")
    assert np.array_equal(y, rounded_twice)


@pytest.mark.parametrize("wrong", [None, 5, "x", [], {}, object(), np.zeros(3)], ids=lambda x: type(x).__name__)
def test_a_built_kernel_refuses_what_is_no_array_of_its_own(wrong):
    built = build_kernel(kernel(add_words()), {"block_size_x": 16, "tile": 1})
    c, a, b = operands()
    for given in ((c, wrong, b), (c, a, wrong), (c, a, b, wrong)):
        with pytest.raises(BuildError):
            built(*given)
        with pytest.raises(BuildError):
            built.time(*given)
    assert np.array_equal(built(c, a, b, np.int32(len(a))), a + b)


def test_poison_shows_what_was_right_by_chance(tmp_path):
    """The outputs are given as zeros, and the kernel leaves out the elements that shall be zero."""
    source = ADD.replace("if (i + k < n)", "if (i + k < n && a[i + k] + b[i + k] != 0)")
    words = add_words(source, tune_params={"block_size_x": [64], "tile": [1]})
    with pytest.raises(MeasureError, match="correctness.*got nan, expected 0"):
        tune_kernel(**words, records=tmp_path, measure=FAST, poison=True)


def test_an_output_that_holds_its_answer_is_poisoned():
    words = add_words()
    words["arguments"][0] = words["answer"][0].copy()
    k = kernel(words)
    assert k.initial([]) == [None]
    assert kernel(add_words()).initial([])[0] is not None


def test_the_command_line_tunes_and_builds_kernels(tmp_path, capsys):
    from autosched.cli.app import main

    path = tmp_path / "mine.py"
    path.write_text(DECLARED)
    where = [f"{path}:add", "--param", "n=400", "--records", str(tmp_path)]
    fast = ["--min-repeat-ms", "0.2", "--builders", "1", "--repeat", "2", "--progress", "none"]
    assert main(["tune", *where, "--trials", "1", *fast]) == 0
    assert "add(n=400)" in capsys.readouterr().out
    assert main(["build", *where, "--json"]) == 0
    built = json.loads(capsys.readouterr().out)
    assert built["params"]["tile"] in (1, 2)
    assert built["seconds"] > 0
    assert main(["tune", *where, "--target", "llvm", "--trials", "1"]) == 2
    assert "it is written in OpenCL" in capsys.readouterr().err
    assert main(["show", *where]) == 2
    assert "which has no schedule" in capsys.readouterr().err


def test_a_declared_kernel_is_found_and_tuned_as_a_workload_is(tmp_path):
    from autosched.space.loading import find_workload

    path = tmp_path / "kernels.py"
    path.write_text(DECLARED)
    declared = find_workload(f"{path}:add")
    assert declared.parameters == {"n": 500}
    k = declared(n=700)
    declared.common["nonsense"] = 1
    with pytest.raises(WorkloadError, match="unexpected keyword argument 'nonsense'"):
        declared()
    assert k.spec.arguments[0].shape == (700,)
    result = autosched.tune(k, "opencl", trials=2, records=tmp_path, measure=FAST)
    assert result.trials == 2
    assert "#define tile " in result.schedule_python
