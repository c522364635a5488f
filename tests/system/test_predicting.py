"""What `build` takes where there is no record of this device: like devices, a prediction, the default schedule."""

from __future__ import annotations

import itertools
import json
import time

import numpy as np
import pytest
from mutated_records import record_of

import autosched
from autosched import choosing, predicting, te, template, trust, workload
from autosched.cli.app import main
from autosched.cli.show import provenance_line
from autosched.ir.evaluate import evaluate
from autosched.measure.protocol import MeasureOptions
from autosched.records import RecordLog, default_path, folders
from autosched.runtime.device import describe_device, resolve_target
from autosched.space.loading import find_workload
from autosched.space.workload import Workload

LLVM = resolve_target("llvm")


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """Folders of their own, nothing that comes with autosched, and predictions."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("AUTOSCHED_PREDICT", "1")
    monkeypatch.setattr(folders, "packaged_folder", lambda: tmp_path / "shipped")
    monkeypatch.setattr(predicting, "answers", {})
    monkeypatch.chdir(tmp_path)
    return tmp_path


@workload
def dense(n=64):
    a, b = (te.placeholder((n, n), "float32", name=x) for x in "ab")
    k = te.reduce_axis((0, n), name="k")
    return a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")


@template(dense, target="llvm")
def tiles(s):
    c = s["c"]
    row, inner = c.split("i", factor=s.define_knob("rows", [1, 2, 4]))
    column, lane = c.split("j", factor=s.define_knob("lanes", [1, 4, 16]))
    c.reorder(row, column, "k", inner, lane)
    c.unroll(inner)
    c.vectorize(lane)


PARALLEL = [["parallel", "c", "i"]]
LIKE = {"name": "AMD EPYC (znver9), 64 threads", "cpu": "AMD EPYC (znver9)", "threads": 64}


def recorded(place, trace, device, **changes):
    r = record_of(dense(), trace, device, **changes)
    RecordLog(default_path("dense", "llvm", place / "shipped")).append(r)
    return r


def test_without_any_record_a_model_predicts(data):
    first = autosched.build(dense()).provenance
    assert (first["kind"], first["record"]) == ("predicted", None)
    assert first["knobs"]["lanes"] == 16 and first["seconds"] > 0
    assert first["note"] == "no record of this workload: predicted by a model of this machine, not measured"
    line = provenance_line("dense", "llvm", first)
    assert "record None" not in line and "tiles at " in line and "predicted by a model" in line
    assert json.loads(json.dumps(first)) == first


def test_the_same_build_gives_the_same_schedule(data, monkeypatch):
    first = autosched.build(dense()).provenance
    monkeypatch.setattr(predicting, "choices_by_model", lambda *_: pytest.fail("it is remembered"))
    assert autosched.build(dense()).provenance == first
    monkeypatch.setattr(predicting, "answers", {})  # another process
    assert autosched.build(dense()).provenance == first


def test_another_template_is_another_question(data):
    text = "from autosched import te, workload\n@workload\ndef f():\n    a = te.placeholder((4,), name='a')\n"
    text += "    return a, te.compute((4,), lambda i: a[i] + 1, name='b')\n"
    (data / "op.py").write_text(text)
    one = predicting.answer_file(find_workload(f"{data / 'op.py'}:f")(), LLVM, "x", {})
    assert predicting.answer_file(find_workload(f"{data / 'op.py'}:f")(), LLVM, "x", {}) == one
    (data / "op.py").write_text(text + "# another\n")
    assert predicting.answer_file(find_workload(f"{data / 'op.py'}:f")(), LLVM, "x", {}) != one


def test_another_rule_is_another_question(monkeypatch):
    one = predicting.answer_file(dense(), LLVM, "x", {})
    monkeypatch.setattr(predicting, "package_digest", lambda: "of other files")
    assert predicting.answer_file(dense(), LLVM, "x", {}) != one


def test_another_compiler_is_another_verdict(monkeypatch):
    one = trust.remembered(dense(), LLVM, "x", []).digest
    assert trust.remembered(dense(), LLVM, "x", []).digest == one
    monkeypatch.setattr(trust, "package_digest", lambda: "of other files")
    assert trust.remembered(dense(), LLVM, "x", []).digest != one


def test_a_record_of_a_like_device_goes_before_a_prediction(data):
    r = recorded(data, PARALLEL, LIKE)
    found = autosched.build(dense()).provenance
    assert (found["kind"], found["record"], found["exact"]) == ("record", r.id, False)
    assert found["note"].startswith("record of a like device: measured on AMD EPYC (znver9), 64 threads, not on ")


def test_one_of_another_kind_of_device_does_not(data):
    recorded(data, PARALLEL, {"name": "a GPU", "is_cpu": False})
    assert autosched.build(dense()).provenance["kind"] == "predicted"


def test_a_default_that_beat_little_goes_after_a_prediction_that_was_not_tried(data):
    """A search that ended early had tried something slow, and the default schedule won against that."""
    here = describe_device(LLVM)
    default = recorded(data, [], here, sketch="default", samples=(1e-4,))
    recorded(data, PARALLEL, here, samples=(2e-4,))
    found = autosched.build(dense()).provenance
    assert found["kind"] == "predicted"
    assert found["note"].startswith("the default schedule was measured, but not beside it: predicted by a model")
    guess, _ = predicting.foreseen(dense(), LLVM, here["name"], None)
    tried = recorded(data, guess.trace, here, knobs=guess.knobs, samples=(3e-4,))
    assert autosched.build(dense()).provenance["record"] == default.id
    assert tried.status == "ok"


def test_a_default_that_won_a_playoff_stays(data):
    here = describe_device(LLVM)
    default = recorded(data, [], here, sketch="default", samples=(1e-4,))
    recorded(data, PARALLEL, here, samples=(2e-4,), extra={"playoff": {"winner": False, "run": "r"}})
    assert autosched.build(dense()).provenance["record"] == default.id


def test_a_lone_default_shadows_nothing(data):
    lone = recorded(data, [], describe_device(LLVM), sketch="default")
    assert autosched.build(dense()).provenance["kind"] == "predicted"
    like = recorded(data, PARALLEL, LIKE)
    assert autosched.build(dense()).provenance["record"] == like.id
    lost = {"playoff": {"winner": False, "run": "r"}}
    slower = recorded(data, PARALLEL, describe_device(LLVM), samples=(2e-3,), extra=lost)
    assert autosched.build(dense()).provenance["record"] == lone.id != slower.id, "it won against something"


def test_records_that_come_with_autosched_are_not_resumed_and_not_written_to(data):
    """On a machine like the one that made them, too: a search of 2 trials is one of 2 trials."""
    recorded(data, PARALLEL, describe_device(LLVM))
    (shipped,) = (data / "shipped").iterdir()
    before = shipped.read_bytes()
    (data / "records").symlink_to(data / "shipped")  # the working folder is the checkout
    fast = MeasureOptions(min_repeat_ms=0.2, repeat=2, builders=1)
    result = autosched.tune(dense(), "llvm", trials=2, measure=fast)
    assert (result.resumed, result.trials) == (0, 2)
    assert shipped.read_bytes() == before
    assert result.log == data / "data" / "autosched" / "records" / "dense.llvm.jsonl"
    again = autosched.tune(dense(), "llvm", trials=2, measure=fast)
    assert (again.resumed, again.trials) == (2, 0), "its own records are"


def test_no_time_for_a_prediction(data, monkeypatch):
    def slow(*_):
        while True:
            pass
        yield

    monkeypatch.setattr(predicting, "choices_by_model", slow)
    monkeypatch.setattr(predicting, "FAIR_SHARE", 0)  # kept however little of the time it got the processor
    found, why = predicting.foreseen(dense(), LLVM, "x", None, limit_s=0.05)
    assert found is None and why.startswith("no prediction within 0.05 s")
    monkeypatch.setattr(predicting, "answers", {})
    monkeypatch.setattr(predicting, "choices_by_model", lambda *_: [(None, "asked again")])
    assert predicting.foreseen(dense(), LLVM, "x", None) == (None, why), "for a day"
    monkeypatch.setattr(predicting, "AGAIN_S", -1.0)
    monkeypatch.setattr(predicting, "answers", {})
    assert predicting.foreseen(dense(), LLVM, "x", None) == (None, "asked again")


def test_what_a_busy_machine_left_no_time_for_is_asked_again(data, monkeypatch):
    def waiting(*_):
        while True:
            time.sleep(0.001)
        yield

    monkeypatch.setattr(predicting, "choices_by_model", waiting)
    assert predicting.foreseen(dense(), LLVM, "x", None, limit_s=0.05)[0] is None
    monkeypatch.setattr(predicting, "answers", {})
    monkeypatch.setattr(predicting, "choices_by_model", lambda *_: [(None, "asked again")])
    assert predicting.foreseen(dense(), LLVM, "x", None) == (None, "asked again")


def test_what_was_seen_in_time_is_taken(data, monkeypatch):
    """The search is cut short; for a day that is the answer, and then there may be a better one."""
    first, better = (predicting.Foreseen(name, [], {}, seconds) for name, seconds in (("first", 2.0), ("better", 1.0)))

    def slow(*_):
        yield first, ""
        while True:
            pass

    monkeypatch.setattr(predicting, "choices_by_model", slow)
    monkeypatch.setattr(predicting, "FAIR_SHARE", 0)  # as above
    assert predicting.foreseen(dense(), LLVM, "x", None, limit_s=0.05)[0] == first
    monkeypatch.setattr(predicting, "choices_by_model", lambda *_: [(first, ""), (better, "")])
    monkeypatch.setattr(predicting, "answers", {})
    assert predicting.foreseen(dense(), LLVM, "x", None)[0] == first
    monkeypatch.setattr(predicting, "AGAIN_S", -1.0)
    for _ in range(2):
        monkeypatch.setattr(predicting, "answers", {})
        assert predicting.foreseen(dense(), LLVM, "x", None) == (better, "")


def test_a_search_space_that_fails_costs_the_prediction_only(data, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("in a template")

    monkeypatch.setattr(predicting, "choices_by_model", broken)
    found = autosched.build(dense()).provenance
    assert found["kind"] == "default"
    assert found["note"] == "no record of this workload; no prediction: in a template: the default schedule"


def test_predictions_can_be_left_out(data, monkeypatch):
    monkeypatch.setenv("AUTOSCHED_PREDICT", "0")
    assert autosched.build(dense()).provenance["note"] == "no record of this workload: the default schedule"


def test_on_the_command_line(data, capsys):
    file = data / "op.py"
    file.write_text(
        "from autosched import te, workload\n@workload\ndef twice(n=1024):\n    a = te.placeholder((n, n), name='a')\n"
        "    return a, te.compute((n, n), lambda i, j: a[i, j] * 2.0, name='b')\n"
    )
    assert main(["build", f"{file}:twice"]) == 0
    assert "predicted by a model of this machine, not measured" in capsys.readouterr().out


def row_sums(rows=None, columns=None):
    n, m = rows or te.var("n"), columns or te.var("m")
    a = te.placeholder((n, m), "float32", name="a")
    k = te.reduce_axis((0, m), name="k")
    return Workload("row_sums", (a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="b")))


def check_row_sums(module, *shapes):
    for n, m in shapes or itertools.product((1, 3, 16, 17, 64, 65, 300), repeat=2):
        a, b = np.random.default_rng(0).random((n, m), np.float32), np.empty(n, np.float32)
        module(a, b)
        np.testing.assert_allclose(b, a.sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("target", ["llvm", "c", "opencl"])
def test_short_rows_have_a_version_of_their_own(data, target):
    """Vectors along rows are what is best for a thousand columns, and dear for three."""
    module = autosched.build(row_sums(), target)
    (short,) = (v for v in module.provenance["versions"] if v["when"].startswith("m <"))
    assert "vectorize" not in predicting_trace(target, "m") and short["sketch"] != module.provenance["sketch"]
    assert json.loads(json.dumps(module.provenance)) == module.provenance
    check_row_sums(module)


def predicting_trace(target, name):
    """The trace of what was chosen where a size is short, as it is remembered."""
    (choice,) = (known for known, _ in predicting.answers.values())
    return json.dumps(next(x.choice.trace for x in choice.short if x.size == name))


def test_versions_are_remembered(data, monkeypatch):
    first = autosched.build(row_sums()).provenance
    monkeypatch.setattr(predicting, "choices_by_model", lambda *_: pytest.fail("it is remembered"))
    monkeypatch.setattr(predicting, "answers", {})  # another process
    again = autosched.build(row_sums())
    assert again.provenance == first and len(first["versions"]) >= 1
    check_row_sums(again)


def test_sizes_that_are_told_are_not_guarded(data):
    whole = autosched.build(row_sums(), sizes={"n": 1024, "m": 1024}).provenance
    assert "versions" not in whole and whole["kind"] == "predicted"
    one = autosched.build(row_sums(), sizes={"m": 1024}).provenance
    assert all(v["when"].startswith("n <") for v in one.get("versions", ()))
    assert "versions" not in autosched.build(row_sums(1000, 1000)).provenance
    short = autosched.build(row_sums(), sizes={"m": 3, "n": 100_000}).provenance
    assert short["knobs"] == {} and short["sketch"] == "default", "vectors are no use to rows of three"


def test_specialized_code_has_none(data):
    check_row_sums(autosched.build(row_sums(), sizes={"n": 50, "m": 3}, specialize=True), (50, 3))


def test_versions_are_shown(data, capsys):
    (data / "rows.py").write_text(
        "from autosched import te, workload\n@workload\ndef sums():\n    n, m = te.var('n'), te.var('m')\n"
        "    a, k = te.placeholder((n, m), name='a'), te.reduce_axis((0, m), 'k')\n"
        "    return a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name='b')\n"
    )
    assert main(["show", f"{data / 'rows.py'}:sums", "--target", "llvm", "--loops"]) == 0
    shown = capsys.readouterr()
    assert "  m < " in shown.err and "if (m < " in shown.out


def test_a_remembered_answer_without_its_versions_is_asked_anew(data, monkeypatch):
    first = autosched.build(row_sums()).provenance
    (file,) = predicting.answers
    for spoilt in ({"short": [{"size": "m"}]}, {"short": "m"}, {"short": None}):
        file.write_text(json.dumps({**json.loads(file.read_text()), **spoilt}))
        monkeypatch.setattr(predicting, "answers", {})
        assert autosched.build(row_sums()).provenance == first


def test_kernels_have_no_storage_that_only_a_call_can_size(data, recwarn):
    """A choice of the model that does not compile costs the prediction, and says so where nobody can mend it."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), "float32", name="a")
    k, k2 = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="k2")
    top = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="top")
    e = te.compute((n, m), lambda i, j: te.exp(a[i, j] - top[i]), name="e")
    total = te.compute((n,), lambda i: te.sum(e[i, k2], axis=k2), name="total")
    w = Workload("soft", (a, te.compute((n, m), lambda i, j: e[i, j] / total[i], name="o")))
    module = autosched.build(w, "opencl")
    assert module.provenance["kind"] == "predicted" and not [x for x in recwarn if x.category is RuntimeWarning]
    x = np.random.default_rng(0).random((5, 70), np.float32)
    expected = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    found = np.empty_like(x)
    module(x, found)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_records_have_versions_for_short_sizes(data):
    """What was tuned at a thousand columns is not what three want; where `tune` is told sizes, those are meant."""
    fast = MeasureOptions(min_repeat_ms=0.2, repeat=2, builders=1)
    sizes = {"n": 512, "m": 1024}
    result = autosched.tune(row_sums(), "llvm", sizes=sizes, space="auto", trials=8, measure=fast)
    module = autosched.build(row_sums())
    assert module.provenance["record"] == result.best.id
    assert any(v["when"].startswith("m <") for v in module.provenance["versions"])
    check_row_sums(module)
    assert "versions" not in autosched.build(row_sums(), sizes=sizes).provenance
    assert autosched.build(row_sums()).provenance == module.provenance
    shown = provenance_line("row_sums", "llvm", module.provenance)
    assert result.best.id in shown and "\n  m < " in shown


