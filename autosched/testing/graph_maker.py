"""Random ONNX graphs that grow node by node.

What a node computes is known at once, from the official reference evaluator: a node that it refuses, or whose values
are no numbers, too large or too many, is drawn again. Floats are `exact` until an operation rounds; what jumps
(rounding, comparisons, the place of a maximum) is drawn of exact tensors alone, where two right answers are the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: elements and magnitude of a tensor, at most
LARGEST, HIGHEST = 4096, 1e4
OPSET = 21


class Redraw(Exception):
    """There is no tensor for such a node, or its result is of no use."""


@dataclass
class Known:
    """A tensor of the graph: its name, its value, and whether no operation has rounded it."""

    name: str
    value: Array
    exact: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def ndim(self) -> int:
        return self.value.ndim

    @property
    def is_float(self) -> bool:
        return self.value.dtype == np.float32


class Draw:
    """A graph that grows by nodes that are drawn."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.known: list[Known] = []
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.inputs: dict[str, Array] = {}

    # -- chance -----------------------------------------------------------------------------------
    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def between(self, low: int, high: int) -> int:
        """From `low` to `high`, both among them."""
        return low + self.below(high - low + 1)

    def one(self, choices: Sequence[Any]) -> Any:
        if not len(choices):
            raise Redraw
        return choices[self.below(len(choices))]

    def chance(self, share: float = 0.5) -> bool:
        return bool(self.rng.random() < share)

    def numbers(self, *shape: int) -> Array:
        """Quarters from -2 to 2."""
        return (self.rng.integers(-8, 9, shape) / 4).astype(np.float32)

    # -- tensors ----------------------------------------------------------------------------------
    def constant(self, value: Array | np.generic) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def integers(self, values: Sequence[int]) -> str:
        return self.constant(np.array(values, np.int64))

    def tensor(self, fits: Callable[[Known], bool] = lambda t: True) -> Known:
        """One of those that fit; a later one more often. Raises Redraw where there is none."""
        found = [t for t in self.known if fits(t)]
        if not found:
            raise Redraw
        return found[max(self.below(len(found)), self.below(len(found)))]

    def floats(self, least: int = 0, most: int = 9, exact: bool = False) -> Known:
        return self.tensor(lambda t: t.is_float and least <= t.ndim <= most and (t.exact or not exact))

    def like(self, t: Known) -> str:
        """Something that may stand beside a tensor: another that broadcasts with it, or a constant."""

        def fits(other: Known) -> bool:
            if other.value.dtype != t.value.dtype:
                return False
            try:
                return bool(np.prod(np.broadcast_shapes(t.shape, other.shape)) <= LARGEST)
            except ValueError:
                return False

        if self.chance(0.7):
            other = self.tensor(fits)
            self.rough |= not other.exact
            return other.name
        shape = [d if self.chance(0.7) else 1 for d in t.shape][self.below(t.ndim + 1) :]
        return self.constant(self.numbers(*shape).astype(t.value.dtype))

    # -- nodes ------------------------------------------------------------------------------------
    def grow(self, kinds: Sequence[Callable[[Draw], None]], tries: int = 50) -> None:
        """Add a node, or none where chance finds none that fits."""
        for _ in range(tries):
            at = len(self.constants), len(self.nodes), len(self.known)
            self.rough = False
            try:
                self.one(kinds)(self)
            except Redraw:
                self.constants = dict([*self.constants.items()][: at[0]])
                del self.nodes[at[1] :], self.known[at[2] :]
            else:
                return

    def node(
        self, kind: str, *inputs: Known | str, outputs: int = 1, exact: bool = False, kept: int = 1, **attributes: Any
    ) -> list[Known]:
        """Add a node. With `exact` it does not round; `kept` is how many of its outputs may be used."""
        from onnx import helper

        names = [x.name if isinstance(x, Known) else x for x in inputs]
        rough = self.rough or any(isinstance(x, Known) and not x.exact for x in inputs)
        made = [f"t{len(self.nodes)}_{k}" if k else f"t{len(self.nodes)}" for k in range(outputs)]
        node = helper.make_node(kind, names, made, name=f"n{len(self.nodes)}", **attributes)
        values = evaluated(node, {n: self._value(n) for n in names if n})
        found = [Known(n, v, exact and not rough) for n, v in zip(made, values, strict=True)]
        for t in found:
            if not isinstance(t.value, np.ndarray) or not 0 < t.value.size <= LARGEST:
                raise Redraw
            if t.is_float and not np.abs(t.value).max() <= HIGHEST:
                raise Redraw
            t.exact |= not t.is_float and not rough
        self.nodes.append(node)
        self.known += found[:kept]
        return found

    def _value(self, name: str) -> Array:
        if name in self.constants:
            return self.constants[name]
        return next(t.value for t in self.known if t.name == name)


def evaluated(node: Any, values: dict[str, Array]) -> list[Any]:
    """The outputs of one node by the reference evaluator. Raises Redraw for a node that it refuses."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in values.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(n) for n in node.output]
    graph = helper.make_graph([node], "one", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found: Any = ReferenceEvaluator(model).run(None, values)
    except Exception:  # its refusals are of every type
        raise Redraw from None
    return [np.asarray(x) if isinstance(x, np.generic) else x for x in found]
