"""Virtual threads, and storage with padded rows."""

from __future__ import annotations

import random

import numpy as np
import pytest

from autosched import te
from autosched.ir.stmt import Allocate, For, walk
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference


def matmul(m: int, n: int, k: int) -> tuple[list[Tensor], Schedule]:
    a, b = te.placeholder((m, k), "int32", name="A"), te.placeholder((k, n), "int32", name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return [a, b, c], create_schedule(c)


def matrices(m: int, n: int, k: int) -> list[np.ndarray]:
    draw = np.random.default_rng(m)
    return [draw.integers(-9, 9, shape).astype(np.int32) for shape in ((m, k), (k, n))]


def tiles(args: list[Tensor], s: Schedule, virtual: int = 2, padding: tuple[int, int] = (4, 1)) -> None:
    """The kernel that GPUs like: a register tile for each work-item, in strided parts, fed from shared memory."""
    c, total = s["C"], s[s.cache_write("C", "local")]
    block_y, y = c.split("i", factor=4 * virtual)
    block_x, x = c.split("j", factor=8 * virtual)
    virtual_y, y = c.split(y, nparts=virtual)
    virtual_x, x = c.split(x, nparts=virtual)
    item_y, y = c.split(y, nparts=2)
    item_x, x = c.split(x, nparts=2)
    c.reorder(block_y, block_x, virtual_y, virtual_x, item_y, item_x, y, x)
    c.vectorize(x)
    for loop in (virtual_y, virtual_x):
        c.bind(loop, te.thread_axis("vthread"))
    for loop, tag in (
        (block_y, "blockIdx.y"),
        (block_x, "blockIdx.x"),
        (item_y, "threadIdx.y"),
        (item_x, "threadIdx.x"),
    ):
        c.bind(loop, tag)
    total.compute_at(c, item_x)
    i, j, k = total.loops
    outer, inner = total.split(k, factor=4)
    total.reorder(outer, inner, i, j)
    total.unroll(i)
    total.vectorize(j)
    for tensor in args[:2]:
        fetch = s[s.cache_read(tensor, "shared", [total])]
        fetch.compute_at(total, outer)
        fetch.storage_align(fetch.op.axis[0], *padding)
        rest, lane = fetch.split(fetch.fuse(*fetch.loops), factor=4)
        rest, x = fetch.split(rest, factor=2)
        _, y = fetch.split(rest, factor=2)
        fetch.bind(y, "threadIdx.y")
        fetch.bind(x, "threadIdx.x")
        fetch.vectorize(lane)


@pytest.mark.parametrize("sizes", [(16, 32, 8), (5, 7, 3), (17, 33, 9), (1, 1, 1)])
@pytest.mark.parametrize("virtual", [1, 2, 3])
def test_tiles_of_virtual_threads(sizes: tuple[int, int, int], virtual: int) -> None:
    args, s = matmul(*sizes)
    tiles(args, s, virtual)
    check_against_reference(args, s, "opencl", matrices(*sizes), "interpreter")


@pytest.mark.parametrize("sizes", [(16, 32, 8), (13, 5, 7)])
def test_tiles_on_a_device(sizes: tuple[int, int, int]) -> None:
    args, s = matmul(*sizes)
    tiles(args, s)
    check_against_reference(args, s, "opencl", matrices(*sizes))


def test_what_is_shared_is_fetched_once_for_all_virtual_threads() -> None:
    args, s = matmul(32, 64, 8)
    tiles(args, s, virtual=4)
    f = lower_structure(s, args, "opencl").after("inject_vthreads")
    sizes = {x.buffer.name: repr(x.buffer.shape[0]) for x in walk(f.body) if isinstance(x, Allocate)}
    assert sizes == {"C.local": "128", "A.shared": "80", "B.shared": "132"}  # 2*4 elements in 4*4 parts
    assert not any(isinstance(x, For) and x.thread == "vthread" for x in walk(f.body))


@pytest.mark.parametrize("target", ["llvm", "opencl"])
@pytest.mark.parametrize("n", [1, 5, 8, 23])
def test_producers_of_virtual_threads_have_their_own_storage(target: str, n: int) -> None:
    """On a CPU they are a loop interleaved with what is inside it."""
    a = te.placeholder((n, 4), "int32", name="A")
    b = te.compute((n, 4), lambda i, j: a[i, j] + i, name="B")
    k = te.reduce_axis((0, 4), name="k")
    c = te.compute((n,), lambda i: te.sum(b[i, k], axis=k), name="C")
    s = create_schedule(c)
    outer, _ = s[c].split("i", nparts=3)
    s[c].bind(outer, "vthread")
    s[c].reorder("k", "i.inner")
    s[b].compute_at(s[c], "k")
    values = np.random.default_rng(n).integers(-9, 9, (n, 4)).astype(np.int32)
    for backend in ("interpreter", "native"):
        check_against_reference([a, c], s, target, [values], backend)  # type: ignore[arg-type]


def test_the_end_of_a_loop_that_may_be_empty() -> None:
    """Found by random schedules: the last piece of a loop was simplified as if the loop always ran."""
    a = te.placeholder((3,), "int32", name="A")
    b = te.compute((3,), lambda i: a[te.max(te.min(i + 1, 2), 0)], name="B")
    s = create_schedule(b)
    outer, inner = s[b].split("i", factor=4)
    s[b].reorder(inner, outer)
    s[b].bind(inner, "vthread")
    s[b].split(outer, factor=5)
    for target in ("llvm", "opencl"):
        check_against_reference([a, b], s, target, [np.arange(3, dtype=np.int32)], "interpreter")


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_padding_changes_no_result(seed: int, target: str) -> None:
    """Strides are multiples of the factor plus the offset, whatever the region's shape."""
    rng = random.Random(seed)
    n = rng.choice((3, 8, 13))
    a = te.placeholder((n, n, 5), "int32", name="A")
    b = te.compute((n, n, 5), lambda i, j, c: a[j, i, c] * 2, name="B")
    d = te.compute((n, n, 5), lambda i, j, c: b[i, j, c] - b[i, n - 1 - j, 4 - c], name="D")
    s = create_schedule(d)
    if rng.random() < 0.7:
        s[b].compute_at(s[d], rng.choice(("i", "j")))
    chosen = {}
    for axis in rng.sample(("i", "j", "c"), rng.randint(1, 3)):
        chosen[axis] = (rng.choice((2, 4, 8)), rng.randint(0, 1))
        s[b].storage_align(axis, *chosen[axis])
    structure = lower_structure(s, [a, d], target)
    buffer = next(x.buffer for x in walk(structure.function.body) if isinstance(x, Allocate))
    for axis, step in zip("ijc", buffer.strides, strict=True):
        factor, offset = chosen.get(axis, (1, 0))
        assert int(step.value) % factor == offset % factor
    values = np.random.default_rng(seed).integers(-9, 9, (n, n, 5)).astype(np.int32)
    check_against_reference([a, d], s, target, [values], "interpreter")
