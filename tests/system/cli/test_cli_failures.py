"""Exit statuses and messages: nothing that goes wrong shows a traceback, and nothing is lost."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autosched import errors
from autosched.cli import list as list_verb
from autosched.cli.failures import exit_status, interrupted_status, interruptible

Cli = Callable[..., Any]
Start = Callable[..., "subprocess.Popen[str]"]


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def raise_it(args: object) -> int:
        raise error

    monkeypatch.setattr(list_verb, "run", raise_it)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (errors.AutoschedError, 1),
        (errors.BuildError, 1),
        (errors.ScheduleError, 1),
        (errors.UsageError, 2),
        (errors.WorkloadError, 2),
        (errors.TargetError, 2),
        (errors.ImageError, 2),
        (errors.MeasureError, 3),
        (errors.RecordError, 4),
        (errors.VerificationError, 5),
        (errors.DeviceError, 6),
    ],
)
def test_errors_have_three_parts_and_a_status(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, kind: type[errors.AutoschedError], status: int
) -> None:
    fail_with(monkeypatch, kind("it cannot be", asked="the thing", legal="another thing"))
    done = cli("list")
    assert done.status == status
    assert done.err == "error: the thing: it cannot be\n  another thing\n"
    assert not done.out


def test_errors_as_json(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, errors.RecordError("it cannot be", asked="the thing", legal="another thing"))
    done = cli("list", "--json")
    assert done.status == 4
    assert done.data == {
        "error": {
            "type": "RecordError",
            "why": "it cannot be",
            "asked": "the thing",
            "legal": "another thing",
            "exit_status": 4,
        }
    }
    assert done.err.startswith("error: the thing")


def test_wrong_words_as_json(cli: Cli) -> None:
    assert cli("lsit", "--json").data["error"]["exit_status"] == 2


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ValueError("a\n  b"), 1, "internal error: ValueError: a b (AUTOSCHED_DEBUG=1 shows the traceback"),
        (MemoryError(), 1, "error: there is not enough memory"),
        (OSError(28, "No space left on device"), 1, "error: [Errno 28] No space left on device"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_other_exceptions_are_one_line(
    start: Start, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, message: str
) -> None:
    # In a process of its own: after an OSError the standard streams are given up.
    program = (
        "import sys\n"
        "from autosched.cli import main, list as verb\n"
        "def fail(args): raise error\n"
        f"error = {error!r}\n"
        "verb.run = fail\n"
        "sys.exit(main(['list']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


def test_a_working_directory_may_be_removed(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    done = cli("list", "workloads")
    assert (done.status, "brighten" in done.out) == (0, True)
    monkeypatch.setattr(list_verb, "run", lambda args: os.getcwd())
    done = cli("list")
    assert (done.status, done.err) == (1, "error: the working directory was removed\n  cd to a folder that is there\n")


def test_a_missing_package_is_named_as_pip_knows_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, ModuleNotFoundError("No module named 'PIL'", name="PIL.Image"))
    done = cli("list")
    assert done.status == 1
    assert done.err == "error: the Python package pillow is not installed\n  pip install pillow\n"


def test_debug_shows_the_traceback_first(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, errors.UsageError("no"))
    monkeypatch.setenv("AUTOSCHED_DEBUG", "1")
    done = cli("list")
    assert done.status == 2
    assert done.err.startswith("Traceback")
    assert done.err.endswith("error: no\n")
    monkeypatch.setenv("AUTOSCHED_DEBUG", "0")
    assert cli("list").err == "error: no\n"


def test_warnings_are_lines(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    def warn(args: object) -> int:
        warnings.warn("the sky is falling", UserWarning, stacklevel=1)
        return 0

    monkeypatch.setattr(list_verb, "run", warn)
    assert cli("list").err == "warning: the sky is falling\n"


def test_characters_that_the_terminal_lacks_are_escaped() -> None:
    program = (
        "import sys\n"
        "from autosched.cli import main, list as verb\n"
        "verb.run = lambda args: print('\\u00d7 \\u4e2d') or 0\n"
        "sys.exit(main(['list']))\n"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (0, b"\\xd7 \\u4e2d\n")


# -- output that nobody reads ---------------------------------------------------------------------
def test_a_closed_pipe_is_quiet(start: Start) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start("list", stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 141
    assert err == ""


def test_head_ends_a_long_output_quietly(tmp_path: Path) -> None:
    command = f"{sys.executable} -m autosched show brighten --asm 2>err | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=60)
    assert len(done.stdout.splitlines()) == 2
    assert done.stdout.splitlines()[1] in ("0", "141")  # 0 where all of it fitted into the pipe
    assert "Traceback" not in (tmp_path / "err").read_text()
    assert "Broken pipe" not in (tmp_path / "err").read_text()


def test_a_file_that_cannot_grow_is_an_error() -> None:
    command = f"ulimit -f 0; exec {sys.executable} -m autosched list strategies > listing"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("error: [Errno 27]")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="a shell of Unix closes the streams")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_failure(closed: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m autosched list targets {closed}'],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


# -- signals --------------------------------------------------------------------------------------
def test_sigterm_interrupts_and_is_remembered() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interruptible():
        assert interrupted_status() == 130
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        assert interrupted_status() == 143
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_tuning_with_what_is_known(
    start: Start, tmp_path: Path, number: signal.Signals, status: int
) -> None:
    process = start(
        *("tune", "brighten", "--budget", "10m", "--strategy", "random", "--model", "none", "--progress", "jsonl"),
        *("--repeat", 1, "--min-repeat-ms", 200, "--builders", 1, "--target", "llvm -threads=1", "--json"),
    )
    assert process.stderr is not None
    trials = 0
    for line in process.stderr:
        trials += line.startswith('{"event": "trial_done"')
        if trials:
            break
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == status
    assert "Traceback" not in err
    found = json.loads(out)
    assert found["interrupted"]
    assert found["trials"] >= 1
    lines = (tmp_path / "records" / "brighten.llvm.jsonl").read_text().splitlines()
    assert len(lines) >= 1 + found["trials"]  # the default schedule's and one for each trial


def test_ctrl_c_before_anything_is_measured(start: Start) -> None:
    process = start("tune", "brighten", "--trials", 1000, "--progress", "jsonl")
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith('{"event": "started"'):
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err


def test_an_interrupt_that_became_another_error_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Python 3.11 makes a RuntimeError of what is raised while a class names its parts."""
    error = RuntimeError("Error calling __set_name__ on 'Field' instance")
    error.__cause__ = ImportError("numpy")
    error.__cause__.__cause__ = KeyboardInterrupt()
    with interruptible():
        assert exit_status(error) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_signal_in_the_making_of_a_dataclass_keeps_its_status(start: Start, tmp_path: Path) -> None:
    """Python remembers that an `exec` of text was interrupted."""
    code = "import os, signal, time; os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)"
    (tmp_path / "late.py").write_text(f"exec({code!r})")
    process = start("show", f"{tmp_path}/late.py:work")
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (143, "interrupted")


def test_interrupting_a_quick_command(start: Start) -> None:
    process = start("list")
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode in (0, 143, -signal.SIGTERM)  # before Python runs our code, the signal kills it


def test_help_survives_a_stream_that_cannot_be_reconfigured(monkeypatch: pytest.MonkeyPatch) -> None:
    from autosched.cli import main

    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["--help"]) == 0
    assert "usage" in stream.getvalue()
