"""Programs in their natural spelling: what somebody writes who does not think of the compiler.

Each is a workload, an independent reference in NumPy, and the fairest baselines that there are: numba with
`prange`, PyTorch, OpenCV, BLAS. `experiments/searchbench.py` tunes and times them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched import workload
from autosched.space.workload import WorkloadFunction

try:
    from numba import prange
except ImportError:  # then there are no baselines of numba
    prange: Any = range  # type: ignore[no-redef]

__all__ = ["PARTS", "Program", "Run", "close", "load", "prange", "program"]

#: the modules of this folder, in the order of the table
PARTS = ("images", "algebra", "statistics", "simulations", "signals", "networks", "others")

Array = np.ndarray
#: runs a baseline once; returns its results, or None where it wrote them into the outputs
Run = Callable[[], object]
#: (inputs, outputs) -> what to run
Prepare = Callable[[Sequence[Array], Sequence[Array]], Run]


def _numba(fn: Callable[..., object]) -> Prepare:
    """`fn(*inputs, *outputs)`, compiled for threads and fast arithmetic, as a careful user does."""

    def prepare(inputs: Sequence[Array], outputs: Sequence[Array]) -> Run:
        compiled = importlib.import_module("numba").njit(parallel=True, fastmath=True)(fn)
        return lambda: compiled(*inputs, *outputs)

    return prepare


def _numpy(fn: Callable[..., object]) -> Prepare:
    """`fn(*inputs)` returns the results: products go to BLAS."""
    return lambda inputs, outputs: lambda: fn(*inputs)


def _torch(fn: Callable[..., Run]) -> Prepare:
    """`fn(torch, torch.nn.functional, *inputs as tensors)` returns what to run."""

    def prepare(inputs: Sequence[Array], outputs: Sequence[Array]) -> Run:
        torch = importlib.import_module("torch")
        torch.set_grad_enabled(False)
        return fn(torch, torch.nn.functional, *map(torch.from_numpy, inputs))

    return prepare


def _opencv(fn: Callable[..., Run]) -> Prepare:
    """`fn(cv2, *inputs)` returns what to run."""
    return lambda inputs, outputs: fn(importlib.import_module("cv2"), *inputs)


_LIBRARIES = {"numba": _numba, "numpy": _numpy, "torch": _torch, "opencv": _opencv}


@dataclass(frozen=True)
class Program:
    """One program of the bench.

    `rtol` and `atol` say how far a result may be from the reference's: sums in another order.
    """

    name: str
    part: str
    work: WorkloadFunction[...]
    reference: Callable[..., object]
    baselines: dict[str, Prepare]
    rtol: float
    atol: float


_FOUND: dict[str, Program] = {}


def program(
    reference: Callable[..., object],
    *,
    inputs: Callable[..., Sequence[Array]] | None = None,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    **baselines: Callable[..., Any],
) -> Callable[[Callable[..., Any]], WorkloadFunction[...]]:
    """Make a function that returns tensors a program of the bench.

    `reference(*inputs)` returns its outputs, or its only one. `inputs(**params)` gives arrays where random ones
    will not do. Baselines are functions by the library's name: `numba`, `numpy`, `torch`, `opencv`.
    """

    def made(fn: Callable[..., Any]) -> WorkloadFunction[...]:
        work = workload(inputs=inputs)(fn)
        found = {name: _LIBRARIES[name](f) for name, f in baselines.items()}
        part = fn.__module__.rpartition(".")[2]
        _FOUND[fn.__name__] = Program(fn.__name__, part, work, reference, found, rtol, atol)
        return work

    return made


def load() -> dict[str, Program]:
    """All programs by name, in the order of `PARTS`."""
    for part in PARTS:
        importlib.import_module(f"{__name__}.{part}")
    return dict(_FOUND)


def close(found: object, wanted: object, rtol: float, atol: float) -> str | None:
    """None, or how far the results are from those that are wanted."""
    results, references = (list(x) if isinstance(x, tuple | list) else [x] for x in (found, wanted))
    if len(results) != len(references):
        return f"{len(results)} results, {len(references)} wanted"
    for i, (a, b) in enumerate(zip(results, references, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape:
            return f"result {i} has the shape {a.shape}, not {b.shape}"
        if not np.allclose(a.astype("float64"), b.astype("float64"), rtol, atol):
            return f"result {i} is off by {np.abs(a.astype('float64') - b.astype('float64')).max():.3g}"
    return None
