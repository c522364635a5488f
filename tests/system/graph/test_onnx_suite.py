"""A fixed part of the official ONNX suite, compiled: every thirtieth case. `experiments/onnxscore.py` runs all."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx.backend.test.loader import load_model_tests  # noqa: E402
from onnx.backend.test.runner import Runner  # noqa: E402

from autosched.errors import ModelError  # noqa: E402
from autosched.graph.backend import Backend  # noqa: E402

EVERY = 30
#: what the part has that is refused: operators on texts, what is drawn by chance, images in files
REFUSED = ("string", "str", "regex", "tfidf", "label_encoder", "image_decoder", "random", "bernoulli", "ai_onnx_ml")


@cache
def cases() -> list[Any]:
    return sorted(load_model_tests(kind="node"), key=lambda c: c.name)[::EVERY]


@pytest.mark.parametrize("k", range(60))
def test_the_suite(k: int) -> None:
    case = cases()[k]
    try:
        prepared = Backend.prepare(case.model)
        for inputs, expected in case.data_sets:
            found = prepared.run([_array(x) for x in inputs])
            Runner.assert_similar_outputs([_array(x) for x in expected], list(found), case.rtol, case.atol)
    except ModelError:
        if not any(word in case.name for word in REFUSED):
            raise


def _array(x: Any) -> Any:
    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def test_the_suite_has_as_many_cases_as_are_run() -> None:
    assert len(cases()) >= 60
    assert all(isinstance(x, (np.ndarray, onnx.TensorProto, list)) for x in cases()[0].data_sets[0][0])
