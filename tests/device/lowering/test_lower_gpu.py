"""GPU-style targets: kernels, shared storage and the barriers it needs."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.errors import BuildError
from autosched.ir.expr import Expr
from autosched.ir.printer import format_function
from autosched.ir.stmt import Allocate, Barrier, For, If, Launch, Produce, Seq, Stmt, Store, children, map_stmt, walk
from autosched.lowering import lower_structure
from autosched.runtime.interpreter import interpret
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference


def matmul(n: int | Expr = 12) -> tuple[list[Tensor], Schedule]:
    a, b = te.placeholder((n, n), "int32", name="A"), te.placeholder((n, n), "int32", name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return [a, b, c], create_schedule(c)


def matrices(n: int = 12) -> list[np.ndarray]:
    draw = np.random.default_rng(n)
    return [draw.integers(-9, 9, (n, n)).astype(np.int32) for _ in range(2)]


def cooperative_matmul(n: int | Expr) -> tuple[list[Tensor], Schedule]:
    """Tiles of both inputs in shared memory, fetched by all work-items of a group together: the
    fetching stages stand inside the loops bound to threadIdx, and bind threadIdx again."""
    args, s = matmul(n)
    c = s["C"]
    block_y, block_x, y, x = c.tile("i", "j", 4, 4)
    k_outer, k_inner = c.split("k", factor=3)
    c.reorder(block_y, block_x, y, x, k_outer, k_inner)
    for loop, tag in ((block_y, "blockIdx.y"), (block_x, "blockIdx.x"), (y, "threadIdx.y"), (x, "threadIdx.x")):
        c.bind(loop, tag)
    for tensor in args[:2]:
        fetch = s[s.cache_read(tensor, "shared", "C")]
        fetch.compute_at(c, k_outer)
        _, lane = fetch.split(fetch.fuse(*fetch.loops), factor=4)
        fetch.bind(lane, "threadIdx.x")
    return args, s


def test_a_shared_tile_serves_the_whole_group() -> None:
    """Its region is that of all work-items, not of the one whose loop it stands in."""
    args, s = cooperative_matmul(12)
    structure = lower_structure(s, args, "opencl")
    shapes = {x.buffer.name: repr(x.buffer) for x in walk(structure.function.body) if isinstance(x, Allocate)}
    assert shapes == {"A.shared": "A.shared: int32[4, 3] shared", "B.shared": "B.shared: int32[3, 4] shared"}
    check_against_reference(args, s, "opencl", matrices(12), "interpreter")


@pytest.mark.parametrize("n", [1, 4, 13])
def test_shared_tiles_that_do_not_divide(n: int) -> None:
    args, s = cooperative_matmul(n)
    check_against_reference(args, s, "opencl", matrices(n), "interpreter")


def test_two_barriers_for_any_number_of_shared_tiles() -> None:
    """Before the first is written: the last readers are done. After the last: the next ones can begin."""
    args, s = cooperative_matmul(12)
    f = lower_structure(s, args, "opencl").bind()
    loop = next(x for x in walk(f.body) if isinstance(x, For) and any(isinstance(y, Barrier) for y in walk(x)))
    kinds = [type(x).__name__ for x in walk(loop.body) if isinstance(x, (Barrier, Produce))]
    assert kinds == ["Barrier", "Produce", "Produce", "Barrier"]
    assert sum(isinstance(x, Barrier) for x in walk(f.body)) == 2


def test_a_missing_barrier_is_found_by_the_interpreter() -> None:
    """It reports two work-items that touch an element between the same barriers, one of them writing."""
    args, s = cooperative_matmul(12)
    f = lower_structure(s, args, "opencl").bind()
    barriers = [x for x in walk(f.body) if isinstance(x, Barrier)]
    out = np.zeros((12, 12), np.int32)
    interpret(f, [*matrices(12), out])
    for left_out in barriers:
        g = f.with_body(map_stmt(f.body, on_stmt=lambda x, gone=left_out: Seq(()) if x is gone else x))
        with pytest.raises(BuildError, match="no barrier between|never written"):
            interpret(g, [*matrices(12), out])


def test_a_shared_stage_inside_a_shared_stage() -> None:
    """The inner one is read and replaced while the outer one is being added up."""
    args, s = matmul(8)
    c, total = s["C"], s[s.cache_write("C", "shared")]
    c.bind("i", "blockIdx.x")
    c.bind("j", "threadIdx.x")
    total.compute_at(c, "i")
    j, k = total.loops[1:]
    outer, inner = total.split(k, factor=2)
    total.reorder(outer, j, inner)
    total.bind(j, "threadIdx.x")
    fetch = s[s.cache_read("B", "shared", total)]
    fetch.compute_at(total, outer)
    fetch.bind(fetch.loops[1], "threadIdx.x")
    check_against_reference(args, s, "opencl", matrices(8), "interpreter")


@pytest.mark.parametrize("n", [5, 13, "n"])
def test_no_barrier_stands_in_a_branch(n: int | str) -> None:
    """Found on PoCL 3.0, which then loses other conditions of the branch and writes out of bounds:
    ragged blocks are not split off where work-items meet, their guards stay inside."""
    args, s = cooperative_matmul(n if isinstance(n, int) else te.var(n))
    f = lower_structure(s, args, "opencl").bind()

    def check(s: Stmt, branch: bool) -> None:
        assert not (branch and isinstance(s, Barrier))
        for c in children(s):
            check(c, branch or isinstance(s, If))

    check(f.body, False)
    assert any(isinstance(x, If) for x in walk(f.body))


def test_shared_tiles_on_a_device() -> None:
    args, s = cooperative_matmul(13)
    check_against_reference(args, s, "opencl", matrices(13))


def test_work_items_without_a_part_in_a_fetch_keep_out_of_it() -> None:
    """A.shared is fetched along threadIdx.x, and the group has threadIdx.y too: one row does it."""
    args, s = cooperative_matmul(12)
    f = lower_structure(s, args, "opencl").bind()
    text = format_function(f)
    assert text.count("if (threadIdx.y <= 0) {") == 2
    assert "barrier" in text


def test_a_reduction_in_a_group_adds_up_once() -> None:
    """Found by random schedules: work-items that had no part in a loop all added to its sums."""
    n = te.var("n")
    a = te.placeholder((n, 8), "int32", name="A")
    k = te.reduce_axis((0, 8), name="k")
    total = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="total")
    b = te.compute((n, 8), lambda i, j: a[i, j] - total[i], name="B")
    args = [a, b]
    s = create_schedule(b)
    s[b].bind("i", "blockIdx.x")
    s[b].bind("j", "threadIdx.x")
    s[total].compute_at(s[b], "i")  # shared by the group, computed by one of its work-items
    values = np.random.default_rng(0).integers(-9, 9, (3, 8)).astype(np.int32)
    check_against_reference(args, s, "opencl", [values], "interpreter")
    assert "shared" in str(lower_structure(s, args, "opencl"))


def test_who_stores_is_told_by_loops_and_not_by_indices() -> None:
    """Found by random schedules: an index that was simplified to a number looked like everybody's."""
    a = te.placeholder((4, 1), "int32", name="A")
    b = te.compute((4, 2), lambda i, j: te.if_then_else(j < 1, a[i, j], 0), name="B")
    s = create_schedule(b)
    s[b].reorder("j", "i")
    s[b].bind("i", "blockIdx.x")
    s[b].bind("j", "threadIdx.x")
    values = np.arange(4, dtype=np.int32).reshape(4, 1)
    check_against_reference([a, b], s, "opencl", [values], "interpreter")


