"""`double_buffer`, `env_threads`, and TVM's other names for scopes and virtual threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuda_emulation import with_emulated_cuda
from roundtrip import assert_roundtrip
from scan_programs import running_sum

from autosched import te
from autosched.errors import ScheduleError
from autosched.ir.printer import format_function
from autosched.ir.stmt import Barrier, For, walk
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference


def matmul(n: Any, tile: int = 4, doubled: bool = True, gpu: bool = True) -> tuple[list[Tensor], Schedule]:
    """Tiles of both inputs, fetched by all work-items of a group; on a CPU, by each thread."""
    a, b = te.placeholder((n, n), "int32", name="A"), te.placeholder((n, n), "int32", name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = create_schedule(c)
    loops = s[c].tile("i", "j", 4, 4)
    k_outer, k_inner = s[c].split("k", factor=tile)
    s[c].reorder(*loops, k_outer, k_inner) if gpu else s[c].reorder(*loops[:2], k_outer, *loops[2:], k_inner)
    if gpu:
        for loop, tag in zip(loops, ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"), strict=True):
            s[c].bind(loop, tag)
    for tensor in (a, b):
        fetch = s[s.cache_read(tensor, "shared" if gpu else "local", [c])]
        fetch.compute_at(s[c], k_outer)
        if gpu:
            _, lane = fetch.split(fetch.fuse(*fetch.loops), factor=4)
            fetch.bind(lane, "threadIdx.x")
        if doubled:
            fetch.double_buffer()
    return [a, b, c], s


def matrices(n: int) -> list[np.ndarray]:
    draw = np.random.default_rng(n)
    return [draw.integers(-9, 9, (n, n)).astype(np.int32) for _ in range(2)]


def test_golden(golden: Callable[..., None]) -> None:
    a = te.placeholder((4, 10), "int32", name="A")
    b = te.compute((4, 10), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((4, 10), lambda i, j: b[i, 9 - j], name="C")
    s = create_schedule(c)
    s[b].compute_at(s[c], "i")
    s[b].double_buffer()
    golden(str(lower_structure(s, [a, c], "llvm")))
    golden(format_function(lower_structure(s, [a, c], "llvm").bind()), "passes")
    assert_roundtrip(s, [a, c])


@pytest.mark.parametrize("n", [1, 4, 5, 8, 13])
@pytest.mark.parametrize("gpu", [False, True])
def test_any_number_of_tiles(n: int, gpu: bool) -> None:
    args, s = matmul(n, gpu=gpu)
    check_against_reference(args, s, "opencl" if gpu else "llvm", matrices(n), "interpreter")


@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_compiled(target: str) -> None:
    for n in (te.var("n"), 12):
        args, s = matmul(n, gpu=target == "opencl")
        check_against_reference(args, s, target, matrices(12), "native")


def test_on_emulated_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    with_emulated_cuda(monkeypatch)
    args, s = matmul(13)
    check_against_reference(args, s, "cuda", matrices(13), "native")


def test_a_work_group_meets_once_for_each_tile() -> None:
    def barriers(doubled: bool) -> int:
        args, s = matmul(32, doubled=doubled)
        f = lower_structure(s, args, "opencl").bind()
        (loop,) = (x for x in walk(f.body) if isinstance(x, For) and any(isinstance(y, Barrier) for y in walk(x)))
        tiles = 2 if doubled else 1
        return sum(isinstance(x, Barrier) for x in walk(loop)) // tiles

    assert barriers(False) == 2
    assert barriers(True) == 1


def test_where_it_has_nothing_to_do() -> None:
    """Not inside a serial loop, or fed at the same loop: one copy, and the same result."""
    args, s = matmul(8, gpu=False)
    s["C"].unroll("k.outer")
    check_against_reference(args, s, "llvm", matrices(8), "interpreter")
    assert "A.local.0" not in str(lower_structure(s, args, "llvm"))
    a = te.placeholder((4, 6), "int32", name="A")
    b = te.compute((4, 6), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((4, 6), lambda i, j: b[i, 5 - j] * 2, name="C")
    d = te.compute((4, 6), lambda i, j: c[i, j] - 1, name="D")
    for both in (False, True):
        s = create_schedule(d)
        s[b].compute_at(s[d], "i")
        s[c].compute_at(s[d], "i")
        s[c].double_buffer()
        if both:
            s[b].double_buffer()
        check_against_reference([a, d], s, "llvm", [np.arange(24, dtype=np.int32).reshape(4, 6)], "interpreter")
        assert ("C.0" in str(lower_structure(s, [a, d], "llvm"))) == both


def test_errors() -> None:
    _, s = matmul(8)
    with pytest.raises(ScheduleError, match=r"(?s)C is an output: there is one of it.*intermediates"):
        s["C"].double_buffer()
    with pytest.raises(ScheduleError, match=r"(?s)C.env_threads.*C is no scan"):
        s["C"].env_threads([te.thread_axis("threadIdx.x")])
    with pytest.raises(ScheduleError, match=r"(?s)no scope 'warp'.*legal: global.*shared.*local"):
        s["A.shared"].set_scope("warp")


def test_env_threads() -> None:
    args = running_sum()
    s = create_schedule(args[-1])
    scan = s[args[-1]]
    assert scan.env_threads([te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")]) is scan
    with pytest.raises(ScheduleError, match=r"legal: blockIdx.x"):
        scan.env_threads(["threadIdx.q"])


def test_other_names() -> None:
    a = te.placeholder((16, 8), "int32", name="A")
    b = te.compute((16, 8), lambda i, j: a[i, j] * 2, name="B")
    s = create_schedule(b)
    block, inner = s[b].split("i", factor=8)
    outer, inner = s[b].split(inner, nparts=2)
    s[b].bind(block, "blockIdx.x")
    s[b].bind(outer, te.thread_axis("vthread.x"))
    s[b].bind("j", "cthread")
    s[b].bind(inner, "threadIdx.x")
    cached = s[s.cache_read(a, "shared.dyn", [b])]
    cached.compute_at(s[b], block)
    assert cached.scope == "shared"
    check_against_reference([a, b], s, "opencl", [np.arange(128, dtype=np.int32).reshape(16, 8)], "interpreter")
