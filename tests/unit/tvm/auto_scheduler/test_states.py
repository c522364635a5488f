"""States, computations, tasks and records of auto_scheduler as TVM's programs see them."""

import json
import math
import pickle
from importlib import import_module

import numpy as np
import pytest

from autosched.errors import RecordError, UsageError, WorkloadError
from autosched.te import reference
from autosched.tvm import auto_scheduler, te, tir
from autosched.tvm.auto_scheduler import _ffi_api, workload_registry
from autosched.tvm.auto_scheduler.loop_state import Stage, State
from autosched.tvm.auto_scheduler.measure_record import dump_record_to_string, load_record_from_string
from autosched.tvm.testing.auto_scheduler import (
    get_tiled_matmul,
    invalid_compute_definition,
    matmul_auto_scheduler_test,
    parallel_matmul_auto_scheduler_test,
)

COMPUTE_AT = Stage.COMPUTE_AT_TRANS_TABLE


def relu_of_matmul(n: int):
    A, B, C = matmul_auto_scheduler_test(n, n, n)
    return A, B, C, te.compute((n, n), lambda i, j: te.max(C[i, j], 0.0), name="D")


def test_a_state_s_text_names_and_bounds() -> None:
    A, B, C, D = relu_of_matmul(64)
    dag = auto_scheduler.ComputeDAG([A, B, D])
    s = dag.get_init_state()
    i, j, k = s[C].iters
    i0, i1 = s.split(C, i, [16])
    j0, j1 = s.split(C, j, [8])
    s.reorder(C, [i0, j0, k, i1, j1])
    s.parallel(C, s.fuse(C, [i0, j0]))
    s.vectorize(C, s[C].iters[-1])
    s.pragma(C, s[C].iters[1], "auto_unroll_max_step$16")
    s.compute_at(C, D, s[D].iters[0])
    assert [x.compute_at for x in s.stages] == [COMPUTE_AT["root"]] * 2 + [COMPUTE_AT["iter"], COMPUTE_AT["root"]]
    assert [x.range for x in s[C].iters[2:]] == [None, None]
    assert s[C].iters[-1].annotation == State.ANNOTATION_TRANS_TABLE["vectorize"]
    assert str(dag.infer_bound_from_state(s)) == (
        "Placeholder: A, B\n"
        "for i (0,64)\n"
        "  C auto_unroll: 16\n"
        "  parallel i.0@j.0@ (0,8)\n"
        "    for k (0,64)\n"
        "      for i.1 (0,16)\n"
        "        vectorize j.1 (0,8)\n"
        "          C = ...\n"
        "  for j (0,64)\n"
        "    D = ...\n"
    )
    assert dag.infer_bound_from_state(s) == s and str(s.copy()) == str(s)


def test_flop_counts_are_ansor_s() -> None:
    A, B, C, D = relu_of_matmul(32)
    assert auto_scheduler.ComputeDAG([A, B, C]).flop_ct == 2 * 32**3
    assert auto_scheduler.ComputeDAG([A, B, D]).flop_ct == 2 * 32**3 + 32**2
    E = te.compute((34, 34), lambda i, j: te.if_then_else(te.all(i > 0, j > 0, i < 33, j < 33), C[i - 1, j - 1], 0.0))
    assert auto_scheduler.ComputeDAG([A, B, E]).flop_ct == 2 * 32**3
    F = te.compute((8,), lambda i: A[i, i] * 3.0, attrs={"FLOP": 77})
    assert auto_scheduler.ComputeDAG([A, F]).flop_ct == 77
    n = te.var("n")
    V = te.placeholder((n,), name="V")
    assert auto_scheduler.ComputeDAG([V, te.compute((n,), lambda i: V[i] + 1.0)]).flop_ct == -1


def test_two_axes_of_one_name_are_refused() -> None:
    with pytest.raises(WorkloadError, match="two axes of B are called 'r1'"):
        auto_scheduler.ComputeDAG(invalid_compute_definition())


