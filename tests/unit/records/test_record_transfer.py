"""What a cost model may learn from records of other tasks."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from autosched.records import RecordLog, Task, decode, default_path, encode, new_id, read_transfer

VERSION = "v1"


@pytest.fixture
def folder(tmp_path, make_record):
    """Three trials of the task itself, two of another shape, one of another operator, some that do not count."""

    def add(name, key, *, version=VERSION, values=(1.0, 2.5), seconds=1.0, device="cpu", **change):
        workload = {"name": name, "key": key, "params": {}, "args": [], "sizes": {}}
        record = make_record(workload=workload, samples=(seconds,), device={"name": device}, id=new_id(), **change)
        record = record if version is None else record.with_features(version, values)
        RecordLog(default_path(name, record.target_kind, tmp_path)).append(record)
        return record

    for _ in range(3):
        ours = add("matmul", "k1024")
    add("matmul", "k512", seconds=0.5)
    add("matmul", "k512", status="crash", seconds=1.0)
    add("blur", "b")
    add("matmul", "k1024", device="another")
    add("matmul", "k2048", version="v0")
    add("blur", "b", version="v0")
    add("blur", "b", version=None)
    add("blur", "b", values=(1.0,))
    add("blur", "b", status="lost")
    return tmp_path, Task.of(ours)


def test_other_tasks_of_the_same_version(folder):
    path, task = folder
    found = read_transfer(task, "llvm", version=VERSION, width=2, folder=path)
    assert found.features.tolist() == [[1.0, 2.5]] * 4
    assert sorted(found.seconds.tolist()) == [0.5, 1.0, 1.0, math.inf]
    assert [t.key for t in found.origins] == ["b", "k1024", "k512"]
    # those of one task are in one group, the workload's own first
    assert sorted(found.groups.tolist()) == [0, 1, 2, 2] and found.groups[-1] == 0
    assert found.passed_over == 2
    assert found.describe(task) == "4 trials of 1 other shape, 1 other operator, 1 other device"
    alike = read_transfer(task, "llvm", version=VERSION, width=2, folder=path, alike=True)
    assert alike.describe(task) == "3 trials of 1 other shape, 1 other device"


def test_no_records(tmp_path, folder):
    _, task = folder
    found = read_transfer(task, "opencl", version=VERSION, width=2, folder=tmp_path / "none")
    assert found.features.shape == (0, 2) and found.seconds.shape == found.groups.shape == (0,)
    assert found.origins == () and found.passed_over == 0


def test_bad_lines_and_files_are_passed_by(folder):
    path, task = folder
    (path / "torn.llvm.jsonl").write_bytes(b'{"features":{"values":[1,2],"version":"v1"}\n\xff\xfe\n')
    (path / "folder.llvm.jsonl").mkdir()
    assert len(read_transfer(task, "llvm", version=VERSION, width=2, folder=path).seconds) == 4


def test_features_survive_a_line(make_record):
    record = make_record().with_features(VERSION, np.array([3.0, 1 / 3, 0.0]))
    again = decode(encode(record))
    assert again.features(VERSION) == (3.0, 0.333333, 0.0)
    assert '"values":[3,0.333333,0]' in encode(record)
    assert again.features("v2") is None and make_record().features(VERSION) is None


@pytest.mark.parametrize("wrong", [None, [], {"version": VERSION}, {"version": VERSION, "values": ["1"]}])
def test_features_that_are_none(make_record, wrong):
    assert replace(make_record(), extra={"features": wrong}).features(VERSION) is None


def test_features_that_no_line_can_hold_are_left_out(make_record):
    record = make_record()
    assert record.with_features(VERSION, [1.0, math.nan]) is record
    assert record.with_features(VERSION, [math.inf]) is record
