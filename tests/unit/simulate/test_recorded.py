"""Recorded spaces: the file, what a strategy sees of it, and what a measurement draws."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from autosched.errors import RecordError, UsageError
from autosched.records import Record
from autosched.search import Candidate, values_of
from autosched.simulate import recording
from autosched.simulate.recorded import SUFFIX, find_space, list_spaces, load
from autosched.simulate.recording import check_features, from_records, renewed, write
from autosched.space.loading import find_workload
from autosched.space.space import template_space
from autosched.target import Target

SPACES = list_spaces(Path(__file__).resolve().parents[3] / "records")


@pytest.fixture(scope="module")
def softmax():
    return load(SPACES["softmax"])


def records_of(points: int, **changes):
    """Records of the first points of softmax's space, as tuning writes them; the second one fails."""
    w = find_workload("softmax")()
    sketch = template_space(w, Target("llvm"), {}).sketches[0]
    rows = np.array(list(np.ndindex(*(len(k.values) for k in sketch.knobs))))
    rows = rows[sketch.mask(rows)][:points]
    of = {"name": w.name, "key": w.key, "params": w.params, "args": w.describe_args(), "sizes": {}}
    facts = {"workload": of, "target": "llvm", "device": {"name": "cpu"}, "sketch": sketch.name, "trace": sketch.trace}
    return [
        Record(
            **{**facts, **changes},
            knobs=sketch.values(row),
            status="timeout" if i == 1 else "ok",
            samples=() if i == 1 else (1e-3 * (i + 1), 1.1e-3 * (i + 1)),
        )
        for i, row in enumerate(rows)
    ]


@pytest.mark.parametrize("name", SPACES)
def test_what_is_checked_in_can_be_used(name):
    space = load(SPACES[name])
    assert space.name == name
    assert space.size > 50
    for sketch in space.sketches:
        assert sketch.mask(sketch.points).all()
        assert sketch.features(sketch.points).shape == (len(sketch.points), len(space.feature_names))
        values, best = sketch.seconds, space.best_seconds
        assert (values >= best).all()
    check_features(space)


def test_the_largest_space_is_whole():
    assert load(SPACES["matmul-1024"]).facts["whole"]
    assert load(SPACES["matmul-1024"]).size == 2484


def test_a_point_outside_or_unmeasured_is_infeasible(softmax):
    sketch = softmax.sketches[0]
    rows = np.array([[-1] * len(sketch.knobs), [99] * len(sketch.knobs), sketch.points[0].tolist()])
    assert sketch.mask(rows).tolist() == [False, False, True]
    with pytest.raises(IndexError, match="was not measured"):
        sketch.features(rows)
    assert softmax.measure([Candidate(0, (99,) * len(sketch.knobs))])[0].status == "constraints"


def test_measuring_draws_from_the_samples_of_the_point_by_the_seed(softmax):
    points = softmax.points()[:40]
    first, again, other = softmax.measure(points, 1), softmax.measure(points, 1), softmax.measure(points, 2)
    assert first == again != other
    assert softmax.measure(points[::-1], 1) == first[::-1]
    for trial in first:
        at = softmax.sketches[0].positions(np.array([trial.candidate.indices]))[0]
        assert set(trial.samples) <= set(softmax.sketches[0].samples[at])
        assert trial.seconds == sorted(trial.samples)[1]


def test_records_become_a_space_and_the_file_reads_back(tmp_path):
    records = records_of(20)
    again = [r for r in records if r.ok and r.seconds < 5e-3]
    space = from_records("soft", [*records, *again], "a note")
    assert (space.size, space.best_seconds) == (20, pytest.approx(1.05e-3))
    assert [t.status for t in space.measure(space.points())].count("timeout") == 1
    assert len(space.sketches[0].samples[0]) == 4
    assert not space.facts["whole"] or space.size == np.prod([len(k.values) for k in space.sketches[0].knobs])
    write(space, tmp_path / "soft.json.gz")
    back = load(tmp_path / "soft.json.gz")
    write(back, tmp_path / "again.json.gz")
    assert (tmp_path / "again.json.gz").read_bytes() == (tmp_path / "soft.json.gz").read_bytes()
    assert back.facts == space.facts
    assert np.array_equal(back.sketches[0].table, space.sketches[0].table)


