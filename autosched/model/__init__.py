"""Cost models: which candidates are worth measuring, judged by their features.

Nothing here imports XGBoost or scikit-learn before a model is fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from autosched.errors import expect
from autosched.model.analytical import AnalyticalModel, prior_for
from autosched.model.protocol import CostModel, FloatArray, IntArray, ModelFactory, PrimedCostModel, UncertainCostModel
from autosched.plugins import PluginKind, construct

__all__ = [
    "MODELS",
    "AnalyticalModel",
    "CostModel",
    "FloatArray",
    "IntArray",
    "ModelFactory",
    "PrimedCostModel",
    "UncertainCostModel",
    "make_model",
    "prior_for",
]

#: name -> "module:class", imported when asked for
MODELS: dict[str, str] = {
    "xgb": "autosched.model.trees:XGBCostModel",
    "xgb-rank": "autosched.model.trees:XGBRankCostModel",
    "sklearn": "autosched.model.trees:HistGBCostModel",
    "analytical": "autosched.model.analytical:AnalyticalModel",
    "random": "autosched.model.untrained:RandomCostModel",
    "none": "autosched.model.untrained:no_model",
}

#: Those that a prior helps.
LEARNT = ("xgb", "xgb-rank", "sklearn")

KIND = PluginKind(
    "cost model", "autosched.cost_models", MODELS, ("fit", "predict"), attributes=("feature_names", "ready")
)


def make_model(
    name: str,
    feature_names: Sequence[str],
    *,
    seed: int = 0,
    threads: int = 1,
    prior: AnalyticalModel | None = None,
    **options: Any,
) -> CostModel | None:
    """A new cost model for features of these names; None for the name "none".

    `name` is a key of `MODELS`, an entry point of the group `autosched.cost_models`, or
    `path/to/file.py:ClassName`. With a `prior`, a model of boosted trees is ready at once, and learns where that is
    wrong; other models go without. "analytical" is the prior itself. Raises UsageError for an unknown name or
    option, or a plug-in that cannot be loaded.
    """
    expect(name, "the name of a model", isinstance(name, str), f"model={name!r:.40}")
    if prior is not None and name == "analytical":
        return prior
    if prior is not None and name in LEARNT:
        from autosched.model.prior import PREDICTED_RATE, ModelWithPrior

        wider = (*feature_names, PREDICTED_RATE)
        return ModelWithPrior(construct(KIND, name, wider, seed=seed, threads=threads, options=options), prior)
    model = construct(KIND, name, feature_names, seed=seed, threads=threads, options=options)
    return cast("CostModel | None", model)
