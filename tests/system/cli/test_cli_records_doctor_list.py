"""`records`, `doctor` and `list`."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import scripted

from autosched.build_cache import digest
from autosched.cli import doctor, opencl_probe
from autosched.errors import UsageError
from autosched.records import RecordLog, new_id
from autosched.search import make_strategy
from autosched.target import Target

Cli = Callable[..., Any]


@pytest.fixture
def log(tmp_path: Path) -> RecordLog:
    """Six trials: three good ones, one re-measured in a play-off, and three failures."""
    made = RecordLog(tmp_path / "records" / "pale_blur.llvm.jsonl")
    best = scripted.record(3, 4e-4, samples=(4e-4, 3.9e-4, 4.4e-4))
    for r in (
        scripted.record(1, 8e-4),
        scripted.record(2, 6e-4),
        best,
        scripted.record(4, status="compile"),
        scripted.record(5, status="compile"),
        scripted.record(6, status="timeout"),
        best.with_playoff((4.1e-4,), run="r", winner=True, speedup=5.0),
    ):
        made.append(r)
    return made


def test_records_of_a_workload(cli: Cli, log: RecordLog) -> None:
    done = cli("records", "pale_blur")
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[0] == (
        "pale_blur for llvm on a CPU, height=1280 width=1920: 6 trials, 3 ok; failed: compile 2, timeout 1"
    )
    assert lines[1].split() == ["n", "time", "of", "best", "spread", "schedule", "verified", "strategy", "at", "record"]
    assert lines[2].split()[:4] == ["1", "410", "us", "100%"]
    assert "strips: lanes=64 rows=3 (won the play-off)" in lines[2]
    assert [line.split()[1] for line in lines[3:5]] == ["600", "800"]
    assert lines[-1] == f"7 lines in {log.path}"


def test_records_of_a_workload_in_a_file(cli: Cli, log: RecordLog) -> None:
    """Named as `tune` and `build` take it."""
    by_name = cli("records", "pale_blur").out
    assert cli("records", "my_op.py:pale_blur").out == cli("records", "ops/my_op.py:pale_blur").out == by_name
    assert cli("records", "my_op.py:dark_blur").status != 0


def test_records_top(cli: Cli, log: RecordLog) -> None:
    shown = cli("records", "pale_blur", "--top", 1).out
    assert "and 2 more (--top 0 shows all)" in shown
    assert "and " not in cli("records", "pale_blur", "--top", 0).out
    assert len(cli("records", log.path, "--json", "--top", 2).data["groups"][0]["best"]) == 2


def test_records_tells_devices_and_sizes_apart(cli: Cli, log: RecordLog) -> None:
    log.append(scripted.record(7, 1e-6, id=new_id(), device={"name": "a faster CPU"}))
    heads = [line for line in cli("records", "pale_blur").out.splitlines() if line.startswith("pale_blur")]
    assert len(heads) == 2


def test_a_file_without_problems_passes_the_check(cli: Cli, log: RecordLog) -> None:
    done = cli("records", log.path, "--check")
    assert done.status == 0
    assert "unusable" not in done.out


def test_problems_are_shown_and_fail_the_check(cli: Cli, log: RecordLog) -> None:
    with log.path.open("a") as file:
        file.write('not a record\n{"v":1,"id":"torn')
    done = cli("records", log.path)
    assert done.status == 0
    assert "2 unusable:" in done.out
    assert f"{log.path}:9: torn last line" in done.out
    assert cli("records", log.path, "--check").status == 4
    problems = cli("records", log.path, "--json").data["problems"]
    assert [p["line"] for p in problems] == [8, 9]


def test_of_a_file_that_is_something_else_a_few_problems_are_shown(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "noise.jsonl").write_text("noise\n" * 5000)
    done = cli("records", tmp_path / "noise.jsonl")
    assert "5000 unusable:" in done.out and len(done.out.splitlines()) < 40
    assert "and 4,980 more" in done.out
    assert len(cli("records", tmp_path / "noise.jsonl", "--json").data["problems"]) == 5000


def test_records_json(cli: Cli, log: RecordLog) -> None:
    (group,) = cli("records", log.path, "--json").data["groups"]
    assert group["statuses"] == {"ok": 3, "compile": 2, "timeout": 1}
    assert group["best"][0]["seconds"] == 4.1e-4
    assert group["best"][0]["playoff"]["winner"] is True


def test_records_export(cli: Cli, log: RecordLog) -> None:
    done = cli("records", "pale_blur", "--export", "csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert len(rows) == 7
    assert rows[0]["knob.rows"] == "1"
    assert {row["status"] for row in rows} == {"ok", "compile", "timeout"}


def test_sources_of_records(cli: Cli, log: RecordLog) -> None:
    folder = log.path.parent
    for sources in (["pale_blur"], [log.path], [folder], [log.path, "pale_blur"]):
        data = cli("records", *sources, "--json").data
        assert len(data["files"]) == 1
        assert sum(data["groups"][0]["statuses"].values()) == 6
    assert cli("records", "--records", folder, "--json").data["files"] == [str(log.path)]
    assert str(log.path) in cli("records", "--json").data["files"]  # beside those that come with autosched


def test_a_link_to_itself_cannot_be_read(cli: Cli, tmp_path: Path, log: RecordLog) -> None:
    for name in ("loop.llvm.jsonl", "loop.py"):
        (tmp_path / name).symlink_to(name)
    for words in (("records", tmp_path), ("records", "check", tmp_path / "loop.llvm.jsonl")):
        done = cli(*words)
        assert (done.status, "Too many levels of symbolic links" in done.err) == (4, True)
    assert len(digest({}, Target.parse("llvm"), "", str(tmp_path))) == 32
    with pytest.raises(UsageError, match="there is no file"):
        make_strategy(f"{tmp_path}/loop.py:Mine", None)  # type: ignore[arg-type]


def test_no_records(cli: Cli, tmp_path: Path, log: RecordLog) -> None:
    done = cli("records", "pale_blurr")
    assert done.status == 4
    assert "no records of this workload, and no such file" in done.err
    assert "found records of: " in done.err
    assert "pale_blur" in done.err
    done = cli("records", "missing.jsonl")
    assert done.status == 4
    assert "No such file" in done.err
    (tmp_path / "empty").mkdir()
    assert cli("records", "empty").out == "no records\n"


# -- doctor ---------------------------------------------------------------------------------------
def test_doctor_finds_this_machine(cli: Cli) -> None:
    done = cli("doctor", "--json")
    assert done.status == 0
    data = done.data
    assert data["cpu"]["usable_cores"] >= 1
    assert data["cpu"]["vector_bits"] in (64, 128, 256, 512)
    assert data["packages"]["numpy"]
    assert data["packages"]["python"].count(".") == 2
    assert str(Path(__file__).parent / "search_spaces") in data["folders"]["search_spaces"]
    assert data["environment"]["AUTOSCHED_PATH"] == str(Path(__file__).parent)
    text = cli("doctor")
    assert text.status == 0
    for section in ("CPU", "OpenMP", "OpenCL", "packages", "folders", "environment", "advice"):
        assert f"\n{section}\n" in text.out


def test_doctor_imports_no_package_to_learn_its_version(cli: Cli) -> None:
    before = set(sys.modules)
    doctor.packages()
    assert not {"optuna", "xgboost", "pandas"} & (set(sys.modules) - before)


def found(**changes: Any) -> dict[str, Any]:
    """A machine on which all is well, but for the changes."""
    device = {"index": 0, "name": "cpu", "platform": "Portable Computing Language", "driver": "7.0", "fp16": False}
    device |= {"fp64": True, "compute_units": 4, "max_work_group": 1024, "global_memory": 2**33, "shared_memory": 2**15}
    base: dict[str, Any] = {
        "system": "Linux",
        "cpu": {"model": "a CPU", "vector": "AVX2", "vector_bits": 256, "cores": 4, "usable_cores": 4, "quota": None}
        | {"governor": None, "load": 0.1},
        "openmp": "/lib/libgomp.so.1",
        "opencl": {"devices": [device], "problem": ""},
        "packages": {"python": "3.11.7", "autosched": "0.1.0", "xgboost": "3.2.0"},
        "folders": {"search_spaces": ["here"], "records": [], "new_records": "r", "new_records_writable": True},
        "environment": {},
    }
    for key, value in changes.items():
        base[key] = {**base[key], **value} if isinstance(value, dict) else value
    return base


def test_no_advice_where_all_is_well() -> None:
    assert doctor.advise(found()) == []
    assert "none: all is well" in "\n".join(doctor.text_lines(found(), []))


@pytest.mark.parametrize(
    ("changes", "about", "why"),
    [
        ({"openmp": None}, "OpenMP", "one thread"),
        ({"opencl": {"devices": [], "problem": "no OpenCL driver was found"}}, "OpenCL", "no OpenCL driver"),
        ({"packages": {"xgboost": None}}, "xgboost", "the cost model"),
        ({"cpu": {"load": 3.2}}, "CPU", "busy"),
        ({"cpu": {"quota": 1.5}}, "CPU", "container limit of 1.5 CPUs"),
        ({"cpu": {"governor": "powersave"}}, "CPU", "governor powersave"),
        ({"folders": {"new_records_writable": False}}, "records", "cannot be written"),
        ({"folders": {"search_spaces": []}}, "search spaces", "no folder"),
    ],
)
def test_what_is_missing_is_told_with_what_to_do(changes: dict[str, Any], about: str, why: str) -> None:
    machine_found = found(**changes)
    (advice,) = doctor.advise(machine_found)
    assert advice.about == about
    assert why in advice.why
    assert advice.hint
    assert advice.hint in "\n".join(doctor.text_lines(machine_found, [advice]))


def test_an_old_pocl_is_pointed_out() -> None:
    machine_found = found()
    machine_found["opencl"]["devices"][0]["driver"] = "3.0-rc2"
    (advice,) = doctor.advise(machine_found)
    assert "PoCL 3.0-rc2 is old" in advice.why


def test_a_device_that_fails_a_small_program_is_pointed_out() -> None:
    machine_found = found()
    devices = machine_found["opencl"]["devices"]
    devices[0]["problem"] = "vectors are computed wrongly"
    (advice,) = doctor.advise(machine_found)
    assert "vectors are computed wrongly" in advice.why and "intel-opencl" in advice.hint
    devices.append({**devices[0], "index": 1, "problem": ""})
    (advice,) = doctor.advise(machine_found)
    assert advice.hint == '--target "opencl -device=1"'
    assert "fails a small program" in "\n".join(doctor.text_lines(machine_found, []))


def test_a_device_is_asked_in_a_process_of_its_own() -> None:
    """The first answers, the second ends the process that asks it."""
    listing = {"devices": [{"index": 0}, {"index": 1}], "problem": ""}
    program = f"""
