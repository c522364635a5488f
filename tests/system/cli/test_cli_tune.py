"""`tune`: what is handed to the library, and real runs on a small workload."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scripted

from autosched.cli.failures import interruptible
from autosched.cli.images import write_image
from autosched.measure import MeasureOptions
from autosched.tuning import TuneResult

Cli = Callable[..., Any]

#: Short runs; one thread, because two on a busy machine wait for each other.
TARGET = "llvm -threads=1"
QUICK = (
    "--target",
    TARGET,
    "--strategy",
    "random",
    "--model",
    "none",
    "--repeat",
    1,
    "--min-repeat-ms",
    1,
    "--builders",
    1,
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `tune` was called with; it then gives `asked["result"]`."""
    calls: dict[str, Any] = {"result": scripted.result()}

    def tune(what: Any, target: Any, **options: Any) -> TuneResult:
        calls.update(options, what=what, target=target)
        for _, event in scripted.run():
            options["progress"](event)
        outcome: TuneResult = calls["result"]
        return outcome

    monkeypatch.setattr("autosched.cli.tune.tune", tune)
    return calls


def test_defaults(cli: Cli, asked: dict[str, Any]) -> None:
    assert cli("tune", "brighten").status == 0
    assert repr(asked["what"]) == "brighten(channels=3, dtype='uint8')"
    assert str(asked["target"]) == "llvm"
    names = ("trials", "budget_s", "strategy", "model", "seed", "records", "inputs", "sizes")
    assert [asked[name] for name in names] == [200, None, "bandit", "xgb", 0, None, None, None]
    assert asked["measure"] == MeasureOptions()


def test_strategy_options_are_literals(cli: Cli, asked: dict[str, Any]) -> None:
    assert asked.get("strategy_options") is None
    words = ("batch=32", "explore=0.5", "sampler=GPSampler", "diverse=false", "elite=None")
    assert cli("tune", "brighten", *(w for word in words for w in ("--strategy-option", word))).status == 0
    expected = {"batch": 32, "explore": 0.5, "sampler": "GPSampler", "diverse": False, "elite": None}
    assert asked["strategy_options"] == expected
    said = cli("tune", "brighten", "--strategy-option", "batch")
    assert said.status == 2 and "--strategy-option batch=32" in said.err


def test_every_option(cli: Cli, asked: dict[str, Any], tmp_path: Path) -> None:
    words = (
        *("tune", "brighten", "--target", "llvm -threads=1", "--trials", 7, "--budget", "2m", "--strategy", "grid"),
        *("--model", "none", "--seed", 3, "--records", "here", "--param", "channels=4", "--param", "dtype=uint16"),
        *("--size", "height=10", "--size", "width=20", "--timeout", "3s", "--repeat", 5, "--min-repeat-ms", 2.5),
        *("--builders", 2, "--no-race", "--patience", 9),
    )
    assert cli(*words).status == 0
    assert repr(asked["what"]) == "brighten(channels=4, dtype='uint16')"
    assert str(asked["target"]) == "llvm -threads=1"
    names = ("trials", "budget_s", "strategy", "model", "seed", "records", "sizes", "patience")
    assert [asked[name] for name in names] == [7, 120.0, "grid", "none", 3, "here", {"height": 10, "width": 20}, 9]
    measure = MeasureOptions(timeout_s=3.0, repeat=5, min_repeat_ms=2.5, builders=2, race=False)
    assert asked["measure"] == measure


def test_a_budget_alone_leaves_trials_unlimited(cli: Cli, asked: dict[str, Any]) -> None:
    cli("tune", "brighten", "--budget", "60s")
    assert (asked["trials"], asked["budget_s"]) == (None, 60.0)


