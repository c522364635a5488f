"""The interface of `onnx.backend`, through which the official suite and its scoreboard run models.

from onnx.backend.test import BackendTest
from autosched.graph.backend import Backend
globals().update(BackendTest(Backend, __name__).test_cases)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx.backend import base

from autosched.errors import ModelError
from autosched.graph.loaded import Model, load


class Prepared(base.BackendRep):
    """A model that was read. It is compiled when it runs, for the shapes of its inputs."""

    def __init__(self, model: Model, effort: str = "none") -> None:
        self.model, self.effort = model, effort

    def run(self, inputs: Sequence[Any], **kwargs: Any) -> tuple[Any, ...]:
        """The outputs in order, for arrays in the order of the inputs."""
        names = self.model.input_names
        if len(inputs) > len(names):
            raise ModelError(f"{len(inputs)} inputs are given", asked=f"run {self.model.name}", legal=", ".join(names))
        given = dict(zip(names, inputs, strict=False))
        return tuple(self.model.run(given, effort=self.effort).values())


class Backend(base.Backend):
    """Models compiled for this CPU."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether everything in the model can be read."""
        try:
            load(model).graph()
        except ModelError as error:
            return type(error) is not ModelError  # one whose shapes depend on values needs these first
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        """Read a model. Raises ModelError."""
        return Prepared(load(model))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"
