"""Seals: what this machine's own run verified is known as such, and nothing else is."""

from __future__ import annotations

import os
import stat
from dataclasses import replace

import pytest

from autosched.records import decode, encode, is_own, sealed


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "autosched"


def test_a_sealed_record_is_known_again(make_record, data):
    record = sealed(make_record())
    assert is_own(record) and is_own(decode(encode(record)))
    assert is_own(record.with_playoff((1e-3,), run="r", winner=True)), "its times are not part of it"
    assert stat.S_IMODE(os.stat(data / "origin.key").st_mode) == 0o600


@pytest.mark.parametrize(
    "change",
    [
        {"trace": [["parallel", "blur", "y"]]},
        {"knobs": {"ty": 17, "tx": 64}},
        {"target": "opencl"},
        {"device": {"name": "another"}},
        {"verified": "sampled"},
        {"extra": {"origin": "0" * 32}},
        {"extra": {"origin": 5}},
        {"extra": {"origin": "é" * 32}},
        {"extra": {}},
    ],
)
def test_one_that_was_changed_is_not(make_record, change):
    assert not is_own(replace(sealed(make_record()), **change))


def test_the_seal_of_another_machine_is_none(make_record, tmp_path, monkeypatch):
    record = sealed(make_record())
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "other"))
    assert not is_own(record), "there is no key"
    assert is_own(sealed(make_record()))
    assert not is_own(record)


def test_what_was_not_verified_is_not_sealed(make_record):
    for record in (make_record(verified="no"), make_record(status="correctness")):
        assert sealed(record) == record and not is_own(record)


def test_without_a_place_for_a_key_there_are_no_seals(make_record, monkeypatch, data):
    data.parent.mkdir()
    data.write_text("a file where the folder should be")
    assert sealed(make_record()) == make_record()
    assert not is_own(make_record())
    data.unlink()
    data.mkdir()
    (data / "origin.key").write_bytes(b"short")
    assert sealed(make_record()) == make_record()
