"""Records as an Optuna study, and as Kernel Tuner's results."""

from __future__ import annotations

import json
import sys
from datetime import datetime

import optuna
import pytest

from autosched.errors import RecordError, UsageError, UsageTypeError
from autosched.records import RecordLog, latest, read_files, to_study, to_t4
from autosched.records.frame import RecordWarning
from autosched.records.record import PREDICTED

TRACE = [["define_knob", "ty", [8, 16, 32]], ["define_knob", "tx", [64]], ["split", "blur", "y", [None, "ty"]]]
OTHER = [["define_knob", "ty", [4, 8]], ["choose", "order", "xy"]]


@pytest.fixture
def trials(make_record):
    """Two sketches, a failure, a play-off, a prediction."""
    first = make_record(1, trace=TRACE, knobs={"ty": 16, "tx": 64}, samples=(2e-3,))
    return [
        first,
        make_record(2, trace=OTHER, sketch="cols", knobs={"ty": 4}, samples=(3e-3,)),
        make_record(3, trace=TRACE, knobs={"ty": 8, "tx": 64}, status="timeout"),
        first.with_playoff((1e-3, 1.1e-3, 1.2e-3), run="r", winner=True),
        make_record(4, trace=TRACE, knobs={"ty": 8, "tx": 64}, status=PREDICTED, verified="full"),
    ]


# -- Optuna ---------------------------------------------------------------------------------------
def test_a_study_in_memory(trials):
    study = to_study(trials)
    assert study.study_name == ("box_blur(channels=3), height=1280 for llvm -mcpu=znver3 on AMD EPYC 7R13 [9f2c44d1]")
    assert [t.state.name for t in study.trials] == ["COMPLETE", "FAIL", "COMPLETE"]  # in the order of time
    assert study.best_params == {"ty": 16, "tx": 64, "sketch": "rows"}
    assert (study.best_value, study.metric_names, study.direction.name) == (1.1e-3, ["seconds"], "MINIMIZE")
    kinds = study.trials[2].distributions
    assert kinds["ty"].choices == (4, 8, 16, 32) and kinds["tx"].choices == (64,)
    assert kinds["sketch"].choices == ("cols", "rows")
    failed = study.trials[1].user_attrs
    assert (failed["status"], failed["error"], failed["id"], failed["samples"]) == (
        "timeout",
        "it broke",
        "0" * 15 + "3",
        [],
    )
    assert study.user_attrs["device"] == "AMD EPYC 7R13"
    ended = datetime.fromisoformat(trials[1].at).astimezone().replace(tzinfo=None)
    assert study.trials[0].datetime_complete == ended


def test_a_sketch_is_a_parameter_where_there_are_several(make_record):
    alone = to_study([make_record(1), make_record(2)])
    assert set(alone.best_params) == {"tx", "ty"}
    clash = to_study([make_record(1, knobs={"sketch": 1}), make_record(2, knobs={"sketch": 2}, sketch="cols")])
    assert clash.trials[0].params == {"sketch": 1, "name of the sketch": "rows"}


@pytest.mark.parametrize("name", ["blur ü.db", "blur.journal"])
def test_a_study_in_a_file_is_opened_again(name, trials, tmp_path):
    file = tmp_path / name
    to_study(trials, file)
    storage = (
        f"sqlite:///{file}"
        if name.endswith("db")
        else optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(file)))
    )
    (opened,) = optuna.get_all_study_names(storage)
    study = optuna.load_study(study_name=opened, storage=storage)
    assert [t.params for t in study.trials] == [t.params for t in to_study(trials).trials]
    with pytest.raises(UsageError) as caught:
        to_study(trials, file, name=opened)
    assert str(caught.value) == (f"{file}: {opened}: it has a study of this name\n  replace it, or choose another file")
    assert len(to_study(trials[:1], file, replace=True).trials) == 1
    to_study(trials, file, name="another")
    assert len(optuna.get_all_study_names(storage)) == 2


def test_sources_of_a_study(trials, tmp_path):
    log = RecordLog(tmp_path / "box_blur.llvm.jsonl")
    for r in trials:
        log.append(r)
    for source in (log.path, str(tmp_path), [log.path]):
        assert to_study(source).trials[0].distributions["ty"].choices == (4, 8, 16, 32)


