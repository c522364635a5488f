"""Finding workloads: by name in the search-space folders, or by file."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.errors import WorkloadError
from autosched.space.loading import find_workload, list_workloads, search_space_folders

SOURCE = """
from autosched import te, workload

@workload
def {name}(n=4):
    a = te.placeholder((n,), name="{mark}")
    return a, te.compute((n,), lambda i: a[i] + 1, name="out")
"""


def write(folder: Path, name: str, mark: str, file: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{file or name}.py"
    path.write_text(SOURCE.format(name=name, mark=mark))
    return path


def mark(spec: str, explicit: Path | None = None) -> str:
    """The name of the workload's input: says which file it came from."""
    return find_workload(spec, explicit)().args[0].name


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUTOSCHED_PATH", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def test_the_box_blur_comes_with_autosched() -> None:
    assert find_workload("box_blur").name == "box_blur"
    assert "box_blur" in list_workloads()


def test_the_first_folder_that_has_it_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "work/search_spaces", "box_blur", "cwd")
    assert mark("box_blur") == "cwd"
    write(tmp_path / "one/search_spaces", "box_blur", "path")
    write(tmp_path / "two/search_spaces", "box_blur", "later")
    monkeypatch.setenv("AUTOSCHED_PATH", f"{tmp_path / 'one'}:{tmp_path / 'two'}")
    assert mark("box_blur") == "path"
    write(tmp_path / "mine", "box_blur", "argument")
    assert mark("box_blur", tmp_path / "mine") == "argument"
    assert search_space_folders(tmp_path / "mine")[0] == tmp_path / "mine"
    assert list_workloads()["box_blur"] == tmp_path / "one/search_spaces/box_blur.py"


def test_missing_folders_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_PATH", f"{tmp_path / 'nowhere'}::")
    assert all(folder.is_dir() for folder in search_space_folders(tmp_path / "neither"))


def test_a_workload_in_a_file_of_another_name(tmp_path: Path) -> None:
    write(tmp_path / "work/search_spaces", "sharpen", "x", file="filters")
    assert find_workload("sharpen").name == "sharpen"
    assert list_workloads()["sharpen"].name == "filters.py"


def test_a_workload_in_a_file(tmp_path: Path) -> None:
    path = write(tmp_path, "sharpen", "x", file="mine")
    assert find_workload(f"{path}:sharpen").name == "sharpen"
    assert find_workload(str(path)).name == "sharpen"
    with pytest.raises(WorkloadError) as raised:
        find_workload(f"{path}:blur")
    assert raised.value.why == "it has no workload 'blur'"
    assert raised.value.legal == "workloads in it: sharpen"


def test_a_file_of_two_workloads_wants_a_name(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(SOURCE.format(name="first", mark="a") + SOURCE.format(name="second", mark="b"))
    assert mark(f"{path}:second") == "b"
    with pytest.raises(WorkloadError, match="it has 2 workloads") as raised:
        find_workload(str(path))
    assert raised.value.legal == "workloads in it: first, second"


def test_a_file_of_none(tmp_path: Path) -> None:
    path = tmp_path / "none.py"
    path.write_text("x = 1\n")
    with pytest.raises(WorkloadError, match="it has 0 workloads") as raised:
        find_workload(str(path))
    assert "decorate a function with @autosched.workload" in raised.value.legal


def test_a_function_that_is_no_workload(tmp_path: Path) -> None:
    path = write(tmp_path, "sharpen", "x", file="mine")
    path.write_text(path.read_text() + "\n\ndef plain():\n    pass\n")
    with pytest.raises(WorkloadError, match="'plain' is not a workload") as raised:
        find_workload(f"{path}:plain")
    assert raised.value.legal == "decorate it with @autosched.workload; workloads in it: sharpen"


def test_no_such_file() -> None:
    with pytest.raises(WorkloadError, match="no such file"):
        find_workload("missing.py:blur")


@pytest.mark.parametrize(
    ("text", "why", "where"),
    [("def broken(:\n", "SyntaxError", "broken.py"), ("1 / 0\n", "ZeroDivisionError", "broken.py:1")],
)
def test_a_file_that_does_not_load(tmp_path: Path, text: str, why: str, where: str) -> None:
    path = tmp_path / "work/search_spaces/broken.py"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(WorkloadError) as raised:
        find_workload("broken")
    assert raised.value.why.startswith(f"it raised {why}")
    assert raised.value.asked.startswith("loading ")
    assert raised.value.asked.endswith(where)
    assert "broken" not in list_workloads()
    assert "box_blur" in list_workloads()  # and the others are still found


def test_near_names(tmp_path: Path) -> None:
    write(tmp_path / "work/search_spaces", "matrix_product", "x")
    with pytest.raises(WorkloadError) as raised:
        find_workload("matrix_produkt")
    assert raised.value.why == "no such workload"
    assert raised.value.asked == "workload 'matrix_produkt'"
    assert raised.value.legal.startswith("did you mean 'matrix_product'? workloads: ")
    assert "file.py:function" in raised.value.legal
    with pytest.raises(WorkloadError) as raised:
        find_workload("qqq")
    assert raised.value.legal.startswith("workloads: ")
