"""A compiled model as plain data: its kernels, the calls in order, and where each array lies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from autosched.codegen.artifact import Artifact
from autosched.codegen.signature import Param

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Place:
    """Where an argument of a kernel lies: in an input, output or weight of that number, or in the arena from that byte
    on."""

    kind: Literal["input", "output", "weight", "arena"]
    number: int


@dataclass(frozen=True)
class Call:
    """One run of a kernel, whose number is that in `Program.kernels`, with its arguments in calling order."""

    kernel: int
    places: tuple[Place, ...]
    #: the nodes of the model that it computes, for profiles
    name: str = ""


@dataclass(frozen=True)
class Program:
    """What runs a model: all shapes are numbers.

    inputs, outputs: the arrays of a call, in order
    weights:         arrays that are the same in each run
    kernels:         compiled functions, for one target
    arena:           bytes for what lives between two calls
    """

    name: str
    inputs: tuple[Param, ...]
    outputs: tuple[Param, ...]
    weights: tuple[Array, ...] = field(repr=False)
    kernels: tuple[Artifact, ...] = field(repr=False)
    calls: tuple[Call, ...] = field(repr=False)
    arena: int
