"""`Maker`: a random program in the making, with tensors to read, dimensions to use again, bounds of values."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autosched import te
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, as_expr, const, variables
from autosched.te.tensor import OfAny, OfSome, Tensor

#: Lengths of dimensions: 1, primes, powers of two and their neighbours.
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17)
#: Elements of a stage, at most, so that the interpreter is quick.
MAX_ELEMENTS = 700
#: Bounds of float values, by type: multiples of a half, and sums of a few, are exact.
MAX_FLOAT = {"bfloat16": 2.0**6, "float16": 2.0**9, "float32": 2.0**22, "float64": 2.0**22}
#: Beginning of the names of inputs with NaN, infinities and zeros of either sign among small numbers.
SPECIAL = "special"
_DTYPES = ("float32", "float32", "int32", "int32", "int16", "uint8", "uint16", "float64")


def clamp(index: object, extent: object) -> Expr:
    """An index moved inside a dimension."""
    return te.max(te.min(index, extent - 1), 0)  # type: ignore[operator]


def length_of(d: Expr, sizes: dict[str, int]) -> int:
    """A dimension's length, given those that are sizes."""
    return int(evaluate([d], {v: sizes[v.name] for v in variables(d)})[0])


@dataclass
class Maker:
    """The tensors so far, and a bound of the values of each.

    New dimensions have a length of `lengths_drawn`; where 0 is among them, tensors may be empty. With `gpu`, opaque
    stages bind loops to hardware axes instead of running them in parallel.
    """

    rng: random.Random
    symbolic: bool
    lengths_drawn: Sequence[int] = LENGTHS
    sizes: dict[str, int] = field(default_factory=dict)
    inputs: list[Tensor] = field(default_factory=list)
    stages: list[Tensor] = field(default_factory=list)
    bound: dict[Tensor, float] = field(default_factory=dict)
    dims: list[object] = field(default_factory=list)
    gpu: bool = False

    # -- shapes -----------------------------------------------------------------------------------
    def dim(self) -> object:
        """A dimension: one seen before, a new constant or a new symbolic size."""
        if self.dims and self.rng.random() < 0.3:
            return self.rng.choice(self.dims)
        length = self.rng.choice(self.lengths_drawn)
        made: object = length
        if self.symbolic and len(self.sizes) < 3 and self.rng.random() < 0.6:
            made = te.var("nmk"[len(self.sizes)], self.rng.choice(("int32", "int32", "int32", "int64")))
            self.sizes[made.name] = length
        self.dims.append(made)
        return made

    def lengths(self, shape: Sequence[object]) -> list[int]:
        return [length_of(as_expr(d), self.sizes) for d in shape]

    def fits(self, shape: Sequence[object]) -> bool:
        count = int(np.prod(self.lengths(shape), dtype=np.int64))
        return min(self.lengths_drawn) <= count <= MAX_ELEMENTS

    # -- tensors ----------------------------------------------------------------------------------
    def placeholder(self, shape: Sequence[object], of: str | None = None, special: bool = False) -> Tensor:
        name = f"{SPECIAL if special else 'in'}{len(self.inputs)}"
        made = te.placeholder(tuple(shape), of or self.rng.choice(_DTYPES), name)
        self.inputs.append(made)
        self.bound[made] = 2.0**64 if special else 4
        return made

    def new_input(self) -> Tensor:
        """A placeholder of one to three dimensions. Sizes stand alone in its shape, so it defines them."""
        for _ in range(20):
            shape = [self.dim() for _ in range(self.rng.choice((1, 2, 2, 2, 3)))]
            if self.fits(shape):
                return self.placeholder(shape)
        return self.placeholder([5])

    def pick(self, least_rank: int = 1) -> Tensor:
        """A tensor to read: usually the latest, sometimes an older one or a new input."""
        usable = [t for t in [*self.inputs, *self.stages] if t.ndim >= least_rank]
        roll = self.rng.random()
        if self.stages and self.stages[-1].ndim >= least_rank and roll < 0.75:
            return self.stages[-1]
        if usable and roll < 0.9:
            return self.rng.choice(usable)
        made = self.new_input()
        return made if made.ndim >= least_rank else self.placeholder([3, 5][: max(least_rank, 2)])

    def read(self, t: Tensor, indices: Sequence[object]) -> Expr:
        """An element, brought back into a small range where sums or products could grow too far."""
        element = t(*indices)
        if t.dtype.is_float and self.bound[t] > 64:
            return te.max(te.min(element, const(8, t.dtype)), const(-8, t.dtype))
        return element

    def size_of(self, t: Tensor) -> float:
        return min(self.bound[t], 8.0) if self.bound[t] > 64 else self.bound[t]

    def stage(self, shape: Sequence[object], body: OfAny, bound: float, is_cast: bool = False) -> Tensor | None:
        """A new stage, unless it has too many elements or its float arithmetic could round."""
        if not self.fits(shape):
            return None
        made = te.compute(tuple(shape), body, name=f"t{len(self.stages)}")
        if made.dtype.is_float and bound > MAX_FLOAT[str(made.dtype)] and not is_cast:
            return None
        self.stages.append(made)
        self.bound[made] = bound
        return made

    def together(self, shape: Sequence[object], body: OfSome, bounds: Sequence[float]) -> Tensor | None:
        """New stages that are computed together; the last one is returned."""
        if not self.fits(shape):
            return None
        made = te.compute(tuple(shape), body, name=f"t{len(self.stages)}")
        if any(t.dtype.is_float and bound > MAX_FLOAT[str(t.dtype)] for t, bound in zip(made, bounds)):
            return None
        for t, bound in self.rng.sample([*zip(made, bounds)], len(made)):
            self.stages.append(t)
            self.bound[t] = bound
        return self.stages[-1]
