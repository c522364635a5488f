"""Cost models: which candidates are worth measuring, judged by their features.

Nothing here imports XGBoost or scikit-learn before a model is fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from autosched.model.protocol import CostModel, ModelFactory, PrimedCostModel, UncertainCostModel
from autosched.plugins import PluginKind, construct, plugin_names

__all__ = ["MODELS", "CostModel", "ModelFactory", "PrimedCostModel", "UncertainCostModel", "make_model", "model_names"]

#: name -> "module:class", imported when asked for
MODELS: dict[str, str] = {
    "xgb": "autosched.model.xgb:XGBCostModel",
    "xgb-rank": "autosched.model.xgb:XGBRankCostModel",
    "sklearn": "autosched.model.histgb:HistGBCostModel",
    "random": "autosched.model.random:RandomCostModel",
    "none": "autosched.model.random:no_model",
}

KIND = PluginKind("cost model", "autosched.cost_models", MODELS, ("fit", "predict"))


def make_model(
    name: str, feature_names: Sequence[str], *, seed: int = 0, threads: int = 1, **options: Any
) -> CostModel | None:
    """A new cost model for features of these names; None for the name "none".

    `name` is a key of `MODELS`, an entry point of the group `autosched.cost_models`, or
    `path/to/file.py:ClassName`. Raises UsageError for an unknown name or option, or a plug-in
    that cannot be loaded.
    """
    model = construct(KIND, name, feature_names, seed=seed, threads=threads, options=options)
    return cast("CostModel | None", model)


def model_names() -> dict[str, str]:
    """All names for `make_model` that need no path -> where each comes from."""
    return plugin_names(KIND)
