"""Search strategies: which candidates to measure next.

A strategy is found by name: one of ours, an entry point of the group `autosched.strategies`, a
class in a file, `path/to/file.py:ClassName`, or a sampler of Optuna, `optuna:GPSampler`. Nothing is
imported before it is asked for.
"""

from __future__ import annotations

from typing import Any, cast

from autosched.errors import check_seed, expect
from autosched.model.protocol import CostModel
from autosched.plugins import PluginKind, construct
from autosched.search.guard import GuardedStrategy
from autosched.search.protocol import (
    Candidate,
    KnobLike,
    SearchStrategy,
    SketchLike,
    SpaceLike,
    StrategyFactory,
    Trial,
    values_of,
)

__all__ = [
    "DEFAULT",
    "STRATEGIES",
    "Candidate",
    "KnobLike",
    "SearchStrategy",
    "SketchLike",
    "SpaceLike",
    "StrategyFactory",
    "Trial",
    "make_strategy",
    "values_of",
]

#: name -> "module:class", imported when asked for
STRATEGIES: dict[str, str] = {
    "bandit": "autosched.search.bandit:BanditSearch",
    "guided": "autosched.search.guided:GuidedSearch",
    "annealing": "autosched.search.annealing:AnnealingSearch",
    "genetic": "autosched.search.genetic:GeneticSearch",
    "evolutionary": "autosched.search.evolutionary:EvolutionarySearch",
    "droplet": "autosched.search.droplet:DropletSearch",
    "random": "autosched.search.baselines:RandomSearch",
    "grid": "autosched.search.baselines:GridSearch",
    "tpe": "autosched.search.optuna_samplers:OptunaSearch",
    "cmaes": "autosched.search.optuna_samplers:CMAESSearch",
    "qmc": "autosched.search.optuna_samplers:QMCSearch",
}

DEFAULT = "bandit"

#: Before the name of any sampler of Optuna, as in "optuna:GPSampler"
OPTUNA = "optuna:"

KIND = PluginKind("strategy", "autosched.strategies", STRATEGIES, ("propose", "observe"))


def make_strategy(
    name: str, space: SpaceLike, *, seed: int = 0, model: CostModel | None = None, **options: Any
) -> SearchStrategy:
    """A new strategy for this space.

    `name` is a key of `STRATEGIES`, an entry point, `path/to/file.py:ClassName`, or `optuna:` and a
    class of `optuna.samplers`. A strategy that is not ours is watched: its faults are told
    with its name, and random points take the place of what it should have proposed.

    Raises UsageError for an unknown name (with near ones and the list), an unknown option, and a
    plug-in that cannot be loaded or constructed.
    """
    expect(name, "the name of a strategy", isinstance(name, str), f"strategy={name!r:.40}")
    check_seed(seed)
    if name.startswith(OPTUNA):
        name, options = "tpe", {"sampler": name.removeprefix(OPTUNA), **options}
    made = construct(KIND, name, space, seed=seed, model=model, options=options)
    if name in KIND.builtins:
        return cast(SearchStrategy, made)
    return GuardedStrategy(name, made, space, seed=seed)
