"""Logs under everything that can happen to a file: cuts, flips, full disks, rivals and killed writers."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import time
import zlib
from itertools import accumulate
from pathlib import Path

import pytest

import autosched
from autosched.errors import RecordError
from autosched.places import try_lock
from autosched.records import RecordLog, Slimmer, default_path, encode, read_files
from autosched.records import log as log_module
from autosched.records.record import MAX_LINE

#: A script's beginning: `record(trial)` makes small valid records in a fresh process.
PREAMBLE = f"""
import os, sys
sys.path.insert(0, {str(Path(autosched.__file__).parents[1])!r})
from autosched.errors import RecordError
from autosched.places import try_lock
from autosched.records import Record, RecordLog, encode
def record(trial, id):
    workload = dict(name="w", key="k", params={{}}, args=[], sizes={{}})
    return Record(workload=workload, target="llvm", sketch="s", trace=[], knobs={{}}, status="ok",
                  samples=(1.0,), trial=trial, id=id, at="2026-11-21T08:00:00+00:00")
"""

SMALL = {"name": "w", "key": "k", "params": {}, "args": [], "sizes": {}}


def start(script: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PREAMBLE + script, *args], stdout=subprocess.PIPE, text=True)


@pytest.fixture
def no_sync(monkeypatch):
    """For tests that append thousands of times and look at the file's bytes, not at the disk."""
    monkeypatch.setattr(log_module, "datasync", lambda fd: None)


def ids(contents) -> list[str]:
    return [record.id for record in contents.records]


def test_append_creates_folders_and_reads_back_in_order(make_record, log_path):
    log = RecordLog(log_path)
    records = [make_record(trial) for trial in range(5)]
    for record in records:
        log.append(record)
    contents = log.read()
    assert list(contents.records) == records
    assert contents.problems == ()
    assert [str(place) for place in contents.places] == [f"{log_path}:{n}" for n in range(1, 6)]
    assert log_path.read_text(encoding="utf-8") == "".join(encode(r) + "\n" for r in records)


def test_every_prefix_of_a_log(make_record, tmp_path, no_sync):
    """Cut anywhere: every complete record is read, the cut is named, and the next append is readable."""
    records = [make_record(trial, trace=[], workload={**SMALL}) for trial in range(4)]
    lines = [(encode(record) + "\n").encode() for record in records]
    data = b"".join(lines)
    ends = list(accumulate(map(len, lines)))
    path = tmp_path / "log.jsonl"
    log = RecordLog(path)
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        # A line that lacks only its line end is complete: its checksum says so.
        complete = sum(end - 1 <= cut for end in ends)
        contents = log.read()
        assert contents.records == tuple(records[:complete])
        torn = cut not in ends and cut + 1 not in ends and cut > 0
        assert [(p.line, p.reason.partition(":")[0]) for p in contents.problems] == (
            [(complete + 1, "torn last line")] if torn else []
        )
        log.append(records[-1])
        after = log.read()
        assert after.records == (*records[:complete], records[-1])
        assert len(after.problems) == len(contents.problems)
        assert path.read_bytes().startswith(data[:cut])


def test_bit_flips_never_yield_an_altered_record(make_record, tmp_path):
    records = [make_record(trial) for trial in range(3)]
    data = "".join(encode(record) + "\n" for record in records).encode()
    path = tmp_path / "log.jsonl"
    log = RecordLog(path)
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << (position % 8)
        path.write_bytes(flipped)
        contents = log.read()
        assert all(record in records for record in contents.records)
        # A flipped line end joins two lines; anything else hits one.
        assert len(contents.records) >= len(records) - (2 if data[position : position + 1] == b"\n" else 1)
        assert contents.problems or len(contents.records) == len(records)


