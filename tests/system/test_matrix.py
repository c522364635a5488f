"""`.ci/matrix` says what it leaves out; what it does takes half an hour, and is no test."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "matrix"
TOOLS = ("bash", "cp", "dirname", "env", "ls", "mkdir", "rm", "sort", "tail")

pytestmark = pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason="needs bash and its usual company")


def run(home: Path, **pythons: str) -> subprocess.CompletedProcess[str]:
    """The script where there are these Pythons only, of which each is a shell script that answers as told."""
    path = home / "bin"
    path.mkdir()
    for tool in TOOLS:
        (path / tool).symlink_to(str(shutil.which(tool)))
    for name, body in pythons.items():
        (path / name.replace("_", ".")).write_text(f"#!{shutil.which('bash')}\n{body}\n")
        (path / name.replace("_", ".")).chmod(0o755)
    environment = {"PATH": str(path), "HOME": str(home), "LANG": os.environ.get("LANG", "C")}
    return subprocess.run(
        [str(shutil.which("bash")), str(SCRIPT), str(home / "ein ordner ü")],
        capture_output=True, text=True, env=environment, timeout=60,
    )  # fmt: skip


def test_without_any_python_it_says_which_it_looked_for(tmp_path: Path) -> None:
    done = run(tmp_path, python3_12="exit 1")  # one without venv
    assert done.returncode == 1
    assert done.stdout.count("left out, no python3.") == 3
    assert done.stderr == (
        "error: .ci/matrix: none of python3.11 3.12 3.13 is here\n"
        "  install one (a package of your system, pyenv install, uv python install)\n"
    )


#: a Python whose environments and archives are made, and in which `autosched` fails where `fails` is there
PYTHON = """
case "$*" in
    *ensurepip*) ;;
    --version) echo Python 3.12.1 ;;
    "-m venv"*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; cp "$0" "$3/bin/pip" ;;
    *"-m build"*) mkdir -p "$5"; : > "$5/a-1.whl"; : > "$5/a-1.tar.gz" ;;
    "-m autosched"*) echo "tuned with $XDG_CACHE_HOME"; %s ;;
    *pytest*) echo "tests: $*" ;;
esac
"""


def test_each_combination_is_told_and_the_wheel_is_what_is_tested(tmp_path: Path) -> None:
    done = run(tmp_path, python3_12=PYTHON % ":")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("tests: -P -m pytest -n 2 tests/unit") == 2
    assert f"tuned with {tmp_path}/ein ordner ü/home-oldest/cache" in done.stdout
    assert done.stdout.partition("\n\n")[2].splitlines() == [
        "newest-3.11: left out, there is no python3.11",
        "newest-3.12: passed, Python 3.12.1, a-1.whl",
        "newest-3.13: left out, there is no python3.13",
        "oldest: passed, Python 3.12.1, a-1.tar.gz",
    ]


def test_a_failure_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    done = run(tmp_path, python3_11=PYTHON % "exit 3", python3_13=PYTHON % ":")
    assert done.returncode == 1
    last = done.stdout.rpartition("\n\n")[2].splitlines()
    assert [line.partition(",")[0] for line in last] == [
        "newest-3.11: FAILED", "newest-3.12: left out", "newest-3.13: passed", "oldest: FAILED",
    ]  # fmt: skip
