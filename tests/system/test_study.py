"""`ask_and_tell`: the search without the loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched.errors import UsageError
from autosched.records import RecordLog
from autosched.space.loading import find_workload

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"height": 24, "width": 40}


@pytest.fixture(scope="module")
def blur():
    return find_workload("box_blur", ROOT / "search_spaces")()


def seconds_of(asked):
    """Stands in for a measurement: the same for the same candidate."""
    return 1e-3 * (1 + sum(asked.candidate.indices) + asked.candidate.sketch)


def test_what_is_asked_can_be_built_and_is_right(blur):
    study = autosched.ask_and_tell(blur, "llvm", sizes=SIZES, seed=1, strategy="random")
    (asked,) = study.ask()
    (image,) = blur.sample_inputs(SIZES)
    assert np.array_equal(asked.build()(image), blur.reference([image])[0])
    assert asked.sketch in {sketch.name for sketch in study.space.sketches}
    assert all(str(value) in asked.as_python() for value in asked.knobs.values())


def test_the_best_is_what_was_told_to_be(blur):
    study = autosched.ask_and_tell(blur, "llvm", sizes=SIZES)
    assert study.best is None
    first, second, third = study.ask(3)
    study.tell(first, 2e-3)
    study.tell(second, [1e-3, 3e-3, 1.1e-3])
    study.tell(third, "timeout")
    assert study.best == (second, 1.1e-3)
    assert len({asked.candidate for asked in (first, second, third, *study.ask(8))}) == 11


def test_records_start_another_study(blur, tmp_path):
    """The second study knows what the first was told, and asks for nothing of it again."""
    path = tmp_path / "mine.jsonl"
    one = autosched.ask_and_tell(blur, "llvm", sizes=SIZES, strategy="droplet", records=path)
    for asked in one.ask(6):
        one.tell(asked, seconds_of(asked))
    one.tell(one.ask()[0], "compile")
    two = autosched.ask_and_tell(blur, "llvm", sizes=SIZES, strategy="droplet", warm_start=RecordLog(path))
    assert sorted(two.trials, key=str) == sorted(one.trials, key=str) and two.best[1] == one.best[1]
    known = {trial.candidate for trial in one.trials}
    assert known.isdisjoint(asked.candidate for asked in two.ask(8))
    assert [r.verified for r in RecordLog(path).read().records] == ["no"] * 7
    elsewhere = autosched.ask_and_tell(blur, "llvm", sizes={"height": 9, "width": 8}, warm_start=RecordLog(path))
    assert elsewhere.trials == []


def test_what_cannot_be_meant(blur):
    study, other = (autosched.ask_and_tell(blur, "llvm", sizes=SIZES, strategy="random") for _ in range(2))
    (asked,) = study.ask()
    for outcome, why in (
        (0.0, "is no time"),
        ([], "is no time"),
        (float("nan"), "is no time"),
        (["fast"], "is no time"),
        ("ok", "no failure"),
    ):
        with pytest.raises(UsageError, match=why):
            study.tell(asked, outcome)
    for told, study_told in ((asked, other), ("rows=4", study)):
        with pytest.raises(UsageError, match="not asked of this study"):
            study_told.tell(told, 1.0)
    with pytest.raises(UsageError, match="not a number of candidates"):
        study.ask(0)
    assert study.trials == []
    for options in ({"strategy_options": [1]}, {"rules": 3}):
        with pytest.raises(UsageError, match=r"ask_and_tell\(\w+=..\): .* is not a (dictionary|list) of"):
            autosched.ask_and_tell(blur, "llvm", sizes=SIZES, **options)
    study.tell(asked, np.array([3e-3, 1e-3, 2e-3]))
    assert study.best[1] == 2e-3