def test_no_versions_without_predictions(data, monkeypatch):
    fast = MeasureOptions(min_repeat_ms=0.2, repeat=2, builders=1)
    autosched.tune(row_sums(), "llvm", sizes={"n": 512, "m": 1024}, space="auto", trials=2, measure=fast)
    monkeypatch.setenv("AUTOSCHED_PREDICT", "0")
    assert "versions" not in autosched.build(row_sums()).provenance


def test_lengths_without_a_rest_of_vectors_are_not_short():
    size, choice = te.var("m"), predicting.Foreseen("s", [], {}, 1.0)
    lengths = np.arange(1, 300)
    one = predicting.Short("m", 129, 64, 64, choice)
    (found,) = evaluate([one.condition(size)], {size: lengths})
    assert list(lengths[found.astype(bool)]) == [n for n in range(1, 129) if n not in (64, 128)]
    assert str(one) == "m < 129, but for multiples of 64 from 64 on"
    (plain,) = evaluate([predicting.Short("m", 9, 1, 9, choice).condition(size)], {size: lengths})
    assert (
        list(lengths[plain.astype(bool)]) == [*range(1, 9)] and str(predicting.Short("m", 9, 1, 9, choice)) == "m < 9"
    )


@pytest.mark.parametrize(("stages", "times"), [(1, 1.0), (119, 1.5), (400, 2.0)])
def test_a_long_program_has_more_time(stages, times, monkeypatch) -> None:
    limits = []
    monkeypatch.setattr(predicting, "_within_limit", lambda *args: limits.append(args[-1]) or (None, "none"))
    x = a = te.placeholder((16,), name="a")
    for number in range(stages):
        x = te.compute((16,), lambda i, x=x: x[15 - i] + 1, name=f"x{number}")
    predicting.foreseen(Workload("long", (a, x)), LLVM, "cpu", {})
    assert limits == [times * predicting.LIMIT_S]


def test_a_prediction_does_not_make_sketches_for_long(monkeypatch) -> None:
    seen = []
    real = choosing._choices
    monkeypatch.setattr(choosing, "SKETCHING_S", 0.0)
    monkeypatch.setattr(choosing, "_choices", lambda space, *rest: seen.append(space.cut) or real(space, *rest))
    a, b, k = te.placeholder((64, 64), name="a"), te.placeholder((64, 64), name="b"), te.reduce_axis((0, 64), "k")
    product = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    found, _ = predicting.foreseen(Workload("product", (a, b, product)), LLVM, "cpu", {})
    assert found is not None and "the search has the first 1" in seen[0]
