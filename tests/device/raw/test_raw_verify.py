"""Checks and objectives of the user's own: what they are given, and what their answers do."""

from __future__ import annotations

import numpy as np
import pytest
from raw_kernels import ADD, FAST, N, add_words, axpy_words, kernel, operands

from autosched.errors import MeasureError, UsageError
from autosched.kernels import build_kernel, tune_kernel
from autosched.raw.parameters import Metrics, Objective, Parameters
from autosched.runtime import c_compiler
from autosched.target import Target
from autosched.tuning import TrialDone

needs_compiler = pytest.mark.skipif(c_compiler.find_compiler() is None, reason="no C compiler")

#: writes the sums in reverse where `tile` is 2, and something else where it is 4
SHUFFLED = ADD.replace("c[i + k] =", "c[tile == 2 ? n - 1 - i - k : i + k] = (tile == 4) +")


def test_a_check_of_the_users_decides(tmp_path):
    """The order of the elements is free, so an element-wise comparison would refuse what is right."""
    _, a, b = operands()
    seen = []

    def same_elements(answer, result, atol=None):
        seen.append((answer, result, atol))
        result[0].sort()  # its own copy: nobody else sees that
        return np.array_equal(np.sort(answer[0]), result[0])

    words = add_words(SHUFFLED, tune_params={"block_size_x": [16], "tile": [1, 2, 4]})
    found = tune_kernel(**words, records=tmp_path, measure=FAST, strategy="brute_force", verify=same_elements, atol=0.5)
    status = {r["tile"]: r["status"] for r in found.results}
    assert status == {1: "ok", 2: "ok", 4: "correctness"}
    assert next(r["error"] for r in found.results if r["tile"] == 4).endswith("says it is wrong")
    answer, result, atol = seen[0]
    assert atol == 0.5 and [x is None for x in answer] == [x is None for x in result] == [False, True, True, True]
    np.testing.assert_array_equal(answer[0], a + b)
    assert {r.verified for r in found.records if r.ok} == {"full"}
    # the default and two others, twice each, one of them once; the play-off looks again
    assert len(seen) > 5
    assert build_kernel(found.kernel, records=tmp_path).note.startswith("record ")


@needs_compiler
def test_a_check_without_an_answer_sees_all_that_may_be_written(tmp_path):
    words = axpy_words()
    _, y, x = operands()
    alpha = words["arguments"][2]
    seen = []

    def close(answer, result, tolerance):
        seen.append([None if r is None else r.copy() for r in result])
        np.testing.assert_allclose(result[0], y + alpha * x, atol=tolerance)
        return True

    words.pop("answer")
    found = tune_kernel(**words, records=tmp_path, measure=FAST, verify=close, trials=1)
    assert all(r["status"] == "ok" for r in found.results)
    assert all(r[0] is not None and r[1:] == [None] * (len(r) - 1) for r in seen)
    assert found.build()(y.copy(), x, alpha, np.int32(N)).shape == (N,)  # the output is known to be one


@pytest.mark.parametrize(
    ("verify", "why"),
    [
        (lambda answer, result, atol: False, "says it is wrong"),
        (lambda answer, result, atol: None, "returned nothing"),
        (lambda answer, result, atol: result[7], "failed: IndexError"),
        (lambda answer, result, atol: np.testing.assert_array_equal(result[0], 0 * answer[0] + 99), "AssertionError"),
    ],
)
def test_a_check_that_does_not_say_yes(tmp_path, verify, why):
    words = add_words(tune_params={"block_size_x": [16], "tile": [1]})
    with pytest.raises(MeasureError, match=rf"correctness.*verify\(answer, result, atol\).*{why}"):
        tune_kernel(**words, records=tmp_path, measure=FAST, verify=verify)


def test_poison_shows_what_a_kernel_leaves_out(tmp_path):
    half = ADD.replace("i + k < n", "i + k < n / 2")
    words = add_words(half, answer=None, tune_params={"block_size_x": [16], "tile": [1]}, poison=True)
    with pytest.raises(MeasureError, match="verify"):
        tune_kernel(**words, records=tmp_path, measure=FAST, verify=lambda _, r, atol: not np.isnan(r[0]).any())
    words["poison"] = False
    tune_kernel(**words, records=tmp_path, measure=FAST, verify=lambda _, r, atol: not np.isnan(r[0]).any())


@pytest.mark.parametrize("verify", [3, lambda: True, lambda answer: True])
def test_what_is_no_check(verify):
    with pytest.raises(UsageError, match=r"verify: .*\n?.*(verify\(answer, result, atol\)|a function, or None)"):
        kernel(add_words(verify=verify))


