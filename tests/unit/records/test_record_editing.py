"""Files of records merged, split, pruned and repaired; the exact bytes of lines survive all of it."""

from __future__ import annotations

import os
import stat
import zlib
from pathlib import Path

import pytest

from autosched.errors import RecordError, UsageError
from autosched.places import write_whole
from autosched.records import RecordLog, encode, latest, merge, prune, ranked, read_files, repair, sealed, split
from autosched.records.editing import BASELINE
from autosched.space.space import DEFAULT


@pytest.fixture
def line(make_record):
    """`line(trial, ...)`: the bytes of a record's line."""

    def make(*args, **changes):
        return encode(make_record(*args, **changes)).encode()

    return make


def write(path: Path, *lines: bytes, end: bytes = b"\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(lines) + end)
    return path


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


# -- merge ----------------------------------------------------------------------------------------
def test_merged_files_hold_each_line_once_and_what_was_there(tmp_path, line):
    a = write(tmp_path / "a" / "x.jsonl", line(1), line(2), line(3, target="opencl"))
    b = write(tmp_path / "b.jsonl", line(2), line(4), end=b"")
    there = write(tmp_path / "out" / "box_blur.llvm.jsonl", line(4), line(0), end=b"")
    found = merge([a, b], tmp_path / "out")
    assert lines_of(there) == [line(4), line(0), line(1), line(2)]
    assert lines_of(tmp_path / "out" / "box_blur.opencl.jsonl") == [line(3, target="opencl")]
    assert (found.lines, found.duplicates, found.problems, found.aside) == (5, 2, [], [])
    assert found.written == {there: 2, tmp_path / "out" / "box_blur.opencl.jsonl": 1}
    again = merge([a, b], tmp_path / "out")
    assert (again.duplicates, set(again.written.values())) == (5, {0})


def test_merging_into_one_file_and_into_a_source(tmp_path, line):
    a, b = write(tmp_path / "a.jsonl", line(1), b"torn"), write(tmp_path / "b.jsonl", line(2), line(1))
    found = merge([a, b], a)
    assert lines_of(a) == [line(1), b"torn", line(2)]
    assert (found.written, found.duplicates, len(found.problems), found.aside) == ({a: 1}, 1, 1, [])


def test_lines_of_a_newer_format_go_along(tmp_path, line):
    newer = line(9).replace(b'"v":1', b'"v":2')[:-18] + b"}"
    newer = newer[:-1] + b',"crc":"%08x"}' % zlib.crc32(newer)
    source = write(tmp_path / "a" / "box_blur.llvm.jsonl", line(1), newer)
    for into in (tmp_path / "out", tmp_path / "one.jsonl"):
        found = merge([source], into)
        to = into if into.suffix else into / "box_blur.llvm.jsonl"
        assert lines_of(to) == [line(1), newer]
        assert (found.written, found.problems, found.aside) == ({to: 2}, [], [])
    split([source], tmp_path / "parts", ["target"])
    assert lines_of(tmp_path / "parts" / "box_blur.llvm.jsonl") == [newer]


def test_damaged_lines_are_told_and_kept_beside(tmp_path, line):
    long = b'{"at":"' + b"x" * 100_000
    source = write(tmp_path / "a" / "box_blur.llvm.jsonl", b"not a record", line(1), long, line(1, name="a/b"))
    found = merge([source], tmp_path / "out")
    aside = tmp_path / "out" / "box_blur.llvm.damaged"
    assert lines_of(aside) == [b"not a record", long, line(1, name="a/b")]
    assert [(p.line, p.reason) for p in found.problems] == [
        (1, "does not end in a checksum"),
        (3, "longer than 65536 bytes"),
        (4, "cannot be part of a file name: 'a/b'"),
    ]
    assert found.aside == [aside]
    merge([source], tmp_path / "out")
    assert len(lines_of(aside)) == 3
    assert lines_of(source)[0] == b"not a record"


def test_a_dry_run_writes_nothing(tmp_path, line):
    source = write(tmp_path / "a.jsonl", line(1), b"torn", line(1))
    before = source.read_bytes()
    assert merge([source], tmp_path / "out", dry_run=True).written == {tmp_path / "out" / "box_blur.llvm.jsonl": 1}
    assert split([source], tmp_path / "out", dry_run=True).duplicates == 1
    assert len(repair(source, dry_run=True).problems) == 1
    assert prune([source], keep=1, failures=True, dry_run=True).kept == {source: 2}
    assert source.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.jsonl"]


# -- split ----------------------------------------------------------------------------------------
def test_split_makes_folders_in_the_order_asked_for(tmp_path, line):
    one = [
        line(1), line(2, target="opencl -device=pocl"), line(3, name="sum"), line(4, device={}),
        line(5, device={"name": "AMD/EPYC 7R13"}),
    ]  # fmt: skip
    source = write(tmp_path / "all.jsonl", *one)
    split([source], tmp_path / "w")
    assert sorted(os.listdir(tmp_path / "w")) == ["box_blur.llvm.jsonl", "box_blur.opencl.jsonl", "sum.llvm.jsonl"]
    split([source], tmp_path / "d", ["device", "target"])
    found = {str(p.relative_to(tmp_path / "d")) for p in (tmp_path / "d").rglob("*.jsonl")}
    llvm = "llvm_-mcpu_znver3"
    other = next(x for x in os.listdir(tmp_path / "d") if x.startswith("AMD_EPYC_7R13_"))  # alike, but another device
    assert found == {
        f"AMD_EPYC_7R13/{llvm}/box_blur.llvm.jsonl",
        "AMD_EPYC_7R13/opencl_-device_pocl/box_blur.opencl.jsonl",
        f"AMD_EPYC_7R13/{llvm}/sum.llvm.jsonl",
        f"unknown/{llvm}/box_blur.llvm.jsonl",
        f"{other}/{llvm}/box_blur.llvm.jsonl",
    }
    assert lines_of(source) == one
    with pytest.raises(UsageError) as caught:
        split([source], tmp_path / "d", ["shape"])
    assert str(caught.value) == "split: 'shape' is nothing to split by\n  workload, target, device"


# -- repair ---------------------------------------------------------------------------------------
def test_repair_keeps_what_can_be_read(tmp_path, line):
    newer = line(9).replace(b'"v":1', b'"v":2')[:-18] + b"}"
    newer = newer[:-1] + b',"crc":"%08x"}' % zlib.crc32(newer)
    torn = line(3)[:40]
    log = write(tmp_path / "x.jsonl", line(1), torn + line(2), line(4) + line(5), newer, b"\x00\xff", torn, end=b"")
    os.chmod(log, 0o640)
    found = repair(log)
    assert lines_of(log) == [line(1), line(2), line(4), line(5), newer]
    assert log.read_bytes().endswith(b"\n")
    assert stat.S_IMODE(log.stat().st_mode) == 0o640
    assert (found.kept, found.rescued, [p.line for p in found.problems]) == (2, 3, [2, 3, 5, 6])
    assert found.aside == tmp_path / "x.damaged"
    assert lines_of(found.aside) == [torn + line(2), line(4) + line(5), b"\x00\xff", torn]
    assert not repair(log).problems


def test_repair_of_what_is_not_there_makes_no_file(tmp_path):
    with pytest.raises(RecordError, match="No such file"):
        repair(tmp_path / "absent.jsonl")
    assert not os.listdir(tmp_path)


# -- prune ----------------------------------------------------------------------------------------
def test_prune_keeps_the_best_of_each_group_and_all_lines_of_them(tmp_path, make_record):
    log = RecordLog(tmp_path / "box_blur.llvm.jsonl")
    rs = [make_record(i, samples=(1e-3 * (9 - i),)) for i in range(5)]
    winner = rs[1].with_playoff((1e-4,), run="r", winner=True)
    elsewhere = make_record(7, device={"name": "slow"}, samples=(1.0,))
    failed, wrong = make_record(8, status="timeout"), make_record(9, status="correctness")
    for r in (*rs, winner, elsewhere, failed, wrong):
        log.append(r)
    with log.path.open("ab") as file:
        file.write(b"damaged\n")
    found = prune([log.path], keep=2)
    kept = [r.id for r in log.read().records]
    assert kept == [r.id for r in (rs[1], rs[4], winner, elsewhere, wrong)]
    assert found.reasons == {"not among the best 2": 4}
    assert (found.kept[log.path], found.dropped[log.path], len(found.problems)) == (5, 4, 1)
    assert lines_of(log.path)[-1] == b"damaged"


def test_prune_leaves_what_build_chooses(tmp_path, make_record):
    assert BASELINE == DEFAULT
    log = RecordLog(tmp_path / "x.jsonl")
    baseline = make_record(1, sketch=BASELINE, samples=(1e-3,))  # alone, it would count for nothing
    rival = make_record(2, samples=(2e-3,)).with_playoff((2e-3,), run="r", winner=False)
    member = make_record(3, samples=(3e-3,)).with_family("r", 1, "2026-11-21")
    other = make_record(4, samples=(4e-3,))
    expected = make_record(5, status="predicted", verified="full", device={"name": "new"})
    needless = make_record(6, status="predicted", verified="full")
    for r in (baseline, rival, member, other, expected, needless):
        log.append(r)
    prune([log.path], keep=1)
    assert [r.id for r in log.read().records] == [r.id for r in (baseline, rival, member, expected)]


def test_prune_leaves_what_was_tried_before_a_search_was_cut_short(tmp_path, make_record):
    """Without a play-off, a prediction goes before the default schedule unless it was tried: `planning._was_tried`."""
    log = RecordLog(tmp_path / "x.jsonl")
    rs = [make_record(1, sketch=BASELINE, samples=(1e-3,)), *(make_record(n, samples=(n * 1e-3,)) for n in (2, 3, 4))]
    for r in rs:
        log.append(r)
    prune([log.path], keep=1)
    assert [r.id for r in log.read().records] == [r.id for r in rs]
    log.append(rs[3].with_playoff((4e-3,), run="r", winner=False))
    prune([log.path], keep=1)
    assert {r.id for r in log.read().records} == {rs[0].id, rs[1].id, rs[3].id}


def test_prune_by_age_and_by_failure(tmp_path, make_record):
    log = RecordLog(tmp_path / "x.jsonl")
    old, new = "2025-01-01T00:00:00+00:00", "2026-01-01T00:00:00+00:00"
    rs = [
        make_record(1, at=old, samples=(1e-3,)), make_record(2, at=old), make_record(3, at=new),
        make_record(4, at=new, status="crash"), make_record(5, at=old, status="correctness"),
        make_record(6, at=old, status="predicted"),
    ]  # fmt: skip
    for r in rs:
        log.append(r)
    cutoff = make_record(at="2025-06-01T00:00:00+00:00").moment
    assert prune([log.path], before=cutoff, keep=1, dry_run=True).dropped == {log.path: 2}
    assert prune([log.path], failures=True).reasons == {"failed": 1}
    assert [r.trial for r in log.read().records] == [1, 2, 3, 5, 6]
    assert prune([log.path], before=cutoff).reasons == {"too old": 3}
    assert [r.trial for r in log.read().records] == [3, 5]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({}, "prune: nothing says what to drop\n  keep, before or failures"),
        ({"keep": 0}, "prune(keep=0): 0 is not more than 0\n  a whole number, more than 0"),
    ],
)
def test_prune_asks_what_to_drop(asked, text, tmp_path):
    with pytest.raises(UsageError) as caught:
        prune([tmp_path / "x.jsonl"], **asked)
    assert str(caught.value) == text


