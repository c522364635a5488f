"""Ansor's rules for sketches: conditions and functions on states, asked before the rules of the generator."""

from __future__ import annotations

import numpy as np
import pytest
from ansor_logs import matmul, matmul_relu

from autosched.errors import AutoschedError, RecordError, UsageError
from autosched.ir.expr import is_const
from autosched.testing.oracle import check_against_reference
from autosched.tvm import auto_scheduler, build, te
from autosched.tvm.auto_scheduler import PreloadCustomSketchRule as Custom
from autosched.tvm.auto_scheduler import _ffi_api
from autosched.tvm.auto_scheduler.loop_state import State

ARGS = (16, 32, 8)


def task_of(target="llvm", args=ARGS) -> auto_scheduler.SearchTask:
    return auto_scheduler.SearchTask(func=f"ansor_logs.{matmul.__name__}", args=args, target=target)


def always(policy, state, stage_id):
    return Custom.APPLY_AND_SKIP_REST


def two_ways(policy, state, stage_id):
    """As it is, and in tiles."""
    s = State(state, policy.search_task.compute_dag)
    tiled = s.copy()
    c = tiled.stage_ops[stage_id]
    i, _, _ = tiled[c].iters
    tiled.split(c, i, [4, 2])
    return [[s.state_object, -1], (tiled, -1)]


def policy_of(apply=two_ways, meet=always, task=None) -> auto_scheduler.SketchPolicy:
    return auto_scheduler.SketchPolicy(task or task_of(), init_search_callbacks=[Custom(meet, apply, "mine")])


def extents(state, number=2):
    return [x.range.extent for x in state.stages[number].iters]


def test_each_state_of_a_rule_is_a_sketch() -> None:
    as_it_is, tiled = policy_of().generate_sketches()
    assert extents(as_it_is) == [16, 32, 8]
    assert extents(tiled) == [2, 4, 2, 32, 8]
    assert [x.iter_kind for x in tiled.stages[2].iters] == [0] * 4 + [1]
    assert [x.annotation for x in tiled.stages[2].iters] == [State.ANNOTATION_TRANS_TABLE["parallel"], *[0] * 4]


def test_a_rule_that_passes_changes_nothing() -> None:
    plain = auto_scheduler.SketchPolicy(task_of()).generate_sketches()
    asked = []

    def never(policy, state, stage_id):
        asked.append(State(state, policy.search_task.compute_dag).stage_ops[stage_id].name)
        return Custom.PASS

    assert list(map(str, policy_of(meet=never).generate_sketches())) == list(map(str, plain))
    assert "C" in asked


def test_applying_leaves_the_other_rules_a_chance() -> None:
    plain = auto_scheduler.SketchPolicy(task_of()).generate_sketches()
    both = policy_of(meet=lambda *_: Custom.APPLY).generate_sketches()
    assert len(both) == len(plain) + 2


def test_going_on_with_a_stage_leaves_it_to_the_generator() -> None:
    def last_only(policy, state, stage_id):
        s = State(state, policy.search_task.compute_dag)
        return [(s, stage_id - 1)]

    def is_last(policy, state, stage_id):
        return Custom.APPLY_AND_SKIP_REST if stage_id == 3 else Custom.PASS

    task = auto_scheduler.SearchTask(func=f"ansor_logs.{matmul_relu.__name__}", args=(16, 16, 16), target="llvm")
    policy = policy_of(last_only, is_last, task)
    names = {x.op.name: x for x in policy.generate_sketches()[0].stages}
    assert names["D"].iters[0].annotation == State.ANNOTATION_TRANS_TABLE["parallel"]
    assert len(names["C"].iters) > 3  # tiled by the generator


def everything(policy, state, stage_id):
    """Open lengths, a cache, an order, annotations."""
    s = State(state, policy.search_task.compute_dag)
    c = s.stage_ops[stage_id]
    local = s.cache_write(c, "local")
    i, j = s[c].iters
    i0, i1 = s.split(c, i, [None])
    j0, j1 = s.split(c, j, [None])
    s.reorder(c, [i0, j0, i1, j1])
    fused = s.fuse(c, [i0, j0])
    s.parallel(c, fused)
    s.vectorize(c, j1)
    s.compute_at(local, c, fused)
    li, lj, lk = s[local].iters
    k0, k1 = s.split(local, lk, [4])
    s.reorder(local, [k0, k1, li, lj])
    s.unroll(local, k1, max_unroll=2)
    s.pragma(local, k0, "auto_unroll_max_step$16")
    return [(s, -1)]


