"""`records merge`, `prune`, `split`, `repair`, `diff`, `best`, `check`, `export` and `import`."""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
import pytest
import scripted

from autosched.cli import record_export
from autosched.cli.record_arguments import RECORD_VERBS
from autosched.records import RecordLog, encode, read_files
from autosched.tvm import autotvm
from autosched.tvm.importing import import_logs

Cli = Callable[..., Any]


@pytest.fixture
def log(tmp_path: Path) -> RecordLog:
    """Three good trials, a failure and a damaged line."""
    made = RecordLog(tmp_path / "records" / "pale_blur.llvm.jsonl")
    for r in (*(scripted.record(i, i * 1e-4) for i in (1, 2, 3)), scripted.record(4, status="timeout")):
        made.append(r)
    with made.path.open("a") as file:
        file.write("not a record\n")
    return made


# -- verbs of two words -----------------------------------------------------------------------------
@pytest.mark.parametrize("verb", RECORD_VERBS)
def test_help_of_each(cli: Cli, verb: str) -> None:
    done = cli("records", verb, "--help")
    assert done.status == 0
    assert done.out.startswith(f"usage: autosched records {verb} ")
    assert f"  autosched records {verb}" in done.out.partition("examples:")[2]
    assert f"  {verb} " in cli("records", "--help").out


def test_the_manual_names_each_and_its_options() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
    for verb in RECORD_VERBS:
        assert f"### records {verb}" in manual


def test_a_workload_with_the_name_of_a_verb_is_listed(cli: Cli, tmp_path: Path) -> None:
    workload = {**scripted.WORKLOAD, "name": "merge"}
    RecordLog(tmp_path / "records" / "merge.llvm.jsonl").append(scripted.record(1, 1e-3, workload=workload))
    assert cli("records", "list", "merge").out.startswith("merge for llvm on a CPU")
    assert cli("records", "merge").status == 2
    assert cli("records", "--top", 3, "merge").out.startswith("merge for llvm on a CPU")


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["records", "mrge", "a"], 4, "did you mean the verb, `records merge ..`? it goes right after `records`"),
        (["records", "merge", "pale_blur"], 2, "the following arguments are required: -o/--output"),
        (["records", "prune", "pale_blur"], 2, "records prune: nothing says what to drop\n  --keep N, --older TIME or --failures"),
        (["records", "prune", "pale_blur", "--keep", "0"], 2, "--keep: 0 is less than 1"),
        (["records", "prune"], 2, "the following arguments are required: WORKLOAD|FILE"),
        (["records", "split", "pale_blur", "-o", "x", "--by", "shape"], 2, "invalid choice: 'shape'"),
        (["records", "diff", "absent", "records"], 4, "records diff absent: there is no such folder or file\n  a folder or a .jsonl"),
        (["records", "verify", "--regress", "much"], 2, "--regress: 'much' is not a number of percent"),
        (["records", "export", "-o", "x.doc"], 2, "its name does not say which format it has\n  --format csv, parquet, t4 or optuna"),
        (["records", "export", "--format", "optuna"], 2, "records export --format optuna: it goes to a file\n  -o FILE.db"),
        (["records", "export", "--json"], 2, "records export --format csv: standard output is for JSON\n  -o FILE"),
        (["records", "import", "x.log"], 2, "records import: nothing says where to\n  -o DIR, or --dry-run"),
        (["records", "import", "x.log", "-o", "y", "--define", "z.py"], 2, "--define z.py: no such file\n  a Python file"),
        (["records", "import", "x.log", "--dry-run", "--measure", "1"], 2, "nothing is measured in a dry run\n  without --dry-run"),
    ],
)  # fmt: skip
def test_wrong_words(cli: Cli, log: RecordLog, words: list[str], status: int, text: str) -> None:
    done = cli(*words)
    assert done.status == status
    assert text in done.err
    assert not done.out or "--json" in words


