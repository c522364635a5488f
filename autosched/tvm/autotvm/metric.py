"""`tvm.autotvm.tuner.metric`: curves that tell how well a model orders trials."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def max_curve(trial_scores: Sequence[float]) -> np.ndarray:
    """Return the best score so far, after each trial: float64 [n]."""
    return np.maximum.accumulate(np.asarray(trial_scores, dtype=np.float64))


def mean_curve(trial_scores: Sequence[float]) -> np.ndarray:
    """Return the mean of the scores so far, after each trial: float64 [n]."""
    scores = np.asarray(trial_scores, dtype=np.float64)
    return np.cumsum(scores) / np.arange(1, len(scores) + 1)


def recall_curve(trial_ranks: Sequence[int], top: int | None = None) -> np.ndarray:
    """Return the share of the `top` ranks (None: of the first k) found after k trials: float64 [n]."""
    ranks = np.asarray(trial_ranks)
    if top is not None:
        return np.cumsum(ranks < top) / top
    return np.array([np.sum(ranks[:k] < k) / k for k in range(1, len(ranks) + 1)], dtype=np.float64)


def cover_curve(trial_ranks: Sequence[int]) -> np.ndarray:
    """Return the share of all ranks for which every better one was found, after k trials: float64 [n]."""
    n = len(trial_ranks)
    found = np.zeros(n + 1, dtype=bool)
    best, curve = 0, np.zeros(n)
    for k, rank in enumerate(trial_ranks):
        found[rank] = True
        while best < n and found[best]:
            best += 1
        curve[k] = best / n
    return curve


def average_recall(preds: Sequence[float], labels: Sequence[float], N: int) -> float:
    """Return the mean of the first N numbers of the recall curve of an order by `preds`, where `labels` are true.

    >>> average_recall([3.0, 2.0, 1.0], [30.0, 20.0, 10.0], 3)
    1.0
    """
    order = np.argsort(preds)[::-1]
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[np.argsort(labels)[::-1]] = np.arange(len(order))
    return float(np.mean(recall_curve(ranks[order].tolist())[:N]))