def test_lines_that_come_meanwhile_are_kept(tmp_path, make_record, monkeypatch):
    log = RecordLog(tmp_path / "x.jsonl")
    for i in range(3):
        log.append(make_record(i, samples=(1e-3 * (i + 1),)))
    rewrite = RecordLog.rewrite

    def late(self, change):
        self.append(make_record(9, samples=(1.0,)))
        rewrite(self, change)

    monkeypatch.setattr(RecordLog, "rewrite", late)
    prune([log.path], keep=1)
    assert [r.trial for r in log.read().records] == [0, 9]


def test_a_rewrite_that_fails_leaves_the_file(tmp_path, make_record, monkeypatch):
    log = RecordLog(tmp_path / "x.jsonl")
    log.append(make_record(1))
    before = log.path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(RecordError) as caught:
        log.rewrite(lambda data: b"")
    assert str(caught.value) == (
        f"{log.path}: cannot write records: No space left on device\n  free some space; the file is as it was before"
    )
    assert log.path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.jsonl"]


def test_a_link_stays_a_link(tmp_path, make_record):
    real = RecordLog(tmp_path / "real.jsonl")
    real.append(make_record(1, status="crash"))
    (tmp_path / "link.jsonl").symlink_to("real.jsonl")
    prune([tmp_path / "link.jsonl"], failures=True)
    assert (tmp_path / "link.jsonl").is_symlink()
    assert real.path.read_bytes() == b""


