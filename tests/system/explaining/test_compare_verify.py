"""`compare` and `verify`: what they say of schedules whose cost is known, and of real ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import autosched
from autosched.cli import main
from autosched.errors import AutoschedError, MeasureError, RecordError, UsageError
from autosched.explaining import verify
from autosched.measure.protocol import MeasureOptions
from autosched.records import Record, RecordLog, default_path
from autosched.runtime.device import describe_device, resolve_target
from autosched.schedule import Trace, create_schedule
from autosched.space.loading import find_workload
from autosched.space.workload import Workload

SPACE = """
from autosched import te, workload

@workload
def twice(n=64, factor=2):
    a = te.placeholder((n, 32), "int32", name="a")
    b = te.compute((n, 32), lambda y, x: a[y, x] * factor, name="b")
    return a, te.compute((n, 32), lambda y, x: b[y, x] + 1, name="c")

@workload
def thrice(n=64):
    a = te.placeholder((n, 32), "int32", name="a")
    return a, te.compute((n, 32), lambda y, x: a[y, x] * 3, name="c")
"""
BY_HAND = 'def schedule(s):\n    s["b"].compute_inline()\n    s["c"].vectorize("x")\n'
HERE = describe_device(resolve_target("llvm"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two workloads, a schedule by hand and no records."""
    for name in ("AUTOSCHED_PATH", "AUTOSCHED_RECORDS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "search_spaces").mkdir()
    (tmp_path / "search_spaces" / "twice.py").write_text(SPACE, encoding="utf-8")
    (tmp_path / "mine.py").write_text(BY_HAND, encoding="utf-8")
    return tmp_path


def workload(name: str = "twice", **params: Any) -> Workload:
    return find_workload(name)(**params)


def record(factor: int = 4, w: Workload | None = None, folder: str = "records", **changes: Any) -> Record:
    """A record of a schedule that splits by `factor`, in a folder."""
    w = w or workload()
    s = create_schedule(w.outputs)
    s["c"].split("y", factor=s.define_knob("rows", [4, 8, 16]))
    fields: dict[str, Any] = {
        "workload": {"name": w.name, "key": w.key, "params": w.params, "args": w.describe_args(), "sizes": {}},
        "target": "llvm", "device": HERE, "sketch": "rows", "trace": s.trace.to_json(), "knobs": {"rows": factor},
        "status": "ok", "samples": (1e-3,), "verified": "full",
    }  # fmt: skip
    made = Record(**{**fields, **changes})
    RecordLog(default_path(w.name, made.target_kind, folder)).append(made)
    return made


def cost(trace: list[Any], knobs: dict[str, int]) -> float | str:
    """Rows of 4 take 1 ms, of 8 the same, of 16 give a wrong result; by hand 0.5 ms, the default schedule 4 ms."""
    if 'vectorize("x")' in Trace.from_json(trace).as_python():
        return 5e-4
    if not knobs:
        return 4e-3
    return {4: 1e-3, 8: 1.0000001e-3, 16: "correctness: c: 3 of 2048 elements differ"}[knobs["rows"]]


# -- compare --------------------------------------------------------------------------------------
def test_two_records_of_which_one_is_faster(pretend: Callable[..., Any]) -> None:
    pretend(lambda trace, knobs: 1e-3 * knobs["rows"])
    first, second = record(4), record(8)
    found = autosched.compare(first.id, second)
    assert (found.ratio, found.interval) == (pytest.approx(2), pytest.approx((2, 2)))
    assert (found.faster, found.is_tie, found.same_code) == ("a", False, False)
    assert found.names == tuple(f"record {r.id}, rows at rows={n}" for r, n in ((first, 4), (second, 8)))
    assert autosched.compare(second, first).faster == "b"
    assert found.verdict() == "A is faster: B takes 2 times the time of A (95 %: 2 - 2, 15 rounds)"


def test_a_tie(pretend: Callable[..., Any]) -> None:
    noise = iter(range(10**6))
    pretend(lambda trace, knobs: 1e-3 * (1 + 0.01 * (next(noise) * 7919 % 11)))
    found = autosched.compare(record(4), record(8))
    assert found.is_tie and found.interval[0] < 1 < found.interval[1]
    assert found.rounds == 45  # it was not clear, so it went on
    assert found.verdict().startswith("tie: B takes ")


def test_the_same_code_is_a_tie(pretend: Callable[..., Any]) -> None:
    pretend(cost)
    found = autosched.compare(record(4), record(4))
    assert (found.is_tie, found.same_code, found.verdict()) == (True, True, "tie: both compile to the same code")


def test_words_for_schedules(pretend: Callable[..., Any], folder: Path) -> None:
    pretend(cost)
    r = record(4)
    record(8, folder="a folder", samples=(2e-3,))
    for a, b, ratio, names in (
        ("twice", "default", 4, (f"record {r.id}, rows at rows=4", "default")),
        ("mine.py", "twice", 2, ("mine.py", f"record {r.id}, rows at rows=4")),
        ("a folder", "records/twice.llvm.jsonl", 1, None),
        (f"{folder}/a folder", "default", 4, None),
        ("records/twice.llvm.jsonl:1", "default", 4, None),
        ("default", "twice", 1 / 4, None),
    ):
        found = autosched.compare(a, b)
        assert found.ratio == pytest.approx(ratio)
        assert names in (None, found.names)
    found = autosched.compare("mine.py", "default", workload="twice")
    assert (found.workload, found.ratio) == ("twice(n=64, factor=2)", pytest.approx(8))
    by_hand = create_schedule(workload().outputs)
    by_hand["c"].vectorize("x")
    assert autosched.compare(by_hand, "mine.py", workload=workload()).same_code


def test_one_that_is_slower_beyond_doubt_is_timed_in_turns_too(pretend: Callable[..., Any]) -> None:
    pretend(lambda trace, knobs: 1e-3 if knobs else 1.0)
    record(4)
    found = autosched.compare("twice", "default")
    assert (found.ratio, found.rounds, found.faster) == (pytest.approx(1000), 6, "a")


@pytest.mark.parametrize(
    ("words", "kind", "text"),
    [
        (("default", "mine.py"), UsageError,
         "compare default: nothing says what it computes\n  --workload NAME, or `workload=` in Python"),
        (("twice", "thrice"), RecordError,
         "record {thrice}, rows at rows=4 of thrice(n=64): it computes something else than twice(n=64, factor=2)\n"
         "  two schedules of one workload, with the same parameters"),
        (("absent/", "twice"), RecordError,
         "absent/: there is no such file or folder\n  a folder of records, or a .jsonl file"),
        (("twice", "absent.py"), AutoschedError, "absent.py: no such file\n  a Python file with a function schedule"),
        (("twice", "search_spaces/twice.py"), AutoschedError,
         "search_spaces/twice.py: it has no function schedule\n  def schedule(..)"),
        (("twice", "open.py"), UsageError,
         "compare open.py: it has open knobs: k\n  numbers in place of define_knob"),
        (("empty", "default"), RecordError, "empty: it has no record that works\n  --workload NAME, or a file that `tune` wrote"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared(
    words: tuple[str, str], kind: type, text: str, pretend: Callable[..., Any], folder: Path
) -> None:
    pretend(cost)
    record(4)
    other = workload("thrice")
    s = create_schedule(other.outputs)
    s["c"].split("y", factor=s.define_knob("rows", [4]))
    thrice = record(4, other, trace=s.trace.to_json())
    (folder / "open.py").write_text('def schedule(s):\n    s["c"].split("y", factor=s.define_knob("k", [2]))\n')
    (folder / "empty").mkdir()
    with pytest.raises(kind) as caught:
        autosched.compare(*words)
    assert str(caught.value) == text.replace("{thrice}", thrice.id)


def test_a_schedule_that_raises_names_its_line(pretend: Callable[..., Any], folder: Path) -> None:
    pretend(cost)
    record(4)
    (folder / "wrong.py").write_text("def schedule(s):\n    s.nothing()\n", encoding="utf-8")
    with pytest.raises(AutoschedError, match=r"schedule\(s\) of wrong.py  at .*wrong.py:2: it raised AttributeError"):
        autosched.compare("twice", "wrong.py")


def test_one_that_is_wrong(pretend: Callable[..., Any]) -> None:
    pretend(cost)
    good, wrong = record(4), record(16)
    with pytest.raises(AutoschedError) as caught:
        autosched.compare(wrong, good)
    assert (caught.value.exit_status, caught.value.why) == (5, "its result is wrong: c: 3 of 2048 elements differ")
    with pytest.raises(MeasureError, match="it does not work here: wrong result: c: 3 of 2048 elements differ"):
        autosched.compare(good, wrong)


# -- verify ---------------------------------------------------------------------------------------
def statuses(*records: Record, **options: Any) -> dict[str, str]:
    return {row.record.id: row.status for row in verify(records, **options).rows}


def test_results_are_judged_and_times_where_asked(pretend: Callable[..., Any]) -> None:
    pretend(cost)
    one, wrong = record(4, samples=(1e-3,)), record(16, workload(factor=3))
    elsewhere = record(4, device={"name": "another"})
    found = verify([one, wrong, elsewhere])
    assert ({r.record.id: r.status for r in found.rows}, found.elsewhere) == ({one.id: "ok", wrong.id: "wrong"}, 1)
    assert found.counts() == {"wrong": 1, "ok": 1}
    assert next(r for r in found.rows if r.status == "wrong").why == "its result is wrong: c: 3 of 2048 elements differ"


@pytest.mark.parametrize(
    ("seconds", "speedup", "status"),
    [
        (0.9e-3, 5.0, "slower"),  # 11 % more time, and 4x in place of 5x over the default
        (0.9e-3, 4.1, "ok"),  # the machine is slower than it was: as many times as fast as the default schedule
        (1e-3, 8.0, "ok"),  # the default schedule is faster than it was
        (0.9e-3, None, "slower"),  # there is nothing but the time
        (0.99e-3, None, "ok"),
    ],
)
def test_slower_than_recorded(seconds: float, speedup: float | None, status: str, pretend: Callable[..., Any]) -> None:
    pretend(cost)
    extra = {} if speedup is None else {"playoff": {"run": "r", "winner": True, "speedup": speedup}}
    r = record(4, samples=(seconds,), extra=extra)
    assert statuses(r, regress=0.05) == {r.id: status}
    assert statuses(r) == {r.id: "ok"}


def test_the_log_has_the_speedup_where_no_playoff_has(pretend: Callable[..., Any]) -> None:
    pretend(cost)
    best = record(4, samples=(0.5e-3,))
    baseline = record(4, sketch="default", trace=[], knobs={}, samples=(2e-3,))
    (row,) = verify([best, baseline], regress=0.05).rows
    assert (row.recorded, row.speedup, row.status) == (pytest.approx(4), pytest.approx(4), "ok")


def test_what_cannot_be_built_any_more_is_a_row(pretend: Callable[..., Any]) -> None:
    pretend(cost)
    gone = record(4)
    other = Record(**{name: getattr(gone, name) for name in ("target", "device", "sketch", "trace", "knobs", "status",
                      "samples", "verified")}, workload={**gone.workload, "name": "nosuch"})  # fmt: skip
    assert statuses(other) == {other.id: "failed"}


def test_exit_statuses_and_json(pretend: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    pretend(cost)
    assert main(["records", "verify", "--records", "records"]) == 4  # there is no such folder
    record(4, samples=(0.5e-3,))
    capsys.readouterr()
    assert main(["records", "verify", "records"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 ok"
    assert main(["records", "verify", "records", "--regress", "5%", "--json"]) == 7
    data = json.loads(capsys.readouterr().out)
    assert (data["counts"], data["regress"], data["records"][0]["status"]) == ({"slower": 1}, 0.05, "slower")
    record(16, workload(factor=3))
    assert main(["records", "verify", "records", "--regress", "5"]) == 5
    record(4, folder="far", device={"name": "another"})
    capsys.readouterr()
    assert main(["records", "verify", "far"]) == 3
    assert capsys.readouterr().out == "nothing to verify; 1 task of other devices or logs passed over\n"


def test_the_command_compares(pretend: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    pretend(cost)
    record(4)
    assert main(["compare", "mine.py", "default", "--workload", "twice"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("twice(n=64, factor=2) for llvm on ")
    assert lines[1:] == [
        "A  mine.py  505 us",
        "B  default  4.04 ms",
        "A is faster: B takes 8 times the time of A (95 %: 8 - 8, 6 rounds)",
    ]
    assert main(["compare", "twice", "default", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["verdict"], data["a"]["name"][:6], data["b"]["name"]) == ("a", "record", "default")
    assert main(["compare", "twice", "default", "--size", "n=4"]) == 2
    assert "--size without --workload: a record has its own\n  --workload NAME" in capsys.readouterr().err


def test_on_this_machine(folder: Path) -> None:
    """No stand-in: both are built, verified and timed."""
    record(4)
    quick = MeasureOptions(min_repeat_ms=0.2, builders=1)
    found = autosched.compare("mine.py", "twice", rounds=6, measure=quick)
    assert min(found.seconds) > 0 and found.interval[0] <= found.ratio <= found.interval[1]
    (row,) = verify([record(8, samples=(1.0,))], regress=0.05, rounds=6, measure=quick).rows
    assert (row.status, row.seconds < 1) == ("ok", True)
