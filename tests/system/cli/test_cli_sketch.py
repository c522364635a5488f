"""`sketch`: what tuning searches, as templates, and what settled each stage."""

from __future__ import annotations

from pathlib import Path

import pytest

PROGRAMS = """
from autosched import te, workload


@workload
def prefix(n=32, m=16):
    x, state = te.placeholder((n, m), name="x"), te.placeholder((n, m), name="state")
    first = te.compute((1, m), lambda t, j: x[0, j], name="first")
    step = te.compute((n, m), lambda t, j: state[t - 1, j] + x[t, j], name="step")
    sums = te.scan(first, step, state, inputs=[x], name="sums")
    return x, te.compute((n, m), lambda i, j: sums[i, j] * 2.0, name="doubled")


@workload
def product(n=32):
    a, b, k = te.placeholder((n, n), name="a"), te.placeholder((n, n), name="b"), te.reduce_axis((0, n), "k")
    return a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")


@workload
def gigantic(n=1 << 40):
    x = te.placeholder((n, n), name="x")
    return x, te.compute((n, n), lambda i, j: x[i, j] + 1.0, name="y")
"""

CLUMSY = '''
from autosched.space.rules import rule


@rule(when=lambda plan, stage: stage.name == "c", last=False)
def clumsy(plan, stage):
    """It asks for a loop that is not there."""
    stage.split("nowhere", factor=2)
'''


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    file = tmp_path / "programs.py"
    file.write_text(PROGRAMS)
    (tmp_path / "clumsy.py").write_text(CLUMSY)
    return file


def test_names_come_with_what_settled_each_stage(cli, programs) -> None:
    out = cli("sketch", f"{programs}:prefix", "--names").out.splitlines()
    names, table = out[: out.index("")], out[out.index("") + 1 :]
    assert names[0].startswith("   1  auto")
    assert names[-1].split() == [str(len(names)), "default"]
    assert table[0].split() == ["stage", "rule", "sketches", "why"]
    assert any(line.startswith("sums ") and "scan" in line for line in table)
    assert any("whole_rows" in line for line in out if line.startswith("doubled "))


def test_templates_stay_python_below_it(cli, programs) -> None:
    out = cli("sketch", f"{programs}:product").out
    assert out.startswith("# stage")
    made: dict[str, object] = {"template": lambda of, target: lambda f: f, "product": None}
    exec(out, made)
    names = cli("sketch", f"{programs}:product", "--names").out.split("\n\n")[0].splitlines()
    assert len([name for name in made if name.startswith("sketch_")]) == len(names)


def test_one_sketch_has_its_own_stages(cli, programs) -> None:
    some = cli("sketch", f"{programs}:product", "--only", "1", "--json").data
    assert {row["sketches"] for row in some["stages"]} == {1}
    assert {row["stage"]: row["rule"] for row in some["stages"]} == some["sketches"][0]["stages"]
    assert some["sketches"][0]["stages"]["c"] == "multi_level_tiling"
    everything = cli("sketch", f"{programs}:product", "--json").data
    (tiled,) = (row for row in everything["stages"] if row["stage"] == "c")
    assert 1 < tiled["sketches"] == len(everything["sketches"]) - 1  # all but the default schedule


def test_what_a_rule_could_not_do_is_told_with_what_others_make(cli, programs) -> None:
    out = cli("sketch", f"{programs}:product", "--names", "--rule", f"{programs.parent}/clumsy.py:clumsy")
    assert out.status == 0
    (line,) = [x for x in out.out.splitlines() if x.startswith("left out")]
    assert "c_by=clumsy" in line
    assert "rule clumsy at stage c" in line
    assert "multi_level_tiling" in out.out


def test_no_array_is_made_to_print_sketches(cli, programs) -> None:
    assert cli("sketch", f"{programs}:gigantic", "--names").status == 0


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--only", "12"], 2, "there is no sketch 12"),
        (["--only", "0"], 2, "--only"),
        (["--rule", "nothing"], 2, "nothing"),
        (["--space", "templates"], 2, "it has no template for llvm"),
        (["--size", "n=4"], 2, "product has no size 'n'"),
    ],
)
def test_wrong_arguments(cli, programs, words, status, said) -> None:
    outcome = cli("sketch", f"{programs}:product", *words)
    assert (outcome.status, outcome.out) == (status, "")
    assert said in outcome.err


@pytest.mark.filterwarnings("always:no rule is asked")
def test_rules_that_nobody_asks_are_not_passed_over_silently(cli, programs) -> None:
    """The templates of a workload are searched unless --space says something else."""
    words = ("sketch", "brighten", "--space", "templates", "--names", "--rule")
    wrong = cli(*words, "nothing")
    assert (wrong.status, wrong.err.partition("\n")[0]) == (2, "error: rule 'nothing': no such rule")
    unused = cli(*words, f"{programs.parent}/clumsy.py:clumsy")
    assert unused.status == 0
    assert "warning: no rule is asked: the templates of brighten are searched" in unused.err
