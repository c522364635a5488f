"""What a hybrid script cannot say is refused with its line."""

# mypy: ignore-errors
# ruff: noqa: F821 - scripts use names that mean something inside them alone

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from autosched.errors import UsageError
from autosched.tvm import te
from autosched.tvm.te.hybrid import script


@script
def loops_while(a):
    b = output_tensor((8,), a.dtype)
    while True:
        b[0] = 1
    return b


@script
def returns_early(a):
    b = output_tensor((8,), a.dtype)
    for i in range(8):
        return b


@script
def returns_nothing(a):
    b = output_tensor((8,), a.dtype)
    b[0] = a[0]


@script
def returns_its_input(a):
    return a


@script
def has_an_index_too_many(a):
    b = output_tensor((8,), a.dtype)
    b[0] = a[0, 1]
    return b


@script
def names_nothing(a):
    b = output_tensor((8,), a.dtype)
    b[0] = aa[0]
    return b


@script
def reads_before_it_writes(a):
    b = output_tensor((8,), a.dtype)
    for i in range(8):
        b[i] = x
        x = a[i]
        x += 1
    return b


@script
def loops_over_a_tensor(a):
    b = output_tensor((8,), a.dtype)
    for x in a:
        b[0] = x
    return b


@script
def unrolls_what_is_not_known(a, n):
    b = output_tensor((8,), a.dtype)
    for i in const_range(n):
        b[i] = a[i]
    return b


@script
def binds_no_axis(a):
    b = output_tensor((8,), a.dtype)
    for i in bind("threadIdx.w", 8):
        b[i] = a[i]
    return b


@script
def asserts_what_is_false(a):
    b = output_tensor((8,), a.dtype)
    assert 8 == 9
    return b


CASES = [f for name, f in list(globals().items()) if getattr(f, "__hybrid_script__", None)]


def test_messages(golden: Callable[..., None]) -> None:
    texts = []
    for f in CASES:
        given = (te.placeholder((8,), name="a"), te.var("n"))
        with pytest.raises(UsageError) as raised:
            f(*given[: 1 + (f is unrolls_what_is_not_known)])
        error = raised.value
        assert re.search(r"test_hybrid_errors\.py:\d+$", error.asked) and error.legal
        text = re.sub(r"names here: .*", "names here: ..", str(error))
        texts.append(f"-- {f.__name__}\n" + re.sub(r"at \S*/(\w+\.py):\d+", r"at \1:LINE", text) + "\n")
    golden("\n".join(texts))


def test_a_script_takes_as_many_arguments_as_it_names() -> None:
    with pytest.raises(UsageError, match="it is called with 2 arguments"):
        loops_while(te.placeholder((8,), name="a"), te.var("n"))
