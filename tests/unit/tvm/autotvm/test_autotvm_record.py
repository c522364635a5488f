"""AutoTVM's logs are read and written, and the best of them is applied."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from autosched.errors import RecordError, UsageError, WorkloadError
from autosched.tvm import autotvm, target
from autosched.tvm.autotvm import record

#: lines of TVM 0.8 to 0.10: a CPU, a Mali GPU, an accelerator that there is no code for here
CPU = """{"input": ["llvm -keys=cpu ", "conv2d_NCHWc.x86", [["TENSOR", [1, 3, 224, 224], "float32"], ["TENSOR", [64, 3, 7, 7], "float32"], [2, 2], [3, 3, 3, 3], [1, 1], "NCHW", "NCHW", "float32"], {}], "config": {"index": 172, "code_hash": null, "entity": [["tile_ic", "sp", [-1, 1]], ["tile_oc", "sp", [-1, 4]], ["tile_ow", "sp", [-1, 1]], ["unroll_kw", "ot", false]]}, "result": [[0.0045656413], 0, 0.5309267044067383, 1676344759.520081], "version": 0.2, "tvm_version": "0.10.0"}"""
MALI = """{"input": ["opencl -keys=mali,opencl,gpu -device=mali -max_num_threads=256", "winograd_2", [1, 56, 56, 64, 64, 3, 3, [1, 1], [1, 1, 1, 1]], {}], "config": {"index": 34178780, "code_hash": null, "entity": [["inv_cp", "sp", [-1, 2]], ["inv_wp", "sp", [-1, 28, 2]], ["bgemm_kp", "sp", [-1, 16]]]}, "result": [[0.0007045376], 0, 5.030421018600464, 1617974250.8814242], "version": 0.2, "tvm_version": "0.8.dev0"}"""
VTA = """{"input": ["ext_dev -keys=vta,cpu -device=vta -model=zcu104_1x16x16_i8w8a32_15_15_18_17", "conv2d_packed.vta", [["TENSOR", [1, 32, 7, 7, 1, 16], "int8"], [1, 1], "NCHW1n16c", "int32"], {}], "config": {"index": 241, "code_hash": null, "entity": [["tile_b", "sp", [-1, 1]], ["oc_nthread", "ot", 2]]}, "result": [[0.0096332996], 0, 1.5688602924346924, 1740456275.4953175], "version": 0.2, "tvm_version": "0.8.dev0"}"""


def line(costs: list, tile: int, error: int = 0, task: str = "t", on: str = "llvm") -> str:
    entity = [["tile", "sp", [-1, tile]], ["order", "re", [1, 0]], ["ann", "an", ["vec", "none"]], ["u", "ot", None]]
    data = {
        "input": [on, task, [64, [1, 2], "float32"], {}],
        "config": {"index": tile, "code_hash": None, "entity": entity},
        "result": [costs, error, 1.5, 1600000000.0],
        "version": 0.2,
        "tvm_version": "0.19.0",
    }
    return json.dumps(data)


@pytest.mark.parametrize("text", [CPU, MALI, VTA, line([0.5, 0.25], 8)])
def test_lines_survive(text: str) -> None:
    inp, result = record.decode(text)
    given, again = json.loads(text), json.loads(record.encode(inp, result))
    assert again["config"] == given["config"] and again["result"] == given["result"]
    assert again["input"][1:] == given["input"][1:]
    assert record.decode(record.encode(inp, result))[1] == result


def test_what_a_line_says() -> None:
    inp, result = record.decode(CPU)
    assert inp.task.workload[:2] == ("conv2d_NCHWc.x86", ("TENSOR", (1, 3, 224, 224), "float32"))
    assert inp.config["tile_oc"].size == [-1, 4] and inp.config["unroll_kw"].val is False and inp.config.index == 172
    assert result == autotvm.MeasureResult((0.0045656413,), 0, 0.5309267044067383, 1676344759.520081)
    assert inp.target.kind == "llvm" and "mali" in record.decode(MALI)[0].target.keys
    foreign = record.decode(VTA)[0].target
    assert (foreign.kind, foreign.keys, foreign.model[:6]) == ("ext_dev", ("vta", "cpu"), "zcu104")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cannot be read"),
        ("[1]", "cannot be read"),
        ("{}", "version is None"),
        ('{"i": ["llvm", "t", [], {}, ["t"], {}], "r": [[0.1], 0, 1.5, 1.0], "v": 0.1}', "version is 0.1"),
        (line([0.5], 8).replace("0.2", "0.6"), "version is 0.6"),
        (line([0.5], 8).replace('"sp"', '"zz"', 1), "'zz' with"),
        (line([0.5], 8).replace("[-1, 8]", "8", 1), "is no entity"),
        (line([0], 8), "are no times"),
        (line([float("nan")], 8), "are no times"),
        (line([0.5], 8).replace("0.5", '"fast"', 1), "could not convert"),
        (line([0.5], 8)[:-20], "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("x" * (2 << 20), "2097152 characters"),
    ],
)
def test_bad_lines(text: str, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        record.decode(text)


def test_pickle_is_refused() -> None:
    with pytest.raises(RecordError, match="could run code"):
        record.decode("gASV", protocol="pickle")
    with pytest.raises(RecordError, match="could run code"):
        record.encode(*record.decode(CPU), protocol="pickle")


def test_files(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("\n".join(["# comment", "", line([0.5], 8), "torn {", line([1e9], 4, error=7), line([0.25], 2)]))
    with pytest.warns(RuntimeWarning, match="line 4 is passed over"):
        pairs = list(record.load_from_file(log))
    assert [r.error_no for _, r in pairs] == [0, 7, 0]
    with pytest.raises(RecordError, match="No such file"):
        list(record.load_from_file(tmp_path / "b.log"))


def test_failure_is_written_as_tvm_does() -> None:
    inp, _ = record.decode(CPU)
    text = record.encode(inp, autotvm.MeasureResult(("it crashed",), autotvm.MeasureErrorNo.RUNTIME_DEVICE, 2.0, 3.0))
    assert json.loads(text)["result"] == [[1e9], 4, 2.0, 3.0]


def test_pick_best_and_split(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    lines = [line([0.5], 8), line([0.25], 2), line([0.25], 2), line([0.3], 4, task="other"), line([1e9], 1, error=1)]
    log.write_text("\n".join(lines))
    record.pick_best(log, tmp_path / "best.log")
    best = [inp.config["tile"].size[-1] for inp, _ in record.load_from_file(tmp_path / "best.log")]
    assert best == [2, 4]
    out = io.StringIO()
    record.pick_best(str(log), out)
    assert out.getvalue() == (tmp_path / "best.log").read_text()
    parts = record.split_workload(log)
    assert [p.name for p in parts] == ["a.log.000.wkl", "a.log.001.wkl"]
    assert [len(p.read_text().splitlines()) for p in parts] == [3, 1]


def test_key_of_an_input() -> None:
    inp, other = record.decode(line([0.5], 8))[0], record.decode(line([0.5], 4))[0]
    assert record.measure_str_key(inp) != record.measure_str_key(other)
    assert record.measure_str_key(inp, include_config=False) == record.measure_str_key(other, include_config=False)


WORKLOAD = ("t", 64, (1, 2), "float32")


def test_history_by_model_then_by_key() -> None:
    pairs = [
        record.decode(line([0.2], 8)),
        record.decode(line([0.4], 4, on="llvm -model=mine")),
        record.decode(line([0.1], 2, error=4)),
    ]
    best = autotvm.apply_history_best(pairs)
    with best:
        ctx = autotvm.DispatchContext.current
        assert ctx is best
        assert ctx.query(target.Target("llvm"), WORKLOAD)["tile"].size == [-1, 8]
        assert ctx.query(target.Target("llvm -model=mine"), WORKLOAD)["tile"].size == [-1, 4]
        assert ctx.query(target.Target("opencl"), WORKLOAD).is_fallback
        with pytest.raises(UsageError, match="depends on the target"):
            ctx.query(None, WORKLOAD)
        ctx.update(target.Target("llvm"), WORKLOAD, pairs[1][0].config)
        assert ctx.query(target.Target("llvm"), WORKLOAD)["tile"].size == [-1, 4]
    assert autotvm.DispatchContext.current is not best


def test_history_from_files_and_lists_of_them(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(line([0.5], 8))
    (tmp_path / "b").write_text(line([0.25], 2))
    for records in ([tmp_path / "a", str(tmp_path / "b")], io.StringIO(f"{line([0.5], 8)}\n{line([0.25], 2)}")):
        with autotvm.apply_history_best(records) as best:
            assert best.query(target.Target("llvm"), WORKLOAD)["tile"].size == [-1, 2]
    first = autotvm.ApplyHistoryBest(io.StringIO(f"{line([0.5], 8)}\n{line([0.25], 2)}"), n_lines=1)
    with first:
        assert first.query(target.Target("llvm"), WORKLOAD)["tile"].size == [-1, 8]


def test_a_task_of_a_log_needs_its_template() -> None:
    inp, _ = record.decode(MALI)
    with pytest.raises(WorkloadError, match="no such template"):
        inp.task.instantiate(inp.config)
