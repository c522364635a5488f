"""Arrays to tune on, for workloads that bring none: small integers, whose sums are exact, or a photograph."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from autosched.errors import WorkloadError
from autosched.ir.dims import dim_of, evaluate_dim
from autosched.ir.expr import Expr, variables
from autosched.ir.node import order
from autosched.ir.visit import post_order
from autosched.te.tensor import ComputeOp, Graph, PlaceholderOp, Tensor


def photograph_file() -> Path | None:
    """The photograph's file; None where scikit-learn is not installed, or no longer has it."""
    spec = importlib.util.find_spec("sklearn")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "datasets" / "images" / "china.jpg"
    return path if path.is_file() else None


def photograph() -> np.ndarray:
    """The photograph: uint8 [427, 640, 3], an array of the caller's own. Raises WorkloadError without scikit-learn."""
    return _read().copy()


@lru_cache(maxsize=1)
def _read() -> np.ndarray:
    path = photograph_file()
    if path is None:
        raise WorkloadError(
            "scikit-learn, which has it, is not installed", asked="a photograph", legal="pip install scikit-learn"
        )
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


#: Bytes that no machine can address.
TOO_MANY = 1 << 47
#: Elements that are drawn at a time.
PART = 1 << 18


def random_inputs(args: Sequence[Tensor], sizes: dict[str, int], seed: int, name: str) -> list[np.ndarray]:
    """One array for each placeholder, at these sizes. Raises WorkloadError for a size that is not known, and
    MemoryError."""
    ends = _places(args, sizes)
    inputs = [t for t in args if isinstance(t.op, PlaceholderOp)]
    return [_random_array(t, sizes, seed + i, name, ends.get(t)) for i, t in enumerate(inputs)]


def _random_array(t: Tensor, sizes: dict[str, int], seed: int, name: str, end: int | None) -> np.ndarray:
    shape = []
    for d in t.shape:
        length = _length(d, sizes)
        if length is None:
            missing = next(v.name for v in sorted(variables(d), key=order) if v.name not in sizes)
            raise WorkloadError(
                f"the size {d!r} of {t.name} is not known",
                asked=name,
                legal=f"give sizes, for example --size {missing}=1024, or write @workload(inputs=...)",
            )
        shape.append(length)
    check_addressable(t, sizes)
    low, high = (0, 1) if t.dtype.is_bool else (0, 255) if t.dtype.kind == "uint" else (-4, 4)
    if end is not None and not t.dtype.is_bool:
        low, high = 0, min(max(end - 1, 0), int(t.dtype.max))
    return _drawn(np.random.default_rng(seed), low, high, np.empty(shape, t.dtype.numpy))


def _drawn(rng: np.random.Generator, low: int, high: int, array: np.ndarray) -> np.ndarray:
    """The array, filled with integers between these. A part at a time: they are drawn as int64, of which a whole array
    takes up to eight times the memory."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, PART):
        part = flat[start : start + PART]
        part[...] = rng.integers(low, high, part.size, endpoint=True)
    return array


def check_addressable(t: Tensor, sizes: dict[str, int]) -> None:
    """Raise MemoryError for a tensor that no machine can hold at these sizes. Dimensions that are not known count
    as 1."""
    shape = [1 if (length := _length(d, sizes)) is None else length for d in t.shape]
    if math.prod(shape) * t.dtype.bytes >= TOO_MANY:
        raise MemoryError(f"{t.name} has {' x '.join(map(str, shape))} elements of {t.dtype}")


def _length(d: Expr, sizes: dict[str, int]) -> int | None:
    known = all(v.name in sizes for v in variables(d))
    return evaluate_dim(dim_of(d), sizes) if known else None


def _places(args: Sequence[Tensor], sizes: dict[str, int]) -> dict[Tensor, int]:
    """Inputs whose elements are indices as they are -> the length of the shortest dimension they index."""
    found: dict[Tensor, int] = {}
    for op in Graph.of(args).ops:
        if not isinstance(op, ComputeOp):
            continue
        for e in post_order(op.body):
            for index, dimension in _indices(op, e):
                while index.op == "cast":
                    index = index.args[0]
                length = _length(dimension, sizes)
                if index.op == "read" and length is not None and index.dtype.is_integer:
                    found[index.value] = min(length, found.get(index.value, length))
    return found


def _indices(op: ComputeOp, e: Expr) -> Iterator[tuple[Expr, Expr]]:
    """(index, length of the dimension) for what a read looks up, or a scatter stores to."""
    if e.op == "read":
        yield from zip(e.args, e.value.shape, strict=True)
    elif e.op == "scatter":
        _, _, *place = e.args
        yield from zip(place, op.shape[len(op.shape) - len(place) :], strict=True)
