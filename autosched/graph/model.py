"""A graph: a te program with names, and the values of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.te.tensor import Tensor

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Step:
    """One node of the model that was read: its kind, its name, and its results by name."""

    kind: str
    name: str
    outputs: dict[str, Any]


@dataclass(frozen=True)
class Graph:
    """What a model computes.

    inputs:    name -> placeholder, in the order of the model
    outputs:   name -> tensor; a placeholder where an output is an input or a constant
    constants: placeholder -> its value: the weights, and what was computed from constants alone
    steps:     the nodes in order, for messages, profiles and comparing intermediates
    """

    name: str
    inputs: dict[str, Tensor]
    outputs: dict[str, Any]
    constants: dict[Tensor, Array]
    steps: Sequence[Step] = field(default=(), repr=False)
