"""Runs over recorded spaces, their figures, the drawing and the command."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from autosched.cli.app import main
from autosched.errors import MeasureError, UsageError
from autosched.search import Candidate
from autosched.simulate.curves import Curves, compare, curves_of, drawing, overall
from autosched.simulate.recorded import RecordedKnob, RecordedSketch, RecordedSpace, list_spaces, load
from autosched.simulate.replay import Contender, replay_run, run_all

RECORDS = Path(__file__).resolve().parents[3] / "records"
SPACES = list_spaces(RECORDS)
RANDOM = Contender("random", model="none")


def tiny(times=(4.0, 2.0, math.inf, 1.0, 8.0)):
    """One knob, one point for each time."""
    points = np.arange(len(times)).reshape(-1, 1)
    status = tuple("ok" if t < math.inf else "crash" for t in times)
    samples = tuple((t,) if t < math.inf else () for t in times)
    knob = RecordedKnob("x", tuple(range(len(times))))
    sketch = RecordedSketch("only", (knob,), points, status, samples, points.astype(float), [])
    return RecordedSpace("tiny", (sketch,), ("x",), {"features": "v"})


def test_a_run_ends_when_nothing_is_left_and_keeps_every_trial():
    run = replay_run(tiny(), Contender("grid", model="none"), 0, 100, batch=2)
    assert run.seconds == (4.0, 2.0, math.inf, 1.0, 8.0)
    assert run.best.tolist() == [4.0, 2.0, 2.0, 1.0, 1.0]


def test_trials_are_a_limit_and_the_seed_decides():
    space = load(SPACES["softmax"])
    first, again, other = (replay_run(space, RANDOM, seed, 21, batch=8) for seed in (3, 3, 4))
    assert first == again
    assert len(first.seconds) == 21 and first.seconds != other.seconds


def test_figures_of_curves_worked_out_by_hand():
    def curves(name, *rows):
        return Curves("s", name, np.array(rows))

    lines = compare(
        [curves("random", [4.0, 4.0, 1.08, 1.08], [4.0, 1.0, 1.0, 1.0]), curves("quick", [1.0] * 4, [1.0] * 4)]
    )
    random, quick = lines
    assert random.trials_to == {"5%": 2.0, "10%": 2.0}
    assert random.after["4"] == (1.02, 1.04, 1.06)
    assert (random.beats_random, quick.beats_random) == (0.5, 0.75)
    assert quick.score == 1.0 and random.score == pytest.approx(1.08**0.5)
    long = curves("long", [8.0] * 25 + [4.0] * 25 + [2.0] * 50 + [1.0] * 20)
    assert long.scores() == pytest.approx([(8 * 4 * 2) ** (1 / 3)])
    assert compare([curves("random", [2.0] * 4)])[0].trials_to == {"5%": math.inf, "10%": math.inf}
    assert list(overall(lines)) == ["quick", "random"]


def test_curves_start_at_the_worst_and_are_padded_with_the_last():
    space = tiny((math.inf, 3.0, 1.0))
    run = replay_run(space, Contender("grid", model="none"), 0, 10)
    assert curves_of(space, [run], 5)[0].best.tolist() == [[3.0, 3.0, 1.0, 1.0, 1.0]]


def test_processes_make_no_difference():
    names = ["softmax", "depthwise_conv2d"]
    contenders = [RANDOM, Contender("grid", model="none")]
    one, two = (run_all(SPACES, names, contenders, range(2), 30, 16, processes) for processes in (1, 2))
    assert one == two
    assert [(r.space, r.contender, r.seed) for r in one][:3] == [
        ("softmax", "random", 0),
        ("softmax", "random", 1),
        ("softmax", "grid", 0),
    ]


PLUGIN = """
import os
from autosched.search import Candidate

class Best:
    def __init__(self, space, *, seed=0, model=None, start=0):
        self.left = [Candidate(0, tuple(row)) for row in space.sketches[0].points[start:].tolist()]
    def propose(self, n):
        found, self.left = self.left[:n], self.left[n:]
        return found
    def observe(self, trials):
        pass

class Dies(Best):
    def propose(self, n):
        os._exit(7)
