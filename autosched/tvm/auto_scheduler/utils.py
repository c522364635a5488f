"""Keys of workloads: `["name", argument, ...]` as JSON, taken apart and compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from autosched.errors import WorkloadError
from autosched.ir.expr import Expr
from autosched.tvm._missing import missing


def get_func_name(func: Callable[..., Any]) -> str:
    """Return the name that a function is registered by."""
    return str(func.__qualname__)


def decode_workload_key(workload_key: str) -> tuple[str, list[Any] | None]:
    """Return name and arguments; the key itself and None where it is no JSON list."""
    try:
        parts = json.loads(workload_key)
    except (ValueError, RecursionError):
        return workload_key, None
    if isinstance(parts, list) and parts and isinstance(parts[0], str):
        return parts[0], parts[1:]
    return workload_key, None


def calc_workload_dis_factor(
    target_workload_pair: tuple[str, list[Any] | None], candidate_workload_pair: tuple[str, list[Any] | None]
) -> float:
    """Return how many times larger a workload is than one whose schedule it could use; infinite where it could not.

    Both must be of one function, and every number of the first a multiple of that of the other.
    """
    (name, args), (other, others) = target_workload_pair, candidate_workload_pair
    wanted, known = list(_flat(args)), list(_flat(others))
    if name != other or len(wanted) != len(known):
        return float("inf")
    factor = 1.0
    for a, b in zip(wanted, known, strict=True):
        numbers = all(isinstance(x, int) and not isinstance(x, bool) for x in (a, b))
        if numbers and a and b and a % b == 0:
            factor *= a / b
        elif a != b:
            return float("inf")
    return factor


def _flat(x: Any) -> Iterator[Any]:
    if isinstance(x, (list, tuple)):
        for item in x:
            yield from _flat(item)
    else:
        yield x


def get_const_int(exp: Any) -> int:
    """Return the number that an expression is. Raises WorkloadError for one that is none."""
    if isinstance(exp, (int, np.integer)):
        return int(exp)
    if isinstance(exp, Expr) and exp.op == "const":
        return int(exp.value)
    raise WorkloadError(f"{exp!r:.60} is no number", asked="get_const_int", legal="shapes that are numbers")


def get_const_tuple(in_tuple: Iterable[Any]) -> tuple[int, ...]:
    """Return the numbers of a shape. Raises WorkloadError for a length that is none."""
    return tuple(map(get_const_int, in_tuple))


def list_to_tuple(x: list[Any]) -> tuple[Any, ...]:
    """Return a list as a tuple, and the lists in it."""
    return tuple(list_to_tuple(item) if isinstance(item, list) else item for item in x)


def array_mean(arr: Iterable[Any]) -> float:
    """Return the mean of numbers, or of constants with a `value`."""
    return float(np.mean([getattr(x, "value", x) for x in arr]))


def to_str_round(x: Any, decimal: int = 6) -> str:
    """Return numbers as text, rounded.

    >>> to_str_round([0.12345678, 1])
    '[0.123457, 1]'
    """
    if isinstance(x, str):
        return x
    if isinstance(x, dict):
        return str({k: to_str_round(v, decimal) for k, v in x.items()})
    if isinstance(x, (list, tuple, np.ndarray)):
        return "[" + ", ".join(to_str_round(y, decimal) for y in x) + "]"
    return f"{x:.{decimal}f}" if isinstance(x, float) else str(x)


_INSTEAD = {
    **dict.fromkeys(("request_remote", "check_remote"), "candidates run on this machine"),
    **dict.fromkeys(
        ("PropagatingThread", "call_func_with_thread", "call_func_with_timeout", "kill_child_processes"),
        "each candidate has processes of its own, with limits: LocalBuilder(timeout=..), LocalRunner(timeout=..)",
    ),
}
__getattr__ = missing("auto_scheduler.utils", globals(), _INSTEAD)
