"""Checks on what a cost model is given, and the labels it learns.

XGBoost accepts a matrix with too few columns, and says nothing: every width is checked here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from autosched.errors import UsageError
from autosched.model.protocol import FloatArray, IntArray


def checked_features(features: ArrayLike, names: Sequence[str]) -> FloatArray:
    """`features` as contiguous float64 [n, len(names)].

    Raises UsageError when it is no matrix of numbers, has another width, or holds NaN or
    infinity; the message names the first offending row and feature.
    """
    try:
        matrix = np.ascontiguousarray(features, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"features are not a matrix of numbers: {error}", asked="cost model") from error
    if matrix.ndim != 2 or matrix.shape[1] != len(names):
        raise UsageError(
            f"features have shape {list(matrix.shape)}, the model has {len(names)} features",
            asked="cost model",
            legal=f"a float64 matrix [n, {len(names)}] with the columns {_shortened(names)}",
        )
    finite = np.isfinite(matrix)
    if not finite.all():
        row, column = (int(i) for i in np.argwhere(~finite)[0])
        raise UsageError(
            f"feature {names[column]!r} of row {row} is {matrix[row, column]}",
            asked="cost model",
            legal="every feature is a finite number",
        )
    return matrix


def checked_seconds(seconds: ArrayLike, rows: int) -> FloatArray:
    """`seconds` as float64 [rows]. Raises UsageError unless each is positive (`inf` = failed)."""
    array = np.ascontiguousarray(seconds, dtype=np.float64)
    if array.shape != (rows,):
        raise UsageError(
            f"seconds have shape {list(array.shape)}, features have {rows} rows",
            asked="cost model",
            legal="one time for each row",
        )
    wrong = ~(array > 0)  # also true for NaN
    if wrong.any():
        row = int(np.argmax(wrong))
        raise UsageError(
            f"seconds of row {row} are {array[row]}",
            asked="cost model",
            legal="a time is positive; inf stands for a candidate that failed",
        )
    return array


def checked_groups(groups: ArrayLike, rows: int) -> IntArray:
    """`groups` as int64 [rows]. Raises UsageError for another shape or for fractions."""
    array = np.asarray(groups)
    if array.shape != (rows,) or not (rows == 0 or np.issubdtype(array.dtype, np.integer)):
        raise UsageError(
            f"groups are {array.dtype} of shape {list(array.shape)}, features have {rows} rows",
            asked="cost model",
            legal="one integer for each row; equal integers mark comparable times",
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def throughput(seconds: FloatArray, groups: IntArray) -> FloatArray:
    """Labels in [0, 1], float64 [n]: the group's best time / the row's time; 0 for a failure.

    Throughput and not seconds, because it spreads the fast candidates, which matter, and squeezes
    the slow ones together; 0 needs no invented time for a failure (AutoTVM and Ansor do the same).
    """
    labels = np.zeros(len(seconds), dtype=np.float64)
    for group in np.unique(groups):
        rows = groups == group
        best = seconds[rows].min()
        if np.isfinite(best):
            labels[rows] = best / seconds[rows]  # best / inf is 0
    return labels


def ranks(labels: FloatArray, groups: IntArray) -> FloatArray:
    """The rank of each label in its group, float64 [n]: 0 for the lowest, 1 for the highest; equal ones share."""
    placed = np.zeros(len(labels), dtype=np.float64)
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        _, inverse, counts = np.unique(labels[rows], return_inverse=True, return_counts=True)
        placed[rows] = (np.cumsum(counts) - (counts + 1) / 2)[inverse] / max(1, len(rows) - 1)
    return placed


def _shortened(names: Sequence[str], limit: int = 6) -> str:
    shown = ", ".join(names[:limit])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > limit else shown