def test_stages_of_a_schedule_are_in_the_order_of_states() -> None:
    A, B, C, D, E = parallel_matmul_auto_scheduler_test(16)
    sch = te.create_schedule([D.op, E.op])
    local = sch.cache_write(D, "local")
    sch.cache_read(B, "shared", [local])
    dag = auto_scheduler.ComputeDAG(sch)
    state = auto_scheduler.ComputeDAG([A, B, C, D, E]).get_init_state()
    written = state.cache_write(D, "local")
    state.cache_read(B, "shared", [written])
    assert [op.name for op in dag.get_init_state().stage_ops] == [op.name for op in state.stage_ops]


def test_computations_and_tasks_are_pickled() -> None:
    dag, state = get_tiled_matmul()
    task = auto_scheduler.SearchTask(compute_dag=dag, workload_key='["pickled"]', target="llvm")
    again = pickle.loads(pickle.dumps(task))
    assert str(again.compute_dag) == str(dag) and again.compute_dag.key == dag.key
    assert '["pickled"]' in workload_registry.WORKLOAD_FUNC_REGISTRY
    assert list(again.hardware_params) == list(task.hardware_params) and again.hardware_params.vector_unit_bytes == 64
    inp = auto_scheduler.MeasureInput(task, state)
    copied = auto_scheduler.MeasureInput.deserialize(inp.serialize())
    assert copied.task.workload_key == task.workload_key
    assert copied.state.transform_steps == state.transform_steps
    text = dump_record_to_string(inp, auto_scheduler.MeasureResult([0.5], 0, "", 1, 2))
    read, result = load_record_from_string(text)
    assert read.state == inp.state and str(result) == "MeasureResult(cost: [0.5], all_cost: 1.00, Tstamp: 2.00)"
    assert [c.value for c in result.costs] == [0.5]


def test_an_input_of_free_layout_is_taken_as_it_is_read() -> None:
    A, B, C = matmul_auto_scheduler_test(8, 12, 6)
    dag = auto_scheduler.ComputeDAG([A, B, C])
    s = dag.get_init_state()
    i, j, k = s[C].iters
    j0, j1 = s.split(C, j, [4])
    s.reorder(C, [j0, k, i, j1])
    rewritten = auto_scheduler.LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
    schedule, args = dag.apply_steps_from_state(s, rewritten)
    assert [[int(n) for n in t.shape] for t in args] == [[8, 6], [3, 6, 4], [8, 12]]
    assert schedule[args[2]].loops[0].name.startswith("j")
    a, b = (np.random.default_rng(0).integers(0, 9, shape).astype("float32") for shape in ((8, 6), (6, 12)))
    (found,) = reference(args, [a, b.reshape(6, 3, 4).transpose(1, 0, 2)])
    assert (found == a @ b).all()
    s.fuse(C, s[C].iters[2:])
    assert dag.rewrite_layout_from_state(s) is dag  # of fused loops it stays


def test_tasks_as_text() -> None:
    task = auto_scheduler.SearchTask(
        func=matmul_auto_scheduler_test, args=(8, 8, 8), target="llvm", target_host="c", task_inputs=["A"]
    )
    again = _ffi_api.DeserializeSearchTask(_ffi_api.SerializeSearchTask(task))
    assert (again.workload_key, again.task_input_names) == (task.workload_key, ("A",))
    assert str(again.target.host) == str(task.target.host) == "c"
    assert again.layout_rewrite_option == task.layout_rewrite_option
    with pytest.raises(RecordError, match="it is no task"):
        _ffi_api.DeserializeSearchTask("{")


def test_functions_and_tensors_are_registered_in_other_processes() -> None:
    registry = workload_registry.WORKLOAD_FUNC_REGISTRY
    key = workload_registry.register_workload_tensors('["of tensors", 4]', matmul_auto_scheduler_test(4, 4, 4))
    for name in (key, "matmul_auto_scheduler_test"):
        data = pickle.loads(pickle.dumps(workload_registry.serialize_workload_registry_entry(name)))
        kept = registry.pop(name)
        workload_registry.deserialize_workload_registry_entry(data)
        assert (registry[name] is kept) == callable(kept)
    assert [t.name for t in workload_registry.workload_key_to_tensors(key)] == ["A", "B", "C"]
    with pytest.raises(UsageError, match="reading it could run code"):
        workload_registry.load_workload_func_registry("registry.pkl")