def test_an_objective_finds_another_winner_than_the_time(tmp_path):
    """The more a work-item does, the more is wasted beyond the end; the objective counts work that is asked for."""
    words = add_words(tune_params={"block_size_x": [16], "tile": [1, 2, 4]})
    metrics = {"work": lambda r: 10.0 ** (3 * r["tile"]), "work/s": lambda r: r["work"] / r["time"], "ms": "time * 1"}
    events = []
    found = tune_kernel(
        **words, records=tmp_path, measure=FAST, strategy="brute_force", metrics=metrics,
        objective="work/s", objective_higher_is_better=True, progress=events.append,
    )  # fmt: skip
    assert found.best_config["tile"] == 4
    rows = {r["tile"]: r for r in found.results}
    assert all(r["ms"] == r["time"] and r["work/s"] == r["work"] / r["time"] for r in rows.values())
    assert list(found.frame()["tile"]) == [4, 2, 1]
    assert found.outcome.speedup > 100 and found.outcome.seconds < 1
    assert any(n.startswith("objective: ") and "work/s" in n for n in found.outcome.notes)
    assert build_kernel(found.kernel, records=tmp_path).params["tile"] == 4
    done = [e for e in events if isinstance(e, TrialDone)]
    assert done[-1].best_seconds == next(e.record.seconds for e in done if e.record.knobs["tile"] == 4)
    # the other way round, from the same records
    again = tune_kernel(
        **words, records=tmp_path, measure=FAST, metrics=metrics, objective="work/s", objective_higher_is_better=False
    )
    assert again.best_config["tile"] == 1 and again.outcome.trials == 0


@pytest.mark.parametrize(
    ("objective", "better", "why"),
    [
        ("GFLOP/s", None, "there is no such metric"),
        ("waste", None, "which way is better"),
        ("time", True, "the slowest configuration wins"),
    ],
)
def test_objectives_that_cannot_be_meant(objective, better, why):
    with pytest.raises(UsageError, match=why):
        kernel(add_words(metrics={"waste": "tile"}, objective=objective, objective_higher_is_better=better))


@pytest.mark.parametrize(
    ("metrics", "why"),
    [
        ([1], "not a dictionary"),
        ({"a": 3}, "3 is no metric"),
        ({"tile": "time"}, "results have that already"),
        ({"a": "time +"}, "no formula"),
        ({"a": "nothing / time"}, "nothing"),
    ],
)
def test_metrics_that_cannot_be_meant(metrics, why):
    with pytest.raises(UsageError, match=why):
        kernel(add_words(metrics=metrics))


def test_formulas_of_results():
    parameters = Parameters.of({"tile": [1, 2], "word": ["slow", "fast"]})
    given = {"flops": "2 * tile * 1000", "GFLOP/s": "flops / time / 1e6", "is_fast": "1 if word == 'fast' else 0"}
    row = Metrics.of(given, parameters).row({"tile": 2, "word": 1}, [1e-3, 2e-3, 4e-3])
    assert row == {
        "tile": 2, "word": "fast", "time": 2.0, "times": [1.0, 2.0, 4.0], "flops": 4000.0, "GFLOP/s": 0.002, "is_fast": 1,
    }  # fmt: skip


def test_costs_are_positive_or_there_is_none():
    parameters = Parameters.of({"tile": [1, 2, 3]})
    metrics = Metrics.of({"odd": lambda r: {1: r["time"], 2: -1.0}[r["tile"]]}, parameters)
    objective = Objective.of("odd", False, metrics)
    assert objective.costs({"tile": 1}, [1e-3, 2e-3]) == (1.0, 2.0) and objective.describe(2.0) == "2 odd"
    assert objective.costs({"tile": 2}, [1e-3]) == (float("inf"),)
    with pytest.raises(UsageError, match=r"it is -1 for \{'tile': 2\}"):
        objective.value({"tile": 2}, [1e-3])
    with pytest.raises(UsageError, match="it raised KeyError"):
        objective.value({"tile": 3}, [1e-3])
    higher = Objective.of("odd", True, metrics)
    assert higher.costs({"tile": 1}, [4e-3]) == (0.25,) and higher.describe(0.25) == "4 odd"
    assert Objective.of("time", None, metrics) is None


def test_trials_whose_objective_is_no_number_are_failures_to_the_search(tmp_path):
    words = add_words(tune_params={"block_size_x": [16], "tile": [1, 2]})
    found = tune_kernel(
        **words, records=tmp_path, measure=FAST, metrics={"odd": lambda r: r["time"] if r["tile"] == 1 else -1.0},
        objective="odd", objective_higher_is_better=False, strategy="brute_force", target=Target("opencl"),
    )  # fmt: skip
    assert found.best_config["tile"] == 1 and {r["status"] for r in found.results} == {"ok"}
