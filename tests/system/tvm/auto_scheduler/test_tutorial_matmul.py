"""TVM's tutorial "Optimizing Operators with Auto-scheduling" after one change, its imports; smaller, and with few trials."""

from __future__ import annotations

import numpy as np

from autosched import tvm
from autosched.tvm import auto_scheduler, te


@auto_scheduler.register_workload  # Note the auto_scheduler decorator
def matmul_add(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    C = te.placeholder((N, M), name="C", dtype=dtype)

    k = te.reduce_axis((0, L), name="k")
    matmul = te.compute(
        (N, M),
        lambda i, j: te.sum(A[i, k] * B[k, j], axis=k),
        name="matmul",
        attrs={"layout_free_placeholders": [B]},  # enable automatic layout transform for tensor B
    )
    out = te.compute((N, M), lambda i, j: matmul[i, j] + C[i, j], name="out")

    return [A, B, C, out]


def test_the_tutorial(tmp_path, capsys) -> None:
    target = tvm.target.Target("llvm")
    N = L = M = 64
    task = tvm.auto_scheduler.SearchTask(func=matmul_add, args=(N, L, M, "float32"), target=target)
    print(task.compute_dag)

    log_file = str(tmp_path / "matmul.json")
    # the machine may be busy: nothing here is about speed
    measuring = {
        "builder": auto_scheduler.LocalBuilder(timeout=120, n_parallel=1),
        "runner": auto_scheduler.LocalRunner(timeout=120, number=1, repeat=1),
    }
    tune_option = auto_scheduler.TuningOptions(
        num_measure_trials=3, measure_callbacks=[auto_scheduler.RecordToFile(log_file)], verbose=2, **measuring
    )
    task.tune(tune_option)
    sch, args = task.apply_best(log_file)
    print(tvm.lower(sch, args, simple_mode=True))

    func = tvm.build(sch, args, target)
    a_np = np.random.uniform(size=(N, L)).astype(np.float32)
    b_np = np.random.uniform(size=(L, M)).astype(np.float32)
    c_np = np.random.uniform(size=(N, M)).astype(np.float32)
    out_np = a_np.dot(b_np) + c_np

    dev = tvm.cpu()
    a_tvm = tvm.nd.array(a_np, device=dev)
    b_tvm = tvm.nd.array(b_np, device=dev)
    c_tvm = tvm.nd.array(c_np, device=dev)
    out_tvm = tvm.nd.empty(out_np.shape, device=dev)
    func(a_tvm, b_tvm, c_tvm, out_tvm)
    np.testing.assert_allclose(out_np, out_tvm.numpy(), rtol=1e-3)

    evaluator = func.time_evaluator(func.entry_name, dev, min_repeat_ms=1)
    assert np.median(evaluator(a_tvm, b_tvm, c_tvm, out_tvm).results) > 0
    print(task.print_best(log_file))
    said = capsys.readouterr().out
    assert "matmul" in said and said.count("matmul_add: 3 trials, best ") == 1
    before = len(auto_scheduler.RecordReader(log_file).read_lines()[0])

    def resume_search(task, log_file):
        cost_model = auto_scheduler.XGBModel()
        cost_model.update_from_file(log_file)
        search_policy = auto_scheduler.SketchPolicy(
            task, cost_model, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log_file)]
        )
        tune_option = auto_scheduler.TuningOptions(
            num_measure_trials=2, measure_callbacks=[auto_scheduler.RecordToFile(log_file)], **measuring
        )
        return task.tune(tune_option, search_policy=search_policy)

    result = resume_search(task, log_file)
    assert (result.resumed, result.trials) == (3, 2)
    assert len(auto_scheduler.RecordReader(log_file).read_lines()[0]) > before