def test_features_are_those_of_the_template_s_space_on_the_machine_that_measured(softmax):
    w = find_workload("softmax")()
    limits = softmax.facts["limits"]
    assert limits["l2_bytes"] > 1 << 16
    sketch = template_space(w, Target("llvm -threads=2").with_limits(**limits), {}).sketches[0]
    point = softmax.points()[7]
    values = values_of(softmax, point)
    row = np.array([sketch.indices_of(values)])
    np.testing.assert_allclose(
        softmax.sketches[0].features(np.array([point.indices])), sketch.features(row), rtol=1e-5, atol=1e-6
    )


def test_features_of_another_version_are_refused_and_can_be_renewed(softmax, monkeypatch):
    monkeypatch.setattr(recording, "FEATURE_VERSION", "another")
    with pytest.raises(RecordError, match=r"version .* of another\n.*--renew"):
        check_features(softmax)
    new = renewed(softmax)
    check_features(new)
    np.testing.assert_allclose(new.sketches[0].table, softmax.sketches[0].table)
    assert new.sketches[0].samples == softmax.sketches[0].samples


def test_records_that_do_not_belong_together_are_refused():
    with pytest.raises(RecordError, match="no records"):
        from_records("soft", [])
    with pytest.raises(RecordError, match="of 2 workloads, sizes, targets or devices"):
        from_records("soft", [*records_of(3), *records_of(3, device={"name": "another"})])
    gone = {**records_of(1)[0].workload, "name": "sofmax"}
    with pytest.raises(RecordError, match="workload 'sofmax' is not found"):
        from_records("soft", records_of(3, workload=gone))
    other = {**records_of(1)[0].workload, "key": "0" * 16}
    with pytest.raises(RecordError, match="computes something else"):
        from_records("soft", records_of(3, workload=other))
    with pytest.raises(RecordError, match="cannot be replayed"):
        from_records("soft", records_of(3, trace=[["split", "nobody", "i", {"factor": 2}]]))


def damaged(data, path):
    path.write_bytes(gzip.compress(json.dumps(data).encode()))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "its format is 2"),
        ({"sketches": None}, "it is damaged: sketches is not an array"),
        ({"features": {}}, "it is damaged: features.version is missing"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error(change, message, tmp_path):
    data = json.loads(gzip.decompress(SPACES["softmax"].read_bytes()))
    with pytest.raises(RecordError, match=message):
        load(damaged({**data, **change}, tmp_path / f"x{SUFFIX}"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s["points"].append(s["points"][0]), "twice the same"),
        (lambda s: s["points"].__setitem__(0, [99] * len(s["knobs"])), "points that are none"),
        (lambda s: s["samples"].pop(), "what is ok has samples"),
        (lambda s: s["samples"].__setitem__(0, []), "what is ok has samples"),
        (lambda s: s["samples"].__setitem__(0, [-1.0]), "positive and finite"),
        (lambda s: s["features"].pop(), "one column for each name"),
        (lambda s: s["knobs"].__setitem__(0, ["huge", list(range(1 << 19))]), "combinations of knob values"),
    ],
)
def test_damage_in_a_sketch_is_found(change, message, tmp_path):
    data = json.loads(gzip.decompress(SPACES["softmax"].read_bytes()))
    change(data["sketches"][0])
    with pytest.raises(RecordError, match=message):
        load(damaged(data, tmp_path / f"x{SUFFIX}"))


def test_bytes_that_are_no_file_are_an_error(tmp_path):
    (tmp_path / "a.json.gz").write_bytes(b"nothing")
    (tmp_path / "b.json.gz").write_bytes(SPACES["softmax"].read_bytes()[:500])
    for name in ("a", "b", "c"):
        with pytest.raises(RecordError, match="cannot be read|is damaged"):
            load(tmp_path / f"{name}.json.gz")


def test_an_unknown_space_names_its_neighbours():
    with pytest.raises(UsageError, match=r"no such recorded space\n.*did you mean 'softmax'"):
        find_space("softmx", SPACES["softmax"].parents[1])
