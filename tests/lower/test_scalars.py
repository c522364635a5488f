"""Numbers as arguments."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
from autosched import te
from autosched.errors import BuildError, LowerError


def program(of: str = "float32"):
    n, alpha, shift = te.var("n"), te.var("alpha", of), te.var("shift")
    a = te.placeholder((n,), of, name="a")
    b = te.compute((n,), lambda i: te.if_then_else(i > shift, a[i] * alpha, a[i] + alpha), name="b")
    return n, alpha, shift, a, b, autosched.create_schedule(b)


@pytest.mark.parametrize("of", ["float32", "float64", "int32"])
@pytest.mark.parametrize("scheduled", [False, True])
def test_numbers_are_read_at_each_call(of: str, scheduled: bool) -> None:
    _, alpha, shift, a, b, s = program(of)
    if scheduled:
        outer, inner = s[b].split("i", 8)
        s[b].vectorize(inner)
        s[b].parallel(outer)
    module = autosched.build(s, args=[alpha, a, shift, b])
    x = np.arange(21).astype(of)
    for factor, at in ((3, 5), (7, 30), (2, -1)):
        expected = np.where(np.arange(21) > at, x * factor, x + factor)
        assert np.array_equal(module(factor, x, at), expected)
        assert np.array_equal(module(np.array(factor, of), x, np.int32(at)), expected)


def test_on_opencl() -> None:
    _, alpha, shift, a, b, s = program()
    group, item = s[b].split("i", 16)
    s[b].bind(group, "blockIdx.x")
    s[b].bind(item, "threadIdx.x")
    module = autosched.build(s, "opencl", args=[alpha, shift, a, b])
    x = np.arange(21, dtype="float32")
    assert np.array_equal(module(0.5, 3, x), np.where(np.arange(21) > 3, x * 0.5, x + 0.5))


def test_numbers_that_do_not_fit() -> None:
    _, alpha, shift, a, b, s = program()
    module = autosched.build(s, args=[alpha, shift, a, b])
    x = np.zeros(3, "float32")
    for wrong in (2**40, 1.5, 2.0, np.float32(2), np.inf, np.float32("nan"), "one", np.str_("1")):
        with pytest.raises(BuildError, match="argument 'shift'"):
            module(1.0, wrong, x)
    with pytest.raises(BuildError, match="argument 'alpha'"):
        module(np.str_("1"), 0, x)
    with pytest.raises(BuildError, match="argument 'alpha'"):
        module(np.float64(1.0).reshape(1, 1), 0, x)


def test_a_length_is_no_number() -> None:
    n, alpha, shift, a, b, s = program()
    with pytest.raises(LowerError, match="the length of a tensor or loop depends on n"):
        autosched.lower(s, [n, alpha, shift, a, b])
    with pytest.raises(LowerError, match="it is given twice"):
        autosched.lower(s, [alpha, alpha, shift, a, b])
    with pytest.raises(LowerError, match="it is not a variable"):
        autosched.lower(s, [alpha + 1, shift, a, b])
