"""Expressions evaluated for many assignments at once.

Features and constraints are expressions over knobs and sizes; a batch of candidates is one NumPy
array for each knob. Integers are evaluated in int64, so a product that would leave int64 is
evaluated in float64 by `evaluate_float`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosched.errors import LowerError
from autosched.ir.expr import OPS, Expr
from autosched.ir.ops import ON_WHOLE_FLOATS
from autosched.ir.visit import post_order


def evaluate(roots: Sequence[Expr], env: dict[Expr, Any]) -> list[np.ndarray]:
    """The value of each root, broadcast over the arrays in `env`. Raises LowerError for a variable without one."""
    return Plan(roots, np.int64).evaluate(env)


def evaluate_float(roots: Sequence[Expr], env: dict[Expr, Any]) -> list[np.ndarray]:
    """As `evaluate`, in float64: for quantities whose size matters more than their last digit."""
    return Plan(roots, np.float64).evaluate(env)


class Plan:
    """Expressions in the order of evaluation, worked out once for many batches.

    `number` is the type that integers are evaluated in. Raises LowerError for what cannot be evaluated.
    """

    def __init__(self, roots: Sequence[Expr], number: type) -> None:
        self.number = number
        order = post_order(list(roots))
        at = {e: i for i, e in enumerate(order)}
        self._roots = [at[r] for r in roots]
        self._variables = [(at[e], e) for e in order if e.op == "var"]
        constants = [e for e in order if e.op == "const"]
        reals = {e for e in constants if e.dtype.is_bool or e.dtype.is_float}  # 0.5 is no integer
        self._constants = [(at[e], np.asarray(e.value) if e in reals else number(e.value)) for e in constants]
        steps = [(at[e], e) for e in order if e.op not in ("var", "const")]
        self._steps = [(i, self._function(e), tuple(at[a] for a in e.args)) for i, e in steps]
        self._length = len(order)

    @property
    def variables(self) -> list[Expr]:
        """What has to have a value."""
        return [v for _, v in self._variables]

    def evaluate(self, env: dict[Expr, Any]) -> list[np.ndarray]:
        """As the function of that name."""
        done: list[Any] = [None] * self._length
        for i, v in self._variables:
            if v not in env:
                raise LowerError(f"{v.name} has no value", asked="evaluate")
            done[i] = np.asarray(env[v], dtype=self.number)
        for i, value in self._constants:
            done[i] = value
        with np.errstate(all="ignore"):
            for i, function, args in self._steps:
                done[i] = function(*[done[a] for a in args])
        return [np.asarray(done[r]) for r in self._roots]

    def _function(self, e: Expr) -> Callable[..., Any]:
        if e.op in ("cast", "likely", "broadcast"):
            is_number = e.op == "cast" and e.args[0].dtype.is_bool  # True + True is True in NumPy
            return (lambda x: np.asarray(x, dtype=self.number)) if is_number else lambda x: x
        if e.op in ON_WHOLE_FLOATS and self.number is np.float64:
            return ON_WHOLE_FLOATS[e.op]
        function = OPS[e.op].numpy
        if function is None:
            raise LowerError(f"{e!r} cannot be evaluated over knobs", asked="evaluate")
        return function