def test_open_lengths_are_knobs_and_every_point_is_right() -> None:
    policy = policy_of(everything)
    w = policy.task.workload
    sketch, default = w.search_space(policy.task.target, {}, "auto", policy.rules()).sketches
    assert default.name == "default"
    assert {k.values for k in sketch.knobs} == {(1, 2, 4, 8, 16), (1, 2, 4, 8, 16, 32)}
    inputs = w.sample_inputs()
    points = sketch.valid_points
    for number in range(0, points.count, max(1, points.count // 4)):
        knobs = sketch.values(points.rows([number])[0].tolist())
        check_against_reference(w.args, sketch.schedule(), policy.task.target, inputs, "interpreter", knobs)
    (state,) = policy.generate_sketches()
    assert not is_const(state[state.stage_ops[-1]].iters[-1].range.extent)
    assert [x.compute_at for x in state.stages] == [0, 0, 2, 0]


def test_a_rule_is_tuned_with_and_its_records_need_it_no_more(tmp_path) -> None:
    log = tmp_path / "log.json"
    options = auto_scheduler.TuningOptions(
        3,
        measure_callbacks=[auto_scheduler.RecordToFile(log)],
        builder=auto_scheduler.LocalBuilder(timeout=120, n_parallel=1),
        runner=auto_scheduler.LocalRunner(timeout=120, number=1, repeat=1),
        verbose=0,
    )
    task = task_of()
    result = task.tune(options, policy_of(everything, task=task))
    assert result.trials == 3
    assert not result.failures
    made = [r for r in (inp.state.record for inp, _ in auto_scheduler.RecordReader(log)) if r.sketch != "default"]
    assert all(any(call[0] == "cache_write" for call in r.trace) for r in made)
    s, args = task.compute_dag.apply_steps_from_state(auto_scheduler.load_best_record(log)[0].state)
    a, b = (np.ones([int(d.value) for d in t.shape], "float32") for t in args[:2])
    c = np.zeros([int(d.value) for d in args[2].shape], "float32")
    build(s, args, task.target)(a, b, c)
    assert (c == a.shape[1]).all()


def test_on_a_gpu_work_items_compute_what_a_rule_leaves_alone() -> None:
    task = task_of("opencl")
    sketches = policy_of(task=task).generate_sketches()
    threads = {State.ANNOTATION_TRANS_TABLE[name] for name in ("blockIdx.x", "threadIdx.x")}
    assert threads <= {x.annotation for x in sketches[0].stages[2].iters}


def test_states_are_edited_by_hand_and_are_data() -> None:
    dag = task_of().compute_dag
    s = dag.get_init_state()
    c = dag.ops[-1]
    i, j, k = s[c].iters
    other = s.copy()
    _, k1 = s.split(c, k, [4])
    s.rfactor(c, k1, 2)
    assert [x.op.name for x in s.stages] == ["A", "B", "C.rf", "C"]
    assert [step.tag for step in s.transform_steps] == ["SP", "RF"]
    assert State(s.state_object, dag) == s != other
    other.split(c, i, [2, 2], inner_to_outer=False)  # its iterators are good for copies
    assert extents(other) == [2, 2, 4, 32, 8]
    other.follow_split(c, j, 0, 1)
    schedule, _ = dag.apply_steps_from_state(other)
    assert schedule.trace


@pytest.mark.parametrize(
    ("apply", "meet", "error", "why"),
    [
        (lambda *_: [], always, UsageError, "rule mine at stage C .*it gives no state"),
        (lambda *_: 3, always, UsageError, "it gives 3.*\n.*number of the stage"),
        (lambda p, s, i: [(s,)], always, UsageError, "it gives"),
        (lambda p, s, i: [(s, i)], always, UsageError, "it goes on with stage 2"),
        (
            lambda p, s, i: [(p.search_task.compute_dag.init_state, -1)],
            always,
            UsageError,
            "a state of its is of another program",
        ),
        (two_ways, lambda *_: 7, UsageError, "its condition answers 7"),
        (two_ways, lambda *_: None, UsageError, "its condition answers None"),
        (lambda p, s, i: [][i], always, AutoschedError, "rule mine at stage C .*IndexError"),
    ],
)
def test_what_a_rule_must_not_do(apply, meet, error, why) -> None:
    with pytest.raises(error, match=why):
        policy_of(apply, meet).generate_sketches()


@pytest.mark.parametrize(
    ("edit", "error", "why"),
    [
        (lambda s, c, i, j: s.split(c, i._replace(name="z"), [2]), UsageError, "C has no iterator 'z'.*\n.*i, j, k"),
        (lambda s, c, i, j: s.split(c, i, [0]), UsageError, "are no lengths"),
        (lambda s, c, i, j: s[7], UsageError, "it has no stage 7.*\n.*A, B, C"),
        (lambda s, c, i, j: s.bind(c, i, "warp"), UsageError, "no thread 'warp'"),
        (lambda s, c, i, j: s.reorder(c, [i, j]), RecordError, "is no order of the loops"),
        (lambda s, c, i, j: s.fuse(c, [j, i]), RecordError, "not next to each other"),
        (lambda s, c, i, j: s.follow_split(c, i, 4, 1), RecordError, "step 4 is no split"),
    ],
)
def test_what_a_state_refuses(edit, error, why) -> None:
    dag = task_of().compute_dag
    s = dag.init_state
    i, j, _ = s[dag.ops[-1]].iters
    with pytest.raises(error, match=why):
        edit(s, dag.ops[-1], i, j)
    assert not s.transform_steps


def with_its_reader(policy, state, stage_id):
    """Tiles of a matmul inside of those of what reads it, element by element."""
    dag = policy.search_task.compute_dag
    s = State(state, dag)
    consumers = _ffi_api.SearchPolicyUtilsGetConsumers(policy.search_task, s.state_object, stage_id)
    assert len(consumers) == 1
    number = int(consumers.items()[0][0])
    assert _ffi_api.SearchPolicyUtilsIsElementwiseMatch(policy.search_task, s.state_object, stage_id, number)
    c, d = s.stage_ops[stage_id], s.stage_ops[number]
    i, _, _ = s[c].iters
    y, x = s[d].iters
    s.split(c, i, [None])
    outer, inner = s.follow_split(d, y, len(s.transform_steps) - 1, 1)
    s.reorder(d, [outer, x, inner])
    s.compute_at(c, d, outer)
    return [[s.state_object, stage_id - 1]]


def test_a_reader_waits_for_the_rule_of_what_it_reads() -> None:
    def is_sum(policy, state, stage_id):
        stage = State(state, policy.search_task.compute_dag).stages[stage_id]
        return Custom.APPLY_AND_SKIP_REST if len(stage.iters) == 3 else Custom.PASS

    A, B = te.placeholder((16, 16), name="A"), te.placeholder((16, 16), name="B")
    k = te.reduce_axis((0, 16), name="k")
    C = te.compute((16, 16), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((16, 16), lambda i, j: C[i, j] + 1.0, name="D")
    E = te.compute((16, 16), lambda i, j: te.max(D[i, j], 0.0), name="E")
    task = auto_scheduler.SearchTask(compute_dag=auto_scheduler.ComputeDAG([A, B, E]), target="llvm")
    policy = policy_of(with_its_reader, is_sum, task)
    (state,) = policy.generate_sketches()
    assert [x.compute_at for x in state.stages] == [0, 0, 2, 1, 0]
    assert state.stages[4].iters[0].annotation == State.ANNOTATION_TRANS_TABLE["parallel"]
    w = task.workload
    sketch = policy.space.sketches[0]
    for number in range(sketch.valid_points.count):
        knobs = sketch.values(sketch.valid_points.rows([number])[0].tolist())
        check_against_reference(w.args, sketch.schedule(), task.target, w.sample_inputs(), "interpreter", knobs)
    plain = State(auto_scheduler.loop_state.StateObject(), task.compute_dag)
    assert not _ffi_api.SearchPolicyUtilsIsElementwiseMatch(task, plain.state_object, 0, 4)
    assert list(_ffi_api.SearchPolicyUtilsGetConsumers(task, plain.state_object, 2)) == [3]