def test_arrays_of_tasks(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = auto_scheduler.search_task.TASK_INPUT_BUFFER_TABLE
    array = np.arange(6, dtype="int32").reshape(2, 3)
    monkeypatch.setitem(table, "w", {})
    register = auto_scheduler.search_task.register_task_input_buffer
    register("w", "Index", array, save_to_file=True)
    with pytest.raises(UsageError, match="Index has an array already"):
        register("w", "Index", array)
    table["w"].clear()
    found = auto_scheduler.search_task.get_task_input_buffer("w", "Index")
    assert found.dtype == array.dtype and (found == array).all()
    with pytest.raises(UsageError, match="no array is registered"):
        auto_scheduler.search_task.get_task_input_buffer("w", "Other")


def test_questions_about_stages() -> None:
    A, B, C = matmul_auto_scheduler_test(64, 64, 64)
    s = auto_scheduler.ComputeDAG([A, B, C]).get_init_state()
    assert not _ffi_api.SearchPolicyUtilsIsTiled(s[C])
    s.cache_write(C, "local")
    s.split(C, s[C].iters[0], [4])
    assert _ffi_api.SearchPolicyUtilsIsTiled(s[C])
    assert _ffi_api.SearchPolicyUtilsHasCacheWriteStage(s, 2)
    assert not _ffi_api.SearchPolicyUtilsHasCacheReadStage(s, 1)
    assert not _ffi_api.SearchPolicyUtilsHasCrossThreadReduction(s, 2)


def features(rows: np.ndarray) -> list[dict[str, float]]:
    names = auto_scheduler.feature.get_per_store_feature_names()
    assert len(names) == 164 == rows.shape[1]
    return [dict(zip(names, row.tolist(), strict=True)) for row in rows]


def test_features_of_stores() -> None:
    A, B, C = matmul_auto_scheduler_test(32, 32, 32)
    dag = auto_scheduler.ComputeDAG([A, B, C])
    s = dag.get_init_state()
    i, j, k = s[C].iters
    i0, i1 = s.split(C, i, [4])
    s.reorder(C, [i0, k, j, i1])
    s.parallel(C, i0)
    s.vectorize(C, i1)
    task = auto_scheduler.SearchTask(compute_dag=dag, workload_key="features", target="llvm")
    (row,) = features(auto_scheduler.feature.get_per_store_features_from_states([s], task)[0])
    log2p = lambda n: pytest.approx(math.log2(n + 1), rel=1e-5)  # noqa: E731
    assert row["float_mul"] == row["float_addsub"] == log2p(32**3) and row["float_mad"] == 0
    assert (row["parallel_prod"], row["vec_len"], row["num_loops"]) == (log2p(8), log2p(4), log2p(4))
    written = next(f"B{b}" for b in range(5) if row[f"B{b}.acc_type.kReadWrite"])
    assert row[f"{written}.bytes"] == log2p(4 * 32**3) and row[f"{written}.unique_bytes"] == log2p(4 * 32**2)
    assert row[f"{written}.reuse_ct"] == log2p(32)  # in loop k
    assert row[f"{written}.reuse_dis_iter"] == log2p(32 * 4)
    assert row[f"{written}.reuse_dis_bytes"] == log2p(4 * (32 * 4 + 32 + 4))
    again = s.copy()
    pairs = [(auto_scheduler.MeasureInput(task, x), auto_scheduler.MeasureResult([t], 0, "", 0, 0)) for x, t in
             ((s, 0.2), (again, 0.1))]  # fmt: skip
    found, rates, ids = auto_scheduler.feature.get_per_store_features_from_measure_pairs(*zip(*pairs, strict=True))
    assert rates.tolist() == [0.5, 1.0] and ids.tolist() == [0, 0] and (found[0] == found[1]).all()
    named = auto_scheduler.feature.named_features_from_primfunc(auto_scheduler.feature.lower(*_plain())["main"])
    assert named["float_mul"].tolist() == [32**3] and named["outer_prod"].tolist() == [32**3]
    with pytest.raises(UsageError, match="is no function"):
        auto_scheduler.feature.features_from_primfunc(3)
    alone, A = te.placeholder((), name="alone"), te.placeholder((8,), name="A")
    scaled = te.create_prim_func([alone, A, te.compute((8,), lambda i: A[i] * alone(), name="B")])
    strides = [auto_scheduler.feature.named_features_from_primfunc(scaled)[f"B{b}.stride"] for b in range(3)]
    assert strides == [1, 1, 1]  # a tensor without dimensions has one, too


def _plain():
    A, B, C = matmul_auto_scheduler_test(32, 32, 32)
    return te.create_schedule(C.op), [A, B, C]


def test_modules_are_where_tvm_has_them() -> None:
    from autosched.tvm.auto_scheduler.cost_model.cost_model import PythonBasedModel
    from autosched.tvm.auto_scheduler.cost_model.xgb_model import XGBModel
    from autosched.tvm.autotvm.measure.measure import MeasureErrorNo
    from autosched.tvm.autotvm.measure.measure_methods import LocalRunner
    from autosched.tvm.autotvm.tuner.metric import max_curve

    assert issubclass(XGBModel, PythonBasedModel) and LocalRunner and MeasureErrorNo.NO_ERROR == 0
    assert max_curve([1, 3, 2]).tolist() == [1, 3, 3]
    with pytest.raises(ImportError, match=r"tvm\.autotvm\.graph_tuner is not part of autosched"):
        import_module("autosched.tvm.autotvm.graph_tuner")
    assert json.loads(json.dumps(auto_scheduler.utils.list_to_tuple([1, [2]]))) == [1, [2]]


class Nothing(auto_scheduler.PythonBasedModel):
    """Lacks its methods."""


NO_STATE = "auto_scheduler: 3 is no state\n  a State, what a log has (MeasureInput.state), or dag.get_init_state()"


def test_what_is_no_state_and_what_is_not_written() -> None:
    task = auto_scheduler.SearchTask(func=matmul_auto_scheduler_test, args=(8, 8, 8), target="llvm")
    dag, runner = task.compute_dag, auto_scheduler.LocalRunner()
    inp = auto_scheduler.MeasureInput(task, dag.init_state)
    calls = {
        NO_STATE: [
            lambda: dag.apply_steps_from_state(3),
            lambda: dag.infer_bound_from_state(3),
            lambda: auto_scheduler.XGBModel().predict(task, [3]),
            lambda: auto_scheduler.feature.get_per_store_features_from_states([3], task),
        ],
        "Nothing.predict: it is not written\n  def predict(self, ...)": [lambda: Nothing().predict(task, [])],
        "LocalRunner.run(inputs, build_results): it gave 0, for 1 candidates\n  one for each candidate, in order": [
            lambda: runner.run([inp], [])
        ],
        "MeasureResult: 3 is no list of times\n  MeasureResult([0.1], 0, ..)": [
            lambda: auto_scheduler.MeasureResult(3, 0, "", 0, 0)
        ],
        "SerializeSearchTask: 3 is no task\n  a SearchTask": [lambda: _ffi_api.SerializeSearchTask(3)],
    }
    for text, wrong in calls.items():
        for call in wrong:
            with pytest.raises(UsageError) as found:
                call()
            assert str(found.value) == text


@pytest.mark.parametrize(
    ("module", "name", "legal"),
    [
        ("auto_scheduler.measure", "local_run", "LocalBuilder().build(inputs) and LocalRunner().run(inputs, built)"),
        ("auto_scheduler.task_scheduler", "nothing_like_it", "names: "),
        ("autotvm.task.space", "SplitSpace", "cfg.define_split"),
        ("autotvm.task", "extract_from_program", "autosched tune MODEL.onnx"),
    ],
)
def test_every_module_answers_for_names_it_lacks(module: str, name: str, legal: str) -> None:
    with pytest.raises(AttributeError) as found:
        getattr(import_module(f"autosched.tvm.{module}"), name)
    asked, _, rest = str(found.value).partition("\n")
    assert asked.startswith(f"tvm.{module}.{name}") and legal in rest


def test_a_dag_tells_inputs_from_what_is_computed_elsewhere() -> None:
    a = te.placeholder((4, 8), name="a")
    b = te.extern((4, 8), [a], lambda ins, outs: tir.call_packed("any.name", ins[0], outs[0]), name="b")
    c = te.compute((4,), lambda i: b[i, 0], name="c")
    shown = str(auto_scheduler.ComputeDAG([a, c]))
    assert shown.splitlines() == ["a = PLACEHOLDER [4, 8]", "b = EXTERN [4, 8]", "c(i) = b[i, 0]"]
