"""Reads outside of tensors for elements that nobody reads, as in TVM's recurrent networks."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import tvm
from autosched.errors import BoundsError
from autosched.tvm import te


def states(reads_all: bool = False):
    """S[t] = sums of X[t - 1] by W + S[t - 1] / 2, from S[0] = 1 on: time 0 of the sums would read X[-1]."""
    n, m = te.size_var("n"), 5
    x, w = te.placeholder((n, 3), name="X"), te.placeholder((m, 3), name="W")
    k = te.reduce_axis((0, 3), "k")
    sums = te.compute((n, m), lambda t, i: te.sum(x[t - 1, k] * w[i, k], axis=k), name="sums")
    state = te.placeholder((n, m), name="state")
    init = te.compute((1, m), lambda _, i: 1.0 + (sums[0, i] if reads_all else 0.0), name="init")
    update = te.compute((n, m), lambda t, i: sums[t, i] + state[t - 1, i] / 2.0, name="update")
    return [x, w, te.scan(init, update, state, inputs=[x, w], name="S")]


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("change", ["plain", "tiled", "inside"])
def test_a_recurrence(target: str, change: str) -> None:
    x, w, s_ = states()
    s = te.create_schedule(s_.op)
    sums = s_.op.update[0].op.input_tensors[0]
    if change == "tiled":
        s[sums].split(sums.op.axis[0], factor=4)
        s[sums].vectorize(s[sums].op.axis[1])
    elif change == "inside":
        s[sums].compute_at(s[s_.op], s_.op.scan_axis)
    rng = np.random.default_rng(0)
    given, weights = rng.integers(-4, 5, (7, 3)).astype("float32"), rng.integers(-4, 5, (5, 3)).astype("float32")
    got = np.zeros((7, 5), "float32")
    tvm.build(s, [x, w, s_], target)(given, weights, got)
    expected = np.ones((7, 5), "float32")
    for t in range(1, 7):
        expected[t] = given[t - 1] @ weights.T + expected[t - 1] / 2
    np.testing.assert_allclose(got, expected)


def test_what_is_read_is_refused() -> None:
    x, w, s_ = states(reads_all=True)
    with pytest.raises(BoundsError, match="read of X in sums"):
        tvm.build(te.create_schedule(s_.op), [x, w, s_], "llvm")


def test_an_output_is_read_by_the_caller() -> None:
    x = te.placeholder((8,), name="X")
    y = te.compute((8,), lambda t: x[t - 1] * 2.0, name="Y")
    z = te.compute((7,), lambda t: y[t + 1], name="Z")
    given = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(tvm.build(te.create_schedule(z.op), [x, z], "llvm")(given), 2 * given[:7])
    with pytest.raises(BoundsError, match="read of X in Y"):
        tvm.build(te.create_schedule([y.op, z.op]), [x, y, z], "llvm")