def test_what_is_no_study(trials, make_record, tmp_path, monkeypatch):
    with pytest.raises(RecordError, match="there are records of 2 tasks"):
        to_study([*trials, make_record(7, name="sum")])
    with pytest.raises(RecordError, match="there are no records"):
        to_study([])
    with pytest.raises(UsageTypeError):
        to_study(5)
    with pytest.raises(UsageError) as caught:
        to_study(trials, tmp_path / "absent" / "x.db")
    assert str(caught.value) == (
        f"storage {tmp_path}/absent/x.db: there is no such folder\n  a file in a folder that is there"
    )
    with pytest.raises(UsageError) as caught:
        to_study(trials, "nosuch://x")
    assert str(caught.value).splitlines()[0].startswith("storage nosuch://x: Optuna cannot use it: ")
    (tmp_path / "text.db").write_text("this is no database, but a text that is long enough to be seen as one\n" * 20)
    with pytest.raises(UsageError, match="Optuna cannot use it: .*not a database"):
        to_study(trials, tmp_path / "text.db")
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError, match="it needs Optuna, which cannot be imported") as caught:
        to_study(trials)
    assert caught.value.legal == "pip install optuna"


def test_optuna_is_as_loud_as_before(trials):
    before = optuna.logging.get_verbosity()
    to_study(trials)
    assert optuna.logging.get_verbosity() == before


# -- T4 -------------------------------------------------------------------------------------------
#: what the schema says of a result: its field -> the type of the value
RESULT = {
    "timestamp": str,
    "configuration": dict,
    "objectives": list,
    "times": dict,
    "invalidity": str,
    "correctness": int,
}
INVALIDITY = {"timeout", "compile", "runtime", "correctness", "constraints", "correct"}


def test_t4_results(trials):
    data = to_t4(trials)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["schema_version"] == "1.0.0"
    assert data["metadata"]["timeunit"] == "milliseconds"
    for result in data["results"]:
        assert {name: type(result[name]) for name in RESULT} == RESULT
        assert result["invalidity"] in INVALIDITY
    first, _, failed = data["results"]
    assert first["configuration"] == {"ty": 16, "tx": 64, "sketch": "rows"}
    assert first["times"]["runtimes"] == pytest.approx([1.0, 1.1, 1.2])
    assert first["times"]["compilation_time"] == first["times"]["compilation"] == 250.0
    assert first["measurements"] == [{"name": "time", "value": pytest.approx(1.1), "unit": "ms"}]
    assert (first["correctness"], first["invalidity"]) == (1, "correct")
    assert (failed["correctness"], failed["invalidity"], failed["measurements"]) == (0, "timeout", [])


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("constraints", "constraints"), ("compile", "compile"), ("build_timeout", "compile"), ("timeout", "timeout"),
        ("runtime", "runtime"), ("crash", "runtime"), ("correctness", "correctness"), ("of another program", "runtime"),
    ],
)  # fmt: skip
def test_t4_invalidity(status, expected, make_record):
    assert to_t4([make_record(1, status=status)])["results"][0]["invalidity"] == expected


def test_t4_leaves_out_what_says_nothing_of_a_configuration(make_record):
    rs = [make_record(1), make_record(2, status="lost"), make_record(3, status=PREDICTED)]
    assert len(to_t4(rs)["results"]) == 1


@pytest.mark.parametrize("odd", [{"samples": (1e306,) * 3}, {"build_s": 1e300}, {"at": "0001-01-01T00:00:00+00:00"}])
def test_times_outside_of_the_calendar_are_passed_over(odd, make_record):
    rs = [make_record(1), make_record(2, **odd)]
    with pytest.warns(RecordWarning, match="record 0*2 is passed over"):
        assert len(json.loads(json.dumps(to_t4(rs), allow_nan=False))["results"]) == 1
    with pytest.warns(RecordWarning, match="record 0*2 is passed over"):
        assert len(to_study(rs).trials) == 1


@pytest.mark.parametrize("values", [[[1]], ["a", 2], [None], [True, 2]])
def test_declared_values_that_are_no_integers_are_no_choices(values, make_record):
    r = make_record(1, trace=[["define_knob", "ty", values]], knobs={"ty": 2})
    assert to_study([r]).trials[0].distributions["ty"].choices == (2,)


def test_checked_in_records_can_be_exported():
    from pathlib import Path

    rs = read_files([Path(__file__).parents[3] / "records" / "softmax.llvm.jsonl"]).records
    assert len(to_study(rs).trials) == len(latest(rs)) == len(to_t4(rs)["results"])