def test_an_image_decides_parameters_and_sizes(cli: Cli, asked: dict[str, Any], tmp_path: Path) -> None:
    array = np.zeros((5, 6, 4), np.uint8)
    write_image(tmp_path / "a.png", array)
    assert cli("tune", "brighten", "--input", "a.png").status == 0
    assert repr(asked["what"]) == "brighten(channels=4, dtype='uint8')"
    np.testing.assert_array_equal(asked["inputs"], [array])


def test_progress_goes_to_standard_error_and_the_summary_to_standard_output(
    cli: Cli, asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = cli("tune", "brighten", "--size", "height=10")
    assert done.err.startswith("tuning box_blur")
    assert "[   1.5 s] 3/200 trials" in done.err
    assert "412 us per call, 5.83 times as fast" in done.out
    assert "5.61 to 6.02 times as fast, with 95 % confidence" in done.out
    assert 's["blur"].split("y", factor=rows)' in done.out
    assert "build    autosched build brighten --size height=10\n" in done.out
    assert "resume   autosched tune brighten --size height=10 --trials 400\n" in done.out
    assert cli("tune", "brighten", "--progress", "none").err == (
        "warning: records cannot be written any more: disk full\n"
    )
    lines = cli("tune", "brighten", "--progress", "jsonl").err.splitlines()
    assert [json.loads(line)["event"] for line in lines][:2] == ["started", "note"]


def test_commands_to_paste_are_quoted_and_complete(cli: Cli, asked: dict[str, Any]) -> None:
    asked["result"] = scripted.result(interrupted=True, trials=5)
    words = ("--target", "llvm -threads=1", "--records", "my records", "--param", "channels=1", "--trials=9")
    done = cli("tune", "brighten", *words)
    assert (
        "build    autosched build brighten --param channels=1 --target 'llvm -threads=1' --records 'my records'\n"
    ) in done.out
    assert (
        "resume   autosched tune brighten --target 'llvm -threads=1' --records 'my records' "
        "--param channels=1 --trials=9\n"
    ) in done.out
    assert done.status == 130
    asked["result"] = scripted.result(trials=9)
    assert cli("tune", "brighten", "--trials=9").out.endswith("resume   autosched tune brighten --trials 209\n")
    assert cli("tune", "brighten", "--trials", 9).out.endswith("resume   autosched tune brighten --trials 209\n")
    asked["result"] = scripted.result(trials=0, resumed=220)
    assert cli("tune", "brighten", "--trials", 5).out.endswith("resume   autosched tune brighten --trials 420\n")


def test_json_is_one_object(cli: Cli, asked: dict[str, Any]) -> None:
    done = cli("tune", "brighten", "--json")
    assert done.data["speedup"] == 5.825
    assert done.data["log"] == "records/box_blur.llvm.jsonl"
    asked["result"] = scripted.result(interrupted=True, interval=(0.0, math.inf))
    done = cli("tune", "brighten", "--json")
    assert done.status == 130
    assert done.data["interval"] == [0.0, None]


def test_nothing_that_works_is_status_3(cli: Cli, asked: dict[str, Any]) -> None:
    asked["result"] = scripted.result(best=None, trials=4, failures={"compile": 3, "crash": 1})
    assert cli("tune", "brighten").status == 3
    asked["result"] = scripted.result(best=None, trials=4, failures={"compile": 3})  # the default is the fastest
    assert cli("tune", "brighten").status == 0
    asked["result"] = scripted.result(best=None, trials=0, failures={})
    assert cli("tune", "brighten").status == 0


# -- wrong words ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("words", "status", "parts"),
    [
        (["brihgten"], 2, ["no such workload", "did you mean 'brighten'"]),
        (["brighten", "--target", "opnecl"], 2, ["no such target", "did you mean 'opencl'", "llvm"]),
        (["brighten", "--target", "llvm -mcp=x"], 2, ["-mcp=x", "-mcpu"]),
        (["brighten", "--strategy", "guidde"], 2, ["no such strategy", "guided"]),
        (["brighten", "--model", "xbg"], 2, ["no such cost model", "xgb"]),
        (["brighten", "--param", "chanels=4"], 2, ["no parameter 'chanels'", "did you mean 'channels'", "dtype=uint8"]),
        (["brighten", "--param", "channels=four"], 2, ["its value is not int", "the default is channels=3"]),
        (["brighten", "--param", "dtype=uint12"], 2, ["uint12"]),
        (["brighten", "--size", "hieght=4"], 2, ["no size 'hieght'", "did you mean 'height'", "sizes: height, width"]),
        (["brighten", "--size", "height=-4"], 2, ["a size is a whole number >= 1"]),
        (["brighten", "--input", "missing.png"], 2, ["missing.png", "No such file"]),
        (["brighten", "--input", "a.png", "--size", "height=4"], 2, ["the image sets the sizes"]),
        (["total", "--input", "a.npy"], 2, ["the image is 5 x 6 of uint8", "float32[rows, 4]"]),
        (["brighten", "--input", "a.npy", "--param", "channels=2"], 2, ["the image is 5 x 6 x 3 of uint8"]),
        (["brighten", "--records", "file/records"], 4, ["records", "cannot be written", "Not a directory"]),
        (["total"], 2, ["rows"]),
    ],
)
def test_wrong_words(cli: Cli, tmp_path: Path, words: list[str], status: int, parts: list[str]) -> None:
    (tmp_path / "file").write_text("")
    np.save(tmp_path / "a.npy", np.zeros((5, 6, 3), np.uint8))
    done = cli("tune", *words, "--trials", 1)
    assert done.status == status
    assert not done.out
    assert done.err.startswith("error: ")
    for part in parts:
        assert part in done.err


