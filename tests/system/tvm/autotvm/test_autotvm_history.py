"""What earlier logs are good for: a model's beginning, configurations in a graph's order, databases."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from autosched.errors import UsageError
from autosched.model import make_model
from autosched.records import Task, read_transfer
from autosched.search import make_strategy
from autosched.space.space import SearchSpace, template_space
from autosched.tvm import autotvm, target, te
from autosched.tvm.autotvm.database import DummyDatabase, RedisDatabase, filter_inputs
from autosched.tvm.autotvm.task.dispatcher import clear_fallback_cache
from autosched.tvm.autotvm.task.space import SplitEntity, get_factors, get_pow2s
from autosched.tvm.autotvm.tracing import TracedTask
from autosched.tvm.autotvm.tuner import of_template, write_history


@autotvm.template("history/scale")
def scale(n, m):
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] * 2.0, name="B")
    s = te.create_schedule(B.op)
    y, x = s[B].op.axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=3)
    cfg.define_annotate("ann", [x], policy="try_vec")
    yo, yi = cfg["tile_y"].apply(s, B, y)
    xo, xm, xi = cfg["tile_x"].apply(s, B, x)
    s[B].reorder(yo, xo, xm, yi, xi)
    cfg["ann"].apply(s, B, [xi])
    return s, [A, B]


def task_of(*args: int) -> autotvm.task.Task:
    return autotvm.task.create("history/scale", args=args, target="llvm")


def log_of(task: autotvm.task.Task) -> list[tuple[autotvm.MeasureInput, autotvm.MeasureResult]]:
    """Every configuration of a task: the longer the innermost loop, the faster; vectors of one fail."""
    pairs = []
    for index in range(len(task.config_space)):
        config = task.config_space.get(index)
        inner, vector = config["tile_x"].size[-1], "vec" in config["ann"].anns
        good = not (vector and inner == 1)
        result = ((1e-3 / inner,), 0) if good else (("no vector",), 4)
        pairs.append((autotvm.MeasureInput(task.target, task, config), autotvm.MeasureResult(*result, 0.1, 1.6e9)))
    return pairs


def space_of(task: autotvm.task.Task) -> tuple[TracedTask, SearchSpace]:
    traced = TracedTask(task)
    return traced, template_space(traced.workload, traced.target, {})


@autotvm.template("history/names")
def named(n):
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[i, j] * 2.0, name="B")
    s, cfg = te.create_schedule(B.op), autotvm.get_config()
    for name, loop in zip(("te", "tile x"), B.op.axis, strict=True):
        cfg.define_split(name, loop, num_outputs=2)
        cfg[name].apply(s, B, loop)
    return s, [A, B]


def test_knobs_are_called_as_their_splits_with_a_number() -> None:
    task = autotvm.task.create("history/names", args=(8,), target="llvm")
    traced, space = space_of(task)
    (sketch,) = space.sketches
    assert [k.name for k in sketch.knobs] == ["te_1", "tile_x_1"]
    assert {traced.point_of(task.config_space.get(i), space) for i in range(16)} == {
        (0, (i, j)) for i in range(4) for j in range(4)
    }


def test_every_configuration_is_one_point() -> None:
    task = task_of(4, 8)
    traced, space = space_of(task)
    found = [traced.point_of(task.config_space.get(i), space) for i in range(len(task.config_space))]
    assert None not in found and len(set(found)) == len(found) == space.valid
    other = task_of(4, 16).config_space
    unknown = [traced.point_of(other.get(i), space) is None for i in range(len(other))]
    assert unknown == [8 % np.prod(other.get(i)["tile_x"].size[1:]) != 0 for i in range(len(other))]


def test_a_log_of_other_shapes_says_where_the_search_begins(tmp_path: Path) -> None:
    task, pairs = task_of(8, 32), log_of(task_of(4, 16))
    assert write_history(task, of_template(task, pairs), tmp_path) == len(pairs)
    traced, space = space_of(task)
    own = Task(traced.workload.name, traced.workload.key, (), str(traced.target), "this")
    known = read_transfer(
        own, "llvm", version=space.feature_version, width=len(space.feature_names), folder=str(tmp_path)
    )
    assert len(known.seconds) == len(pairs) and known.describe(own).endswith("of 1 other shape, 1 other device")
    assert np.isinf(known.seconds).sum() == sum(r.error_no != 0 for _, r in pairs) > 0
    model = make_model("xgb", space.feature_names, seed=0, threads=1)
    model.prime(known.features, known.seconds, known.groups)
    first = make_strategy("annealing", space, seed=0, model=model, random_share=0.0).propose(8)
    inner = [space.sketches[c.sketch].values(c.indices)["tile_x_2"] for c in first]
    assert np.mean(inner) >= 8  # of 1, 2, 4, 8, 16 and 32, whose mean over the space is below 6


def test_tuners_begin_with_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "autotvm")
    task = task_of(4, 8)
    tuner = autotvm.tuner.XGBTuner(task)
    tuner.load_history(log_of(task_of(4, 4))[:5])
    assert any("5 measurements of history/scale are too few" in m for m in caplog.messages)
    pairs = [*log_of(task_of(4, 16)), *log_of(task)]
    tuner.load_history(iter(pairs), min_seed_records=50)
    options = autotvm.measure_option(
        builder=autotvm.LocalBuilder(timeout=120, n_parallel=1),
        runner=autotvm.LocalRunner(timeout=120, number=1, repeat=1),
    )
    db, seen = DummyDatabase(), []
    tuner.tune(
        2,
        options,
        callbacks=[autotvm.callback.log_to_database(db), lambda _, inputs, results: seen.extend(zip(inputs, results))],
    )
    # its own configurations count too: a log does not say whether they were measured here
    assert any(f"primed with {len(pairs)} trials of 1 other shape" in m for m in caplog.messages)
    assert tuner.result.trials == 2 == len(seen)
    for inp, result in seen:
        assert db.load(inp) == result
    assert filter_inputs(db, [i for i, _ in seen])[1] == []


def test_tuners_without_a_model_ignore_a_log() -> None:
    for kind in (autotvm.tuner.RandomTuner, autotvm.tuner.GridSearchTuner, autotvm.tuner.GATuner):
        kind(task_of(4, 8)).load_history(iter(log_of(task_of(4, 8))), min_seed_records=1)


def test_what_is_not_in_the_space_any_more_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    task, pairs = task_of(4, 8), log_of(task_of(4, 8))
    inp, result = pairs[0]
    other = autotvm.ConfigEntity(0, None, {**inp.config._entity_map, "tile_x": SplitEntity([-1, 3, 5])})
    nowhere = autotvm.MeasureInput(inp.target, autotvm.task.Task("history/scale", ("x", 8)), inp.config)
    assert write_history(task, [(inp._replace(config=other), result), (nowhere, result), pairs[1]], tmp_path) == 1
    assert any("1 of 2 configurations" in m for m in caplog.messages)
    assert any("teach nothing" in m for m in caplog.messages)


def test_a_part_of_the_space_by_index() -> None:
    task = task_of(4, 8)
    tuner = autotvm.tuner.GridSearchTuner(task, range_idx=(7, 11))
    traced = TracedTask(task, tuner.range_idx)
    space = template_space(traced.workload, traced.target, {})
    points = [traced.point_of(task.config_space.get(i), space) for i in range(len(task.config_space))]
    feasible = [i for i, p in enumerate(points) if p and space.sketches[p[0]].mask(np.array([p[1]]))[0]]
    assert feasible == [7, 8, 9, 10, 11]


def test_configurations_in_a_graph_s_order() -> None:
    first, second = log_of(task_of(4, 8)), log_of(task_of(4, 16))
    wanted = [first[3], second[9]]
    with autotvm.apply_graph_best(wanted) as best, target.Target("llvm"):
        for args, (inp, _) in zip([(4, 8), (4, 16), (4, 8)], [*wanted, wanted[0]]):
            s, _ = scale(*args)
            assert f"factor={inp.config['tile_x'].size[-1]}" in str(s.trace)
        assert best.query(target.Target("llvm"), ("nothing", 1)).is_fallback
    with (
        autotvm.apply_graph_best(wanted[1:]),
        target.Target("llvm"),
        pytest.raises(UsageError, match=r"record 1 of 1 is of \('history/scale', 4, 16\)"),
    ):
        scale(4, 8)


def test_databases() -> None:
    (inp, result), (other, failed) = log_of(task_of(4, 8))[0], log_of(task_of(4, 8))[-1]
    failed = failed._replace(costs=(1e9,), error_no=4)
    db = DummyDatabase()
    assert db.load(inp) is None and db.load(inp, get_all=True) == []
    db.save(inp, result)
    db.save(inp, result._replace(costs=(0.5,)), extend=True)
    assert db.load(inp).costs == (0.5,) and len(db.load(inp, get_all=True)) == 2
    db.save(inp, result)
    assert len(db.load(inp, get_all=True)) == 1
    db.save(other, failed)
    assert filter_inputs(db, [inp, other]) == ([result, failed], [])
    results, unsaved = filter_inputs(db, [inp, other], retry=True)
    assert results == [result, None] and unsaved == [other]
    assert [i.config for i, _ in db.filter(lambda i, found: found[0].error_no == 0)] == [inp.config]
    db.flush()
    assert db.load(inp) is None
    with pytest.raises(UsageError, match="no client for a Redis server"):
        RedisDatabase()


def test_names_where_programs_look_for_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert get_factors(12) == [1, 2, 3, 4, 6, 12] and get_pow2s(12) == [1, 2, 4, 8]
    assert autotvm.task.space.SplitEntity is SplitEntity is autotvm.SplitEntity
    assert autotvm.task.dispatcher.ApplyGraphBest is autotvm.ApplyGraphBest
    assert autotvm.task.topi_integration.register_topi_compute is autotvm.register_topi_compute
    with target.Target("llvm") as on, autotvm.tophub.context(on):
        config = autotvm.task.dispatcher.DispatchContext.current.query(on, ("history/scale", 4, 8))
        config["tile_x"] = SplitEntity([-1, 1, 4])
        clear_fallback_cache(on, ("history/scale", 4, 8))
        assert "tile_x" not in autotvm.task.get_config()
    bar = autotvm.callback.progress_bar(1)
    assert not autotvm.GLOBAL_SCOPE.silent
    autotvm.env.GLOBAL_SCOPE.silent = True
    try:
        bar(None, *zip(*log_of(task_of(2, 2))[:1]))
    finally:
        autotvm.GLOBAL_SCOPE.silent = False
    assert capsys.readouterr().err == ""
