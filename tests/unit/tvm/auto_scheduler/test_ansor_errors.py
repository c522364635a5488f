"""Lines, steps and logs that cannot be used: what is said, and that the other lines are."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from ansor_logs import LOGS, Logged, matmul_relu

from autosched.errors import RecordError, UsageError, WorkloadError
from autosched.tvm import auto_scheduler, te

GOOD = LOGS[0]
CONV = LOGS[3]
#: instructions of GOOD's schedule, of which two are for the layout of B's copy: a split in n parts takes n - 1
LENGTH = 24


def with_steps(*steps: list, of: Logged = GOOD, keep: int = 0) -> Logged:
    return replace(of, steps=[*of.steps[:keep], *steps])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (GOOD.line()[:200], "it is no JSON"),
        (GOOD.line(v="v0.7"), "its version is 'v0.7'"),
        (GOOD.line(v=0.6), "its version is 0.6"),
        ('{"input": 1}', 'it has not "i", "r" and "v"'),
        ("[1, 2]", 'it has not "i", "r" and "v"'),
        (GOOD.line(i=[]), "it cannot be read"),
        (GOOD.line(i=[["k"], [[], []]]), "it cannot be read"),
        (GOOD.line(i=[["k", "llvm"], [[1], []]]), "it cannot be read: a state is [[], [step, ...]]"),
        (GOOD.line(r=[[0.0], 0, 1, 1]), "it cannot be read: [0.0] are no times"),
        (GOOD.line(r=[[float("nan")], 0, 1, 1]), "it cannot be read: [nan] are no times"),
        (GOOD.line(r=[[0.1], 0]), "it cannot be read"),
        (with_steps(["XX", 1]).line(), "no step is called 'XX'"),
        (with_steps(["SP", 2, 0, 64, [2, 4]]).line(), "['SP', 2, 0, 64, [2, 4]] is no SP"),
        (with_steps(["FU", 2, [0, "1"]]).line(), "['FU', 2, [0, '1']] is no FU"),
        (with_steps(["AN", 2, 0, True]).line(), "['AN', 2, 0, True] is no AN"),
        (with_steps("RE").line(), "'RE' is no step"),
        ("[" * 100000, "it is no JSON"),
        ('"' + "x" * (1 << 21) + '"', "it has 2097154 characters"),
        (GOOD.line().replace("0.001", "1" * 5000), "it is no JSON"),
        ('{"a":1,"crc":"00000000"}', "checksum does not match"),
    ],
)
def test_a_line_that_is_none(line: str, why: str) -> None:
    with pytest.raises(RecordError, match=re.escape(why)):
        auto_scheduler.measure_record.decode(line)


def test_other_lines_are_read(tmp_path) -> None:
    path = tmp_path / "log.json"
    path.write_text(f"{GOOD.line(0.2)}\n{GOOD.line(v='v1')}\n{GOOD.line(0.1)}\n{GOOD.line()[:99]}")
    with pytest.warns(RuntimeWarning, match=r"log\.json:[24] is passed over") as told:
        found = list(auto_scheduler.load_records(path))
    assert [result.costs for _, result in found] == [(0.2,), (0.1,)] and len(told) == 2


@pytest.mark.parametrize(
    ("logged", "why"),
    [
        (with_steps(["SP", 9, 0, 64, [2], 1]), "step 0, .*: there is no stage 9\n  stages: 0 A, 1 B, 2 C, 3 D"),
        (with_steps(["SP", 2, 3, 64, [2], 1]), "C has no loop 3\n  its loops: 0 i, 1 j, 2 k"),
        (with_steps(["SP", 0, 0, 64, [2], 1]), "A has no loop 0\n  its loops: none"),
        (with_steps(["SP", 2, 0, 128, [2], 1]), "C.i has 64 iterations here and had 128 in the record"),
        (with_steps(["SP", 2, 0, 64, [0], 1]), "factor"),
        (with_steps(["RE", 2, [0, 1]]), r"\[0, 1\] is no order of the loops of C"),
        (with_steps(["FU", 2, [0, 2]]), r"loops \[0, 2\] are not next to each other"),
        (with_steps(["FU", 2, [1, 2]]), "not both spatial or both reduce"),
        (with_steps(["AN", 2, 0, 11]), "annotation 11 cannot be replayed: a record does not say with which"),
        (with_steps(["AN", 2, 0, 12]), "annotation 12 cannot be replayed: it has no meaning"),
        (with_steps(["AN", 2, 2, 3]), "C.k is a reduce loop"),
        (with_steps(["PR", 2, 0, "auto_unroll_max_step"]), "does not say how many steps"),
        (with_steps(["PR", 2, 0, "tensor_core"]), "no pass looks for matrix products"),
        (with_steps(["FSP", 3, 0, 0, 5], keep=1), "it cannot be followed for 5 splits\n  1 to 4"),
        (with_steps(["FSP", 3, 0, 1, 1], keep=1), "step 1 is no split\n  steps that are: 0"),
        (with_steps(["FFSP", 3, 0, [0], 3, 1], keep=1), r"steps \[0\] do not all have a length 3"),
        (with_steps(["FFSP", 3, 0, [], 0, 1], keep=1), r"steps \[\] do not all have a length 0"),
        (with_steps(["CHW", 2, "local"], keep=1), "i.outer.outer.outer, .*, i.inner of C would be forgotten"),
        (with_steps(["CHR", 1, "shared", [3]]), "D does not read B"),
        (with_steps(["CHR", 1, "texture", [2]]), "texture"),
        (with_steps(["CI", 3]), "D is an output"),
        (with_steps(["CA", 3, 2, 0]), "D, computed at C.i: C does not come after D"),
        (with_steps(["SA", 2, 0, 32, 0], keep=1), "'i.outer.outer.outer' is not an axis of C"),
        (with_steps(["RF", 2, 0, 0]), "C.i is not a reduce loop"),
        (with_steps(["RF", 2, 2, 7]), "factor_axis 7 is no place"),
    ],
    ids=lambda x: str(x.steps[-1]) if isinstance(x, Logged) else "",
)
def test_a_step_that_does_not_fit(logged: Logged, why: str, tmp_path) -> None:
    path = tmp_path / "log.json"
    path.write_text(logged.line())
    task = logged.task()
    with pytest.warns(RuntimeWarning, match="is passed over"), pytest.raises(RecordError, match=why):
        task.apply_best(path)


def test_a_split_can_be_followed_for_as_many_as_it_has_loops(tmp_path) -> None:
    path = tmp_path / "log.json"
    path.write_text(with_steps(["FSP", 3, 0, 0, 4], keep=1).line())
    s, _ = GOOD.task().apply_best(path)
    factors = [i.options["factor"] for i in s.trace if i.kind == "split" and i.stage == "D"]
    assert factors == [1, 4, 1, 2] and len(s["D"].loops) == 5 + 1


def test_the_next_best_that_fits_is_taken(tmp_path) -> None:
    path = tmp_path / "log.json"
    path.write_text(with_steps(["CI", 9]).line(0.1) + "\n" + GOOD.line(0.2) + "\n" + with_steps().line(0.3))
    with pytest.warns(RuntimeWarning, match="a record of llvm .* is passed over: step 0, .*: there is no stage 9"):
        s, _ = GOOD.task().apply_best(path)
    assert len(s.trace) == LENGTH


def test_loops_that_other_axes_were_split_from_are_not_factored() -> None:
    a = te.placeholder((8, 8), name="A")
    r, q = te.reduce_axis((0, 8), name="r"), te.reduce_axis((0, 8), name="q")
    dag = auto_scheduler.ComputeDAG([a, te.compute((1,), lambda i: te.sum(a[r, q], axis=[r, q]), name="B")])
    state = with_steps(["SP", 1, 1, 8, [2], 1], ["RF", 1, 3, 0]).line()
    inp, _ = auto_scheduler.measure_record.decode(state)
    with pytest.raises(RecordError, match="B.r.outer is part of another axis than B.q"):
        dag.apply_steps_from_state(inp.state)


def test_a_log_without_the_workload_says_what_it_has(tmp_path) -> None:
    path = tmp_path / "log.json"
    path.write_text(CONV.line())
    with pytest.raises(RecordError, match=r"there is no valid schedule for it\n  what .* records of: .*conv2d_layer"):
        GOOD.task().apply_best(path)
    with pytest.raises(RecordError, match="there is no valid schedule for it"):
        CONV.task("llvm").apply_best(path)  # it binds loops to work-items
    with pytest.raises(RecordError, match="cannot read records"):
        GOOD.task().apply_best(tmp_path / "missing.json")


def test_failed_measurements_are_no_schedules(tmp_path) -> None:
    path = tmp_path / "log.json"
    path.write_text(GOOD.line(r=[[1e10], 4, 0.1, 0]))
    assert auto_scheduler.load_best_record(path) == (None, None)


def test_workloads_that_are_not_registered() -> None:
    key = json.dumps(["d7b65649a4dd54becea0a52aabbc5af5", 1, 1000])
    with pytest.raises(WorkloadError, match="no such workload is registered\n  .*register_workload_tensors"):
        auto_scheduler.SearchTask(workload_key=key, target="llvm")
    with pytest.raises(WorkloadError, match="no such workload is registered"):
        auto_scheduler.make_workload_key("nothing", ())
    with pytest.raises(UsageError, match="has been registered already"):
        auto_scheduler.register_workload("ansor_logs.matmul_relu", matmul_relu)
    with pytest.raises(UsageError, match="is no name"):
        auto_scheduler.register_workload(3)
    with pytest.raises(WorkloadError, match="missing 1 required positional argument"):
        auto_scheduler.ComputeDAG(json.dumps(["ansor_logs.matmul_relu", 1, 2]))


def test_a_key_of_a_network_is_found_when_its_tensors_are_registered(tmp_path) -> None:
    key = json.dumps(["d41d8cd98f00b204e9800998ecf8427e", [64, 32], [32, 48], [64, 48]])
    auto_scheduler.workload_registry.register_workload_tensors(key, matmul_relu(64, 48, 32))
    path = tmp_path / "log.json"
    path.write_text(GOOD.line().replace(json.dumps(GOOD.workload_key), json.dumps(key)))
    s, _ = auto_scheduler.SearchTask(workload_key=key, target="llvm").apply_best(path)
    assert len(s.trace) == LENGTH


def test_a_compatible_workload_lends_its_schedule(tmp_path) -> None:
    path = tmp_path / "log.json"
    path.write_text(GOOD.line(0.1))
    larger = replace(GOOD, args=(128, 96, 32)).task()
    with pytest.raises(RecordError):
        larger.apply_best(path)
    s, _ = larger.apply_best(path, include_compatible=True)
    assert "fused (parallel)" in s["D"].describe()
    with pytest.raises(RecordError):
        replace(GOOD, args=(96, 48, 32)).task().apply_best(path, include_compatible=True)
    distance = auto_scheduler.utils.calc_workload_dis_factor
    assert distance(("f", [8, [4, 2]]), ("f", [4, [2, 2]])) == 4
    assert distance(("f", [8]), ("g", [8])) == distance(("f", [8]), ("f", [3])) == float("inf")
