"""Strategies by name, from entry points and from files; and what is said when that fails."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autosched import model, search
from autosched.cli.app import make_parser
from autosched.errors import UsageError
from autosched.model import make_model
from autosched.plugins import plugin_names
from autosched.search import DEFAULT, STRATEGIES, Candidate, make_strategy
from autosched.search.baselines import GridSearch
from autosched.search.guard import GuardedStrategy
from autosched.testing import SyntheticSpace

SPACE = SyntheticSpace.small()

PLUGIN = """
from autosched.search.baselines import GridSearch

class Mine(GridSearch):
    def __init__(self, space, *, seed=0, model=None, depth=3):
        super().__init__(space)
        self.depth = depth

class NotOne:
    def propose(self, n):
        return []

class Picky:
    def __init__(self, space, *, seed, model):
        raise RuntimeError("the moon is wrong")
    def propose(self, n): ...
    def observe(self, trials): ...
"""


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "plugin.py"
    path.write_text(PLUGIN)
    return path


def message(name, **options):
    with pytest.raises(UsageError) as caught:
        make_strategy(name, SPACE, **options)
    return str(caught.value)


@pytest.mark.parametrize("name", STRATEGIES)
def test_built_in_names(name):
    assert make_strategy(name, SPACE, seed=1).propose(4)
    assert plugin_names(search.KIND)[name] == "built in"


def test_the_default_is_a_name():
    assert DEFAULT in STRATEGIES
    assert make_parser("tune").parse_args(["tune", "box_blur"]).strategy == DEFAULT


def test_an_unknown_name_lists_the_known_ones():
    assert message("gided") == (
        "strategy 'gided': no such strategy\n"
        "  did you mean 'guided' or 'grid'? there are: bandit, guided, annealing, genetic, evolutionary, droplet, random, grid, "
        "tpe, cmaes, qmc; "
        "or a class in a file, path/to/file.py:ClassName"
    )


def test_an_unknown_option_lists_the_known_ones():
    assert message("guided", pol=3) == (
        "strategy 'guided': it has no option 'pol'\n"
        "  did you mean 'pool'? its options: initial, batch, pool, parents, random_share, explore"
    )
    assert message("grid", depth=3) == "strategy 'grid': it has no option 'depth'\n  it has no options"


def test_an_option_of_another_kind_says_what_is_taken():
    assert message("guided", pool="x") == "strategy 'guided': its option pool is 'x'\n  a number, by default 1024"
    assert message("bandit", arms=3) == "strategy 'bandit': its option arms is 3\n  a text"


def test_a_class_in_a_file(plugin):
    strategy = make_strategy(f"{plugin}:Mine", SPACE, depth=5)
    assert isinstance(strategy, GuardedStrategy) and strategy.strategy.depth == 5
    assert strategy.propose(4) == GridSearch(SPACE).propose(4)


def test_two_files_of_one_name_are_two_plugins(plugin, tmp_path):
    other = tmp_path / "elsewhere" / "plugin.py"
    other.parent.mkdir()
    other.write_text(PLUGIN.replace("depth=3", "depth=4"))
    depths = [make_strategy(f"{path}:Mine", SPACE).strategy.depth for path in (plugin, other)]
    assert depths == [3, 4]


def test_faults_of_files_name_the_file(plugin, tmp_path):
    assert "there is no file" in message(f"{tmp_path}/gone.py:Mine")
    assert message(f"{plugin}:Nine").endswith("plugin.py has no Nine\n  there: Mine, NotOne, Picky")
    assert f"write {plugin}:ClassName" in message(str(plugin))
    assert "it lacks observe" in message(f"{plugin}:NotOne")
    assert "its constructor raised RuntimeError: the moon is wrong" in message(f"{plugin}:Picky")
    assert "it has no option 'dept'\n  did you mean 'depth'?" in message(f"{plugin}:Mine", dept=1)
    plugin.write_text("import a_module_that_is_missing")
    text = message(f"{plugin}:Mine")
    assert str(plugin) in text and "ModuleNotFoundError" in text and "a_module_that_is_missing" in text
    plugin.write_text("def (")
    assert "SyntaxError" in message(f"{plugin}:Mine")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package that is installed, as far as importlib.metadata can tell."""
    (tmp_path / "acme_search.py").write_text(PLUGIN)
    info = tmp_path / "acme_search-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-search\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[autosched.strategies]\n"
        "climbing = acme_search:Mine\n"
        "grid = acme_search:Mine\n"
        "broken = acme_search:Gone\n"
        "[autosched.cost_models]\n"
        "oracle = acme_search:Mine\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("acme_search", None)


@pytest.mark.usefixtures("installed")
def test_entry_points():
    strategy = make_strategy("climbing", SPACE, depth=9)
    assert isinstance(strategy, GuardedStrategy) and strategy.strategy.depth == 9
    assert plugin_names(search.KIND)["climbing"] == "plug-in of acme-search"
    assert plugin_names(search.KIND)["grid"] == "built in" and isinstance(make_strategy("grid", SPACE), GridSearch)
    assert "climbing (plug-in of acme-search)" in message("clibing")
    assert plugin_names(model.KIND)["oracle"] == "plug-in of acme-search"
    with pytest.raises(UsageError, match="it lacks fit, predict"):
        make_model("oracle", SPACE.feature_names)


@pytest.mark.usefixtures("installed")
def test_a_broken_entry_point_is_named():
    text = message("broken")
    assert "strategy 'broken': the plug-in acme_search:Gone of acme-search cannot be loaded: AttributeError" in text


class _Faulty:
    def __init__(self, batches):
        self.batches = batches

    def propose(self, n):
        return self.batches.pop(0)

    def observe(self, trials): ...


