"""Words of the command line: verbs, options and their values."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import autosched
from autosched.cli import options
from autosched.cli.app import make_parser
from autosched.cli.arguments import VERBS, add_arguments
from autosched.errors import UsageError

Cli = Callable[..., Any]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("60s", 60), ("5m", 300), ("5min", 300), ("1h30m", 5400), ("90", 90), ("1.5m", 90), (" 2H ", 7200), (".5s", 0.5)],
)
def test_durations(text: str, expected: float) -> None:
    assert options.duration("--budget")(text) == expected


@pytest.mark.parametrize("text", ["banana", "", "-5", "0", "0s", "5x", "1h banana", "inf", "nan", "1e400", "9" * 400])
def test_wrong_durations_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a length of time") as caught:
        options.duration("--budget")(text)
    assert caught.value.asked == "--budget"
    assert caught.value.legal == "write 60s, 5m or 1h30m"


@pytest.mark.parametrize("text", ["-1", "0", "1.5", "many", "", "nan"])
def test_wrong_counts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a whole number|is less than 1"):
        options.count("--repeat")(text)


@pytest.mark.parametrize("text", ["0", "-2", "inf", "nan", "much"])
def test_wrong_numbers_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a number of milliseconds"):
        options.positive("--min-repeat-ms", "milliseconds")(text)


@pytest.mark.parametrize("text", ["channels", "=3", "channels=", "a b=3", "3=a", ""])
def test_wrong_assignments_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not NAME=VALUE"):
        options.assignment("--param")(text)


def test_an_assignment_may_hold_equals_signs() -> None:
    assert options.assignment("--param")(" mode = a=b ") == ("mode", "a=b")


# -- verbs and options ----------------------------------------------------------------------------
def test_version(cli: Cli) -> None:
    assert cli("--version").out == f"autosched {autosched.__version__}\n"


def test_help_names_every_verb_and_exit_status(cli: Cli) -> None:
    done = cli("--help")
    assert done.status == 0
    for verb, (_, what) in VERBS.items():
        assert re.search(rf"^    {verb} +{re.escape(what)}$", done.out, re.MULTILINE)
    for status in ("0 done", "1 internal", "2 wrong", "3 nothing", "4 records", "5 wrong", "6 device", "130", "143"):
        assert status in done.out


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_each_verb_ends_with_examples_that_parse(cli: Cli, verb: str) -> None:
    done = cli(verb, "--help")
    assert done.status == 0
    examples = [shlex.split(line) for line in done.out.splitlines() if line.startswith(f"  autosched {verb}")]
    assert examples
    for words in examples:
        words = words[1 : words.index("|")] if "|" in words else words[1:]
        words = words[: words.index(">")] if ">" in words else words
        args, unknown = make_parser(verb).parse_known_args(words)
        assert not unknown
        assert args.verb == verb


def test_no_verb_prints_the_help_and_fails(cli: Cli) -> None:
    done = cli()
    assert done.status == 2
    assert done.err.startswith("usage: autosched")
    assert not done.out


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["tun"], ["no such verb", "did you mean 'tune'?", "doctor"]),
        (["xyzzy"], ["no such verb", "verbs: tune, tasks, build"]),
        (["tune"], ["the following arguments are required: WORKLOAD", "see autosched tune --help"]),
        (["tune", "brighten", "--trails", "3"], ["'--trails' is not understood", "did you mean --trials?"]),
        (["tune", "brighten", "--trials"], ["--trials", "expected one argument"]),
        (["tune", "brighten", "--trials", "-1"], ["--trials", "-1 is less than 0", "a whole number, 0 or more"]),
        (["tune", "brighten", "--budget", "banana"], ["--budget", "'banana' is not a length of time", "60s"]),
        (["tune", "brighten", "--progress", "loud"], ["--progress", "loud", "jsonl"]),
        (["tune", "brighten", "extra"], ["'extra' is not understood"]),
        (["tune", "brighten", "n=3"], ["'n=3' is not understood", "did you mean --param n=3?"]),
        (["--what", "list"], ["'--what' is not understood"]),
        (["show", "brighten", "--what", "soul"], ["soul", "schedule"]),
        (["show", "brighten", "--asm", "--after", "simplify"], ["not allowed with"]),
        (["list", "everything"], ["everything", "workloads"]),
    ],
)
def test_wrong_words(cli: Cli, words: list[str], parts: list[str]) -> None:
    done = cli(*words)
    assert done.status == 2
    assert not done.out
    assert done.err.startswith("error: ")
    for part in parts:
        assert part in done.err
    assert "Traceback" not in done.err


def test_an_option_before_its_verb(cli: Cli) -> None:
    done = cli("--target", "show", "brighten")
    assert done.status == 2
    assert "'--target' is not understood\n  options go after the verb" in done.err


def test_options_are_not_abbreviated(cli: Cli) -> None:
    assert cli("tune", "brighten", "--tri", "3").status == 2


def test_program_is_named_as_it_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    for started_as, expected in [
        ("/usr/bin/autosched", "autosched"),
        ("C:\\autosched.exe".replace("\\", "/"), "autosched"),
        ("/somewhere/autosched/__main__.py", "python -m autosched"),
    ]:
        monkeypatch.setattr(sys, "argv", [started_as])
        assert options.program() == expected


def test_aliases_that_users_of_tvmc_know() -> None:
    args = make_parser("tune").parse_args(["tune", "brighten", "--tuner", "grid", "-o", "here"])
    assert (args.strategy, args.records) == ("grid", "here")
    assert make_parser("tune").parse_args(["tune", "brighten", "--output", "there"]).records == "there"


@pytest.mark.parametrize("words", [["--help"], ["--version"], *([verb, "--help"] for verb in VERBS)])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    program = (
        "import sys\n"
        "from autosched.cli import main\n"
        f"assert main({words!r}) == 0\n"
        "heavy = {'numpy', 'llvmlite', 'pyopencl', 'xgboost', 'sklearn', 'optuna', 'pandas', 'rich', 'PIL'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_manual_names_every_verb_and_option() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
    for verb in VERBS:
        assert f"## {verb}" in manual
        parser = options.Parser(prog=verb)
        add_arguments(parser, verb)
        for option in set(re.findall(r"--[a-z][\w-]+", parser.format_help())):
            assert f"`{option}" in manual, f"docs/cli.md does not name {option} of {verb}"
