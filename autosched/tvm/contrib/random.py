"""`tvm.contrib.random`: tensors of random numbers, other ones at each call, from NumPy's generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched import te
from autosched.errors import UsageError
from autosched.ir.calls import call_packed
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import const
from autosched.ir.functions import register_func
from autosched.te.tensor import Tensor
from autosched.tvm._missing import missing

_generator = np.random.default_rng()


@register_func("tvm.contrib.random.seed", override=True)
def seed(value: int) -> None:
    """Begin the sequence of numbers anew."""
    global _generator
    _generator = np.random.default_rng(int(value))


@register_func("tvm.contrib.random.randint", override=True)
def _randint(low: Any, high: Any, out: Any) -> None:
    out[...] = _generator.integers(int(low), int(high), out.shape)


@register_func("tvm.contrib.random.uniform", override=True)
def _uniform(low: Any, high: Any, out: Any) -> None:
    out[...] = _generator.uniform(float(low), float(high), out.shape)


@register_func("tvm.contrib.random.normal", override=True)
def _normal(loc: Any, scale: Any, out: Any) -> None:
    out[...] = _generator.normal(float(loc), float(scale), out.shape)


def _fill(array: Any) -> None:
    """Fill an array with numbers of its type that are not 0: small ones, so that sums of products fit."""
    found = np.asarray(array.numpy() if hasattr(array, "numpy") else array)
    values = np.ones(found.shape) if found.dtype == bool else _generator.integers(1, 7, found.shape)
    if found.dtype.kind == "f":
        values = _generator.uniform(1e-3, 1, found.shape)
    array.copyfrom(values.astype(found.dtype))


for _name in ("random_fill", "random_fill_for_measure"):
    register_func(f"tvm.contrib.random.{_name}", _fill, override=True)


def randint(low: int, high: int, size: Sequence[Any], dtype: str = "int32") -> Tensor:
    """A tensor of integers from `low` to `high - 1`. Raises UsageError for a type that has no such integers."""
    kind = to_dtype(dtype)
    if not kind.is_integer or kind.is_bool or not (kind.min <= low < high <= kind.max + 1):
        why, asked = f"{kind} does not hold the integers from {low} to {high} - 1", f"random.randint({low}, {high})"
        raise UsageError(why, asked=asked, legal="an integer type, and low below high")
    return _tensor("randint", size, dtype, const(int(low), "int64"), const(int(high), "int64"))


def uniform(low: float, high: float, size: Sequence[Any]) -> Tensor:
    """A tensor of float32 from `low` to below `high`, each value as likely as any other."""
    return _tensor("uniform", size, "float32", const(float(low), "float64"), const(float(high), "float64"))


def normal(loc: float, scale: float, size: Sequence[Any]) -> Tensor:
    """A tensor of float32 with the normal distribution of mean `loc` and standard deviation `scale`."""
    return _tensor("normal", size, "float32", const(float(loc), "float64"), const(float(scale), "float64"))


def _tensor(name: str, size: Sequence[Any], dtype: str, *parameters: Any) -> Tensor:
    called = f"tvm.contrib.random.{name}"
    made: Tensor = te.extern(
        tuple(size), [], lambda ins, outs: call_packed(called, *parameters, outs[0]), dtype=dtype, name=name
    )
    return made


__getattr__ = missing("contrib.random", globals())
