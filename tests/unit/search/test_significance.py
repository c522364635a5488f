"""Welch's t-test, against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.search.droplet import faster, t_tail


def test_the_tail_of_students_t_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    for t in (0.0, 0.1, 1.0, 3.0, 30.0):
        for freedom in (1.0, 1.5, 2.0, 10.0, 200.0):
            assert t_tail(t, freedom) == pytest.approx(stats.t.sf(t, freedom), abs=1e-12)


def test_the_verdict_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    for _ in range(100):
        a = np.exp(rng.normal(0.0, 0.1, rng.integers(2, 30)))
        b = np.exp(rng.normal(0.05, 0.1, rng.integers(2, 30)))
        p = stats.ttest_ind(np.log(a), np.log(b), equal_var=False, alternative="less").pvalue
        if p < 0.5:
            assert faster(a, b, p * 1.0001) and not faster(a, b, p * 0.9999)
        else:
            assert not faster(a, b, 0.49)


def test_without_an_estimate_of_noise_the_means_decide():
    assert faster([1.0], [1.1, 1.2], 0.05) and not faster([1.2], [1.1, 1.15], 0.05)
    assert faster([1.0, 1.0], [1.1, 1.1], 0.0) and not faster([1.0, 1.0], [1.0, 1.0], 1.0)
