"""`tvm.testing`: comparing arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from autosched.tvm._missing import missing

__all__ = ["assert_allclose"]


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise AssertionError unless the arrays have one shape and every element is within the tolerance."""
    actual, desired = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_allclose(actual.shape, desired.shape)
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=True)


_INSTEAD = dict.fromkeys(("parameter", "parameters", "parametrize_targets", "fixture"), "pytest.mark.parametrize")
__getattr__ = missing("testing", globals(), _INSTEAD)
