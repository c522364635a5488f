"""Keys of workloads: `["name", argument, ...]` as JSON, taken apart and compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any


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
