"""Commands to test, run in this process (`cli`) or in one of their own (`start`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autosched.cli import main

sys.path.append(str(Path(__file__).parent))  # for the modules beside this file, whatever the import mode


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Standard output as the one JSON object it must be."""
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder, the search spaces beside this file, and nothing from the environment."""
    for name in [n for n in os.environ if n.startswith("AUTOSCHED_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AUTOSCHED_PATH", str(Path(__file__).parent))
    monkeypatch.setenv("AUTOSCHED_RECORDS", str(tmp_path / "records"))
    monkeypatch.setenv("AUTOSCHED_PREDICT", "0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "argv", ["autosched"])
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def run(*words: object) -> Outcome:
        status = main([str(w) for w in words])
        return Outcome(status, *capsys.readouterr())

    return run


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `python -m autosched ...` with pipes for its output."""
    started: list[subprocess.Popen[str]] = []

    def begin(*words: object, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "autosched", *(str(w) for w in words)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, **{**pipes, **options})
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
