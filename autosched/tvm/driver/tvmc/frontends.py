"""`tvmc.load`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from autosched.errors import ModelError
from autosched.graph.loaded import load
from autosched.tvm.driver.tvmc.model import TVMCModel
from autosched.tvm.relay.frontend import RelayModule

#: the formats that tvmc read, and the programs that make ONNX of theirs
_TO_ONNX = {
    "keras": "python -m tf2onnx.convert", "pb": "python -m tf2onnx.convert", "tflite": "python -m tf2onnx.convert",
    "pytorch": "torch.onnx.export", "paddle": "paddle2onnx", "coreml": "coremltools", "relay": "an ONNX model",
}  # fmt: skip


def load_model(
    path: str | os.PathLike[str],
    model_format: str | None = None,
    shape_dict: Mapping[str, Sequence[int]] | None = None,
    **kwargs: Any,
) -> TVMCModel:
    """The model of an ONNX file.

    shape_dict: shapes by name of input, where the file leaves them open

    Raises ModelError for another format, or a file that is no model; FileError.
    """
    if model_format not in (None, "onnx"):
        legal = f"onnx, written by {_TO_ONNX.get(model_format or '', 'the framework')}"
        raise ModelError(f"{model_format!r} is not read", asked=f"tvmc.load({os.fspath(path)!r})", legal=legal)
    if kwargs:
        asked = f"tvmc.load(.., {', '.join(kwargs)})"
        raise ModelError("there are no such options", asked=asked, legal="path, model_format, shape_dict")
    return TVMCModel(RelayModule(load(path, shapes=dict(shape_dict or {}))), model_path=os.fspath(path))
