"""Records as a table, and the documentation's examples."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pandas as pd
import pytest

import autosched
from autosched.errors import RecordError
from autosched.records import Record, RecordLog, RecordWarning, default_path, folders, load, read_files, to_frame

DOCS = Path(__file__).parents[3] / "docs" / "records.md"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory whose `records` are the only ones to be found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUTOSCHED_RECORDS", raising=False)
    monkeypatch.delenv("AUTOSCHED_PATH", raising=False)
    monkeypatch.setattr(folders, "packaged_folder", lambda: tmp_path / "shipped")
    return tmp_path


@pytest.fixture
def logs(here, make_record):
    """Two trials and a play-off on llvm, one trial of another sketch on OpenCL."""
    llvm, opencl = (RecordLog(default_path("box_blur", kind, "records")) for kind in ("llvm", "opencl"))
    llvm.append(make_record(0))
    llvm.append(make_record(1, status="timeout"))
    llvm.append(make_record(0).with_playoff((1e-3, 3e-3), run="run-1", winner=True))
    opencl.append(make_record(2, target="opencl", sketch="tiles", knobs={"wg": (1 << 53) + 1}, sizes={}))
    return llvm, opencl


def test_columns_and_types(logs):
    frame = load("box_blur")
    assert list(frame.columns) == [
        *("workload", "key", "target", "device", "sketch", "status", "seconds", "samples", "verified", "playoff"),
        *("error", "build_s", "strategy", "seed", "trial", "run", "id", "at", "file", "line"),
        *("size.height", "knob.tx", "knob.ty", "knob.wg"),
    ]
    assert len(frame) == 4
    row = frame.iloc[0]
    assert (row["workload"], row["key"], row["device"]) == ("box_blur", "9f2c44d1", "AMD EPYC 7R13")
    assert (row["seconds"], row["samples"]) == (1e-3, (2e-3, 1e-3, 4e-3))
    assert (row["file"], row["line"]) == (str(logs[0].path), 1)
    assert row["at"] == pd.Timestamp("2026-11-21T08:00:00Z")
    assert frame["knob.ty"].dtype == frame["size.height"].dtype == "Int64"
    assert frame["knob.wg"].iloc[3] == (1 << 53) + 1
    assert frame["knob.ty"].isna().tolist() == [False, False, False, True]
    assert frame["seconds"].isna().tolist() == [False, True, False, False]
    assert frame["seconds"].dtype == "float64" and frame["playoff"].dtype == "boolean"
    assert frame["playoff"].isna().tolist() == [True, True, False, True]
    assert frame["error"].tolist() == ["", "it broke", "", ""]
    assert frame["line"].tolist() == [1, 2, 3, 1]


def test_sources(logs, here, make_record):
    llvm, _ = logs
    RecordLog(default_path("sum", "llvm", "records")).append(make_record(5, name="sum"))
    assert len(load(llvm.path)) == 3
    assert len(load("records")) == len(load(here / "records")) == len(load()) == 5
    assert len(load([llvm.path, "sum", str(llvm.path)])) == 4
    assert len(load("sum")) == 1
    assert len(load([])) == 0


def test_unknown_sources_say_what_there_is(logs, here):
    with pytest.raises(RecordError) as caught:
        load("box_blurr")
    assert "did you mean 'box_blur'? looked in records; found box_blur" in str(caught.value)
    for missing in ("absent.jsonl", here / "absent.jsonl", "absent/box_blur"):
        with pytest.raises(RecordError, match="No such file"):
            load(missing)


def test_nothing_found_is_an_empty_table(here):
    frame = load()
    assert len(frame) == 0
    assert "seconds" in frame.columns and str(frame["at"].dtype).startswith("datetime64")
    with pytest.raises(RecordError, match="looked in no folder; found nothing"):
        load("box_blur")


def test_problems_are_one_warning_per_file(logs):
    path = logs[0].path
    path.write_bytes(path.read_bytes() + b"{}\n" * 4 + b'{"torn')
    with pytest.warns(RecordWarning) as caught:
        frame = load("box_blur")
    assert len(frame) == 4
    assert [str(w.message) for w in caught] == [
        f"{path}: 5 unusable: line 4: does not end in a checksum; line 5: does not end in a checksum; "
        "line 6: does not end in a checksum; and 2 more"
    ]
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(logs[1].path)


def test_records_in_memory(logs):
    contents = read_files([logs[0].path])
    frame = to_frame(contents.records)
    assert frame["file"].tolist() == ["", "", ""] and frame["line"].isna().all()
    columns = [name for name in frame.columns if name not in ("file", "line")]
    pd.testing.assert_frame_equal(frame[columns], to_frame(contents)[columns])


def test_importing_records_imports_no_pandas():
    root = str(Path(autosched.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {root!r}); import autosched.records; print('pandas' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "False\n"


def test_examples_of_the_documentation_run(here, capsys):
    """The Python blocks of docs/records.md, one after the other in one namespace."""
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 4
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(DOCS), "exec"), namespace)
    shown = re.findall(r"^    (.*)$", DOCS.read_text(encoding="utf-8").partition("## From Python")[2], re.MULTILINE)
    expected = [line for line in shown if line.startswith(("5 records", "{'tx'"))]
    assert len(expected) == 2
    assert capsys.readouterr().out.splitlines()[:2] == expected


def test_documentation_lists_every_field():
    text = DOCS.read_text(encoding="utf-8")
    fields = {field.name for field in dataclasses.fields(Record)} - {"extra"}
    for name in (*fields, "name", "key", "params", "args", "sizes", "crc", "playoff"):
        assert f"`{name}`" in text, f"docs/records.md does not explain {name}"


def test_documentation_lists_every_column_with_its_type(logs):
    rows = re.findall(
        r"^\| `([^`]+)` \| (\S.*?) \| \S", DOCS.read_text(encoding="utf-8").partition("## In pandas")[2], re.M
    )
    frame = load("box_blur")
    fixed = [(name, str(frame[name].dtype)) for name in frame.columns if "." not in name]
    assert rows == [*fixed, ("size.<name>", "Int64"), ("knob.<name>", "Int64")]
    assert {str(frame[name].dtype) for name in frame.columns if "." in name} == {"Int64"}
