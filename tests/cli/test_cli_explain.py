"""`explain` and `simplify` on the command line, on a record that `tune` has just written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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

    data = cli("explain", f"{LOG}:1", "--rounds", 6, "--json").data
    assert {r["primitive"] for r in data["rows"]} == {"split", "parallel"}

    before = len(RecordLog(LOG).read().records)
    done = cli("simplify", "brighten", "--rounds", 6, "--write", *ONE_THREAD)
    assert done.status == 0
    assert done.out.startswith("def schedule(s):")
    after = RecordLog(LOG).read().records
    assert len(after) == before + ("written to" in done.err)
    assert ("written to" in done.err) != ("no record is written" in done.err)


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (("explain", "brighten"), 4, "no record of it works on llvm"),
        (("explain", "nowhere"), 2, "no such workload"),
        (("explain", "nowhere.jsonl"), 4, "cannot read"),
        (("explain", "nowhere.jsonl", "--param", "channels=4"), 2, "a record has its own"),
        (("explain", "brighten", "--rounds", 3), 2, "'3' is not a whole number from 6 up"),
        (("simplify", "brighten", "--target", "abacus"), 2, "abacus"),
        (("simplify",), 2, "RECORD"),
    ],
)
def test_wrong_usage(cli: Cli, words: tuple[object, ...], status: int, why: str) -> None:
    done = cli(*words)
    assert why in done.err
    assert done.status == status
    assert done.out == ""