# -- files ------------------------------------------------------------------------------------------
def test_merge_split_and_diff(cli: Cli, log: RecordLog, tmp_path: Path) -> None:
    done = cli("records", "merge", "records", "pale_blur", "-o", "all")
    assert done.out == (
        "all/pale_blur.llvm.jsonl: 4 lines added\n5 lines read; 1 damaged, kept in all/pale_blur.llvm.damaged\n"
    )
    assert "pale_blur.llvm.jsonl:5: does not end in a checksum" in done.err
    again = cli("records", "merge", "records", "-o", "all", "--json").data
    assert (again["duplicates"], again["written"]) == (4, {"all/pale_blur.llvm.jsonl": 0})
    cli("records", "split", "all", "-o", "parts", "--by", "device")
    assert [str(p.relative_to(tmp_path)) for p in (tmp_path / "parts").rglob("*.*")] == [
        "parts/a_CPU/pale_blur.llvm.jsonl"
    ]
    faster = scripted.record(9, samples=(5e-5,), workload={**scripted.WORKLOAD})
    RecordLog(tmp_path / "parts" / "a_CPU" / "pale_blur.llvm.jsonl").append(faster)
    other = {**scripted.WORKLOAD, "name": "other"}
    RecordLog(tmp_path / "all" / "other.llvm.jsonl").append(scripted.record(5, 1e-3, workload=other))
    shown = cli("records", "diff", "all", "parts/a_CPU").out.splitlines()
    task = "pale_blur(), height=1280, width=1920 for llvm on a CPU"
    assert shown[0] == f"gone: {task.replace('pale_blur', 'other')}, 1.00 ms"
    assert shown[2].split(maxsplit=8) == ["100", "us", "50.0", "us", "0.50x", "1", "not", "clear", task]
    assert shown[-1] == "2 tasks: 0 slower, 0 faster, 1 not clear, 0 new, 1 gone; 0 the same measurement"
    assert [t["verdict"] for t in cli("records", "diff", "all", "parts/a_CPU", "--json").data["tasks"]] == [
        "gone",
        "not clear",
    ]


def test_prune_says_what_it_would_drop_and_drops_it(cli: Cli, log: RecordLog) -> None:
    before = log.path.read_bytes()
    done = cli("records", "prune", "pale_blur", "--keep", 1, "--dry-run")
    assert done.out.splitlines() == [
        f"{log.path}: would drop 3 of 4 lines", "would drop 3 lines: not among the best 1 3"
    ]  # fmt: skip
    assert "does not end in a checksum; it stays where it is" in done.err
    assert log.path.read_bytes() == before
    assert cli("records", "prune", "pale_blur", "--failures", "--json").data["reasons"] == {"failed": 1}
    cli("records", "prune", "records", "--older", "1s", "--keep", 1)
    assert [r.trial for r in log.read().records] == [1]
    assert cli("records", "prune", "records", "--failures").out == "dropped 0 lines\n"


def test_repair_and_check(cli: Cli, log: RecordLog) -> None:
    done = cli("records", "check", "records")
    assert (done.status, done.out.splitlines()[-1]) == (
        4, "4 good lines in 1 file, 1 damaged: `records repair` takes them out"
    )  # fmt: skip
    assert cli("records", "check", "records", "--json").data["problems"][0]["line"] == 5
    assert "1 damaged line would be moved; 4 good" in cli("records", "repair", "records", "--dry-run").out
    assert (
        f"1 damaged line moved to {log.path.with_suffix('.damaged')}; 4 good"
        in cli("records", "repair", "pale_blur").out
    )
    assert cli("records", "repair", "records").out == "nothing to repair in 1 file\n"
    assert cli("records", "repair", "records", "--json").data["files"][0]["kept"] == 4
    assert cli("records", "check", "records").status == 0
    newer = scripted.record(5, 1e-3)
    text = encode(newer)[:-18].replace('"v":1', '"v":2') + "}"
    with log.path.open("a") as file:
        file.write(f'{text[:-1]},"crc":"{zlib.crc32(text.encode()):08x}"}}\n')
    done = cli("records", "check", "records")  # nothing that `repair` could do
    assert (done.status, done.out.splitlines()[-1]) == (
        0, "4 good lines in 1 file, 1 of a newer autosched"
    )  # fmt: skip


def test_best(cli: Cli, log: RecordLog) -> None:
    shown = cli("records", "best", "records").out.splitlines()
    assert shown[0] == "pale_blur(), height=1280, width=1920 for llvm on a CPU: 100 us"
    assert shown[1] == f"  strips: lanes=64 rows=1; {1:016x} at records/pale_blur.llvm.jsonl:1"
    (row,) = cli("records", "best", log.path, "--json").data["best"]
    assert (row["workload"], row["seconds"], row["place"]) == ("pale_blur", 1e-4, f"{log.path}:1")


# -- export -----------------------------------------------------------------------------------------
def test_export_of_tables(cli: Cli, log: RecordLog, tmp_path: Path) -> None:
    done = cli("records", "export", "pale_blur", "-o", "ü b.csv")
    assert (done.status, done.out) == (0, "")
    assert "4 lines written to ü b.csv" in done.err
    with (tmp_path / "ü b.csv").open() as file:
        assert [row["trial"] for row in csv.DictReader(file)] == ["1", "2", "3", "4"]
    again = cli("records", "export", "pale_blur", "-o", "ü b.csv")
    assert again.status == 2 and "the file is there already\n  --force, or another name" in again.err
    assert cli("records", "export", "pale_blur", "-o", "ü b.csv", "--force", "--json").data["lines"] == 4
    assert cli("records", "export", "pale_blur").out == cli("records", "pale_blur", "--export", "csv").out


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed")
def test_export_of_parquet(cli: Cli, log: RecordLog, tmp_path: Path) -> None:
    cli("records", "export", "pale_blur", "-o", "x.parquet")
    frame = pd.read_parquet(tmp_path / "x.parquet")
    assert frame["knob.rows"].tolist() == [1, 2, 3, 4]
    assert [list(s) for s in frame["samples"]] == [[1e-4], [2e-4], [3e-4], []]


