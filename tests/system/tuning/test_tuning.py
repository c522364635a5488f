"""`tune` and `build` end to end, on small images, with the real compiler and real workers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched import te
from autosched.building import plan
from autosched.errors import MeasureError, RecordError, UsageError, WorkloadError
from autosched.measure.protocol import MeasureOptions
from autosched.records import RecordLog, default_path, new_id
from autosched.space.features import FEATURE_VERSION
from autosched.space.loading import find_workload
from autosched.space.space import template_space
from autosched.target import Target
from autosched.tuning import Note, PlayoffDone, Preflight, Started, TrialDone

ROOT = Path(__file__).resolve().parents[3]
SIZES = {"height": 24, "width": 40}
FAST = MeasureOptions(min_repeat_ms=0.2, repeat=2, builders=2)


@pytest.fixture(scope="module")
def blur():
    return find_workload("box_blur", ROOT / "search_spaces")()


@pytest.fixture(scope="module")
def tuned(blur, tmp_path_factory):
    """One run of six trials, its events and its folder."""
    folder = tmp_path_factory.mktemp("records")
    events = []
    result = autosched.tune(
        blur, "llvm", trials=6, sizes=SIZES, records=folder, strategy="random", measure=FAST, progress=events.append
    )
    return result, events, folder


def test_a_run_reports_in_order_and_records_every_trial(tuned):
    result, events, folder = tuned
    kinds = [type(e) for e in events if not isinstance(e, Note)]
    assert kinds[0] is Started
    assert kinds[1] is Preflight
    assert kinds[2:-1] == [TrialDone] * 6
    assert kinds[-1] is PlayoffDone
    assert result.trials == 6
    assert result.resumed == 0
    contents = RecordLog(default_path("box_blur", "llvm", folder)).read()
    assert not contents.problems
    trials = [r for r in contents.records if r.sketch != "default" and r.playoff is None]
    assert len(trials) == 6
    assert all(r.verified == "full" for r in trials if r.ok)


def test_trials_are_recorded_with_their_features(tuned, blur):
    _, _, folder = tuned
    space = template_space(blur, Target.parse("llvm"), SIZES)
    lines = RecordLog(default_path("box_blur", "llvm", folder)).read().records
    for r in lines:
        values = r.features(space.feature_version)
        if r.sketch == "default":
            assert values is None
        else:
            assert values is not None and len(values) == len(space.feature_names)


def test_records_of_another_shape_prime_the_model(tuned, blur, tmp_path):
    _, _, folder = tuned
    log = default_path("box_blur", "llvm", tmp_path)
    log.write_bytes(default_path("box_blur", "llvm", folder).read_bytes())
    other = next(r for r in RecordLog(log).read().records if r.features(FEATURE_VERSION))
    RecordLog(log).append(replace(other, id="elsewhere").with_features("of old", [1.0]))

    def notes(**options):
        sizes = {"height": 16, "width": 48}
        result = autosched.tune(blur, "llvm", trials=1, sizes=sizes, records=tmp_path, measure=FAST, **options)
        return "\n".join(result.notes)

    said = notes()
    assert "primed with 6 trials of 1 other shape" in said
    assert "no features of this version: 1" in said
    assert "primed" not in notes(transfer=False)
    assert "primed" not in notes(model="none")


def test_the_winner_is_confirmed_against_the_default_schedule(tuned):
    result, _, folder = tuned
    assert result.default_seconds > 0
    assert result.seconds > 0
    lines = RecordLog(default_path("box_blur", "llvm", folder)).read().records
    winners = [r for r in lines if r.playoff and r.playoff["winner"]]
    if result.best is None:  # on a busy machine a tiny image may show no significant gain
        assert not winners
    else:
        assert [w.id for w in winners] == [result.best.id]
        assert result.interval[0] <= result.speedup <= result.interval[1]
    json.dumps(result.to_json())


def test_a_result_gives_its_trials_as_a_table_and_as_a_study(tuned, tmp_path):
    """Those of the task alone, not what else the log holds."""
    log = RecordLog(tmp_path / "copy.jsonl")
    log.path.write_bytes(tuned[0].log.read_bytes())
    result = replace(tuned[0], log=log.path)
    log.append(replace(result.recorded()[0], id=new_id(), device={"name": "another"}))
    assert {r.device_name for r in result.recorded()} == {result.device}
    tried = {r.id for r in log.read().records} - {log.read().records[-1].id}
    assert set(result.to_frame()["id"]) == tried
    study = result.to_optuna()
    assert {t.user_attrs["id"] for t in study.trials} == tried
    assert study.user_attrs["key"] == result.key == log.read().records[0].key
    if result.best is not None:
        assert (
            result.best.knobs.items()
            <= next(t.params for t in study.trials if t.user_attrs["id"] == result.best.id).items()
        )


def test_a_hopeless_default_schedule_stays_away_from_the_play_off(blur, tmp_path, monkeypatch):
    """Its one measurement is compared: the speed-up is exact, where two runs would differ."""
    monkeypatch.setattr("autosched.tuning.playoff.BEYOND_DOUBT", 0.0)
    result = autosched.tune(
        blur, "llvm", trials=3, sizes=SIZES, records=tmp_path, strategy="random", measure=FAST, seed=1
    )
    assert result.speedup * result.seconds == pytest.approx(result.default_seconds, rel=1e-12)


def test_running_again_resumes(blur, tuned, tmp_path):
    _, _, folder = tuned
    copy = tmp_path / "box_blur.llvm.jsonl"
    copy.write_bytes(default_path("box_blur", "llvm", folder).read_bytes())
    again = autosched.tune(blur, "llvm", trials=8, sizes=SIZES, records=tmp_path, strategy="random", measure=FAST)
    assert again.resumed == 6
    assert again.trials == 2
    done = autosched.tune(blur, "llvm", trials=8, sizes=SIZES, records=tmp_path, strategy="random", measure=FAST)
    assert (done.resumed, done.trials) == (8, 0)


def test_patience_ends_a_run_that_finds_nothing_faster(blur, tmp_path):
    events = []
    autosched.tune(
        blur,
        "llvm",
        trials=40,
        patience=2,
        strategy="random",
        sizes=SIZES,
        records=tmp_path,
        measure=FAST,
        progress=events.append,
    )
    seconds = [e.record.seconds for e in events if isinstance(e, TrialDone)]
    best, in_vain = float("inf"), 0
    for n, s in enumerate(seconds):
        assert in_vain < 2, f"trial {n} was one too many"
        best, in_vain = (s, 0) if s < best else (best, in_vain + 1)
    assert in_vain == 2 and len(seconds) < 40
    assert any("the last 2 trials found nothing faster" in e.text for e in events if isinstance(e, Note))


def test_strategies_are_given_their_options(blur, tmp_path):
    with pytest.raises(UsageError, match="no option 'colour'|colour"):
        autosched.tune(blur, "llvm", strategy_options={"colour": 1}, strategy="random", sizes=SIZES, records=tmp_path)


def test_build_applies_the_best_record_and_says_so(blur, tuned):
    result, _, folder = tuned
    module = autosched.build(blur, "llvm", records=folder, sizes=SIZES)
    if result.best is not None:
        assert module.provenance["record"] == result.best.id
    assert module.provenance["kind"] == "record"
    (image,) = blur.sample_inputs({"height": 31, "width": 17})
    assert np.array_equal(module(image), blur.reference([image])[0])


def test_without_records_build_uses_the_default_schedule(blur, tmp_path):
    module = autosched.build(blur, "llvm", records=tmp_path)
    assert module.provenance["kind"] == "default"
    (image,) = blur.sample_inputs({"height": 5, "width": 7})
    assert np.array_equal(module(image), blur.reference([image])[0])


def test_a_record_that_no_longer_replays_is_passed_over_with_its_name(blur, tuned, tmp_path):
    _, _, folder = tuned
    good = RecordLog(default_path("box_blur", "llvm", folder)).read().records
    log = RecordLog(default_path("box_blur", "llvm", tmp_path))
    best = next(r for r in good if r.ok and r.sketch != "default")
    from dataclasses import replace

    broken = replace(
        best, trace=[["split", "box_blur", "no_such_loop", {"factor": 4}]], knobs={}, id="feedfeedfeedfeed"
    )
    log.append(broken)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = autosched.build(blur, "llvm", records=tmp_path)
    assert module.provenance["kind"] == "default"
    assert any("feedfeedfeedfeed" in str(w.message) and "no_such_loop" in str(w.message) for w in caught)


def test_records_of_another_variant_are_not_used(tuned):
    _, _, folder = tuned
    other = find_workload("box_blur", ROOT / "search_spaces")(channels=4)
    assert plan(other, "llvm", records=folder).provenance["kind"] == "default"


def test_a_torn_last_line_loses_one_trial_and_is_named(blur, tuned, tmp_path):
    _, _, folder = tuned
    data = default_path("box_blur", "llvm", folder).read_bytes()
    torn = tmp_path / "box_blur.llvm.jsonl"
    torn.write_bytes(data[:-20])
    events = []
    autosched.tune(
        blur, "llvm", trials=1, sizes=SIZES, records=tmp_path, strategy="random", measure=FAST, progress=events.append
    )
    assert any(isinstance(e, Note) and "passed over" in e.text for e in events)
    assert len(RecordLog(torn).read().problems) == 1


def test_opencl_tunes_and_builds(blur, tmp_path):
    result = autosched.tune(blur, "opencl", trials=2, sizes=SIZES, records=tmp_path, strategy="random", measure=FAST)
    assert result.trials == 2
    module = autosched.build(blur, "opencl", records=tmp_path)
    (image,) = blur.sample_inputs({"height": 9, "width": 13})
    assert np.array_equal(module(image), blur.reference([image])[0])


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"trials": -1}, UsageError, "-1 is not 0 or more"),
        ({"trials": None}, UsageError, "neither trials nor budget_s"),
        ({"budget_s": 0}, UsageError, "0 is not more than 0"),
        ({"strategy": "guidde"}, UsageError, "guided"),
        ({"target": "openc"}, UsageError, "opencl"),
    ],
)
def test_arguments_that_cannot_be_meant(blur, tmp_path, arguments, error, text):
    given = {"target": "llvm", "trials": 1, "sizes": SIZES, "records": tmp_path, "measure": FAST, **arguments}
    with pytest.raises(error, match=text):
        autosched.tune(blur, **given)


def test_a_folder_that_cannot_be_written_is_found_out_at_once(blur, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(RecordError, match="cannot be written"):
        autosched.tune(blur, "llvm", trials=1, sizes=SIZES, records=tmp_path / "file", measure=FAST)


def test_a_workload_without_a_template_is_tuned_by_rules(tmp_path):
    @autosched.workload
    def lonely():
        n = te.var("n")
        a = te.placeholder((n,), "int32", name="a")
        return a, te.compute((n,), lambda i: a[i] + 1, name="b")

    asked = {"trials": 2, "sizes": {"n": 100}, "records": tmp_path, "measure": FAST}
    found = autosched.tune(lonely, "llvm", **asked)
    assert found.trials == 2
    assert not found.failures
    built = autosched.build(lonely, "llvm", records=str(tmp_path))
    a = np.arange(7, dtype="int32")
    np.testing.assert_array_equal(built(a), a + 1)
    with pytest.raises(WorkloadError, match="no template for llvm"):
        autosched.tune(lonely, "llvm", space="templates", **asked)


def test_when_even_the_default_schedule_fails_nothing_is_tuned(blur, tmp_path, monkeypatch):
    (image,) = blur.sample_inputs(SIZES)
    monkeypatch.setattr(type(blur), "reference", lambda self, inputs: [np.full_like(image, 7)])
    with pytest.raises(MeasureError, match="the default schedule fails \\(correctness\\)"):
        autosched.tune(blur, "llvm", trials=1, inputs=[image], records=tmp_path, measure=FAST)


def test_ctrl_c_keeps_what_was_found(tmp_path):
    """SIGINT in the middle of a run: a result, exit by itself, every acknowledged record readable."""
    script = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import autosched
from autosched.measure.protocol import MeasureOptions
from autosched.space.features import FEATURE_VERSION
from autosched.space.loading import find_workload
from autosched.space.space import template_space
from autosched.target import Target
from autosched.tuning import TrialDone

def tell(event):
    if isinstance(event, TrialDone) and event.index == 3:
        print("three", flush=True)

if __name__ == "__main__":
    r = autosched.tune(find_workload("box_blur", {str(ROOT / "search_spaces")!r})(), trials=500, sizes={SIZES!r},
                       records={str(tmp_path)!r}, strategy="random", progress=tell,
                       measure=MeasureOptions(min_repeat_ms=0.2, repeat=2))
    print("interrupted", r.interrupted, r.trials >= 3, r.best is not None, flush=True)
"""
    path = tmp_path / "run.py"
    path.write_text(script)
    process = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "three"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert out.strip() == "interrupted True True True"
    contents = RecordLog(default_path("box_blur", "llvm", tmp_path)).read()
    assert len(contents.records) >= 4
    assert not contents.problems
