"""One workload for many sizes: which kernels are kept, how they are recorded, built and printed, what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import autosched
from autosched import build, te
from autosched.cli.app import main
from autosched.errors import UsageError
from autosched.measure.protocol import MeasureOptions
from autosched.records import RecordLog, latest
from autosched.tuning import Note, TasksProgress, tune_sizes
from autosched.tuning import sizes as sizes_module
from autosched.tuning.playoff import finalists_of
from autosched.tuning.sizes import choose

FAST = MeasureOptions(min_repeat_ms=0.2, builders=1)
SIZES = [{"n": 3}, {"n": 70}, {"n": 900}]


@autosched.workload
def scaled(columns=8):
    n = te.var("n")
    x = te.placeholder((n, columns), name="x")
    return x, te.compute((n, columns), lambda i, j: x[i, j] * 2.0, name="y")


@autosched.template(scaled)
def rows(s):
    """Blocks of rows: of one that is best for few, of one that is best for many."""
    (y,) = s.outputs
    outer, _ = s[y].split(s[y].op.axis[0], factor=s.define_knob("block", [1, 2, 4, 8, 16, 64]))
    s[y].parallel(outer)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    told: list[object] = []
    result = tune_sizes(
        scaled, SIZES, "llvm", trials=6, tolerance=0.0, records=folder, measure=FAST, progress=told.append
    )
    return folder, result, told


def test_every_size_is_served_by_a_kernel_that_was_measured_there(tuned) -> None:
    folder, result, told = tuned
    assert result.sizes == SIZES
    assert len(result.serves) == len(result.seconds) == len(result.regrets) == 3
    assert set(result.serves) == set(range(len(result.kernels)))
    assert result.worst == sorted(result.worst, reverse=True)
    assert max(result.regrets) == result.worst[-1] == 0.0  # with one kernel for each size nothing is lost
    assert [t.name for t in next(e for e in told if isinstance(e, TasksProgress)).tasks] == [
        f"scaled(columns=8) at n={at['n']}" for at in SIZES
    ]
    log = RecordLog(folder / "scaled.llvm.jsonl").read()
    chosen = [r for r in latest(log.records) if r.family is not None]
    assert {(r.sizes["n"], r.family[1]) for r in chosen} == {
        (at["n"], k) for at, k in zip(SIZES, result.serves, strict=True)
    }
    # so few trials that all are among the best of their size, which are measured everywhere
    tried = {(r.sizes["n"], json.dumps(r.knobs)) for r in log.records if r.ok and r.knobs}
    assert tried == {(at["n"], knobs) for at in SIZES for _, knobs in tried}
    json.dumps(result.to_json())


def test_patience_ends_the_search_and_not_the_comparison(tmp_path, monkeypatch) -> None:
    for at in (SIZES[0], SIZES[2]):
        autosched.tune(scaled, "llvm", sizes=at, trials=6, records=tmp_path, measure=FAST)
    best: set[int] = set()

    def spy(run):
        found = finalists_of(run)
        best.update(r.knobs["block"] for r in found[: sizes_module.SHARED])
        return found

    monkeypatch.setattr(sizes_module.playoff, "finalists_of", spy)
    tune_sizes(scaled, SIZES, "llvm", trials=3, patience=1, records=tmp_path, measure=FAST)
    log = RecordLog(tmp_path / "scaled.llvm.jsonl").read()
    tried = {r.knobs["block"] for r in log.records if r.knobs and r.sizes == SIZES[1]}
    assert len(best) >= 3
    assert best <= tried  # also where none of them is faster than what was found there


@autosched.workload
def tripled():
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    return x, te.compute((n,), lambda i: x[i] * 3.0, name="y")


@autosched.template(tripled)
def whole_blocks(s):
    (y,) = s.outputs
    outer, inner = s[y].split(s[y].op.axis[0], factor=s.define_knob("block", [8, 16]), disable_predication=True)
    s[y].parallel(outer)
    s[y].vectorize(inner)


def test_kernels_that_require_something_of_sizes_leave_the_rest_to_the_default_schedule(tmp_path) -> None:
    tune_sizes(tripled, [{"n": 64}, {"n": 6400}], "llvm", trials=4, records=tmp_path, measure=FAST)
    log = RecordLog(tmp_path / "tripled.llvm.jsonl")
    for r in latest(log.read().records):  # whatever the machine found: a family of nothing else
        if r.knobs:
            log.append(r.with_family("r", r.knobs["block"] // 16, "2999-01-01T00:00:00+00:00"))
    module = build(tripled, "llvm", records=str(tmp_path))
    assert {k["sketch"] for k in module.provenance["kernels"]} == {"whole_blocks"}
    for n in (0, 3, 8, 64, 65, 6400):
        x = np.ones(n, dtype=np.float32)
        np.testing.assert_array_equal(module(x), 3 * x)


def test_build_asks_for_the_sizes_of_a_call(tuned) -> None:
    folder, result, _ = tuned
    module = build(scaled, "llvm", records=str(folder))
    assert module.provenance["kind"] == "family"
    assert len(module.provenance["kernels"]) == len(result.kernels)
    assert sorted(at["n"] for k in module.provenance["kernels"] for at in k["served"]) == [3, 70, 900]
    for n in (0, 1, 3, 15, 70, 300, 900, 2000):
        x = np.ones((n, 8), dtype=np.float32)
        np.testing.assert_array_equal(module(x), 2 * x)
    assert build(scaled, "llvm", records=str(folder), sizes={"n": 70}).provenance["kind"] == "record"


def test_kernels_that_do_not_apply_any_more_are_passed_over(tuned, tmp_path) -> None:
    folder, _, _ = tuned
    log = RecordLog(tmp_path / "scaled.llvm.jsonl")
    marked = [r for r in latest(RecordLog(folder / "scaled.llvm.jsonl").read().records) if r.family is not None]
    for r in marked:  # a kernel may serve several sizes, as the machine finds
        log.append(replace(r, trace=[["no_such_primitive"]]) if r.family == marked[0].family else r)
    with pytest.warns(RuntimeWarning, match="passed over"):
        module = build(scaled, "llvm", records=str(tmp_path))
    x = np.ones((3, 8), dtype=np.float32)
    np.testing.assert_array_equal(module(x), 2 * x)


def test_one_kernel_where_it_loses_little(tmp_path) -> None:
    result = tune_sizes(scaled, SIZES[1:], "llvm", trials=2, tolerance=1e9, records=tmp_path, measure=FAST)
    assert len(result.kernels) == 1
    assert result.guard(0) == "otherwise"
    module = build(scaled, "llvm", records=str(tmp_path))
    assert module.provenance["note"] == "one kernel for all sizes"


def test_interrupted_runs_choose_nothing(tmp_path, monkeypatch) -> None:
    told: list[object] = []

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("autosched.tuning.sizes.playoff.hold", stop)
    result = tune_sizes(scaled, SIZES[:2], "llvm", trials=2, records=tmp_path, measure=FAST, progress=told.append)
    assert result.interrupted
    assert not result.kernels
    assert any(isinstance(e, Note) and "interrupted before kernels were chosen" in e.text for e in told)
    assert len(RecordLog(tmp_path / "scaled.llvm.jsonl").read().records) >= 4
    assert build(scaled, "llvm", records=str(tmp_path)).provenance["kind"] == "record"


@autosched.workload
def fixed():
    x = te.placeholder((8,), name="x")
    return x, te.compute((8,), lambda i: x[i] * 2.0, name="y")


@pytest.mark.parametrize(
    ("what", "sizes", "options", "why"),
    [
        (fixed, [{"n": 3}], {}, "its shapes are fixed"),
        (scaled, [], {}, "there are no sizes"),
        (scaled, [{"m": 3}], {}, "are not its sizes"),
        (scaled, [{"n": 0}], {}, "are not its sizes"),
        (scaled, [{"n": 3}, {"n": 3}], {}, "given twice"),
        (scaled, [{"n": 3}], {"kernels": 0}, "kernels=0"),
        (scaled, [{"n": 3}], {"tolerance": math.nan}, "tolerance=nan"),
        (scaled, [{"n": 3}], {"weights": [1, 2]}, "is not 1 weight"),
        (scaled, [{"n": 3}], {"trials": 0}, "not more than 0"),
    ],
)
def test_what_is_refused(what, sizes, options, why, tmp_path) -> None:
    with pytest.raises(UsageError, match=why):
        tune_sizes(what, sizes, "llvm", records=tmp_path, **options)


# -- which kernels -------------------------------------------------------------------------------
def test_one_more_kernel_only_while_it_pays() -> None:
    table = np.array([[1.0, 9.0, 9.0], [2.0, 3.0, 9.0], [1.5, 3.1, 1.0]])
    assert [p.chosen for p in choose(table, [1, 1, 1], most=3, tolerance=0.6)] == [(2,)]
    some = choose(table, [1, 1, 1], most=3, tolerance=0.05)
    assert [p.chosen for p in some] == [(2,), (0, 2)]
    assert some[1].serves == (0, 1, 1)
    assert some[1].regrets == pytest.approx((0.0, 0.1 / 3, 0.0))
    assert [len(p.chosen) for p in choose(table, [1, 1, 1], most=3, tolerance=0.0)] == [1, 2, 3]
    assert len(choose(table, [1, 1, 1], most=2, tolerance=0.0)) == 2


def test_weights_decide_between_kernels_that_are_as_good_at_their_worst() -> None:
    table = np.array([[1.0, 1.2], [1.2, 1.0]])
    assert choose(table, [9, 1], most=1, tolerance=0.5)[0].chosen == (0,)
    assert choose(table, [1, 9], most=1, tolerance=0.5)[0].chosen == (1,)


def test_kernels_that_do_not_run_at_a_size() -> None:
    table = np.array([[1.0, math.inf], [math.inf, 1.0], [3.0, 4.0]])
    assert [p.chosen for p in choose(table, [1, 1], most=2, tolerance=0.1)] == [(2,), (0, 1)]
    with pytest.raises(ValueError, match="size 1"):
        choose(table[:1], [1, 1], most=2, tolerance=0.1)


@settings(deadline=None, max_examples=30)
@given(arrays(float, (9, 4), elements=st.floats(1, 10)), st.integers(2, 4))
def test_greedy_choices_are_near_the_best(table, most) -> None:
    import autosched.tuning.sizes as portfolio

    exact = choose(table, [1] * 4, most=most, tolerance=0.0)
    enough = portfolio.ENOUGH
    try:
        portfolio.ENOUGH = 1
        greedy = choose(table, [1] * 4, most=most, tolerance=0.0)
    finally:
        portfolio.ENOUGH = enough
    assert greedy[-1].worst <= greedy[0].worst
    assert 1 + greedy[-1].worst <= 2.0 * (1 + exact[-1].worst)


# -- the command line ----------------------------------------------------------------------------
SOURCE = '''
from autosched import te, workload

@workload
def doubled(columns=8):
    """x[n, columns] -> 2 x"""
    n = te.var("n")
    x = te.placeholder((n, columns), name="x")
    return x, te.compute((n, columns), lambda i, j: x[i, j] * 2.0, name="y")
'''


def test_tune_at(tmp_path, capsys) -> None:
    (tmp_path / "doubled.py").write_text(SOURCE)
    what, folder = f"{tmp_path / 'doubled.py'}:doubled", str(tmp_path / "records")
    quick = ["--trials", "4", "--min-repeat-ms", "0.2", "--progress", "none", "--records", folder]
    assert main(["tune", what, "--at", "n=4", "--at", "n=300", "--tolerance", "1000", *quick]) == 0
    out = capsys.readouterr().out
    assert "n=300" in out
    assert "kernel 1, otherwise: " in out
    assert "build with it: " in out
    assert main(["build", what, "--records", folder]) == 0
    out = capsys.readouterr().out
    assert "one kernel for all sizes" in out
    assert "at n=300" in out
    assert main(["tune", what, "--at", "n=4", "--at", "n=300", "--tolerance", "0.001", "--json", *quick]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sizes"] == [{"n": 4}, {"n": 300}]
    assert main(["show", what, "--records", folder]) == 0
    assert capsys.readouterr().out.count("def schedule(s):") == len(found["kernels"])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--at", "n=4,m=3"], "--at m=3: "),
        (["--at", "n"], "is not NAME=VALUE"),
        (["--at", "n=4", "--size", "n=4"], "--at sets the sizes already"),
        (["--at", "n=4", "--trials", "0"], "chosen by measuring them"),
        (["--at", "n=4", "--tolerance", "-1"], "not a number of percent"),
        (["--at", "n=4", "--at", "n=4"], "given twice"),
        (["--kernels", "2"], "--at"),
    ],
)
def test_wrong_options(options, why, tmp_path, capsys) -> None:
    (tmp_path / "doubled.py").write_text(SOURCE)
    words = ["tune", f"{tmp_path / 'doubled.py'}:doubled", *options, "--records", str(tmp_path)]
    assert main(words) != 0
    assert why in capsys.readouterr().err
