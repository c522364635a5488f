"""Expressions evaluated for many assignments at once.

Features and constraints are expressions over knobs and sizes; a batch of candidates is one NumPy
array for each knob. Integers are evaluated in int64, so a product that would leave int64 is
evaluated in float64 by `evaluate_float`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.errors import LowerError
from autosched.ir.expr import OPS, Expr
from autosched.ir.visit import post_order

__all__ = ["evaluate", "evaluate_float"]


def evaluate(roots: Sequence[Expr], env: dict[Expr, Any]) -> list[np.ndarray]:
    """The value of each root, broadcast over the arrays in `env`. Raises LowerError for a variable
    that has none."""
    return _evaluate(roots, env, np.int64)


def evaluate_float(roots: Sequence[Expr], env: dict[Expr, Any]) -> list[np.ndarray]:
    """As `evaluate`, in float64: for quantities whose size matters more than their last digit."""
    return _evaluate(roots, env, np.float64)


def _evaluate(roots: Sequence[Expr], env: dict[Expr, Any], number: type) -> list[np.ndarray]:
    done: dict[Expr, Any] = {v: np.asarray(x, dtype=number) for v, x in env.items()}
    with np.errstate(all="ignore"):
        for e in post_order(list(roots)):
            if e in done:
                continue
            if e.op == "var":
                raise LowerError(f"{e.name} has no value", asked="evaluate")
            if e.op == "const":
                done[e] = np.asarray(e.value) if e.dtype.is_bool else number(e.value)
                continue
            args = [done[a] for a in e.args]
            if e.op in ("cast", "likely", "broadcast"):
                is_number = e.op == "cast" and e.args[0].dtype.is_bool  # True + True is True in NumPy
                done[e] = np.asarray(args[0], dtype=number) if is_number else args[0]
                continue
            if e.op in ("truncdiv", "floordiv", "floormod", "truncmod") and number is np.float64:
                done[e] = _float_division(e.op, *args)
                continue
            function = OPS[e.op].numpy
            if function is None:
                raise LowerError(f"{e!r} cannot be evaluated over knobs", asked="evaluate")
            done[e] = function(*args)
    return [np.asarray(done[r]) for r in roots]


def _float_division(op: str, a: Any, b: Any) -> Any:
    """The integer divisions on whole floats; by zero they give 0, as everywhere."""
    rounded = (np.trunc if op.startswith("trunc") else np.floor)(a / b)
    quotient = np.where(b == 0, 0.0, rounded)
    return quotient if op.endswith("div") else np.where(b == 0, 0.0, a - b * quotient)
