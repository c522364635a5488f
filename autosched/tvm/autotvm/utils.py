"""`tvm.autotvm.utils`: small functions that programs for tuners use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.ir.expr import Expr
from autosched.tvm._missing import missing

_PREFIXES = {"Y": 24, "Z": 21, "E": 18, "P": 15, "T": 12, "G": 9, "M": 6, "k": 3, "K": 3, "": 0, "m": -3, "u": -6}


def get_rank(values: Sequence[float]) -> np.ndarray:
    """Return the rank of each value, 0 for the largest: int64 [n]."""
    order = np.argsort(-np.asarray(values, dtype=np.float64))
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def get_func_name(func: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class that is called like one."""
    return str(getattr(func, "func_name", getattr(func, "__qualname__", type(func).__name__)))


def get_const_int(exp: Any) -> int:
    """Return the number that an expression is. Raises UsageError for one that is none."""
    if isinstance(exp, (int, np.integer)):
        return int(exp)
    if isinstance(exp, Expr) and exp.op == "const":
        return int(exp.value)
    raise UsageError(f"{exp!r:.60} is no number", asked="get_const_int", legal="a number, or an expression that is one")


def get_const_tuple(in_tuple: Iterable[Any]) -> tuple[Any, ...]:
    """Return numbers for the expressions that are, and variables as they are."""
    given = (getattr(x, "dom", x) for x in in_tuple)
    return tuple(x if isinstance(x, Expr) and x.op == "var" else get_const_int(x) for x in given)


def format_si_prefix(x: float, si_prefix: str) -> float:
    """Return a number in units of a prefix.

    >>> format_si_prefix(2e9, "G")
    2.0
    """
    if si_prefix not in _PREFIXES:
        known = ", ".join(map(repr, _PREFIXES))
        raise UsageError(f"{si_prefix!r} is no prefix", asked=f"si_prefix={si_prefix!r}", legal=known)
    return float(x) / 10.0 ** _PREFIXES[si_prefix]


_INSTEAD = {"pool_map": "multiprocessing.Pool.map", "EmptyContext": "contextlib.nullcontext"}
__getattr__ = missing("autotvm.utils", globals(), _INSTEAD)
