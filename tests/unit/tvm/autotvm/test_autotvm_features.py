"""Counts of operations, features of loops, curves and small functions of AutoTVM."""

import numpy as np
import pytest

from autosched.errors import UsageError, WorkloadError
from autosched.tvm import autotvm, te
from autosched.tvm.autotvm import feature
from autosched.tvm.autotvm.task.space import ConfigSpace, FallbackConfigEntity
from autosched.tvm.autotvm.tuner import metric


def matmul(n: int, dtype: str = "float32", acc: str = "float32"):
    A, B = te.placeholder((n, n), name="A", dtype=dtype), te.placeholder((n, n), name="B", dtype=dtype)
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k].astype(acc) * B[k, j].astype(acc), axis=k), name="C")
    return te.create_schedule(C.op), [A, B, C]


@pytest.mark.parametrize(("dtype", "acc"), [("float32", "float32"), ("int8", "int32"), ("float16", "float32")])
def test_operations_count_whatever_their_type(dtype: str, acc: str) -> None:
    assert autotvm.task.compute_flop(matmul(8, dtype, acc)[0]) == 2 * 8**3


def test_what_has_no_count_says_how_to_give_one() -> None:
    A = te.placeholder((8,), name="A")
    with pytest.raises(WorkloadError, match=r"it only moves data\n  cfg.add_flop"):
        autotvm.task.compute_flop(te.create_schedule(te.compute((8,), lambda i: A[i]).op))
    two = te.compute((8,), lambda i: (A[i] + 1.0, A[i] * 2.0), name="two")
    with pytest.raises(WorkloadError, match="two has several results"):
        autotvm.task.compute_flop(te.create_schedule(two[0].op))


def test_features_of_loops() -> None:
    s, args = matmul(16)
    C = args[2]
    outer, _ = s[C].split(s[C].op.axis[0], factor=4)
    s[C].parallel(outer)
    rows = [{part[0]: part[1:] for part in row} for row in feature.get_itervar_feature(s, args)]
    assert [row["_attr_"][:4] for row in rows] == [
        [4, 1, 4, 4 * 4 * 16 * 16],
        [4, 2, 16, 4 * 16 * 16],
        [16, 3, 256, 16 * 16],
        [16, 4, 4096, 16],
    ]
    assert [feature.KINDS[row["_attr_"][4:].index(1)] for row in rows] == ["parallel", *["serial"] * 3]
    assert rows[3]["_arith_"] == [1, 1, 0]
    # stride, -, elements that it and the loops inside touch, reuse, and for threads: of one iteration to the next
    assert rows[0]["A_0"] == [64, -1, 4 * 4 * 16, 16, 4, 1]
    assert rows[0]["B_0"] == [0, -1, 16 * 16, 4 * 4, 1, 4]
    assert rows[2]["B_0"] == [1, -1, 16 * 16, 1, 0, 0]
    flat = feature.get_itervar_feature_flatten(s, args, take_log=False)
    names = feature.get_flatten_name(feature.get_itervar_feature(s, args))
    assert len(names) == len(flat) and names[0] == "f0.i.outer._attr_.length" and flat[0] == 4
    assert len(feature.get_buffer_curve_sample_flatten(s, args, sample_n=10)) == 10 * 3 * 4 * 2
    n = te.var("n")
    V = te.placeholder((n,), name="V")
    W = te.compute((n,), lambda i: V[i] + 1.0, name="W")
    with pytest.raises(UsageError, match="is no number"):
        feature.get_itervar_feature(te.create_schedule(W.op), [V, W])


def test_as_many_features_wherever_the_reduce_loop_is() -> None:
    found = []
    for at in range(4):
        s, args = matmul(16)
        C = args[2]
        loops = [*s[C].split(s[C].op.axis[0], factor=4), s[C].op.axis[1]]
        loops.insert(at, s[C].op.reduce_axis[0])
        s[C].reorder(*loops)
        rows = feature.get_itervar_feature(s, args)
        assert [[part[0] for part in row[3:]] for row in rows] == [["A_0", "B_0", "C_0", "C_1"]] * 4
        assert {part[0]: part[1:5] for part in rows[at]}["C_0"][0] == 0  # the sums stay where they are, step by step
        found.append(len(feature.flatten_itervar_feature(rows)))
    assert len(set(found)) == 1
    A = te.placeholder((8,), name="A")
    twice = te.compute((8,), lambda i: A[i] + A[7 - i], name="twice")
    (row,) = feature.get_itervar_feature(te.create_schedule(twice.op), [A, twice])
    assert [part[0] for part in row[3:]] == ["A_0", "A_1", "twice_0"]


def test_curves_and_small_functions() -> None:
    assert metric.mean_curve([1, 3]).tolist() == [1, 2]
    assert metric.recall_curve([1, 0, 2]).tolist() == [0, 1, 1] and metric.recall_curve([2, 0], top=1).tolist() == [
        0,
        1,
    ]
    assert metric.cover_curve([1, 0, 2]).tolist() == [0, pytest.approx(2 / 3), 1]
    assert metric.average_recall([1, 2, 3], [3, 2, 1], 1) == 0
    assert autotvm.utils.get_rank([1, 3, 2]).tolist() == [2, 0, 1]
    assert autotvm.utils.get_const_tuple([te.const(3), 4]) == (3, 4)
    with pytest.raises(UsageError, match="'X' is no prefix"):
        autotvm.utils.format_si_prefix(1, "X")


def test_what_a_filter_rejects_is_no_configuration() -> None:
    cfg = ConfigSpace()
    cfg.define_split("x", cfg.axis(16), num_outputs=2)
    cfg.multi_filter(lambda e: e["x"].size[1] > 4)
    with pytest.raises(IndexError, match="a filter of the space rejects configuration 0"):
        cfg.get(0)
    assert cfg.get(4)["x"].size == [-1, 16] and cfg.subrange_length(0, 5) == 2
    with pytest.raises(UsageError, match=r"0 to 5, the end not included"):
        cfg.subrange_length(0, 6)


def test_a_fallback_decides_once() -> None:
    cfg = FallbackConfigEntity()
    cfg.define_split("x", cfg.axis(128), num_outputs=3)
    cfg.fallback_split("x", [-1, 8, 4])
    cfg.define_split("x", cfg.axis(128), num_outputs=3)
    assert cfg["x"].size == [4, 8, 4]
    with pytest.raises(UsageError, match="a loop has one iteration at least"):
        cfg.fallback_split("x", [-1, 1, 0])


def test_ranges_of_indices() -> None:
    from autosched.tvm.testing.autotvm import get_sample_task

    task, _ = get_sample_task(16)
    grid = autotvm.tuner.GridSearchTuner(task, range_idx=(8, 15))
    assert (grid.begin_idx, grid.end_idx, grid.index, grid.range_length, grid.visited_max) == (8, 16, 8, 8, 8)
    assert [c.index for c in grid.next_batch(3)] == [8, 9, 10] and grid.has_next()
    chance = autotvm.tuner.RandomTuner(task, range_idx=(3, 5))
    assert sorted(c.index for c in chance.next_batch(9)) == [3, 4, 5] and not chance.has_next()
    with pytest.raises(UsageError, match="it is no part of the space"):
        autotvm.tuner.RandomTuner(task, range_idx=(0, 99))
    assert np.isfinite(task.flop)
