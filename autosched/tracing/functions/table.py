"""The table of NumPy's functions, and what all of its entries use."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autosched.errors import AutoschedError
from autosched.ir.attached import attach
from autosched.te.tensor import Tensor
from autosched.tracing.traced import NOT_TRACED, TO_ASSIGN, Traced, refuse, released, value

#: NumPy's function -> what it does to traced values, with NumPy's parameters as far as they are taken
FUNCTIONS: dict[Any, Callable[..., Any]] = {}


def call(_: Any, function: Callable[..., Any], types: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A function of NumPy's with a traced value among its arguments."""
    name = f"np.{function.__name__}" if function.__module__ == "numpy" else f"{function.__module__}.{function.__name__}"
    f = FUNCTIONS.get(function)
    if f is None:
        known = sorted({k.__name__ for k in FUNCTIONS})
        refuse(name, "it is not among the functions that can be traced", ", ".join(known))
    kwargs = dict(kwargs)
    out = kwargs.pop("out", None)
    try:
        inspect.signature(f).bind(*args, **kwargs)
    except TypeError as error:
        refuse(name, f"it cannot be traced with these arguments: {error}", f"{name}{inspect.signature(f)}")
    try:
        found = f(*args, **kwargs)
    except AutoschedError as error:
        if error.asked.startswith("topi."):
            refuse(name, error.why, error.legal)
        raise
    if out is not None:
        if not isinstance(out, Traced):
            refuse(f"{name}(out=..)", NOT_TRACED, TO_ASSIGN)
        out.assign(found.astype(out.dtype).__te_tensor__(), name)
        return out
    return released(found)


def traces(*functions: Any) -> Callable[[Any], Any]:
    """Enter a function in the table."""

    def enter(f: Any) -> Any:
        for function in functions:
            FUNCTIONS[function] = f
        return f

    return enter


def tensor(x: Any, asked: str = "an array") -> Tensor:
    return value(x, asked).__te_tensor__()


def axis_number(axis: Any, ndim: int, asked: str) -> int:
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)) or not -ndim <= axis < ndim:
        refuse(asked, f"axis {axis!r} is out of bounds for {ndim} dimensions")
    return int(axis) % ndim


attach(Traced, __array_function__=call)
attach(Tensor, __array_function__=call)
