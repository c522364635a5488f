"""Which folders are read and which one is written, and what is found in them."""

from __future__ import annotations

from pathlib import Path

import pytest

import autosched
from autosched.errors import RecordError
from autosched.records import RecordLog, default_path, find_files, find_folder, find_folders, folders, read_workload


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Folders `env`, `root`, `other`, `here`, the working directory, and `data`, the user's; no environment variables."""
    for name in ("env", "root/records", "other/records", "here", "shipped", "data"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("AUTOSCHED_RECORDS", raising=False)
    monkeypatch.delenv("AUTOSCHED_PATH", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(folders, "packaged_folder", lambda: tmp_path / "shipped")
    return tmp_path


def test_writing_takes_the_first_that_is_named(places, monkeypatch):
    users = places / "data" / "autosched" / "records"
    assert find_folder() == users
    (places / "here" / "records").mkdir()
    assert find_folder() == Path("records")
    monkeypatch.setenv("AUTOSCHED_PATH", f"{places / 'root'}:{places / 'other'}")
    assert find_folder() == places / "root" / "records"
    monkeypatch.setenv("AUTOSCHED_RECORDS", str(places / "new"))
    assert find_folder() == places / "new"
    assert find_folder("mine") == Path("mine")
    monkeypatch.setenv("AUTOSCHED_RECORDS", "")
    monkeypatch.setenv("AUTOSCHED_PATH", "")
    assert find_folder() == Path("records")


def test_what_comes_with_autosched_is_only_read(places, monkeypatch):
    """In a checkout, `./records` is tracked: a run leaves it as it is, and writes where the user's own records are."""
    (places / "here" / "records").symlink_to(places / "shipped")
    (places / "root" / "records").rmdir()
    (places / "root" / "records").symlink_to(places / "shipped")
    monkeypatch.setenv("AUTOSCHED_PATH", str(places / "root"))
    users = places / "data" / "autosched" / "records"
    assert find_folder() == users
    assert find_folders() == [places / "shipped"]
    assert find_folders(packaged=False) == []
    users.mkdir(parents=True)
    assert find_folders() == [users, places / "shipped"]
    assert find_folders(packaged=False) == [users]
    monkeypatch.setenv("AUTOSCHED_RECORDS", "records")  # who names it means it
    assert find_folder() == Path("records")
    assert find_folders(packaged=False) == [Path("records"), users]


def test_without_a_home_folder_records_go_to_the_working_one(places, monkeypatch):
    def homeless():
        raise RuntimeError("no home")

    monkeypatch.setattr(folders, "data_folder", homeless)
    assert find_folder() == Path("records")


def test_home_is_expanded(places, monkeypatch):
    monkeypatch.setenv("HOME", str(places))
    assert find_folder("~/env") == places / "env"


def test_reading_takes_all_that_exist_in_order(places, monkeypatch):
    assert find_folders() == [places / "shipped"]
    (places / "here" / "records").mkdir()
    monkeypatch.setenv("AUTOSCHED_PATH", f"{places / 'root'}:{places / 'other'}")
    monkeypatch.setenv("AUTOSCHED_RECORDS", str(places / "env"))
    named = [places / "env", places / "root" / "records", places / "other" / "records"]
    assert find_folders() == [*named, Path("records"), places / "shipped"]
    assert find_folders(places / "env") == [places / "env"]
    assert find_folders(places / "absent") == []


def test_a_folder_is_read_once(places, monkeypatch):
    (places / "here" / "records").symlink_to(places / "shipped")
    monkeypatch.setenv("AUTOSCHED_RECORDS", str(places / "shipped"))
    assert find_folders() == [places / "shipped"]


def test_packaged_folder_is_in_the_wheel_or_the_checkout(tmp_path, monkeypatch):
    package = tmp_path / "autosched"
    (package / "records").mkdir(parents=True)
    monkeypatch.setattr(folders, "__file__", str(package / "records" / "folders.py"))
    assert folders.packaged_folder() == tmp_path / "records"
    (package / "_packaged" / "records").mkdir(parents=True)
    assert folders.packaged_folder() == package / "_packaged" / "records"


def test_packaged_folder_of_this_checkout(monkeypatch):
    package = Path(autosched.__file__).resolve().parent
    assert folders.packaged_folder() in (package.parent / "records", package / "_packaged" / "records")


def test_files_and_contents_of_a_workload(places, make_record, monkeypatch):
    (places / "here" / "records").mkdir()
    monkeypatch.setenv("AUTOSCHED_RECORDS", str(places / "env"))
    logs = [
        default_path("box_blur", "opencl", places / "env"),
        default_path("box_blur", "llvm", places / "env"),
        default_path("box_blur", "llvm", "records"),
    ]
    for n, log in enumerate(logs):
        RecordLog(log).append(make_record(n))
    RecordLog(default_path("box_blur.v2", "llvm", places / "env")).append(make_record(9))
    assert find_files("box_blur") == [logs[1], logs[0], logs[2]]
    assert find_files("box_blur", "llvm") == [logs[1], logs[2]]
    assert find_files("box_blur", "llvm", places / "env") == [logs[1]]
    assert find_files("box_blur.v2", "llvm") == [places / "env" / "box_blur.v2.llvm.jsonl"]
    assert find_files("sum") == []
    contents = read_workload("box_blur", "llvm")
    assert contents.records == (make_record(1), make_record(2))
    assert [place.path for place in contents.places] == [logs[1], logs[2]]
    assert read_workload("sum", "llvm").records == ()


def test_a_name_cannot_leave_its_folder(places):
    with pytest.raises(RecordError, match="file name"):
        read_workload("../../etc/passwd", "llvm")
