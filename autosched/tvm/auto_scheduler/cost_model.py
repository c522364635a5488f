"""Names of Ansor's cost models, for models of this package."""

from __future__ import annotations

from typing import Any

from autosched.errors import UsageError


class RandomModel:
    """Rates every candidate alike: `model="random"`."""

    name = "random"
    logs: tuple[str, ...] = ()


class XGBModel:
    """Boosted trees, trained while tuning: `model="xgb"`.

    `verbose_eval`, `num_warmup_sample`, `seed` and `adaptive_training` change nothing. Raises UsageError for a
    `model_file`.
    """

    name = "xgb"

    def __init__(
        self,
        verbose_eval: int = 25,
        num_warmup_sample: int = 100,
        seed: int | None = None,
        model_file: str | None = None,
        adaptive_training: bool = False,
    ) -> None:
        _no_file("XGBModel(model_file=..)", model_file)
        self.logs: list[str] = []

    def load(self, file_name: str) -> None:
        """Raise UsageError: models are trained anew, from records."""
        _no_file("XGBModel.load", file_name)

    def update_from_file(self, file_name: str, n_lines: int | None = None) -> None:
        """Learn from a log: a policy with this model goes on from its records."""
        self.logs.append(str(file_name))


def _no_file(asked: str, file: Any) -> None:
    if file is not None:
        raise UsageError(
            "a model is trained anew, from records",
            asked=asked,
            legal="SketchPolicy(.., init_search_callbacks=[PreloadMeasuredStates(log)])",
        )
