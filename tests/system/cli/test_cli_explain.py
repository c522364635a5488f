"""`explain` and `simplify` on the command line, on a record that `tune` has just written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import RecordError
from autosched.explaining.subject import means_record, subject_of
from autosched.records import RecordLog

Cli = Callable[..., Any]
LOG = Path("records/brighten.llvm.jsonl")
ONE_THREAD = ("--target", "llvm -threads=1")  # whatever else the machine has to do


@pytest.fixture
def tuned(cli: Cli) -> None:
    """Records of the template only: the default schedule may be as fast, and has no calls."""
    assert cli("tune", "brighten", "--trials", 2, "--strategy", "random", *ONE_THREAD).status == 0
    bands = [r for r in RecordLog(LOG).read().records if r.sketch == "bands"]
    LOG.unlink()
    for r in bands:
        RecordLog(LOG).append(r)


def test_explain_and_simplify(cli: Cli, tuned: None) -> None:
    done = cli("explain", "brighten", "--rounds", 6, *ONE_THREAD)
    assert done.status == 0
    assert done.out.startswith("brighten(channels=3, dtype='uint8') for llvm -threads=1 on ")
    assert 's["brighter"].split("y", factor=rows)' in done.out
    assert "building and measuring" in done.err

    first = RecordLog(LOG).read().records[0]
    data = cli("explain", first.id[:8], "--rounds", 6, "--json").data
    assert data["name"].startswith(f"record {first.id}, bands")
    assert {r["primitive"] for r in data["rows"]} == {"split", "parallel"}

    before = len(RecordLog(LOG).read().records)
    done = cli("simplify", "brighten", "--rounds", 6, "--write", *ONE_THREAD)
    assert done.status == 0
    assert done.out.startswith("def schedule(s):")
    after = RecordLog(LOG).read().records
    assert len(after) == before + ("written to" in done.err)
    assert ("written to" in done.err) != ("no record is written" in done.err)


def test_ids_name_records(cli: Cli, tuned: None) -> None:
    """As `records` shows them, or so much of one that there is no other."""
    lines = RecordLog(LOG).read().records
    twin = replace(lines[0], id="abcd000000000001")
    for r in (twin, replace(twin, id="abcd000000000002"), twin.with_playoff((1.0,), run="r", winner=True, speedup=2.0)):
        RecordLog(LOG).append(r)
    assert subject_of(lines[0].id[:12]).record.id == lines[0].id
    found = subject_of("abcd000000000001").record
    assert found.playoff is not None  # the latest line of it
    with pytest.raises(RecordError, match="no record has an id that begins so"):
        subject_of("abcd0000000000ff")


@pytest.mark.parametrize("verb", ["explain", "simplify"])
def test_ids_that_name_none_or_several(cli: Cli, tuned: None, verb: str) -> None:
    first = RecordLog(LOG).read().records[0]
    for n in range(12):
        RecordLog(LOG).append(replace(first, id=f"abcdef0{n:09x}"))
    several = cli(verb, "abcdef0")
    assert several.status == 4
    assert "12 records have ids that begin so" in several.err
    assert several.err.count("brighten.llvm.jsonl:") == 10
    assert "and 2 more" in several.err
    none = cli(verb, "abcdef0f")
    assert none.status == 4
    assert "no record has an id that begins so" in none.err
    assert "FILE.jsonl:LINE" in none.err
    assert str(LOG.parent.resolve()) in none.err
    assert cli(verb, "abcdef0", "--param", "channels=4").status == 2
    assert "no such workload" in cli(verb, "abc").err  # too short to be meant as one
    assert "for llvm" in cli(verb, f"abcdef0{3:09x}", "--target", "opencl").err


def test_a_workload_whose_name_could_be_an_id_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    assert means_record("face")
    monkeypatch.setattr("autosched.explaining.subject.list_workloads", lambda: {"face": Path("face.py")})
    assert not means_record("face")


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (("explain", "brighten"), 4, "no record of it works on llvm"),
        (("explain", "nowhere"), 2, "no such workload"),
        (("explain", "nowhere.jsonl"), 4, "cannot read"),
        (("explain", "nowhere.jsonl", "--param", "channels=4"), 2, "a record has its own"),
        (("explain", "brighten", "--rounds", 3), 2, "3 is less than 6"),
        (("simplify", "brighten", "--target", "abacus"), 2, "abacus"),
        (("simplify",), 2, "RECORD"),
    ],
)
def test_wrong_usage(cli: Cli, words: tuple[object, ...], status: int, why: str) -> None:
    done = cli(*words)
    assert why in done.err
    assert done.status == status
    assert done.out == ""