import json, os, sys
if sys.argv[1:] == ["1"]: os.kill(os.getpid(), 11)
print(json.dumps({{"problem": ""}} if sys.argv[1:] else {listing!r}))
"""
    first, second = opencl_probe.probe((sys.executable, "-c", program))["devices"]
    assert first["problem"] == "" and "ended with status -11" in second["problem"]


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("import os; os.abort()", "ended with status -6"),
        ("print('no JSON')", "ended with status 0"),
        ("import sys; sys.exit('the driver is broken')", "the driver is broken"),
        ("import time; time.sleep(60)", "did not answer within"),
    ],
)
def test_a_driver_that_breaks_does_not_break_doctor(
    monkeypatch: pytest.MonkeyPatch, program: str, problem: str
) -> None:
    monkeypatch.setattr(opencl_probe, "TIMEOUT_S", 0.5)
    answer = opencl_probe.probe((sys.executable, "-c", program))
    assert answer["devices"] == []
    assert problem in answer["problem"]
    assert "could not be asked" in opencl_probe.probe(("/no/such/python",))["problem"]


# -- list -----------------------------------------------------------------------------------------
def test_list_everything(cli: Cli) -> None:
    done = cli("list")
    assert done.status == 0
    assert re.search(r"brighten +Each element plus one\.\n", done.out)
    assert "parameters:" not in done.out
    for name in ("guided", "xgb", "opencl", "partition"):
        assert f"  {name} " in done.out


def test_list_all_about_a_name(cli: Cli) -> None:
    done = cli("list", "brighten")
    assert done.out.startswith("workloads:\n  brighten\n    Each element plus one.\n    parameters: ")
    assert "options: arms=annealing,guided,droplet, " in cli("list", "bandit").out
    data = cli("list", "random", "--json").data
    assert list(data) == ["strategies", "models"] and data["models"]["random"]["about"].startswith("Scores drawn")
    wrong = cli("list", "bandi")
    assert wrong.status == 2 and wrong.err == (
        "error: list bandi: nothing has that name\n  did you mean 'bandit'? workloads, strategies, models, rules, targets, "
        "passes, or a name that one of them shows\n"
    )


def test_list_one_kind_as_json(cli: Cli) -> None:
    data = cli("list", "workloads", "--json").data
    assert list(data) == ["workloads"]
    assert data["workloads"]["brighten"]["templates for"] == ["llvm"]
    assert data["workloads"]["total"]["templates for"] == []
    assert data["workloads"]["brighten"]["points"] == {"llvm": "1 sketch with 4 points"}
    assert data["workloads"]["total"]["points"] == {}
    assert set(cli("list", "--json").data) == {"workloads", "strategies", "models", "rules", "targets", "passes"}


def test_list_rules(cli: Cli) -> None:
    rules = cli("list", "rules", "--json").data["rules"]
    assert rules["always_inline"]["for"] == ["loops on CPUs", "kernels"]
    assert rules["elements"] == {"about": "A work-item for a vector of results", "for": ["kernels"]}
