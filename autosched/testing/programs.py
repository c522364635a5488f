"""Random tensor programs: small op graphs over awkward shapes, whose results are exact.

A program has one to four stages taken from `kinds.KINDS`: element-wise arithmetic, clamped and padded
stencils, reductions, transposes, reshapes, gathers, several outputs at once. Shapes are constants or
symbolic sizes, and their lengths 1, primes and powers of two plus or minus one, so that nothing
divides anything; some programs have mostly dimensions of one element, and some have empty tensors.
Inputs are small integers and float values stay far below those at which floats lose integers, so
every order of evaluation gives the same bits, and results can be compared with `==`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from autosched.ir.expr import variables
from autosched.te.extern import ExternOp
from autosched.te.tensor import ComputeOp, Graph, PlaceholderOp, Tensor
from autosched.testing.kinds import KINDS
from autosched.testing.maker import LENGTHS, SPECIAL, Maker, length_of


@dataclass(frozen=True)
class RandomProgram:
    """The arguments of a computation, and the values of its symbolic sizes."""

    args: tuple[Tensor, ...]
    sizes: dict[str, int]

    def inputs(self, seed: int = 0) -> list[np.ndarray]:
        """An array of small integers for each input, in the order of `args`."""
        draw = np.random.default_rng(seed)
        arrays = []
        for t in self.args:
            if isinstance(t.op, PlaceholderOp):
                shape = [length_of(d, self.sizes) for d in t.shape]
                low, high = (0, 1) if t.dtype.is_bool else (0, 4) if t.dtype.kind == "uint" else (-4, 4)
                array = draw.integers(low, high, shape, endpoint=True).astype(t.dtype.numpy)
                if t.name.startswith(SPECIAL):
                    replaced = draw.random(shape) < 0.5
                    array = np.where(replaced, draw.choice(np.array(_SPECIAL_VALUES, array.dtype), shape), array)
                arrays.append(array)
        return arrays

    def describe(self) -> str:
        """One line for each stage: its name, shape and expression."""
        lines = [", ".join(f"{k}={v}" for k, v in self.sizes.items())]
        for op in Graph.of(self.args).ops:
            body = f" = {', '.join(map(repr, op.body))}" if isinstance(op, ComputeOp | ExternOp) else ""
            body += f", {op.attrs.get('reference')}" if isinstance(op, ExternOp) else ""
            lines.append(f"{op.name}[{', '.join(map(repr, op.shape))}]: {op.dtype}{body}")
        return "\n".join(line for line in lines if line)


_SPECIAL_VALUES = (np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -0.5, 2.5, 300.0, -40_000.0)

#: Lengths of a program's dimensions; the long ones leave several tiles between their first and their last.
_STYLES = (*(LENGTHS,) * 7, (1, 2, 3, 5, 33, 50, 66, 130), (1, 1, 2, 7), (0, 1, 3, 5, 8))


def random_program(rng: random.Random, symbolic: bool = True, gpu: bool = False) -> RandomProgram:
    """A computation of one to four stages; `symbolic` allows sizes that are known at run time only, and `gpu` asks
    for statements that a GPU-style target takes."""
    m = Maker(rng, symbolic, rng.choice(_STYLES), gpu=gpu)
    m.new_input()
    wanted = rng.choice((1, 2, 3, 3, 4, 4))
    while len(m.stages) < wanted:
        rng.choice(KINDS)(m)
    outputs = [m.stages[-1]]
    if len(m.stages) > 1 and rng.random() < 0.25:
        outputs += rng.sample(m.stages[:-1], min(rng.choice((1, 1, 2)), len(m.stages) - 1))
    needed = set(Graph.of(outputs).ops)
    inputs = [t for t in m.inputs if t.op in needed]
    known = {d for t in inputs for d in t.shape}
    lost = [v for op in needed for d in op.shape for v in variables(d) if v not in known]
    if lost:  # a size that no input shows: another program
        return random_program(rng, symbolic, gpu)
    args = [*inputs, *outputs]
    used = {v.name for t in args for d in t.shape for v in variables(d)}
    return RandomProgram(tuple(args), {k: v for k, v in m.sizes.items() if k in used})
