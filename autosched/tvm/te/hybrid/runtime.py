"""The names that hybrid scripts use, for scripts that run as plain Python on NumPy arrays."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from autosched.target import Target


class bind:
    """The indices along a hardware axis, one after the other."""

    def __init__(self, tag: str, ext: int) -> None:
        self.ext = ext

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.ext))


def allocate(shape: Any, dtype: str = "float32", scope: str = "global") -> Any:
    """Return zeros."""
    return np.zeros(shape, dtype)


def rsqrt(x: Any) -> Any:
    """Return 1 over the square root."""
    return np.ones_like(x) / np.sqrt(x)


def popcount(x: Any) -> int:
    """Return the number of bits that are 1, of a negative number in its own width."""
    bits = np.asarray(x).dtype.itemsize * 8
    return int(x & (1 << bits) - 1 if isinstance(x, int) else int(x) & (1 << bits) - 1).bit_count()


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def max_num_threads(allow_none: bool = True) -> int:
    """Return the most work-items of a group for the current target."""
    target = Target.current(allow_none=True)
    return int(getattr(target, "max_num_threads", None) or 1024)


def _extreme(attribute: str) -> Callable[[str], Any]:
    def extreme(dtype: str) -> Any:
        info = np.finfo if np.dtype(dtype).kind == "f" else np.iinfo
        return getattr(info(np.dtype(dtype)), attribute)

    return extreme


HYBRID_GLOBALS: dict[str, Any] = {
    **dict.fromkeys(("serial", "unroll", "vectorize", "parallel", "const_range"), range),
    **{name: getattr(np, name) for name in ("sqrt", "log", "tanh", "power", "exp")},
    **{f"{kind}{bits}": getattr(np, f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": getattr(np, f"float{bits}") for bits in (16, 32, 64)},
    "bind": bind,
    "allocate": allocate,
    "output_tensor": allocate,
    "rsqrt": rsqrt,
    "sigmoid": sigmoid,
    "popcount": popcount,
    "round": round,
    "likely": lambda condition: condition,
    "ceil_div": lambda a, b: (a + b - 1) // b,
    "max_num_threads": max_num_threads,
    "inf": _extreme("max"),
    "ninf": _extreme("min"),
}


def emulated(pyfunc: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with the names above; its own module does not get them."""
    f: Any = pyfunc
    names = {**f.__globals__, **HYBRID_GLOBALS}
    return types.FunctionType(f.__code__, names, f.__name__, f.__defaults__, f.__closure__)