"""


def test_a_plug_in_takes_part_and_its_options_do(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN)
    contender = Contender.parse(f"{path}:Best,start=5", "none")
    assert contender.label == "Best start=5"
    (run,) = run_all(SPACES, ["softmax"], [contender], [0], 10, 4, 1)
    space = load(SPACES["softmax"])
    assert run.seconds[0] == space.seconds(Candidate(0, tuple(space.sketches[0].points[5].tolist())))
    with pytest.raises(MeasureError, match="Dies: its process ended"):
        run_all(SPACES, ["softmax"], [Contender.parse(f"{path}:Dies", "none")], [0, 1], 10, 4, 2)


def test_a_wrong_strategy_is_the_same_error_from_a_process(tmp_path):
    for processes in (1, 2):
        with pytest.raises(UsageError, match="randm"):
            run_all(SPACES, ["softmax"], [Contender("randm", model="none")], [0, 1], 10, 4, processes)
    with pytest.raises(UsageError, match=r"'sampler' is not OPTION=VALUE"):
        Contender.parse("tpe,sampler")


def test_options_of_a_strategy_on_the_command_line():
    contender = Contender.parse("bandit,arms=guided,droplet,initial=20,bonus=0.5,on=true", "none")
    assert contender.options == {"arms": "guided,droplet", "initial": 20, "bonus": 0.5, "on": True}
    assert Contender.parse("random").options == {}


def test_the_drawing_has_a_panel_for_each_space_and_a_line_for_each_strategy():
    curves = [Curves(f"s<{i}", name, 1 + np.random.rand(5, 40)) for i in range(5) for name in ("random", "a", "b")]
    root = ET.fromstring(drawing(curves))
    lines = [e for e in root.iter("{http://www.w3.org/2000/svg}path") if e.get("class") == "line"]
    bands = [e for e in root.iter("{http://www.w3.org/2000/svg}path") if e.get("class") == "band"]
    assert (len(lines), len(bands)) == (5 * 3 + 3, 5 * 3)
    texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"s<0", "random", "trials"} <= set(texts)
    assert "prefers-color-scheme: dark" in drawing(curves)


def simulate(*words):
    return main(["simulate", "--records", str(RECORDS), *words])


def test_the_command_lists_spaces(capsys):
    assert simulate() == 0
    assert "matmul-1024" in capsys.readouterr().out


def test_the_command_prints_figures_and_writes_curves(tmp_path, capsys):
    words = ("softmax", "depthwise_conv2d", "--strategy", "random", "--strategy", "grid", "--seeds", "3")
    common = (*words, "--trials", "50", "--model", "none", "--processes", "1", "--output")
    assert simulate(*common, str(tmp_path / "c.svg")) == 0
    out = capsys.readouterr().out
    assert "softmax, 3 seeds" in out and "mean of all spaces" in out and "12 runs" in out
    ET.parse(tmp_path / "c.svg")
    assert simulate(*common, str(tmp_path / "c.json"), "--json") == 0
    data = json.loads((tmp_path / "c.json").read_text())
    assert {line["strategy"] for line in data["figures"]} == {"random", "grid"}
    assert len(data["curves"][0]["median"]) == 50
    assert json.loads(capsys.readouterr().out)["overall"] == data["overall"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("sofmax",), "did you mean 'softmax'"),
        (("softmax", "--strategy", "randm", "--processes", "1"), "randm"),
        (("softmax", "--output", "x.png"), "legal: .svg or .json|.svg or .json"),
        (("softmax", "--seeds", "0"), "a whole number, 1 or more"),
        (("softmax", "--model", "none", "--prime", "matmul-1024"), "no cost model could learn"),
    ],
)
def test_wrong_words_are_errors(words, message, capsys):
    assert simulate(*words) == 2
    err = capsys.readouterr().err
    assert any(part in err for part in message.split("|"))


def test_a_primed_run_begins_better():
    """Half of the points of matmul 512 say where those of 1024 are fast: 8 trials are then better than 8 at random."""
    space, other = load(SPACES["matmul-1024"]), load(SPACES["matmul-512"])
    alone, primed = Contender("guided", prior=False), Contender("guided", prior=False, prime=("matmul-512",))
    first = [
        [replay_run(space, c, seed, 8, 8, known).best[-1] for seed in range(6)]
        for c, known in ((alone, ()), (primed, (other,)))
    ]
    assert np.median(first[1]) < 0.9 * np.median(first[0]), first


def test_a_run_with_the_analytical_model_as_prior_begins_better():
    """Four trials that it chose are better than sixteen spread over the space."""
    space = load(SPACES["matmul-1024"])
    alone, prior = (
        [replay_run(space, Contender("guided", prior=given), seed, 16, 16).best for seed in range(4)]
        for given in (False, True)
    )
    assert np.median([best[3] for best in prior]) < np.median([best[15] for best in alone])