def test_a_root_stage_is_computed_by_one_of_the_idle_work_items() -> None:
    """The work-items that a shared stage asks for have nothing to do in its reader."""
    n = te.var("n")
    a = te.placeholder((n, 8), "int32", name="A")
    b = te.compute((n, 8), lambda i, j: a[i, j] + 1, name="B")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((n,), lambda i: te.sum(b[i, k], axis=k), name="C")
    s = create_schedule(c)
    s[c].bind("i", "blockIdx.x")
    s[b].compute_at(s[c], "i")
    s[b].bind("j", "threadIdx.x")
    values = np.random.default_rng(0).integers(-9, 9, (3, 8)).astype(np.int32)
    for backend in ("interpreter", "native"):
        check_against_reference([a, c], s, "opencl", [values], backend)


def test_the_scope_follows_the_attach_point() -> None:
    """Inside threadIdx: the work-item's own. Inside blockIdx only: the group's. At the root: the device's."""
    a = te.placeholder((4, 16), "int32", name="A")
    b = te.compute((4, 16), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((4, 16), lambda i, j: b[i, j] * 2, name="C")
    scopes = {}
    for loop in ("j.outer", "j.inner", None):
        s = create_schedule(c)
        outer, inner = s[c].split("j", factor=4)
        s[c].bind(outer, "blockIdx.x")
        s[c].bind(inner, "threadIdx.x")
        if loop is not None:
            s[b].compute_at(s[c], loop)
        f = lower_structure(s, [a, c], "opencl").bind()
        scopes[loop] = next(x.buffer.scope for x in walk(f.body) if isinstance(x, Allocate))
        check_against_reference([a, c], s, "opencl", [np.arange(64, dtype=np.int32).reshape(4, 16)], "interpreter")
    assert scopes == {"j.inner": "local", "j.outer": "shared", None: "global"}


def test_each_root_stage_is_a_kernel() -> None:
    n = te.var("n")
    a = te.placeholder((n,), "int32", name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    c = te.compute((n,), lambda i: b[i] * 2, name="C")
    s = create_schedule(c)
    for stage in ("B", "C"):
        outer, inner = s[stage].split("i", factor=32)
        s[stage].bind(outer, "blockIdx.x")
        s[stage].bind(inner, "threadIdx.x")
    f = lower_structure(s, [a, c], "opencl").bind()
    launches = [x for x in walk(f.body) if isinstance(x, Launch)]
    assert [x.name for x in launches] == ["main_B_kernel", "main_C_kernel"]
    for launch in launches:
        assert repr(launch.grid[0]) == "(n + 31)//32"
        assert [repr(e) for e in (*launch.grid[1:], *launch.block)] == ["1", "1", "32", "1", "1"]
        assert not any(isinstance(x, For) for x in walk(launch.body))
    assert isinstance(f.body, Allocate)
    assert f.body.buffer.scope == "global"


def test_without_bindings_a_kernel_is_one_work_item() -> None:
    args, s = matmul(3)
    f = lower_structure(s, args, "opencl").bind()
    launch = next(x for x in walk(f.body) if isinstance(x, Launch))
    assert [repr(e) for e in (*launch.grid, *launch.block)] == ["1"] * 6
    check_against_reference(args, s, "opencl", matrices(3), "interpreter")


def test_loops_of_different_length_on_one_axis() -> None:
    """The launch is as long as the longest; the shorter loop's work-items are guarded."""
    a = te.placeholder((4, 6), "int32", name="A")
    b = te.compute((4, 6), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((4, 6), lambda i, j: b[i, 5 - j], name="C")
    s = create_schedule(c)
    s[c].bind("i", "blockIdx.x")
    _, inner = s[c].split("j", factor=4)
    s[c].bind(inner, "threadIdx.x")
    s[b].compute_at(s[c], "i")
    s[b].bind("j", "threadIdx.x")
    f = lower_structure(s, [a, c], "opencl").bind()
    assert repr(next(x for x in walk(f.body) if isinstance(x, Launch)).block[0]) == "6"
    for backend in ("interpreter", "native"):
        check_against_reference([a, c], s, "opencl", [np.arange(24, dtype=np.int32).reshape(4, 6)], backend)


def test_a_stage_deep_inside_others_still_meets_at_its_barrier() -> None:
    """Guards of every stage around a shared one are kept inside it."""
    n = te.var("n")
    a = te.placeholder((n, 4), "int32", name="A")
    b = te.compute((n, 4), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((n, 4), lambda i, j: b[i, j] * 2, name="C")
    s = create_schedule(c)
    outer, inner = s[c].split("i", factor=4)
    s[c].bind(outer, "blockIdx.x")
    s[c].bind(inner, "threadIdx.x")
    s[b].compute_at(s[c], inner)
    s.cache_read(a, "shared", b)
    s["A.shared"].compute_at(s[b], "j")
    for length in (1, 4, 6):
        values = np.arange(length * 4, dtype=np.int32).reshape(length, 4)
        check_against_reference([a, c], s, "opencl", [values], "interpreter")


def test_loops_are_not_cut_where_each_work_item_would_cut_them_elsewhere() -> None:
    """Work-items run in step: each would go through the pieces of all. A block may still choose."""
    a = te.placeholder((64,), "int32", name="A")
    k = te.reduce_axis((0, 9), name="k")
    b = te.compute((64,), lambda i: te.sum(a[te.max(te.min(i + k - 4, 63), 0)], axis=k), name="B")
    s = create_schedule(b)
    outer, inner = s[b].split("i", factor=8)
    s[b].bind(outer, "blockIdx.x")
    s[b].bind(inner, "threadIdx.x")
    f = lower_structure(s, [a, b], "opencl").bind()
    loops = [x for x in walk(f.body) if isinstance(x, For)]
    assert 1 <= len(loops) <= 2
    assert all(repr(x.extent) == "9" for x in loops)
    check_against_reference([a, b], s, "opencl", [np.arange(64, dtype=np.int32)], "interpreter")


def test_stores_of_a_kernel_are_guarded_at_the_ragged_end() -> None:
    n = te.var("n")
    a = te.placeholder((n,), "int32", name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    s = create_schedule(b)
    outer, inner = s[b].split("i", factor=8)
    s[b].bind(outer, "blockIdx.x")
    s[b].bind(inner, "threadIdx.x")
    f = lower_structure(s, [a, b], "opencl").bind()
    assert sum(isinstance(x, Store) for x in walk(f.body)) == 2  # whole groups, and the last one
    for length in (1, 7, 8, 9, 16):
        check_against_reference([a, b], s, "opencl", [np.arange(length, dtype=np.int32)], "interpreter")