def test_parquet_needs_its_package(cli: Cli, log: RecordLog, monkeypatch: pytest.MonkeyPatch) -> None:
    find = record_export.importlib.util.find_spec
    monkeypatch.setattr(
        record_export.importlib.util, "find_spec", lambda name: None if name == "pyarrow" else find(name)
    )
    done = cli("records", "export", "pale_blur", "-o", "x.parquet")
    assert done.status == 2
    assert done.err == (
        "error: records export --format parquet: the package pyarrow, which writes it, is not installed\n"
        "  pip install pyarrow, or --format csv\n"
    )


def test_export_for_kernel_tuner_and_optuna(cli: Cli, log: RecordLog, tmp_path: Path) -> None:
    one = json.loads(cli("records", "export", "pale_blur", "--format", "t4").out)
    assert [r["invalidity"] for r in one["results"]] == ["correct"] * 3 + ["timeout"]
    RecordLog(tmp_path / "records" / "x.llvm.jsonl").append(
        scripted.record(7, 1e-3, workload={**scripted.WORKLOAD, "name": "x"})
    )
    refused = cli("records", "export", "records", "-o", "both.json")
    assert refused.status == 4
    assert "there are records of 2 tasks\n  -o FOLDER, or records of one of them:" in refused.err
    written = cli("records", "export", "records", "--format", "t4", "-o", "t4", "--json").data["written"]
    assert [json.loads(Path(f).read_text())["metadata"]["workload"] for f in written] == ["pale_blur", "x"]
    assert cli("records", "export", "records", "--format", "t4", "-o", "t4").status == 2
    assert cli("records", "export", "records", "-o", "both.journal").status == 0
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend("both.journal"))
    assert sorted(s.n_trials for s in optuna.get_all_study_summaries(storage)) == [1, 4]
    RecordLog(tmp_path / "records" / "a.llvm.jsonl").append(
        scripted.record(8, 1e-3, workload={**scripted.WORKLOAD, "name": "a"})
    )
    again = cli("records", "export", "records", "-o", "both.journal")
    assert len(optuna.get_all_study_names(storage)) == 2, "all of them or none"
    assert again.status == 2 and "it has a study of this name\n  --force, or another file" in again.err
    assert cli("records", "export", "records", "-o", "both.journal", "--force").status == 0


