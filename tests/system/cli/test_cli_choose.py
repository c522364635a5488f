"""`choose`: a schedule by hand, with answers from options and from standard input."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from autosched.schedule.trace import Trace

SIZES = ("--size", "height=24", "--size", "width=32")


@pytest.fixture
def answered(cli, monkeypatch):
    def run(answers: str, *words: object):
        monkeypatch.setattr("sys.stdin", io.StringIO(answers))
        return cli("choose", *words)

    return run


def test_what_is_taken_is_printed_as_show_prints_it(cli, tmp_path) -> None:
    found = cli("choose", "brighten", *SIZES, "--sketch", "1", "--set", "rows=4", "--yes", "--measure", "--json").data
    assert found["knobs"] == {"rows": 4}
    assert found["nest"][:2] == ["produce brighter", "  parallel y.outer 6"]
    assert found["seconds"] > 0
    lines = map(json.loads, Path(tmp_path / "records/brighten.llvm.jsonl").read_text().splitlines())
    line = next(x for x in lines if x["id"] == found["record"])
    assert (line["strategy"], line["verified"], line["knobs"]) == ("by hand", "full", {"rows": 4})
    assert found["python"] == Trace.from_json(line["trace"]).as_python(knobs=line["knobs"])
    again = cli("choose", "brighten", *SIZES, "--sketch", "1", "--set", "rows=4", "--yes", "--json").data
    assert again["measured_s"] is not None


def test_answers_are_read_from_standard_input(answered) -> None:
    done = answered("1\n9\n?\nn\np\n2\nn\n", "brighten", *SIZES, "--space", "all")
    assert done.status == 0
    assert "rows = 2" in done.out
    assert "values of rows that are left: 1, 2, 4, 8" in done.err
    for said in ("sketches, the best first", 's["brighter"].split("y", factor=rows)', "parallel y.outer 12", "[y/N]"):
        assert said in done.err


def test_a_step_back_asks_again(answered) -> None:
    words = ("matmul", "--param", "m=32", "--param", "n=32", "--param", "k=32", "--json")
    done = answered("1\n2\nb\nb\n1\n4\n" + "\n" * 20, *words)
    assert done.status == 0
    assert done.data["knobs"]["rows"] == 4
    assert [s["choice"] for s in done.data["steps"]][:2] == ["sketch", "rows"]


def test_an_end_leaves_nothing(answered, tmp_path) -> None:
    done = answered("q\n", "brighten", *SIZES, "-o", "x.py")
    assert (done.status, done.out, list(tmp_path.iterdir())) == (0, "", [])


def test_a_file_is_written_and_not_replaced_unasked(cli, tmp_path) -> None:
    words = ("choose", "brighten", *SIZES, "--yes", "-o", tmp_path / "a schedule.py")
    assert cli(*words).status == 0
    assert (tmp_path / "a schedule.py").read_text().startswith("def schedule(s):")
    assert cli(*words).status == 2
    assert cli(*words, "--force").status == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sketch", "7"], "there is no sketch 7"),
        (["--set", "row=2"], "did you mean 'rows'?"),
        (["--set", "rows=3"], "values: 1, 2, 4, 8"),
        (["--set", "rows"], "'rows' is not NAME=VALUE"),
        ([], "nobody chooses the sketch"),
        (["--sketch", "1"], "nobody chooses a value of rows"),
        (["--sketch", "2", "--set", "rows=2"], "it has no knob 'rows'"),
        (["--rule", "nothing"], "nothing"),
    ],
)
def test_wrong_arguments(answered, words, said) -> None:
    outcome = answered("", "brighten", *SIZES, "--space", "all", *words)
    assert (outcome.status, outcome.out) == (2, "")
    assert said in outcome.err


def test_values_that_leave_no_point_say_why(cli) -> None:
    words = ("choose", "matmul", "--set", "rows=14", "--set", "vectors=4")
    one = cli(*words, "--sketch", "1")
    assert one.status == 2
    assert "values of rows that are left: 2, 3, 4, 6" in one.err
    every = cli(*words)
    assert every.status == 2
    assert "no sketch has a valid point" in every.err
