"""Records of others: what they may hold, what is believed of them, and that no damage to one gives a wrong answer."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
from mutated_records import mutations, programs, record_of

import autosched
from autosched import te, template, trust, workload
from autosched.errors import AutoschedError, TargetError
from autosched.measure import roofline
from autosched.planning import plans_to_try
from autosched.records import RecordLog, default_path, sealed
from autosched.runtime.device import describe_device, resolve_target
from autosched.schedule import primitive
from autosched.space.workload import Workload

LLVM = resolve_target("llvm")


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@workload
def doubled(n=24):
    a = te.placeholder((n, 16), "float32", name="a")
    return a, te.compute((n, 16), lambda i, j: a[i, j] * 2.0, name="b")


PLAIN = [["parallel", "b", "i"]]
SKIPPED = [["pragma", "b", "i", "debug_skip_region"]]
SOME = [["set_store_predicate", "b", ["lt", ["loop", "i"], 3]]]


def written(folder, *records):
    for r in records:
        RecordLog(default_path(r.workload["name"], r.target_kind, folder)).append(r)
    return str(folder)


def record(trace, w=None, **changes):
    return record_of(w or doubled(), trace, changes.pop("device", describe_device(LLVM)), **changes)


def is_right(module):
    x = np.arange(24 * 16, dtype="float32").reshape(24, 16)
    out = np.full_like(x, np.nan)
    module(x, out)
    return np.array_equal(out, x * 2)


@pytest.mark.parametrize("trace", [SKIPPED, SOME])
def test_a_record_that_leaves_something_out_is_passed_over(tmp_path, trace):
    """It claims to be verified, and to be the fastest."""
    bad, good = record(trace, samples=(1e-4,)), record(PLAIN)
    with pytest.warns(RuntimeWarning, match=f"{bad.id} .*may not use it"):
        module = autosched.build(doubled(), records=written(tmp_path, bad, good))
    assert module.provenance["record"] == good.id and is_right(module)


@pytest.mark.parametrize("trace", [SKIPPED, SOME])
def test_should_one_get_through_its_output_is_compared(tmp_path, monkeypatch, trace):
    monkeypatch.setattr(primitive, "doubt", lambda i: "")
    folder = written(tmp_path, record(trace))
    for _ in range(2):  # the second time it is known
        with pytest.warns(RuntimeWarning, match="its output is wrong: b: "):
            module = autosched.build(doubled(), records=folder)
        assert module.provenance["kind"] == "default" and is_right(module)
        monkeypatch.setattr(Workload, "reference", lambda *_: pytest.fail("it was checked before"))


def test_a_record_of_this_machines_own_run_is_not_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "check", lambda *_: pytest.fail("it was verified when it was tuned"))
    module = autosched.build(doubled(), records=written(tmp_path, sealed(record(PLAIN))))
    assert module.provenance["verified"] == "by a run on this machine"


def test_what_a_run_verifies_is_its_own(tmp_path, monkeypatch):
    from autosched.measure.protocol import MeasureOptions

    fast = MeasureOptions(min_repeat_ms=0.2, repeat=2, builders=1)
    autosched.tune(doubled(), trials=1, space="auto", records=tmp_path, measure=fast)
    monkeypatch.setattr(trust, "check", lambda *_: pytest.fail("it was verified when it was tuned"))
    assert (
        autosched.build(doubled(), records=str(tmp_path)).provenance.get("verified", "by a run").startswith("by a run")
    )


def test_the_verdict_is_kept_for_other_processes(tmp_path, monkeypatch):
    folder = written(tmp_path, record(PLAIN))
    assert autosched.build(doubled(), records=folder).provenance["verified"] == "compared with the reference"
    monkeypatch.setattr(trust, "known_verdicts", {})
    monkeypatch.setattr(trust, "check", lambda *_: pytest.fail("it was checked before"))
    assert autosched.build(doubled(), records=folder).provenance["verified"] == "compared with the reference"
    (tmp_path / "cache" / "autosched" / "verdicts.jsonl").write_text("damaged\n[1]\n")
    monkeypatch.setattr(trust, "known_verdicts", {})
    monkeypatch.setattr(trust, "check", lambda *_: ("", "again"))
    assert autosched.build(doubled(), records=folder).provenance["verified"] == "again"


def test_symbolic_sizes_are_checked_small(tmp_path):
    n = te.var("n")
    a = te.placeholder((n,), "float32", name="a")
    w = Workload("open", (a, te.compute((n,), lambda i: a[i] + 1.0, name="b")))
    free = [["split", "b", "i", {"factor": 8}], ["vectorize", "b", "i.inner"]]
    module = autosched.build(w, records=written(tmp_path / "free", record(free, w)))
    assert module.provenance["verified"] == "compared with the reference at n=61"
    picky = [["split", "b", "i", {"factor": 8, "disable_predication": True}]]
    module = autosched.build(w, records=written(tmp_path / "picky", record(picky, w)))
    assert module.provenance["verified"] == "compared with the reference at n=64", "61 is refused"


def test_what_is_too_large_to_check_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(trust, "MOST_POINTS", 100)
    verified = autosched.build(doubled(), records=written(tmp_path, record(PLAIN))).provenance["verified"]
    assert verified == "not on this machine: its inputs are too large for the reference"


@workload
def told(n=24):
    a = te.placeholder((n,), "float32", name="a")
    return a, te.compute((n,), lambda i: a[i] * 2.0, name="b")


@template(told, target="llvm")
def promised(s):
    _, inner = s["b"].split("i", factor=s.define_knob("lanes", [4, 8]))
    s["b"].set_store_predicate(inner.var >= 0)


def test_what_the_workloads_own_template_promises_is_its_authors_word(tmp_path):
    (sketch,) = autosched.search_space(told()).sketches
    mine = record(sketch.trace, told(), knobs={"lanes": 8})
    module = autosched.build(told(), records=written(tmp_path, mine))
    assert module.provenance["record"] == mine.id
    other = record([*sketch.trace, *SOME], told(), knobs={"lanes": 8})
    with pytest.warns(RuntimeWarning, match="may not use it"):
        autosched.build(told(), records=written(tmp_path / "other", other))


# -- times ----------------------------------------------------------------------------------------
def test_a_time_that_no_machine_reaches_is_not_believed(tmp_path):
    w = doubled(4096)
    claim, honest = record(PLAIN, w, samples=(1e-9,)), record([["unroll", "b", "i"]], w, samples=(1e-3,))
    honest = replace(honest, trace=[["parallel", "b", "i"], ["vectorize", "b", "j"]])
    with pytest.warns(RuntimeWarning, match=f"{claim.id} .*less than any machine needs"):
        module = autosched.build(w, records=written(tmp_path, claim, honest))
    assert module.provenance["record"] == honest.id


def test_the_measured_roofline_is_a_nearer_bound(monkeypatch):
    device = describe_device(LLVM)
    everywhere = trust.least_seconds(doubled(4096), LLVM, {}, device, measured=True)
    level = roofline.Level("memory", None, False, 1 << 20, {1: 1e9}, {1: 1e9})
    slow = roofline.Roofline("slow", 1, "today", (level,), {"float32": {1: 1e9}, "float64": {1: 1e9}})
    monkeypatch.setattr(trust, "cached", lambda: slow)
    here = trust.least_seconds(doubled(4096), LLVM, {}, device, measured=True)
    assert here > 10 * everywhere
    assert trust.least_seconds(doubled(4096), LLVM, {}, device, measured=False) == everywhere
    moved = 2 * 4096 * 16 * 4
    assert here == pytest.approx(moved / 1e9 / trust.ROOFLINE_SLACK)


def test_an_unknown_device_is_allowed_to_be_fast():
    w = doubled(4096)
    known = trust.least_seconds(w, LLVM, {}, {"threads": 2}, measured=False)
    for device in ({}, {"threads": "many"}, {"threads": -1}, {"threads": 10**9}):
        assert trust.least_seconds(w, LLVM, {}, device, measured=False) < known


# -- damage ---------------------------------------------------------------------------------------
def wrong_answers(count, seed, folder):
    """(How many records were applied, those that gave a wrong answer.) None is compared before it is used."""
    device, applied, wrong = describe_device(LLVM), 0, []
    for w, traces in programs():
        inputs = w.sample_inputs()
        expected = w.reference(inputs)
        file = default_path(w.name, "llvm", folder)
        for line in itertools.islice(mutations(w, traces, device, seed), count // 2):
            file.write_bytes(line)
            plan = next(plans_to_try(w, LLVM, str(folder), None, None))
            if plan.provenance["kind"] == "default":
                continue
            applied += 1
            outputs = [np.full(e.shape, 77, e.dtype) for e in expected]
            try:
                plan.compile()(*inputs, *outputs)
            except AutoschedError:
                continue
            wrong += [line for o, e in zip(outputs, expected, strict=True) if not np.allclose(o, e, rtol=1e-4)]
    return applied, wrong


def test_no_mutated_record_gives_a_wrong_answer(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        applied, wrong = wrong_answers(120, 7, tmp_path)
    assert wrong == [] and applied > 3


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_none_of_many_does(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        applied, wrong = wrong_answers(4000, 11, tmp_path)
    assert wrong == [] and applied > 200


@pytest.mark.parametrize(
    "target", ["llvm -mtriple=aarch64-linux-gnu", "llvm -mcpu=graniterapids", "c -mcpu=cortex-a72"]
)
def test_records_serve_code_that_does_not_run_here(tmp_path, target):
    folder = written(tmp_path, record(PLAIN, target=target.partition(" ")[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = autosched.build(doubled(), target, records=folder)
    assert module.provenance["kind"] == "record"
    assert module.provenance["verified"] == "not on this machine: it is for another CPU"


def test_a_target_that_there_is_not_is_no_fault_of_records(tmp_path):
    folder = written(tmp_path, record(PLAIN))
    with warnings.catch_warnings(), pytest.raises(TargetError, match="no machine code is made for"):
        warnings.simplefilter("error")
        autosched.build(doubled(), "llvm -mtriple=nothing", records=folder)