def test_problems_name_line_and_reason(make_record, log_path):
    good = encode(make_record())
    newer = good[:-18].replace('"v":1', '"v":9')
    lines = [
        good.encode(),
        b"{}",
        b"",
        good.replace("box_blur", "box_blue").encode(),
        resealed(newer).encode(),
        b"\x00" * 100,
        b"x" * 10**6,
        good.encode(),
        b"z" * (3 * MAX_LINE),
    ]
    log_path.parent.mkdir()
    log_path.write_bytes(b"\n".join(lines))
    start_time = time.process_time()
    contents = RecordLog(log_path).read()
    assert time.process_time() - start_time < 1
    assert [place.line for place in contents.places] == [1, 8]
    reasons = [
        (2, "does not end in a checksum"),
        (4, "checksum does not match: the line was damaged or edited"),
        (5, "written by a newer autosched (format 9; this one reads up to 1)"),
        (6, "does not end in a checksum"),
        (7, "longer than 65536 bytes"),
        (9, "torn last line: longer than 65536 bytes"),
    ]
    assert [(p.line, p.reason) for p in contents.problems] == reasons
    assert str(contents.problems[0]) == f"{log_path}:2: does not end in a checksum"


def resealed(body: str) -> str:
    return f'{body},"crc":"{zlib.crc32((body + "}").encode()):08x}"}}'


def test_longest_line_is_written_and_read(make_record, log_path):
    room = MAX_LINE - len(encode(make_record(trace=[""])))
    log = RecordLog(log_path)
    longest = make_record(trace=["x" * room])
    log.append(longest)
    log.append(make_record(1))
    assert len(encode(longest)) == MAX_LINE
    assert log.read().records == (longest, make_record(1))
    log_path.write_bytes(log_path.read_bytes().replace(b"\n", b"\r\n"))
    assert log.read().records == (longest, make_record(1))
    with pytest.raises(RecordError, match="more than 65536"):
        log.append(make_record(trace=["x" * (room + 1)]))
    assert len(log.read().records) == 2


def test_an_invalid_record_leaves_no_trace(make_record, log_path):
    with pytest.raises(RecordError, match="at is not"):
        RecordLog(log_path).append(make_record(at="now"))
    assert not log_path.parent.exists()


# --- files that cannot be opened ---------------------------------------------------------------


def test_unreadable_files(tmp_path):
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    for name, why in (("absent.jsonl", "No such file"), ("folder.jsonl", "regular file"), ("pipe.jsonl", "regular")):
        with pytest.raises(RecordError, match=why) as caught:
            RecordLog(tmp_path / name).read()
        assert str(tmp_path / name) in str(caught.value) and caught.value.legal