def test_a_difference_of_what_holds_no_record_is_refused(cli: Cli, log: RecordLog, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("my notes\n")
    done = cli("records", "diff", log.path, "notes.txt")
    assert (done.status, done.err.partition("\n")[0]) == (
        4, "error: records diff notes.txt: no line is a record: notes.txt:1: does not end in a checksum"
    )  # fmt: skip


def test_a_workload_has_its_records_beside_a_folder_of_its_name(cli: Cli, log: RecordLog, tmp_path: Path) -> None:
    """`export` makes one, in which there are no records; where there are some, they are what is meant."""
    (tmp_path / "pale_blur").mkdir()
    (tmp_path / "pale_blur" / "main.c").write_text("int main(void);")
    assert cli("records", "list", "pale_blur", "--json").data["files"] == [str(log.path)]
    assert cli("records", "list", "pale_blur/", "--json").data["files"] == []
    assert cli("report", "pale_blur").status == 0
    shutil.copy(log.path, tmp_path / "pale_blur" / "other.jsonl")
    assert cli("records", "list", "pale_blur", "--json").data["files"] == ["pale_blur/other.jsonl"]


# -- import -----------------------------------------------------------------------------------------
DEFINE = """
from autosched.tvm import auto_scheduler, autotvm, te

@auto_scheduler.register_workload("imported_matmul", override=True)
def matmul(n, m, k):
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    kk = te.reduce_axis((0, k), name="k")
    return [a, b, te.compute((n, m), lambda i, j: te.sum(a[i, kk] * b[kk, j], axis=kk), name="C")]

@autotvm.template("imported/scale")
def scale(n, m):
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] * 2.0, name="B")
    s = te.create_schedule(B.op)
    y, x = s[B].op.axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_x", x, num_outputs=2)
    xo, xi = cfg["tile_x"].apply(s, B, x)
    return s, [A, B]
"""
STEPS = [["SP", 2, 0, 16, [2, 4], 1], ["AN", 2, 0, 3]]


def ansor_line(name: str = "imported_matmul", seconds: float = 1e-3, error: int = 0, steps: Any = STEPS) -> str:
    task = [json.dumps([name, 16, 8, 4]), "llvm -keys=cpu -mcpu=core-avx2", [8, 64, 64, 0, 0, 0, 0, 0], "", 1, []]
    return json.dumps({"i": [task, [[], steps]], "r": [[seconds], error, 0.5, 1607112214], "v": "v0.6"})


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    """A log of each format; the second has lines that cannot be imported."""
    (tmp_path / "define.py").write_text(DEFINE)
    namespace: dict[str, Any] = {}
    exec(DEFINE, namespace)
    task = autotvm.task.create("imported/scale", args=(8, 32), target="llvm")
    first, second = tmp_path / "autotvm.log", tmp_path / "ansor.json"
    measured = [((1e-3 / (i + 1),), 0) for i in range(3)] + [(("no",), 4)]
    pairs = [
        (autotvm.MeasureInput(task.target, task, task.config_space.get(i)), autotvm.MeasureResult(*r, 0.1, 1.6e9))
        for i, r in enumerate(measured)
    ]
    first.write_text("".join(autotvm.record.encode(*pair) + "\n" for pair in pairs))
    lines = [
        ansor_line(),
        ansor_line(seconds=2e-3),
        ansor_line("d7b6", 1e-4),
        ansor_line(steps=[["SP", 9, 0, 1, [2], 1]]),
    ]
    second.write_text("\n".join([*lines, "", "# a comment", "garbage", ansor_line(error=6)]))
    return [first, second]


def test_imported_lines_are_records_that_build_does_not_take(cli: Cli, logs: list[Path]) -> None:
    done = cli("records", "import", *logs, "--define", "define.py", "-o", "out")
    assert done.status == 0
    assert done.out.splitlines() == [
        "imported_matmul() for llvm on the device of a log of auto_scheduler: 3 records, 2 ok, fastest 1.00 ms",
        "imported_scale() for llvm on the device of a log of autotvm: 4 records, 3 ok, fastest 333 us",
        "out/imported_scale.llvm.jsonl: 4 lines added",
        "out/imported_matmul.llvm.jsonl: 3 lines added",
    ]
    assert "1 line passed over: it is no line of AutoTVM, auto_scheduler or TenSet" in done.err
    assert '1 line passed over: task ["d7b6", 16, 8, 4]: no such workload is registered' in done.err
    matmul = RecordLog("out/imported_matmul.llvm.jsonl").read().records
    assert [r.status for r in matmul] == ["ok", "ok", "build_timeout"]
    assert {r.verified for r in matmul} == {"no"}
    assert (matmul[0].samples, matmul[0].at[:10], matmul[0].strategy) == ((1e-3,), "2020-12-04", "auto_scheduler")
    assert matmul[0].extra["imported"] == {"format": "auto_scheduler", "target": "llvm -keys=cpu -mcpu=core-avx2"}
    assert matmul[0].trace[0][:3] == ["split", "C", "i"]
    scale = RecordLog("out/imported_scale.llvm.jsonl").read().records
    assert len({r.knobs["tile_x_1"] for r in scale}) == 4
    again = cli("records", "import", *logs, "--define", "define.py", "-o", "out", "--json").data
    assert set(again["written"].values()) == {0}
    assert cli("records", "best", "out").out == "no record that works\n"


def test_measured_here_they_are_records_of_this_machine(cli: Cli, logs: list[Path]) -> None:
    data = cli("records", "import", logs[1], "--define", "define.py", "-o", "out", "--measure", 1, "--json").data
    (row,) = data["measured"]
    (best,) = cli("records", "best", "out", "--json").data["best"]
    assert (best["record"], best["verified"]) == (row["measured"], "full")
    made = next(r for r in read_files(["out/imported_matmul.llvm.jsonl"]).records if r.id == row["measured"])
    assert made.playoff is not None and made.playoff["speedup"] == row["speedup"] > 0
    assert "origin" in made.extra


def test_a_log_of_nothing_that_is_known(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(ansor_line("nobody_knows"))
    done = cli("records", "import", "x.json", "--dry-run")
    assert done.status == 4
    assert (
        "records import x.json: no line became a record\n  --define FILE.py that registers what it is about" in done.err
    )
    assert cli("records", "import", "absent.log", "--dry-run").status == 4


def test_lines_of_this_package_are_to_be_merged(log: RecordLog) -> None:
    found = import_logs(log.path)
    assert found.passed_over == {
        "it is a record of this package: `autosched records merge`": 4,
        "it is no line of AutoTVM, auto_scheduler or TenSet": 1,
    }