# -- real runs ------------------------------------------------------------------------------------
def test_a_real_run_resumes_and_builds(cli: Cli, tmp_path: Path) -> None:
    first = cli("tune", "brighten", "--trials", 2, *QUICK, "--json")
    assert first.status == 0, first.err
    assert first.data["trials"] == 2
    assert first.data["sizes"] == {"height": 24, "width": 32}
    log = Path(first.data["log"])
    assert log == tmp_path / "records" / "brighten.llvm.jsonl"
    assert f"tuning brighten(channels=3, dtype='uint8') for {TARGET}" in first.err

    with log.open("a") as file:  # a writer died in the middle of a line
        file.write('{"v":1,"id":"torn')
    second = cli("tune", "brighten", "--trials", 3, *QUICK, "--progress", "jsonl", "--json")
    assert second.status == 0, second.err
    events = [json.loads(line) for line in second.err.splitlines()]
    assert events[0]["event"] == "note"
    assert "torn last line" in events[0]["text"]
    assert (second.data["resumed"], second.data["trials"]) == (2, 1)

    done = cli("build", "brighten", "--target", TARGET, "--json")
    assert done.status == 0, done.err
    assert done.data["provenance"]["kind"] == "record"

    assert cli("records", "brighten", "--check").status == 4


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal")
@pytest.mark.timeout(120)
def test_a_lost_terminal_ends_a_run_as_cleanly_as_ctrl_c(tmp_path: Path) -> None:
    """SIGHUP in the middle of a run: what was found, how to go on, no file of the session left."""
    (tmp_path / "tmp").mkdir()
    words = [
        "tune",
        "box_blur",
        "--size",
        "height=24",
        "--size",
        "width=40",
        "--trials",
        "5000",
        "--strategy",
        "random",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "autosched", *words, "--records", str(tmp_path), "--progress", "jsonl"],
        cwd=Path(__file__).resolve().parents[3],
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if json.loads(line)["event"] == "trial_done":
                break
        assert any((tmp_path / "tmp").iterdir())
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGHUP
    assert "  interrupted after " in out and "\nresume   python -m autosched tune box_blur" in out
    assert not any((tmp_path / "tmp").iterdir())


def test_signals_that_are_ignored_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` has it
    try:
        with interruptible():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
