"""Vectors that are stored past the caches are moved to where cache lines begin, where they can be."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.ir.stmt import Let, Store, walk
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference


def streamed(body: object, lanes: int = 16, dtype: str = "float32") -> tuple[list[Tensor], Schedule]:
    """B[i] = body(A, i), `lanes` at a time."""
    n = te.var("n")
    a = te.placeholder((n,), dtype, name="A")
    b = te.compute((n,), lambda i: body(a, i, n), name="B")  # type: ignore[operator]
    s = create_schedule(b)
    s[b].split("i", factor=lanes)
    s[b].vectorize("i.inner")
    s[b].pragma("i.inner", "streaming_store")
    return [a, b], s


def is_moved(args: list[Tensor], s: Schedule) -> bool:
    return any(isinstance(x, Let) for x in walk(lower_structure(s, args, "llvm").bind().body))


def test_what_it_becomes() -> None:
    args, s = streamed(lambda a, i, n: a[i] * 2)
    f = lower_structure(s, args, "llvm").after("align_streams")
    (let,) = (x for x in walk(f.body) if isinstance(x, Let))
    stores = [x for x in walk(let) if isinstance(x, Store)]
    assert repr(let.value) == "to_line(B[0])"
    assert [x.streaming for x in stores] == [False, True, False]
    assert repr(stores[1].indices[0]) == "ramp(int64(i.outer*16) + i.outer.shift, 16)"


CONTINUING = {
    "the same element": lambda a, i, n: a[i] + 1,
    "backwards": lambda a, i, n: a[n - 1 - i],
    "one for all": lambda a, i, n: a[i] + a[0],
    "a condition": lambda a, i, n: te.select(a[i] > 7, a[i], a[i] * 3),
}
BROKEN = {
    "its own index": lambda a, i, n: a[i] + i.astype("float32"),
    "a remainder": lambda a, i, n: a[i] + (i % 3).astype("float32"),
    "one for each block": lambda a, i, n: a[i // 16],
    "a repeated pattern": lambda a, i, n: a[i % 16 + i // 16 * 0],
}
LENGTHS = (1, 15, 16, 31, 32, 47, 48, 100, 1000)


@pytest.mark.parametrize("name", CONTINUING)
def test_elements_that_continue_one_another(name: str) -> None:
    args, s = streamed(CONTINUING[name])
    assert is_moved(args, s)
    inputs = [[(np.arange(length) % 50).astype(np.float32)] for length in LENGTHS]
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", inputs[0], backend, more=inputs[1:])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", BROKEN)
def test_blocks_that_do_not_are_left_alone(name: str) -> None:
    args, s = streamed(BROKEN[name])
    assert not is_moved(args, s)
    inputs = [[(np.arange(length) % 50).astype(np.float32)] for length in LENGTHS[1:]]
    check_against_reference(args, s, "llvm", inputs[0], more=inputs[1:])


@pytest.mark.parametrize(("dtype", "lanes", "moved"), [("uint8", 64, True), ("uint8", 32, False), ("float64", 8, True)])
def test_vectors_of_whole_lines(dtype: str, lanes: int, moved: bool) -> None:
    args, s = streamed(lambda a, i, n: a[i], lanes, dtype)
    assert is_moved(args, s) == moved
    check_against_reference(args, s, "llvm", [np.arange(200).astype(dtype)])


def test_parallel_rows_in_stretches() -> None:
    """Each thread moves its own stretches; rows of odd lengths begin anywhere."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), "int32", name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + j, name="B")
    for fused in (False, True):
        s = create_schedule(b)
        row = s[b].fuse("i", "j") if fused else "j"
        stretch, element = s[b].split(row, factor=128)
        _, lane = s[b].split(element, factor=32)
        s[b].parallel(stretch if fused else "i")
        s[b].vectorize(lane)
        s[b].pragma(lane, "streaming_store")
        shapes = ((3, 77), (1, 1), (5, 333), (2, 128), (1, 1000))
        inputs = [[np.arange(x * y, dtype=np.int32).reshape(x, y)] for x, y in shapes]
        for backend in ("native", "interpreter-backwards"):
            check_against_reference([a, b], s, "llvm", inputs[0], backend, more=inputs[1:])  # type: ignore[arg-type]