def test_unwritable_places(make_record, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    for path, why in (
        (tmp_path / "file" / "w.llvm.jsonl", "Not a directory|File exists"),
        (tmp_path / "folder.jsonl", "Is a directory"),
        (tmp_path / "pipe.jsonl", "not a regular file"),
        (Path("/proc/self/autosched/w.llvm.jsonl"), "No such file"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        with pytest.raises(RecordError, match=why) as caught:
            RecordLog(path).append(make_record())
        assert caught.value.asked == str(path) and caught.value.legal


def test_unwritable_folder_as_an_ordinary_user(tmp_path):
    """Permissions do not stop root, so a child gives root up first where it has it."""
    folder = tmp_path / "records"
    folder.mkdir()
    script = """
folder = sys.argv[1]
os.chdir(folder); os.chmod(folder, 0o555)
log = RecordLog("w.llvm.jsonl")
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    log.append(record(0, "a"))
except RecordError as e:
    print(e.why, "|", e.legal)
"""
    out, _ = start(script, str(folder)).communicate(timeout=30)
    assert out.strip() == (
        "cannot write records: Permission denied | choose another folder, for example with AUTOSCHED_RECORDS=folder"
    )


# --- disks that fail ---------------------------------------------------------------------------


@pytest.mark.parametrize("torn", [b"", b'{"torn'])
def test_full_disk_at_every_byte(make_record, log_path, monkeypatch, no_sync, torn):
    """The disk fills up after `room` more bytes: an error, the old content, and later appends work."""
    log = RecordLog(log_path)
    log.append(make_record(1))
    with log_path.open("ab") as file:
        file.write(torn)
    before = log_path.read_bytes()
    write = os.write
    for room in range(len(encode(make_record(2))) + 1):
        left = room

        def short_write(fd, data):
            nonlocal left
            if not left:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = write(fd, bytes(data[:left]))
            left -= written
            return written

        monkeypatch.setattr(os, "write", short_write)
        with pytest.raises(RecordError, match="No space left") as caught:
            log.append(make_record(2))
        assert "free some space" in caught.value.legal
        assert log_path.read_bytes() == before
    monkeypatch.setattr(os, "write", write)
    log.append(make_record(3))
    assert log.read().records == (make_record(1), make_record(3))


def test_file_size_limit_at_every_byte(tmp_path):
    """The kernel itself refuses to go past `limit`: what was acknowledged is there, and nothing else."""
    script = """
import resource
import autosched.records.log
autosched.records.log.datasync = lambda fd: None
path = sys.argv[1]
log = RecordLog(path)
lines = [(encode(record(i, f"r{i}")) + "\\n").encode() for i in range(4)]
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
errors = 0
for limit in {*range(0, len(lines[0]) * 3, 7), *(len(lines[0]) * n + d for n in (1, 2, 3) for d in (-2, -1, 0, 1))}:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    acknowledged = b""
    for i in range(4):
        try:
            log.append(record(i, f"r{i}"))
            acknowledged += lines[i]
        except RecordError as e:
            assert "File too large" in e.why, e
            errors += 1
        assert open(path, "rb").read() == acknowledged
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    os.truncate(path, 0)
print(errors)
"""
    path = tmp_path / "w.llvm.jsonl"
    process = start(script, str(path))
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert int(out) > 150


def test_failing_flush_is_no_acknowledgement(make_record, log_path, monkeypatch):
    log = RecordLog(log_path)
    log.append(make_record(1))
    before = log_path.read_bytes()

    def fail(fd):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(log_module, "datasync", fail)
        with pytest.raises(RecordError, match="Input/output error"):
            log.append(make_record(2))
    assert log_path.read_bytes() == before


def test_interrupt_while_appending_leaves_the_file_as_it_was(make_record, log_path, monkeypatch):
    log = RecordLog(log_path)
    log.append(make_record(1))
    before = log_path.read_bytes()

    def interrupt(fd):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(log_module, "datasync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            log.append(make_record(2))
    assert log_path.read_bytes() == before


def test_file_that_can_neither_be_written_nor_cut_back(make_record, log_path, monkeypatch):
    """The worst disk: the torn line stays, the error says so, and the next append ends it."""
    log = RecordLog(log_path)
    log.append(make_record(1))
    write = os.write

    def torn_write(fd, data):
        if len(data) <= 100:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return write(fd, bytes(data[: len(data) - 100]))

    def fail(fd, length):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", torn_write)
        patch.setattr(os, "ftruncate", fail)
        with pytest.raises(RecordError, match="could not be cut back"):
            log.append(make_record(2))
    log.append(make_record(3))
    contents = log.read()
    assert contents.records == (make_record(1), make_record(3))
    assert [p.line for p in contents.problems] == [2]


# --- several processes -------------------------------------------------------------------------


def test_concurrent_writers_lose_nothing(log_path):
    script = """
path, name = sys.argv[1:]
log = RecordLog(path)
for i in range(100):
    log.append(record(i, f"{name}-{i}"))
"""
    writers = [start(script, str(log_path), f"w{n}") for n in range(4)]
    while any(writer.poll() is None for writer in writers):
        if log_path.exists():  # a reader in the middle of it all sees whole lines only
            assert RecordLog(log_path).read().problems == ()
        time.sleep(0.01)
    assert [writer.wait() for writer in writers] == [0] * 4
    contents = RecordLog(log_path).read()
    assert contents.problems == ()
    assert sorted(ids(contents)) == sorted(f"w{n}-{i}" for n in range(4) for i in range(100))
    for n in range(4):  # each writer's own records are in its order
        assert [i for i in ids(contents) if i.startswith(f"w{n}-")] == [f"w{n}-{i}" for i in range(100)]


def test_killed_writers_lose_no_acknowledged_record(log_path):
    """40 writers, killed with -9 some random milliseconds after their first acknowledgement."""
    script = """
import random, signal, time
random.seed(5)
log = RecordLog(sys.argv[1])
acknowledged = []
for round in range(40):
    read_end, write_end = os.pipe()
    child = os.fork()  # safe: this process has one thread and no foreign libraries
    if child == 0:
        os.close(read_end)
        for i in range(10_000):
            name = f"{round}-{i}"
            log.append(record(i, name))
            os.write(write_end, name.encode() + b"\\n")
        os._exit(0)
    os.close(write_end)
    first = os.read(read_end, 1)
    time.sleep(random.uniform(0, 0.015))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(read_end, "rb") as pipe:
        acknowledged += (first + pipe.read()).decode().split()
print(*acknowledged)
"""
    process = start(script, str(log_path))
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    acknowledged = out.split()
    contents = RecordLog(log_path).read()
    found = ids(contents)
    assert len(acknowledged) >= 40
    assert set(acknowledged) <= set(found)
    assert len(found) == len(set(found)) <= len(acknowledged) + 40
    assert len(contents.problems) <= 40


def test_writer_waits_for_the_lock_but_not_for_ever(make_record, log_path):
    log_path.parent.mkdir()
    with log_path.open("ab") as rival:
        fcntl.flock(rival, fcntl.LOCK_EX)
        start_time = time.monotonic()
        with pytest.raises(RecordError, match=r"held the lock for 0\.1 s") as caught:
            RecordLog(log_path, lock_timeout_s=0.1).append(make_record())
        assert time.monotonic() - start_time >= 0.1
        assert "fuser" in caught.value.legal
    RecordLog(log_path, lock_timeout_s=0.1).append(make_record())
    assert len(RecordLog(log_path).read().records) == 1


@pytest.mark.parametrize("fate", ["ended", "cut back"])
def test_reader_waits_for_a_line_that_is_being_written(make_record, log_path, fate):
    """A torn tail under a writer's lock is looked at again, from its start, once the lock is free."""
    script = """
import fcntl, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_APPEND)
fcntl.flock(fd, fcntl.LOCK_EX)
line = encode(record(1, "slow")).encode() + b"\\n"
os.write(fd, line[:50])
print("torn", flush=True)
time.sleep(0.2)
if sys.argv[2] == "cut back":
    os.ftruncate(fd, os.fstat(fd).st_size - 50)
    os.write(fd, encode(record(2, "other")).encode() + b"\\n")
else:
    os.write(fd, line[50:])
"""
    RecordLog(log_path).append(make_record(1))
    with start(script, str(log_path), fate) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "torn\n"
        contents = RecordLog(log_path).read()
    assert ids(contents) == [make_record(1).id, "slow" if fate == "ended" else "other"]
    assert contents.problems == ()


def test_log_replaced_while_waiting_for_the_lock(make_record, log_path, monkeypatch):
    """Somebody renames a repaired file over the log between our open and our lock."""
    log = RecordLog(log_path)
    log.append(make_record(1))
    repaired = log_path.with_suffix(".new")

    def replace_first(fd, shared=False):
        if not repaired.exists() and not shared:
            repaired.write_text(encode(make_record(2)) + "\n", encoding="utf-8")
            os.link(repaired, log_path.with_suffix(".link"))
            os.replace(log_path.with_suffix(".link"), log_path)
        return try_lock(fd, shared=shared)

    monkeypatch.setattr(log_module, "try_lock", replace_first)
    log.append(make_record(3))
    assert log.read().records == (make_record(2), make_record(3))


# --- names -------------------------------------------------------------------------------------


def test_default_path(tmp_path):
    assert default_path("box_blur", "opencl", tmp_path) == tmp_path / "box_blur.opencl.jsonl"
    for workload in ("../etc", "a/b", "", ".hidden", "x" * 300, "a\0b", "a\nb", "-rf"):
        with pytest.raises(RecordError, match="file name"):
            default_path(workload, "llvm", tmp_path)
    with pytest.raises(RecordError, match="file name"):
        default_path("box_blur", "llvm -mcpu=x", tmp_path)


def test_merging_is_concatenating(make_record, tmp_path):
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for n, path in enumerate(paths):
        RecordLog(path).append(make_record(n))
    both = tmp_path / "both.jsonl"
    both.write_bytes(b"".join(path.read_bytes() for path in paths))
    merged, joined = read_files(paths), RecordLog(both).read()
    assert merged.records == joined.records == (make_record(0), make_record(1))
    assert [place.path for place in merged.places] == paths


def test_lines_are_readable_by_any_json_parser(make_record, log_path):
    RecordLog(log_path).append(make_record(error="a\u2028b"))
    for parsed in map(json.loads, log_path.read_text(encoding="utf-8").splitlines()):
        assert parsed["workload"]["name"] == "box_blur"


# -- the lines of one workload ------------------------------------------------------------------------
@pytest.mark.parametrize("block", [1, 64, 1000, 1 << 20])
def test_only_the_lines_of_a_key_are_decoded(tmp_path, make_record, monkeypatch, block):
    monkeypatch.setattr(log_module, "_BLOCK", block)
    log = RecordLog(tmp_path / "a.llvm.jsonl")
    for n in range(12):
        log.append(make_record(n, key=f"key{n % 3}"))
    with log.path.open("ab") as file:
        file.write(b'{"key":"key1", damaged}\n{"key":"key2", damaged}\n\n' + b'{"key":"key1"' + b"x" * 70_000 + b"\n")
        file.write(encode(make_record(12, key="key1")).encode() + b"\n")
        file.write(encode(make_record(13, key="key1")).encode()[:-20])  # torn
    decoded = []
    real = log_module.decode
    monkeypatch.setattr(log_module, "decode", lambda line: decoded.append(line) or real(line))
    found = log.read("key1")
    assert [r.trial for r in found.records] == [1, 4, 7, 10, 12]
    assert [p.line for p in found.places] == [2, 5, 8, 11, 17]
    assert [p.line for p in found.problems] == [13, 18]
    assert "torn last line" in found.problems[-1].reason
    assert all(b"key1" in line for line in decoded)
    assert found.others == 11
    assert log.read("key").records == () and log.read("nothing").others == 17
    everything = log.read()
    assert [r for r in everything.records if r.key == "key1"] == list(found.records)


def test_a_key_is_matched_whole_and_in_its_place(tmp_path, make_record):
    log = RecordLog(tmp_path / "a.llvm.jsonl")
    odd = make_record(1, key="another")
    odd.workload["params"] = {"key": "wanted"}
    log.append(odd)
    log.append(make_record(2, key='wan"ted\\'))
    log.append(make_record(3, key="wanted"))
    assert [r.trial for r in log.read("wanted").records] == [3]
    assert [r.trial for r in log.read('wan"ted\\').records] == [2]


def test_what_is_kept_of_each_record_can_be_less(tmp_path, make_record):
    log = RecordLog(tmp_path / "a.llvm.jsonl")
    for n in range(3):
        log.append(make_record(n).with_features("v", [1.0, 2.0]))
    kept = log.read(keep=Slimmer()).records
    whole = log.read().records
    assert [r.seconds for r in kept] == [r.seconds for r in whole] and [r.knobs for r in kept] == [
        r.knobs for r in whole
    ]
    assert kept[0].workload is kept[2].workload and kept[0].trace is kept[1].trace
    assert kept[0].trace != whole[0].trace and not any("features" in r.extra for r in kept)
