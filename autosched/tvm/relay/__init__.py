"""`tvm.relay`: models of ONNX, compiled. Operators of Relay's own language are not here: write the model in ONNX."""

from __future__ import annotations

from autosched.tvm._missing import missing
from autosched.tvm.relay import backend as backend
from autosched.tvm.relay import build_module as build_module
from autosched.tvm.relay import frontend as frontend
from autosched.tvm.relay import random as random
from autosched.tvm.relay.build_module import build as build
from autosched.tvm.relay.build_module import create_executor as create_executor
from autosched.tvm.runtime import load_param_dict as load_param_dict
from autosched.tvm.runtime import save_param_dict as save_param_dict

_OPERATORS = "a model in ONNX (relay.frontend.from_onnx); te and topi for single operators"
_PASSES = "nothing: relay.build runs the passes of models (docs/models.md)"
_INSTEAD = {
    **dict.fromkeys(("transform", "analysis", "quantize", "optimize"), _PASSES),
    **dict.fromkeys(
        "var const Var Constant Call Function TensorType nn op image vision Let If Tuple".split(), _OPERATORS
    ),
    **dict.fromkeys(("testing",), "a model in ONNX, such as those of the ONNX model zoo"),
    "vm": "relay.build",
}
__getattr__ = missing("relay", globals(), _INSTEAD)
