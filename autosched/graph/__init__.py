"""Whole models: a graph of te tensors, made from ONNX, cut into kernels, compiled to one function.

    model = autosched.graph.load("model.onnx")
    compiled = model.compile("llvm")
    outputs = compiled.run({"data": image})

A model is a te program with names for its inputs and outputs and with the values of its weights. No operator of a
network is known below `graph/onnx`: what may be fused, folded or computed in place is read off the te bodies.
"""

from __future__ import annotations

from autosched.graph.compiled import CompiledModel
from autosched.graph.loaded import Model, load
from autosched.graph.model import Graph
from autosched.graph.running import Executable
from autosched.graph.tuning import TunedModel

__all__ = ["CompiledModel", "Executable", "Graph", "Model", "TunedModel", "load"]
