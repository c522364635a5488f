"""A graph: a te program with names, and the values of its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    outputs: dict[str, Tensor]


@dataclass(frozen=True)
class Graph:
    """What a model computes.

    inputs:    name -> placeholder, in the order of the model
    outputs:   name -> tensor, a list of tensors for a sequence, None for an optional that holds nothing; a placeholder
               where an output is an input or a constant
    constants: placeholder -> its value: the weights, and what was computed from constants alone
    steps:     the nodes in order, for messages, profiles and comparing intermediates
    layouts:   the tensors of steps whose axes are kept in another order than the model says, and that order
    small:     name of an output -> its type, where kernels carry its values in a wider one: see `graph.small`
    """

    name: str
    inputs: dict[str, Tensor]
    outputs: dict[str, Any]
    constants: dict[Tensor, Array]
    steps: Sequence[Step] = field(default=(), repr=False)
    layouts: dict[Tensor, tuple[int, ...]] = field(default_factory=dict, repr=False)
    small: dict[str, np.dtype[Any]] = field(default_factory=dict, repr=False)


def tensors_of(v: Any) -> list[Tensor]:
    """The tensors of a value: of a sequence, all; of an optional that holds nothing, none."""
    if isinstance(v, list):
        return [t for x in v for t in tensors_of(x)]
    return [] if v is None else [v]


def restored(v: Any, values: Mapping[Tensor, Any]) -> Any:
    """A value with what `values` has in place of its tensors."""
    if isinstance(v, list):
        return [restored(x, values) for x in v]
    return None if v is None else values[v]
