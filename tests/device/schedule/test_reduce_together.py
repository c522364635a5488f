"""`reduce_together` and copies of one place: results are what the definition says."""

from __future__ import annotations

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.schedule import create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

TARGETS = [("llvm", "native"), ("llvm", "interpreter"), ("c", "native"), ("opencl", "interpreter")]


def moments(dtype: str = "float32", where: bool = False) -> list[Tensor]:
    """X[n, m] -> of each row the least, the product of a few, the sum in int32, and the largest."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), dtype, name="X")
    made = []
    for name, combine in (("least", te.min), ("total", te.sum), ("largest", te.max)):
        k = te.reduce_axis((0, m), name="k")
        term = (lambda i, k=k: x[i, k].astype("int32")) if name == "total" else (lambda i, k=k: x[i, k])
        mask = (lambda i, k=k: k != i) if where else (lambda i: None)
        body = lambda i, k=k, term=term, mask=mask, f=combine: f(term(i), axis=k, where=mask(i))  # noqa: E731
        made.append(te.compute((n,), body, name=name))
    return [x, *made]


@pytest.mark.parametrize(("target", "backend"), TARGETS)
@pytest.mark.parametrize("where", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_one_pass_gives_each_result(target: str, backend: str, where: bool, dtype: str) -> None:
    args = moments(dtype, where)
    s = create_schedule(args[1:])
    s.reduce_together(args[1], args[2:])
    assert_roundtrip(s, args, target)
    given = np.random.default_rng(0).integers(-9, 9, (5, 13)).astype(dtype)
    check_against_reference(args, s, target, [given], backend)  # type: ignore[arg-type]


def test_in_lanes_and_pieces() -> None:
    args = moments()
    s = create_schedule(args[1:])
    joint = s.reduce_together(args[1], args[2:])
    s[joint[0]].split("k", factor=4)
    partial = s[s.rfactor(joint[0], "k.inner", factor_axis=-1)[0]]
    i, lane, k = partial.loops
    partial.reorder(i, k, lane)
    partial.vectorize(lane)
    partial.compute_at(s[joint[0]], s[joint[0]].loops[0])
    assert_roundtrip(s, args, "llvm")
    given = np.random.default_rng(1).integers(-9, 9, (6, 18)).astype("float32")
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", [given], backend)


@pytest.mark.parametrize("only", [0, 1])
def test_one_place_reads_the_copy(only: int) -> None:
    """The other one still reads the input: the layout of the copy is its own."""
    n, m = te.var("n"), te.var("m")
    a, k = te.placeholder((n, m), name="A"), te.reduce_axis((0, m), name="k")
    gram = te.compute((n, n), lambda i, j: te.sum(a[i, k] * a[j, k], axis=k), name="gram")
    s = create_schedule(gram)
    copy = s.cache_read(a, "global", [gram], only=only)
    s[copy].transform_layout(lambda i, k: [k, i])
    assert len(s.readers(a)) == 2
    assert_roundtrip(s, [a, gram], "llvm")
    given = np.random.default_rng(2).integers(-9, 9, (5, 7)).astype("float32")
    for backend in ("native", "interpreter"):
        check_against_reference([a, gram], s, "llvm", [given], backend)