GOOD, INFEASIBLE = SPACE.points()[0], SPACE.points(feasible=False)[0]


@pytest.mark.parametrize(
    ("batch", "fault"),
    [
        ([INFEASIBLE], "infeasible"),
        ([GOOD, GOOD], "proposed or observed before"),
        ([SPACE.points()[3]], "proposed or observed before"),
        ([Candidate(0, (9, 9, 9))], "not a point of the space"),
        ([(0, (0, 0, 0))], "not a Candidate"),
        ([Candidate(0, (0.0, 0, 0))], "not a Candidate"),
        ([Candidate(0, None)], "not a Candidate"),
        (SPACE.points()[:3], "more than asked for"),
    ],
)
def test_what_must_not_be_proposed_is_dropped_and_told(batch, fault):
    guarded = GuardedStrategy("mine.py:Mine", _Faulty([batch, [SPACE.points()[7]]]), SPACE)
    guarded._points.mark([SPACE.points()[3]])
    found = guarded.propose(2)
    assert found and all(map(SPACE.is_feasible, found)) and len(set(found)) == len(found) <= 2
    assert guarded.dropped == {fault: 1}
    (text,) = guarded.messages
    assert text.startswith("strategy 'mine.py:Mine': propose(2) gave ") and f": {fault}; " in text
    assert "check_strategy" in text
    assert guarded.summary() == f"strategy 'mine.py:Mine': 1 proposals were dropped: 1 {fault}"


def test_proposals_without_end_are_cut_off():
    guarded = GuardedStrategy("mine", _Faulty([itertools.cycle([SPACE.points()[0]])] * 3), SPACE)
    assert guarded.propose(2) == [SPACE.points()[0]]
    assert guarded.dropped["proposed or observed before"] < 10_000


@pytest.mark.parametrize("returned", [None, 5, SPACE.points()[0]])
def test_what_is_no_list_of_candidates_is_told(returned):
    guarded = GuardedStrategy("mine", _Faulty([returned]), SPACE)
    assert len(guarded.propose(2)) == 2
    assert "propose returned " in guarded.raised and "no list of candidates" in guarded.raised


MODEL = """
class Mine:
    def __init__(self, feature_names, *, seed=0, threads=1):
        {body}
    def fit(self, features, seconds, groups): ...
    def predict(self, features): ...
    {ready}
"""


@pytest.mark.parametrize(
    ("body", "ready", "why"),
    [
        ("pass", "ready = False", "it is not a cost model: it lacks feature_names"),
        ("self.feature_names = feature_names", "", "it is not a cost model: it lacks ready"),
        (
            "self.feature_names = feature_names",
            "ready = property(lambda self: 1 / 0)",
            "its attribute ready raised Zero",
        ),
    ],
)
def test_a_cost_model_without_its_attributes_is_named(tmp_path, body, ready, why):
    path = tmp_path / "model.py"
    path.write_text(MODEL.format(body=body, ready=ready))
    with pytest.raises(UsageError, match=why):
        make_model(f"{path}:Mine", SPACE.feature_names)


def test_random_points_take_the_place_of_nothing():
    guarded = GuardedStrategy("mine", _Faulty([[], [], [SPACE.points()[0]]]), SPACE)
    first, second = guarded.propose(4), guarded.propose(4)
    assert len({*first, *second}) == 8
    (text,) = guarded.messages  # once, not each time
    assert "propose(4) gave nothing of use although points are left" in text
    everything = GuardedStrategy("mine", _Faulty([[]] * 99), SPACE)
    assert {c for _ in range(20) for c in everything.propose(5)} == set(SPACE.points())
    exhausted = GuardedStrategy("mine", GridSearch(SPACE), SPACE)
    while exhausted.propose(50):
        pass
    assert exhausted.messages == []  # that nothing is left is no fault


@pytest.mark.parametrize("method", ["propose", "observe"])
def test_a_strategy_that_raises_is_not_asked_again(plugin, method):
    """The message names its file and line, not ours."""
    line = PLUGIN.count("\n") + 3
    body = f"class Bad(GridSearch):\n    def {method}(self, argument):\n        return self.gone\n"
    plugin.write_text(PLUGIN + body)
    guarded = make_strategy(f"{plugin}:Bad", SPACE)
    first = guarded.propose(4)
    guarded.observe(SPACE.measure(first))
    rest = [c for _ in range(30) for c in guarded.propose(4)]
    assert set(first) | set(rest) == set(SPACE.points()) and len(first) + len(rest) == len(SPACE.points())
    (text,) = guarded.messages
    assert f"{method} raised AttributeError: 'Bad' object has no attribute 'gone' ({plugin}:{line})" in text
    assert "the rest of the run is random" in text


def test_the_guard_turns_numpy_integers_into_plain_ones():
    (given,) = GuardedStrategy("mine", _Faulty([[Candidate(0, tuple(np.array(GOOD.indices)))]]), SPACE).propose(1)
    assert given == GOOD
    assert all(type(i) is int for i in given.indices)


def test_nothing_heavy_is_imported_before_it_is_needed():
    """XGBoost and scikit-learn take seconds to import; `--help` must not wait for them."""
    code = (
        "import sys, autosched.search, autosched.model, autosched.testing\n"
        "from autosched.testing import SyntheticSpace\n"
        "space = SyntheticSpace.small()\n"
        "model = autosched.model.make_model('xgb', space.feature_names)\n"
        "strategy = autosched.search.make_strategy('guided', space, model=model)\n"
        "strategy.observe(space.measure(strategy.propose(8)))\n"
        "heavy = {'xgboost', 'sklearn', 'scipy', 'pandas', 'optuna', 'pytest'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