def test_names_with_spaces_and_other_letters(tmp_path, line):
    source = write(tmp_path / "Übung 1" / "alt é.jsonl", line(1), b"torn")
    merge([source], tmp_path / "neu ß")
    assert lines_of(tmp_path / "neu ß" / "box_blur.llvm.jsonl") == [line(1)]
    assert lines_of(tmp_path / "neu ß" / "alt é.damaged") == [b"torn"]


def test_best_record_of_checked_in_logs_survives_pruning(tmp_path):
    """The order of those that are left is what it was."""
    source = Path(__file__).parents[3] / "records" / "box_blur.llvm.jsonl"
    log = write(tmp_path / "box_blur.llvm.jsonl", *lines_of(source))
    before = read_files([log]).records
    prune([log], keep=2)
    after = read_files([log]).records
    assert 0 < len(latest(after)) < len(latest(before)) / 2
    for r in before:
        asked = {"key": r.key, "target": r.target, "device": r.device_name, "sizes": r.sizes}
        assert ranked(before, **asked)[0].record.id == ranked(after, **asked)[0].record.id


def test_files_for_others_can_be_read_by_them_and_the_key_cannot(tmp_path, monkeypatch, make_record):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    before = os.umask(0o022)
    try:
        write_whole(tmp_path / "x.csv", lambda out: out.write(b"x"))
        sealed(make_record(1))
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("x.csv", "autosched/origin.key")}
    assert modes == {"x.csv": 0o644, "autosched/origin.key": 0o600}
