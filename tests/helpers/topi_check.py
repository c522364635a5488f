"""Operators of topi against what NumPy says they give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autosched import build, te, topi
from autosched.te.tensor import Tensor


def given(*arrays: np.ndarray) -> list[Tensor]:
    return [te.placeholder(a.shape, str(a.dtype), name=f"in{k}") for k, a in enumerate(arrays)]


def check(make: Callable[..., Any], arrays: tuple[np.ndarray, ...], wanted: Any, compiled: bool = True) -> None:
    tensors = given(*arrays)
    made = make(*tensors)
    outputs = made if isinstance(made, (list, tuple)) else [made]
    expected = wanted if isinstance(wanted, (list, tuple)) else [wanted]
    found = te.reference([*tensors, *outputs], list(arrays))
    for got, want in zip(found, expected, strict=True):
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    if compiled and len(outputs) == 1:
        f = build(topi.generic.schedule(outputs), "llvm", args=[*tensors, *outputs])
        np.testing.assert_allclose(f(*arrays), expected[0], rtol=1e-5, atol=1e-5)
